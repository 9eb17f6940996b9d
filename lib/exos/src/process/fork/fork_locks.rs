//! All locks of a process at once: fork copies what they guard.

use crate::descriptor::exported_pages::ExportedPages;
use crate::descriptor::fd_pins::FdPins;
use crate::descriptor::object::Object;
use crate::descriptor::open_file::{OpenFile, OpenFileTable};
use crate::hw::mapping::Mappings;
use crate::process::children::Children;
use crate::process::current::thread;
use crate::process::pager::OwnPages;
use crate::process::process_record::{Extensions, Memory, Process, Program};
use crate::process::thread::Thread;
use crate::server::client::Client;
use crate::signal::{Actions, Mailbox};
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use runtime::area;
use runtime::lock::{self, Guard, OwnerLock};
use unix_core::fd_table::FdTable;
use unix_core::ipc::attachments::Holdings;
use unix_core::process::credentials::Credentials;
use unix_core::process::fs_context::FsContext;
use unix_core::process::prctl_state::Attributes;
use unix_core::process::rlimits::Rlimits;
use unix_core::process::rusage::Rusage;
use vm::address_space::AddressSpace;

/// What fork does not look at, but copies.
type Running<'a> = (Guard<'a, Children>, Guard<'a, Threads>, Guard<'a, Actions>, Guard<'a, Program>);
type Files<'a> =
    (Guard<'a, Descriptors>, Guard<'a, FdPins>, Guard<'a, FsContext>, Guard<'a, Client>, Guard<'a, OpenFileTable>);
type Pages<'a> = (Guard<'a, ExportedPages>, Guard<'a, Mailbox>, Guard<'a, Option<Mailbox>>, Guard<'a, Extensions>);
type Own<'a> =
    (Guard<'a, Rusage>, Guard<'a, Holdings>, Guard<'a, Credentials>, Guard<'a, Rlimits>, Guard<'a, Attributes>);
type Descriptors = FdTable<OpenFile>;
type Threads = Vec<&'static Thread>;

/// How many locks have no place in the order.
const UNORDERED: usize = 10;

/// A process of which every lock is held.
#[derive(Debug)]
pub struct AllLocks<'a> {
    /// The program's memory.
    pub memory: Guard<'a, Memory>,
    /// Open windows.
    pub windows: Guard<'a, Mappings>,
    /// Whether it has one thread.
    pub is_alone: bool,
}

/// The other locks that are held with those.
#[derive(Debug)]
struct Others<'a> {
    files: Files<'a>,
    _program: Running<'a>,
    _own: Own<'a>,
    _pages: Pages<'a>,
}

impl AllLocks<'_> {
    /// As [`Process::with_memory`], with the windows too.
    pub fn with_memory<T>(
        &mut self,
        process: &Process,
        action: impl FnOnce(&mut AddressSpace, &mut OwnPages<'_>, &mut Mappings) -> T,
    ) -> T {
        let Memory { space, tables, at_hand } = &mut *self.memory;
        action(
            space,
            &mut OwnPages { tables, at_hand, key: process.session_key, files: &process.files, list: Cell::default() },
            &mut self.windows,
        )
    }
}

impl Process {
    /// Does something while every lock is held, those of open descriptions, too. A thread that holds the lock of a
    /// description may wait for other locks. Then this releases all locks and begins anew. The result comes with
    /// the lock of the descriptors: what the action found open is open still.
    pub fn with_all_locks<T>(&self, action: impl FnOnce(&mut AllLocks<'_>) -> T) -> (T, Guard<'_, Descriptors>) {
        let mut action = Some(action);
        loop {
            let (mut held, others) = self.hold_all();
            let outcome = {
                let unordered = if held.is_alone { None } else { self.hold_unordered() };
                let all = unordered.and_then(|unordered| Some((unordered, hold_descriptions(&others.files.0)?)));
                let action = if held.is_alone || all.is_some() { action.take() } else { None };
                action.map(|action| action(&mut held))
            };
            if let Some(outcome) = outcome {
                return (outcome, others.files.0);
            }
            drop((held, others));
            crate::wait::yield_now();
        }
    }

    /// Takes every lock of its own, in their order.
    fn hold_all(&self) -> (AllLocks<'_>, Others<'_>) {
        let running = (self.children.lock(), self.threads.lock(), self.signal.actions.lock(), self.program.lock());
        let (descriptors, uses, place) = (self.descriptors.table.lock(), self.descriptors.pins.lock(), self.fs.lock());
        let own = (
            self.ended.lock(),
            self.holdings.lock(),
            self.attributes.credentials.common().lock(),
            self.attributes.limits.lock(),
            self.attributes.prctl.lock(),
        );
        let memory = self.memory.lock();
        let files = (descriptors, uses, place, self.files.lock(), self.records.lock());
        let windows = self.mappings.lock();
        let pages = (
            self.exported.lock(),
            self.signal.mailbox.lock(),
            self.signal.parent_mailbox.lock(),
            self.extensions.lock(),
        );
        let is_alone = running.1.len() == 1;
        (AllLocks { memory, windows, is_alone }, Others { files, _program: running, _own: own, _pages: pages })
    }

    /// Takes the locks that have no place in the order, if all of them are free. A holder of one may wait for a
    /// lock of the order, such as that of the memory whose page it reads.
    fn hold_unordered(&self) -> Option<[Option<lock::Held<'_>>; UNORDERED]> {
        let locks: [&OwnerLock; UNORDERED] = [
            self.deferred_child.owner_lock(),
            self.terminal.owner_lock(),
            self.remains.owner_lock(),
            self.spare_threads.owner_lock(),
            self.exec.owner_lock(),
            self.futexes.owner_lock(),
            self.alarms.timers.owner_lock(),
            self.alarms.watches.owner_lock(),
            self.signal.second.owner_lock(),
            thread().signals.second.owner_lock(),
        ];
        let mut held = [const { None }; UNORDERED];
        for (place, lock) in held.iter_mut().zip(locks) {
            *place = Some(lock.try_acquire()?);
        }
        Some(held)
    }

    /// Frees all locks in a copy that was made while all were held: no thread of the copy holds any.
    pub fn free_copied_locks(&self) {
        self.spawn_cache.free_copy();
        self.signal.second.free_copy();
        thread().signals.second.free_copy();
        self.children.free_copy();
        self.threads.free_copy();
        self.signal.actions.free_copy();
        self.program.free_copy();
        self.descriptors.table.free_copy();
        self.descriptors.pins.free_copy();
        self.fs.free_copy();
        self.ended.free_copy();
        self.holdings.free_copy();
        self.attributes.credentials.free_copy();
        self.attributes.limits.free_copy();
        self.attributes.prctl.free_copy();
        self.memory.free_copy();
        self.files.free_copy();
        self.records.free_copy();
        self.mappings.free_copy();
        self.exported.free_copy();
        self.heap_pages.free_copy();
        self.signal.mailbox.free_copy();
        self.signal.parent_mailbox.free_copy();
        self.vfork_link.free_copy();
        self.deferred_child.free_copy();
        self.terminal.free_copy();
        self.remains.free_copy();
        self.spare_threads.free_copy();
        self.spare_vectors.free_copy();
        self.exec.free_copy();
        self.futexes.free_copy();
        self.alarms.timers.free_copy();
        self.alarms.watches.free_copy();
        self.summary.free_copy();
        self.extensions.free_copy();
        if self.descriptors.has_threads.load(Relaxed) {
            locks_of(&self.descriptors.table.lock()).for_each(OwnerLock::free_copy);
        }
    }
}

/// The locks of open descriptions, once for each descriptor.
fn locks_of(descriptors: &FdTable<OpenFile>) -> impl Iterator<Item = &OwnerLock> {
    descriptors.iter().flat_map(|(_, description)| locks(description)).flatten()
}

fn locks(description: &OpenFile) -> [Option<&OwnerLock>; 2] {
    match &description.object {
        Object::Other(other) => other.locks(),
        _ => [None; 2],
    }
}

/// Takes these locks, if no thread holds one.
fn hold_descriptions(descriptors: &FdTable<OpenFile>) -> Option<Vec<lock::Held<'_>>> {
    let mut held = Vec::new();
    for lock in locks_of(descriptors) {
        // Several descriptors stand for one description.
        if lock.owner() != area::number() {
            held.push(lock.try_acquire()?);
        }
    }
    Some(held)
}
