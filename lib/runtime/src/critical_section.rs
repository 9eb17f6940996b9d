//! Critical sections: while one is open, upcalls that can wait stay pending, and are delivered at its end.
//!
//! Deferred are slice start, slice end, event, revocation, repossession and emergency; exceptions and reflected calls
//! are not. A section that runs past the end of a slice by more than the grace counts as an excess. It excludes only
//! the upcalls of its own environment: against other CPUs there are locks ([`crate::lock`]).

use crate::area::Area;
use crate::upcall::deliver;
use abi::area::{
    PENDING_EMERGENCY, PENDING_EVENT, PENDING_REPOSSESSION, PENDING_REVOCATION, PENDING_SLICE_END, PENDING_SLICE_START,
    PrivateWords,
};
use abi::upcall::kind;
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering::SeqCst;

/// Where the words lie from GS base on: one instruction for each step.
const DEPTH: u64 = offset_of!(PrivateWords, critical_section) as u64;
const PENDING: u64 = offset_of!(PrivateWords, pending) as u64;

/// An open critical section. Sections nest; the last one to be left delivers what is pending.
#[derive(Debug)]
#[must_use = "the critical section ends when this is dropped"]
pub struct CriticalSection(());

/// Opens one.
#[inline]
pub fn enter() -> CriticalSection {
    // SAFETY: GS base points at the private page, in which the word lies; what it holds is the environment's own affair.
    unsafe { asm!("lock inc qword ptr gs:[{}]", const DEPTH, options(nostack)) };
    CriticalSection(())
}

impl CriticalSection {
    /// Closes it, for a caller that only returns after that: whether the caller must call `deliver_pending`.
    #[inline]
    #[must_use = "what is pending is to be delivered"]
    pub(crate) fn close(self) -> bool {
        core::mem::forget(self);
        close()
    }
}

impl Drop for CriticalSection {
    #[inline]
    fn drop(&mut self) {
        leave();
    }
}

/// In the middle of long work: if the slice has ended, gives the CPU away now. So the end of a section that may take
/// longer than the grace is no excess. Nothing is delivered meanwhile, and locks stay held: who waits for them waits
/// on.
#[inline]
pub fn give_way() {
    // SAFETY: as in `enter`; nothing is changed.
    unsafe {
        asm!(
            "test dword ptr gs:[{pending}], {ended}",
            "jne {yield_now}",
            pending = const PENDING, ended = const PENDING_SLICE_END as u32, yield_now = label { yield_at_end() },
            options(nostack),
        );
    }
}

#[cold]
fn yield_at_end() {
    let _ = take_slice_end();
    crate::time_slice::yield_now();
}

/// Whether the slice has ended since the section was opened, or since the last call. The caller gives the CPU away for
/// it, and no upcall comes for it any more.
#[inline]
#[must_use = "who takes the end of a slice gives the CPU away"]
pub fn take_slice_end() -> bool {
    Area::current().private().pending.fetch_and(!PENDING_SLICE_END, SeqCst) & PENDING_SLICE_END != 0
}

/// Closes one, even if other code opened it.
#[inline]
pub(crate) fn leave() {
    if close() {
        deliver_pending();
    }
}

/// Closes one; whether something is pending then.
#[inline]
fn close() -> bool {
    // SAFETY: as in `enter`. What came meanwhile is looked at after the word is 0, as whoever leaves it there expects.
    unsafe {
        asm!(
            "lock dec qword ptr gs:[{depth}]",
            "jnz 2f",
            "cmp qword ptr gs:[{pending}], 0",
            "jne {deliver}",
            "2:",
            depth = const DEPTH, pending = const PENDING, deliver = label { return true },
            options(nostack),
        );
    }
    false
}

/// In the order of urgency; the end of a slice comes last, because it gives the CPU away.
#[cold]
pub(crate) fn deliver_pending() {
    let private = Area::current().private();
    let pending = private.pending.swap(0, SeqCst);
    if pending & PENDING_SLICE_START != 0 {
        deliver(kind::SLICE_START, 0, 0);
    }
    if pending & PENDING_REPOSSESSION != 0 {
        deliver(kind::REPOSSESSION, 0, 0);
    }
    if pending & PENDING_EMERGENCY != 0 {
        deliver(kind::EMERGENCY, 0, 0);
    }
    if pending & PENDING_REVOCATION != 0 {
        deliver_revocation();
    }
    if pending & PENDING_EVENT != 0 {
        let bits = private.events.swap(0, SeqCst);
        if bits != 0 {
            deliver(kind::EVENT, 0, bits);
        }
    }
    if pending & PENDING_SLICE_END != 0 {
        deliver(kind::SLICE_END, 0, 0);
    }
}

/// The kernel exposes what it asked for.
fn deliver_revocation() {
    let Some(info) = crate::exposed::environment(crate::area::number()) else { return };
    let (resource, count) =
        info.consistent(|info| (info.revocation_resource.load(SeqCst), info.revocation_count.load(SeqCst)));
    if resource != 0 && count != 0 {
        deliver(kind::REVOCATION, resource - 1, count);
    }
}
