//! Wakeup predicates (xok-exos-sosp97 §5.1): a sum of products of comparisons over 64-bit words.
//!
//! A predicate is an array of at most [`crate::limits::PREDICATE_TERMS`] terms. Consecutive terms are a product; a
//! term with [`END_OF_PRODUCT`] ends its product, and so does the last one. The predicate is true when all terms of any
//! product are. A term is true when `(word & mask) OPERATOR value`, unsigned.

/// One comparison. 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Term {
    /// Virtual address of an aligned 64-bit word that the caller may read, or [`CLOCK`].
    pub source: u64,
    /// Low 8 bits: an [`Operator`]; bit 8: [`END_OF_PRODUCT`]; all others zero.
    pub operation: u64,
    /// Bits of the word that count.
    pub mask: u64,
    /// What they are compared with; for the clock, nanoseconds since boot.
    pub value: u64,
}

/// Source: nanoseconds since boot. Not an address: it is not aligned.
pub const CLOCK: u64 = 1;
/// Bit of [`Term::operation`]: the last term of its product.
pub const END_OF_PRODUCT: u64 = 1 << 8;

/// How the word and the value are compared, both unsigned.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal = 0,
    /// `!=`
    NotEqual = 1,
    /// `<`
    Less = 2,
    /// `<=`
    LessOrEqual = 3,
    /// `>`
    Greater = 4,
    /// `>=`
    GreaterOrEqual = 5,
}

impl Operator {
    /// The operator with this number, if there is one.
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::Less,
            3 => Self::LessOrEqual,
            4 => Self::Greater,
            5 => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}

const _: () = assert!(size_of::<Term>() == 32);
