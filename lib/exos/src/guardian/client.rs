//! A process's side of the file system: one function for each operation, paths and bytes through the window.

use super::handle::{Handle, is_first_mount, node_of, right};
use super::idle::Idle;
use super::newborn::Newborns;
use super::protocol::{self, AttributeRequest, ELSEWHERE, LockRequest, Operation, Statement, WINDOW_BYTES, outcome};
use super::views::Views;
use crate::descriptor::socket::Kind as SocketKind;
use crate::errno::{Errno, Result};
use crate::file_system::catalogue::{self, Catalogue};
use crate::file_system::mount_table::FIRST;
use crate::file_system::node::{Owned, Status};
use crate::file_system::tree::ROOT;
use crate::loader::enter;
use crate::process::peer::Peer;
use crate::signal::frame::Information;
use crate::user_memory::current::process;
use crate::user_memory::shared::Shared;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU64};
use linux_raw_sys::general as linux;
use runtime::transfer::{self, Kind, Message};
use runtime::{EnvironmentId, Error, Failure, PageNumber, exposed, time_slice};

/// The connection of one process.
#[derive(Debug)]
pub struct Client {
    guardian: EnvironmentId,
    window: Option<Shared>,
    /// The guardian's page that tells of changes.
    notice: Option<Shared>,
    /// What it shows of names and nodes, once paths were looked up often enough.
    pub(super) catalogue: Option<Shared>,
    /// Paths that were looked up.
    looked_up: u32,
    /// Another directory is the root: the catalogue is of no use.
    pub(super) has_own_root: bool,
    /// Pages of files that are read again and again.
    pub(super) views: Views,
    /// The process asked for locks on files, some of which go with any descriptor of theirs.
    has_locks: bool,
    /// The guardian may not have heard of this process, or of one that it has made.
    may_have_newborns: AtomicBool,
}

/// What became of a node that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// It is kept, or somebody else has let go of it.
    Yes,
    /// It is to be let go.
    No,
    /// The same, because other nodes are kept in its place.
    NoRoom,
}

/// Where an operation on a path came out: done, or in a file system that this process makes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// Done by the guardian.
    Here(T),
    /// Beyond the node, with the rest of the path.
    Elsewhere(u64, Vec<u8>),
}

impl<T> Found<T> {
    /// The same with another result.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::Here(value) => Found::Here(change(value)),
            Self::Elsewhere(node, rest) => Found::Elsewhere(node, rest),
        }
    }

    /// Only what the guardian did; `error` for what lies elsewhere.
    pub fn here(self, error: Errno) -> Result<T> {
        match self {
            Self::Here(value) => Ok(value),
            Self::Elsewhere(..) => Err(error),
        }
    }
}

/// A node that was opened, and is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub node: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Opening cut it, and others may still map bytes that went.
    pub left_mapped: bool,
}

/// A program that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedProgram {
    /// Its node, held.
    pub opened: Opened,
    /// What it begins with.
    pub head: Vec<u8>,
    /// Its absolute path; empty where that is not known.
    pub path: Vec<u8>,
    /// The pages that programs touch of it and that are in memory.
    pub touched: Touched,
}

/// The pages that programs touch of a file and that are in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// In ascending order: index and number.
    pub pages: Vec<(u64, u64)>,
    /// The guardian's count of cuts before it told them: as long as it is the same they are the file's.
    cuts: u64,
}

impl Client {
    /// A connection that attaches when it is first used.
    pub fn new(guardian: EnvironmentId) -> Self {
        let (has_own_root, has_locks, views) = (false, false, Views::default());
        let may_have_newborns = AtomicBool::new(false);
        let (window, notice, catalogue) = (None, None, None);
        Self { guardian, window, notice, catalogue, looked_up: 0, has_own_root, views, has_locks, may_have_newborns }
    }

    /// Forgets the window: the process is a new one that has another.
    pub fn begin_again(&mut self) {
        self.window = None;
        self.catalogue = None;
        self.looked_up = 0;
        self.has_locks = false;
        // It may be one.
        self.may_have_newborns = AtomicBool::new(true);
        self.views = Views::default();
    }

    /// Where the windows lie that a child does not keep.
    pub fn window_addresses(&self) -> impl Iterator<Item = u64> {
        self.window.iter().chain(&self.catalogue).chain(self.views.windows()).map(Shared::address)
    }

    /// What a path leads to, where the guardian shows all of the way: nobody is asked.
    #[inline(always)]
    pub fn find(&mut self, at: u64, path: &[u8], follow: bool) -> Option<Result<Status>> {
        if !is_first_mount(at) {
            return None;
        }
        Catalogue::new(self.catalogue()?.words()).find(node_of(at), path, follow)
    }

    /// The same, but no more than whose it is.
    #[inline(always)]
    pub fn find_owned(&mut self, at: u64, path: &[u8], follow: bool) -> Option<Result<Owned>> {
        if !is_first_mount(at) {
            return None;
        }
        Catalogue::new(self.catalogue()?.words()).find_owned(node_of(at), path, follow)
    }

    /// Where a symbolic link leads that [`Self::find`] told of: bytes, and how many.
    pub fn target(&self, shown: &Status) -> Option<([u8; catalogue::TARGET_BYTES], usize)> {
        Catalogue::new(self.catalogue.as_ref()?.words()).target(shown.node)
    }

    /// Opens a node that [`Self::find`] told of, if this process holds it without need: nobody is asked.
    /// With the rights that it is opened for, no more and no less. The result is the handle.
    #[inline]
    pub fn reopen(&mut self, shown: u64, rights: u8) -> Option<u64> {
        let idle = self.idle()?;
        let node = idle.find(shown)?;
        let has = Handle::from_word(node).rights & (right::READ | right::WRITE | right::UNNOTED);
        (has == rights && idle.take(node)).then_some(node)
    }

    /// Whether anybody watches files: the guardian is told of everything then.
    pub(super) fn has_watchers(&self) -> bool {
        self.notice.as_ref().is_some_and(|notice| notice.first_page()[protocol::WATCHERS].load(Acquire) != 0)
    }

    #[inline]
    fn idle(&self) -> Option<Idle<'static>> {
        if self.has_watchers() {
            return None;
        }
        let words = self.window.as_ref()?.words();
        if self.has_newborns() { None } else { Some(protocol::idle_in(words)) }
    }

    /// The catalogue: a program that looks up a few paths only does without.
    #[inline]
    fn catalogue(&mut self) -> Option<&Shared> {
        if self.has_own_root {
            return None;
        }
        if self.catalogue.is_none() {
            self.open_catalogue()?;
        }
        self.catalogue.as_ref()
    }

    #[cold]
    fn open_catalogue(&mut self) -> Option<()> {
        const FEW: u32 = 4;
        self.looked_up += 1;
        if self.looked_up < FEW {
            return None;
        }
        let pages = &self.notice.as_ref()?.words()[protocol::CATALOGUE_PAGES..];
        let pages = pages[..catalogue::PAGES].iter().map(|page| PageNumber(page.load(Acquire))).collect();
        let process = process();
        self.catalogue = process.windows.lock().open(pages, process.session_key, false).ok();
        Some(())
    }

    /// Makes a new environment a client, as soon as anybody has to know of it.
    pub fn adopt_in_time(&self, newborn: EnvironmentId) -> Result<()> {
        if self.newborns().is_some_and(|newborns| newborns.note(newborn.0)) {
            self.may_have_newborns.store(true, Relaxed);
            return Ok(());
        }
        self.adopt(newborn)
    }

    /// Whether there is one that holds what this process does, the guardian has to hear of it before that changes, or this process
    /// is one.
    #[inline]
    fn has_newborns(&self) -> bool {
        self.may_have_newborns.load(Relaxed) && self.still_has_newborns()
    }

    #[cold]
    fn still_has_newborns(&self) -> bool {
        let any = self.newborns().is_some_and(Newborns::any);
        self.may_have_newborns.store(any, Relaxed);
        any || self.window.is_none()
    }

    /// They hold from now on by themselves what this process holds, which ends.
    pub fn make_newborns_known(&self) {
        if self.has_newborns() {
            self.bury_the_dead();
        }
    }

    /// A child is gone.
    pub fn forget_newborn(&self, newborn: EnvironmentId) {
        self.newborns().into_iter().for_each(|newborns| newborns.forget(newborn.0));
    }

    fn newborns(&self) -> Option<Newborns<'static>> {
        Some(protocol::newborns_in(self.window.as_ref()?.words()))
    }

    /// Makes a new environment a client.
    pub fn adopt(&self, newborn: EnvironmentId) -> Result<()> {
        self.exchange([Operation::Adopt as u64, newborn.0, 0, 0, 0, 0]).map(|_| ())
    }

    /// The same, with a window of its own; the result is where this process has its own, and the new one's pages. Nothing where
    /// this process has none.
    pub fn adopt_with_window(&self, newborn: EnvironmentId) -> Result<Option<(u64, Vec<PageNumber>)>> {
        let Some(window) = &self.window else { return self.adopt(newborn).map(|()| None) };
        let answer = self.exchange([Operation::Adopt as u64, newborn.0, 1, 0, 0, 0])?;
        Ok(Some((window.address(), window_pages(&answer).1)))
    }

    /// Takes up the window that its maker had made for it.
    pub fn take_window(&mut self, window: Shared) {
        self.window = Some(window);
        self.may_have_newborns = AtomicBool::new(false);
    }

    /// Makes a new environment one that speaks for this process: a thread.
    pub fn join(&self, thread: EnvironmentId) -> Result<()> {
        self.exchange([Operation::Join as u64, thread.0, 0, 0, 0, 0]).map(|_| ())
    }

    /// Somebody has died: what it held is free.
    pub fn bury_the_dead(&self) {
        // A guardian that is gone holds nothing for anybody.
        let _ = self.exchange([Operation::BuryTheDead as u64, 0, 0, 0, 0, 0]);
    }

    /// Opens a path as `openat` does.
    pub fn open(&mut self, at: u64, path: &[u8], flags: u32, mode: u32) -> Result<Found<Opened>> {
        self.open_within(at, path, flags, mode, 0)
    }

    /// The same, where the path may not lead everywhere: flags `RESOLVE_…` of openat2(2).
    pub fn open_within(&mut self, at: u64, path: &[u8], flags: u32, mode: u32, resolve: u32) -> Result<Found<Opened>> {
        let length = self.put_path(path)?;
        let show = if self.catalogue.is_some() { protocol::SHOW } else { 0 };
        let [flags, mode, resolve] = [flags | show, mode, resolve].map(u64::from);
        let answer = self.on_path([Operation::Open as u64, at, flags, mode, length, resolve])?;
        Ok(answer.map(|[_, node, mode, device, size, left]| Opened {
            node,
            left_mapped: left != 0,
            mode: mode as u32,
            device: ((device >> 32) as u32, device as u32),
            size,
        }))
    }

    /// Opens a regular file that may be executed, with what it takes to begin it.
    pub fn open_program(&mut self, at: u64, path: &[u8], runs: bool) -> Result<Found<OpenedProgram>> {
        let length = self.put_path(path)?;
        let cuts = self.notice_word(protocol::CUTS)?.load(Acquire);
        let found = self.on_path([Operation::OpenProgram as u64, at, length, u64::from(runs), 0, 0])?;
        let window = self.window()?;
        let take = |from: u64, length: u64| {
            let mut bytes = vec![0; length.min(protocol::PROGRAM_PAGES) as usize];
            window.read(from, &mut bytes).map(|()| bytes)
        };
        Ok(match found {
            Found::Elsewhere(node, rest) => Found::Elsewhere(node, rest),
            Found::Here([_, node, mode, size, lengths, pages]) => Found::Here(OpenedProgram {
                opened: Opened { node, mode: mode as u32, device: (0, 0), size, left_mapped: false },
                head: take(0, lengths & 0xffff_ffff)?,
                path: take(protocol::PROGRAM_PATH, lengths >> 32)?,
                touched: Touched {
                    pages: numbered(&window.words()[protocol::PROGRAM_PAGES as usize / 8..], pages),
                    cuts,
                },
            }),
        })
    }

    /// The node of a directory to work in, held.
    pub fn enter(&mut self, at: u64, path: &[u8]) -> Result<Found<u64>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Operation::Enter as u64, at, length, 0, 0, 0])?.map(|answer| answer[1]))
    }

    /// Takes a directory as the root.
    pub fn change_root(&mut self, at: u64, path: &[u8]) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Operation::ChangeRoot as u64, at, length, 0, 0, 0])?;
        self.has_own_root |= matches!(found, Found::Here(_));
        Ok(found.map(|_| ()))
    }

    /// Learns whether this process began with another root than the first one, where what the guardian shows begins.
    pub fn learn_root(&mut self) {
        let root = self.status(ROOT, b"/", protocol::FOLLOW);
        let is_first = |status: &Status| status.node == ROOT && *status == status.through(FIRST);
        self.has_own_root = !matches!(root, Ok(Found::Here(status)) if is_first(&status));
    }

    /// What `stat` tells.
    pub fn status(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<Status>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Operation::Status as u64, at, flags, length, 0, 0])?;
        let mut bytes = [0; Status::WORDS * 8];
        if matches!(found, Found::Here(_)) {
            self.window()?.read(0, &mut bytes)?;
        }
        let mut words = [0; Status::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(core::array::from_fn(|index| bytes[index]));
        }
        Ok(found.map(|_| Status::from_words(words)))
    }

    /// What `stat` tells of a node that is held.
    pub fn status_of(&mut self, node: u64) -> Result<Status> {
        let shown = self
            .catalogue
            .as_ref()
            .filter(|_| !self.has_own_root && is_first_mount(node))
            .and_then(|shared| Catalogue::new(shared.words()).node(node_of(node)));
        shown.map_or_else(|| self.status(node, b"", protocol::EMPTY_PATH)?.here(Errno::EIO), Ok)
    }

    /// Reads into the program's memory, at most what the window holds; fewer bytes than asked for mean the end.
    pub fn read_to_program(&mut self, node: u64, offset: u64, to: u64, count: u64) -> Result<u64> {
        if let Some(outcome) = self.read_shown(node, offset, to, count) {
            return outcome;
        }
        self.attached()?;
        let [_, got, ..] = self.exchange([Operation::Read as u64, node, offset, count, 0, 0])?;
        let got = got.min(count);
        self.attached()?.give_to_program(0, to, got).map(|()| got)
    }

    /// Reads bytes for ExOS itself.
    pub fn read(&mut self, node: u64, offset: u64, count: usize) -> Result<Vec<u8>> {
        self.window()?;
        let mut bytes = vec![0; count];
        let mut done = 0;
        while done < count {
            let wanted = ((count - done) as u64).min(WINDOW_BYTES);
            let [_, got, ..] = self.exchange([Operation::Read as u64, node, offset + done as u64, wanted, 0, 0])?;
            let got = got.min(wanted) as usize;
            self.window()?.read(0, &mut bytes[done..done + got])?;
            done += got;
            if got == 0 {
                break;
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Writes from the program's memory, at most what the window holds; the result is how many bytes, and where the last one
    /// ended.
    pub fn write_from_program(&mut self, node: u64, offset: u64, from: u64, count: u64) -> Result<(u64, u64)> {
        self.attached()?.take_from_program(0, from, count)?;
        let [_, got, end, ..] = self.exchange([Operation::Write as u64, node, offset, count, 0, 0])?;
        Ok((got.min(count), end))
    }

    /// Writes bytes of ExOS itself.
    pub fn write(&mut self, node: u64, offset: u64, bytes: &[u8]) -> Result<(u64, u64)> {
        let (mut done, mut end) = (0, offset);
        for some in bytes.chunks(WINDOW_BYTES as usize) {
            self.window()?.write(0, some)?;
            let at = if offset == protocol::APPEND { offset } else { end };
            let [_, got, reached, ..] = self.exchange([Operation::Write as u64, node, at, some.len() as u64, 0, 0])?;
            (done, end) = (done + got, reached);
        }
        Ok((done, end))
    }

    /// Sets the size of a file.
    ///
    /// The result: others may still map bytes that went, and are to be told.
    pub fn truncate(&mut self, node: u64, size: u64) -> Result<bool> {
        self.exchange([Operation::Truncate as u64, node, size, 0, 0, 0]).map(|answer| answer[1] != 0)
    }

    /// Puts records of `getdents64` for what comes behind an entry into the program's memory: how many bytes, and the number
    /// of the last one.
    pub fn list(&mut self, node: u64, after: u64, to: u64, bytes: u64) -> Result<(u64, u64)> {
        self.window()?;
        let [_, length, last, ..] = self.exchange([Operation::List as u64, node, after, bytes, 0, 0])?;
        self.window()?.give_to_program(0, to, length.min(bytes))?;
        Ok((length.min(bytes), last))
    }

    /// The pages of a file for mapping from index `first` on, as far as they are in memory, else 0; the one at index
    /// `wanted` is brought, to be written by this process or not. False where that lies past the end.
    pub fn pages(&mut self, node: u64, wanted: u64, shared: bool, first: u64, numbers: &mut [u64]) -> Result<bool> {
        let message = [Operation::Pages as u64, node, first, numbers.len() as u64, wanted - first, u64::from(shared)];
        let [_, page, near @ ..] = self.exchange(message)?;
        protocol::near_pages(page, near, numbers);
        if page != 0 {
            numbers[(wanted - first) as usize] = page;
        }
        Ok(page != 0)
    }

    /// Of the pages of a file between two indices those that programs touch and that are in memory, in ascending order: index and
    /// number.
    pub fn working_set(&mut self, node: u64, first: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        let window = self.window()?;
        let [_, count, ..] = self.exchange([Operation::WorkingSet as u64, node, first, end, 0, 0])?;
        Ok(numbered(window.words(), count))
    }

    /// All pages of a file that programs touch; none where they cannot be told.
    pub fn touched(&mut self, node: u64) -> Touched {
        let cuts = self.notice_word(protocol::CUTS).map_or(0, |cuts| cuts.load(Acquire));
        Touched { pages: self.working_set(node, 0, u64::MAX).unwrap_or_default(), cuts }
    }

    /// Whether pages that were told are surely the file's still.
    pub fn are_current(&mut self, touched: &Touched) -> bool {
        self.notice_word(protocol::CUTS).is_ok_and(|cuts| cuts.load(Acquire) == touched.cuts)
    }

    /// Holds a node once more, or once less.
    pub fn hold(&mut self, node: u64, hold: bool) {
        let operation = if hold { Operation::Hold } else { Operation::Release };
        // A node that is not held any more needs no release.
        let _ = self.exchange([operation as u64, node, 0, 0, 0, 0]);
    }

    /// A descriptor of a node was closed; `last`: the last of its description; `locks`: that description, if locks end with
    /// it, or 0.
    pub fn close(&mut self, node: u64, last: bool, locks: u64) {
        let outcome = if locks == 0 && !self.has_locks { self.keep(node) } else { Kept::No };
        if outcome != Kept::Yes {
            let full = u64::from(outcome == Kept::NoRoom);
            let _ = self.exchange([Operation::Release as u64, node, 1 + u64::from(last), locks, full, 0]);
        }
    }

    /// A descriptor of a node was closed that is held for others.
    pub fn close_one(&mut self, node: u64) {
        if self.has_locks {
            self.hold(node, true);
            self.close(node, false, 0);
        }
    }

    /// Keeps what was closed, in case that it is opened again: only what everybody finds by a name, as the catalogue says.
    fn keep(&self, node: u64) -> Kept {
        let (Some(idle), Some(shown)) = (self.idle(), &self.catalogue) else { return Kept::No };
        if !is_first_mount(node) {
            return Kept::No;
        }
        match idle.put(node) {
            Err(there) if there == node => return Kept::No,
            Err(_) => return Kept::NoRoom,
            Ok(()) => {}
        }
        // Who removes the last name hides the node first, and then looks for those who hold it without need.
        let kind = Catalogue::new(shown.words()).kind(node_of(node)).filter(|_| !self.has_own_root);
        let is_shown = matches!(kind, Some(linux::S_IFREG | linux::S_IFDIR));
        if is_shown || !idle.take(node) { Kept::Yes } else { Kept::No }
    }

    /// Seals of a file, after some are added.
    pub fn seal(&self, node: u64, seals: Option<u64>) -> Result<u64> {
        Ok(self.exchange([Operation::Seal as u64, node, seals.unwrap_or(u64::MAX), 0, 0, 0])?[1])
    }

    /// A file without a name in the file system of a directory, held; it may get a name, and it may be sealed.
    pub fn make_unnamed(
        &mut self,
        at: u64,
        path: &[u8],
        mode: u32,
        [nameable, sealable]: [bool; 2],
    ) -> Result<Found<u64>> {
        let length = self.put_path(path)?;
        let manner = u64::from(nameable) | u64::from(sealable) << 1;
        let message = [Operation::Unnamed as u64, at, u64::from(mode), manner, length, 0];
        Ok(self.on_path(message)?.map(|answer| answer[1]))
    }

    /// Watches what a path leads to for an instance; the number of the watch.
    pub fn watch(&mut self, instance: u64, at: u64, path: &[u8], mask: u32) -> Result<Found<u64>> {
        let length = self.put_path(path)?;
        let message = [Operation::Watch as u64, at, u64::from(mask), instance, length, 0];
        Ok(self.on_path(message)?.map(|answer| answer[1]))
    }

    /// Where the next hole, or the next data, begins.
    pub fn seek(&self, node: u64, offset: u64, hole: bool) -> Result<u64> {
        Ok(self.exchange([Operation::Seek as u64, node, offset, u64::from(hole), 0, 0])?[1])
    }

    /// `fallocate`; the result is as that of [`Self::truncate`].
    pub fn allocate(&self, node: u64, mode: u32, offset: u64, length: u64) -> Result<bool> {
        let answer = self.exchange([Operation::Allocate as u64, node, u64::from(mode), offset, length, 0])?;
        Ok(answer[1] != 0)
    }

    /// The environments of other processes that hold a node.
    pub fn holders(&mut self, node: u64) -> Result<Vec<u64>> {
        self.window()?;
        let [bytes, ..] = self.on_object(Operation::Holders, [node, 0, 0, 0, 0])?;
        let told = self.left(bytes)?;
        Ok(told.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Asks for a lock on bytes `range.0` to `range.1`; what stands in the way is kind, first byte, last byte, process.
    pub fn lock(
        &mut self,
        node: u64,
        request: LockRequest,
        range: (u64, u64),
        description: u64,
    ) -> Result<Option<[u64; 4]>> {
        let message = [Operation::Lock as u64, node, request.to_word(), range.0, range.1, description];
        self.has_locks = true;
        let [_, in_the_way, rest @ ..] = self.exchange(message)?;
        Ok((in_the_way != 0).then_some(rest))
    }

    /// A node that is held is on its way to another client: its number there.
    pub fn offer(&self, node: u64) -> Result<u64> {
        Ok(self.exchange([Operation::Offer as u64, node, 0, 0, 0, 0])?[1])
    }

    /// Holds a node that was on its way.
    pub fn accept_offer(&self, number: u64) -> Result<u64> {
        Ok(self.exchange([Operation::AcceptOffer as u64, number, 0, 0, 0, 0])?[1])
    }

    /// Has the guardian vouch for something; `words` are those of a claim or a connection. The number that tells of it.
    pub fn vouch(&self, what: Statement, words: [u64; 2]) -> Result<u64> {
        Ok(self.exchange([Operation::Vouch as u64, what as u64, words[0], words[1], 0, 0])?[1])
    }

    /// Who the guardian vouched for by a number that came from somebody.
    pub fn redeem(&self, number: u64, what: Statement, pages: [u64; 2]) -> Result<Peer> {
        let answer = self.exchange([Operation::Redeem as u64, number, what as u64, pages[0], pages[1], 0])?;
        Ok(Peer::from_words([answer[1], answer[2]]))
    }

    /// This process listens at the names that it gave to a page.
    pub fn listen(&self, page: PageNumber) -> Result<()> {
        self.exchange([Operation::Listen as u64, page.0, 0, 0, 0, 0]).map(|_| ())
    }

    /// Gives a socket a name that leads to a page.
    pub fn bind(&mut self, at: u64, path: &[u8], (mode, kind): (u32, SocketKind), page: PageNumber) -> Result<()> {
        let length = self.put_path(path)?;
        let mode_kind = u64::from(mode) | (kind as u64) << 32;
        self.on_path([Operation::Bind as u64, at, mode_kind, page.0, length, 0])?.here(Errno::EPERM).map(|_| ())
    }

    /// Gives a socket an abstract name that leads to a page, as long as somebody holds the node.
    pub fn bind_abstract(&mut self, name: &[u8], kind: SocketKind, page: PageNumber) -> Result<u64> {
        let length = self.put_path(&with_kind(kind, name))?;
        Ok(self.exchange([Operation::BindAbstract as u64, page.0, length, 0, 0, 0])?[1])
    }

    /// The page that an abstract name leads to, and who listens there.
    pub fn peer_abstract(&mut self, name: &[u8], kind: SocketKind) -> Result<(PageNumber, Peer)> {
        let length = self.put_path(&with_kind(kind, name))?;
        Ok(listener(self.exchange([Operation::PeerAbstract as u64, length, 0, 0, 0, 0])?))
    }

    /// The page that the name of a socket leads to, and who listens there; `EPROTOTYPE` where it is one of another kind.
    pub fn peer(&mut self, at: u64, path: &[u8], kind: SocketKind) -> Result<(PageNumber, Peer)> {
        let length = self.put_path(path)?;
        let answer = self.on_path([Operation::Peer as u64, at, length, 0, 0, 0])?.here(Errno::ECONNREFUSED)?;
        if answer[4] == kind as u64 { Ok(listener(answer)) } else { Err(Errno::EPROTOTYPE) }
    }

    /// The pages of the pipe of a FIFO that is held.
    pub fn fifo(&mut self, node: u64) -> Result<Vec<PageNumber>> {
        self.pages_of(Operation::Fifo, node)
    }

    fn pages_of(&mut self, operation: Operation, node: u64) -> Result<Vec<PageNumber>> {
        let window = self.window()?;
        let [_, count, ..] = self.exchange([operation as u64, node, 0, 0, 0, 0])?;
        let words = window.words().iter().take(count as usize);
        Ok(words.map(|word| PageNumber(word.load(Relaxed))).collect())
    }

    /// A fresh pseudo-terminal: nodes of master, which is held, and slave, and the number in the slave's name.
    pub fn make_terminal(&mut self) -> Result<[u64; 3]> {
        self.window()?;
        let [_, master, slave, number, ..] = self.exchange([Operation::MakeTerminal as u64, 0, 0, 0, 0, 0])?;
        Ok([master, slave, number])
    }

    /// The pages of a pseudo-terminal of which one side is held, those of its ring last.
    pub fn terminal(&mut self, node: u64) -> Result<Vec<PageNumber>> {
        self.pages_of(Operation::Terminal, node)
    }

    /// A word of the guardian's notice page.
    pub(super) fn notice_word(&mut self, index: usize) -> Result<&'static AtomicU64> {
        self.window()?;
        Ok(&self.notice.as_ref().ok_or(Errno::EIO)?.words()[index])
    }

    /// Makes a node of any type but a symbolic link.
    pub fn make(&mut self, at: u64, path: &[u8], mode: u32, device: (u32, u32)) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        let device = u64::from(device.1) | u64::from(device.0) << 32;
        Ok(self.on_path([Operation::Make as u64, at, u64::from(mode), device, length, 0])?.map(|_| ()))
    }

    /// Removes a name.
    pub fn remove(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Operation::Remove as u64, at, flags, length, 0, 0])?.map(|_| ()))
    }

    /// Renames.
    pub fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Result<()> {
        let lengths = self.put_two(from.1, to.1)?;
        let message = [Operation::Rename as u64, from.0, to.0, lengths, u64::from(flags), 0];
        self.on_path(message)?.here(Errno::EXDEV).map(|_| ())
    }

    /// Makes one more name for a node.
    pub fn link(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u64) -> Result<Found<()>> {
        let lengths = self.put_two(from.1, to.1)?;
        Ok(self.on_path([Operation::Link as u64, from.0, to.0, lengths, flags, 0])?.map(|_| ()))
    }

    /// Makes a symbolic link.
    pub fn symbolic_link(&mut self, target: &[u8], at: u64, path: &[u8]) -> Result<Found<()>> {
        let lengths = self.put_two(target, path)?;
        Ok(self.on_path([Operation::SymbolicLink as u64, at, lengths, 0, 0, 0])?.map(|_| ()))
    }

    /// Where a symbolic link leads.
    pub fn read_link(&mut self, at: u64, path: &[u8]) -> Result<Found<Vec<u8>>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Operation::ReadLink as u64, at, length, 0, 0, 0])?;
        let target = match found {
            Found::Here([_, length, ..]) => self.take(length)?,
            Found::Elsewhere(..) => Vec::new(),
        };
        Ok(found.map(|_| target))
    }

    /// Whether something may be done.
    pub fn access(&mut self, at: u64, path: &[u8], wanted: u64, flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Operation::Access as u64, at, wanted, flags, length, 0])?.map(|_| ()))
    }

    /// One of the operations that set attributes: `SetMode`, `SetOwner` with one word, `SetTimes` with two.
    pub fn set(&mut self, operation: Operation, at: u64, path: &[u8], words: &[u64], flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        let message = match words {
            [first, second] => [operation as u64, at, *first, *second, flags, length],
            _ => [operation as u64, at, words[0], flags, length, 0],
        };
        Ok(self.on_path(message)?.map(|_| ()))
    }

    /// Asks for an extended attribute, or changes it: the value, or all names.
    pub fn attribute(
        &mut self,
        (at, path): (u64, &[u8]),
        flags: u64,
        (request, set_flags): (AttributeRequest, u32),
        (name, value): (&[u8], &[u8]),
    ) -> Result<Found<Vec<u8>>> {
        let lengths = self.put_two(path, name)?;
        self.window()?.write((path.len() + name.len()) as u64, value)?;
        let request = protocol::pair(request as usize, set_flags as usize);
        let found = self.on_path([Operation::Attribute as u64, at, flags, lengths, request, value.len() as u64])?;
        match found {
            Found::Here([_, length, ..]) => self.take(length).map(Found::Here),
            Found::Elsewhere(node, rest) => Ok(Found::Elsewhere(node, rest)),
        }
    }

    /// The absolute path of a node.
    pub fn path_of(&mut self, node: u64) -> Result<Vec<u8>> {
        self.window()?;
        let [_, length, ..] = self.exchange([Operation::PathOf as u64, node, 0, 0, 0, 0])?;
        self.take(length)
    }

    /// What `statfs` tells: pages in all, pages free, nodes, and the kind of file system with the flags of the mount.
    pub fn space(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<[u64; 4]>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Operation::Space as u64, at, flags, length, 0, 0])?;
        Ok(found.map(|[_, all, free, nodes, kind, _]| [all, free, nodes, kind]))
    }

    /// `mount`: target, source, kind and options; the first two begin at nodes.
    pub fn mount(&mut self, at: [u64; 2], texts: [&[u8]; 4], flags: u64) -> Result<Found<()>> {
        let all = texts.concat();
        if all.len() as u64 > WINDOW_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.window()?.write(0, &all)?;
        let lengths = texts.iter().rev().fold(0, |word, text| word << 16 | text.len() as u64);
        Ok(self.on_path([Operation::Mount as u64, at[0], at[1], lengths, flags, 0])?.map(|_| ()))
    }

    /// `umount2`.
    pub fn unmount(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Operation::Unmount as u64, at, flags, length, 0, 0])?.map(|_| ()))
    }

    /// `pivot_root`.
    pub fn pivot_root(&mut self, new: (u64, &[u8]), put_old: (u64, &[u8])) -> Result<()> {
        let lengths = self.put_two(new.1, put_old.1)?;
        self.exchange([Operation::PivotRoot as u64, new.0, put_old.0, lengths, 0, 0]).map(|_| ())
    }

    /// The text of `/proc/self/mountinfo`.
    pub fn mounts(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut lines = 0;
        self.window()?;
        loop {
            let [_, length, more, ..] = self.exchange([Operation::Mounts as u64, lines, 0, 0, 0, 0])?;
            text.extend(self.take(length)?);
            lines += more;
            if more == 0 {
                return Ok(text);
            }
        }
    }

    fn on_path(&mut self, message: Message) -> Result<Found<Message>> {
        let answer = self.call(message)?;
        if answer[0] == ELSEWHERE {
            let rest = self.take(answer[2])?;
            return Ok(Found::Elsewhere(answer[1], rest));
        }
        outcome(answer[0])?;
        Ok(Found::Here(answer))
    }

    pub(super) fn exchange(&self, message: Message) -> Result<Message> {
        let answer = self.call(message)?;
        outcome(answer[0])?;
        Ok(answer)
    }

    fn call(&self, mut message: Message) -> Result<Message> {
        if self.has_newborns() {
            message[0] |= protocol::NEWBORNS;
        }
        call(self.guardian, message)
    }

    /// The window, opened when it is first needed.
    pub(super) fn window(&mut self) -> Result<Shared> {
        self.attached().cloned()
    }

    /// The same for who needs it only now.
    #[inline]
    fn attached(&mut self) -> Result<&Shared> {
        if self.window.is_none() {
            self.attach()?;
        }
        self.window.as_ref().ok_or(Errno::EIO)
    }

    #[cold]
    fn attach(&mut self) -> Result<()> {
        let answer = self.exchange([Operation::Attach as u64, 0, 0, 0, 0, 0])?;
        let (notice, pages) = window_pages(&answer);
        let process = process();
        self.window = Some(process.windows.lock().open(pages, process.session_key, true)?);
        if self.notice.is_none() {
            self.notice = Some(process.windows.lock().open(vec![notice], process.session_key, false)?);
        }
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

    pub(super) fn take(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length.min(WINDOW_BYTES) as usize];
        self.window()?.read(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// An abstract name as the guardian knows it: those of different kinds of sockets are different names.
fn with_kind(kind: SocketKind, name: &[u8]) -> Vec<u8> {
    [&[kind as u8], name].concat()
}

/// The page that tells of changes, and those of a window, as `Attach` tells them.
fn window_pages(answer: &Message) -> (PageNumber, Vec<PageNumber>) {
    let two = |word: &u64| [PageNumber(word & 0xffff_ffff), PageNumber(word >> 32)];
    let [notice, last] = two(&answer[5]);
    (notice, answer[1..5].iter().flat_map(two).chain([last]).collect())
}

/// Pages of a file by index and number, as the guardian tells them.
fn numbered(words: &[AtomicU64], count: u64) -> Vec<(u64, u64)> {
    let words = words.iter().take(count as usize).map(|word| word.load(Relaxed));
    words.map(|word| (word & 0xffff_ffff, word >> 32)).collect()
}

/// A page, and who listens there.
fn listener([_, page, client, numbers, ..]: Message) -> (PageNumber, Peer) {
    let process = crate::relatives::sight().succession.process(client);
    (PageNumber(page), Peer::from_words([process, numbers]))
}

/// One control transfer and back.
fn call(guardian: EnvironmentId, mut message: Message) -> Result<Message> {
    loop {
        match enter::keep_segment_base(|| transfer::call(Kind::Asynchronous, guardian, &mut message)) {
            Ok(()) => return Ok(message),
            Err(Failure { error: Error::Busy, .. }) => give_way(guardian),
            Err(_) => return Err(Errno::EIO),
        }
    }
}

/// The guardian works for somebody else: it gets the rest of this slice, or, where it runs on another CPU, a while
/// without more calls into the kernel.
fn give_way(guardian: EnvironmentId) {
    const LOOKS: usize = 20_000;
    if time_slice::yield_to(guardian).is_ok() {
        return;
    }
    for _ in 0..LOOKS {
        if !exposed::runs(guardian) {
            return;
        }
        core::hint::spin_loop();
    }
}

/// What needs no window, and no lock: who asks may hold the connection already.
fn ask(guardian: EnvironmentId, message: Message) -> Result<Message> {
    let answer = call(guardian, message)?;
    outcome(answer[0])?;
    Ok(answer)
}

/// Lists for a user that this process is going to be: for what it shared, of which what is under a list may go under another
/// one than the rest, and for what anybody may read of it.
pub fn admit(guardian: EnvironmentId, principal: u64, under: PageNumber) -> Result<[PageNumber; 2]> {
    let [_, shared, public, ..] = ask(guardian, [Operation::Admit as u64, principal, under.0, 0, 0, 0])?;
    Ok([PageNumber(shared), PageNumber(public)])
}

/// Moves budget that nobody uses to this environment, or to one that it made.
pub fn draw(guardian: EnvironmentId, to: EnvironmentId, resource: u64, amount: u64) -> Result<()> {
    ask(guardian, [Operation::Draw as u64, to.0, resource, amount, 0, 0]).map(|_| ())
}

/// Sends a signal to a process, if the guardian finds that this process may.
pub fn signal(guardian: EnvironmentId, process: u64, information: &Information) -> Result<()> {
    let [signal, code] = [information.signal, information.code as u32].map(u64::from);
    ask(guardian, [Operation::Signal as u64, process, signal, code, information.value, 0]).map(|_| ())
}

/// Tells the parent that something happened to this process.
pub fn tell_parent(guardian: EnvironmentId, information: &Information) -> Result<()> {
    let [signal, code] = [information.signal, information.code as u32].map(u64::from);
    ask(guardian, [Operation::TellParent as u64, signal, code, information.value, 0, 0]).map(|_| ())
}
