//! Open descriptions: what a descriptor stands for, shared by those that `dup` and `fork` made of it.
//!
//! Offset, flags and the lock of the offset live in a record of a page that relatives share (DESIGN.md §5, home b), so
//! that all of them have the same. A record that no descriptor of any process refers to is free.

use super::exported_pages::exported;
use super::fd_pins::descriptors;
use super::file_ops::FileOps;
use super::object::Object;
use super::shared_record::{RECORDS, Record, Reference};
use crate::hw::current::{Holds, Word, record, word};
use crate::hw::domain::domain;
use crate::hw::mapping::Mapping;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use runtime::exposed::PageStamp;
use runtime::lock::{Held, Lock};
use runtime::page::Allocator;

/// Bit of the last word: a lock on the file was asked for.
const LOCKED: u64 = 1;
/// Flags that `fcntl` can change.
const CHANGEABLE: u32 = linux::O_APPEND | linux::O_NONBLOCK | linux::O_DIRECT | linux::O_NOATIME;

/// Pages of records that this process can reach.
#[derive(Debug, Default)]
pub struct OpenFileTable {
    pages: Vec<Mapping>,
    /// Page and index of the record where the search for a free one begins: behind the one that was taken last.
    next: (usize, usize),
    /// What stood for a file or a directory and was let go last, for the next description.
    spare: Option<Arc<Open>>,
}

impl Holds for Word<{ word::RECORDS }> {
    type Record = Lock<OpenFileTable>;
}

/// The records of the running process.
fn records() -> &'static Lock<OpenFileTable> {
    record::<{ word::RECORDS }>()
}

/// Where open descriptions keep their offsets: what an image can replace (`crate::tables`).
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    /// A description was opened, in a record that another one may have used before.
    pub opened: fn(&OpenFile),
    /// The offset of a description.
    pub get: fn(&OpenFile) -> u64,
    /// Changes it.
    pub set: fn(&OpenFile, u64),
}

/// As on Linux: one offset for all relatives, in the record.
pub const SHARED_OFFSETS: Offsets = Offsets {
    opened: |description| description.record.offset().store(0, Release),
    get: |description| description.record.offset().load(Acquire),
    set: |description, offset| description.record.offset().store(offset, Release),
};

/// An open description: all that stand for it in this process are the same one.
///
/// It cannot be cloned: a call gets at it by `fd_pins::Used`, which records the use. The table owns one for each
/// descriptor.
#[derive(Debug)]
pub struct OpenFile(Arc<Open>);

/// What an open description consists of.
#[derive(Debug)]
pub struct Open {
    /// What it is open on.
    pub object: Object,
    record: Record,
    /// Descriptors of this process that stand for it, which hold together what the object holds once.
    descriptors: AtomicU32,
    /// An `epoll` set of this process has an interest in it.
    pub(super) watched: AtomicBool,
}

impl Open {
    /// A new one in the place of an unused one, or in a place of its own.
    #[inline(always)]
    fn in_place_of(spare: Option<Arc<Self>>, object: Object, record: Record) -> Arc<Self> {
        let descriptors = AtomicU32::new(1);
        if let Some(mut spare) = spare
            && let Some(open) = Arc::get_mut(&mut spare)
        {
            // Nothing is left of a file or a directory that was let go.
            core::mem::forget(core::mem::replace(&mut open.object, object));
            (open.record, open.descriptors, open.watched) = (record, descriptors, AtomicBool::new(false));
            return spare;
        }
        Arc::new(Self { object, record, descriptors, watched: AtomicBool::new(false) })
    }
}

impl Deref for OpenFile {
    type Target = Open;
    fn deref(&self) -> &Open {
        &self.0
    }
}

impl OpenFile {
    /// A new one, with one reference. Does not take over the object where it fails.
    pub fn new(object: Object, flags: u32) -> Result<Self> {
        // What stands for a place only keeps nothing of how bytes are read and written.
        const WITH_PLACE: u32 = linux::O_PATH | linux::O_DIRECTORY | linux::O_NOFOLLOW;
        let flags = if flags & linux::O_PATH != 0 { flags & WITH_PLACE } else { flags };
        let mut records = records().lock();
        let record = records.take(flags)?;
        let spare = records.spare.take();
        drop(records);
        record.locks().store(0, Relaxed);
        let description = Self(Open::in_place_of(spare, object, record));
        (descriptors().offsets.opened)(&description);
        Ok(description)
    }

    /// What it is open on, if it is of this kind.
    pub fn as_kind<T: FileOps>(&self) -> Option<&T> {
        let Object::Other(other) = &self.object else { return None };
        let any: &dyn Any = &**other;
        any.downcast_ref()
    }

    /// The name under which bells are rung for it.
    pub(super) fn bell_name(&self) -> Option<u64> {
        let Object::Other(other) = &self.object else { return None };
        other.bell_name()
    }

    /// The offset.
    #[inline]
    pub fn offset(&self) -> u64 {
        (descriptors().offsets.get)(self)
    }

    /// Sets the offset.
    #[inline]
    pub fn set_offset(&self, offset: u64) {
        (descriptors().offsets.set)(self, offset);
    }

    /// Holds the offset, where others may use it too: reads and writes of all of them come one after the other, as on
    /// Linux. A relative that keeps it for seconds is not waited for: what it does to the offset is between relatives.
    #[inline]
    pub fn hold_offset(&self) -> Option<Held<'static>> {
        const PATIENCE: u64 = 5_000_000_000;
        let is_shared = self.record.state().load(Acquire) as u32 > 1 || descriptors().has_threads.load(Relaxed);
        if is_shared { self.record.lock().acquire_until(runtime::clock::now() + PATIENCE) } else { None }
    }

    /// The flags of `open`.
    #[inline]
    pub fn flags(&self) -> u32 {
        (self.record.state().load(Acquire) >> 32) as u32
    }

    /// Changes what `F_SETFL` can change.
    pub fn set_flags(&self, flags: u32) {
        let changeable = CHANGEABLE | if self.object.tells_owner() { linux::FASYNC } else { 0 };
        let change = |state: u64| {
            let kept = (state >> 32) as u32 & !changeable;
            Some(state & 0xffff_ffff | u64::from(kept | flags & changeable) << 32)
        };
        let _ = self.record.state().fetch_update(SeqCst, Relaxed, change);
    }

    /// Whether what is written to a pipe is a packet.
    pub fn writes_packets(&self) -> bool {
        self.flags() & linux::O_DIRECT != 0
    }

    /// Whether a call must not wait.
    pub fn is_nonblocking(&self) -> bool {
        self.flags() & linux::O_NONBLOCK != 0
    }

    /// Whether it was opened for reading.
    #[inline]
    pub fn can_read(&self) -> bool {
        let flags = self.flags();
        matches!(flags & linux::O_ACCMODE, linux::O_RDONLY | linux::O_RDWR) && flags & linux::O_PATH == 0
    }

    /// Whether it was opened for writing.
    #[inline]
    pub fn can_write(&self) -> bool {
        let flags = self.flags();
        matches!(flags & linux::O_ACCMODE, linux::O_WRONLY | linux::O_RDWR) && flags & linux::O_PATH == 0
    }

    /// Whether it stands for a place in the file system and no more (`O_PATH`), as what is open on a node may.
    pub fn is_a_place(&self) -> bool {
        matches!(self.object, Object::File { .. } | Object::Directory { .. }) && self.flags() & linux::O_PATH != 0
    }

    /// A number that no other open description has: page and index of its record.
    pub fn number(&self) -> u64 {
        self.record.page.0 << 8 | self.record.index as u64
    }

    /// Whether another one is open on the same, as `dup` makes it.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.number() == other.number()
    }

    /// The same in this process: the number may be that of another one once this one is closed.
    pub(super) fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether no other descriptor, of any process or in a message, stands for it.
    pub(super) fn is_last(&self) -> bool {
        self.record.state().load(Acquire) as u32 <= 1
    }

    /// Whether this is known to be the only reference of this process to its object, without a search.
    pub(super) fn is_alone(&self) -> bool {
        let is_only = match &self.object {
            Object::Other(one) => Arc::strong_count(one) == 1,
            Object::Pipe(..) => true,
            _ => false,
        };
        is_only && Arc::strong_count(&self.0) == 1
    }

    /// Page and index of its record.
    pub fn place(&self) -> (PageStamp, u64) {
        (PageStamp::of(self.record.page), self.record.index as u64)
    }

    /// One that another process made, by the place of its record; its reference is taken over.
    pub fn adopt(object: Object, page: PageStamp, index: usize) -> Result<Self> {
        let record = records().lock().adopt(page, index)?;
        object.held(domain().environment());
        object.on_its_way(false);
        Ok(Self(Arc::new(Open { object, record, descriptors: AtomicU32::new(1), watched: AtomicBool::new(false) })))
    }

    /// What a sender keeps of it.
    pub fn reference(&self) -> Reference {
        Reference(self.record)
    }

    /// It was sent in a message: its pages stay until it was received and closed, even if no process maps them.
    pub fn note_sent(&self) {
        let pages = self.object.pages();
        if !pages.is_empty() {
            exported().lock().note_sent(self.number(), self.reference(), pages);
        }
    }

    /// Once more, for a use that `fd_pins` records.
    pub(super) fn again(&self) -> Self {
        Self(self.0.clone())
    }

    /// Whether other processes hold it, or it is on its way to one.
    pub fn is_held_elsewhere(&self) -> bool {
        self.record.state().load(Acquire) as u32 > self.descriptors.load(Relaxed)
    }

    /// A lock on the file is asked for through it, which is to end with it.
    pub fn note_lock(&self) {
        self.record.locks().fetch_or(LOCKED, Release);
    }

    /// Whether its stamps count events, and its record has room for the one that was claimed last.
    pub fn counts_events(&self) -> bool {
        match &self.object {
            Object::Pipe(..) => true,
            Object::Other(other) => other.counts_events(),
            _ => false,
        }
    }

    /// The stamp of the event that an exclusive interest claimed last. Of a pipe it lies in the pipe: each process may
    /// have opened the FIFO for itself. Else it lies where files have their offset.
    fn claim(&self) -> &AtomicU64 {
        match &self.object {
            Object::Pipe(pipe, side) => pipe.claimed_event(*side),
            _ => self.record.offset(),
        }
    }

    /// That stamp.
    pub fn claimed_event(&self) -> u64 {
        self.claim().load(Acquire)
    }

    /// Claims the event with a stamp, unless another interest has claimed it.
    pub fn claim_event(&self, stamp: u64) -> bool {
        let before = self.claimed_event();
        before != stamp && self.claim().compare_exchange(before, stamp, SeqCst, Relaxed).is_ok()
    }

    /// The process or group to notify of input, as `syscalls::files::fcntl_owner` has it; 0: none.
    pub fn owner(&self) -> u64 {
        self.record.locks().load(Acquire) & !LOCKED
    }

    /// Sets that.
    pub fn set_owner(&self, owner: u64) {
        let _ = self.record.locks().fetch_update(SeqCst, Relaxed, |word| Some(word & LOCKED | owner & !LOCKED));
    }

    /// One descriptor more of this process stands for it: for the table, or to be closed.
    #[inline]
    pub fn duplicate(&self) -> Self {
        self.descriptors.fetch_add(1, Relaxed);
        self.refer_for(domain().environment());
        self.again()
    }

    /// One descriptor more of some process.
    pub fn refer_for(&self, number: u64) {
        self.record.state().fetch_add(1, SeqCst);
        self.object.held(number);
    }

    /// What was on its way does not go.
    pub fn reclaim(&self) {
        self.object.on_its_way(false);
        self.record.state().fetch_sub(1, SeqCst);
    }

    /// A message that is on its way refers to it.
    pub fn refer_on_its_way(&self) {
        self.record.state().fetch_add(1, SeqCst);
        self.object.on_its_way(true);
    }

    /// One descriptor less; the last one lets go of the object, once no call of another thread works with it.
    #[inline]
    pub fn close(self) {
        descriptors().close_or_leave(self);
    }

    /// Closes a description that no descriptor of this process leads to. Its windows stay, for one that was opened of
    /// the same object.
    pub fn close_but_windows(self) {
        if self.end() {
            self.object.gone();
        }
    }

    /// What others see of a close: references, ends of pipes, locks on the file. Nothing is unmapped. Whether it was
    /// the last descriptor of this process.
    pub(super) fn end(&self) -> bool {
        if self.watched.load(Relaxed) && self.descriptors.load(Relaxed) <= 1 {
            descriptors().forget_interests(self);
        }
        self.object.count_out();
        let before = self.record.state().fetch_sub(1, SeqCst);
        let last = before & 0xffff_ffff == 1;
        if last {
            self.record.state().store(0, SeqCst);
        }
        let is_last_here = self.descriptors.fetch_sub(1, SeqCst) <= 1;
        if !is_last_here {
            self.object.closed_one();
        } else {
            let has_locks = last && self.record.locks().load(Acquire) & LOCKED != 0;
            self.object.closed(last, if has_locks { self.number() } else { 0 });
        }
        is_last_here
    }

    /// The rest of a close: frees what the process has mapped for it. No thread works with it or sleeps over it.
    pub(super) fn finish(self, was_last_here: bool) {
        if was_last_here {
            self.object.gone();
        }
        if self.object.has_window() && !descriptors().has_left(&self) {
            self.object.close_window();
        }
        // These hold nothing any more.
        if matches!(self.object, Object::File { .. } | Object::Directory { .. }) {
            records().lock().spare = Some(self.0);
        }
    }
}

impl OpenFileTable {
    /// A record of a page that another process made.
    fn adopt(&mut self, page: PageStamp, index: usize) -> Result<Record> {
        let index = index.min(RECORDS - 1);
        if let Some(page) = self.pages.iter().find(|open| open.pages()[0] == page.page()) {
            return Ok(Record::at(page, index));
        }
        let page = domain().mappings.lock().open_noted(&[page], domain().opening_key(), true)?;
        let record = Record::at(&page, index);
        self.pages.push(page);
        Ok(record)
    }

    fn take(&mut self, flags: u32) -> Result<Record> {
        let (first, index) = self.next;
        match self.pages.get(first).and_then(|page| Record::take_at(page, index, flags)) {
            Some(record) => {
                self.next.1 = (index + 1) % RECORDS;
                Ok(record)
            }
            None => self.take_somewhere(flags),
        }
    }

    #[inline(never)]
    fn take_somewhere(&mut self, flags: u32) -> Result<Record> {
        let (first, index) = self.next;
        let (before, behind) = self.pages.split_at(first.min(self.pages.len()));
        let pages = (first..).zip(behind).chain((0..).zip(before));
        let taken = pages.into_iter().find_map(|(number, page)| Some((number, Record::adopt(page, index, flags)?)));
        if let Some((number, record)) = taken {
            self.next = (number, (record.index + 1) % RECORDS);
            return Ok(record);
        }
        let from = Allocator { key: domain().session_key, ..Allocator::own() };
        let number = crate::budget::allocate()?;
        let page = domain().mappings.lock().open(vec![number], from.key, true)?;
        self.next = (self.pages.len(), 1);
        let record = Record::adopt(&page, 0, flags);
        self.pages.push(page);
        record.ok_or(linux_abi::errno::Errno::ENFILE)
    }
}
