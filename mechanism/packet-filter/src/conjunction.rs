//! Checking a conjunction and bringing it into canonical form.
//!
//! Canonical: within each stretch between shifts the conditions are sorted by place and equal places are joined.
//! `NotEqual` is a range, and one-value ranges are `Equal`. A range over everything is an `Equal` under mask 0, which
//! still asks for the length. Two conjunctions with the same meaning atom for atom therefore have the same form, and
//! share their prefix in the merged structure.

use crate::atom::{Atom, Compare};
use crate::condition::{Condition, Kind, Test};
use crate::limit;
use crate::refusal::{Reason, Refusal};

/// A checked conjunction in canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conjunction {
    conditions: [Condition; limit::ATOMS],
    length: usize,
    /// Where the stretch after the last shift begins.
    stretch: usize,
}

impl Conjunction {
    /// Checks the atoms of one conjunction.
    pub(crate) fn check(number: usize, atoms: &[Atom]) -> Result<Self, Refusal> {
        let mut checked = Self { conditions: [Condition::default(); limit::ATOMS], length: 0, stretch: 0 };
        if atoms.len() > limit::ATOMS {
            return Err(Refusal::at(number, limit::ATOMS, Reason::TooManyAtoms));
        }
        for (index, atom) in atoms.iter().enumerate() {
            check_atom(atom)
                .and_then(|condition| checked.add(condition))
                .map_err(|reason| Refusal::at(number, index, reason))?;
        }
        checked.sort_stretch();
        Ok(checked)
    }

    /// The conditions, in canonical order.
    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.conditions[..self.length]
    }

    fn add(&mut self, condition: Condition) -> Result<(), Reason> {
        if condition.test.kind == Kind::Shift {
            return self.end_stretch(condition);
        }
        let mut condition = condition;
        let mut index = self.stretch;
        while index < self.length {
            match join(&self.conditions[index], &condition)? {
                None => index += 1,
                Some(joined) => {
                    self.length -= 1;
                    self.conditions.swap(index, self.length);
                    condition = joined;
                    index = self.stretch;
                }
            }
        }
        self.push(condition);
        Ok(())
    }

    fn end_stretch(&mut self, shift: Condition) -> Result<(), Reason> {
        let shifts = self.conditions().iter().filter(|c| c.test.kind == Kind::Shift).count();
        if shifts == limit::SHIFTS {
            return Err(Reason::TooManyShifts);
        }
        self.sort_stretch();
        self.push(shift);
        self.stretch = self.length;
        Ok(())
    }

    fn push(&mut self, condition: Condition) {
        self.conditions[self.length] = condition;
        self.length += 1;
    }

    fn sort_stretch(&mut self) {
        self.conditions[self.stretch..self.length].sort_unstable();
    }
}

/// Checks one atom by itself.
fn check_atom(atom: &Atom) -> Result<Condition, Reason> {
    let compare = Compare::from_code(atom.compare).ok_or(Reason::UnknownCompare(atom.compare))?;
    if !matches!(atom.size, 1 | 2 | 4) {
        return Err(Reason::Size(atom.size));
    }
    if atom.offset > limit::OFFSET {
        return Err(Reason::Offset(atom.offset));
    }
    let test = Test { offset: atom.offset, size: atom.size, mask: atom.mask, ..Test::default() };
    if atom.mask & !test.all_bits() != 0 {
        return Err(Reason::MaskTooWide(atom.mask));
    }
    match compare {
        Compare::Shift => check_shift(test, atom),
        _ if atom.shift != 0 => Err(Reason::UnusedField),
        Compare::Equal | Compare::NotEqual => check_value(test, atom, compare),
        Compare::Within | Compare::Outside => check_range(test, atom, compare),
    }
}

fn check_shift(test: Test, atom: &Atom) -> Result<Condition, Reason> {
    if atom.low != 0 || atom.high != 0 {
        return Err(Reason::UnusedField);
    }
    if atom.shift.unsigned_abs() > 31 {
        return Err(Reason::ShiftBits(atom.shift));
    }
    let furthest =
        if atom.shift >= 0 { u64::from(atom.mask) << atom.shift } else { u64::from(atom.mask >> -atom.shift) };
    if furthest > u64::from(limit::SHIFT_DISTANCE) {
        return Err(Reason::ShiftDistance);
    }
    let mask = if atom.shift < 0 { test.mask & (u32::MAX << -atom.shift) } else { test.mask };
    Ok(Condition { test: Test { kind: Kind::Shift, shift: atom.shift, mask, ..test }, value: 0 })
}

fn check_value(test: Test, atom: &Atom, compare: Compare) -> Result<Condition, Reason> {
    if atom.high != 0 {
        return Err(Reason::UnusedField);
    }
    if atom.low & !atom.mask != 0 {
        return Err(Reason::ValueOutsideMask(atom.low));
    }
    match compare {
        Compare::Equal => Ok(Condition { test, value: atom.low }),
        _ => outside(test, atom.low, atom.low),
    }
}

fn check_range(test: Test, atom: &Atom, compare: Compare) -> Result<Condition, Reason> {
    let high = atom.high.min(atom.mask);
    if atom.low > high {
        return Err(Reason::EmptyRange);
    }
    match compare {
        Compare::Within => Ok(within(test, atom.low, high)),
        _ => outside(test, atom.low, high),
    }
}

/// The canonical condition for `low..=high`.
fn within(test: Test, low: u32, high: u32) -> Condition {
    if low == 0 && high >= test.mask {
        return Condition { test: Test { mask: 0, kind: Kind::Equal, low: 0, high: 0, ..test }, value: 0 };
    }
    if low == high && low & !test.mask == 0 {
        return Condition { test: Test { kind: Kind::Equal, low: 0, high: 0, ..test }, value: low };
    }
    Condition { test: Test { kind: Kind::Within, low, high, ..test }, value: 0 }
}

/// The canonical condition for all but `low..=high`.
fn outside(test: Test, low: u32, high: u32) -> Result<Condition, Reason> {
    match (low == 0, high >= test.mask) {
        (true, true) => Err(Reason::EmptyRange),
        (true, false) => Ok(within(test, high + 1, test.mask)),
        (false, true) => Ok(within(test, 0, low - 1)),
        (false, false) => Ok(Condition { test: Test { kind: Kind::Outside, low, high, ..test }, value: 0 }),
    }
}

/// One condition in the place of two at the same place, where there is one.
fn join(a: &Condition, b: &Condition) -> Result<Option<Condition>, Reason> {
    if a.test.offset != b.test.offset || a.test.size != b.test.size {
        return Ok(None);
    }
    match (a.test.kind, b.test.kind) {
        (Kind::Equal, Kind::Equal) if (a.value ^ b.value) & a.test.mask & b.test.mask != 0 => Err(Reason::NeverHolds),
        (Kind::Equal, Kind::Equal) => {
            let test = Test { mask: a.test.mask | b.test.mask, ..a.test };
            Ok(Some(Condition { test, value: a.value | b.value }))
        }
        (Kind::Within, Kind::Within) if a.test.mask == b.test.mask => {
            let (low, high) = (a.test.low.max(b.test.low), a.test.high.min(b.test.high));
            if low > high { Err(Reason::NeverHolds) } else { Ok(Some(within(a.test, low, high))) }
        }
        _ if a == b => Ok(Some(*a)),
        _ => Ok(None),
    }
}
