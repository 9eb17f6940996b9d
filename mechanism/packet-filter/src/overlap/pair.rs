//! Can two conjunctions match the same packet?
//!
//! Each value that the shifts of both could have is tried in turn: then all places are fixed and the
//! [`Solver`] decides. Shifts that both make from the same base are one unknown. Before that, two
//! `Equal`s that contradict each other at the same place settle it, whatever the header lengths.

use super::solver::Solver;
use super::{Verdict, Witness};
use crate::condition::{Condition, Kind};
use crate::find::Fuel;
use crate::limit;

/// Bits of header lengths tried in all their combinations.
const UNKNOWN_BITS: u32 = 12;
/// Units of work after which a pair is left undecided: enough for every value of two bytes under six ranges.
const PATIENCE: u32 = 1 << 19;

/// A canonical conjunction, copied.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    conditions: [Condition; limit::ATOMS],
    length: usize,
}

impl Side {
    pub(crate) const EMPTY: Self = Self {
        conditions: [Condition {
            test: crate::condition::Test { offset: 0, size: 1, mask: 0, kind: Kind::Equal, shift: 0, low: 0, high: 0 },
            value: 0,
        }; limit::ATOMS],
        length: 0,
    };

    /// Takes the place of what was there.
    pub(crate) fn set(&mut self, conditions: impl Iterator<Item = Condition>) {
        self.length = 0;
        for condition in conditions {
            self.conditions[self.length] = condition;
            self.length += 1;
        }
    }

    /// The conditions.
    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.conditions[..self.length]
    }

    fn shifts(&self) -> impl Iterator<Item = &Condition> {
        self.conditions().iter().filter(|c| c.test.kind == Kind::Shift)
    }

    fn unknown_bits(&self) -> u32 {
        self.shifts().map(|c| c.test.mask.count_ones()).sum()
    }
}

/// The question, and how far it has been answered.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) new: Side,
    pub(crate) installed: Side,
    solver: Solver,
    /// The combination of header lengths that is tried, and one past the last.
    combination: u32,
    combinations: u32,
    placed: bool,
    undecided: bool,
    spent: u32,
}

impl Pair {
    pub(crate) const EMPTY: Self = Self {
        new: Side::EMPTY,
        installed: Side::EMPTY,
        solver: Solver::EMPTY,
        combination: 0,
        combinations: 0,
        placed: false,
        undecided: false,
        spent: 0,
    };

    /// Begins with the sides as they are set; answers at once where that is easy.
    pub(crate) fn begin(&mut self) -> Option<Verdict> {
        if contradict(self.new.conditions(), self.installed.conditions()) {
            return Some(Verdict::Apart);
        }
        let bits = self.new.unknown_bits() + self.installed.unknown_bits() - self.shared_bits();
        if bits > UNKNOWN_BITS {
            return Some(Verdict::MayMeet);
        }
        (self.combination, self.combinations) = (0, 1 << bits);
        (self.placed, self.undecided, self.spent) = (false, false, 0);
        None
    }

    /// Leaves the question open: it is then answered "may meet".
    pub(crate) fn leave_undecided(&mut self) {
        (self.combination, self.combinations, self.undecided) = (0, 0, true);
    }

    /// Continues the search. `None` when the fuel is spent.
    pub(crate) fn run(&mut self, fuel: &mut Fuel, witness: &mut Witness) -> Option<Verdict> {
        let before = fuel.0;
        let verdict = self.try_combinations(fuel, witness);
        self.spent += before - fuel.0;
        if verdict.is_none() && self.spent > PATIENCE {
            return Some(Verdict::MayMeet);
        }
        verdict
    }

    fn try_combinations(&mut self, fuel: &mut Fuel, witness: &mut Witness) -> Option<Verdict> {
        while self.combination < self.combinations {
            if !self.placed {
                if !fuel.spend(6 * (self.new.length + self.installed.length) as u32) {
                    return None;
                }
                self.placed = self.place();
                if !self.placed {
                    self.combination += 1;
                    continue;
                }
            }
            if self.solver.run(fuel, witness)? == Verdict::Meet {
                return Some(Verdict::Meet);
            }
            self.placed = false;
            self.combination += 1;
        }
        Some(if self.undecided { Verdict::MayMeet } else { Verdict::Apart })
    }

    /// How many leading shifts both make alike.
    fn shared_shifts(&self) -> usize {
        self.new.shifts().zip(self.installed.shifts()).take_while(|(a, b)| a == b).count()
    }

    fn shared_bits(&self) -> u32 {
        self.new.shifts().take(self.shared_shifts()).map(|c| c.test.mask.count_ones()).sum()
    }

    /// Hands the solver all conditions at the places this combination gives them.
    fn place(&mut self) -> bool {
        self.solver.clear();
        let shared = self.shared_shifts();
        let mut bits = self.combination;
        let mut common = [0; limit::SHIFTS];
        for (field, shift) in common.iter_mut().zip(self.new.shifts().take(shared)) {
            *field = deposit(&mut bits, shift.test.mask);
        }
        for side in [&self.new, &self.installed] {
            let (mut base, mut shifts) = (0, 0);
            for condition in side.conditions() {
                if condition.test.kind != Kind::Shift {
                    self.solver.add(base, condition);
                    continue;
                }
                let value = if shifts < shared { common[shifts] } else { deposit(&mut bits, condition.test.mask) };
                self.solver.add(base, &Condition { value, ..*condition });
                base += condition.test.distance(value);
                self.solver.require_length(base);
                shifts += 1;
            }
        }
        self.solver.prepare()
    }
}

/// Takes as many low bits of `bits` as `mask` has ones, and spreads them to where those are.
fn deposit(bits: &mut u32, mask: u32) -> u32 {
    let (mut left, mut value) = (mask, 0);
    while left != 0 {
        let lowest = left & left.wrapping_neg();
        if *bits & 1 != 0 {
            value |= lowest;
        }
        *bits >>= 1;
        left ^= lowest;
    }
    value
}

/// Whether two `Equal`s about the same bytes from the same base contradict each other. Compares stretch by stretch as
/// long as both sides shift alike.
fn contradict(a: &[Condition], b: &[Condition]) -> bool {
    let (mut a, mut b) = (a, b);
    loop {
        let (end_a, end_b) = (stretch_end(a), stretch_end(b));
        if a[..end_a].iter().any(|x| b[..end_b].iter().any(|y| differ(x, y))) {
            return true;
        }
        match (a.get(end_a), b.get(end_b)) {
            (Some(x), Some(y)) if x == y => (a, b) = (&a[end_a + 1..], &b[end_b + 1..]),
            _ => return false,
        }
    }
}

fn stretch_end(conditions: &[Condition]) -> usize {
    conditions.iter().position(|c| c.test.kind == Kind::Shift).unwrap_or(conditions.len())
}

fn differ(a: &Condition, b: &Condition) -> bool {
    let same_field = a.test.offset == b.test.offset && a.test.size == b.test.size;
    match (a.test.kind, b.test.kind) {
        (Kind::Equal, Kind::Equal) if same_field => (a.value ^ b.value) & a.test.mask & b.test.mask != 0,
        (Kind::Within, Kind::Within) if same_field && a.test.mask == b.test.mask => {
            a.test.high < b.test.low || b.test.high < a.test.low
        }
        (Kind::Equal, Kind::Within) if same_field && a.test.mask == b.test.mask => !b.test.passes(a.value),
        (Kind::Within, Kind::Equal) if same_field && a.test.mask == b.test.mask => !a.test.passes(b.value),
        _ => false,
    }
}
