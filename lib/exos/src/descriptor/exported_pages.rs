//! Exported pages: pages of closed pipes and sockets that their maker has no use for any more. Others still map them,
//! or they are in flight in a message.
//!
//! No process ever writes most pages of a pipe: such pages serve the next pipe. Invariant: a spare page is charged to
//! the process itself, no process maps it, and none has written it since the kernel filled it with zeros. None is going
//! to map it by a number that it noted before, for the first page of its window is gone, by which others find it.

use super::shared_record::Reference;
use crate::hw::current::{Holds, Word, record, word};
use crate::hw::domain::domain;
use crate::hw::mapping::{Mapping, Mappings};
use crate::server::client::HandedOffPage;
use abi::page::DIRTY;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::exposed::{self, PageStamp};
use runtime::lock::{Guard, Lock};
use runtime::page::Allocator;
use runtime::{EnvironmentId, PageNumber, area};

/// Pages that are looked at for each call that might find some free: where there are more, not every call looks. A
/// process that has passed thousands of sockets to others keeps closing some.
const AT_ONCE: usize = 64;
/// Spare pages at most: those of a pipe each way.
const SPARE: usize = 32;

/// A page that is out of use.
#[derive(Clone, Copy, Debug)]
pub struct Unused {
    page: PageNumber,
    /// The first page of its window, as it was.
    first: PageStamp,
}

/// The pages.
#[derive(Clone, Debug, Default)]
pub struct ExportedPages {
    /// Each as it was, and the first page of its window.
    pages: BTreeMap<PageNumber, [PageStamp; 2]>,
    /// Open files that were sent in messages, by their numbers, with their pages: in flight no process maps them.
    sent: BTreeMap<u64, (Reference, Vec<PageNumber>)>,
    /// How many of those each page belongs to.
    on_their_way: BTreeMap<PageNumber, u32>,
    /// Calls since all were looked at.
    calls: usize,
    /// Pages that the next pipe can be made of.
    spare: Vec<PageNumber>,
}

impl Holds for Word<{ word::EXPORTED }> {
    type Record = Lock<ExportedPages>;
}

/// The exported pages of the running process.
#[inline]
pub fn exported() -> &'static Lock<ExportedPages> {
    record::<{ word::EXPORTED }>()
}

impl ExportedPages {
    /// Adds those of some pages that are this process's and that others have. The result is the pages that no other
    /// process has.
    pub fn add(&mut self, pages: impl Iterator<Item = Unused>) -> Vec<Unused> {
        let own = Own::of_running();
        let mine = pages.filter(|unused| own.has(unused.page));
        let (free, lent): (Vec<_>, Vec<_>) = mine.partition(|unused| self.is_free(unused.page));
        if !self.pages.is_empty() {
            // A process that got a pipe back in a message, and closes it again, has added them before.
            free.iter().for_each(|unused| _ = self.pages.remove(&unused.page));
        }
        self.pages.extend(lent.iter().map(|unused| (unused.page, [PageStamp::of(unused.page), unused.first])));
        free
    }

    /// Gives up pages that no process maps, but for what the next pipe can be made of. A first page was written, and so
    /// goes before those that are kept. Where some process has just mapped it, it stays what it is, and none is kept.
    fn give_up(&mut self, free: Vec<Unused>) {
        // What a further thread is charged for may go with it.
        let (own, list) = (EnvironmentId(domain().environment()), area::access_list());
        let is_fit = |info: &exposed::Page| info.owner() == own && info.access() == list && info.flags() & DIRTY == 0;
        // A page is looked at once, before it is freed: afterwards another thread may have it.
        let mut unwritten = Vec::with_capacity(free.len());
        let written = free.into_iter().filter(|unused| {
            let is_written = exposed::page(unused.page).filter(is_fit).is_none();
            if !is_written {
                unwritten.push(*unused);
            }
            is_written
        });
        of_any_list().free_each(written.map(|unused| unused.page));
        let mut left = Vec::new();
        for Unused { page, first } in unwritten {
            let is_kept = self.spare.len() < SPARE && !first.is_current();
            if is_kept { &mut self.spare } else { &mut left }.push(page);
        }
        of_any_list().free_many(&left);
    }

    /// Puts spare pages into the first places; how many.
    pub fn take_spare(&mut self, places: &mut [PageNumber]) -> usize {
        let left = self.spare.len().saturating_sub(places.len());
        let taken = self.spare.drain(left..);
        places.iter_mut().zip(taken).map(|(place, page)| *place = page).count()
    }

    /// Gives up all spare pages.
    pub fn give_up_spare(&mut self) -> Vec<PageNumber> {
        core::mem::take(&mut self.spare)
    }

    /// The open file with a number was sent: these pages stay as long as a descriptor refers to it.
    pub fn note_sent(&mut self, number: u64, reference: Reference, pages: Vec<PageNumber>) {
        pages.iter().for_each(|page| *self.on_their_way.entry(*page).or_default() += 1);
        if let Some((_, before)) = self.sent.insert(number, (reference, pages)) {
            arrived(&mut self.on_their_way, &before);
        }
    }

    /// Whether there is nothing that others may have.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.sent.is_empty()
    }

    /// The pages.
    pub fn pages(&self) -> impl Iterator<Item = PageNumber> {
        self.pages.keys().copied()
    }

    /// What descriptions consist of that were sent and have not come yet, or were not closed since, and their records.
    pub fn on_their_way(&self) -> Vec<HandedOffPage> {
        let on_their_way = self.sent.values().filter(|(description, _)| description.is_referred_to());
        let of = |(description, pages): &(Reference, Vec<PageNumber>)| {
            let record = description.place();
            let all = pages.clone().into_iter().chain([PageNumber(record.0)]);
            all.map(|page| HandedOffPage { page, record }).collect::<Vec<_>>()
        };
        on_their_way.flat_map(of).collect()
    }

    /// Takes out the pages that no process maps or is going to map. What others have claimed meanwhile is theirs to
    /// give up, and may be a page of anything by now.
    fn poll(&mut self) -> Vec<Unused> {
        self.calls += 1;
        if self.calls * AT_ONCE < self.pages.len() {
            return Vec::new();
        }
        self.calls = 0;
        self.sent.retain(|_, (description, pages)| {
            let stays = description.is_referred_to();
            if !stays {
                arrived(&mut self.on_their_way, pages);
            }
            stays
        });
        let own = Own::of_running();
        self.pages.retain(|_, [page, _]| page.is_current());
        let all = self.pages.iter().map(|(page, [_, first])| Unused { page: *page, first: *first });
        let free: Vec<Unused> = all.filter(|unused| self.is_free(unused.page)).collect();
        free.iter().for_each(|unused| _ = self.pages.remove(&unused.page));
        free.into_iter().filter(|unused| own.has(unused.page)).collect()
    }

    /// Whether no process maps a page or is going to map it.
    fn is_free(&self, page: PageNumber) -> bool {
        exposed::page(page).is_none_or(|info| info.references() == 0) && !self.on_their_way.contains_key(&page)
    }
}

/// Gives up pages whose last user may have gone by now.
pub fn reclaim_unused() {
    take_out_of_use(&domain().mappings.lock(), core::iter::empty());
}

/// Takes pages out of use: they are freed when no relative maps them any more, and none serves another pipe.
pub fn lend(pages: &[PageNumber]) {
    let each = pages.iter().map(|page| Unused { page: *page, first: PageStamp::of(*page) });
    take_out_of_use(&domain().mappings.lock(), each);
}

/// A holder closes a window. The last one takes the pages out of use that it shows, and those beyond it.
pub fn unmap_and_export(window: &Mapping) {
    let mut windows = domain().mappings.lock();
    if !windows.has_one_holder(window) {
        return windows.close(window);
    }
    let beyond = windows.beyond(window).cloned();
    windows.close(window);
    take_out_of_use(&windows, all_of(window));
    if let Some(beyond) = beyond {
        take_out_of_use(&windows, all_of(&beyond));
    }
}

/// The pages of a window.
fn all_of(window: &Mapping) -> impl Iterator<Item = Unused> {
    let first = PageStamp::of(window.pages()[0]);
    window.pages().iter().map(move |page| Unused { page: *page, first })
}

/// Gives up those of some pages, and of all that were lent before, that no process maps. The windows stay as they
/// are until that is done. So no thread opens a page in between by its number, whose close would find it free a
/// second time.
fn take_out_of_use(_windows: &Guard<'_, Mappings>, pages: impl Iterator<Item = Unused>) {
    let mut exported = exported().lock();
    let mut free = exported.add(pages);
    free.extend(exported.poll());
    if !free.is_empty() {
        exported.give_up(free);
    }
}

/// A pipe's pages, of which the first ones are spare ones, and how many of those there are.
pub fn spare_for_pipe(pages: &mut [PageNumber]) -> usize {
    exported().lock().take_spare(pages)
}

/// Gives up what is kept for the next pipe.
pub fn give_up_spare() {
    let _windows = domain().mappings.lock();
    Allocator::own().free_many(&exported().lock().give_up_spare());
}

/// One description less has these pages.
fn arrived(on_their_way: &mut BTreeMap<PageNumber, u32>, pages: &[PageNumber]) {
    for page in pages {
        let left = on_their_way.get_mut(page).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            on_their_way.remove(page);
        }
    }
}

/// What gives up pages of connections, too: a process that connects makes them under a list that the listener is on.
fn of_any_list() -> Allocator {
    Allocator { key: domain().session_key, ..Allocator::own() }
}

/// What tells this process's pages from others'.
struct Own {
    root: PageNumber,
}

impl Own {
    fn of_running() -> Self {
        Self { root: area::root() }
    }

    /// Whether a page is charged to one of this process's threads.
    fn has(&self, page: PageNumber) -> bool {
        let is_thread =
            |number| exposed::environment(number).is_some_and(|info| info.root.load(Relaxed) == self.root.0);
        exposed::page(page).is_some_and(|info| !info.is_orphan() && is_thread(info.owner()))
    }
}
