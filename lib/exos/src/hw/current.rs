//! The process that this environment runs: a pointer in its area (DESIGN.md §5), never a static.

use crate::process::Process;
use crate::process::thread::Thread;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime::area::{self, Area};

/// Free words of the area that ExOS uses.
pub mod word {
    /// The process.
    pub const PROCESS: usize = 0;
    /// Its number, for `getpid` without a table.
    pub const NUMBER: usize = 1;
    /// Where stubs of rewritten calls jump.
    pub const STUB_ENTRY: usize = 2;
    /// The thread.
    pub const THREAD: usize = 3;
    /// Not 0 once a fault in ExOS has made the process end.
    pub const GIVEN_UP: usize = 4;
}

/// The process of the running environment. There is one from the first instruction of its life on: see [`adopt`].
#[inline]
pub fn process() -> &'static Process {
    let address = area::constant_word::<{ area::free_offset(word::PROCESS) }>();
    assert!(address != 0, "this environment runs no process");
    // SAFETY: the word holds what `adopt` put there, which is never freed, or the same address after a fork, where the
    // heap that it points into was copied.
    unsafe { &*(address as *const Process) }
}

/// The thread that the running environment is.
#[inline]
pub fn thread() -> &'static Thread {
    let address = area::constant_word::<{ area::free_offset(word::THREAD) }>();
    assert!(address != 0, "this environment runs no thread");
    // SAFETY: as for `process`.
    unsafe { &*(address as *const Thread) }
}

/// The same in an environment that may run no thread, as the session's.
pub fn thread_if_any() -> Option<&'static Thread> {
    (area::constant_word::<{ area::free_offset(word::THREAD) }>() != 0).then(thread)
}

/// Words in the record of a thread, which stays as long as the process.
#[inline]
pub fn forever(words: &[AtomicU64]) -> &'static [AtomicU64] {
    // SAFETY: records of threads are leaked, and used again for other threads, but never freed.
    unsafe { core::slice::from_raw_parts(words.as_ptr(), words.len()) }
}

/// The environment area at an address that a process's record holds.
pub fn area_at(address: u64) -> Area {
    // SAFETY: the record holds the address of the area of the process's first thread, which lives as long as it.
    unsafe { Area::at(address) }
}

/// Whether the running environment runs a process yet.
#[inline(always)]
pub fn is_adopted() -> bool {
    Area::current().library().free[word::PROCESS].load(Relaxed) != 0
}

/// Makes `process` the one that this environment runs, for ever, as this thread of it.
pub fn adopt(process: &'static Process, thread: &'static Thread) {
    let library = Area::current().library();
    let free = &library.free;
    free[word::THREAD].store(core::ptr::from_ref(thread) as u64, Release);
    free[word::PROCESS].store(core::ptr::from_ref(process) as u64, Release);
}

/// Gives the environment of a service its state: the address of a `Lock<T>` that lives as long as the machine.
pub fn set_service_state(address: u64) {
    Area::current().library().free[word::PROCESS].store(address, Release);
}

/// The state of the service that this environment is.
pub fn service_state<T>() -> &'static runtime::lock::Lock<T> {
    let address = Area::current().library().free[word::PROCESS].load(Relaxed);
    // SAFETY: `set_service_state` put the address of a leaked lock of this type there before the service began.
    unsafe { &*(address as *const runtime::lock::Lock<T>) }
}
