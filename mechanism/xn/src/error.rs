//! Refusals of XN. A refused entry has changed nothing.

/// Why XN refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A child of the block is not good on disk. The detail is the block to write first, or the block itself if that
    /// child is not among its first 4,096.
    Unready(u64),
    /// The block waits for a flush. The detail is its number; if it is not started yet, the caller starts it.
    Unflushed(u64),
    /// A checksum or a format is wrong. The detail is the block.
    Damaged(u64),
    /// The device failed a transfer or a flush. The detail is the block, 0 for a flush.
    Failed(u64),
    /// The block is in transit or locked. The detail is the block.
    Busy(u64),
    /// The page, slot or block is in use. The detail is its number.
    NotFree(u64),
    /// The region map of this block's region, or the block itself, is not in core. The detail is the block.
    Absent(u64),
    /// The children in core, mappings or unwritten contents of the block forbid the entry. The detail is the block.
    InUse(u64),
    /// The access program, or the state of the volume, does not permit it.
    NotPermitted,
    /// The owns program does not confirm what was declared. The detail is a block that differs, or 0.
    Undeclared(u64),
    /// An argument is outside its bounds.
    BadArgument,
    /// A table that the caller gave is full.
    Exhausted,
    /// The tree's quota of blocks is used up.
    OverBudget,
    /// A program stopped with an error or exceeded its budget. The detail is the template.
    Program(u8),
    /// One bounded step is done; call again with this cursor.
    Again(u64),
}

/// The result of an entry.
pub type Result<T> = core::result::Result<T, Error>;
