//! Instructions of RFC 9669: the eight-byte encoding and what it means.
//!
//! Supported: the conformance groups base32, base64, divmul32, divmul64, atomic32 and atomic64; calls between
//! functions; calls to helpers by number; the 64-bit constant load in two forms. The plain form loads a constant. The
//! form "map by index" (source 6) names a memory region of the [context](crate::context) by its index: that is how
//! programs reach constant tables. Refused: legacy packet access, the other forms of the constant load, `callx`, and
//! any reserved bit that is not zero.

use crate::program::Program;
use crate::refusal::Reason;

/// Number of registers, r0 to r10.
pub const REGISTERS: usize = 11;
/// The read-only frame pointer.
pub const FRAME_POINTER: u8 = 10;

/// One eight-byte slot, taken apart but not interpreted (RFC 9669, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Class, operation or size, and mode or source bit.
    pub opcode: u8,
    /// Low four bits of the register byte.
    pub destination: u8,
    /// High four bits of the register byte.
    pub source: u8,
    /// Signed displacement.
    pub offset: i16,
    /// Signed constant.
    pub immediate: i32,
}

impl Slot {
    /// Takes eight bytes apart.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let [opcode, registers, o0, o1, i0, i1, i2, i3] = bytes;
        Self {
            opcode,
            destination: registers & 15,
            source: registers >> 4,
            offset: i16::from_le_bytes([o0, o1]),
            immediate: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    /// The eight bytes of this slot.
    pub fn to_bytes(self) -> [u8; 8] {
        let [o0, o1] = self.offset.to_le_bytes();
        let [i0, i1, i2, i3] = self.immediate.to_le_bytes();
        [self.opcode, self.source << 4 | self.destination & 15, o0, o1, i0, i1, i2, i3]
    }
}

/// Bytes of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// One byte.
    Byte,
    /// Two bytes.
    Half,
    /// Four bytes.
    Word,
    /// Eight bytes.
    Double,
}

impl Size {
    /// 1, 2, 4 or 8.
    pub fn bytes(self) -> u32 {
        1 << self as u32
    }

    /// 8, 16, 32 or 64.
    pub fn bits(self) -> u32 {
        8 << self as u32
    }
}

/// Operations on two operands, of 32 or 64 bits (RFC 9669, section 4.1).
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    SignedDivide,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Modulo,
    SignedModulo,
    Xor,
    Move,
    /// Move with sign extension from 8, 16 or 32 bits.
    MoveSigned(Size),
    ArithmeticShiftRight,
}

/// Comparisons of conditional jumps (RFC 9669, section 4.3).
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    /// `left & right` is not zero.
    AnyBit,
    SignedGreater,
    SignedGreaterOrEqual,
    SignedLess,
    SignedLessOrEqual,
}

impl Comparison {
    /// The comparison with its operands exchanged.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::SignedGreater => Self::SignedLess,
            Self::SignedGreaterOrEqual => Self::SignedLessOrEqual,
            Self::SignedLess => Self::SignedGreater,
            Self::SignedLessOrEqual => Self::SignedGreaterOrEqual,
            other => other,
        }
    }
}

/// Atomic read-modify-write operations (RFC 9669, section 5.3).
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    Add,
    Or,
    And,
    Xor,
    Exchange,
    /// Compares with r0, and r0 gets the old value.
    CompareExchange,
}

/// Byte-order conversions (RFC 9669, section 4.2). The machine is little-endian.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    ToLittle,
    ToBig,
    Swap,
}

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(u8),
    /// A constant, sign-extended to 64 bits where the operation is that wide.
    Immediate(i32),
}

/// A decoded instruction. Registers are 0 to 10; targets are indices of slots, not yet checked.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    Arithmetic { operation: Arithmetic, wide: bool, destination: u8, operand: Operand },
    Negate { wide: bool, destination: u8 },
    ByteOrder { order: ByteOrder, size: Size, destination: u8 },
    LoadConstant { destination: u8, value: u64 },
    LoadRegion { destination: u8, region: u32, offset: u32 },
    Load { size: Size, signed: bool, destination: u8, base: u8, offset: i16 },
    Store { size: Size, base: u8, offset: i16, operand: Operand },
    Atomic { operation: Atomic, fetch: bool, size: Size, base: u8, offset: i16, source: u8 },
    Jump { target: i64 },
    Branch { comparison: Comparison, wide: bool, left: u8, right: Operand, target: i64 },
    CallHelper { number: u32 },
    CallFunction { target: i64 },
    Exit,
}

impl Instruction {
    /// Decodes the instruction at slot `index`.
    pub fn decode(program: Program<'_>, index: usize) -> Result<Self, Reason> {
        let slot = program.slot(index).ok_or(Reason::BeyondTheEnd)?;
        if slot.destination >= REGISTERS as u8 || slot.source >= REGISTERS as u8 {
            return Err(Reason::NoSuchRegister);
        }
        match slot.opcode & 7 {
            0x0 => constant_load(program, index, slot),
            0x1 => load(slot),
            0x2 | 0x3 => store(slot),
            0x4 | 0x7 => arithmetic(slot),
            _ => jump(index, slot),
        }
    }

    /// Slots that the instruction takes: two for a constant load, else one.
    pub fn slots(&self) -> usize {
        match self {
            Self::LoadConstant { .. } | Self::LoadRegion { .. } => 2,
            _ => 1,
        }
    }

    /// Target slot of a jump or branch (not of a call).
    pub fn jump_target(&self) -> Option<i64> {
        match *self {
            Self::Jump { target } | Self::Branch { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Whether execution can go on with the next instruction.
    pub fn falls_through(&self) -> bool {
        !matches!(self, Self::Jump { .. } | Self::Exit)
    }

    /// The register that the instruction writes, besides r0 to r5 of a call and r0 of a compare-and-exchange.
    pub fn written_register(&self) -> Option<u8> {
        match *self {
            Self::Arithmetic { destination, .. }
            | Self::Negate { destination, .. }
            | Self::ByteOrder { destination, .. }
            | Self::LoadConstant { destination, .. }
            | Self::LoadRegion { destination, .. }
            | Self::Load { destination, .. } => Some(destination),
            Self::Atomic { operation: Atomic::CompareExchange, .. } => Some(0),
            Self::Atomic { fetch: true, source, .. } => Some(source),
            _ => None,
        }
    }
}

fn size_of(opcode: u8) -> Size {
    match opcode & 0x18 {
        0x00 => Size::Word,
        0x08 => Size::Half,
        0x10 => Size::Byte,
        _ => Size::Double,
    }
}

fn require_zero(fields: bool) -> Result<(), Reason> {
    if fields { Ok(()) } else { Err(Reason::ReservedFieldNotZero) }
}

/// The one instruction of two slots: opcode 0x18, whose second slot holds only the upper half of the constant.
fn constant_load(program: Program<'_>, index: usize, slot: Slot) -> Result<Instruction, Reason> {
    if slot.opcode != 0x18 {
        return Err(if slot.opcode & 0xe0 == 0x20 || slot.opcode & 0xe0 == 0x40 {
            Reason::LegacyPacketAccess
        } else {
            Reason::UnknownOpcode
        });
    }
    let upper = program.slot(index + 1).ok_or(Reason::HalfOfConstantLoad)?;
    require_zero(slot.offset == 0 && upper.offset == 0 && upper.destination == 0 && upper.source == 0)?;
    require_zero(upper.opcode == 0)?;
    let destination = slot.destination;
    match slot.source {
        0 => {
            let value = u64::from(upper.immediate as u32) << 32 | u64::from(slot.immediate as u32);
            Ok(Instruction::LoadConstant { destination, value })
        }
        6 => {
            let (region, offset) = (slot.immediate as u32, upper.immediate as u32);
            Ok(Instruction::LoadRegion { destination, region, offset })
        }
        _ => Err(Reason::UnsupportedConstantLoad),
    }
}

fn load(slot: Slot) -> Result<Instruction, Reason> {
    let size = size_of(slot.opcode);
    let signed = match slot.opcode & 0xe0 {
        0x60 => false,
        0x80 if size != Size::Double => true,
        _ => return Err(Reason::UnknownOpcode),
    };
    require_zero(slot.immediate == 0)?;
    let (destination, base, offset) = (slot.destination, slot.source, slot.offset);
    Ok(Instruction::Load { size, signed, destination, base, offset })
}

fn store(slot: Slot) -> Result<Instruction, Reason> {
    let size = size_of(slot.opcode);
    let (base, offset) = (slot.destination, slot.offset);
    match (slot.opcode & 0xe0, slot.opcode & 7) {
        (0x60, 2) => {
            require_zero(slot.source == 0)?;
            Ok(Instruction::Store { size, base, offset, operand: Operand::Immediate(slot.immediate) })
        }
        (0x60, _) => {
            require_zero(slot.immediate == 0)?;
            Ok(Instruction::Store { size, base, offset, operand: Operand::Register(slot.source) })
        }
        (0xc0, 3) if size >= Size::Word => atomic(slot, size),
        _ => Err(Reason::UnknownOpcode),
    }
}

fn atomic(slot: Slot, size: Size) -> Result<Instruction, Reason> {
    let fetch = slot.immediate & 1 != 0;
    let operation = match slot.immediate {
        0x00 | 0x01 => Atomic::Add,
        0x40 | 0x41 => Atomic::Or,
        0x50 | 0x51 => Atomic::And,
        0xa0 | 0xa1 => Atomic::Xor,
        0xe1 => Atomic::Exchange,
        0xf1 => Atomic::CompareExchange,
        _ => return Err(Reason::UnknownAtomicOperation),
    };
    let (base, offset, source) = (slot.destination, slot.offset, slot.source);
    Ok(Instruction::Atomic { operation, fetch, size, base, offset, source })
}

/// The operand of an arithmetic or jump instruction; the field that it does not use must be zero.
fn operand(slot: Slot) -> Result<Operand, Reason> {
    if slot.opcode & 8 == 0 {
        require_zero(slot.source == 0)?;
        Ok(Operand::Immediate(slot.immediate))
    } else {
        require_zero(slot.immediate == 0)?;
        Ok(Operand::Register(slot.source))
    }
}

fn arithmetic(slot: Slot) -> Result<Instruction, Reason> {
    let wide = slot.opcode & 7 == 7;
    let destination = slot.destination;
    match slot.opcode & 0xf0 {
        0x80 => {
            require_zero(slot.opcode & 8 == 0 && slot.source == 0 && slot.offset == 0 && slot.immediate == 0)?;
            return Ok(Instruction::Negate { wide, destination });
        }
        0xd0 => return byte_order(slot, wide),
        _ => {}
    }
    let operation = arithmetic_operation(slot, wide)?;
    Ok(Instruction::Arithmetic { operation, wide, destination, operand: operand(slot)? })
}

fn arithmetic_operation(slot: Slot, wide: bool) -> Result<Arithmetic, Reason> {
    let operation = match (slot.opcode & 0xf0, slot.offset) {
        (0x00, 0) => Arithmetic::Add,
        (0x10, 0) => Arithmetic::Subtract,
        (0x20, 0) => Arithmetic::Multiply,
        (0x30, 0) => Arithmetic::Divide,
        (0x30, 1) => Arithmetic::SignedDivide,
        (0x40, 0) => Arithmetic::Or,
        (0x50, 0) => Arithmetic::And,
        (0x60, 0) => Arithmetic::ShiftLeft,
        (0x70, 0) => Arithmetic::ShiftRight,
        (0x90, 0) => Arithmetic::Modulo,
        (0x90, 1) => Arithmetic::SignedModulo,
        (0xa0, 0) => Arithmetic::Xor,
        (0xb0, 0) => Arithmetic::Move,
        (0xb0, 8) if slot.opcode & 8 != 0 => Arithmetic::MoveSigned(Size::Byte),
        (0xb0, 16) if slot.opcode & 8 != 0 => Arithmetic::MoveSigned(Size::Half),
        (0xb0, 32) if slot.opcode & 8 != 0 && wide => Arithmetic::MoveSigned(Size::Word),
        (0xc0, 0) => Arithmetic::ArithmeticShiftRight,
        (0xe0 | 0xf0, _) => return Err(Reason::UnknownOpcode),
        _ => return Err(Reason::ReservedFieldNotZero),
    };
    Ok(operation)
}

fn byte_order(slot: Slot, wide: bool) -> Result<Instruction, Reason> {
    require_zero(slot.source == 0 && slot.offset == 0)?;
    let order = match (wide, slot.opcode & 8 != 0) {
        (false, false) => ByteOrder::ToLittle,
        (false, true) => ByteOrder::ToBig,
        (true, false) => ByteOrder::Swap,
        (true, true) => return Err(Reason::UnknownOpcode),
    };
    let size = match slot.immediate {
        16 => Size::Half,
        32 => Size::Word,
        64 => Size::Double,
        _ => return Err(Reason::UnknownByteOrderWidth),
    };
    Ok(Instruction::ByteOrder { order, size, destination: slot.destination })
}

fn jump(index: usize, slot: Slot) -> Result<Instruction, Reason> {
    let wide = slot.opcode & 7 == 5;
    let next = index as i64 + 1;
    match (slot.opcode, slot.opcode & 0xf0) {
        (0x05, _) => {
            require_zero(slot.destination == 0 && slot.source == 0 && slot.immediate == 0)?;
            Ok(Instruction::Jump { target: next + i64::from(slot.offset) })
        }
        (0x06, _) => {
            require_zero(slot.destination == 0 && slot.source == 0 && slot.offset == 0)?;
            Ok(Instruction::Jump { target: next + i64::from(slot.immediate) })
        }
        (0x85, _) => call(next, slot),
        (0x8d, _) => Err(Reason::IndirectCall),
        (0x95, _) => {
            require_zero(slot.destination == 0 && slot.source == 0 && slot.offset == 0 && slot.immediate == 0)?;
            Ok(Instruction::Exit)
        }
        (_, 0x00 | 0x80 | 0x90 | 0xe0 | 0xf0) => Err(Reason::UnknownOpcode),
        _ => {
            let target = next + i64::from(slot.offset);
            let (comparison, left, right) = (comparison(slot.opcode), slot.destination, operand(slot)?);
            Ok(Instruction::Branch { comparison, wide, left, right, target })
        }
    }
}

fn call(next: i64, slot: Slot) -> Result<Instruction, Reason> {
    require_zero(slot.destination == 0 && slot.offset == 0)?;
    match slot.source {
        0 => Ok(Instruction::CallHelper { number: slot.immediate as u32 }),
        1 => Ok(Instruction::CallFunction { target: next + i64::from(slot.immediate) }),
        _ => Err(Reason::UnsupportedCall),
    }
}

fn comparison(opcode: u8) -> Comparison {
    match opcode & 0xf0 {
        0x10 => Comparison::Equal,
        0x20 => Comparison::Greater,
        0x30 => Comparison::GreaterOrEqual,
        0x40 => Comparison::AnyBit,
        0x50 => Comparison::NotEqual,
        0x60 => Comparison::SignedGreater,
        0x70 => Comparison::SignedGreaterOrEqual,
        0xa0 => Comparison::Less,
        0xb0 => Comparison::LessOrEqual,
        0xc0 => Comparison::SignedLess,
        _ => Comparison::SignedLessOrEqual,
    }
}
