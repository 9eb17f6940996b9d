//! What RFC 9669 says that operations on words give.

use crate::instruction::{Arithmetic, Atomic, ByteOrder, Comparison, Size};

/// `left op right`, of 64 or 32 bits; the upper half of a 32-bit result is zero.
pub fn arithmetic(operation: Arithmetic, wide: bool, left: u64, right: u64) -> u64 {
    if wide {
        arithmetic_64(operation, left, right)
    } else {
        arithmetic_32(operation, left as u32, right as u32).into()
    }
}

fn arithmetic_64(operation: Arithmetic, left: u64, right: u64) -> u64 {
    match operation {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::Subtract => left.wrapping_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::Divide => left.checked_div(right).unwrap_or(0),
        Arithmetic::SignedDivide if right == 0 => 0,
        Arithmetic::SignedDivide => (left as i64).wrapping_div(right as i64) as u64,
        Arithmetic::Or => left | right,
        Arithmetic::And => left & right,
        Arithmetic::ShiftLeft => left << (right & 63),
        Arithmetic::ShiftRight => left >> (right & 63),
        Arithmetic::Modulo => left.checked_rem(right).unwrap_or(left),
        Arithmetic::SignedModulo if right == 0 => left,
        Arithmetic::SignedModulo => (left as i64).wrapping_rem(right as i64) as u64,
        Arithmetic::Xor => left ^ right,
        Arithmetic::Move => right,
        Arithmetic::MoveSigned(size) => sign_extend(right, size),
        Arithmetic::ArithmeticShiftRight => (left as i64 >> (right & 63)) as u64,
    }
}

fn arithmetic_32(operation: Arithmetic, left: u32, right: u32) -> u32 {
    match operation {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::Subtract => left.wrapping_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::Divide => left.checked_div(right).unwrap_or(0),
        Arithmetic::SignedDivide if right == 0 => 0,
        Arithmetic::SignedDivide => (left as i32).wrapping_div(right as i32) as u32,
        Arithmetic::Or => left | right,
        Arithmetic::And => left & right,
        Arithmetic::ShiftLeft => left << (right & 31),
        Arithmetic::ShiftRight => left >> (right & 31),
        Arithmetic::Modulo => left.checked_rem(right).unwrap_or(left),
        Arithmetic::SignedModulo if right == 0 => left,
        Arithmetic::SignedModulo => (left as i32).wrapping_rem(right as i32) as u32,
        Arithmetic::Xor => left ^ right,
        Arithmetic::Move => right,
        Arithmetic::MoveSigned(size) => sign_extend(right.into(), size) as u32,
        Arithmetic::ArithmeticShiftRight => (left as i32 >> (right & 31)) as u32,
    }
}

/// The low bytes of a word, sign-extended.
pub fn sign_extend(word: u64, size: Size) -> u64 {
    let unused = 64 - size.bits();
    ((word << unused) as i64 >> unused) as u64
}

/// The low bytes of a word, zero-extended.
pub fn truncate(word: u64, size: Size) -> u64 {
    word & u64::MAX >> (64 - size.bits())
}

/// `-word`
pub fn negate(wide: bool, word: u64) -> u64 {
    if wide { word.wrapping_neg() } else { (word as u32).wrapping_neg().into() }
}

/// A byte-order conversion on a little-endian machine.
pub fn byte_order(order: ByteOrder, size: Size, word: u64) -> u64 {
    match order {
        ByteOrder::ToLittle => truncate(word, size),
        ByteOrder::ToBig | ByteOrder::Swap => word.swap_bytes() >> (64 - size.bits()),
    }
}

/// Whether a comparison holds.
pub fn compare(comparison: Comparison, wide: bool, left: u64, right: u64) -> bool {
    let (left, right) = if wide { (left, right) } else { (left as u32 as u64, right as u32 as u64) };
    let signed = |word: u64| if wide { word as i64 } else { i64::from(word as i32) };
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::AnyBit => left & right != 0,
        Comparison::SignedGreater => signed(left) > signed(right),
        Comparison::SignedGreaterOrEqual => signed(left) >= signed(right),
        Comparison::SignedLess => signed(left) < signed(right),
        Comparison::SignedLessOrEqual => signed(left) <= signed(right),
    }
}

/// What an atomic operation leaves in memory that held `old`; `expected` is r0.
pub fn atomic(operation: Atomic, old: u64, source: u64, expected: u64) -> u64 {
    match operation {
        Atomic::Add => old.wrapping_add(source),
        Atomic::Or => old | source,
        Atomic::And => old & source,
        Atomic::Xor => old ^ source,
        Atomic::Exchange => source,
        Atomic::CompareExchange if old == expected => source,
        Atomic::CompareExchange => old,
    }
}
