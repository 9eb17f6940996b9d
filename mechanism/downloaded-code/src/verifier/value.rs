//! What is known about one register or stack slot.

use super::guarded::Guarded;
use super::scalar::Scalar;
use super::tnum::Tnum;
use crate::refusal::Known;

/// Words that one packed value takes.
pub(crate) const VALUE_WORDS: usize = 9;

/// Which kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Left by a call, or never written in a frame: of no use.
    Uninitialised,
    /// Not written since its function started. Where it meets a number it counts as zero.
    Unwritten,
    /// Different kinds on different paths.
    DependsOnPath,
    /// A number; [`Value::scalar`] says which.
    Number,
    /// A pointer into the region with this index; the scalar is its offset from the region's start.
    Region(u8),
    /// A pointer into the function's own frame; the scalar is its offset from r10.
    Stack,
    /// A pointer into a caller's frame, within an object that the caller passed: from `before` bytes before the
    /// place that was passed to `after` bytes from it on. The scalar is the offset from that place.
    CallersStack {
        /// Usable bytes before.
        before: u16,
        /// Usable bytes from it on.
        after: u16,
    },
}

/// The relation of a number, or of a pointer's offset, to the length of a region: `value + slack <= length`, or `==`.
/// The latter holds whatever jumps do, if no jump taught it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) region: u8,
    pub(crate) exact: bool,
    /// Jumps taught nothing of it.
    pub(crate) untaught: bool,
    pub(crate) slack: i32,
}

/// A kind, a number or offset, a relation, and whether any of it is known only because of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) scalar: Scalar,
    pub(crate) relation: Option<Relation>,
    /// What of it holds only because of jumps.
    pub(crate) guarded: Guarded,
    /// What it is a copy of, give or take a constant.
    pub(crate) origin: Option<Origin>,
    /// On some path nothing was written, which counts as zero: before it is used, the function must make it so.
    pub(crate) assumed: bool,
}

/// Values with the same origin differ by the difference of their distances, modulo 2^64: what is learnt about one is
/// learnt about all. The number is that of the instruction that made the first copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) number: u16,
    pub(crate) distance: i64,
}

impl Value {
    pub(crate) const UNINITIALISED: Self = Self::of_kind(Kind::Uninitialised);
    pub(crate) const UNWRITTEN: Self = Self::of_kind(Kind::Unwritten);
    pub(crate) const DEPENDS_ON_PATH: Self = Self::of_kind(Kind::DependsOnPath);

    const fn of_kind(kind: Kind) -> Self {
        Self { kind, ..Self::number(Scalar::constant(0)) }
    }

    pub(crate) const fn number(scalar: Scalar) -> Self {
        Self { kind: Kind::Number, scalar, relation: None, guarded: Guarded::Nothing, origin: None, assumed: false }
    }

    pub(crate) const fn constant(value: u64) -> Self {
        Self::number(Scalar::constant(value))
    }

    /// A pointer at a constant offset.
    pub(crate) const fn pointer(kind: Kind, offset: i64) -> Self {
        Self { kind, ..Self::number(Scalar::constant(offset as u64)) }
    }

    pub(crate) fn is_number(&self) -> bool {
        self.kind == Kind::Number
    }

    /// What another function sees of it: only its own function makes it zero.
    pub(crate) fn seen_outside(self) -> Self {
        if self.kind == Kind::Unwritten || self.assumed { Self::UNINITIALISED } else { self }
    }

    pub(crate) fn is_pointer(&self) -> bool {
        matches!(self.kind, Kind::Region(_) | Kind::Stack | Kind::CallersStack { .. })
    }

    /// A number's value, when only one is possible.
    pub(crate) fn as_constant(&self) -> Option<u64> {
        if self.is_number() { self.scalar.as_constant() } else { None }
    }

    /// The offset of a pointer as a signed range.
    pub(crate) fn offsets(&self) -> (i64, i64) {
        (self.scalar.signed_minimum, self.scalar.signed_maximum)
    }

    /// For messages. `proven` is the length of the region that is known to exist.
    pub(crate) fn known(&self, proven: u32) -> Known {
        let (minimum, maximum) = self.offsets();
        match self.kind {
            Kind::Uninitialised | Kind::Unwritten => Known::Uninitialised,
            Kind::DependsOnPath => Known::DependsOnPath,
            Kind::Number => Known::Number { minimum: self.scalar.minimum, maximum: self.scalar.maximum },
            Kind::Region(region) => Known::Region { region, minimum, maximum, proven_length: proven },
            Kind::Stack => Known::Stack { minimum, maximum },
            Kind::CallersStack { before, after } => {
                Known::CallersStack { minimum, maximum, before: before.into(), after: after.into() }
            }
        }
    }

    /// Packs into words, together with a small number of the caller's (a slot index).
    pub(crate) fn pack(&self, tag: u8) -> [u64; VALUE_WORDS] {
        let (kind, detail) = match self.kind {
            Kind::Uninitialised => (0, 0),
            Kind::DependsOnPath => (1, 0),
            Kind::Number => (2, 0),
            Kind::Region(region) => (3, u32::from(region)),
            Kind::Stack => (4, 0),
            Kind::CallersStack { before, after } => (5, u32::from(before) | u32::from(after) << 16),
            Kind::Unwritten => (6, 0),
        };
        let relation = self.relation.map_or(0, |relation| {
            1 | u64::from(relation.exact) << 1
                | u64::from(relation.untaught) << 2
                | u64::from(relation.region) << 8
                | u64::from(relation.slack as u32) << 32
        });
        let scalar = &self.scalar;
        let (origin, distance) = self.origin.map_or((0, 0), |origin| (u64::from(origin.number) + 1, origin.distance));
        [
            kind | self.guarded.code() << 4
                | u64::from(self.assumed) << 6
                | u64::from(tag) << 8
                | u64::from(detail) << 32,
            relation | origin << 12,
            scalar.bits.value,
            scalar.bits.mask,
            scalar.minimum,
            scalar.maximum,
            scalar.signed_minimum as u64,
            scalar.signed_maximum as u64,
            distance as u64,
        ]
    }

    /// The value and the tag that [`Value::pack`] packed.
    pub(crate) fn unpack(words: &[u64; VALUE_WORDS]) -> (Self, u8) {
        let [head, relation, value, mask, minimum, maximum, signed_minimum, signed_maximum, distance] = *words;
        let detail = (head >> 32) as u32;
        let kind = match head & 15 {
            0 => Kind::Uninitialised,
            1 => Kind::DependsOnPath,
            2 => Kind::Number,
            3 => Kind::Region(detail as u8),
            4 => Kind::Stack,
            5 => Kind::CallersStack { before: detail as u16, after: (detail >> 16) as u16 },
            _ => Kind::Unwritten,
        };
        let scalar = Scalar {
            bits: Tnum { value, mask },
            minimum,
            maximum,
            signed_minimum: signed_minimum as i64,
            signed_maximum: signed_maximum as i64,
        };
        let origin = (relation >> 12 & 0xffff)
            .checked_sub(1)
            .map(|number| Origin { number: number as u16, distance: distance as i64 });
        let relation = (relation & 1 != 0).then_some(Relation {
            region: (relation >> 8) as u8 & 15,
            exact: relation & 2 != 0,
            untaught: relation & 4 != 0,
            slack: (relation >> 32) as i32,
        });
        let (guarded, assumed) = (Guarded::from_code(head >> 4), head & 64 != 0);
        (Self { kind, scalar, relation, guarded, origin, assumed }, (head >> 8) as u8)
    }
}
