//! Entering and leaving: the whole code, functions, and the exits of run-time checks.

use super::layout::{self, BUDGET, Exit, FRAME, RECORD, SAVED, SCRATCH, SECOND_SCRATCH, ZERO};
use super::limit::Limit;
use super::{CompileError, Emitter};
use crate::context::Argument;
use crate::instruction::{FRAME_POINTER, Instruction};
use crate::invocation::{FRAME_SIZE, Stop};
use crate::verifier::Annotation;
use crate::x86_64::{Arithmetic, Condition, Memory, Register, Width};

impl Emitter<'_, '_, '_> {
    /// The first bytes: keeps the caller's registers and loads the program's.
    pub(super) fn enter(&mut self) {
        for register in self.shape.kept() {
            self.assembler.push(register);
        }
        if self.shape.pads() {
            self.assembler.arithmetic_immediate(Arithmetic::Subtract, Width::Bits64, Register::Rsp, 8);
        }
        self.assembler.move_register(Width::Bits64, RECORD, Register::Rdi);
        if self.shape.nests() {
            self.assembler.store(Width::Bits64, layout::native_stack(), Register::Rsp);
        }
        if self.shape.uses_frame() {
            self.assembler.load(Width::Bits64, FRAME, layout::stack_top());
        }
        if self.verified.counts_budget() {
            self.assembler.load(Width::Bits64, BUDGET, layout::budget());
            let cost = self.verified.function_length(0) as i32;
            self.assembler.arithmetic_immediate(Arithmetic::Subtract, Width::Bits64, BUDGET, cost);
            self.assembler.jump_if(Condition::Below, self.labels.no_budget());
        }
        for (index, argument) in self.verified.context.arguments.iter().enumerate() {
            self.load_argument(index, argument);
        }
        for (limit, register) in self.shape.limits() {
            self.load_limit(limit, register);
        }
        if self.keeps_zero() {
            self.assembler.arithmetic(Arithmetic::Xor, Width::Bits32, ZERO, ZERO);
        }
    }

    /// The region's end less where the access ends: no place of a region is so near to zero that this wraps.
    fn load_limit(&mut self, limit: Limit, register: Register) {
        self.assembler.load(Width::Bits64, register, layout::region_base(limit.region));
        self.assembler.arithmetic_load(Arithmetic::Add, Width::Bits64, register, layout::region_length(limit.region));
        if limit.end != 0 {
            self.assembler.arithmetic_immediate(Arithmetic::Subtract, Width::Bits64, register, limit.end);
        }
    }

    fn load_argument(&mut self, index: usize, argument: &Argument) {
        let register = layout::register(index as u8 + 1);
        let source = match *argument {
            Argument::Pointer(region) | Argument::End(region) => layout::region_base(region),
            Argument::Length(region) => layout::region_length(region),
            Argument::Scalar { .. } => layout::scalar(index),
        };
        self.assembler.load(Width::Bits64, register, source);
        if let Argument::End(region) = *argument {
            self.assembler.arithmetic_load(Arithmetic::Add, Width::Bits64, register, layout::region_length(region));
        }
    }

    /// The start of a function: all but the first keep r6 to r9 and take a frame.
    pub(super) fn start_function(&mut self) {
        if self.verified.function_of(self.index) != 0 {
            for register in SAVED {
                self.assembler.push(register);
            }
            self.assembler.arithmetic_immediate(Arithmetic::Subtract, Width::Bits64, Register::Rsp, 8);
            self.assembler.arithmetic_immediate(Arithmetic::Subtract, Width::Bits64, FRAME, FRAME_SIZE as i32);
        }
        if self.note().has(Annotation::ZERO_FRAME) {
            self.zero_frame();
        }
        if self.note().has(Annotation::ZERO_REGISTERS) {
            self.zero_registers();
        }
    }

    /// Clears the registers that hold nothing at a function's start: r0, r6 to r9, and of the first function those
    /// without an argument.
    fn zero_registers(&mut self) {
        let first_free = match self.verified.function_of(self.index) {
            0 => self.verified.context.arguments.len() as u8 + 1,
            _ => 6,
        };
        for number in (0..FRAME_POINTER).filter(|number| *number == 0 || *number >= first_free) {
            if self.shape.names(number) {
                self.constant(layout::register(number), 0);
            }
        }
    }

    /// Clears the frame by `rep stosq`. r0 holds nothing at a function's start.
    fn zero_frame(&mut self) {
        self.assembler.move_register(Width::Bits64, SECOND_SCRATCH, Register::Rdi);
        self.assembler.load_effective_address(Register::Rdi, Memory::at(FRAME, -(FRAME_SIZE as i32)));
        self.assembler.move_immediate(SCRATCH, u64::from(FRAME_SIZE / 8));
        self.assembler.move_immediate(Register::Rax, 0);
        self.assembler.bytes(&[0xf3, 0x48, 0xab]);
        self.assembler.move_register(Width::Bits64, Register::Rdi, SECOND_SCRATCH);
    }

    /// `exit`: the first function ends the program, others return.
    pub(super) fn exit(&mut self) {
        if self.verified.function_of(self.index) == 0 {
            // r0 is in rax already, and the native stack is where entering left it.
            return self.leave();
        }
        self.assembler.arithmetic_immediate(Arithmetic::Add, Width::Bits64, FRAME, FRAME_SIZE as i32);
        self.assembler.arithmetic_immediate(Arithmetic::Add, Width::Bits64, Register::Rsp, 8);
        for register in SAVED.into_iter().rev() {
            self.assembler.pop(register);
        }
        self.assembler.return_();
    }

    /// Takes `cost` from the budget, or stops.
    pub(super) fn charge(&mut self, cost: u32) {
        self.assembler.arithmetic_immediate(Arithmetic::Subtract, Width::Bits64, BUDGET, cost as i32);
        let label = self.labels.exit(self.index, Exit::BudgetOrAlignment);
        self.assembler.jump_if(Condition::Below, label);
    }

    /// The exits of one instruction that are used, out of the way of the code that runs.
    pub(super) fn exits(&mut self) -> Result<(), CompileError> {
        for exit in Exit::ALL {
            let label = self.labels.exit(self.index, exit);
            if self.assembler.is_used(label) {
                self.assembler.bind(label);
                self.one_exit(exit)?;
            }
        }
        Ok(())
    }

    fn one_exit(&mut self, exit: Exit) -> Result<(), CompileError> {
        let instruction = self.decode()?;
        let stop = match (exit, instruction) {
            (Exit::OutOfBounds, _) => Some(Stop::OutOfBounds),
            (Exit::BudgetOrAlignment, Instruction::Atomic { .. }) => Some(Stop::Misaligned),
            (Exit::BudgetOrAlignment, _) => Some(Stop::BudgetSpent),
            (Exit::BadArgument, _) => Some(Stop::BadArgument),
            (Exit::Helper, _) => None,
        };
        if stop == Some(Stop::BudgetSpent) {
            self.give_back(&instruction);
        }
        if let Some(stop) = stop {
            self.assembler.store_immediate(Width::Bits32, layout::stop(), stop as i32);
        }
        self.assembler.store_immediate(Width::Bits32, layout::stop_instruction(), self.index as i32);
        self.assembler.jump(self.labels.stopped());
        Ok(())
    }

    /// What the budget lacked was subtracted; the record says what was there.
    fn give_back(&mut self, instruction: &Instruction) {
        let cost = match *instruction {
            Instruction::Jump { target } | Instruction::Branch { target, .. } if target as usize <= self.index => {
                (self.index - target as usize) as u32 + 1
            }
            Instruction::CallFunction { target } => self.verified.function_length(target as usize) as u32,
            Instruction::CallHelper { number } => self.verified.context.helper(number).map_or(0, |helper| helper.cost),
            _ => 0,
        };
        self.assembler.arithmetic_immediate(Arithmetic::Add, Width::Bits64, BUDGET, cost as i32);
    }

    /// The common ends of code that is stopped.
    pub(super) fn ends(&mut self) {
        if self.verified.counts_budget() {
            self.assembler.bind(self.labels.no_budget());
            let cost = self.verified.function_length(0) as i32;
            self.assembler.arithmetic_immediate(Arithmetic::Add, Width::Bits64, BUDGET, cost);
            self.assembler.store_immediate(Width::Bits32, layout::stop(), Stop::BudgetSpent as i32);
            self.assembler.store_immediate(Width::Bits32, layout::stop_instruction(), 0);
            self.assembler.jump(self.labels.stopped());
        }
        self.assembler.bind(self.labels.stopped());
        self.assembler.arithmetic(Arithmetic::Xor, Width::Bits32, Register::Rax, Register::Rax);
        if self.shape.nests() {
            self.assembler.load(Width::Bits64, Register::Rsp, layout::native_stack());
        }
        self.leave();
    }

    /// The way back to the caller.
    fn leave(&mut self) {
        if self.verified.counts_budget() {
            self.assembler.store(Width::Bits64, layout::budget(), BUDGET);
        }
        if self.shape.pads() {
            self.assembler.arithmetic_immediate(Arithmetic::Add, Width::Bits64, Register::Rsp, 8);
        }
        for register in self.shape.kept().rev() {
            self.assembler.pop(register);
        }
        self.assembler.return_();
    }
}
