//! Registers that move in step: an index that is counted up, and a pointer that compilers move by the size of an
//! element with it. One is then the other times a factor plus a constant, modulo 2^64; of a pointer its offset
//! counts. What a jump says of the index is therefore known of the pointer.
//!
//! A tie comes from arithmetic on a copy, or from a meeting of two states in both of which it holds. One is on the
//! way into a loop, the other after one round of it. It lasts until one of both registers changes otherwise than by a
//! constant. It is an equation of values and never rests on jumps by itself; what is learnt through it does (see
//! [`super::guarded`]).

use super::scalar::Scalar;
use super::state::{State, TRACKED_REGISTERS};
use super::value::{Kind, Value};

/// The register that has it is `factor * base + constant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tie {
    pub(crate) base: u8,
    pub(crate) factor: i16,
    pub(crate) constant: i32,
}

impl Tie {
    /// The same in terms of another register, which is `base + difference`.
    fn to(self, base: u8, difference: i32) -> Option<Self> {
        let constant = i64::from(self.constant) - i64::from(self.factor) * i64::from(difference);
        i32::try_from(constant).ok().map(|constant| Self { base, constant, ..self })
    }
}

/// A value in terms of a register, or of none: `factor * base + constant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Linear {
    base: Option<u8>,
    factor: i64,
    constant: i64,
}

impl Linear {
    fn tie(self) -> Option<Tie> {
        let (factor, constant) = (i16::try_from(self.factor).ok()?, i32::try_from(self.constant).ok()?);
        self.base.filter(|_| factor != 0).map(|base| Tie { base, factor, constant })
    }

    fn plus(self, other: Self) -> Option<Self> {
        let constant = self.constant + other.constant;
        match (self.base, other.base) {
            (_, None) => Some(Self { constant, ..self }),
            (None, _) => Some(Self { constant, ..other }),
            (first, second) if first == second => {
                Some(Self { base: first, factor: self.factor + other.factor, constant })
            }
            _ => None,
        }
    }

    /// Which tie to `other` this has.
    fn in_terms_of(self, other: Self) -> Option<(i64, i64)> {
        let same = self.base.is_some() && self.base == other.base && self.factor % other.factor == 0;
        let factor = same.then(|| self.factor / other.factor)?;
        Some((factor, self.constant - factor * other.constant))
    }
}

/// The tie of each register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ties([Option<Tie>; TRACKED_REGISTERS]);

impl Ties {
    pub(crate) const NONE: Self = Self([None; TRACKED_REGISTERS]);

    pub(crate) fn get(&self, register: u8) -> Option<Tie> {
        self.0.get(usize::from(register)).copied().flatten()
    }

    /// A register gets another value. What was tied to its old one is tied to a register that differs from that by a
    /// constant, if there is one.
    pub(crate) fn overwrite(&mut self, register: u8, new: Option<Tie>) {
        let heir = (0..TRACKED_REGISTERS as u8)
            .filter(|heir| *heir != register)
            .find_map(|heir| Some((heir, self.get(heir).filter(|tie| tie.base == register && tie.factor == 1)?)));
        let moved = |tie: Tie| match heir {
            _ if tie.base != register => Some(tie),
            Some((heir, difference)) => tie.to(heir, difference.constant),
            None => None,
        };
        let rebased = core::array::from_fn(|own| {
            let own_tie = self.0[own].and_then(moved);
            own_tie.filter(|tie| usize::from(tie.base) != own)
        });
        let new = new.and_then(moved).filter(|tie| tie.base != register);
        self.0 = rebased;
        if let Some(place) = self.0.get_mut(usize::from(register)) {
            *place = new;
        }
    }

    /// A register is moved by a constant.
    pub(crate) fn step(&mut self, register: u8, by: i64) {
        for (own, tie) in self.0.iter_mut().enumerate() {
            let Some(old) = *tie else { continue };
            let moved = match (own == usize::from(register), old.base == register) {
                (true, _) => i64::from(old.constant).checked_add(by),
                (_, true) => {
                    i64::from(old.factor).checked_mul(by).and_then(|by| i64::from(old.constant).checked_sub(by))
                }
                _ => continue,
            };
            *tie = moved.and_then(|constant| i32::try_from(constant).ok()).map(|constant| Tie { constant, ..old });
        }
    }

    /// The packed form, a word for each register.
    pub(crate) fn pack(&self) -> [u64; TRACKED_REGISTERS] {
        self.0.map(|tie| {
            tie.map_or(0, |tie| {
                u64::from(tie.base) + 1 | u64::from(tie.factor as u16) << 16 | u64::from(tie.constant as u32) << 32
            })
        })
    }

    pub(crate) fn unpack(words: &[u64; TRACKED_REGISTERS]) -> Self {
        Self(words.map(|word| {
            let base = (word as u8).checked_sub(1)?;
            Some(Tie { base, factor: (word >> 16) as i16, constant: (word >> 32) as i32 })
        }))
    }

    /// What holds in two states that meet. With `new`, ties are looked for that neither has.
    pub(crate) fn met(old: &State, other: &State, new: bool) -> Self {
        Self(core::array::from_fn(|register| {
            let register = register as u8;
            let both = |tie: &Tie| holds(old, register, tie) && holds(other, register, tie);
            let kept = old.ties.get(register).filter(both);
            let found =
                || (0..TRACKED_REGISTERS as u8).find_map(|base| candidate(old, other, register, base).filter(both));
            kept.or_else(|| if new && moves(old, other, register) { found() } else { None })
        }))
    }
}

fn moves(old: &State, other: &State, register: u8) -> bool {
    let (first, second) = (old.register(register), other.register(register));
    first != second && first.kind == second.kind && has_offset(&first)
}

/// Pointers into callers' frames have offsets from different places.
fn has_offset(value: &Value) -> bool {
    matches!(value.kind, Kind::Number | Kind::Region(_) | Kind::Stack)
}

/// A register in terms of another, of itself if there is nothing simpler.
fn linear(state: &State, register: u8) -> Option<Linear> {
    let value = state.register(register);
    if !has_offset(&value) {
        return None;
    }
    if let Some(tie) = state.ties.get(register) {
        return Some(Linear { base: Some(tie.base), factor: tie.factor.into(), constant: tie.constant.into() });
    }
    match value.scalar.as_constant() {
        Some(constant) => i32::try_from(constant as i64).ok().map(|constant| Linear {
            base: None,
            factor: 0,
            constant: constant.into(),
        }),
        None => value.is_number().then_some(Linear { base: Some(register), factor: 1, constant: 0 }),
    }
}

/// Whether a tie is true in a state.
fn holds(state: &State, register: u8, tie: &Tie) -> bool {
    if !state.register(tie.base).is_number() || !has_offset(&state.register(register)) {
        return false;
    }
    if state.ties.get(register) == Some(*tie) {
        return true;
    }
    let (Some(value), Some(base)) = (linear(state, register), linear(state, tie.base)) else { return false };
    let factor = i64::from(tie.factor);
    value.base == base.base
        && value.factor == factor * base.factor
        && value.constant == factor * base.constant + i64::from(tie.constant)
}

/// The tie that a register may have to another in two states, by what it is in them.
fn candidate(old: &State, other: &State, register: u8, base: u8) -> Option<Tie> {
    if register == base || !moves(old, other, base) || !old.register(base).is_number() {
        return None;
    }
    let (first, second) = (linear(old, register)?, linear(other, register)?);
    let (first_base, second_base) = (linear(old, base)?, linear(other, base)?);
    let constants = || {
        let (by, base_by) = (second.constant - first.constant, second_base.constant - first_base.constant);
        let all = [first, second, first_base, second_base].iter().all(|linear| linear.base.is_none());
        let factor = (all && base_by != 0 && by % base_by == 0).then(|| by / base_by)?;
        Some((factor, first.constant - factor * first_base.constant))
    };
    let terms = first.in_terms_of(first_base).or_else(|| second.in_terms_of(second_base));
    let (factor, constant) = terms.or_else(constants)?;
    Linear { base: Some(base), factor, constant }.tie()
}

impl State {
    /// The tie of a sum to what both summands are tied to, one of them a constant.
    pub(crate) fn tie_of_sum(&self, left: u8, right: u8) -> Option<Tie> {
        linear(self, left)?.plus(linear(self, right)?)?.tie()
    }

    /// The tie of a copy.
    pub(crate) fn tie_of_copy(&self, source: u8) -> Option<Tie> {
        linear(self, source)?.tie()
    }

    /// The tie of a multiple.
    pub(crate) fn tie_of_multiple(&self, register: u8, by: i64) -> Option<Tie> {
        let Linear { base, factor, constant } = linear(self, register)?;
        Linear { base, factor: factor.checked_mul(by)?, constant: constant.checked_mul(by)? }.tie()
    }
}

/// The range of `factor * base + constant`, if it does not wrap.
pub(crate) fn range(tie: Tie, base: &Scalar) -> Option<Scalar> {
    let end = |value: i64| i128::from(tie.factor) * i128::from(value) + i128::from(tie.constant);
    let (first, second) = (end(base.signed_minimum), end(base.signed_maximum));
    let (least, most) = (i64::try_from(first.min(second)).ok()?, i64::try_from(first.max(second)).ok()?);
    Some(Scalar::signed_range(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tie(base: u8, factor: i16, constant: i32) -> Tie {
        Tie { base, factor, constant }
    }

    /// r1 = 4 * r2 - 8 and r3 = r2 + 1.
    fn ties() -> Ties {
        let mut ties = Ties::NONE;
        ties.overwrite(1, Some(tie(2, 4, -8)));
        ties.overwrite(3, Some(tie(2, 1, 1)));
        ties
    }

    #[test]
    fn steps_of_either_register_keep_the_equation() {
        let mut ties = ties();
        ties.step(2, 3);
        assert_eq!((ties.get(1), ties.get(3)), (Some(tie(2, 4, -20)), Some(tie(2, 1, -2))));
        ties.step(1, 12);
        assert_eq!(ties.get(1), Some(tie(2, 4, -8)));
        ties.step(2, 1 << 40);
        assert_eq!(ties.get(1), None, "too far to be written down");
    }

    #[test]
    fn what_was_tied_to_an_old_value_is_tied_to_its_copy() {
        let mut ties = ties();
        ties.overwrite(2, None);
        assert_eq!((ties.get(1), ties.get(3)), (Some(tie(3, 4, -12)), None));
        ties.overwrite(3, None);
        assert_eq!(ties, Ties::NONE);
    }

    #[test]
    fn ties_are_packed_and_unpacked() {
        assert_eq!(Ties::unpack(&ties().pack()), ties());
        assert_eq!(Ties::unpack(&Ties::NONE.pack()), Ties::NONE);
    }

    fn at(index: u64, offset: i64) -> State {
        let mut state = State::EMPTY;
        state.set_register(6, Value::constant(index));
        state.set_register(7, Value::pointer(Kind::Region(0), offset));
        state
    }

    #[test]
    fn two_rounds_of_a_loop_show_the_step() {
        let met = |old: &State, other: &State| Ties::met(old, other, true).get(7);
        assert_eq!(met(&at(0, 4), &at(1, 12)), Some(tie(6, 8, 4)));
        assert_eq!(met(&at(9, 0), &at(7, -6)), Some(tie(6, 3, -27)));
        assert_eq!(met(&at(0, 0), &at(2, 3)), None, "no whole factor");
        assert_eq!(met(&at(0, 0), &at(0, 4)), None, "the index stands still");
        assert_eq!(Ties::met(&at(0, 0), &at(1, 4), false), Ties::NONE, "none is looked for");
    }

    #[test]
    fn ranges_follow_the_factor_or_are_unknown() {
        let base = Scalar::range(2, 10);
        assert_eq!(range(tie(0, 4, -8), &base), Some(Scalar::signed_range(0, 32)));
        assert_eq!(range(tie(0, -1, 3), &base), Some(Scalar::signed_range(-7, 1)));
        assert_eq!(range(tie(0, 2, 0), &Scalar::UNKNOWN), None);
    }
}
