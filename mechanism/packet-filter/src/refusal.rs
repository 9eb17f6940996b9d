//! Why a filter was refused: where, what was wrong, and what to do.

use crate::classifier::FilterId;
use crate::limit;
use core::fmt;

/// A refusal. A refused call has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The conjunction at fault, counted from 0, where there is one.
    pub conjunction: Option<u8>,
    /// The atom at fault, counted from 0 in its conjunction, where there is one.
    pub atom: Option<u8>,
    /// What was wrong.
    pub reason: Reason,
}

/// What was wrong with a filter, or with the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The array is empty.
    NoAtoms,
    /// More than [`limit::FILTER_ATOMS`] atoms, or [`limit::ATOMS`] in one conjunction.
    TooManyAtoms,
    /// More than [`limit::CONJUNCTIONS`] conjunctions.
    TooManyConjunctions,
    /// The conjunction numbers do not start at 0 or skip one or go back.
    ConjunctionOrder,
    /// No comparison has this code.
    UnknownCompare(u8),
    /// The size is none of 1, 2, 4.
    Size(u8),
    /// The offset is above [`limit::OFFSET`].
    Offset(u32),
    /// The mask has bits outside the size.
    MaskTooWide(u32),
    /// The value has bits outside the mask, so that it never equals.
    ValueOutsideMask(u32),
    /// The range is empty: its first value is above its last or above the mask.
    EmptyRange,
    /// A field that this comparison does not use is not zero.
    UnusedField,
    /// More than [`limit::SHIFTS`] shifts in one conjunction.
    TooManyShifts,
    /// A shift by 32 bits or more.
    ShiftBits(i8),
    /// A shift could move the base further than [`limit::SHIFT_DISTANCE`].
    ShiftDistance,
    /// This atom contradicts an earlier one at the same place: the conjunction never holds.
    NeverHolds,
    /// Looking for overlaps takes too long.
    TooCostly,
    /// The owner's quota of this is used up.
    Quota(Resource),
    /// The classifier has no room left for this.
    Full(Resource),
    /// Another insertion or removal is under way.
    Busy,
    /// No filter has this identifier (any more).
    NoSuchFilter,
    /// No such owner.
    NoSuchOwner,
    /// The conjunction is not contained in any conjunction of the parent, or it does not follow atom by atom.
    NotContained,
    /// The storage given is too small, or larger than [`limit`] allows, in this.
    Storage(Resource),
    /// The filter could accept packets of another owner's filter, and no key for that is held.
    Overlap {
        /// The filter it overlaps.
        filter: FilterId,
        /// Whether [`crate::Classifier::witness`] is a packet that both accept. If not, it could not be decided.
        exact: bool,
    },
}

/// What can be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Filters.
    Filters,
    /// Conjunctions.
    Conjunctions,
    /// Atoms (conditions, after equal ones were joined).
    Atoms,
    /// Shapes: sequences of tests without their constants.
    Shapes,
    /// States of the decision structure.
    States,
    /// Branches of the decision structure.
    Branches,
    /// Compiled ends of conjunctions.
    Tails,
    /// Words of tables.
    Words,
    /// Bytes of code.
    Code,
    /// Accounts of owners.
    Owners,
    /// Buffers for an incoming filter and for code.
    Buffers,
}

impl Refusal {
    /// A refusal of the whole filter.
    pub(crate) fn whole(reason: Reason) -> Self {
        Self { conjunction: None, atom: None, reason }
    }

    /// A refusal at one atom.
    pub(crate) fn at(conjunction: usize, atom: usize, reason: Reason) -> Self {
        Self { conjunction: Some(conjunction as u8), atom: Some(atom as u8), reason }
    }

    /// A refusal at one conjunction.
    pub(crate) fn in_conjunction(conjunction: u8, reason: Reason) -> Self {
        Self { conjunction: Some(conjunction), atom: None, reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(conjunction) = self.conjunction {
            write!(out, "conjunction {conjunction}")?;
            if let Some(atom) = self.atom {
                write!(out, ", atom {atom}")?;
            }
            out.write_str(": ")?;
        }
        self.reason.fmt(out)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownCompare(code) => write!(out, "no comparison has code {code}; the codes are 0 to 4"),
            Self::Size(size) => write!(out, "{size} bytes cannot be loaded at once; load 1, 2 or 4"),
            Self::Offset(offset) => write!(out, "offset {offset} is above {}; use a smaller one", limit::OFFSET),
            Self::MaskTooWide(mask) => {
                write!(out, "mask {mask:#x} has bits outside the bytes loaded; clear them or load more")
            }
            Self::ValueOutsideMask(value) => write!(
                out,
                "value {value:#x} has bits that the mask clears, so it never matches; clear them or widen the mask"
            ),
            Self::ShiftBits(bits) => write!(out, "a shift by {bits} bits; shift by at most 31 either way"),
            Self::Quota(what) => write!(
                out,
                "the owner's quota of {} is used up; remove a filter or ask for a larger budget",
                what.name()
            ),
            Self::Full(what) => write!(out, "the classifier has no room for more {}; remove a filter", what.name()),
            Self::Storage(what) => {
                write!(out, "the storage for {} is too small, too large or of the wrong size; see Storage", what.name())
            }
            Self::Overlap { filter, exact: true } => write!(
                out,
                "it would accept packets of filter {} (the witness is one); narrow it, or hold a key for that filter",
                filter.slot()
            ),
            Self::Overlap { filter, exact: false } => write!(
                out,
                "it may accept packets of filter {}, through a variable header length or more cases than are tried; narrow it, or hold a key for that filter",
                filter.slot()
            ),
            _ => out.write_str(self.fixed_text()),
        }
    }
}

impl Reason {
    fn fixed_text(&self) -> &'static str {
        match self {
            Self::NoAtoms => "no atoms; to accept every packet, compare one byte under mask 0 with 0",
            Self::TooManyAtoms => "too many atoms (24 a conjunction); join some, or split the filter",
            Self::TooManyConjunctions => "more than 64 conjunctions; use a mask or a range, or several filters",
            Self::ConjunctionOrder => "conjunctions must be numbered 0, 1, 2, ... in order, without gaps",
            Self::EmptyRange => "no masked value lies in this range; put the smaller bound first and below the mask",
            Self::UnusedField => "a field that this comparison does not use is not zero; set it to zero",
            Self::TooManyShifts => "more than 4 shifts in one conjunction; use fixed offsets for some",
            Self::ShiftDistance => {
                "this shift can move the base by more than 65535 bytes; narrow its mask or shift less"
            }
            Self::NeverHolds => {
                "contradicts an earlier atom at the same place, so it never holds; remove the conjunction"
            }
            Self::TooCostly => {
                "looking for overlaps takes too long; name more constants, use fewer ranges or fewer conjunctions"
            }
            Self::Busy => "another insertion or removal is under way; call step until it is done, then try again",
            Self::NoSuchFilter => "no filter has this identifier; it may have been removed",
            Self::NoSuchOwner => "no account has this number",
            Self::NotContained => "it could accept packets that its parent does not; repeat the parent's atoms in it",
            _ => "refused",
        }
    }
}

impl Resource {
    fn name(self) -> &'static str {
        match self {
            Self::Filters => "filters",
            Self::Conjunctions => "conjunctions",
            Self::Atoms => "atoms",
            Self::Shapes => "shapes",
            Self::States => "states",
            Self::Branches => "branches",
            Self::Tails => "tails",
            Self::Words => "table words",
            Self::Code => "code bytes",
            Self::Owners => "owners",
            Self::Buffers => "buffers",
        }
    }
}
