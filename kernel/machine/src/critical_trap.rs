//! NMI, double fault and machine check: each on a stack of its own, whatever was going on (FAULTS rows 26 and 95).
//!
//! They may come anywhere, between the entry of a system call and its stack switch too, with any GS. So they use
//! neither GS nor any lock: the top of each of these stacks holds the address of its CPU's structure. An NMI is counted
//! and returns; while a panic stops the machine it halts. A double fault and a machine check are the end.

use crate::panic;
use crate::per_cpu::Cpu;
use crate::segment::InterruptStack;
use crate::stop::halt_for_ever;
use core::arch::naked_asm;
use core::sync::atomic::Ordering;

const NON_MASKABLE: usize = 2;
const DOUBLE_FAULT: usize = 8;
const MACHINE_CHECK: usize = 18;

/// What the CPU pushed, then the address of this CPU's structure.
#[repr(C)]
pub(crate) struct CriticalFrame {
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
    cpu: &'static Cpu,
}

/// The handler of a vector and its stack, if it is one of the three.
pub(crate) fn handler(vector: usize) -> Option<(u64, InterruptStack)> {
    match vector {
        NON_MASKABLE => Some((non_maskable_stub as *const () as u64, InterruptStack::NonMaskable)),
        DOUBLE_FAULT => Some((double_fault_stub as *const () as u64, InterruptStack::DoubleFault)),
        MACHINE_CHECK => Some((machine_check_stub as *const () as u64, InterruptStack::MachineCheck)),
        _ => None,
    }
}

#[unsafe(naked)]
extern "C" fn non_maskable_stub() {
    naked_asm!(
        "push 0",
        "push rax", "push rcx", "push rdx", "push rsi", "push rdi", "push r8", "push r9", "push r10", "push r11",
        "lea rdi, [rsp + 72]",
        "sub rsp, 8",
        "cld",
        "call {handler}",
        "add rsp, 8",
        "pop r11", "pop r10", "pop r9", "pop r8", "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
        "add rsp, 8",
        "iretq",
        handler = sym non_maskable,
    )
}

#[unsafe(naked)]
extern "C" fn double_fault_stub() {
    naked_asm!("mov rdi, rsp", "mov rsi, rbp", "cld", "call {handler}", "ud2", handler = sym double_fault)
}

#[unsafe(naked)]
extern "C" fn machine_check_stub() {
    naked_asm!("push 0", "mov rdi, rsp", "mov rsi, rbp", "cld", "call {handler}", "ud2", handler = sym machine_check)
}

extern "C" fn non_maskable(frame: &CriticalFrame) {
    frame.cpu.non_maskable_interrupts.fetch_add(1, Ordering::Relaxed);
    if panic::is_stopping() {
        halt_for_ever();
    }
}

extern "C" fn double_fault(frame: &CriticalFrame, rbp: u64) -> ! {
    end("double fault", frame, rbp)
}

extern "C" fn machine_check(frame: &CriticalFrame, rbp: u64) -> ! {
    end("machine check", frame, rbp)
}

fn end(what: &str, frame: &CriticalFrame, rbp: u64) -> ! {
    let CriticalFrame { error, rip, cs, rflags, rsp, ss, cpu: _ } = *frame;
    panic::stop_with_record(
        format_args!("{what}: error {error:#x} cs {cs:#x} rflags {rflags:#x} rsp {rsp:#x} ss {ss:#x}"),
        rip,
        if cs & 3 == 0 { rbp } else { 0 },
    )
}
