//! Where things are in compiled code: registers, offsets in the invocation record, labels.
//!
//! Every BPF register has an x86-64 register of its own. The choice lets helpers find r1, r2, r3 and r5 where the
//! System V convention wants them, and lets r6 to r9 survive calls. rcx and r10 are scratch, rbx holds the invocation
//! record and r11 the budget, where it is counted, or else zero, where loads are masked.

use core::mem::offset_of;

use crate::instruction::Size;
use crate::invocation::{Invocation, RegionEntry};
use crate::x86_64::{Label, Memory, Register, Width};

/// The invocation record.
pub(super) const RECORD: Register = Register::Rbx;
/// What is left of the budget.
pub(super) const BUDGET: Register = Register::R11;
/// Zero, where [`super::Emitter::keeps_zero`] says so.
pub(super) const ZERO: Register = Register::R11;
/// The end of the program's current frame: r10.
pub(super) const FRAME: Register = Register::Rbp;
/// Scratch; holds addresses and shift counts.
pub(super) const SCRATCH: Register = Register::Rcx;
/// Scratch; holds constants and masks.
pub(super) const SECOND_SCRATCH: Register = Register::R10;

/// Registers that compiled code must keep for its caller if it changes them, besides rsp.
pub(super) const KEPT: [Register; 6] =
    [Register::Rbx, Register::Rbp, Register::R12, Register::R13, Register::R14, Register::R15];
/// r6 to r9, which a function keeps for its caller.
pub(super) const SAVED: [Register; 4] = [Register::R12, Register::R13, Register::R14, Register::R15];

/// The register of a BPF register.
pub(super) const fn register(number: u8) -> Register {
    match number {
        0 => Register::Rax,
        1 => Register::Rdi,
        2 => Register::Rsi,
        3 => Register::Rdx,
        4 => Register::R9,
        5 => Register::R8,
        6 => Register::R12,
        7 => Register::R13,
        8 => Register::R14,
        9 => Register::R15,
        _ => FRAME,
    }
}

/// The register width of an operation.
pub(super) fn width(wide: bool) -> Width {
    if wide { Width::Bits64 } else { Width::Bits32 }
}

/// The width of a memory operand.
pub(super) fn memory_width(size: Size) -> Width {
    match size {
        Size::Byte => Width::Bits8,
        Size::Half => Width::Bits16,
        Size::Word => Width::Bits32,
        Size::Double => Width::Bits64,
    }
}

fn field(offset: usize) -> Memory {
    Memory::at(RECORD, offset as i32)
}

pub(super) fn budget() -> Memory {
    field(offset_of!(Invocation, budget))
}

pub(super) fn stop() -> Memory {
    field(offset_of!(Invocation, stop))
}

pub(super) fn stop_instruction() -> Memory {
    field(offset_of!(Invocation, stop_instruction))
}

pub(super) fn stack_top() -> Memory {
    field(offset_of!(Invocation, stack_top))
}

pub(super) fn native_stack() -> Memory {
    field(offset_of!(Invocation, native_stack))
}

pub(super) fn scalar(index: usize) -> Memory {
    field(offset_of!(Invocation, scalars) + index * 8)
}

/// Address of a region.
pub(super) fn region_base(region: u8) -> Memory {
    field(region_entry(region) + offset_of!(RegionEntry, base))
}

/// How many start offsets an access of this size may have in a region.
pub(super) fn region_limit(region: u8, size: Size) -> Memory {
    field(region_entry(region) + offset_of!(RegionEntry, limits) + size as usize * 8)
}

/// Length of a region.
pub(super) fn region_length(region: u8) -> Memory {
    region_limit(region, Size::Byte)
}

fn region_entry(region: u8) -> usize {
    offset_of!(Invocation, regions) + usize::from(region) * size_of::<RegionEntry>()
}

/// Reasons for which one instruction can stop the program, each with a label of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    OutOfBounds,
    /// The budget, or of an atomic operation the alignment.
    BudgetOrAlignment,
    BadArgument,
    Helper,
}

impl Exit {
    pub(super) const ALL: [Self; 4] = [Self::OutOfBounds, Self::BudgetOrAlignment, Self::BadArgument, Self::Helper];
}

/// Labels of a program: for each slot its code, a call's way in, four exits and a place inside; two for the common
/// ends.
#[derive(Clone, Copy)]
pub(super) struct Labels {
    slots: u32,
}

impl Labels {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: slots as u32 }
    }

    pub(super) const fn count(slots: usize) -> usize {
        slots * 7 + 2
    }

    pub(super) fn slot(self, index: usize) -> Label {
        Label(index as u32)
    }

    /// Where calls enter the function that starts at this slot: jumps to the slot come after what is done on entry.
    pub(super) fn entry(self, index: usize) -> Label {
        Label(self.slots * 5 + index as u32)
    }

    pub(super) fn exit(self, index: usize, exit: Exit) -> Label {
        Label(self.slots + index as u32 * 4 + exit as u32)
    }

    /// Where jumps enter the access at this slot that have compared what it compares.
    pub(super) fn compared(self, index: usize) -> Label {
        Label(self.slots * 6 + index as u32)
    }

    /// The budget does not cover the first function.
    pub(super) fn no_budget(self) -> Label {
        Label(self.slots * 7)
    }

    /// The program is stopped.
    pub(super) fn stopped(self) -> Label {
        Label(self.slots * 7 + 1)
    }
}
