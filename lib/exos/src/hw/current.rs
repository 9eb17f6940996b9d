//! The words of the environment's area that lead to the records of the running process and thread (DESIGN.md §5).
//! Nothing here is a static.
//!
//! A record consists of parts. Each layer has a part of its own, a word that leads to it, and a function that returns
//! it. So no layer needs the types of the layers above it. `process::current` fills in the words of a process.
//!
//! Invariants:
//! - a word from [`word::PROCESS`] on holds 0, or the address of a record of the type that [`Holds`] names for it; the
//!   last one leads to no record;
//! - it has one such type, because a trait has one implementation for a type;
//! - records are never freed, and fork copies the heap that they lie in: an address stays right, in a child too;
//! - such a word that is not 0 never changes.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use runtime::area::{self, Area};
use runtime::lock::Lock;

/// Free words of the area that ExOS uses, by their index.
pub mod word {
    use runtime::area::FREE_WORDS;

    /// The state of a service, where the environment runs one.
    pub const SERVICE: usize = 0;
    /// The number of the process, for `getpid` without a table.
    pub const NUMBER: usize = 1;
    /// Not 0 once a fault in ExOS has made the process end.
    pub const GIVEN_UP: usize = 2;
    /// The process (`process::current`). From here on words lead to records, but for the last one.
    pub const PROCESS: usize = 3;
    /// The thread (`process::current`).
    pub const THREAD: usize = 4;
    /// The protection domain of the process.
    pub const DOMAIN: usize = 5;
    /// The context of the thread.
    pub const THREAD_CONTEXT: usize = 6;
    /// The connection to the server.
    pub const FILES: usize = 7;
    /// The attributes of the process.
    pub const ATTRIBUTES: usize = 8;
    /// The attributes of the thread.
    pub const THREAD_ATTRIBUTES: usize = 9;
    /// The table of up-calls.
    pub const UPCALLS: usize = 10;
    /// The signal state of the process.
    pub const SIGNAL: usize = 11;
    /// The signal state of the thread.
    pub const THREAD_SIGNALS: usize = 12;
    /// The timers of the process.
    pub const TIMERS: usize = 13;
    /// The wait state of the thread.
    pub const WAIT: usize = 14;
    /// The descriptors of the process.
    pub const DESCRIPTORS: usize = 15;
    /// Its records of open descriptions.
    pub const RECORDS: usize = 16;
    /// Its exported pages.
    pub const EXPORTED: usize = 17;
    /// The terminal that controls it.
    pub const TERMINAL: usize = 18;
    /// Where stubs of rewritten calls jump, and programs that are linked with ExOS (`lib/exos/link/linked.h`): the last
    /// word of the page, so that it stays where it is when others come.
    pub const STUB_ENTRY: usize = FREE_WORDS - 1;
}

const _: () = assert!(area::free_offset(word::STUB_ENTRY) == 0xff8, "`EXOS_ENTRY` of linked.h is this offset");

/// A word of the area, by its index.
#[derive(Debug)]
pub struct Word<const INDEX: usize>;

/// Says of a word which record it leads to.
pub trait Holds {
    /// The record.
    type Record: Sync + 'static;
}

/// The record that a word leads to. There is one from the first instruction of a process on.
#[inline]
pub fn record<const INDEX: usize>() -> &'static <Word<INDEX> as Holds>::Record
where
    Word<INDEX>: Holds,
{
    const { assert!(INDEX >= word::PROCESS && INDEX < word::STUB_ENTRY, "this word leads to no record") };
    let address = area::constant_word::<INDEX>();
    assert!(address != 0, "this environment runs no process");
    // SAFETY: the word is not 0, so that it holds the address of such a record, by the invariants above.
    unsafe { &*(address as *const <Word<INDEX> as Holds>::Record) }
}

/// The same in an environment that may run no process, as the session's.
#[inline]
pub fn find_record<const INDEX: usize>() -> Option<&'static <Word<INDEX> as Holds>::Record>
where
    Word<INDEX>: Holds,
{
    (area::constant_word::<INDEX>() != 0).then(record::<INDEX>)
}

/// The index and the value of a word that leads to a record.
pub fn value<const INDEX: usize>(record: &'static <Word<INDEX> as Holds>::Record) -> (usize, u64)
where
    Word<INDEX>: Holds,
{
    (INDEX, core::ptr::from_ref(record) as u64)
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

/// Gives the environment of a service its state: the address of a `Lock<T>` that lives as long as the machine.
pub fn set_service_state(address: u64) {
    Area::current().library().free[word::SERVICE].store(address, Release);
}

/// The state of the service that this environment is.
pub fn service_state<T>() -> &'static Lock<T> {
    let address = Area::current().library().free[word::SERVICE].load(Relaxed);
    // SAFETY: `set_service_state` put the address of a leaked lock of this type there before the service began.
    unsafe { &*(address as *const Lock<T>) }
}
