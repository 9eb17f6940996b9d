//! From text to the atoms of a packet filter.

use packet_filter::limit;
use packet_filter::{Atom, Compare};

use crate::meaning::formula;
use crate::normal_form::{Product, products};
use crate::test::{Base, Field, Test};
use crate::{Refusal, parse};

/// Where the IPv4 header begins in a frame. The bytes after it are reached by moving the base of the atoms by that
/// header's length, so that their offsets keep this part.
const NETWORK_HEADER: u16 = 14;

/// Translates an expression into a filter's atoms, which [`packet_filter`] accepts.
///
/// # Errors
/// What in the text cannot be understood or is not translated, where, and what to write instead. It also refuses a
/// filter that no packet could match, and one that needs more conjunctions or atoms than a filter may have.
pub fn compile(text: &str) -> Result<Vec<Atom>, Refusal> {
    let expression = parse(text)?;
    let found = products(&formula(&expression)).ok().filter(|found| found.len() <= limit::CONJUNCTIONS);
    let Some(found) = found else {
        let advice = format!(
            "the expression needs more than {} alternatives once it is multiplied out: split it at an `or` into several filters, or narrow it with a protocol",
            limit::CONJUNCTIONS
        );
        return Err(Refusal::new(0, advice));
    };
    if found.is_empty() {
        return Err(Refusal::new(0, "no packet can match: two tests joined by `and` contradict each other"));
    }
    let mut atoms = Vec::new();
    for (number, product) in found.iter().enumerate() {
        atoms.extend(conjunction(number as u8, product)?);
    }
    Ok(atoms)
}

/// The atoms of one product: tests of the frame, then the move over the IPv4 header,
/// then tests of what follows it. There is at least one: every primitive has a test.
fn conjunction(number: u8, product: &Product) -> Result<Vec<Atom>, Refusal> {
    let on = |base| product.iter().filter(move |test| test.field.base == base);
    let mut atoms: Vec<Atom> = on(Base::Frame).map(atom).collect();
    if on(Base::AfterIpHeader).next().is_some() {
        atoms.push(header_length());
    }
    atoms.extend(on(Base::AfterIpHeader).map(atom));
    atoms.iter_mut().for_each(|atom| atom.conjunction = number);
    if atoms.len() <= limit::ATOMS {
        return Ok(atoms);
    }
    let advice =
        format!("one alternative needs {} atoms, of {} at most: leave out some tests", atoms.len(), limit::ATOMS);
    Err(Refusal::new(0, advice))
}

fn atom(test: &Test) -> Atom {
    let (compare, high) = match (test.within, test.first == test.last) {
        (true, true) => (Compare::Equal, 0),
        (true, false) => (Compare::Within, test.last),
        (false, true) if test.first & !test.mask == 0 => (Compare::NotEqual, 0),
        (false, _) => (Compare::Outside, test.last),
    };
    let Field { base, offset, size } = test.field;
    let from_base = match base {
        Base::Frame => 0,
        Base::AfterIpHeader => NETWORK_HEADER,
    };
    Atom {
        compare: compare as u8,
        size,
        offset: u32::from(from_base + offset),
        mask: test.mask,
        low: test.first,
        high,
        ..Atom::default()
    }
}

/// Moves the base by four times the low four bits of the IPv4 header's first byte.
fn header_length() -> Atom {
    Atom {
        compare: Compare::Shift as u8,
        size: 1,
        shift: 2,
        offset: u32::from(NETWORK_HEADER),
        mask: 0x0f,
        ..Atom::default()
    }
}
