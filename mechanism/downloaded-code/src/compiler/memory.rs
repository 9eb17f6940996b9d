//! Loads, stores and atomic operations, with the checks and masks that the verifier asks for.
//!
//! A check subtracts the region's start and compares the offset with the number of offsets that an access of this
//! size may start at. Where the access always ends at one place, it compares the region's length with that. Some
//! accesses that are only masked do not start before their region whatever jumps do: the check compares their address
//! with the other end ([`super::limit`]). In the frame it compares with the first and the last place that the
//! verifier counts with, since what lies elsewhere in it is taken to be unchanged. A single place is a constant and
//! needs no comparison. The mask is data flow from that comparison, not a branch (FAULTS row 90). Only a mispredicted
//! jump can lead to an access outside. Then a load becomes zero before anything can use it, and a store goes to the
//! start of its region or to the first place. Loads are masked after they are made, so that the comparison does not
//! delay them.

use super::Emitter;
use super::layout::{
    Exit, FRAME, SCRATCH, SECOND_SCRATCH, ZERO, memory_width, region_base, region_length, region_limit, register, width,
};
use super::limit::Limit;
use crate::context::Speculation;
use crate::instruction::{Atomic, Operand, Size};
use crate::invocation::FRAME_SIZE;
use crate::verifier::{Annotation, Protection, Space};
use crate::x86_64::{Arithmetic, Condition, Memory, Register, Width};

impl Emitter<'_, '_, '_> {
    /// Compares, where the verifier asks for it, and checks. Returns the condition under which the access is outside
    /// although it was not stopped; `None` if it needs no mask. Uses scratch.
    fn guard(&mut self, base: u8, offset: i16, size: Size) -> Option<Condition> {
        let note = self.note();
        let outside = match (note.space(), note.protection()) {
            (_, Protection::Proven) => return None,
            (Space::CallersStack, _) => {
                self.assembler.speculation_barrier();
                return None;
            }
            (Space::Region(region), Protection::Masked) => {
                let one_end = self.compare_with_program(base);
                let one_end = one_end.or_else(|| self.compare_with_limit(region, base, offset, size));
                one_end.unwrap_or_else(|| self.compare_in_region(region, base, offset, size))
            }
            (Space::Region(region), _) => self.compare_in_region(region, base, offset, size),
            (Space::Stack, _) if self.constant_place().is_some() => return None,
            (Space::Stack, _) => self.compare_in_frame(base, offset),
        };
        if note.protection() == Protection::Checked {
            let exit = self.labels.exit(self.index, Exit::OutOfBounds);
            self.assembler.jump_if(outside, exit);
            if self.verified.context.speculation == Speculation::Trusted {
                return None;
            }
        }
        Some(outside)
    }

    /// Where the verifier knows, whatever jumps do, that the access starts inside, and a register of the program
    /// holds the region's end: one comparison, with that. The jump of a loop mostly compares the same, and leads
    /// behind this one.
    fn compare_with_program(&mut self, base: u8) -> Option<Condition> {
        let (end, less_one) = self.note().end_register()?;
        self.assembler.arithmetic(Arithmetic::Compare, Width::Bits64, register(base), register(end));
        self.assembler.bind(self.labels.compared(self.index));
        Some(if less_one { Condition::AboveOrEqual } else { Condition::Above })
    }

    /// The same where a register that the program leaves over holds the last place at which the access may start.
    fn compare_with_limit(&mut self, region: u8, base: u8, offset: i16, size: Size) -> Option<Condition> {
        let limit = self.shape.limit(Limit::of(self.note(), region, offset, size)?)?;
        self.assembler.arithmetic(Arithmetic::Compare, Width::Bits64, register(base), limit);
        Some(Condition::Above)
    }

    fn compare_in_region(&mut self, region: u8, base: u8, offset: i16, size: Size) -> Condition {
        if let Some(end) = self.note().fixed_end() {
            let length = region_length(region);
            self.assembler.arithmetic_memory_immediate(Arithmetic::Compare, Width::Bits64, length, end as i32);
            return Condition::Below;
        }
        let (start, limit) = (region_base(region), region_limit(region, size));
        self.assembler.load_effective_address(SCRATCH, Memory::at(register(base), offset.into()));
        self.assembler.arithmetic_load(Arithmetic::Subtract, Width::Bits64, SCRATCH, start);
        self.assembler.arithmetic_load(Arithmetic::Compare, Width::Bits64, SCRATCH, limit);
        Condition::AboveOrEqual
    }

    fn compare_in_frame(&mut self, base: u8, offset: i16) -> Condition {
        let (first, last) = self.note().frame_places();
        let from_first = Memory::at(register(base), i32::from(offset) - in_frame(first).displacement);
        self.assembler.load_effective_address(SCRATCH, from_first);
        self.assembler.arithmetic(Arithmetic::Subtract, Width::Bits64, SCRATCH, FRAME);
        let places = i32::from(last - first) + 1;
        self.assembler.arithmetic_immediate(Arithmetic::Compare, Width::Bits64, SCRATCH, places);
        Condition::AboveOrEqual
    }

    /// The only place in the frame where an access can be, though perhaps only because of jumps.
    fn constant_place(&self) -> Option<Memory> {
        let (first, last) = self.note().frame_places();
        (self.note().space() == Space::Stack && first == last).then(|| in_frame(first))
    }

    /// The operand of a store or atomic operation, protected as the verifier says. May use both scratch registers; the
    /// first stays in use.
    fn place(&mut self, base: u8, offset: i16, size: Size) -> Memory {
        let direct = self.constant_place().unwrap_or(Memory::at(register(base), offset.into()));
        let Some(outside) = self.guard(base, offset, size) else { return direct };
        self.assembler.load_effective_address(SCRATCH, direct);
        if let Space::Region(region) = self.note().space() {
            self.assembler.load_if(outside, Width::Bits64, SCRATCH, region_base(region));
        } else {
            let first = in_frame(self.note().frame_places().0);
            self.assembler.load_effective_address(SECOND_SCRATCH, first);
            self.assembler.move_if(outside, Width::Bits64, SCRATCH, SECOND_SCRATCH);
        }
        Memory::at(SCRATCH, 0)
    }

    pub(super) fn load(&mut self, size: Size, signed: bool, destination: u8, base: u8, offset: i16) {
        let outside = self.guard(base, offset, size);
        let place = self.constant_place().unwrap_or(Memory::at(register(base), offset.into()));
        let target = register(destination);
        let wide = signed || size == Size::Double;
        if signed {
            self.assembler.load_signed(memory_width(size), target, place);
        } else {
            self.assembler.load(memory_width(size), target, place);
        }
        if let Some(outside) = outside {
            let zero = self.zero();
            self.assembler.move_if(outside, width(wide), target, zero);
        }
    }

    /// A register that holds zero; leaves the flags alone.
    fn zero(&mut self) -> Register {
        if self.keeps_zero() {
            return ZERO;
        }
        self.assembler.move_immediate(SECOND_SCRATCH, 0);
        SECOND_SCRATCH
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

/// A place in the current frame, counted from its lowest byte.
fn in_frame(byte: u16) -> Memory {
    Memory::at(FRAME, i32::from(byte) - FRAME_SIZE as i32)
}

fn machine_operation(operation: Atomic) -> Arithmetic {
    match operation {
        Atomic::Or => Arithmetic::Or,
        Atomic::And => Arithmetic::And,
        Atomic::Xor => Arithmetic::Xor,
        _ => Arithmetic::Add,
    }
}
