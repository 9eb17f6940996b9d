//! Pages that a process has no use for any more, while others may have: of pipes and sockets that it made and closed, which others
//! map, or which are on their way in a message.

use crate::descriptor::description::Description;
use crate::guardian::bequests::Bequest;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::PageNumber;

/// Pages that are looked at for each call that might find some free: where there are more, not every call looks. Who has passed
/// thousands of sockets to others goes on closing some.
const AT_ONCE: usize = 64;

/// The pages.
#[derive(Clone, Debug, Default)]
pub struct Lent {
    pages: BTreeSet<PageNumber>,
    /// Descriptions that were sent in messages, by their numbers, and what they are made of: on their way nobody maps it.
    sent: BTreeMap<u64, (Description, Vec<PageNumber>)>,
    /// How many of those each page belongs to.
    on_their_way: BTreeMap<PageNumber, u32>,
    /// Calls since all were looked at.
    calls: usize,
}

impl Lent {
    /// Adds pages, those of this process's.
    pub fn add(&mut self, pages: &[PageNumber]) {
        self.pages.extend(pages.iter().copied().filter(is_mine));
    }

    /// A description was sent: these pages stay as long as a descriptor refers to it.
    pub fn note_sent(&mut self, description: &Description, pages: Vec<PageNumber>) {
        pages.iter().for_each(|page| *self.on_their_way.entry(*page).or_default() += 1);
        if let Some((_, before)) = self.sent.insert(description.number(), (description.clone(), pages)) {
            arrived(&mut self.on_their_way, &before);
        }
    }

    /// Whether there is nothing that others may have.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.sent.is_empty()
    }

    /// The pages.
    pub fn pages(&self) -> impl Iterator<Item = PageNumber> {
        self.pages.iter().copied()
    }

    /// What descriptions consist of that were sent and have not come yet, or were not closed since, and their records.
    pub fn on_their_way(&self) -> Vec<Bequest> {
        let on_their_way = self.sent.values().filter(|(description, _)| description.is_referred_to());
        let of = |(description, pages): &(Description, Vec<PageNumber>)| {
            let record = description.place();
            let all = pages.clone().into_iter().chain([PageNumber(record.0)]);
            all.map(|page| Bequest { page, record }).collect::<Vec<_>>()
        };
        on_their_way.flat_map(of).collect()
    }

    /// Takes out the pages that nobody maps, and nobody is going to. What others have claimed meanwhile is theirs to give up.
    pub fn look(&mut self) -> Vec<PageNumber> {
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
        self.pages.retain(is_mine);
        let is_mapped = |page: PageNumber| runtime::exposed::page(page).is_some_and(|info| info.references() != 0);
        let is_free = |page: &&PageNumber| !is_mapped(**page) && !self.on_their_way.contains_key(page);
        let free: Vec<PageNumber> = self.pages.iter().filter(is_free).copied().collect();
        free.iter().for_each(|page| _ = self.pages.remove(page));
        free
    }
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

/// Whether a page is under this process's own list, and on the account of one of its threads: who connects puts pages of its own
/// under the list of who listens, and gives them up itself.
fn is_mine(page: &PageNumber) -> bool {
    let is_thread = |number| {
        runtime::exposed::environment(number).is_some_and(|info| info.root.load(Relaxed) == runtime::area::root().0)
    };
    runtime::exposed::page(*page).is_some_and(|info| {
        info.access() == runtime::area::access_list() && !info.is_orphan() && is_thread(info.owner())
    })
}
