//! The process that this environment runs: a pointer in its area (DESIGN.md §5), never a static.

use crate::process::Process;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime::area::Area;

/// Free words of the area that ExOS uses.
pub mod word {
    /// The process.
    pub const PROCESS: usize = 0;
    /// Its number, for `getpid` without a table.
    pub const NUMBER: usize = 1;
    /// Where stubs of rewritten calls jump.
    pub const STUB_ENTRY: usize = 2;
}

/// The process of the running environment. There is one from the first instruction of its life on: see [`adopt`].
pub fn process() -> &'static Process {
    let address = Area::current().library().free[word::PROCESS].load(Relaxed);
    assert!(address != 0, "this environment runs no process");
    // SAFETY: the word holds what `adopt` put there, which is never freed, or the same address after a fork, where the
    // heap that it points into was copied.
    unsafe { &*(address as *const Process) }
}

/// Whether the running environment runs a process yet.
pub fn is_adopted() -> bool {
    Area::current().library().free[word::PROCESS].load(Relaxed) != 0
}

/// Makes `process` the one that this environment runs, for ever.
pub fn adopt(process: &'static Process) {
    let free = &Area::current().library().free;
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
