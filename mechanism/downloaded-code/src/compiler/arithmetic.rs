//! Arithmetic and constants.

use super::Emitter;
use super::layout::{SCRATCH, SECOND_SCRATCH, memory_width, region_base, register, width};
use crate::instruction::{Arithmetic, ByteOrder, Operand, Size};
use crate::verifier::Annotation;
use crate::x86_64::{self, Condition, Register, Shift, Width};

impl Emitter<'_, '_, '_> {
    pub(super) fn arithmetic(&mut self, operation: Arithmetic, wide: bool, destination: u8, operand: Operand) {
        let target = register(destination);
        if let Some(constant) = self.note().constant() {
            return self.constant(target, constant as i64 as u64);
        }
        match operation {
            Arithmetic::Move => self.move_(wide, target, operand),
            Arithmetic::MoveSigned(size) => self.move_signed(size, wide, target, operand),
            Arithmetic::Add => self.two_operand(x86_64::Arithmetic::Add, wide, target, operand),
            Arithmetic::Subtract => self.two_operand(x86_64::Arithmetic::Subtract, wide, target, operand),
            Arithmetic::Or => self.two_operand(x86_64::Arithmetic::Or, wide, target, operand),
            Arithmetic::And => self.two_operand(x86_64::Arithmetic::And, wide, target, operand),
            Arithmetic::Xor => self.two_operand(x86_64::Arithmetic::Xor, wide, target, operand),
            Arithmetic::Multiply => self.multiply(wide, target, operand),
            Arithmetic::ShiftLeft => self.shift(Shift::Left, wide, target, operand),
            Arithmetic::ShiftRight => self.shift(Shift::Right, wide, target, operand),
            Arithmetic::ArithmeticShiftRight => self.shift(Shift::ArithmeticRight, wide, target, operand),
            Arithmetic::Divide | Arithmetic::Modulo | Arithmetic::SignedDivide | Arithmetic::SignedModulo => {
                self.divide(operation, wide, target, operand);
            }
        }
    }

    /// A constant into a register, hidden if it is long and the request says so. Changes the flags.
    pub(super) fn constant(&mut self, target: Register, value: u64) {
        if value == 0 {
            return self.assembler.arithmetic(x86_64::Arithmetic::Xor, Width::Bits32, target, target);
        }
        let Some(key) = self.key_for(value as i64) else {
            return self.assembler.move_immediate(target, value);
        };
        if let Ok(value) = u32::try_from(value) {
            self.assembler.move_immediate_32(target, value ^ key as u32);
            let key = key as u32 as i32;
            return self.assembler.arithmetic_immediate(x86_64::Arithmetic::Xor, Width::Bits32, target, key);
        }
        let other = if target == SCRATCH { SECOND_SCRATCH } else { SCRATCH };
        self.assembler.move_immediate(target, value ^ key);
        self.assembler.move_immediate(other, key);
        self.assembler.arithmetic(x86_64::Arithmetic::Xor, Width::Bits64, target, other);
    }

    /// A key for hiding a constant; none if it is a byte, or nothing is hidden. The same in both passes.
    fn key_for(&mut self, value: i64) -> Option<u64> {
        let secret = self.request.blinding?;
        if i8::try_from(value).is_ok() {
            return None;
        }
        self.keys += 1;
        let number = (self.index as u64) << 8 | self.keys;
        Some(mixed(secret ^ mixed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))) | 1 << 31 | 1 << 63)
    }

    /// An operand as a register: a hidden constant goes through scratch. `None` for a constant to be used as it is.
    pub(super) fn operand_register(&mut self, operand: Operand, wide: bool) -> Option<Register> {
        match operand {
            Operand::Register(source) => Some(register(source)),
            Operand::Immediate(value) => {
                let hidden = self.request.blinding.is_some() && i8::try_from(value).is_err();
                hidden.then(|| {
                    let word = if wide { value as i64 as u64 } else { u64::from(value as u32) };
                    self.constant(SECOND_SCRATCH, word);
                    SECOND_SCRATCH
                })
            }
        }
    }

    fn two_operand(&mut self, operation: x86_64::Arithmetic, wide: bool, target: Register, operand: Operand) {
        match (self.operand_register(operand, wide), operand) {
            (None, Operand::Immediate(value)) => {
                self.assembler.arithmetic_immediate(operation, width(wide), target, value);
            }
            (source, _) => self.assembler.arithmetic(operation, width(wide), target, source.unwrap_or(SECOND_SCRATCH)),
        }
    }

    fn move_(&mut self, wide: bool, target: Register, operand: Operand) {
        match operand {
            Operand::Register(source) => self.assembler.move_register(width(wide), target, register(source)),
            Operand::Immediate(value) if wide => self.constant(target, value as i64 as u64),
            Operand::Immediate(value) => self.constant(target, u64::from(value as u32)),
        }
    }

    fn move_signed(&mut self, size: Size, wide: bool, target: Register, operand: Operand) {
        let Operand::Register(source) = operand else { return };
        let source = register(source);
        if wide {
            self.assembler.move_signed(memory_width(size), target, source);
        } else {
            self.assembler.move_signed_32(memory_width(size), target, source);
        }
    }

    fn multiply(&mut self, wide: bool, target: Register, operand: Operand) {
        match (self.operand_register(operand, wide), operand) {
            (None, Operand::Immediate(value)) => {
                self.assembler.multiply_immediate(width(wide), target, target, value);
            }
            (source, _) => self.assembler.multiply(width(wide), target, source.unwrap_or(SECOND_SCRATCH)),
        }
    }

    fn shift(&mut self, shift: Shift, wide: bool, target: Register, operand: Operand) {
        match operand {
            Operand::Immediate(count) => {
                let count = count as u8 & if wide { 63 } else { 31 };
                self.assembler.shift_immediate(shift, width(wide), target, count);
                // A 32-bit shift by zero leaves the upper half alone.
                if !wide && count == 0 {
                    self.assembler.move_register(Width::Bits32, target, target);
                }
            }
            Operand::Register(source) => {
                self.assembler.move_register(Width::Bits32, SCRATCH, register(source));
                self.assembler.shift_by_cl(shift, width(wide), target);
                if !wide {
                    self.assembler.move_register(Width::Bits32, target, target);
                }
            }
        }
    }

    /// Division and remainder. By zero they give zero and the dividend; the least number by -1 is itself, remainder 0.
    fn divide(&mut self, operation: Arithmetic, wide: bool, target: Register, operand: Operand) {
        if self.divide_by_power_of_two(operation, wide, target, operand) {
            return;
        }
        let width = width(wide);
        match operand {
            Operand::Register(source) => self.assembler.move_register(width, SCRATCH, register(source)),
            Operand::Immediate(value) if wide => self.constant(SCRATCH, value as i64 as u64),
            Operand::Immediate(value) => self.constant(SCRATCH, u64::from(value as u32)),
        }
        let remainder = matches!(operation, Arithmetic::Modulo | Arithmetic::SignedModulo);
        let signed = matches!(operation, Arithmetic::SignedDivide | Arithmetic::SignedModulo);
        let mut ends = [None, None];
        if !self.note().has(Annotation::DIVISOR_NOT_ZERO) {
            self.assembler.test(width, SCRATCH, SCRATCH);
            let usual = self.assembler.skip_if(Condition::NotEqual);
            if remainder {
                self.assembler.move_register(width, target, target);
            } else {
                self.assembler.move_immediate(target, 0);
            }
            ends[0] = Some(self.assembler.skip());
            self.assembler.land(usual);
        }
        if signed && !self.note().has(Annotation::NO_OVERFLOW) {
            self.assembler.arithmetic_immediate(x86_64::Arithmetic::Compare, width, SCRATCH, -1);
            let usual = self.assembler.skip_if(Condition::NotEqual);
            if remainder {
                self.assembler.move_immediate(target, 0);
            } else {
                self.assembler.negate(width, target);
            }
            ends[1] = Some(self.assembler.skip());
            self.assembler.land(usual);
        }
        self.divide_by_scratch(signed, remainder, width, target);
        for end in ends.into_iter().flatten() {
            self.assembler.land(end);
        }
    }

    /// The hardware's division uses rax and rdx, which hold r0 and r3.
    fn divide_by_scratch(&mut self, signed: bool, remainder: bool, width: Width, target: Register) {
        if target != Register::Rax {
            self.assembler.move_register(Width::Bits64, SECOND_SCRATCH, Register::Rax);
        }
        if target != Register::Rdx {
            self.assembler.push(Register::Rdx);
        }
        if target != Register::Rax {
            self.assembler.move_register(width, Register::Rax, target);
        }
        if signed {
            self.assembler.sign_into_rdx(width);
            self.assembler.divide_signed(width, SCRATCH);
        } else {
            self.assembler.move_immediate(Register::Rdx, 0);
            self.assembler.divide(width, SCRATCH);
        }
        let result = if remainder { Register::Rdx } else { Register::Rax };
        self.assembler.move_register(width, SCRATCH, result);
        if target != Register::Rdx {
            self.assembler.pop(Register::Rdx);
        }
        if target != Register::Rax {
            self.assembler.move_register(Width::Bits64, Register::Rax, SECOND_SCRATCH);
        }
        self.assembler.move_register(width, target, SCRATCH);
    }

    /// Unsigned division by a constant power of two is a shift or a mask. Says whether it was one.
    fn divide_by_power_of_two(
        &mut self,
        operation: Arithmetic,
        wide: bool,
        target: Register,
        operand: Operand,
    ) -> bool {
        let Operand::Immediate(divisor) = operand else { return false };
        if divisor <= 0 || !(divisor as u32).is_power_of_two() {
            return false;
        }
        match operation {
            Arithmetic::Divide => {
                let shift = Operand::Immediate(divisor.trailing_zeros() as i32);
                self.shift(Shift::Right, wide, target, shift);
            }
            Arithmetic::Modulo => {
                self.two_operand(x86_64::Arithmetic::And, wide, target, Operand::Immediate(divisor - 1));
            }
            _ => return false,
        }
        true
    }

    pub(super) fn negate(&mut self, wide: bool, destination: u8) {
        match self.note().constant() {
            Some(constant) => self.constant(register(destination), constant as i64 as u64),
            None => self.assembler.negate(width(wide), register(destination)),
        }
    }

    pub(super) fn byte_order(&mut self, order: ByteOrder, size: Size, destination: u8) {
        let target = register(destination);
        if let Some(constant) = self.note().constant() {
            return self.constant(target, constant as i64 as u64);
        }
        match (order, size) {
            (ByteOrder::ToLittle, Size::Double) => {}
            (ByteOrder::ToLittle, _) => self.assembler.move_unsigned(memory_width(size), target, target),
            (_, Size::Word | Size::Double) => self.assembler.byte_swap(memory_width(size), target),
            _ => {
                self.assembler.shift_immediate(Shift::RotateLeft, Width::Bits16, target, 8);
                self.assembler.move_unsigned(Width::Bits16, target, target);
            }
        }
    }

    /// The address of a place in a region.
    pub(super) fn load_region(&mut self, destination: u8, region: u32, offset: u32) {
        let target = register(destination);
        self.assembler.load(Width::Bits64, target, region_base(region as u8));
        if offset != 0 {
            self.constant(SECOND_SCRATCH, offset.into());
            self.assembler.arithmetic(x86_64::Arithmetic::Add, Width::Bits64, target, SECOND_SCRATCH);
        }
    }
}

/// Spreads every bit of a word over all of it.
fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
