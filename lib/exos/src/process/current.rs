//! The running process and thread, and the words in the area of their environment that lead to their parts.
//!
//! Invariant: an environment has all words of its process and thread, or none ([`hw::current`](crate::hw::current)).

use super::Process;
use super::thread::Thread;
use crate::hw::current::{Holds, Word, record, value, word};
use core::sync::atomic::Ordering::Release;
use runtime::area::Area;

impl Holds for Word<{ word::PROCESS }> {
    type Record = Process;
}

impl Holds for Word<{ word::THREAD }> {
    type Record = Thread;
}

/// The process of the running environment. There is one from the first instruction of its life on: see [`adopt`].
#[inline]
pub fn process() -> &'static Process {
    record::<{ word::PROCESS }>()
}

/// The thread that the running environment is.
#[inline]
pub fn thread() -> &'static Thread {
    record::<{ word::THREAD }>()
}

/// How many words lead to the parts of a process and of a thread.
pub const WORDS: usize = 16;

/// Words of an environment's area, as indices and values.
pub type Words = [(usize, u64); WORDS];

/// The words of an environment that is going to run this thread of this process. That of the process comes last.
pub fn words(process: &'static Process, thread: &'static Thread) -> Words {
    [
        value::<{ word::DOMAIN }>(&process.domain),
        value::<{ word::THREAD_CONTEXT }>(&thread.context),
        value::<{ word::FILES }>(&process.files),
        value::<{ word::ATTRIBUTES }>(&process.attributes),
        value::<{ word::THREAD_ATTRIBUTES }>(&thread.attributes),
        value::<{ word::UPCALLS }>(&process.calls.image().upcalls),
        value::<{ word::SIGNAL }>(&process.signal),
        value::<{ word::THREAD_SIGNALS }>(&thread.signals),
        value::<{ word::TIMERS }>(&process.alarms),
        value::<{ word::WAIT }>(&thread.waits),
        value::<{ word::DESCRIPTORS }>(&process.descriptors),
        value::<{ word::RECORDS }>(&process.records),
        value::<{ word::EXPORTED }>(&process.exported),
        value::<{ word::TERMINAL }>(&process.terminal),
        value::<{ word::THREAD }>(thread),
        value::<{ word::PROCESS }>(process),
    ]
}

/// Makes `process` the one that this environment runs, for ever, as this thread of it.
pub fn adopt(process: &'static Process, thread: &'static Thread) {
    for (index, address) in words(process, thread) {
        Area::current().library().free[index].store(address, Release);
    }
}
