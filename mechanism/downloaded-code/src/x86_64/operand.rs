//! Operands: registers, memory, widths, conditions.

/// A general-purpose register; the value is its number in the encoding.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

impl Register {
    /// All sixteen, by number.
    pub const ALL: [Register; 16] = [
        Self::Rax,
        Self::Rcx,
        Self::Rdx,
        Self::Rbx,
        Self::Rsp,
        Self::Rbp,
        Self::Rsi,
        Self::Rdi,
        Self::R8,
        Self::R9,
        Self::R10,
        Self::R11,
        Self::R12,
        Self::R13,
        Self::R14,
        Self::R15,
    ];

    /// The number in the encoding, 0 to 15.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// Width of an operation. Results of 32-bit operations clear the upper half of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// One byte.
    Bits8,
    /// Two bytes.
    Bits16,
    /// Four bytes.
    Bits32,
    /// Eight bytes.
    Bits64,
}

impl Width {
    /// Bytes of the operand.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Bits8 => 1,
            Self::Bits16 => 2,
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}

/// Factor of an index register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Scale {
    /// Index.
    One = 0,
    /// Index times 2.
    Two = 1,
    /// Index times 4.
    Four = 2,
    /// Index times 8.
    Eight = 3,
}

/// A memory operand: base + index · scale + displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Base register.
    pub base: Register,
    /// Index register (not the stack pointer) and its factor.
    pub index: Option<(Register, Scale)>,
    /// Signed displacement in bytes.
    pub displacement: i32,
}

impl Memory {
    /// `[base + displacement]`
    pub fn at(base: Register, displacement: i32) -> Self {
        Self { base, index: None, displacement }
    }

    /// `[base + index · scale + displacement]`
    pub fn indexed(base: Register, index: Register, scale: Scale, displacement: i32) -> Self {
        Self { base, index: Some((index, scale)), displacement }
    }
}

/// A condition on the flags, as in `jcc`, `cmovcc` and `setcc`; the value is its number in the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// Overflow.
    Overflow = 0,
    /// No overflow.
    NotOverflow = 1,
    /// Unsigned less (carry).
    Below = 2,
    /// Unsigned greater or equal (no carry).
    AboveOrEqual = 3,
    /// Equal (zero).
    Equal = 4,
    /// Not equal (not zero).
    NotEqual = 5,
    /// Unsigned less or equal.
    BelowOrEqual = 6,
    /// Unsigned greater.
    Above = 7,
    /// Negative.
    Sign = 8,
    /// Not negative.
    NotSign = 9,
    /// Signed less.
    Less = 12,
    /// Signed greater or equal.
    GreaterOrEqual = 13,
    /// Signed less or equal.
    LessOrEqual = 14,
    /// Signed greater.
    Greater = 15,
}

impl Condition {
    /// The opposite condition.
    pub fn negated(self) -> Self {
        match self {
            Self::Overflow => Self::NotOverflow,
            Self::NotOverflow => Self::Overflow,
            Self::Below => Self::AboveOrEqual,
            Self::AboveOrEqual => Self::Below,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::BelowOrEqual => Self::Above,
            Self::Above => Self::BelowOrEqual,
            Self::Sign => Self::NotSign,
            Self::NotSign => Self::Sign,
            Self::Less => Self::GreaterOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
        }
    }
}
