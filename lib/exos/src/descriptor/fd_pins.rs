//! Descriptors of a process, and uses of open descriptions by calls, as `fget` and `fput` of Linux have them: the only
//! way from a number to a description.
//!
//! A call gets a [`Used`], which is recorded until the call ends. A close in another thread leaves the description to
//! that call. A sleeper over an `epoll` set only watches the files of the set. A close takes effect for others at once,
//! wakes the watcher, and unmaps once the watcher has looked again.
//!
//! Invariants:
//! - a `Description` cannot be cloned: one outside the table is either a `Used`, or a new one, or one that is being
//!   closed;
//! - a use is recorded under the lock of the descriptors, and only in a process that has threads: a close in another
//!   thread sees it;
//! - nothing is unmapped or freed that a record of another thread names;
//! - two threads that close the two ends of a pipe look through one window, which the last of them closes.

use super::events::epoll::Set;
use super::open_file::{Offsets, OpenFile};
use crate::hw::current::{Holds, Word, record, word};
use crate::signal::signal_state;
use crate::wait;
use crate::wait::{WaitState, ring_pending, wait_state};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::area;
use runtime::lock::{Guard, Lock};
use unix_core::fd_table::FdTable;

/// A description that a call works with. Nothing of it is unmapped before the call ends.
#[derive(Debug)]
pub struct Used(OpenFile);

impl Deref for Used {
    type Target = OpenFile;
    fn deref(&self) -> &OpenFile {
        &self.0
    }
}

/// A use of a description by a thread, in the order of descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    description: u64,
    thread: u64,
    /// The thread only sleeps over it, as an interest of an `epoll` set: its next look ends the use.
    watches: bool,
}

/// How far the close of a description went that a use holds up.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Begun,
    /// Others see it as closed. Whether it was the last descriptor of this process.
    Ended(bool),
}

/// What the calls of a process work with.
#[derive(Debug, Default)]
pub struct FdPins {
    records: Vec<Record>,
    /// Descriptions out of the table that calls still use.
    left: Vec<(OpenFile, Stage)>,
    /// Descriptions with a window that were taken out of the table and are not closed yet, once for each descriptor.
    leaving: Vec<OpenFile>,
    /// The `epoll` sets of this process.
    sets: Vec<Weak<Set>>,
}

impl FdPins {
    fn record(&mut self, description: u64, thread: u64, watches: bool) {
        let at = self.records.partition_point(|one| (one.description, one.thread) < (description, thread));
        match self.records.get_mut(at) {
            Some(one) if (one.description, one.thread) == (description, thread) => one.watches &= watches,
            _ => self.records.insert(at, Record { description, thread, watches }),
        }
    }

    /// How other threads use a description: whether any does, and whether one works with it.
    fn of_others(&self, description: &OpenFile) -> (bool, bool) {
        let (own, number) = (area::number().0, description.number());
        let first = self.records.partition_point(|one| one.description < number);
        let uses = self.records[first..].iter().take_while(|one| one.description == number);
        uses.filter(|one| one.thread != own).fold((false, false), |(_, works), one| (true, works || !one.watches))
    }
}

/// The descriptors of a process, and what its calls work with.
#[derive(Debug)]
pub struct Descriptors {
    /// The table.
    pub table: Lock<FdTable<OpenFile>>,
    /// What its calls work with, once it has threads.
    pub pins: Lock<FdPins>,
    /// Whether the process has had more than one thread since its program began.
    pub has_threads: AtomicBool,
    /// Where open descriptions keep their offsets, in the image that the process runs on.
    pub offsets: &'static Offsets,
}

impl Holds for Word<{ word::DESCRIPTORS }> {
    type Record = Descriptors;
}

/// The descriptors of the running process.
#[inline]
pub fn descriptors() -> &'static Descriptors {
    record::<{ word::DESCRIPTORS }>()
}

impl Descriptors {
    /// None open, in a process of one thread.
    pub fn new(offsets: &'static Offsets) -> Self {
        Self {
            table: Lock::new(FdTable::default()),
            pins: Lock::new(FdPins::default()),
            has_threads: AtomicBool::new(false),
            offsets,
        }
    }

    /// The description behind a descriptor. It stays whole until the call ends.
    #[inline]
    pub fn description(&self, number: u64) -> Result<Used> {
        let descriptors = self.table.lock();
        Ok(self.used(descriptors.get(number)?))
    }

    /// The same for a call that needs more than a place: `EBADF` for what was opened with `O_PATH`.
    pub fn opened(&self, number: u64) -> Result<Used> {
        let description = self.description(number)?;
        if description.flags() & linux::O_PATH != 0 { Err(Errno::EBADF) } else { Ok(description) }
    }

    /// Every descriptor that exec leaves open.
    pub fn used_over_exec(&self) -> Vec<(u64, Used)> {
        let descriptors = self.table.lock();
        descriptors.kept_by_exec().map(|(number, description)| (number, self.used(description))).collect()
    }

    /// Records a use of what lies in the table, whose lock the caller holds.
    #[inline]
    fn used(&self, description: &OpenFile) -> Used {
        if self.has_threads.load(Relaxed) {
            self.record_use(description);
        }
        Used(description.again())
    }

    #[inline(never)]
    fn record_use(&self, description: &OpenFile) {
        self.pins.lock().record(description.number(), area::number().0, false);
        wait_state().notes_uses.store(true, Relaxed);
    }

    /// What an interest is in, for the next look and the next sleep: none where no descriptor stands for it any more.
    /// `number` is that of the descriptor by which it came into the set.
    pub fn watched(&self, number: u64, description: u64) -> Option<Used> {
        let descriptors = self.table.lock();
        let is_it = |open: &&OpenFile| open.number() == description;
        let first = descriptors.get(number).ok().filter(is_it);
        let open = first.or_else(|| descriptors.iter().map(|(_, open)| open).find(is_it))?;
        if self.has_threads.load(Relaxed) {
            self.record_watch(description);
        }
        Some(Used(open.again()))
    }

    #[inline(never)]
    fn record_watch(&self, description: u64) {
        let mut uses = self.pins.lock();
        // The first one of a look: what is closed from here on wakes the thread.
        if wait_state().watches_since.load(Relaxed) == 0 {
            wait_state().watches_since.store(signal_state().watched_closes.load(Relaxed) + 1, Relaxed);
        }
        uses.record(description, area::number().0, true);
        wait_state().notes_uses.store(true, Relaxed);
    }

    /// Puts a description into the table, which is closed where there is no room for it.
    pub fn install(&self, description: OpenFile, least: u64, close_on_exec: bool) -> Result<u64> {
        let mut descriptors = self.table.lock();
        match descriptors.next_free(least) {
            Ok(_) => descriptors.add(description, least, close_on_exec),
            Err(error) => {
                drop(descriptors);
                description.close();
                Err(error)
            }
        }
    }

    /// Takes a descriptor out, which is then to be closed.
    pub fn take_out(&self, number: u64) -> Result<OpenFile> {
        let mut descriptors = self.table.lock();
        let description = descriptors.remove(number)?;
        self.note_leaving(&description);
        Ok(description)
    }

    /// Puts a description in the place of another one, and closes that one; where there can be none, the new one.
    pub fn put_in_place(&self, number: u64, new: OpenFile, close_on_exec: bool) -> Result<()> {
        let mut descriptors = self.table.lock();
        if !descriptors.has_place(number) {
            drop(descriptors);
            new.close();
            return Err(Errno::EBADF);
        }
        let before = descriptors.replace(number, new, close_on_exec)?;
        before.iter().for_each(|before| self.note_leaving(before));
        drop(descriptors);
        before.into_iter().for_each(OpenFile::close);
        Ok(())
    }

    #[inline]
    fn note_leaving(&self, description: &OpenFile) {
        if self.has_threads.load(Relaxed) && description.object.has_window() {
            self.pins.lock().leaving.push(description.again());
        }
    }

    /// A descriptor of a description with a window is done with it. Whether another one of this process looks through
    /// the same window: of two that ask, one is told that it was the last.
    pub(super) fn has_left(&self, description: &OpenFile) -> bool {
        let descriptors = self.table.lock();
        let mut uses = self.pins.lock();
        if let Some(at) = uses.leaving.iter().position(|leaving| leaving.is_one_with(description)) {
            uses.leaving.swap_remove(at);
        }
        // A process that closes 10,000 sockets or pipes does not search its table for each.
        if description.is_alone() {
            return false;
        }
        let same = |other: &OpenFile| other.is_one_with(description) || description.object.shares_window(&other.object);
        let left = uses.left.iter().map(|(left, _)| left);
        let others = descriptors.iter().map(|(_, other)| other).chain(&uses.leaving).chain(left);
        others.into_iter().any(same)
    }

    /// Closes what was taken out of the table, as far as no other thread uses it. The last such call does the rest.
    #[inline]
    pub(super) fn close_or_leave(&self, description: OpenFile) {
        if self.has_threads.load(Relaxed) {
            self.close_or_leave_to_threads(description);
        } else {
            let last = description.end();
            description.finish(last);
        }
    }

    #[inline(never)]
    fn close_or_leave_to_threads(&self, description: OpenFile) {
        let mut uses = self.pins.lock();
        let (_, works) = uses.of_others(&description);
        if works {
            uses.left.push((description, Stage::Begun));
            return self.wake_watchers(uses);
        }
        drop(uses);
        let last = description.end();
        let mut uses = self.pins.lock();
        if uses.of_others(&description).0 {
            uses.left.push((description, Stage::Ended(last)));
            return self.wake_watchers(uses);
        }
        drop(uses);
        description.finish(last);
    }

    /// Has the sleepers look again that watch something.
    fn wake_watchers(&self, uses: Guard<'_, FdPins>) {
        signal_state().watched_closes.fetch_add(1, SeqCst);
        drop(uses);
        wait::kick_idle();
    }

    /// The call of the running thread, whose waits these are, has ended.
    #[inline]
    pub fn end_uses(&self, waits: &WaitState) {
        if waits.notes_uses.load(Relaxed) {
            waits.notes_uses.store(false, Relaxed);
            ring_pending(waits);
            waits.watches_since.store(0, Relaxed);
            let own = area::number().0;
            self.close_unused(|one| one.thread != own);
        }
    }

    /// All calls have ended, but that of the running thread, which is the last one.
    pub fn end_all_uses(&self) {
        ring_pending(wait_state());
        self.close_unused(|_| false);
    }

    fn close_unused(&self, stays: impl FnMut(&Record) -> bool) {
        let mut uses = self.pins.lock();
        uses.records.retain(stays);
        let left = core::mem::take(&mut uses.left);
        let (still, free): (Vec<_>, Vec<_>) = left.into_iter().partition(|(one, _)| uses.of_others(one).0);
        uses.left = still;
        drop(uses);
        for (description, stage) in free {
            let last = match stage {
                Stage::Begun => description.end(),
                Stage::Ended(last) => last,
            };
            description.finish(last);
        }
    }

    /// Whether a description that this test is true of is open, left to the calls that use it, or not closed yet.
    pub fn has_open(&self, test: impl Fn(&OpenFile) -> bool) -> bool {
        let descriptors = self.table.lock();
        let uses = self.pins.lock();
        let left = uses.left.iter().map(|(left, _)| left);
        descriptors.iter().any(|(_, description)| test(description)) || left.chain(&uses.leaving).any(test)
    }

    /// Takes the interests in a description out of all `epoll` sets, before its number can be that of another one: no
    /// descriptor of this process stands for it any more.
    #[cold]
    pub(super) fn forget_interests(&self, description: &OpenFile) {
        // A process that closes 10,000 sockets does not search its table for each.
        if !description.is_last() {
            let descriptors = self.table.lock();
            // The same one that came in a message.
            if let Some((_, other)) = descriptors.iter().find(|(_, open)| open.number() == description.number()) {
                return other.watched.store(true, Relaxed);
            }
        }
        let sets: Vec<Arc<Set>> = self.pins.lock().sets.iter().filter_map(Weak::upgrade).collect();
        sets.iter().for_each(|set| set.forget(description));
    }

    /// A new `epoll` set.
    pub fn make_set(&self) -> Arc<Set> {
        let set = Arc::new(Set::default());
        let sets = &mut self.pins.lock().sets;
        sets.retain(|set| set.strong_count() > 0);
        sets.push(Arc::downgrade(&set));
        set
    }
}

/// The running thread, which slept, looks again at what it watched.
pub fn end_watches() {
    wait_state().watches_since.store(0, Relaxed);
    let own = area::number().0;
    descriptors().close_unused(|one| one.thread != own || !one.watches);
}
