//! Ways into the kernel that old programs use in place of `syscall`: the vsyscall page, and `int $0x80` in 64-bit code.
//!
//! Both arrive as faults: no page lies at the vsyscall addresses, and no gate serves interrupt 0x80.

use crate::hw::usercopy;
use crate::syscalls;
use abi::upcall::{UpcallFrame, kind};
use linux_raw_sys::general as linux;
use runtime::upcall::{Context, Registers};

/// Addresses of the vsyscall page, and the calls that stand for its functions.
const FUNCTIONS: [(u64, u32); 3] = [
    (0xffff_ffff_ff60_0000, linux::__NR_gettimeofday),
    (0xffff_ffff_ff60_0400, linux::__NR_time),
    (0xffff_ffff_ff60_0800, linux::__NR_getcpu),
];
/// `int $0x80`, which is a general protection fault. Its error code is another one under QEMU than on a CPU.
const INTERRUPT: [u8; 2] = [0xcd, 0x80];

/// Calls of the 32-bit table whose arguments mean the same in the 64-bit one: both numbers.
const SAME: [(u64, u32); 38] = [
    (1, linux::__NR_exit),
    (2, linux::__NR_fork),
    (3, linux::__NR_read),
    (4, linux::__NR_write),
    (5, linux::__NR_open),
    (6, linux::__NR_close),
    (8, linux::__NR_creat),
    (9, linux::__NR_link),
    (10, linux::__NR_unlink),
    (12, linux::__NR_chdir),
    (15, linux::__NR_chmod),
    (19, linux::__NR_lseek),
    (20, linux::__NR_getpid),
    (27, linux::__NR_alarm),
    (29, linux::__NR_pause),
    (33, linux::__NR_access),
    (36, linux::__NR_sync),
    (37, linux::__NR_kill),
    (38, linux::__NR_rename),
    (39, linux::__NR_mkdir),
    (40, linux::__NR_rmdir),
    (41, linux::__NR_dup),
    (42, linux::__NR_pipe),
    (45, linux::__NR_brk),
    (57, linux::__NR_setpgid),
    (60, linux::__NR_umask),
    (63, linux::__NR_dup2),
    (64, linux::__NR_getppid),
    (65, linux::__NR_getpgrp),
    (66, linux::__NR_setsid),
    (83, linux::__NR_symlink),
    (118, linux::__NR_fsync),
    (158, linux::__NR_sched_yield),
    (199, linux::__NR_getuid),
    (200, linux::__NR_getgid),
    (201, linux::__NR_geteuid),
    (202, linux::__NR_getegid),
    (224, linux::__NR_gettid),
];
/// `exit_group` of the 32-bit table.
const EXIT_GROUP: (u64, u32) = (252, linux::__NR_exit_group);

/// Performs the call that a fault stands for. False where it stands for none.
#[cold]
pub(super) fn perform(context: &mut Context) -> bool {
    let frame = context.frame;
    match frame.kind {
        kind::PAGE_FAULT => perform_vsyscall(context, &frame),
        kind::GENERAL_PROTECTION if usercopy::read_vec(frame.rip, INTERRUPT.len()).as_deref() == Ok(&INTERRUPT) => {
            perform_interrupt(context);
            true
        }
        _ => false,
    }
}

/// A call of the vsyscall page returns to where its caller's `call` says.
fn perform_vsyscall(context: &mut Context, frame: &UpcallFrame) -> bool {
    let Some((_, number)) = FUNCTIONS.iter().find(|(address, _)| *address == frame.rip) else { return false };
    let Ok(back) = usercopy::read_word(frame.rsp) else { return false };
    context.frame.rip = back;
    context.frame.rsp += 8;
    context.registers.rax = u64::from(*number);
    syscalls::perform(context);
    true
}

/// Arguments lie in ebx, ecx, edx, esi, edi, ebp. Only the lower half of each counts. A call that is not in the table
/// gives `ENOSYS`.
fn perform_interrupt(context: &mut Context) {
    const ABSENT: u64 = u32::MAX as u64;
    let before = context.registers;
    let number = before.rax & ABSENT;
    let found = SAME.iter().chain([&EXIT_GROUP]).find(|(old, _)| *old == number);
    let half = |register: u64| register & ABSENT;
    let registers = &mut context.registers;
    registers.rax = found.map_or(ABSENT, |(_, new)| u64::from(*new));
    (registers.rdi, registers.rsi, registers.rdx) = (half(before.rbx), half(before.rcx), half(before.rdx));
    (registers.r10, registers.r8, registers.r9) = (half(before.rsi), half(before.rdi), half(before.rbp));
    context.frame.rip += INTERRUPT.len() as u64;
    syscalls::perform(context);
    // Only the result is another one afterwards.
    context.registers = Registers { rax: context.registers.rax, ..before };
}
