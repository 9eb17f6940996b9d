//! Shared state of a socket: what all its holders have in common. That is what a program has set. Of a socket that was
//! made alone it is also a page with its name, its peer and its queue, which any holder may have set since. Relatives
//! hold a socket after a fork, others were passed it.
//!
//! A process keeps what it has opened of that (`socket::Ends`), and reads the page anew where its generation is another
//! one. Everybody may have written anything there who holds the socket, or reaches it by its name, as in its pipes:
//! every value has a meaning. What only the server says it is asked: who the peer is, and the hold on a name.

use super::socket::{Ends, Kind, Socket};
use crate::descriptor::exported_pages;
use crate::descriptor::fd_pins::descriptors;
use crate::descriptor::open_file::OpenFile;
use crate::hw::domain::domain;
use crate::hw::mapping::{Mapping, PAGE_WORDS, lock_in};
use crate::pipe::{Pipe, SETTINGS_WORDS, Side, list_of};
use crate::server::client;
use crate::wait;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_abi::errno::Result;
use runtime::PageNumber;
use runtime::exposed::PageStamp;
use runtime::lock::{Guard, Held};
use runtime::predicate::{Operator, Term, word};

/// Words of the page: those of the queue of a listener (see `listen_queue`) come first and last. How often the rest was
/// changed:
const GENERATION: usize = 4;
/// Stamps of the first pages of the pipes, incoming and outgoing.
const PIPES: [usize; 2] = [5, 6];
/// See [`Ends::request`].
const REQUEST: usize = 7;
/// The number by which the server gives a hold on the node of an abstract name to who asks next; 0: there is none.
const OFFER: usize = 8;
/// The number by which it tells who asks next who the peer is.
const VOUCHER: usize = 9;
/// Where the names lie, its own and its peer's: how many bytes, then these.
const NAMES: [usize; 2] = [400, 416];
const NAME_BYTES: usize = 108;
/// Where the settings lie.
const SETTINGS: usize = 432;

const WANTS_CREDENTIALS: usize = 2;
const FLAGS: usize = 3;
const NUMBERS: usize = 4;
const WRITES_NO_MORE: usize = 9;

/// What a program has set (socket(7)), in a page that all share who hold the socket.
#[derive(Clone, Copy, Debug)]
pub struct Settings(&'static [AtomicU64]);

impl Settings {
    /// Those of a socket that was made together with its pipes: they lie in the incoming one.
    pub fn of_pipe(incoming: &Pipe) -> Self {
        Self(incoming.settings())
    }

    fn of_page(common: &SharedSocketState) -> Self {
        Self(&common.words()[SETTINGS..SETTINGS + SETTINGS_WORDS])
    }

    /// Nanoseconds that a receiver (0) or a sender (1) waits; 0: for ever.
    pub fn patience(self, which: usize) -> u64 {
        self.0[which % 2].load(Relaxed)
    }

    /// Sets that.
    pub fn set_patience(self, which: usize, nanoseconds: u64) {
        self.0[which % 2].store(nanoseconds, Relaxed);
    }

    /// Whether messages come with who sent them.
    pub fn wants_credentials(self) -> bool {
        self.0[WANTS_CREDENTIALS].load(Relaxed) != 0
    }

    /// Sets that.
    pub(crate) fn set_wants_credentials(self, does: bool) {
        self.0[WANTS_CREDENTIALS].store(u64::from(does), Relaxed);
    }

    /// Whether a socket for datagrams was shut down to send.
    pub(crate) fn writes_no_more(self) -> bool {
        self.0[WRITES_NO_MORE].load(Relaxed) != 0
    }

    /// It is from now on.
    pub(crate) fn write_no_more(self) {
        self.0[WRITES_NO_MORE].store(1, Relaxed);
    }

    /// Whether an option is on that changes nothing here, and is told as it was set.
    pub fn flag(self, option: u32) -> bool {
        self.0[FLAGS].load(Relaxed) >> option & 1 != 0
    }

    /// Sets that.
    pub fn set_flag(self, option: u32, on: bool) {
        match on {
            true => self.0[FLAGS].fetch_or(1 << option, Relaxed),
            false => self.0[FLAGS].fetch_and(!(1 << option), Relaxed),
        };
    }

    /// The same of those that are numbers.
    pub fn number(self, index: usize) -> u32 {
        self.0[NUMBERS + index].load(Relaxed) as u32
    }

    /// Sets that.
    pub fn set_number(self, index: usize, number: u32) {
        self.0[NUMBERS + index].store(u64::from(number), Relaxed);
    }
}

/// The page.
#[derive(Debug)]
pub(crate) struct SharedSocketState {
    window: Mapping,
    /// Its access list when it was opened here.
    list: PageNumber,
}

impl SharedSocketState {
    fn of(window: Mapping) -> Self {
        let list = list_of(window.pages()[0]);
        Self { window, list }
    }

    /// Whether those who may write it are of the user that they were of: who became another one has it under another
    /// list.
    fn is_of_one_user(&self) -> bool {
        list_of(self.page()) == self.list
    }

    fn create() -> Result<Self> {
        exported_pages::reclaim_unused();
        let page = crate::budget::allocate()?;
        Ok(Self::of(domain().mappings.lock().open(vec![page], domain().session_key, true)?))
    }

    /// The page of a socket that came in a message.
    pub(crate) fn open(page: PageStamp) -> Result<Self> {
        Ok(Self::of(domain().mappings.lock().open_noted(&[page], domain().opening_key(), true)?))
    }

    /// Its number.
    pub(crate) fn page(&self) -> PageNumber {
        self.window.pages()[0]
    }

    /// Its words.
    pub(crate) const fn words(&self) -> &'static [AtomicU64; PAGE_WORDS] {
        self.window.first_page()
    }

    /// A holder that changes it holds this lock.
    pub(crate) fn lock(&self) -> Held<'static> {
        lock_in(&self.window).acquire()
    }

    /// True when it is not this generation any more.
    pub(crate) fn changes(&self, seen: u64) -> Term {
        word(&self.words()[GENERATION], Operator::NotEqual, seen)
    }

    /// This process has no descriptor of the socket any more.
    pub(crate) fn discard(&self) {
        exported_pages::unmap_and_export(&self.window);
    }

    fn generation(&self) -> u64 {
        self.words()[GENERATION].load(Acquire)
    }

    fn name(&self, whose: usize) -> Vec<u8> {
        let at = NAMES[whose];
        let mut name = vec![0; (self.words()[at].load(Acquire) as usize).min(NAME_BYTES)];
        // It lies in the page.
        let _ = self.window.read(at as u64 * 8 + 8, &mut name);
        name
    }

    /// Writes what a socket is joined to, while the lock is held.
    fn write(&self, ends: &mut Ends) {
        let words = self.words();
        for (word, pipe) in PIPES.into_iter().zip([&ends.incoming, &ends.outgoing]) {
            words[word].store(PageStamp::of(first_of(pipe)).0, Relaxed);
        }
        words[REQUEST].store(ends.request.unwrap_or(0), Relaxed);
        for (at, name) in NAMES.into_iter().zip(&ends.names) {
            let name = &name[..name.len().min(NAME_BYTES)];
            let _ = self.window.write(at as u64 * 8 + 8, name);
            words[at].store(name.len() as u64, Relaxed);
        }
        ends.seen = self.generation().wrapping_add(1);
        words[GENERATION].store(ends.seen, SeqCst);
    }
}

/// The first page of a pipe; `NONE` where there is none.
pub(crate) fn first_of(pipe: &Option<Pipe>) -> PageNumber {
    pipe.as_ref().map_or(PageNumber::NONE, |pipe| pipe.pages()[0])
}

impl Socket {
    /// One that is joined to nothing.
    ///
    /// # Errors
    /// There is no memory for the page.
    pub fn new(kind: Kind) -> Result<Self> {
        Ok(Self::with_page(kind, SharedSocketState::create()?, Ends::default()))
    }

    pub(crate) fn with_page(kind: Kind, common: SharedSocketState, ends: Ends) -> Self {
        let settings = Settings::of_page(&common);
        Self::of(kind, Some(common), ends, settings)
    }

    /// What it is joined to, even if another holder joined it.
    pub(crate) fn ends(&self) -> Guard<'_, Ends> {
        let ends = self.ends.lock();
        match &self.common {
            Some(common) if common.generation() != ends.seen => {
                drop(ends);
                // What cannot be opened is not there.
                let _ = self.catch_up(common);
                self.ends.lock()
            }
            _ => ends,
        }
    }

    /// Opens what others have joined it to, if all that may write the page are one user: another user could have this
    /// process open anything. The first page of what could not be opened is nowhere in `ends`.
    ///
    /// # Errors
    /// The first that came.
    #[cold]
    pub(crate) fn catch_up(&self, common: &SharedSocketState) -> Result<()> {
        let descriptors = self.descriptors();
        let mut ends = self.ends.lock();
        let _held = common.lock();
        let word = |index: usize| common.words()[index].load(Acquire);
        ends.seen = common.generation();
        if !common.is_of_one_user() {
            return Ok(());
        }
        ends.names = [0, 1].map(|whose| common.name(whose));
        ends.request = Some(word(REQUEST)).filter(|number| *number != 0);
        let pages = PIPES.map(|index| PageStamp(word(index)));
        let incoming = self.see_pipe(&mut ends.incoming, pages[0], (Side::Read, descriptors));
        let outgoing = self.see_pipe(&mut ends.outgoing, pages[1], (Side::Write, descriptors));
        // A process that closes the last descriptor has no hold any more.
        if ends.node.is_none() && descriptors > 0 {
            ends.node = take_hold(&common.words()[OFFER]);
        }
        if self.kind != Kind::Datagram && ends.peer.is_none() && ends.outgoing.is_some() {
            ends.peer = Self::passed(common.words()[VOUCHER].swap(0, SeqCst), true);
            common.words()[VOUCHER].store(Self::vouch_for(ends.peer), SeqCst);
        }
        incoming.and(outgoing)
    }

    /// Has the pipe open that begins with a page; `NONE`: none.
    fn see_pipe(&self, seen: &mut Option<Pipe>, first: PageStamp, (side, descriptors): (Side, usize)) -> Result<()> {
        if first_of(seen) == first.page() {
            return Ok(());
        }
        if let Some(before) = seen.take() {
            self.leave_pipe(&before, side);
        }
        if first != PageStamp::NONE {
            let pipe = Pipe::open_by_first(&mut domain().mappings.lock(), first, domain().opening_key())?;
            if side == Side::Read || self.kind != Kind::Datagram {
                (0..descriptors).for_each(|_| pipe.held(side, domain().environment()));
            }
            *seen = Some(pipe);
        }
        Ok(())
    }

    /// Is done with a pipe that it was joined to. A thread may still look through its window.
    pub(crate) fn leave_pipe(&self, pipe: &Pipe, side: Side) {
        if side == Side::Read || self.kind != Kind::Datagram {
            pipe.release_end(side, domain().environment());
        }
        if !descriptors().has_threads.load(Relaxed) {
            crate::pipe::discard(pipe);
        }
    }

    /// Changes what it is joined to, for all who hold it. Where an open file of it is given, processes other than this
    /// one may hold it. For those that open it later, its pages stay though no process maps them, and its ends are open
    /// though this process has gone.
    pub(crate) fn change<R>(&self, description: Option<&OpenFile>, change: impl FnOnce(&mut Ends) -> R) -> R {
        let Some(common) = &self.common else { return change(&mut self.ends.lock()) };
        let shared = description.filter(|description| description.is_held_elsewhere());
        let (mut ends, held) = loop {
            let ends = self.ends();
            let held = common.lock();
            // Another one may have changed it in between.
            if common.generation() == ends.seen {
                break (ends, held);
            }
        };
        let outcome = change(&mut ends);
        if shared.is_some() {
            self.leave_to_others(common, &ends);
        }
        common.write(&mut ends);
        drop((held, ends));
        if let Some(description) = shared {
            description.note_sent();
        }
        wait::kick_idle();
        outcome
    }

    fn leave_to_others(&self, common: &SharedSocketState, ends: &Ends) {
        let outgoing = ends.outgoing.iter().filter(|_| self.kind != Kind::Datagram);
        ends.incoming.iter().for_each(|pipe| pipe.give_up_counting(Side::Read));
        outgoing.for_each(|pipe| pipe.give_up_counting(Side::Write));
        common.words()[VOUCHER].store(Self::vouch_for(ends.peer), SeqCst);
        give_hold(&common.words()[OFFER], ends.node);
    }

    /// The last holder is gone: no process is going to take the hold on its name that is left.
    pub(crate) fn take_last_hold(&self) {
        let Some(common) = &self.common else { return };
        let number = common.words()[OFFER].swap(0, SeqCst);
        if number != 0 {
            let mut files = client::files().lock();
            let taken = files.accept_offer(number);
            taken.iter().for_each(|node| files.hold(*node, false));
        }
    }
}

/// Leaves a hold on a node to who asks next, unless one is left.
fn give_hold(offer: &AtomicU64, node: Option<u64>) {
    if offer.load(Acquire) == 0
        && let Some(node) = node
    {
        // A holder that gets none has no part in the name.
        offer.store(client::files().lock().offer(node).unwrap_or(0), SeqCst);
    }
}

/// Takes the hold that is left, and leaves another one.
fn take_hold(offer: &AtomicU64) -> Option<u64> {
    let number = Some(offer.swap(0, SeqCst)).filter(|number| *number != 0)?;
    let node = client::files().lock().accept_offer(number).ok()?;
    give_hold(offer, Some(node));
    Some(node)
}
