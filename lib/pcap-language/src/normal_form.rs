//! A formula as a sum of products of tests, kept short.
//!
//! Negation is pushed down to the tests, and sums are multiplied out step by step. After each step impossible
//! products are dropped, and so is each product that another one already covers.

use crate::meaning::Formula;
use crate::test::Test;

/// The most products at any step: more is refused long before it grows.
const PRODUCTS_WHILE_WORKING_MAX: usize = 1024;

/// The most comparisons of one product with another, all steps together.
const COMPARISONS_MAX: usize = 1 << 21;

/// Tests that must all hold, in order, none of them implied by another. Empty: always.
pub type Product = Vec<Test>;

/// The formula grew beyond any filter while it was multiplied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyProducts;

/// The products of `formula`: it is true for a packet when all tests of one product
/// hold. No products: never true.
///
/// # Errors
/// The work would exceed its fixed bound.
pub fn products(formula: &Formula) -> Result<Vec<Product>, TooManyProducts> {
    Work { comparisons_left: COMPARISONS_MAX }.expand(formula, true)
}

/// What may still be spent.
struct Work {
    comparisons_left: usize,
}

impl Work {
    /// The products of `formula`, or of its opposite when `positive` is false.
    fn expand(&mut self, formula: &Formula, positive: bool) -> Result<Vec<Product>, TooManyProducts> {
        match formula {
            Formula::Constant(value) if *value == positive => Ok(vec![Product::new()]),
            Formula::Constant(_) => Ok(Vec::new()),
            Formula::Test(test) => Ok(single(if positive { *test } else { test.opposite() })),
            Formula::Not(inner) => self.expand(inner, !positive),
            Formula::All(parts) if positive => self.multiply_all(parts, positive),
            Formula::Any(parts) if !positive => self.multiply_all(parts, positive),
            Formula::All(parts) | Formula::Any(parts) => self.add_all(parts, positive),
        }
    }

    fn add_all(&mut self, parts: &[Formula], positive: bool) -> Result<Vec<Product>, TooManyProducts> {
        let mut sum = Vec::new();
        for part in parts {
            sum.extend(self.expand(part, positive)?);
            sum = self.without_covered(sum)?;
        }
        Ok(sum)
    }

    fn multiply_all(&mut self, parts: &[Formula], positive: bool) -> Result<Vec<Product>, TooManyProducts> {
        let mut product = vec![Product::new()];
        for part in parts {
            let right = self.expand(part, positive)?;
            let pairs = product.iter().flat_map(|one| right.iter().map(move |other| (one, other)));
            let possible = pairs.filter_map(|(one, other)| both(one, other)).collect();
            product = self.without_covered(possible)?;
        }
        Ok(product)
    }

    /// The products without those that another one covers; of equal ones the first stays.
    fn without_covered(&mut self, mut products: Vec<Product>) -> Result<Vec<Product>, TooManyProducts> {
        products.sort_by_key(Vec::len);
        let mut kept: Vec<Product> = Vec::new();
        for product in products {
            self.comparisons_left = self.comparisons_left.checked_sub(kept.len()).ok_or(TooManyProducts)?;
            if !kept.iter().any(|wider| covers(wider, &product)) {
                kept.push(product);
            }
        }
        if kept.len() > PRODUCTS_WHILE_WORKING_MAX { Err(TooManyProducts) } else { Ok(kept) }
    }
}

/// The sum that one test is.
fn single(test: Test) -> Vec<Product> {
    if test.is_impossible() { Vec::new() } else { vec![vec![test]] }
}

/// The product of two products; `None` when no packet can match both.
fn both(one: &Product, other: &Product) -> Option<Product> {
    let mut product = one.clone();
    for &test in other {
        insert(&mut product, test)?;
    }
    product.sort_unstable();
    Some(product)
}

/// Adds a test to a product, joined with those of the same bits; `None` when that
/// leaves no value.
fn insert(product: &mut Product, mut test: Test) -> Option<()> {
    let mut index = 0;
    while index < product.len() {
        let present = product[index];
        if contradict(present, test) {
            return None;
        }
        if (present.field, present.mask) != (test.field, test.mask) {
            index += 1;
            continue;
        }
        match join(present, test) {
            Join::Impossible => return None,
            Join::Separate => index += 1,
            Join::One(joined) if joined == present => return Some(()),
            Join::One(joined) => {
                product.swap_remove(index);
                test = joined;
                index = 0;
            }
        }
    }
    product.push(test);
    Some(())
}

/// Whether two tests want one bit of a field to be both 0 and 1.
fn contradict(one: Test, other: Test) -> bool {
    let exact = |test: Test| test.within && test.first == test.last;
    let both_exact = one.field == other.field && exact(one) && exact(other);
    both_exact && (one.first ^ other.first) & one.mask & other.mask != 0
}

/// Two tests of the same bits, as one where that can be.
enum Join {
    Impossible,
    One(Test),
    Separate,
}

fn join(one: Test, other: Test) -> Join {
    match (one.within, other.within) {
        (true, true) => {
            let (first, last) = (one.first.max(other.first), one.last.min(other.last));
            if first > last { Join::Impossible } else { Join::One(Test { first, last, ..one }) }
        }
        (true, false) => cut(one, other),
        (false, true) => cut(other, one),
        (false, false) if implies(one, other) => Join::One(one),
        (false, false) if implies(other, one) => Join::One(other),
        (false, false) => Join::Separate,
    }
}

/// What the test `hole` leaves of the interval `within`.
fn cut(within: Test, hole: Test) -> Join {
    let below = hole.first > within.first;
    let above = hole.last < within.last;
    if hole.last < within.first || hole.first > within.last {
        return Join::One(within);
    }
    match (below, above) {
        (false, false) => Join::Impossible,
        (true, false) => Join::One(Test { last: hole.first - 1, ..within }),
        (false, true) => Join::One(Test { first: hole.last + 1, ..within }),
        (true, true) => Join::Separate,
    }
}

/// Whether `one` holds only where `other` holds; both test the same bits.
fn implies(one: Test, other: Test) -> bool {
    let inside = |inner: Test, outer: Test| outer.first <= inner.first && inner.last <= outer.last;
    match (one.within, other.within) {
        (true, true) => inside(one, other),
        (true, false) => one.last < other.first || one.first > other.last,
        (false, true) => false,
        (false, false) => inside(other, one),
    }
}

/// Whether every packet that matches `product` matches `wider` too.
fn covers(wider: &Product, product: &Product) -> bool {
    let implied = |needed: &Test| {
        let same_bits = |test: &&Test| (test.field, test.mask) == (needed.field, needed.mask);
        product.iter().filter(same_bits).any(|test| implies(*test, *needed))
    };
    wider.iter().all(implied)
}
