//! Counts the instructions that a piece of code executes, by single-stepping it: to hold the kernel's bound on the
//! work of one call without a counter in the hardware.

use std::arch::asm;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The processor's trap flag: with it every instruction ends in a SIGTRAP.
const TRAP_FLAG: u64 = 1 << 8;

static COUNT: AtomicU64 = AtomicU64::new(0);
/// One at a time steps; signal handlers are the process's.
pub(crate) static TURN: Mutex<()> = Mutex::new(());

extern "C" fn count_one(_: libc::c_int) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Runs `work` and returns what it returned with the number of instructions it executed, give or take the few that
/// switch counting on and off.
pub fn instructions<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // SAFETY: the handler only adds to an atomic; it runs on this thread, which has a whole stack.
    let earlier = unsafe { libc::signal(libc::SIGTRAP, count_one as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    COUNT.store(0, Ordering::Relaxed);
    set_trap_flag(true);
    let result = work();
    set_trap_flag(false);
    // SAFETY: puts back what was there.
    unsafe { libc::signal(libc::SIGTRAP, earlier) };
    (result, COUNT.load(Ordering::Relaxed))
}

/// Switches single-stepping on or off; SIGTRAP has a handler while it is on.
pub(crate) fn set_trap_flag(on: bool) {
    let flag = if on { TRAP_FLAG } else { 0 };
    // SAFETY: changes one flag of the flags register, by way of the stack below the red zone's reach: the assembly is
    // declared to use the stack, so the compiler keeps nothing there. SIGTRAP has a handler while the flag is set.
    unsafe {
        asm!(
            "pushfq",
            "and qword ptr [rsp], {clear}",
            "or qword ptr [rsp], {flag}",
            "popfq",
            clear = const !(TRAP_FLAG as i32),
            flag = in(reg) flag,
        );
    }
}
