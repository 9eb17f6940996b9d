//! Loads, stores and atomic operations, with the checks and masks that the verifier asks for.
//!
//! A check subtracts the region's start and compares the offset with the number of offsets that an access of this size
//! may start at. The mask is data flow from that comparison, not a branch: a conditional move (`cmovae`) puts the region's
//! start in the place of an address outside, and in the frame `sbb` makes of the carry what the offset is combined with.
//! So even when a jump is mispredicted the access goes to where the program may read.

use super::Emitter;
use super::layout::{Exit, FRAME, SCRATCH, SECOND_SCRATCH, memory_width, region_base, region_limit, register};
use crate::context::Speculation;
use crate::instruction::{Atomic, Operand, Size};
use crate::invocation::FRAME_SIZE;
use crate::verifier::{Annotation, Protection, Space};
use crate::x86_64::{Arithmetic, Condition, Memory, Register, Width};

impl Emitter<'_, '_, '_> {
    /// The operand of an access, protected as the verifier says. May use both scratch registers; the first stays in use.
    fn place(&mut self, base: u8, offset: i16, size: Size) -> Memory {
        let note = self.note();
        let direct = Memory::at(register(base), offset.into());
        let protection = note.protection();
        match (note.space(), protection) {
            (_, Protection::Proven) => return direct,
            (Space::Region(region), _) => {
                self.assembler.load_effective_address(SCRATCH, direct);
                self.assembler.move_register(Width::Bits64, SECOND_SCRATCH, SCRATCH);
                let (start, limit) = (region_base(region), region_limit(region, size));
                self.assembler.arithmetic_load(Arithmetic::Subtract, Width::Bits64, SECOND_SCRATCH, start);
                self.assembler.arithmetic_load(Arithmetic::Compare, Width::Bits64, SECOND_SCRATCH, limit);
            }
            (Space::Stack, _) => {
                let from_lowest = Memory::at(register(base), i32::from(offset) + FRAME_SIZE as i32);
                let limit = FRAME_SIZE - size.bytes() + 1;
                self.assembler.load_effective_address(SCRATCH, from_lowest);
                self.assembler.arithmetic(Arithmetic::Subtract, Width::Bits64, SCRATCH, FRAME);
                self.assembler.arithmetic_immediate(Arithmetic::Compare, Width::Bits64, SCRATCH, limit as i32);
            }
            (Space::CallersStack, _) => {
                self.assembler.speculation_barrier();
                return direct;
            }
        }
        if protection == Protection::Checked {
            let exit = self.labels.exit(self.index, Exit::OutOfBounds);
            self.assembler.jump_if(Condition::AboveOrEqual, exit);
            if self.verified.context.speculation == Speculation::Trusted {
                return direct;
            }
        }
        self.masked(note.space())
    }

    /// An address that is inside in any case, after the offset was compared with its limit: for a region scratch holds
    /// the address, for the frame the offset.
    fn masked(&mut self, space: Space) -> Memory {
        if let Space::Region(region) = space {
            let start = region_base(region);
            self.assembler.load_if(Condition::AboveOrEqual, Width::Bits64, SCRATCH, start);
            return Memory::at(SCRATCH, 0);
        }
        let mask = SECOND_SCRATCH;
        self.assembler.arithmetic(Arithmetic::SubtractWithBorrow, Width::Bits64, mask, mask);
        self.assembler.arithmetic(Arithmetic::And, Width::Bits64, SCRATCH, mask);
        self.assembler.arithmetic(Arithmetic::Add, Width::Bits64, SCRATCH, FRAME);
        Memory::at(SCRATCH, -(FRAME_SIZE as i32))
    }

    pub(super) fn load(&mut self, size: Size, signed: bool, destination: u8, base: u8, offset: i16) {
        let place = self.place(base, offset, size);
        if signed {
            self.assembler.load_signed(memory_width(size), register(destination), place);
        } else {
            self.assembler.load(memory_width(size), register(destination), place);
        }
    }

    pub(super) fn store(&mut self, size: Size, base: u8, offset: i16, operand: Operand) {
        let place = self.place(base, offset, size);
        let width = memory_width(size);
        let truncated = match operand {
            Operand::Immediate(value) if size == Size::Byte => Operand::Immediate((value as i8).into()),
            other => other,
        };
        if let Operand::Immediate(value) = truncated
            && i8::try_from(value).is_err()
            && self.request.blinding.is_some()
            && place.base == SCRATCH
        {
            // Hiding a 64-bit constant takes both scratch registers: keep the address out of the way.
            return self.store_hidden(width, place, value);
        }
        match (self.operand_register(truncated, size == Size::Double), truncated) {
            (None, Operand::Immediate(value)) => self.assembler.store_immediate(width, place, value),
            (source, _) => self.assembler.store(width, place, source.unwrap_or(SECOND_SCRATCH)),
        }
    }

    /// Stores a hidden constant through an address in scratch: the constant is built from its sign-extended half.
    fn store_hidden(&mut self, width: Width, place: Memory, value: i32) {
        self.constant(SECOND_SCRATCH, u64::from(value as u32));
        self.assembler.move_signed(Width::Bits32, SECOND_SCRATCH, SECOND_SCRATCH);
        self.assembler.store(width, place, SECOND_SCRATCH);
    }

    pub(super) fn atomic(&mut self, operation: Atomic, fetch: bool, size: Size, base: u8, offset: i16, source: u8) {
        let place = self.place(base, offset, size);
        let width = memory_width(size);
        if self.note().has(Annotation::ALIGNMENT) {
            self.assembler.load_effective_address(SECOND_SCRATCH, place);
            self.assembler.test_immediate(Width::Bits32, SECOND_SCRATCH, size.bytes() as i32 - 1);
            let exit = self.labels.exit(self.index, Exit::BudgetOrAlignment);
            self.assembler.jump_if(Condition::NotEqual, exit);
        }
        let source = register(source);
        match (operation, fetch) {
            (Atomic::Exchange, _) => self.assembler.exchange(width, place, source),
            (Atomic::CompareExchange, _) => {
                self.assembler.lock();
                self.assembler.compare_exchange(width, place, source);
                if width == Width::Bits32 {
                    self.assembler.move_register(width, Register::Rax, Register::Rax);
                }
            }
            (Atomic::Add, true) => {
                self.assembler.lock();
                self.assembler.exchange_add(width, place, source);
            }
            (_, false) => {
                self.assembler.lock();
                self.assembler.arithmetic_store(machine_operation(operation), width, place, source);
            }
            (_, true) => self.fetch_and_change(machine_operation(operation), width, place, source),
        }
    }

    /// The hardware has no fetching `or`, `and`, `xor`: a loop of compare-and-exchange. It saves rax below the stack
    /// pointer, where the operand is found if it is rax itself.
    fn fetch_and_change(&mut self, operation: Arithmetic, width: Width, place: Memory, source: Register) {
        let new = SECOND_SCRATCH;
        self.assembler.load_effective_address(SCRATCH, place);
        let place = Memory::at(SCRATCH, 0);
        self.assembler.push(Register::Rax);
        self.assembler.load(width, Register::Rax, place);
        let again = self.assembler.position();
        self.assembler.move_register(width, new, Register::Rax);
        if source == Register::Rax {
            self.assembler.arithmetic_load(operation, width, new, Memory::at(Register::Rsp, 0));
        } else {
            self.assembler.arithmetic(operation, width, new, source);
        }
        self.assembler.lock();
        self.assembler.compare_exchange(width, place, new);
        self.assembler.jump_back_if(Condition::NotEqual, again);
        if source == Register::Rax {
            self.assembler.load_effective_address(Register::Rsp, Memory::at(Register::Rsp, 8));
        } else {
            self.assembler.move_register(width, source, Register::Rax);
            self.assembler.pop(Register::Rax);
        }
    }
}

fn machine_operation(operation: Atomic) -> Arithmetic {
    match operation {
        Atomic::Or => Arithmetic::Or,
        Atomic::And => Arithmetic::And,
        Atomic::Xor => Arithmetic::Xor,
        _ => Arithmetic::Add,
    }
}
