//! The argument and result types of system calls: one 64-bit register each.

/// What travels in one register of a system call.
pub trait Word: Copy {
    /// Takes the value out of a register. Every bit pattern is accepted; the kernel checks the meaning later.
    fn from_word(word: u64) -> Self;
    /// Puts the value into a register.
    fn to_word(self) -> u64;
}

impl Word for u64 {
    fn from_word(word: u64) -> Self {
        word
    }
    fn to_word(self) -> u64 {
        self
    }
}

impl Word for () {
    fn from_word(_: u64) -> Self {}
    fn to_word(self) -> u64 {
        0
    }
}

macro_rules! word_type {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl Word for $name {
            fn from_word(word: u64) -> Self {
                Self(word)
            }
            fn to_word(self) -> u64 {
                self.0
            }
        }
    )*};
}

word_type! {
    /// Number of a slot of the caller's key ring.
    KeyIndex;
    /// A physical page by number: its physical address divided by 4096.
    PageNumber;
    /// The number of an environment: unique since boot, never reused. Its slot in the exposed table is the number
    /// modulo the size of the table (a power of two).
    EnvironmentId;
    /// An address in the caller's own address space, in bytes. Holding one proves nothing about what is mapped there.
    UserAddress;
}

impl PageNumber {
    /// Stands for "any page" in an allocation, and for "none" in an exposed record.
    pub const NONE: Self = Self(0xffff_ffff);

    /// The physical address of the page's first byte.
    pub const fn address(self) -> u64 {
        self.0 << 12
    }
}

impl EnvironmentId {
    /// No environment: the first one has number 1.
    pub const NONE: Self = Self(0);
}

impl KeyIndex {
    /// The slot that holds the well-known name, in every environment, from its creation on.
    pub const WELL_KNOWN: Self = Self(0);
    /// The slot that holds the root key in the first environment, and the key it was created under in any other.
    pub const FIRST: Self = Self(1);
}
