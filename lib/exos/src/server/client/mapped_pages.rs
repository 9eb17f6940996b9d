//! Cache of mapped file pages: pages that a process reads again and again, mapped in its library. A small read is then
//! a copy without an RPC (exposed structure, xok-exos-sosp97 §3). A sweep drops what was not read since the one before.
//!
//! Invariant: bytes are taken from a page only while the dcache shows the same of the file as when the server told the
//! page's number. A change by the server changes the dcache; a change by a shared mapping changes the page itself. A
//! page that leaves its file is given up by the server while it is mapped here, so that nothing else ever shows
//! through.

use super::{Client, cuts};
use crate::hw::domain::domain;
use crate::hw::mapping::Mapping;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::take;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use linux_raw_sys::general::S_IFREG;
use runtime::{PageNumber, exposed};
use vfs::handle::node_of;
use vfs::inode::{Status, is_read_noted};

/// Pages that are mapped at most.
const MAPPED: usize = 64;
/// Pages that the cache knows at most, mapped or not.
const ENTRIES: usize = 2 * MAPPED;
/// Reads of an unchanged page that make it worth while to map it.
const OFTEN: u32 = 3;
/// Largest file of which a page is mapped: asking for one copies a file out of the boot archive.
const LARGEST: u64 = 1 << 20;
/// A page that is mapped here cannot be evicted: below one free page in so many, no more are mapped.
const SPARE: u64 = 8;

/// A page of a file: the handle by which it is read, and the index of the page.
type Place = (u64, u64);

/// A page that was read.
#[derive(Debug)]
struct Entry {
    /// What the dcache entry of the file bore: when the page was told, or when it was last read by asking.
    sequence: u64,
    /// How often it was read by asking while that was the same.
    times: u32,
    /// It was read since the last sweep.
    is_used: bool,
    window: Option<Mapping>,
}

/// The cache.
#[derive(Debug, Default)]
pub(super) struct Views {
    entries: BTreeMap<Place, Entry>,
    /// How many of them are mapped.
    mapped: usize,
}

impl Client {
    /// Reads from pages that are exposed and mapped; nothing where the server must be asked.
    pub(super) fn read_shown(&mut self, node: u64, offset: u64, to: u64, count: u64) -> Option<Result<u64>> {
        if self.has_watchers() {
            return None;
        }
        let (sequence, status) = self.catalogue()?.stamped(node_of(node)).filter(|(_, status)| can_be_read(status))?;
        let count = count.min(status.size.saturating_sub(offset));
        if count == 0 {
            return Some(Ok(0));
        }
        let within = offset % PAGE_SIZE;
        if within + count > PAGE_SIZE || status.size > LARGEST {
            return None;
        }
        let place = (node, offset / PAGE_SIZE);
        let Some(entry) = self.views.entries.get_mut(&place) else {
            self.views.add(place, sequence);
            return None;
        };
        entry.is_used = true;
        if entry.sequence != sequence {
            (entry.sequence, entry.times) = (sequence, 0);
            self.views.unmap(place);
        } else if let Some(window) = &entry.window {
            return Some(window.copy_to_user(within, to, count).map(|()| count));
        }
        let window = self.map_if_often(place)?;
        Some(window.copy_to_user(within, to, count).map(|()| count))
    }

    /// Maps a page that was read often.
    fn map_if_often(&mut self, place: Place) -> Option<&Mapping> {
        let entry = self.views.entries.get_mut(&place)?;
        entry.times += 1;
        let all = exposed::kernel();
        let is_short = all.free_pages.load(Relaxed) < all.pages.load(Relaxed) / SPARE;
        if entry.times < OFTEN || self.views.mapped == MAPPED || is_short {
            return None;
        }
        entry.times = 0;
        let mut number = [0];
        // The page is the file's as long as what is shown is what was shown before the question, and no page left a
        // file until it was mapped. A page that is mapped leaves its file only by a change that is shown.
        let before = cuts();
        let (sequence, _) = self.catalogue()?.stamped(node_of(place.0))?;
        if !self.pages(place.0, place.1, false, place.1, &mut number).ok()? {
            return None;
        }
        let domain = domain();
        let window = domain.mappings.lock().open_own(vec![PageNumber(number[0])], domain.session_key, false).ok()?;
        let is_cut = cuts() != before;
        let is_same = self.catalogue()?.stamped(node_of(place.0)).is_some_and(|(after, _)| after == sequence);
        if !is_same || is_cut {
            domain.mappings.lock().close(&window);
            return None;
        }
        let entry = self.views.entries.get_mut(&place)?;
        entry.sequence = sequence;
        self.views.mapped += 1;
        Some(entry.window.insert(window))
    }
}

impl Views {
    /// Records a page that was read for the first time. Where the cache is full, those that were not read since the
    /// last sweep go.
    fn add(&mut self, place: Place, sequence: u64) {
        if self.entries.len() >= ENTRIES {
            let mut unused = Vec::new();
            self.entries.retain(|_, entry| {
                let stays = take(&mut entry.is_used);
                unused.extend(if stays { None } else { entry.window.take() });
                stays
            });
            unused.iter().for_each(|window| self.close(window));
        }
        if self.entries.len() < ENTRIES {
            self.entries.insert(place, Entry { sequence, times: 1, is_used: true, window: None });
        }
    }

    fn unmap(&mut self, place: Place) {
        if let Some(window) = self.entries.get_mut(&place).and_then(|entry| entry.window.take()) {
            self.close(&window);
        }
    }

    fn close(&mut self, window: &Mapping) {
        domain().mappings.lock().close(window);
        self.mapped -= 1;
    }
}

/// Whether reading changes nothing that is shown: the time of the last read stays as it is.
#[inline(always)]
fn can_be_read(status: &Status) -> bool {
    let now = super::wall_clock();
    status.kind() == S_IFREG && !is_read_noted([status.accessed, status.modified, status.changed], now)
}
