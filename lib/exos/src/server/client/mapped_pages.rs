//! Pages of files that a process reads again and again, mapped in its library: a small read is then a copy without an
//! RPC (exposed structure, xok-exos-sosp97 §3).
//!
//! Invariant: bytes are taken from a page only while the dcache shows the same of the file as when the server told the
//! page's number. A change by the server changes the dcache; a change by a shared mapping changes the page itself. A
//! page that leaves its file is given up by the server while it is mapped here, so that nothing else ever shows
//! through.

use super::Client;
use crate::hw::current::process;
use crate::hw::mapping::Mapping;
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use linux_raw_sys::general::S_IFREG;
use runtime::{PageNumber, clock};
use vfs::handle::node_of;
use vfs::inode::{Status, is_read_noted};

/// Pages that are kept mapped.
const KEPT: usize = 2;
/// Small reads of one page, one after the other, that make it worth while to map it.
const OFTEN: u32 = 4;
/// Largest file of which a page is mapped: asking for one copies a file out of the boot archive.
const LARGEST: u64 = 1 << 20;

/// A page of a file: the handle by which it is read, and the index of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    node: u64,
    index: u64,
}

/// A page that is mapped.
#[derive(Debug)]
struct View {
    place: Place,
    /// What the catalogue's entry bore when the page was the file's.
    sequence: u64,
    window: Mapping,
}

/// The pages that are mapped, and the one that may come to be.
#[derive(Debug, Default)]
pub(super) struct Views {
    mapped: Vec<View>,
    /// The page that was read last by asking, and how often.
    asked: (Place, u32),
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
        if within + count > PAGE_SIZE {
            return None;
        }
        let place = Place { node, index: offset / PAGE_SIZE };
        if let Some(view) = self.views.mapped.iter().find(|view| view.place == place && view.sequence == sequence) {
            return Some(view.window.copy_to_user(within, to, count).map(|()| count));
        }
        let window = self.map_if_often(place, status.size)?;
        Some(window.copy_to_user(within, to, count).map(|()| count))
    }

    /// Maps a page that was asked for often; the one that was mapped first goes.
    fn map_if_often(&mut self, place: Place, size: u64) -> Option<&Mapping> {
        let times = if self.views.asked.0 == place { self.views.asked.1.saturating_add(1) } else { 1 };
        self.views.asked = (place, times);
        if times < OFTEN || size > LARGEST {
            return None;
        }
        self.views.asked.1 = 0;
        let mut number = [0];
        // The page is the file's as long as what is shown is what was shown before the question.
        let (sequence, _) = self.catalogue()?.stamped(node_of(place.node))?;
        let found = self.pages(place.node, place.index, false, place.index, &mut number).ok()?;
        let is_same = self.catalogue()?.stamped(node_of(place.node)).is_some_and(|(after, _)| after == sequence);
        if !found || !is_same {
            return None;
        }
        let process = process();
        let mut windows = process.mappings.lock();
        let same = |view: &View| view.place == place;
        let old = self.views.mapped.iter().position(same).or((self.views.mapped.len() >= KEPT).then_some(0));
        if let Some(old) = old {
            windows.close(&self.views.mapped.remove(old).window);
        }
        let window = windows.open_own(vec![PageNumber(number[0])], process.session_key, false).ok()?;
        self.views.mapped.push(View { place, sequence, window });
        self.views.mapped.last().map(|view| &view.window)
    }
}

/// Whether reading changes nothing that is shown: the time of the last read stays as it is.
#[inline(always)]
fn can_be_read(status: &Status) -> bool {
    let now = clock::wall_clock().unwrap_or_else(clock::now);
    status.kind() == S_IFREG && !is_read_noted([status.accessed, status.modified, status.changed], now)
}
