//! Every limit of the filter language and of the merged structure.
//!
//! The first group bounds one filter and is part of the interface; the second bounds what a
//! classifier may be built with. Relations between them are asserted at compile time.

/// Conjunctions of one filter.
pub const CONJUNCTIONS: usize = 64;
/// Atoms of one conjunction, shifts included.
pub const ATOMS: usize = 24;
/// Atoms of one filter.
pub const FILTER_ATOMS: usize = CONJUNCTIONS * ATOMS;
/// Header-length shifts of one conjunction.
pub const SHIFTS: usize = 4;
/// Largest offset of an atom from its base, in bytes.
pub const OFFSET: u32 = 65_535;
/// Largest distance one shift may move the base, in bytes.
pub const SHIFT_DISTANCE: u32 = 65_535;

/// Shapes of a classifier: a packet is put to at most this many tests, however many filters there are.
pub const SHAPES: usize = 1024;
/// Conjunctions of a classifier (its index shares a word with what marks a target).
pub const ALL_CONJUNCTIONS: usize = 1 << 24;
/// Words of a classifier's tables (their byte offset is a 32-bit displacement).
pub const WORDS: usize = 1 << 28;
/// Bytes of a classifier's code (its offsets are signed 32-bit displacements).
pub const CODE: usize = 1 << 30;
/// Tests in one piece of emitted code, or emitted in one step for a tail.
pub const PIECE_TESTS: usize = 5;
/// Bytes of one piece of emitted code, at most.
pub const PIECE: usize = 8192;

const _: () = assert!(CONJUNCTIONS <= 1 << 6, "a conjunction's number is six bits of its age");
const _: () = assert!(ATOMS * 32 < 1 << 11, "constrained bits fit the rank");
const _: () = assert!(WORDS * 4 <= 1 << 30 && CODE <= 1 << 30, "displacements stay far from 2 GiB");
