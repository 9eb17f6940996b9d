//! Segments and the task state segment of a CPU (SDM volume 3, chapters 3 and 8).
//!
//! One table a CPU, in the order that SYSCALL and SYSRET want. There is no 32-bit user code segment and no LDT. The
//! last entry is no segment: its limit is the CPU's number, which code that cannot trust GS reads with LSL.

use crate::per_cpu::Cpu;
use abi::upcall::{USER_CODE, USER_DATA};
use core::arch::asm;

/// Selector of the kernel's code.
pub(crate) const KERNEL_CODE: u64 = 0x08;
/// Selector of the kernel's data; SYSRET's selectors are counted from it.
pub(crate) const KERNEL_DATA: u64 = 0x10;
const TASK_STATE: u64 = 0x28;
const CPU_NUMBER: u64 = 0x38;

const _: () = assert!(USER_DATA == (KERNEL_DATA + 8) | 3 && USER_CODE == (KERNEL_DATA + 16) | 3);

/// Interrupt stacks: index in the task state segment, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum InterruptStack {
    NonMaskable = 1,
    DoubleFault = 2,
    MachineCheck = 3,
}

/// The global descriptor table.
#[repr(C, align(64))]
pub(crate) struct Descriptors([u64; 8]);

/// The 64-bit task state segment, without an I/O bitmap: every port is refused.
#[repr(C, packed(4))]
pub(crate) struct TaskState {
    reserved: u32,
    privilege_stacks: [u64; 3],
    reserved_1: u64,
    interrupt_stacks: [u64; 7],
    reserved_2: u64,
    reserved_3: u16,
    bitmap_offset: u16,
}

const TASK_STATE_BYTES: u64 = size_of::<TaskState>() as u64;

impl Descriptors {
    pub(crate) const fn new() -> Self {
        Self([0; 8])
    }
}

impl TaskState {
    pub(crate) const fn new() -> Self {
        Self {
            reserved: 0,
            privilege_stacks: [0; 3],
            reserved_1: 0,
            interrupt_stacks: [0; 7],
            reserved_2: 0,
            reserved_3: 0,
            bitmap_offset: TASK_STATE_BYTES as u16,
        }
    }

    /// Sets the stack for entries from user mode, and the interrupt stacks.
    pub(crate) fn set_stacks(&mut self, kernel: u64, interrupt: [(InterruptStack, u64); 3]) {
        self.privilege_stacks = [kernel, 0, 0];
        let mut stacks = [0; 7];
        for (stack, top) in interrupt {
            stacks[stack as usize - 1] = top;
        }
        self.interrupt_stacks = stacks;
    }
}

/// The table for a CPU whose task state segment lies at `task_state`.
pub(crate) fn descriptors(cpu: usize, task_state: u64) -> Descriptors {
    let limit = TASK_STATE_BYTES - 1;
    let low = limit | (task_state & 0xff_ffff) << 16 | 0x89 << 40 | (task_state >> 24 & 0xff) << 56;
    Descriptors([
        0,
        0x00af_9b00_0000_ffff,
        0x00cf_9300_0000_ffff,
        0x00cf_f300_0000_ffff,
        0x00af_fb00_0000_ffff,
        low,
        task_state >> 32,
        0x0040_9100_0000_0000 | cpu as u64,
    ])
}

#[repr(C, packed)]
pub(crate) struct TablePointer {
    pub(crate) limit: u16,
    pub(crate) base: u64,
}

/// Loads the segments of a CPU on it; data segments are null, GS base is set by the caller afterwards.
///
/// # Safety
/// `cpu` is this CPU's structure, filled by `Cpu::prepare`.
pub(crate) unsafe fn load(cpu: &'static Cpu) {
    let pointer = TablePointer { limit: size_of::<Descriptors>() as u16 - 1, base: cpu.descriptors_address() };
    // SAFETY: the table is static and complete; code continues in a segment like the one before; the kernel uses no
    // other segment but SS, and GS base, which the caller sets.
    unsafe {
        asm!(
            "lgdt [{pointer}]",
            "push {code}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "retfq",
            "2:",
            "mov ss, {data:e}",
            "mov ds, {null:e}",
            "mov es, {null:e}",
            "mov fs, {null:e}",
            "mov gs, {null:e}",
            "lldt {null:x}",
            "ltr {task:x}",
            pointer = in(reg) &raw const pointer,
            code = const KERNEL_CODE,
            data = in(reg) KERNEL_DATA,
            null = in(reg) 0u64,
            task = in(reg) TASK_STATE,
            scratch = out(reg) _,
        );
    }
}

/// The number of this CPU, from its segments; none before they are loaded.
pub(crate) fn cpu_number() -> Option<usize> {
    let (limit, loaded): (u64, u8);
    // SAFETY: LSL only reads a descriptor; the boot tables are too short for this one and leave ZF clear.
    unsafe {
        asm!("lsl {limit}, {selector}", "setz {loaded}", limit = out(reg) limit, selector = in(reg) CPU_NUMBER,
            loaded = out(reg_byte) loaded, options(nostack));
    }
    (loaded != 0).then_some(limit as usize)
}
