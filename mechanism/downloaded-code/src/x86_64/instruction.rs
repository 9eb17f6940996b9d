//! Encodings of the instructions (Intel SDM volume 2).
//!
//! Every method emits one instruction. Destination comes first, as in Intel's notation.

use super::operand::{Condition, Memory, Register, Scale, Width};
use super::{Assembler, EmitError};

/// The eight two-operand operations that share one encoding; the value is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Arithmetic {
    /// Addition.
    Add = 0,
    /// Bitwise or.
    Or = 1,
    /// Addition with carry.
    AddWithCarry = 2,
    /// Subtraction with borrow.
    SubtractWithBorrow = 3,
    /// Bitwise and.
    And = 4,
    /// Subtraction.
    Subtract = 5,
    /// Bitwise exclusive or.
    Xor = 6,
    /// Comparison: sets the flags only.
    Compare = 7,
}

/// Shifts and rotations that share one encoding; the value is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shift {
    /// Rotate left.
    RotateLeft = 0,
    /// Rotate right.
    RotateRight = 1,
    /// Shift left.
    Left = 4,
    /// Shift right, zeros enter.
    Right = 5,
    /// Shift right, the sign enters.
    ArithmeticRight = 7,
}

/// What the ModRM byte's `rm` part names.
#[derive(Clone, Copy)]
enum Place {
    Register(Register),
    Memory(Memory),
}

/// One instruction under construction: at most 15 bytes.
#[derive(Default)]
struct Encoding {
    bytes: [u8; 24],
    length: usize,
}

impl Encoding {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The 0x66 prefix of 16-bit operations, then REX when any of its bits or a byte register needs it.
    fn prefixes(&mut self, width: Width, reg: u8, place: Place, byte_registers: bool) {
        if width == Width::Bits16 {
            self.push(&[0x66]);
        }
        let (base, index) = match place {
            Place::Register(register) => (register.number(), 0),
            Place::Memory(memory) => (memory.base.number(), memory.index.map_or(0, |(register, _)| register.number())),
        };
        let wide = u8::from(width == Width::Bits64);
        let rex = 0x40 | wide << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        if rex != 0x40 || byte_registers {
            self.push(&[rex]);
        }
    }

    fn place(&mut self, reg: u8, place: Place) {
        let reg = (reg & 7) << 3;
        match place {
            Place::Register(register) => self.push(&[0xc0 | reg | register.number() & 7]),
            Place::Memory(memory) => self.memory(reg, memory),
        }
    }

    /// ModRM, SIB when there is an index or the base is rsp or r12, and the shortest displacement. A base of rbp or
    /// r13 always takes a displacement: without one its encoding means something else.
    fn memory(&mut self, reg: u8, memory: Memory) {
        let base = memory.base.number() & 7;
        let short = i8::try_from(memory.displacement);
        let mode = match short {
            Ok(0) if base != 5 => 0x00,
            Ok(_) => 0x40,
            Err(_) => 0x80,
        };
        match memory.index {
            Some((index, scale)) => {
                self.push(&[mode | reg | 4, (scale as u8) << 6 | (index.number() & 7) << 3 | base]);
            }
            None if base == 4 => self.push(&[mode | reg | 4, 0x24]),
            None => self.push(&[mode | reg | base]),
        }
        match (mode, short) {
            (0x40, Ok(short)) => self.push(&short.to_le_bytes()),
            (0x80, _) => self.push(&memory.displacement.to_le_bytes()),
            _ => {}
        }
    }
}

/// Whether a byte-wide operation on `register` needs a REX prefix to mean its low byte.
fn needs_rex(width: Width, register: Register) -> bool {
    width == Width::Bits8 && (4..8).contains(&register.number())
}

impl Assembler<'_> {
    fn emit(&mut self, encoding: &Encoding) {
        self.bytes(&encoding.bytes[..encoding.length]);
    }

    /// Prefixes, opcode, ModRM with `reg` and `place`, and an immediate.
    fn encode(&mut self, width: Width, opcode: &[u8], reg: u8, place: Place, rex: bool, immediate: &[u8]) {
        if let Place::Memory(Memory { index: Some((Register::Rsp, _)), .. }) = place {
            return self.fail(EmitError::BadOperand { position: self.position() });
        }
        let mut encoding = Encoding::default();
        encoding.prefixes(width, reg, place, rex);
        encoding.push(opcode);
        encoding.place(reg, place);
        encoding.push(immediate);
        self.emit(&encoding);
    }

    /// `mov destination, source` between registers, 32 or 64 bits.
    pub fn move_register(&mut self, width: Width, destination: Register, source: Register) {
        self.encode(width, &[0x89], source.number(), Place::Register(destination), false, &[]);
    }

    /// Puts a constant into a 64-bit register by the shortest form that leaves the flags alone.
    pub fn move_immediate(&mut self, destination: Register, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            return self.move_immediate_32(destination, value);
        }
        if let Ok(value) = i32::try_from(value as i64) {
            let place = Place::Register(destination);
            return self.encode(Width::Bits64, &[0xc7], 0, place, false, &value.to_le_bytes());
        }
        let number = destination.number();
        self.bytes(&[0x48 | number >> 3, 0xb8 | number & 7]);
        self.bytes(&value.to_le_bytes());
    }

    /// `mov destination, value`, clearing the upper half.
    pub fn move_immediate_32(&mut self, destination: Register, value: u32) {
        let number = destination.number();
        if number >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0xb8 | number & 7]);
        self.bytes(&value.to_le_bytes());
    }

    /// Loads `width` bits, zero-extended to 64.
    pub fn load(&mut self, width: Width, destination: Register, source: Memory) {
        let place = Place::Memory(source);
        let number = destination.number();
        match width {
            Width::Bits8 => self.encode(Width::Bits32, &[0x0f, 0xb6], number, place, false, &[]),
            Width::Bits16 => self.encode(Width::Bits32, &[0x0f, 0xb7], number, place, false, &[]),
            _ => self.encode(width, &[0x8b], number, place, false, &[]),
        }
    }

    /// Loads `width` bits, sign-extended to 64.
    pub fn load_signed(&mut self, width: Width, destination: Register, source: Memory) {
        self.extend_signed(width, destination, Place::Memory(source));
    }

    /// Sign-extends the low `width` bits of `source` to 64.
    pub fn move_signed(&mut self, width: Width, destination: Register, source: Register) {
        self.extend_signed(width, destination, Place::Register(source));
    }

    /// Sign-extends the low `width` bits (8 or 16) of `source` to 32, clearing the upper half.
    pub fn move_signed_32(&mut self, width: Width, destination: Register, source: Register) {
        let opcode = if width == Width::Bits8 { 0xbe } else { 0xbf };
        let rex = needs_rex(width, source);
        let place = Place::Register(source);
        self.encode(Width::Bits32, &[0x0f, opcode], destination.number(), place, rex, &[]);
    }

    fn extend_signed(&mut self, width: Width, destination: Register, source: Place) {
        let number = destination.number();
        match width {
            Width::Bits8 => self.encode(Width::Bits64, &[0x0f, 0xbe], number, source, false, &[]),
            Width::Bits16 => self.encode(Width::Bits64, &[0x0f, 0xbf], number, source, false, &[]),
            Width::Bits32 => self.encode(Width::Bits64, &[0x63], number, source, false, &[]),
            Width::Bits64 => self.encode(Width::Bits64, &[0x8b], number, source, false, &[]),
        }
    }

    /// Zero-extends the low `width` bits (8, 16 or 32) of `source` to 64.
    pub fn move_unsigned(&mut self, width: Width, destination: Register, source: Register) {
        let place = Place::Register(source);
        let rex = needs_rex(width, source);
        match width {
            Width::Bits8 => {
                self.encode(Width::Bits32, &[0x0f, 0xb6], destination.number(), place, rex, &[]);
            }
            Width::Bits16 => {
                self.encode(Width::Bits32, &[0x0f, 0xb7], destination.number(), place, false, &[]);
            }
            _ => self.move_register(width, destination, source),
        }
    }

    /// Stores the low `width` bits of `source`.
    pub fn store(&mut self, width: Width, destination: Memory, source: Register) {
        let opcode = if width == Width::Bits8 { 0x88 } else { 0x89 };
        let place = Place::Memory(destination);
        self.encode(width, &[opcode], source.number(), place, needs_rex(width, source), &[]);
    }

    /// Stores the low `width` bits of a constant (sign-extended when 64 bits wide).
    pub fn store_immediate(&mut self, width: Width, destination: Memory, value: i32) {
        let bytes = value.to_le_bytes();
        let place = Place::Memory(destination);
        match width {
            Width::Bits8 => self.encode(width, &[0xc6], 0, place, false, &bytes[..1]),
            Width::Bits16 => self.encode(width, &[0xc7], 0, place, false, &bytes[..2]),
            _ => self.encode(width, &[0xc7], 0, place, false, &bytes),
        }
    }

    /// `lea destination, source`
    pub fn load_effective_address(&mut self, destination: Register, source: Memory) {
        self.encode(Width::Bits64, &[0x8d], destination.number(), Place::Memory(source), false, &[]);
    }

    /// `destination := destination op source`, 8 to 64 bits.
    pub fn arithmetic(&mut self, operation: Arithmetic, width: Width, destination: Register, source: Register) {
        let opcode = (operation as u8) << 3 | u8::from(width != Width::Bits8);
        let rex = needs_rex(width, source) || needs_rex(width, destination);
        self.encode(width, &[opcode], source.number(), Place::Register(destination), rex, &[]);
    }

    /// `destination := destination op value`, the value sign-extended.
    pub fn arithmetic_immediate(&mut self, operation: Arithmetic, width: Width, destination: Register, value: i32) {
        let rex = needs_rex(width, destination);
        self.immediate_group(operation, width, Place::Register(destination), value, rex);
    }

    /// `destination := destination op [source]`
    pub fn arithmetic_load(&mut self, operation: Arithmetic, width: Width, destination: Register, source: Memory) {
        let opcode = (operation as u8) << 3 | 2 | u8::from(width != Width::Bits8);
        let rex = needs_rex(width, destination);
        self.encode(width, &[opcode], destination.number(), Place::Memory(source), rex, &[]);
    }

    /// `[destination] := [destination] op source`
    pub fn arithmetic_store(&mut self, operation: Arithmetic, width: Width, destination: Memory, source: Register) {
        let opcode = (operation as u8) << 3 | u8::from(width != Width::Bits8);
        let rex = needs_rex(width, source);
        self.encode(width, &[opcode], source.number(), Place::Memory(destination), rex, &[]);
    }

    /// `[destination] := [destination] op value`, the value sign-extended.
    pub fn arithmetic_memory_immediate(
        &mut self,
        operation: Arithmetic,
        width: Width,
        destination: Memory,
        value: i32,
    ) {
        self.immediate_group(operation, width, Place::Memory(destination), value, false);
    }

    fn immediate_group(&mut self, operation: Arithmetic, width: Width, place: Place, value: i32, rex: bool) {
        let bytes = value.to_le_bytes();
        let number = operation as u8;
        match (width, i8::try_from(value)) {
            (Width::Bits8, _) => self.encode(width, &[0x80], number, place, rex, &bytes[..1]),
            (_, Ok(_)) => self.encode(width, &[0x83], number, place, rex, &bytes[..1]),
            (Width::Bits16, _) => self.encode(width, &[0x81], number, place, rex, &bytes[..2]),
            _ => self.encode(width, &[0x81], number, place, rex, &bytes),
        }
    }

    /// `test first, second`
    pub fn test(&mut self, width: Width, first: Register, second: Register) {
        let opcode = if width == Width::Bits8 { 0x84 } else { 0x85 };
        let rex = needs_rex(width, first) || needs_rex(width, second);
        self.encode(width, &[opcode], second.number(), Place::Register(first), rex, &[]);
    }

    /// `test register, value` (sign-extended), 32 or 64 bits.
    pub fn test_immediate(&mut self, width: Width, register: Register, value: i32) {
        self.encode(width, &[0xf7], 0, Place::Register(register), false, &value.to_le_bytes());
    }

    /// `test [memory], value` (sign-extended), 32 or 64 bits.
    pub fn test_memory_immediate(&mut self, width: Width, memory: Memory, value: i32) {
        self.encode(width, &[0xf7], 0, Place::Memory(memory), false, &value.to_le_bytes());
    }

    /// Shifts by a constant; the hardware uses its low 5 bits (6 for 64-bit operations).
    pub fn shift_immediate(&mut self, shift: Shift, width: Width, register: Register, count: u8) {
        let opcode = if width == Width::Bits8 { 0xc0 } else { 0xc1 };
        let place = Place::Register(register);
        self.encode(width, &[opcode], shift as u8, place, needs_rex(width, register), &[count]);
    }

    /// Shifts by `cl`; the hardware uses its low 5 bits (6 for 64-bit operations).
    pub fn shift_by_cl(&mut self, shift: Shift, width: Width, register: Register) {
        let opcode = if width == Width::Bits8 { 0xd2 } else { 0xd3 };
        let place = Place::Register(register);
        self.encode(width, &[opcode], shift as u8, place, needs_rex(width, register), &[]);
    }

    /// `destination := destination · source`, the low half.
    pub fn multiply(&mut self, width: Width, destination: Register, source: Register) {
        let place = Place::Register(source);
        self.encode(width, &[0x0f, 0xaf], destination.number(), place, false, &[]);
    }

    /// `destination := source · value`, the low half, the value sign-extended.
    pub fn multiply_immediate(&mut self, width: Width, destination: Register, source: Register, value: i32) {
        let place = Place::Register(source);
        self.encode(width, &[0x69], destination.number(), place, false, &value.to_le_bytes());
    }

    /// `rdx:rax := rax · source`, unsigned.
    pub fn multiply_wide(&mut self, width: Width, source: Register) {
        self.encode(width, &[0xf7], 4, Place::Register(source), false, &[]);
    }

    /// Unsigned `rax := rdx:rax / divisor`, `rdx := remainder`. Faults on zero and on overflow.
    pub fn divide(&mut self, width: Width, divisor: Register) {
        self.encode(width, &[0xf7], 6, Place::Register(divisor), false, &[]);
    }

    /// Signed `rax := rdx:rax / divisor`, `rdx := remainder`. Faults on zero and on overflow.
    pub fn divide_signed(&mut self, width: Width, divisor: Register) {
        self.encode(width, &[0xf7], 7, Place::Register(divisor), false, &[]);
    }

    /// Spreads the sign of rax over rdx (`cdq`, `cqo`).
    pub fn sign_into_rdx(&mut self, width: Width) {
        if width == Width::Bits64 {
            self.bytes(&[0x48]);
        }
        self.bytes(&[0x99]);
    }

    /// `neg register`
    pub fn negate(&mut self, width: Width, register: Register) {
        self.unary(3, width, register);
    }

    fn unary(&mut self, number: u8, width: Width, register: Register) {
        let opcode = if width == Width::Bits8 { 0xf6 } else { 0xf7 };
        self.encode(width, &[opcode], number, Place::Register(register), needs_rex(width, register), &[]);
    }

    /// `not register`
    pub fn complement(&mut self, width: Width, register: Register) {
        self.unary(2, width, register);
    }

    /// Reverses the bytes of a 32- or 64-bit register.
    pub fn byte_swap(&mut self, width: Width, register: Register) {
        let number = register.number();
        let rex = 0x40 | u8::from(width == Width::Bits64) << 3 | number >> 3;
        if rex != 0x40 {
            self.bytes(&[rex]);
        }
        self.bytes(&[0x0f, 0xc8 | number & 7]);
    }

    /// `setcc register`: the low byte becomes 1 or 0.
    pub fn set_if(&mut self, condition: Condition, register: Register) {
        let place = Place::Register(register);
        let rex = needs_rex(Width::Bits8, register);
        self.encode(Width::Bits32, &[0x0f, 0x90 | condition as u8], 0, place, rex, &[]);
    }

    /// `cmovcc destination, source`, 32 or 64 bits.
    pub fn move_if(&mut self, condition: Condition, width: Width, destination: Register, source: Register) {
        let opcode = [0x0f, 0x40 | condition as u8];
        self.encode(width, &opcode, destination.number(), Place::Register(source), false, &[]);
    }

    /// `cmovcc destination, [source]`, 32 or 64 bits. Reads the memory whatever the condition.
    pub fn load_if(&mut self, condition: Condition, width: Width, destination: Register, source: Memory) {
        let opcode = [0x0f, 0x40 | condition as u8];
        self.encode(width, &opcode, destination.number(), Place::Memory(source), false, &[]);
    }

    /// The `lock` prefix of the instruction that follows.
    pub fn lock(&mut self) {
        self.bytes(&[0xf0]);
    }

    /// `xchg [memory], register`: atomic without a prefix.
    pub fn exchange(&mut self, width: Width, memory: Memory, register: Register) {
        self.encode(width, &[0x87], register.number(), Place::Memory(memory), false, &[]);
    }

    /// `xchg first, second` between registers.
    pub fn exchange_registers(&mut self, width: Width, first: Register, second: Register) {
        self.encode(width, &[0x87], second.number(), Place::Register(first), false, &[]);
    }

    /// `xadd [memory], register`: the register gets the old value. Atomic with [`Assembler::lock`].
    pub fn exchange_add(&mut self, width: Width, memory: Memory, register: Register) {
        self.encode(width, &[0x0f, 0xc1], register.number(), Place::Memory(memory), false, &[]);
    }

    /// `cmpxchg [memory], register`: if memory equals rax it gets the register, else rax gets memory.
    pub fn compare_exchange(&mut self, width: Width, memory: Memory, register: Register) {
        self.encode(width, &[0x0f, 0xb1], register.number(), Place::Memory(memory), false, &[]);
    }

    /// `push register`
    pub fn push(&mut self, register: Register) {
        self.short_form(0x50, register);
    }

    /// `pop register`
    pub fn pop(&mut self, register: Register) {
        self.short_form(0x58, register);
    }

    fn short_form(&mut self, opcode: u8, register: Register) {
        let number = register.number();
        if number >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[opcode | number & 7]);
    }

    /// `jmp register`
    pub fn jump_register(&mut self, register: Register) {
        self.encode(Width::Bits32, &[0xff], 4, Place::Register(register), false, &[]);
    }

    /// `jmp [memory]`
    pub fn jump_memory(&mut self, memory: Memory) {
        self.encode(Width::Bits32, &[0xff], 4, Place::Memory(memory), false, &[]);
    }

    /// `call register`
    pub fn call_register(&mut self, register: Register) {
        self.encode(Width::Bits32, &[0xff], 2, Place::Register(register), false, &[]);
    }

    /// `ret`
    pub fn return_(&mut self) {
        self.bytes(&[0xc3]);
    }

    /// `lfence`: no later instruction starts before all earlier ones are done.
    pub fn speculation_barrier(&mut self) {
        self.bytes(&[0x0f, 0xae, 0xe8]);
    }

    /// `ud2`: faults. Marks what must never be reached.
    pub fn undefined(&mut self) {
        self.bytes(&[0x0f, 0x0b]);
    }

    /// `rdtsc`: edx:eax gets the time-stamp counter.
    pub fn read_time_stamp(&mut self) {
        self.bytes(&[0x0f, 0x31]);
    }
}

/// The factor of an index for elements of `bytes` bytes, when the hardware has one.
impl Scale {
    /// From 1, 2, 4 or 8.
    pub fn of(bytes: u32) -> Option<Self> {
        match bytes {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }
}
