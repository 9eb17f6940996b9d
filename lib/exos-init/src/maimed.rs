//! Maimed processes: those of which the kernel destroyed a thread, or the first thread.
//!
//! The kernel destroys an environment that never gives way at the end of its slices, or whose upcalls cannot be
//! delivered. Its library then says nothing, and other threads wait for locks that it holds. So the whole process ends,
//! as by SIGKILL (`enforcer`). The look for orphans finds such environments, at most 200 ms later.
//!
//! Invariant: only the kernel's record says that it destroyed an environment, and to which address space this one
//! belongs. A page that a program wrote can name no process of another address space.

use abi::environment::DeathReason;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use runtime::address_space::Access;
use runtime::exposed::{self, Environment};
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber};
use unix_core::process::exit_status::Status;
use unix_core::process::public_page as public;

/// Whether the kernel destroyed an environment that its owner has not released.
fn is_destroyed_by_kernel(info: Environment) -> bool {
    let by_owner = [DeathReason::None, DeathReason::Destroyed].map(|reason| reason as u64);
    info.remains() && !info.alive() && !by_owner.contains(&info.death_reason.load(Acquire))
}

/// The process that ends because the kernel destroyed this environment of it, until its status is published.
pub(super) fn process_of(info: Environment, key: KeyIndex) -> Option<EnvironmentId> {
    if !is_destroyed_by_kernel(info) {
        return None;
    }
    let public = Window::open(&[PageNumber(info.public.load(Acquire))], key, Access::READ).ok()?;
    let word = |index: usize| public.words()[index].load(Acquire);
    let process = EnvironmentId(word(public::PROCESS));
    if process != EnvironmentId::NONE {
        let has_its_root = |other: &Environment| other.root.load(Acquire) == info.root.load(Acquire);
        return exposed::environment(process).filter(|other| other.alive() && has_its_root(other)).map(|_| process);
    }
    let is_process = word(public::MAGIC) == public::MAGIC_VALUE;
    // Another session takes care of its own processes: their mailboxes are closed to this one.
    let is_ours = || Window::open(&[PageNumber(word(public::MAILBOX))], key, Access::READ).is_ok();
    let is_unreported = is_process && Status::from_word(word(public::STATUS_WORD)).is_none() && is_ours();
    is_unreported.then(|| EnvironmentId(info.number.load(Acquire)))
}

/// The threads below a root that the kernel destroyed.
pub(super) fn threads_of(root: u64) -> Vec<EnvironmentId> {
    let slots = 0..exposed::kernel().environments.load(Acquire);
    let of_root = |info: &Environment| is_destroyed_by_kernel(*info) && info.root.load(Acquire) == root;
    let threads = slots.filter_map(exposed::environment_slot).filter(of_root);
    threads.map(|info| EnvironmentId(info.number.load(Acquire))).collect()
}
