//! The two ends of a pipe in a process, and the session's end of standard input.

use crate::descriptor::exported_pages;
use crate::descriptor::poll_event::Event;
use crate::hw::current::is_adopted;
use crate::hw::domain::domain;
use crate::hw::mapping::{Mapping, Mappings};
use crate::server::client;
use crate::signal::signal_state;
use alloc::vec;
use alloc::vec::Vec;
use core::array;
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use runtime::exposed::PageStamp;
use runtime::lock::Held;
use runtime::page::Allocator;
use runtime::predicate::{Operator, Term, word};
use runtime::{EnvironmentId, KeyIndex, PageNumber, clock, exposed};
use unix_core::pipe::end_owners::{self, Holders, Known};
use unix_core::pipe::packets::{self, Packet, Packets};
use unix_core::pipe::ring::{self, ATOMIC, CAPACITY, Ring};
use unix_core::process::run_state as state;

/// Pages of a pipe.
pub const PAGES: usize = 1 + (CAPACITY / PAGE_SIZE) as usize;

/// Words of the first page.
const WRITTEN: usize = 1;
const READ: usize = 2;
pub(super) const WRITERS: usize = 3;
pub(super) const READERS: usize = 4;
/// How often the end to write was opened by name, in all, and the end to read.
const WRITER_OPENS: usize = 5;
const READER_OPENS: usize = 6;
/// Bytes that are left of the frame that is being read; see `frames`.
pub(super) const REMAINING: usize = 7;
/// Ends that are on their way to a process in a message.
const ON_THEIR_WAY: usize = 8;
/// Whether who reads messages wants to know who sent them.
const ASKS_FOR_SENDERS: usize = 9;
/// Number under which the server says who sent the frame that is being read.
pub(super) const VOUCHER: usize = 10;
/// Thread that waits for bytes, and one that waits for room; 0: none. A hint: see `wait::set_yield_target`.
const READER: usize = 11;
const WRITER: usize = 12;
/// Its shape; see `Ring`.
pub(super) const SHAPE: usize = 13;
/// Whether the connection that it is part of was accepted.
const ACCEPTED: usize = 14;
/// The page that names those which it has grown by; see `resize`.
pub(super) const GROWN_BY: usize = 15;
/// Whether who wrote has closed its socket with something unread in it, which the reader was not told yet.
const BROKEN_OFF: usize = 48;
/// The stamp of the event that an exclusive interest claimed last, where bytes come out and where they go in.
const CLAIMED_TO_READ: usize = 49;
const CLAIMED_TO_WRITE: usize = 50;
/// When the first of the bytes came that wait, or the last writer left, in ticks: see `FileOps::filled_at`.
const FILLED_AT: usize = 51;
/// Where the name of the socket that made the pipe begins: its bytes, and how many they are in the word before.
const NAME: usize = 64;
const NAME_BYTES: usize = 108;
/// Stamp of the first page of the pipe that messages must come from, of the socket whose peer reads here (0: from
/// anywhere).
const ONLY_FROM: usize = 79;
/// Where the settings lie of the socket that reads here.
const SETTINGS: usize = 80;
/// Where the processes stand that hold the end to write, and the end to read.
pub(super) const HOLDERS_TO_WRITE: usize = 128;
pub(super) const HOLDERS_TO_READ: usize = HOLDERS_TO_WRITE + end_owners::WORDS;
/// Where the list of packets lies.
const PACKETS: usize = HOLDERS_TO_READ + end_owners::WORDS;
/// Where the stamps of its pages begin: a pipe says of itself what it is made of.
const OWN_PAGES: usize = 16;

/// A pipe, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipe {
    shared: Mapping,
    /// Node of the FIFO that it is the pipe of, which each descriptor holds; 0: it has no name.
    pub node: u64,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where bytes come out.
    Read,
    /// Where they go in.
    Write,
    /// Both: a FIFO that was opened to read and write.
    Both,
}

impl Side {
    /// Words that count the open descriptions of this side.
    const fn counts(self) -> &'static [usize] {
        match self {
            Self::Read => &[READERS],
            Self::Write => &[WRITERS],
            Self::Both => &[READERS, WRITERS],
        }
    }

    /// Words where those begin that hold this side.
    const fn holders(self) -> &'static [usize] {
        match self {
            Self::Read => &[HOLDERS_TO_READ],
            Self::Write => &[HOLDERS_TO_WRITE],
            Self::Both => &[HOLDERS_TO_READ, HOLDERS_TO_WRITE],
        }
    }

    /// The word for the event that was claimed last at this side.
    const fn claimed(self) -> usize {
        match self {
            Self::Read | Self::Both => CLAIMED_TO_READ,
            Self::Write => CLAIMED_TO_WRITE,
        }
    }

    /// Whether bytes come out here.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Both)
    }

    /// Whether bytes go in here.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }
}

impl Pipe {
    /// A new one, with one open description of each end. Its pages come from `from`.
    pub fn create(windows: &mut Mappings, from: Allocator) -> Result<Self> {
        let mut pages = vec![PageNumber::NONE; PAGES];
        let spare = if is_adopted() && from.list == Allocator::own().list {
            exported_pages::spare_for_pipe(&mut pages)
        } else {
            0
        };
        from.allocate_many(&mut pages[spare..]).inspect_err(|_| _ = from.free_many(&pages[..spare]))?;
        let pipe = Self { shared: windows.open(pages, from.key, true)?, node: 0 };
        pipe.word(WRITERS).store(1, Relaxed);
        pipe.word(READERS).store(1, Relaxed);
        pipe.note_maker();
        pipe.held(Side::Both, maker());
        for (index, page) in pipe.pages().iter().enumerate() {
            pipe.word(OWN_PAGES + index).store(PageStamp::of(*page).0, Release);
        }
        Ok(pipe)
    }

    /// One that another process made, by its first page, which names the others.
    ///
    /// # Errors
    /// `EIO`: it was given up since its first page was noted, or its pages are not under one list.
    pub fn open_by_first(windows: &mut Mappings, first: PageStamp, key: KeyIndex) -> Result<Self> {
        let head = windows.open_noted(&[first], key, true)?;
        let pages: [PageStamp; PAGES] =
            array::from_fn(|index| PageStamp(head.words()[OWN_PAGES + index].load(Acquire)));
        windows.close(&head);
        if pages[0] != first {
            return Err(Errno::EIO);
        }
        let shared = windows.open_noted(&pages, key, true)?;
        if !are_under_list_of(first.page(), shared.pages()) {
            windows.close(&shared);
            return Err(Errno::EIO);
        }
        Self::whole(windows, shared, key)
    }

    /// The pipe of a FIFO whose node is held.
    pub fn open_fifo(node: u64) -> Result<Self> {
        let pages = client::files().lock().fifo(node)?;
        let pipe = Self::open(&mut domain().mappings.lock(), &pages, domain().session_key)?;
        Ok(Self { node, ..pipe })
    }

    /// The stamp of the event that an exclusive interest in a side claimed last, through any open file.
    pub fn claimed_event(&self, side: Side) -> &AtomicU64 {
        self.word(side.claimed())
    }

    /// Drops what waits to be read.
    pub fn drop_waiting(&self) {
        let _held = self.lock();
        self.word(READ).store(self.word(WRITTEN).load(Acquire), SeqCst);
        self.changed(Side::Read);
    }

    /// Says that nothing more is going to be written, or read.
    pub fn shut(&self) {
        Side::Both.counts().iter().for_each(|count| self.word(*count).store(0, SeqCst));
        Side::Both.holders().iter().for_each(|first| self.holders(*first).clear());
        self.changed(Side::Both);
    }

    /// Says that nothing more is going to be read of what comes from anywhere.
    pub fn shut_to_senders(&self) {
        self.word(WRITERS).store(0, SeqCst);
        self.changed(Side::Write);
    }

    /// Whether so.
    pub fn is_shut_to_senders(&self) -> bool {
        self.word(WRITERS).load(Acquire) == 0
    }

    /// Takes messages only from the socket that reads at a page, or from all (`NONE`).
    pub fn take_only_from(&self, page: PageNumber) {
        self.word(ONLY_FROM).store(PageStamp::of(page).0, Release);
    }

    /// Whether it takes messages from the socket that reads at a page.
    pub fn takes_from(&self, page: PageNumber) -> bool {
        let only = self.word(ONLY_FROM).load(Acquire);
        only == 0 || only == PageStamp::of(page).0
    }

    /// Whether it takes messages from that one alone.
    pub fn is_only_from(&self, page: PageNumber) -> bool {
        page != PageNumber::NONE && self.word(ONLY_FROM).load(Acquire) == PageStamp::of(page).0
    }

    /// Whether who reads messages wants to know who sent them.
    pub fn asks_for_senders(&self) -> bool {
        self.word(ASKS_FOR_SENDERS).load(Acquire) != 0
    }

    /// Says that it does, or does not.
    pub fn ask_for_senders(&self, does: bool) {
        self.word(ASKS_FOR_SENDERS).store(u64::from(does), Release);
    }

    /// Whether the connection that it is part of was accepted.
    pub fn is_accepted(&self) -> bool {
        self.word(ACCEPTED).load(Acquire) != 0
    }

    /// Says so.
    pub fn note_accepted(&self) {
        self.word(ACCEPTED).store(1, Release);
    }

    /// Notes that who wrote has closed its socket with something unread in it, before it leaves.
    pub fn reset_peer(&self) {
        self.word(BROKEN_OFF).store(1, SeqCst);
        self.tell_bells(true);
    }

    /// Whether so, and the reader was not told.
    pub fn is_broken_off(&self) -> bool {
        self.word(BROKEN_OFF).load(Acquire) != 0
    }

    /// The same, and from now on the reader was told.
    pub fn take_break(&self) -> bool {
        self.word(BROKEN_OFF).swap(0, SeqCst) != 0
    }

    /// Notes the name of the socket that the pipe is for.
    pub fn set_name(&self, name: &[u8]) {
        let name = &name[..name.len().min(NAME_BYTES)];
        // The place lies in the first page.
        let _ = self.shared.write(NAME as u64 * 8, name);
        self.word(NAME - 1).store(name.len() as u64, Release);
    }

    /// That name.
    pub fn name(&self) -> Vec<u8> {
        let mut name = vec![0; (self.word(NAME - 1).load(Acquire) as usize).min(NAME_BYTES)];
        let _ = self.shared.read(NAME as u64 * 8, &mut name);
        name
    }

    /// One that another process made.
    pub fn open(windows: &mut Mappings, pages: &[PageNumber], key: KeyIndex) -> Result<Self> {
        if pages.len() != PAGES {
            return Err(Errno::EIO);
        }
        let shared = windows.open(pages.to_vec(), key, true)?;
        Self::whole(windows, shared, key)
    }

    /// One that lies in a window, with what it has grown by.
    fn whole(windows: &mut Mappings, shared: Mapping, key: KeyIndex) -> Result<Self> {
        let pipe = Self { shared, node: 0 };
        pipe.open_beyond(windows, key).inspect_err(|_| windows.close(&pipe.shared))?;
        Ok(pipe)
    }

    /// One that this process sees already, through this window.
    pub(super) const fn seen_through(shared: Mapping) -> Self {
        Self { shared, node: 0 }
    }

    /// The pages that it began with.
    pub fn pages(&self) -> &[PageNumber] {
        self.shared.pages()
    }

    /// The window that it lies in.
    pub const fn window(&self) -> &Mapping {
        &self.shared
    }

    /// A process has one descriptor more of an end.
    pub fn held(&self, side: Side, number: u64) {
        side.holders().iter().for_each(|first| self.holders(*first).add(number));
    }

    /// A process has one descriptor less of an end.
    pub fn release_end(&self, side: Side, number: u64) {
        side.holders().iter().for_each(|first| self.holders(*first).remove(number));
        self.changed(side);
    }

    /// This process alone holds an end that another one made for it.
    pub fn transfer_end(&self, side: Side) {
        side.holders().iter().for_each(|first| self.holders(*first).replace(maker()));
        self.changed(side);
    }

    /// Stops counting holders of an end that has none to count, such as the write end of a pipe for datagrams.
    pub fn give_up_counting(&self, side: Side) {
        side.holders().iter().for_each(|first| self.holders(*first).give_up_counting());
    }

    /// What was set of the socket that reads here: see `descriptor::sockets::socket_shared`.
    pub fn settings(&self) -> &'static [AtomicU64] {
        &self.shared.first_page()[SETTINGS..SETTINGS + super::SETTINGS_WORDS]
    }

    /// An end is on its way in a message, or has come.
    pub fn in_flight(&self, is: bool) {
        let step = |now: u64| if is { now.saturating_add(1) } else { now.saturating_sub(1) };
        let _ = self.word(ON_THEIR_WAY).fetch_update(SeqCst, Relaxed, |now| Some(step(now)));
    }

    fn holders(&self, first: usize) -> Holders<'static> {
        Holders(&self.shared.first_page()[first..first + end_owners::WORDS])
    }

    /// The environments that hold the end to read; none where that cannot be said.
    pub(super) fn readers(&self) -> Option<Vec<u64>> {
        let holders = self.holders(HOLDERS_TO_READ);
        (self.word(ON_THEIR_WAY).load(Acquire) == 0).then(|| holders.all())?
    }

    /// What becomes true when an end is closed: one of those who hold it lets go or is gone. Where no holder is left,
    /// the count says so from then on.
    pub(super) fn closed(&self, count: usize, first: usize) -> [Term; 2] {
        let none = word(self.word(count), Operator::Equal, 0);
        let open = self.word(count).load(Acquire);
        if open == 0 && count == WRITERS && self.awaits_first_writer() {
            return [word(self.word(WRITER_OPENS), Operator::NotEqual, 0); 2];
        }
        if open == 0 {
            return [none, none];
        }
        let environment = |number: u64| exposed::environment(EnvironmentId(number)).filter(|info| info.alive());
        match self.holders(first).find(|number| environment(number).is_some()) {
            Known::Lives(place, now) => environment(end_owners::number_of(now)).map_or([none, none], |info| {
                let lets_go = word(self.word(first + place), Operator::NotEqual, now);
                [lets_go, word(info.state_word(), Operator::NotEqual, abi::environment::State::Alive as u64)]
            }),
            Known::Nobody if self.word(ON_THEIR_WAY).load(Acquire) == 0 => {
                // A process that opens it by name meanwhile has changed the count.
                let _ = self.word(count).compare_exchange(open, 0, SeqCst, Relaxed);
                [none, none]
            }
            Known::Nobody | Known::Unknown => [none, none],
        }
    }

    /// One more open description of an end.
    pub fn add(&self, side: Side) {
        self.held(side, maker());
        for count in side.counts() {
            self.word(*count).fetch_add(1, SeqCst);
        }
    }

    /// Opens an end by the name of a FIFO, and waits until the other end is open, or was since.
    pub fn open_named(&self, side: Side, wait: bool) -> Result<()> {
        let (own, others, count) = match side {
            Side::Read | Side::Both => (READER_OPENS, WRITER_OPENS, WRITERS),
            Side::Write => (WRITER_OPENS, READER_OPENS, READERS),
        };
        let (others, count) = (self.word(others), self.word(count));
        let seen = others.load(Acquire);
        // A process at the other end resumes as soon as it sees this one, and may be gone before this one looks again.
        let is_there = count.load(Acquire) != 0;
        self.add(side);
        self.word(own).fetch_add(1, SeqCst);
        crate::wait::kick_idle();
        let joined = [word(others, Operator::NotEqual, seen), word(count, Operator::NotEqual, 0)];
        while wait && !is_there && others.load(Acquire) == seen && count.load(Acquire) == 0 {
            crate::wait::wait(&joined, None).inspect_err(|_| {
                self.release_end(side, maker());
                self.leave(side);
            })?;
        }
        Ok(())
    }

    /// One open description less; who waits at the other end learns of it.
    pub fn leave(&self, side: Side) {
        if side.writes() && self.ring().waiting() == Ok(0) {
            self.word(FILLED_AT).store(clock::ticks(), Relaxed);
        }
        for count in side.counts() {
            let _ = self.word(*count).fetch_update(SeqCst, Relaxed, |open| Some(open.saturating_sub(1)));
        }
        self.changed(side);
    }

    /// Whether the other end is open.
    #[inline]
    pub fn has_other(&self, side: Side) -> bool {
        let other = match side {
            Side::Read => WRITERS,
            Side::Write => READERS,
            Side::Both => return true,
        };
        self.word(other).load(Acquire) != 0
    }

    /// Whether it is a FIFO that was never opened for writing.
    #[cold]
    fn awaits_first_writer(&self) -> bool {
        self.node != 0 && self.word(WRITER_OPENS).load(Acquire) == 0
    }

    /// Whether the other end is gone, as who waits for both is told: a reader that came first waits for a writer.
    #[inline]
    pub fn is_hung_up(&self, side: Side) -> bool {
        !self.has_other(side) && !(side == Side::Read && self.awaits_first_writer())
    }

    /// The counts now.
    #[inline]
    pub fn ring(&self) -> Ring {
        self.ring_of::<false>()
    }

    /// Reads what is there into the program's memory, which must be in place: 0 where nothing is.
    pub fn read(&self, to: u64, bytes: u64) -> Result<u64> {
        self.drain(bytes, |offset, done, length| {
            self.with_place(offset, |window, place| window.copy_to_user(place, to.wrapping_add(done), length))
        })
    }

    /// Writes what fits from the program's memory, which must be in place: 0 where nothing may be written now.
    pub fn write(&self, from: u64, bytes: u64, in_packets: impl Fn() -> bool) -> Result<u64> {
        let each = |offset, done, length| {
            self.with_place(offset, |window, place| window.copy_from_user(place, from.wrapping_add(done), length))
        };
        self.fill(bytes, each, in_packets)
    }

    /// Writes what fits of a buffer of ExOS.
    pub fn write_bytes(&self, bytes: &[u8], in_packets: impl Fn() -> bool) -> Result<u64> {
        let each = |offset, done: u64, length: u64| {
            self.with_place(offset, |window, place| {
                window.write(place, &bytes[done as usize..(done + length) as usize])
            })
        };
        self.fill(bytes.len() as u64, each, in_packets)
    }

    /// Reads what is there, or a packet, into a buffer of ExOS.
    pub fn read_bytes(&self, most: u64) -> Result<Vec<u8>> {
        let bytes = RefCell::new(vec![0; most as usize]);
        let done = self.drain(most, |offset, done, length| {
            let piece = &mut bytes.borrow_mut()[done as usize..(done + length) as usize];
            self.with_place(offset, |window, place| window.read(place, piece))
        })?;
        let mut bytes = bytes.into_inner();
        bytes.truncate(done as usize);
        Ok(bytes)
    }

    /// Says that writes may be packets from now on: who writes says of each whether it is.
    pub fn begin_packets(&self) {
        let _held = self.lock();
        self.word(SHAPE).fetch_or(ring::PACKETS, SeqCst);
    }

    /// Whether some bytes can be written.
    pub fn takes_some(&self) -> bool {
        let ring = self.ring();
        ring.takes(ATOMIC) != Ok(false) && (ring.shape == 0 || !self.is_full_of_packets(ring))
    }

    #[cold]
    fn is_full_of_packets(&self, ring: Ring) -> bool {
        ring.has_packets() && !self.packets().has_room(ring)
    }

    /// How many packets wait.
    pub(super) fn packets_waiting(&self, ring: Ring) -> u64 {
        if ring.has_packets() { self.packets().waiting() } else { 0 }
    }

    fn packets(&self) -> Packets<'static> {
        Packets(&self.shared.first_page()[PACKETS..PACKETS + packets::WORDS])
    }

    /// Does something with a place of the ring: with the window that it lies in, and where it lies there.
    #[inline]
    pub(super) fn with_place<R>(&self, offset: u64, action: impl FnOnce(&Mapping, u64) -> Result<R>) -> Result<R> {
        match offset.checked_sub(CAPACITY) {
            None => action(&self.shared, PAGE_SIZE + offset),
            Some(beyond) => action(&self.beyond()?, PAGE_SIZE + beyond),
        }
    }

    /// What a reader waits for: another count, or no writer.
    pub fn readable(&self) -> [Term; 3] {
        let [lets_go, gone] = self.closed(WRITERS, HOLDERS_TO_WRITE);
        [self.has_bytes(), lets_go, gone]
    }

    /// Waits until there may be bytes to read.
    pub fn wait_to_read(&self) -> Result<()> {
        self.wait_at(READER, || self.readable())
    }

    /// Waits until so many bytes may be written.
    pub fn wait_to_write(&self, bytes: u64) -> Result<()> {
        self.wait_at(WRITER, || self.writable(bytes))
    }

    fn wait_at<const N: usize>(&self, waiter: usize, terms: impl FnOnce() -> [Term; N]) -> Result<()> {
        self.word(waiter).store(runtime::area::number().0, Relaxed);
        crate::wait::wait_for(terms, None).map(|_| ())
    }

    /// The running thread is about to wait for bytes, or for room.
    pub fn note_waiter(&self, event: Event) {
        let waiter = if event == Event::Readable { READER } else { WRITER };
        self.word(waiter).store(runtime::area::number().0, Relaxed);
    }

    /// See `FileOps::filled_at`.
    pub fn filled_at(&self) -> u64 {
        self.word(FILLED_AT).load(Relaxed)
    }

    /// Publishes that bytes were written up to a position. `ring` has the counts before. The caller has the lock.
    #[inline]
    pub(super) fn set_written(&self, ring: Ring, position: u64) {
        if ring.written == ring.read {
            self.word(FILLED_AT).store(clock::ticks(), Relaxed);
        }
        self.word(WRITTEN).store(position, SeqCst);
    }

    /// Bytes have come: who waits for them can go on.
    pub(super) fn wake_reader(&self) {
        self.wake(READER);
    }

    /// There is more room than there was.
    pub(super) fn wake_writer(&self) {
        self.wake(WRITER);
    }

    #[inline]
    fn wake(&self, waiter: usize) {
        let number = self.word(waiter).load(Relaxed);
        if number != 0 {
            self.word(waiter).store(0, Relaxed);
            crate::wait::set_yield_target(number);
        }
        self.tell_bells(waiter == READER);
        crate::wait::kick_idle();
    }

    /// True when bytes wait to be read, while none do.
    pub fn has_bytes(&self) -> Term {
        word(self.word(WRITTEN), Operator::NotEqual, self.word(READ).load(Acquire))
    }

    /// What becomes true when an end to read is closed.
    pub(super) fn reader_closes(&self) -> [Term; 2] {
        self.closed(READERS, HOLDERS_TO_READ)
    }

    pub(super) fn read_count(&self) -> &'static AtomicU64 {
        self.word(READ)
    }

    /// What a writer waits for: more room than a full ring has, another size, or no reader.
    pub fn writable(&self, bytes: u64) -> [Term; 4] {
        let [lets_go, gone] = self.reader_closes();
        let shape = self.word(SHAPE);
        let changes_size = word(shape, Operator::NotEqual, shape.load(Acquire));
        [self.has_room(bytes), lets_go, gone, changes_size]
    }

    /// True when a write of so many bytes may begin.
    pub fn has_room(&self, bytes: u64) -> Term {
        let ring = self.ring();
        if ring.shape != 0 && self.is_full_of_packets(ring) {
            return word(self.word(READ), Operator::NotEqual, ring.read);
        }
        let least = ring.written.wrapping_add(Ring::needed(bytes)).saturating_sub(ring.size());
        word(self.word(READ), Operator::GreaterOrEqual, least)
    }

    /// What becomes true when bytes are written, or read, or who does so is gone.
    pub fn changes(&self, written: bool) -> [Term; 4] {
        let (count, others, holders) =
            if written { (WRITTEN, WRITERS, HOLDERS_TO_WRITE) } else { (READ, READERS, HOLDERS_TO_READ) };
        let now = |index: usize| word(self.word(index), Operator::NotEqual, self.word(index).load(Acquire));
        // An end that has been told of is no news.
        let are_gone = self.word(others).load(Acquire) == 0;
        let [lets_go, gone] = if are_gone { [now(others), now(others)] } else { self.closed(others, holders) };
        [now(count), lets_go, gone, now(others)]
    }

    /// The count of bytes read, which the session's pump watches.
    pub fn bytes_read(&self) -> &'static AtomicU64 {
        self.word(READ)
    }

    fn drain(&self, bytes: u64, each: impl Fn(u64, u64, u64) -> Result<()>) -> Result<u64> {
        let _held = self.lock();
        match self.word(SHAPE).load(Acquire) {
            0 => self.drain_ring::<true>(bytes, &each),
            _ => self.drain_shaped(bytes, &each),
        }
    }

    #[cold]
    fn drain_shaped(&self, bytes: u64, each: &impl Fn(u64, u64, u64) -> Result<()>) -> Result<u64> {
        if self.ring().has_packets() { self.drain_packets(bytes, each) } else { self.drain_ring::<false>(bytes, each) }
    }

    /// Reads one packet, or what waits before the first, and then that: what there is no room for is lost.
    fn drain_packets(&self, bytes: u64, each: &impl Fn(u64, u64, u64) -> Result<()>) -> Result<u64> {
        let mut done = 0;
        while done < bytes {
            let ring = self.ring();
            let Some(Packet { before, length }) = self.packets().first(ring) else {
                // What is left is of no packet.
                let rest = |offset, at, length| each(offset, done + at, length);
                return self.drain_ring::<false>(bytes - done, &rest).map(|more| done + more);
            };
            let taken = if before > 0 { before.min(bytes - done) } else { length.min(bytes - done) };
            match self.each_stretch(ring.read, taken, |offset, at, length| each(offset, done + at, length)) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => done += taken,
            }
            let gone = if before > 0 { taken } else { length };
            self.word(READ).store(ring.read.wrapping_add(gone), SeqCst);
            if before == 0 {
                self.packets().take();
                break;
            }
        }
        self.wake_writer();
        Ok(done)
    }

    /// Writes packets of a page each, and a last one of the rest, as far as they fit whole.
    fn fill_packets(&self, bytes: u64, each: &impl Fn(u64, u64, u64) -> Result<()>) -> Result<u64> {
        let mut done = 0;
        while done < bytes {
            let (ring, length) = (self.ring(), (bytes - done).min(ATOMIC));
            if ring.room()? < length || !self.packets().has_room(ring) {
                break;
            }
            match self.each_stretch(ring.written, length, |offset, at, length| each(offset, done + at, length)) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
            self.packets().add(ring, length);
            self.set_written(ring, ring.written.wrapping_add(length));
            done += length;
        }
        self.wake_reader();
        Ok(done)
    }

    /// Does something with the stretches of the ring from a position on.
    fn each_stretch(&self, position: u64, bytes: u64, each: impl Fn(u64, u64, u64) -> Result<()>) -> Result<()> {
        let (ring, mut done) = (self.ring(), 0);
        while done < bytes {
            let stretch = ring.stretch(position.wrapping_add(done), bytes - done);
            each(stretch.offset, done, stretch.bytes)?;
            done += stretch.bytes;
        }
        Ok(())
    }

    #[inline]
    fn drain_ring<const PLAIN: bool>(&self, bytes: u64, each: &impl Fn(u64, u64, u64) -> Result<()>) -> Result<u64> {
        let mut done = 0;
        loop {
            let ring = self.ring_of::<PLAIN>();
            let stretch = ring.to_read(bytes - done)?;
            if stretch.bytes == 0 {
                break;
            }
            match each(stretch.offset, done, stretch.bytes) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
            self.word(READ).store(ring.read.wrapping_add(stretch.bytes), SeqCst);
            done += stretch.bytes;
            if done >= bytes {
                break;
            }
        }
        if done > 0 {
            self.wake_writer();
        }
        Ok(done)
    }

    fn fill(
        &self,
        bytes: u64,
        each: impl Fn(u64, u64, u64) -> Result<()>,
        in_packets: impl Fn() -> bool,
    ) -> Result<u64> {
        let _held = self.lock();
        match self.word(SHAPE).load(Acquire) {
            0 => self.fill_ring::<true>(bytes, &each),
            _ => self.fill_shaped(bytes, &each, in_packets),
        }
    }

    #[cold]
    fn fill_shaped(
        &self,
        bytes: u64,
        each: &impl Fn(u64, u64, u64) -> Result<()>,
        in_packets: impl Fn() -> bool,
    ) -> Result<u64> {
        let in_packets = self.ring().has_packets() && in_packets();
        if in_packets { self.fill_packets(bytes, each) } else { self.fill_ring::<false>(bytes, each) }
    }

    #[inline]
    fn fill_ring<const PLAIN: bool>(&self, bytes: u64, each: &impl Fn(u64, u64, u64) -> Result<()>) -> Result<u64> {
        let mut ring = self.ring_of::<PLAIN>();
        let mut room = ring.room()?;
        if room < Ring::needed(bytes) {
            return Ok(0);
        }
        let mut done = 0;
        loop {
            let stretch = ring.to_write_into(room, bytes - done);
            if stretch.bytes == 0 {
                break;
            }
            match each(stretch.offset, done, stretch.bytes) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
            self.set_written(ring, ring.written.wrapping_add(stretch.bytes));
            done += stretch.bytes;
            if done >= bytes {
                break;
            }
            ring = self.ring_of::<PLAIN>();
            room = ring.room()?;
        }
        self.wake_reader();
        Ok(done)
    }

    /// The counts now, under the lock; of a plain ring, whose size was never changed, what is known of it is known to
    /// the compiler, too.
    #[inline]
    fn ring_of<const PLAIN: bool>(&self) -> Ring {
        let count = |index: usize| self.word(index).load(Acquire);
        let shape = if PLAIN { 0 } else { count(SHAPE) };
        Ring { written: count(WRITTEN), read: count(READ), shape }
    }

    pub(super) fn lock(&self) -> Held<'static> {
        crate::hw::mapping::lock_in(&self.shared).acquire()
    }

    #[inline]
    pub(super) fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.shared.first_page()[index]
    }
}

/// The access list of a page.
pub fn list_of(page: PageNumber) -> PageNumber {
    exposed::page(page).map_or(PageNumber::NONE, |info| info.access())
}

/// Whether pages lie under the list of the first page of a pipe, as its makers had them. Otherwise a process could name
/// pages of others in a first page of its own, and have a process write them that may.
pub(super) fn are_under_list_of(first: PageNumber, pages: &[PageNumber]) -> bool {
    pages.iter().all(|page| list_of(*page) == list_of(first))
}

/// The maker of a pipe: the process, or the session before there is one.
fn maker() -> u64 {
    if is_adopted() { domain().environment() } else { runtime::area::number().0 }
}

/// Closes the window of a pipe that this process has no end of any more.
pub fn discard(pipe: &Pipe) {
    // The address space goes as a whole.
    if signal_state().stopped.load(Relaxed) >= state::ENDS {
        return;
    }
    exported_pages::unmap_and_export(&pipe.shared);
}
