//! Sockets that listen: the queue, where each who connects leaves the first pages of two pipes that it made, and who
//! accepts takes them. It lies in the page that the socket has in common with all who hold it (`socket_shared`).

use super::socket::{Ends, Kind, Socket, fresh_pipe, fresh_pipe_from};
use crate::attributes::attributes;
use crate::descriptor::open_file::OpenFile;
use crate::hw::domain::domain;
use crate::hw::mapping::{Mapping, lock_in};
use crate::pipe::{self, Pipe, Side};
use crate::server::client::{self, Peer, TakingOver};
use crate::wait::{self, bells};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_abi::errno::{Errno, Result};
use runtime::exposed::PageStamp;
use runtime::page::Allocator;
use runtime::{PageNumber, clock, exposed};
use unix_core::process::ucred::Ucred;

/// Words of the queue: requests that came, and that were taken; how many may wait, 0: the socket does not listen.
pub(crate) const CAME: usize = 1;
pub(crate) const TAKEN: usize = 2;
pub(crate) const BACKLOG: usize = 3;
/// When the first came of those that wait: see `FileOps::filled_at`.
pub(crate) const FILLED_AT: usize = 10;
/// Bells that sleepers ask for: see `wait::bells`.
pub const WATCH: usize = 11;
/// In place of how many may wait: `shutdown` has ended the listening, and who waits to accept learns of that.
pub(crate) const SHUT: u64 = u64::MAX;
/// Where the requests begin, and how many there is room for. They are three words each: stamps of the first pages of
/// two pipes, and the number by which the server says whose they are.
const REQUESTS: usize = 16;
const ROOM: u64 = 128;
/// One of them.
pub type Request = [u64; 3];
/// None of them.
pub(crate) const NO_REQUEST: Request = [0; 3];

/// Pages that the listener at a queue can open too. Where user 0 connects, the listener may be another user; else it is
/// the same user, or user 0.
fn from_list_of(queue: &Mapping) -> Allocator {
    let own = super::socket::from();
    let list = exposed::page(queue.pages()[0]).filter(|_| is_user_0()).map_or(own.list, |info| info.access());
    Allocator { list, ..own }
}

/// Whether this process holds the key that opens everything, so that other users may have it open what they may not.
pub(super) fn is_user_0() -> bool {
    domain().principal.load(Relaxed) == 0
}

/// Whether a process listens at a queue.
fn is_open(queue: &[AtomicU64]) -> bool {
    (1..=ROOM).contains(&queue[BACKLOG].load(Acquire))
}

/// Puts a request into a queue whose lock the caller has: false where it is full.
///
/// # Errors
/// `ECONNREFUSED`: no process listens there.
pub fn put_request(queue: &[AtomicU64], request: Request) -> Result<bool> {
    if !is_open(queue) {
        return Err(Errno::ECONNREFUSED);
    }
    let came = queue[CAME].load(Acquire);
    let waiting = came.wrapping_sub(queue[TAKEN].load(Acquire));
    if waiting > queue[BACKLOG].load(Acquire).min(ROOM - 1) {
        return Ok(false);
    }
    for (index, word) in request.into_iter().enumerate() {
        queue[REQUESTS + (came % ROOM) as usize * request.len() + index].store(word, SeqCst);
    }
    if waiting == 0 {
        queue[FILLED_AT].store(clock::ticks(), Relaxed);
    }
    queue[CAME].store(came.wrapping_add(1), SeqCst);
    Ok(true)
}

impl Socket {
    /// Lets others connect.
    pub fn listen(&self, description: &OpenFile, backlog: u64) -> Result<()> {
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let common = self.common.as_ref().ok_or(Errno::EINVAL)?;
        let ends = self.ends();
        if ends.names[0].is_empty() || ends.outgoing.is_some() {
            return Err(Errno::EINVAL);
        }
        drop(ends);
        client::files().lock().listen(common.page())?;
        let own = attributes().as_peer();
        self.change(Some(description), |ends| ends.peer = Some(own));
        common.words()[BACKLOG].store(backlog.clamp(1, ROOM), SeqCst);
        Ok(())
    }

    /// Whether it takes connections.
    pub fn is_listening(&self) -> bool {
        self.queue_words().is_some()
    }

    /// Whether no process can connect any more to what listened here.
    pub fn has_stopped_listening(&self) -> bool {
        self.queue_words().is_some_and(|words| words[BACKLOG].load(Acquire) == SHUT)
    }

    /// The words of the queue, if it listens, or did.
    pub(crate) fn queue_words(&self) -> Option<&'static [AtomicU64]> {
        let words = self.common.as_ref()?.words();
        (words[BACKLOG].load(Acquire) != 0).then_some(words)
    }

    /// Asks the process that listens at a name for a connection; `None`: its queue is full. Where this process cannot
    /// open the queue it has the server put the request there, by `by_server`.
    pub(crate) fn ask(&self, peer: Peer, by_server: impl FnOnce(Request) -> Result<Peer>) -> Result<Option<Ends>> {
        let queue = domain().mappings.lock().open_noted(&[peer.page], domain().session_key, true).ok();
        let outcome = self.ask_at(queue.as_ref(), peer, by_server);
        queue.iter().for_each(|queue| domain().mappings.lock().close(queue));
        outcome
    }

    fn ask_at(
        &self,
        queue: Option<&Mapping>,
        peer: Peer,
        by_server: impl FnOnce(Request) -> Result<Peer>,
    ) -> Result<Option<Ends>> {
        if queue.is_some_and(|queue| !is_open(queue.words())) || queue.is_none() && is_user_0() {
            return Err(Errno::ECONNREFUSED);
        }
        let own = super::socket::from();
        let from = match (peer.list, queue) {
            (Some(list), _) => Allocator { list, ..own },
            (None, Some(queue)) => from_list_of(queue),
            (None, None) => own,
        };
        let (outgoing, incoming) = (fresh_pipe_from(from)?, fresh_pipe_from(from)?);
        let number = self.introduce(&outgoing, &incoming)?;
        // The process that accepts may ask for the sender, so the pipe records it until then.
        outgoing.ask_for_senders(true);
        incoming.ask_for_senders(self.settings.wants_credentials());
        outgoing.set_name(&self.ends().names[0]);
        let [outgoing_first, incoming_first] = [&outgoing, &incoming].map(|pipe| PageStamp::of(pipe.pages()[0]));
        let request = [outgoing_first.0, incoming_first.0, number];
        let who = match queue {
            None => by_server(request).map(|peer| peer.is_asked.then_some(peer.who)),
            Some(queue) => {
                let held = lock_in(queue).acquire();
                let outcome = put_request(queue.words(), request);
                drop(held);
                bells::tell(&queue.words()[WATCH]);
                wait::kick_idle();
                outcome.map(|done| done.then_some(peer.who))
            }
        };
        let who = match who {
            Ok(Some(who)) => who,
            refused => {
                pipe::discard(&outgoing);
                pipe::discard(&incoming);
                return refused.map(|_| None);
            }
        };
        for _ in 1..self.descriptors() {
            incoming.held(Side::Read, domain().environment());
            outgoing.held(Side::Write, domain().environment());
        }
        let (incoming, outgoing) = (Some(incoming), Some(outgoing));
        Ok(Some(Ends { incoming, outgoing, request: Some(number), peer: Some(who), ..Ends::default() }))
    }

    /// The next connection; `None` where none waits.
    pub fn accept(&self) -> Result<Option<Self>> {
        loop {
            let Some((pages, number)) = self.take_request()? else { return Ok(None) };
            // A process that was destroyed since has taken its pages along.
            let Some([incoming, outgoing]) = Self::connection(pages, number)? else { continue };
            let names = [self.ends().names[0].clone(), incoming.name()];
            let accepted = Self::joined(self.kind, incoming, outgoing);
            {
                let mut ends = accepted.ends.lock();
                (ends.names, ends.peer) = (names, Some(Self::introduced(number, pages.map(PageStamp::page))));
            }
            accepted.ask_for_senders(self.settings.wants_credentials());
            return Ok(Some(accepted));
        }
    }

    /// The two pipes of who connected, or two like them where it has closed its socket; none where it is gone without.
    fn connection(pages: [PageStamp; 2], number: u64) -> Result<Option<[Pipe; 2]>> {
        let open = || {
            let mut windows = domain().mappings.lock();
            match pages.map(|page| Pipe::open_by_first(&mut windows, page, domain().session_key)) {
                [Ok(incoming), Ok(outgoing)] => Some([incoming, outgoing]),
                others => {
                    others.iter().flatten().for_each(|pipe| windows.close(pipe.window()));
                    None
                }
            }
        };
        // A maker that becomes another user, or ends, puts the pages under another list one by one.
        let opened = open().or_else(|| {
            drop(TakingOver::begin(domain().server));
            open()
        });
        if let Some([incoming, outgoing]) = &opened {
            incoming.note_accepted();
            incoming.transfer_end(Side::Read);
            outgoing.transfer_end(Side::Write);
            if incoming.has_other(Side::Read) {
                return Ok(opened);
            }
        }
        let Some((read, sent)) = client::files().lock().take_left(number)? else { return Ok(opened) };
        opened.iter().flatten().for_each(|pipe| domain().mappings.lock().close(pipe.window()));
        let [incoming, outgoing] = [fresh_pipe()?, fresh_pipe()?];
        incoming.fill_as_left(read, &sent)?;
        outgoing.give_up(Side::Read);
        Ok(Some([incoming, outgoing]))
    }

    /// The peer, where that is another user, which may not open what this process opens.
    pub(crate) fn foreign_peer(&self) -> Option<Ucred> {
        let own = attributes().as_peer().user;
        self.ends().peer.filter(|peer| peer.user != 0 && (is_user_0() || peer.user != own))
    }

    /// Leaves what was sent with the server, if no process has accepted the connection yet.
    pub(crate) fn leave_behind(&self) {
        let ends = self.ends();
        let (Some(number), Some(outgoing)) = (ends.request, &ends.outgoing) else { return };
        if !outgoing.is_accepted()
            && let Ok((read, sent)) = outgoing.left_behind()
        {
            // The connection was accepted meanwhile, or there is no room: then the bytes are lost, as they would be
            // with the machine.
            let _ = client::files().lock().leave_behind(number, read, &sent);
        }
    }

    /// Pages of the connections that wait here. A process that writes the queue cannot name pages here that it could
    /// not open itself. They are under the list that the queue was under, or the server knows who made them.
    pub fn pages_waiting(&self, list: PageNumber) -> Vec<PageNumber> {
        let list_of = |page: PageNumber| exposed::page(page).map(|info| info.access());
        let mut pages = Vec::new();
        for (firsts, number) in self.requests_waiting() {
            let own = firsts.map(|first| list_of(first.page()));
            let numbers = firsts.map(|first| first.page().0);
            if own != [Some(list); 2] && !client::files().lock().is_genuine(number, numbers) {
                continue;
            }
            for (first, list) in firsts.into_iter().zip(own) {
                let pipe = Pipe::open_by_first(&mut domain().mappings.lock(), first, domain().session_key);
                if let Ok(pipe) = pipe {
                    pages.extend(pipe.all_pages().into_iter().filter(|page| list_of(*page) == list));
                    domain().mappings.lock().close(pipe.window());
                }
            }
        }
        pages
    }

    /// The first pages of the pipes of each connection that waits, and its number.
    fn requests_waiting(&self) -> Vec<([PageStamp; 2], u64)> {
        let (Some(common), Some(words)) = (self.common.as_ref(), self.queue_words()) else { return Vec::new() };
        let _held = common.lock();
        let (came, taken) = (words[CAME].load(Acquire), words[TAKEN].load(Acquire));
        let request = |index: u64| {
            let at = REQUESTS + (taken.wrapping_add(index) % ROOM) as usize * 3;
            let [incoming, outgoing, number] = [0, 1, 2].map(|word| words[at + word].load(Acquire));
            ([incoming, outgoing].map(PageStamp), number)
        };
        (0..came.wrapping_sub(taken).min(ROOM)).map(request).collect()
    }

    fn take_request(&self) -> Result<Option<([PageStamp; 2], u64)>> {
        let common = self.common.as_ref().ok_or(Errno::EINVAL)?;
        let words = common.words();
        let _held = common.lock();
        let (came, taken) = (words[CAME].load(Acquire), words[TAKEN].load(Acquire));
        if !(1..=ROOM).contains(&came.wrapping_sub(taken)) {
            // More requests than there is room for are no requests.
            words[TAKEN].store(came, SeqCst);
            return Ok(None);
        }
        words[TAKEN].store(taken.wrapping_add(1), SeqCst);
        let at = REQUESTS + (taken % ROOM) as usize * 3;
        let [incoming, outgoing, number] = [0, 1, 2].map(|index| words[at + index].load(Acquire));
        Ok(Some(([incoming, outgoing].map(PageStamp), number)))
    }
}
