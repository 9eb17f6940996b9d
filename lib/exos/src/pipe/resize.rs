//! Pipes that hold more than the pages they began with: sockets that are full take more, and who asks for it
//! (`F_SETPIPE_SZ`).
//!
//! A word of the first page names one more, the *list*, which names the pages that came later. They are charged to the
//! process that had the pipe grow, and go with it when it ends, where no process maps them. So every holder of the read
//! end is asked to open them first, and only then bytes lie there. Where one does not answer, the pipe stays as it was.
//!
//! Invariant: the list only gets longer, and its pages stay in their places, as long as the shape of the ring counts on
//! them. The shape changes under the lock, together with the places of the bytes that wait.

use super::pipe_end::{GROWN_BY, Pipe, SHAPE, are_under_list_of};
use crate::descriptor::exported_pages;
use crate::hw::current::is_adopted;
use crate::hw::domain::domain;
use crate::hw::mapping::{Mapping, Mappings};
use crate::signal::remote_call;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use runtime::exposed::PageStamp;
use runtime::page::Allocator;
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed};
use unix_core::pipe::ring::{ATOMIC, CAPACITY, MOST, Ring};
use unix_core::process::remote_request;

/// Bytes that a socket holds at most: what one takes on Linux, and room for headers.
const SOCKET: u64 = 4 * CAPACITY;
/// How often growing may fail: a process that must be asked may be out of reach for good.
const ATTEMPTS: u64 = 4;
/// Word that counts them.
const FAILED: usize = 40;

impl Pipe {
    /// Lets it hold as many bytes as asked for, rounded up as on Linux, at most [`MOST`]: how many that are.
    pub fn set_size(&self, wanted: u64) -> Result<u64> {
        let size = wanted.max(ATOMIC).next_power_of_two();
        if size > MOST {
            return Err(Errno::EPERM);
        }
        self.grow(size)?;
        let _held = self.lock();
        let ring = self.ring();
        if ring.waiting()? > size || self.packets_waiting(ring) > size / ATOMIC {
            return Err(Errno::EBUSY);
        }
        self.word(SHAPE).store(ring.shape_of(size), SeqCst);
        self.wake_writer();
        Ok(size)
    }

    /// Has a socket that is full hold as much as one may; whether it does, and did not.
    pub fn grow_as_socket(&self) -> bool {
        let failed = self.word(FAILED);
        if self.ring().capacity() >= SOCKET || failed.load(Acquire) >= ATTEMPTS {
            return false;
        }
        let has_grown = self.grow(SOCKET).is_ok();
        if !has_grown {
            failed.fetch_add(1, SeqCst);
        }
        has_grown
    }

    /// Finds a place for `size` bytes.
    pub(super) fn grow(&self, size: u64) -> Result<()> {
        let before = self.ring();
        if size <= before.capacity() {
            return Ok(());
        }
        let size = size.min(MOST).next_power_of_two();
        let count = pages_beyond(size);
        let promised = self.promise(before, count)?;
        let outcome = self.have_readers_open().and_then(|()| self.move_into(before, size));
        if outcome.is_err() {
            self.reclaim(before, &promised);
        }
        outcome
    }

    /// Puts as many pages on the list as it lacks: those.
    fn promise(&self, before: Ring, count: usize) -> Result<Vec<PageNumber>> {
        let has = self.listed().len();
        let is_first = self.list() == PageStamp::NONE;
        let mut fresh = vec![PageNumber::NONE; count.saturating_sub(has) + usize::from(is_first)];
        let list = exposed::page(self.pages()[0]).map_or(runtime::area::access_list(), |info| info.access());
        let from = Allocator { key: domain().session_key, list };
        crate::budget::reserve(fresh.len() as u64 + 8);
        from.allocate_many(&mut fresh)?;
        let held = self.lock();
        let is_as_it_was = self.ring().shape == before.shape
            && self.listed().len() == has
            && is_first == (self.list() == PageStamp::NONE);
        let outcome = if is_as_it_was { self.put_on_list(&fresh, is_first, has) } else { Err(Errno::EAGAIN) };
        drop(held);
        if outcome.is_err() {
            exported_pages::lend(&fresh);
        }
        outcome.map(|()| fresh)
    }

    fn put_on_list(&self, fresh: &[PageNumber], is_first: bool, has: usize) -> Result<()> {
        let list = if is_first { fresh[0] } else { self.list().page() };
        let added = &fresh[usize::from(is_first)..];
        let pages = [&[list], self.listed().as_slice(), added].concat();
        let pages: Vec<PageStamp> = pages.into_iter().map(PageStamp::of).collect();
        let window = domain().mappings.lock().extend(self.window(), &pages, domain().session_key)?;
        for (page, word) in pages[1 + has..].iter().zip(&window.words()[1 + has..]) {
            word.store(page.0, Release);
        }
        window.words()[0].store((has + added.len()) as u64, Release);
        self.word(GROWN_BY).store(PageStamp::of(list).0, SeqCst);
        Ok(())
    }

    /// Takes pages from the end of the list again, where nothing counts on them yet and no process has put others
    /// behind them.
    fn reclaim(&self, before: Ring, promised: &[PageNumber]) {
        let _held = self.lock();
        let listed = self.listed();
        let Some(first) = promised.first() else { return };
        let is_list = self.list().page() == *first;
        let added = &promised[usize::from(is_list)..];
        if self.ring().capacity() != before.capacity() || !listed.ends_with(added) {
            return;
        }
        match self.beyond() {
            _ if is_list => self.word(GROWN_BY).store(0, SeqCst),
            Ok(window) => window.words()[0].store((listed.len() - added.len()) as u64, Release),
            Err(_) => return,
        }
        exported_pages::lend(promised);
    }

    /// Has everybody who may read open what is on the list.
    fn have_readers_open(&self) -> Result<()> {
        let first = self.pages()[0];
        open_all(first)?;
        let path = remote_request::grown_to_path(first.0);
        for reader in self.readers().ok_or(Errno::EAGAIN)? {
            let lives = || exposed::lives(EnvironmentId(reader));
            if reader != domain().environment() && lives() {
                remote_call::request(reader, &path)
                    .map(|_| ())
                    .or_else(|error| if lives() { Err(error) } else { Ok(()) })?;
            }
        }
        Ok(())
    }

    /// Takes the pages on the list into use: the bytes that wait move to where they lie in a ring of this size.
    fn move_into(&self, before: Ring, size: u64) -> Result<()> {
        let _held = self.lock();
        let ring = self.ring();
        if ring.shape != before.shape || self.listed().len() < pages_beyond(size) {
            return if ring.capacity() >= size { Ok(()) } else { Err(Errno::EAGAIN) };
        }
        let mut waiting = vec![0; ring.waiting()? as usize];
        self.copy_out(ring.read, &mut waiting)?;
        self.word(SHAPE).store(ring.shape_of(size), SeqCst);
        self.copy_in(ring.read, &waiting)
    }

    /// The pages that are on the list.
    fn listed(&self) -> Vec<PageNumber> {
        self.beyond().map_or(Vec::new(), |window| window.pages()[1..].to_vec())
    }

    /// All its pages, as far as they are open here.
    pub fn all_pages(&self) -> Vec<PageNumber> {
        let beyond = domain().mappings.lock().beyond(self.window()).map(|window| window.pages().to_vec());
        [self.pages().to_vec(), beyond.unwrap_or_default()].concat()
    }

    /// The window onto the list, and behind it what is on it.
    #[cold]
    pub(super) fn beyond(&self) -> Result<Mapping> {
        // The session's own pipes do not grow, whatever those who share them write.
        if !is_adopted() {
            return Err(Errno::EIO);
        }
        let mut windows = domain().mappings.lock();
        let opened = self.open_beyond(&mut windows, domain().session_key);
        opened.or_else(|_| self.open_beyond(&mut windows, domain().opening_key()))?.ok_or(Errno::EIO)
    }

    /// Opens that window, unless it is open; none where there is no list.
    pub(super) fn open_beyond(&self, windows: &mut Mappings, key: KeyIndex) -> Result<Option<Mapping>> {
        let list = self.list();
        if list == PageStamp::NONE {
            return Ok(None);
        }
        let count_in = |window: &Mapping| (window.words()[0].load(Acquire) as usize).min(pages_beyond(MOST));
        if let Some(open) = windows.beyond(self.window())
            && open.pages()[0] == list.page()
            && open.pages().len() == 1 + count_in(open)
        {
            return Ok(Some(open.clone()));
        }
        let is_fit = |pages: &[PageNumber]| are_under_list_of(self.pages()[0], pages);
        if !is_fit(&[list.page()]) {
            return Err(Errno::EIO);
        }
        let head = windows.open_noted(&[list], key, true)?;
        let listed = head.words()[1..=count_in(&head)].iter().map(|word| PageStamp(word.load(Acquire)));
        let pages: Vec<PageStamp> = core::iter::once(list).chain(listed).collect();
        windows.close(&head);
        if !is_fit(&pages.iter().map(|page| page.page()).collect::<Vec<_>>()) {
            return Err(Errno::EIO);
        }
        windows.extend(self.window(), &pages, key).map(Some)
    }

    /// The page that names those which it has grown by.
    fn list(&self) -> PageStamp {
        PageStamp(self.word(GROWN_BY).load(Acquire))
    }
}

/// Pages of a ring of this size beyond those that every pipe begins with.
const fn pages_beyond(size: u64) -> usize {
    ((size - CAPACITY) / PAGE_SIZE) as usize
}

/// Opens what a pipe has grown by wherever this process sees it.
fn open_all(first: PageNumber) -> Result<()> {
    let mut windows = domain().mappings.lock();
    let seen: Vec<Mapping> = windows.common().filter(|window| window.pages()[0] == first).cloned().collect();
    for shared in seen.into_iter().filter(|shared| shared.pages().len() == super::PAGES) {
        Pipe::seen_through(shared).open_beyond(&mut windows, domain().session_key)?;
    }
    Ok(())
}

/// What another process asks, who is about to use what a pipe has grown by.
pub(crate) fn answer_grown(path: &str) -> Result<Vec<u8>> {
    let first = remote_request::grown_from_path(path).ok_or(Errno::EINVAL)?;
    open_all(PageNumber(first)).map(|()| Vec::new())
}
