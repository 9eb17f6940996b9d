//! Requests to access programs, as words that native and BPF programs read alike.
//!
//! Words: 0 operation, 1 index of the shown block (or [`LAST`]), 2 its number, 3 clock, 4 to 7 credentials.
//! Word 8 is the number of changes, word 9 the number of shown blocks. Two words a change follow.
//! They are the block, and the byte offset in it << 32 with the length in the low half.

/// Words of a request.
pub const REQUEST_WORDS: usize = 32;
/// Index of the run that decides.
pub const LAST: u64 = u64::MAX;
/// First word of the changes.
pub const CHANGES: usize = 10;

/// The words of a request that say who the caller is, bit n for word n: see [`crate::template::Programs::reads`].
pub const CREDENTIALS: u32 = 0b1111 << 4;
/// In place of words that a program reads: it may read anything.
pub const EVERYTHING: u32 = u32::MAX;

/// What an environment wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A transaction.
    Modify = 1,
    /// Read children of a block.
    Read = 2,
    /// Write children of a block.
    Write = 3,
}

/// The caller of an operation, as access programs see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Names of keys below the tree's guard, in a form that the kernel fixes.
    pub credentials: [u64; 4],
    /// Wall clock, seconds.
    pub clock: u64,
}

impl Caller {
    /// The words of a request without changes.
    pub fn request(&self, operation: Operation, shown: usize) -> [u64; REQUEST_WORDS] {
        let mut words = [0; REQUEST_WORDS];
        words[0] = operation as u64;
        words[3] = self.clock;
        words[4..8].copy_from_slice(&self.credentials);
        words[9] = shown as u64;
        words
    }
}
