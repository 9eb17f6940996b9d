//! The refusals of the kernel: one list, at most 24 of them.
//!
//! A system call returns the error in `rax` (0: done) and in `rdx` the result or, after a refusal, a detail whose
//! meaning stands at each error. A refused call has changed nothing.

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why the kernel refused.
        #[repr(u64)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Error {
            $($(#[$doc])* $name = $number,)*
        }

        impl Error {
            /// Every error, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The error with this number, if there is one.
            pub const fn from_number(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// One line for people.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

errors! {
    /// No row of the table has this number. Detail: the number.
    UnknownCall = 1, "there is no such system call";
    /// The key ring has no key at this index. Detail: the index.
    NoSuchKey = 2, "the key ring holds no key at this index";
    /// The key does not give the right that the call needs. Detail: the rights that it gives.
    NotPermitted = 3, "the key does not give this right";
    /// An argument has no meaning. Detail: its position, counted from 0.
    BadArgument = 4, "an argument has no meaning here";
    /// An address is not canonical, not in the user half, or not aligned. Detail: the address.
    BadAddress = 5, "an address is outside the user half or not aligned";
    /// There is no page of memory with this number. Detail: the number.
    NoSuchPage = 6, "there is no such physical page";
    /// The page, slice or slot asked for is taken. Detail: by whom, where known.
    NotFree = 7, "what was asked for is not free";
    /// The page is of another kind than the call needs. Detail: its kind.
    WrongKind = 8, "the page is of another kind";
    /// The environment's budget does not allow it. Detail: the resource.
    OverBudget = 9, "the budget of the environment is used up";
    /// There is none left in the machine. Detail: the resource.
    Exhausted = 10, "there is none left";
    /// A step is done, the work is not: call again. Detail: where the next step begins.
    Again = 11, "not finished: call again";
    /// The environment cannot be entered now. Detail: its number.
    Busy = 12, "the environment is running or not ready";
    /// No living environment has this number. Detail: the number.
    NoSuchEnvironment = 13, "there is no such environment";
    /// The page table is reached through more than one link, and immutable. Detail: its page number.
    Shared = 14, "the page table is shared: copy it first";
    /// There is no page table or no entry on the way to the address. Detail: the level that is missing.
    NotMapped = 15, "no page table leads to this address";
    /// The object is still in use. Detail: by how many.
    InUse = 16, "the object is still in use";
    /// No CPU has this number, or its vector has no such position. Detail: the number.
    NoSuchSlice = 17, "there is no such CPU or time slice";
    /// This machine lacks the device or the feature. Detail: the feature bit, where there is one.
    Absent = 18, "this machine has no such device or feature";
    /// A count is above the limit of `abi::limits`. Detail: the limit.
    TooMany = 19, "a count is above the limit";
    /// The object died while it was watched, or before it was named. Detail: its number.
    Gone = 20, "what was watched is gone";
    /// A filter could take packets of another owner's filter. Detail: the number of that filter.
    Overlap = 21, "the filter overlaps another owner's filter";
    /// A block must not be written, or entered, yet. Detail: the block to write first, or
    /// [`FLUSH`](crate::storage::FLUSH) + the number of a flush that must have completed.
    Unready = 22, "what the block leads to is not on the disk yet";
    /// A checksum, a format or an owner on the disk is wrong. Detail: the block.
    Damaged = 23, "the block on the disk is damaged";
    /// The disk failed. Detail: the block, 0 for a flush.
    Failed = 24, "the disk failed";
}

/// A refusal with its detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub error: Error,
    /// What about: see the error.
    pub detail: u64,
}

impl Error {
    /// This error about that detail.
    pub const fn about(self, detail: u64) -> Failure {
        Failure { error: self, detail }
    }
}

const _: () = assert!(Error::ALL.len() <= 24);
