//! Giving the CPU away, and coming back to it (exokernel-sosp95 §5.1.1).
//!
//! The kernel keeps RIP, RSP and flags only. A voluntary yield therefore costs what is live at that place. The compiler
//! saves the callee-saved registers that it needs, and the rest is gone; vector registers are kept only where they were
//! declared live ([`crate::vector`]). At the end of a slice, where anything may be live, the entry saves everything
//! ([`crate::upcall::slice_end_entry`]).

pub use crate::syscall::{time_slice_allocate as allocate, time_slice_free as free};
use crate::{exposed, syscall};
use abi::limits::SLICES_PER_CPU;
use abi::syscall::number;
pub use abi::time_slice::{ANY_POSITION, SliceInfo};
use abi::{EnvironmentId, Failure, KeyIndex};
use core::sync::atomic::Ordering::Relaxed;

/// Makes a call that comes back with all general registers lost, by way of a slice start upcall.
///
/// # Safety
/// The call is one of those, and its arguments are good.
#[inline]
pub(crate) unsafe fn give_up(number: u64, first: u64, second: u64) -> Result<(), Failure> {
    let _vectors = crate::vector::keep();
    let (error, detail): (u64, u64);
    // SAFETY: rbx and rbp, which cannot be named as lost, are kept on the stack; RSP and the flags are kept by the
    // kernel; all other registers are named. The slice start entry comes back here with rax and rdx zero.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "push rbp",
            "syscall",
            "pop rbp",
            "pop rbx",
            inlateout("rax") number => error, inlateout("rdi") first => _, inlateout("rsi") second => _,
            lateout("rdx") detail, lateout("rcx") _, lateout("r8") _, lateout("r9") _, lateout("r10") _,
            lateout("r11") _, lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
        );
    }
    crate::syscall::result(error, detail)
}

/// Gives the rest of the slice to an environment, or to the next one in turn ([`EnvironmentId::NONE`]); returns when a
/// slice of the own environment begins.
///
/// # Errors
/// `NoSuchEnvironment`, or `Busy` where it runs already: then the slice continues.
#[inline]
pub fn yield_to(environment: EnvironmentId) -> Result<(), Failure> {
    // SAFETY: a yield touches no memory.
    unsafe { give_up(number::time_slice_yield, environment.0, 0) }
}

/// Gives the rest of the slice to the next environment in turn.
#[inline]
pub fn yield_now() {
    // No environment is named, so there is nothing to refuse.
    let _ = yield_to(EnvironmentId::NONE);
}

/// Gives the CPU away, once for each end of a slice that the environment ran past, where these are more than a quarter
/// of what the kernel lets pass. Else long critical sections would end the environment.
pub fn make_up_for_excess() {
    let Some(own) = exposed::environment(crate::area::number()) else { return };
    while own.excess.load(Relaxed) > exposed::kernel().excess_limit.load(Relaxed) / 4 {
        yield_now();
    }
}

/// A position of some CPU's slice vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The CPU.
    pub cpu: u64,
    /// Which of its positions.
    pub at: u64,
}

/// The one whose slice runs on this CPU.
#[inline]
pub fn position() -> Position {
    let cpu = crate::area::cpu();
    Position { cpu, at: exposed::cpu(cpu).map_or(0, |info| info.position.load(Relaxed)) }
}

impl Position {
    fn info(self) -> Option<&'static SliceInfo> {
        exposed::slices(self.cpu).get(self.at as usize)
    }

    /// The environment that it is allocated to.
    pub fn owner(self) -> EnvironmentId {
        EnvironmentId(self.info().map_or(0, |info| info.owner.load(Relaxed)))
    }

    /// Whether the running environment is its runner, as far as was told ([`SliceInfo::runner`]), and not its owner.
    pub fn is_lent(self) -> bool {
        let own = crate::area::number();
        self.owner() != own && self.info().is_some_and(|info| info.runner.load(Relaxed) == own.0)
    }
}

/// Gives every position that the running environment was lent back to whom it is allocated to.
pub fn give_back() {
    let here = position();
    for cpu in 0..exposed::kernel().cpus.load(Relaxed) {
        for position in (0..SLICES_PER_CPU as u64).map(|at| Position { cpu, at }) {
            // The exposed runner of this position may be out of date. Without a key no position is freed.
            if (position == here && position.owner() != crate::area::number()) || position.is_lent() {
                let _ = syscall::time_slice_free(KeyIndex::WELL_KNOWN, cpu, position.at);
            }
        }
    }
}
