//! A process's side of the server: its connection, whose window carries paths and bytes. Each part has a function for
//! each operation that it is about.
//!
//! `names`, `open`, `attributes` and `mounts` are operations on paths, `io` and `handles` those on files that the
//! process holds. `locks_and_sockets` and `ipc` are about what strangers share, `internet` and `disk` about sockets and
//! raw disks.
//! `registration` tells the server of children. `dcache` finds paths and `mapped_pages` reads files without an RPC;
//! `rpc` asks without a connection.

mod attributes;
mod dcache;
mod disk;
mod hand_off;
mod handles;
mod internet;
mod io;
mod ipc;
mod locks_and_sockets;
mod mapped_pages;
mod mounts;
mod names;
mod open;
mod priority_table;
mod registration;
mod rpc;
mod unaccepted;

pub use disk::disk_line;
pub use hand_off::{HandedOffPage, is_left};
pub use internet::network_card;
pub use ipc::{bell, bell_record, changes, clock_offset, futex_wakes, machine_name, mount_changes, wall_clock};
pub use locks_and_sockets::Peer;
pub use open::{Opened, OpenedProgram, PrefaultSet, program_generation};
pub use priority_table::{priorities, priorities_in};
pub use rpc::{TakingOver, admit, draw, draw_for_end, signal, tell_parent};

use self::mapped_pages::Views;
use crate::hw::current::{self, Holds, Word, record};
use crate::hw::domain::domain;
use crate::hw::mapping::Mapping;
use crate::hw::plain_wait::wait_plainly;
use crate::hw::thread_context::thread_context_if_any;
use crate::loader::cpu_entry;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use core::sync::atomic::fence;
use linux_abi::errno::{Errno, Result};
use runtime::lock::Lock;
use runtime::predicate::{Operator, Term, clock, word};
use runtime::transfer::{self, Kind, Message};
use runtime::{EnvironmentId, Error, Failure, PageNumber, critical_section, exposed, time_slice};
use unix_core::server::protocol::{self, ELSEWHERE, Request, WINDOW_BYTES, outcome};

impl Holds for Word<{ current::word::FILES }> {
    type Record = Lock<Client>;
}

/// The connection of the running process.
#[inline]
pub fn files() -> &'static Lock<Client> {
    record::<{ current::word::FILES }>()
}

/// The connection of one process.
#[derive(Debug)]
pub struct Client {
    server: EnvironmentId,
    window: Option<Mapping>,
    /// Another directory is the root: the catalogue is of no use.
    has_own_root: bool,
    /// Pages of files that are read again and again.
    views: Views,
    /// The process asked for locks on files, some of which go with any descriptor of theirs.
    has_locks: bool,
}

/// Where an operation on a path came out: done, or in a file system that this process makes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// Done by the server.
    Here(T),
    /// Beyond the node, with the rest of the path.
    LeavesFs(u64, Vec<u8>),
}

impl<T> Found<T> {
    /// The same with another result.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::Here(value) => Found::Here(change(value)),
            Self::LeavesFs(node, rest) => Found::LeavesFs(node, rest),
        }
    }

    /// Only what the server did; `error` for what lies elsewhere.
    pub fn here(self, error: Errno) -> Result<T> {
        match self {
            Self::Here(value) => Ok(value),
            Self::LeavesFs(..) => Err(error),
        }
    }
}

impl Client {
    /// A connection that attaches when it is first used.
    pub fn new(server: EnvironmentId) -> Self {
        let (has_own_root, has_locks, views) = (false, false, Views::default());
        Self { server: server, window: None, has_own_root, views, has_locks }
    }

    /// Forgets the window: the process is a new one that has another.
    pub fn begin_again(&mut self) {
        self.window = None;
        self.has_locks = false;
        self.views = Views::default();
    }

    fn on_path(&mut self, message: Message) -> Result<Found<Message>> {
        let answer = self.call(message)?;
        if answer[0] == ELSEWHERE {
            let rest = self.take(answer[2])?;
            return Ok(Found::LeavesFs(answer[1], rest));
        }
        outcome(answer[0])?;
        Ok(Found::Here(answer))
    }

    pub(crate) fn exchange(&self, message: Message) -> Result<Message> {
        let answer = self.call(message)?;
        outcome(answer[0])?;
        Ok(answer)
    }

    fn call(&self, message: Message) -> Result<Message> {
        call(self.server, message)
    }

    /// The window, opened when it is first needed.
    pub(crate) fn window(&mut self) -> Result<Mapping> {
        self.attached().cloned()
    }

    /// The same for who needs it only now.
    #[inline]
    fn attached(&mut self) -> Result<&Mapping> {
        if self.window.is_none() {
            self.attach()?;
        }
        self.window.as_ref().ok_or(Errno::EIO)
    }

    #[cold]
    fn attach(&mut self) -> Result<()> {
        let answer = self.exchange([Request::Attach as u64, 0, 0, 0, 0, 0])?;
        let pages = window_pages(&answer);
        let domain = domain();
        self.window = Some(domain.mappings.lock().open_own(pages, domain.session_key, true)?);
        Ok(())
    }

    fn put_path(&mut self, path: &[u8]) -> Result<u64> {
        self.put_two(path, b"")
    }

    fn put_two(&mut self, first: &[u8], second: &[u8]) -> Result<u64> {
        let window = self.attached()?;
        window.write(0, first)?;
        if !second.is_empty() {
            window.write(first.len() as u64, second)?;
        }
        Ok(protocol::pair(first.len(), second.len()))
    }

    pub(crate) fn take(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length.min(WINDOW_BYTES) as usize];
        self.window()?.read(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// How often pages may have left files. An answer tells pages of a file: they are the file's if this is the same before
/// the question and when they are mapped.
pub fn cuts() -> u64 {
    // What was mapped before is counted as mapped before the server looks what it may evict.
    fence(SeqCst);
    dcache::notice(protocol::CUTS).load(Acquire)
}

/// The pages of a window, as `Attach` tells them.
fn window_pages(answer: &Message) -> Vec<PageNumber> {
    let two = |word: &u64| [PageNumber(word & 0xffff_ffff), PageNumber(word >> 32)];
    answer[1..].iter().flat_map(two).take(protocol::WINDOW_PAGES).collect()
}

/// One control transfer and back; again, where what is asked for had to be read from a disk first.
fn call(server: EnvironmentId, message: Message) -> Result<Message> {
    loop {
        let answer = call_once(server, message)?;
        if answer[0] != protocol::NOT_YET {
            return Ok(answer);
        }
        let index = if answer[2] == 0 { protocol::DISK_DONE } else { protocol::NETWORK_DONE };
        wait_for_word(index, answer[1]);
    }
}

/// Waits for a write-back by its number; whether it was carried out and neither it nor a later one has failed.
fn wait_for_round(number: u64) -> bool {
    let (round, failed) = (dcache::notice(protocol::DISK_ROUND), dcache::notice(protocol::DISK_FAILED));
    wait_for(word(round, Operator::GreaterOrEqual, number));
    round.load(Acquire) >= number && failed.load(Acquire) < number
}

/// Waits until a word of the notice page is another one than was `seen`.
#[cold]
fn wait_for_word(index: usize, seen: u64) {
    wait_for(word(dcache::notice(index), Operator::NotEqual, seen));
}

/// Waits for a keeper. One that died says nothing: the server is asked again.
fn wait_for(term: Term) {
    const AGAIN: u64 = 1_000_000_000;
    wait_plainly(&mut [term, clock(runtime::clock::now() + AGAIN)]);
}

fn call_once(server: EnvironmentId, mut message: Message) -> Result<Message> {
    if let Some(thread) = thread_context_if_any() {
        thread.cpu_time.count_transfer();
    }
    loop {
        match cpu_entry::keep_segment_base(|| transfer::call(Kind::Asynchronous, server, &mut message)) {
            Ok(()) => return Ok(message),
            Err(Failure { error: Error::Busy, .. }) => give_way(server),
            Err(_) => return Err(Errno::EIO),
        }
    }
}

/// The server is busy with another client. It gets the rest of this slice, or, where it runs on another CPU, a while
/// without more calls into the kernel.
fn give_way(server: EnvironmentId) {
    const LOOKS: usize = 20_000;
    if time_slice::yield_to(server).is_ok() {
        return;
    }
    for _ in 0..LOOKS {
        if !exposed::runs(server) {
            return;
        }
        // The caller may be in a critical section, which defers the end of the slice.
        critical_section::give_way();
        core::hint::spin_loop();
    }
}
