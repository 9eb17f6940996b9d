//! Calls: of the program's own functions, and of helpers with the checks of their arguments.

use super::layout::{
    BUDGET, Exit, RECORD, SCRATCH, SECOND_SCRATCH, ZERO, budget, region_base, region_length, register, stop,
};
use super::{CompileError, Emitter};
use crate::context::{Extent, Helper, Parameter};
use crate::verifier::{Annotation, Space};
use crate::x86_64::{Arithmetic, Condition, Register, Width};

impl Emitter<'_, '_, '_> {
    pub(super) fn call_function(&mut self, target: usize) {
        if self.verified.counts_budget() {
            self.charge(self.verified.function_length(target) as u32);
        }
        self.assembler.call(self.labels.entry(target));
    }

    pub(super) fn call_helper(&mut self, number: u32) -> Result<(), CompileError> {
        let missing = CompileError::NoHelperAddress { number };
        let helpers = self.verified.context.helpers;
        let position = helpers.iter().position(|helper| helper.number == number).ok_or(missing)?;
        let address = *self.request.helpers.get(position).ok_or(missing)?;
        let helper = &helpers[position];
        let counts = self.verified.counts_budget();
        if counts && helper.cost > 0 {
            self.charge(helper.cost);
        }
        self.check_arguments(helper);
        // r4 and the record go where the convention wants the fourth and sixth argument.
        self.assembler.move_register(Width::Bits64, Register::Rcx, register(4));
        self.assembler.move_register(Width::Bits64, Register::R9, RECORD);
        if counts {
            self.assembler.store(Width::Bits64, budget(), BUDGET);
        }
        self.call_address(address);
        if counts {
            self.assembler.load(Width::Bits64, BUDGET, budget());
        } else if self.keeps_zero() {
            self.assembler.move_immediate(ZERO, 0);
        }
        if helper.may_stop {
            self.assembler.arithmetic_memory_immediate(Arithmetic::Compare, Width::Bits32, stop(), 0);
            let exit = self.labels.exit(self.index, Exit::Helper);
            self.assembler.jump_if(Condition::NotEqual, exit);
        }
        Ok(())
    }

    /// Directly when the code's place is known and the helper is near, else through rax, which will hold the result.
    fn call_address(&mut self, address: u64) {
        let near = self.request.code_address.filter(|code| {
            let from = code.wrapping_add(self.assembler.position() as u64 + 5);
            i32::try_from(address.wrapping_sub(from) as i64).is_ok()
        });
        match near {
            Some(code) => self.assembler.call_outside(address, code),
            None => {
                self.assembler.move_immediate(Register::Rax, address);
                self.assembler.call_register(Register::Rax);
            }
        }
    }

    /// Numbers first, since they may be the sizes of memory; then pointers.
    fn check_arguments(&mut self, helper: &Helper<'_>) {
        let note = self.note();
        for (index, parameter) in helper.parameters.iter().enumerate() {
            if let Parameter::Scalar { minimum, maximum } = *parameter
                && note.argument_check(index)
            {
                self.check_range(register(index as u8 + 1), minimum, maximum);
            }
        }
        for (index, parameter) in helper.parameters.iter().enumerate() {
            if let Parameter::Readable(extent) | Parameter::Writable(extent) = *parameter
                && note.argument_check(index)
                && let Space::Region(region) = note.argument_space(index)
            {
                self.check_extent(register(index as u8 + 1), region, extent);
            }
        }
        if note.has(Annotation::FENCE) {
            self.assembler.speculation_barrier();
        }
    }

    fn check_range(&mut self, value: Register, minimum: u64, maximum: u64) {
        let exit = self.labels.exit(self.index, Exit::BadArgument);
        if maximum != u64::MAX {
            self.assembler.move_immediate(SCRATCH, maximum);
            self.assembler.arithmetic(Arithmetic::Compare, Width::Bits64, value, SCRATCH);
            self.assembler.jump_if(Condition::Above, exit);
        }
        if minimum != 0 {
            self.assembler.move_immediate(SCRATCH, minimum);
            self.assembler.arithmetic(Arithmetic::Compare, Width::Bits64, value, SCRATCH);
            self.assembler.jump_if(Condition::Below, exit);
        }
    }

    /// `length - offset` must not go below zero, nor below the size.
    fn check_extent(&mut self, pointer: Register, region: u8, extent: Extent) {
        let exit = self.labels.exit(self.index, Exit::OutOfBounds);
        self.assembler.move_register(Width::Bits64, SCRATCH, pointer);
        self.assembler.arithmetic_load(Arithmetic::Subtract, Width::Bits64, SCRATCH, region_base(region));
        self.assembler.load(Width::Bits64, SECOND_SCRATCH, region_length(region));
        self.assembler.arithmetic(Arithmetic::Subtract, Width::Bits64, SECOND_SCRATCH, SCRATCH);
        self.assembler.jump_if(Condition::Below, exit);
        match extent {
            Extent::Fixed(size) => {
                let size = size as i32;
                self.assembler.arithmetic_immediate(Arithmetic::Compare, Width::Bits64, SECOND_SCRATCH, size);
            }
            Extent::Parameter(index) => {
                let size = register(index + 1);
                self.assembler.arithmetic(Arithmetic::Compare, Width::Bits64, SECOND_SCRATCH, size);
            }
        }
        self.assembler.jump_if(Condition::Below, exit);
    }
}
