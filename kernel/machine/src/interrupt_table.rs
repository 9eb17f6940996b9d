//! The interrupt descriptor tables: which code runs for which vector (SDM volume 3, chapter 6).
//!
//! Two tables for all CPUs: while booting, a device interrupt only wakes a halted CPU; afterwards every vector goes
//! to `entry`. In both, NMI, double fault and machine check go to `critical_trap` on stacks of their own. INT3 and
//! INTO may be raised by users; every other software interrupt is refused by the gate's privilege level.

use crate::segment::{InterruptStack, KERNEL_CODE, TablePointer};
use crate::{apic, critical_trap, entry};
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;

const VECTORS: usize = 256;
/// First vector that is not an exception of the CPU.
pub(crate) const FIRST_INTERRUPT: usize = 32;
const BREAKPOINT: usize = 3;
const OVERFLOW: usize = 4;

/// One gate: an interrupt gate of the kernel's code segment.
#[repr(C)]
#[derive(Clone, Copy)]
struct Gate([u64; 2]);

impl Gate {
    const ABSENT: Self = Self([0; 2]);

    fn new(handler: u64, stack: u8, privilege: u64) -> Self {
        let low = handler & 0xffff | KERNEL_CODE << 16 | u64::from(stack) << 32 | 0x8e << 40 | privilege << 45;
        Self([low | (handler >> 16 & 0xffff) << 48, handler >> 32])
    }
}

/// A table; written only by the bootstrap CPU before any CPU loads it.
#[repr(C, align(4096))]
pub(crate) struct InterruptTable(UnsafeCell<[Gate; VECTORS]>);

// SAFETY: written once by `fill`, before other CPUs run; read only by hardware afterwards.
unsafe impl Sync for InterruptTable {}

/// In force while booting.
pub(crate) static BOOTING: InterruptTable = InterruptTable(UnsafeCell::new([Gate::ABSENT; VECTORS]));
/// In force from then on.
pub(crate) static RUNNING: InterruptTable = InterruptTable(UnsafeCell::new([Gate::ABSENT; VECTORS]));

/// Fills both tables.
///
/// # Safety
/// Called once, by the bootstrap CPU alone, before either table is loaded.
pub(crate) unsafe fn fill() {
    let wake = wake_stub as *const () as u64;
    for (vector, &handler) in entry::vector_addresses().iter().enumerate() {
        let gate = gate_for(vector, handler);
        let booting = if vector < FIRST_INTERRUPT { gate } else { Gate::new(wake, 0, 0) };
        // SAFETY: the caller guarantees that nothing else touches or uses the tables yet.
        unsafe {
            (*RUNNING.0.get())[vector] = gate;
            (*BOOTING.0.get())[vector] = booting;
        }
    }
}

fn gate_for(vector: usize, handler: u64) -> Gate {
    match critical_trap::handler(vector) {
        Some((handler, stack)) => Gate::new(handler, stack as u8, 0),
        None => Gate::new(handler, 0, if matches!(vector, BREAKPOINT | OVERFLOW) { 3 } else { 0 }),
    }
}

const _: () = assert!(InterruptStack::NonMaskable as u8 == 1);

/// Loads a filled table on this CPU.
pub(crate) fn load(table: &'static InterruptTable) {
    let pointer = TablePointer { limit: (size_of::<InterruptTable>() - 1) as u16, base: table.0.get() as u64 };
    // SAFETY: both tables are static and were filled before the first load; each gate leads to code that fits it.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(readonly, nostack, preserves_flags)) };
}

/// A device interrupt while booting: it has woken the CPU, which is all that is wanted.
#[unsafe(naked)]
extern "C" fn wake_stub() {
    naked_asm!(
        "push rax", "push rcx", "push rdx", "push rsi", "push rdi", "push r8", "push r9", "push r10", "push r11",
        "call {wake}",
        "pop r11", "pop r10", "pop r9", "pop r8", "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
        "iretq",
        wake = sym wake,
    )
}

extern "C" fn wake() {
    apic::end_of_interrupt();
}

/// Halts until the next interrupt, which is taken; interrupts are off again on return. Only while booting.
pub(crate) fn wait_for_interrupt() {
    // SAFETY: the booting table handles every interrupt; STI takes effect after HLT began, so none is lost.
    unsafe { asm!("sti", "hlt", "cli") };
}

/// Takes the interrupts that have come already; interrupts are off again on return. Only while booting. A timer that
/// was just stopped may have ended before.
pub(crate) fn take_pending_interrupts() {
    // SAFETY: the booting table handles every interrupt, which is taken before or after the NOP.
    unsafe { asm!("sti", "nop", "cli") };
}
