//! Pages that a process made, that others go on using, and that the server keeps when the process ends. They are those
//! of pipes, sockets and counters which children have or which are on their way in a message. What the library of a
//! child keeps for it is among them too.
//!
//! No process can sleep over a page whose maker is destroyed: the kernel says at once that it is gone. So a process
//! that ends leaves such pages to the server. The server keeps them as long as a process maps them or is going to. It
//! does not believe what a client says of them. It takes only pages that are charged to the client. The kernel says
//! whether a page is used. A principal leaves a bounded number of pages. Beyond that its pages go with it, as without a
//! server.
//!
//! Those who share a page own it, as its maker did: they may claim it, or give it up, and its number may be another
//! page's at any time after. So the server examines, claims and frees pages while it maps them, and no number becomes
//! another page. A page counts as handed off only while it is the server's and under a list for heirs, where no other
//! page of the server lies.

use crate::main_loop::{OWN_KEY, Server};
use crate::principals::{self, with_key_of};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use exos::budget::total_pages;
use exos::descriptor::shared_record::is_referred_to_at;
use exos::process::environment::SESSION_SLOT;
use exos::server::client::HandedOffPage;
use linux_abi::errno::{Errno, Result};
use runtime::page::PageKind;
use runtime::transfer::Message;
use runtime::{PageNumber, area, exposed, syscall};
use unix_core::server::protocol::WINDOW_BYTES;

/// Pages that one principal may leave for what is on its way.
const MOST_ON_THEIR_WAY: usize = 4096;
/// Which part of the machine's memory a principal may leave, unless it is user 0.
const PART: u64 = 16;
/// Pages that are mapped at a time while they are looked at.
const TOGETHER: usize = 64;
/// Words that fit into the window.
const AT_ONCE: usize = WINDOW_BYTES as usize / 8;

/// A page that a principal left.
#[derive(Clone, Copy, Debug)]
struct LeftPage {
    principal: u64,
    /// As in [`HandedOffPage`].
    record: (u64, u64),
    /// How many pages the server had taken over before this one.
    order: u64,
}

/// The pages that processes left, by number.
#[derive(Debug, Default)]
pub struct HandedOffPages {
    pages: BTreeMap<PageNumber, LeftPage>,
    /// How many the server has taken over in all.
    taken: u64,
}

impl HandedOffPages {
    fn add(&mut self, page: PageNumber, principal: u64, record: (u64, u64)) {
        self.pages.insert(page, LeftPage { principal, record, order: self.taken });
        self.taken += 1;
    }

    /// How many pages a principal has left: in all, and of what is on its way.
    fn count(&self, principal: u64) -> [usize; 2] {
        let own = self.pages.values().filter(|left| left.principal == principal);
        own.fold([0, 0], |[all, sent], left| [all + 1, sent + usize::from(left.record.0 != 0)])
    }

    /// The pages of the descriptions on their way that a principal left first: at least `lacking`, where there are so
    /// many that no environment maps.
    fn oldest_on_their_way(
        &self,
        principal: u64,
        lacking: usize,
        is_mapped: impl Fn(PageNumber) -> bool,
    ) -> Vec<PageNumber> {
        let sent = self.pages.iter().filter(|(_, left)| left.principal == principal && left.record.0 != 0);
        let mut sent: Vec<_> = sent.filter(|(page, _)| !is_mapped(**page)).collect();
        sent.sort_by_key(|(_, left)| left.order);
        let records: BTreeSet<(u64, u64)> = sent.iter().take(lacking).map(|(_, left)| left.record).collect();
        sent.iter().filter(|(_, left)| records.contains(&left.record)).map(|(page, _)| **page).collect()
    }
}

impl Server {
    /// See [`Request::HandOff`].
    pub(crate) fn bequeath(&mut self, caller: u64, message: &Message) -> Result<()> {
        let principal = self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials.principal();
        let window = self.server.window(caller)?;
        let words = window.words().iter().take((message[1] as usize).min(AT_ONCE));
        let left: Vec<HandedOffPage> = words.map(|word| HandedOffPage::from_word(word.load(Acquire))).collect();
        let on_their_way = left.iter().filter(|one| one.record.0 != 0).count();
        let mut room = self.room_for(principal, [left.len(), on_their_way]);
        let mut lists = [PageNumber::NONE; 2];
        for some in left.chunks(TOGETHER) {
            let its: Vec<HandedOffPage> =
                some.iter().copied().filter(|one| self.is_charged(caller, one.page)).collect();
            self.while_mapped(its.iter().map(|one| one.page).collect(), |server| {
                for HandedOffPage { page, record } in its {
                    let takes = [true, record.0 != 0].map(usize::from);
                    if takes[0] > room[0] || takes[1] > room[1] || !server.is_charged(caller, page) {
                        continue;
                    }
                    if server.take_over(principal, page, &mut lists).is_ok() {
                        server.handed_off.add(page, principal, record);
                        room = [room[0] - takes[0], room[1] - takes[1]];
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// How many pages a principal may still leave that is going to leave `wanted`: in all, and of what is on its way.
    ///
    /// Sockets that were sent through themselves are on their way for ever, and no process can receive them. So the
    /// oldest pages on their way make room for new ones. (Linux collects such circles, unix(7).)
    fn room_for(&mut self, principal: u64, wanted: [usize; 2]) -> [usize; 2] {
        let part = (total_pages() / PART) as usize;
        let most = [if principal == 0 { usize::MAX } else { part }, MOST_ON_THEIR_WAY];
        let room = |server: &Self| {
            let counts = server.handed_off.count(principal);
            [most[0].saturating_sub(counts[0]), most[1].saturating_sub(counts[1])]
        };
        let lacking = |room: [usize; 2]| wanted[0].saturating_sub(room[0]).max(wanted[1].saturating_sub(room[1]));
        if lacking(room(self)) != 0 {
            self.give_up_bequests();
        }
        let lacking = lacking(room(self));
        if lacking != 0 {
            let oldest = self.handed_off.oldest_on_their_way(principal, lacking, is_mapped);
            self.free_left(&oldest);
        }
        room(self)
    }

    /// Whether a page is an ordinary one that a client, or one of its threads, is charged for.
    fn is_charged(&self, caller: u64, page: PageNumber) -> bool {
        exposed::page(page).is_some_and(|info| {
            let owner = info.owner().0;
            let payer = self.threads.get(&owner).copied().unwrap_or(owner);
            payer == caller && info.kind() == PageKind::Ordinary && !info.is_orphan()
        })
    }

    /// Whether a page is one that was left, and is still here.
    fn is_bequest(&self, page: PageNumber) -> bool {
        exposed::page(page).is_some_and(|info| {
            info.owner() == area::number() && !info.is_orphan() && self.server.keys.is_for_heirs(info.access())
        })
    }

    /// Does something with pages while they are mapped, so that no number becomes that of another page meanwhile.
    /// Nothing is done where one of them cannot be mapped any more.
    fn while_mapped(&mut self, pages: Vec<PageNumber>, action: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let Ok(window) = self.server.mappings.open_of_others(pages, SESSION_SLOT, false) else { return Ok(()) };
        let outcome = action(self);
        self.server.mappings.close(&window);
        outcome
    }

    /// Takes a page over, for a principal and those who have shared it until now. `lists`: that of the page before it,
    /// and under which that came.
    fn take_over(&mut self, principal: u64, page: PageNumber, lists: &mut [PageNumber; 2]) -> Result<()> {
        let under = exposed::page(page).ok_or(Errno::EINVAL)?.access();
        if !self.has_room() {
            return Err(Errno::EPERM);
        }
        if lists[0] != under {
            *lists = [under, self.server.keys.list_for_sharers(principal, under)?];
        }
        let list = lists[1];
        let claim = |key| syscall::page_claim(key, page, OWN_KEY, list);
        Ok(claim(SESSION_SLOT).or_else(|_| claim(OWN_KEY))?)
    }

    /// What is taken over counts as what files have.
    fn has_room(&self) -> bool {
        self.server.tree.store.quota.has_room_for(1, 0)
    }

    /// See [`Request::ShareHandedOff`]: a process shares a page that it may open with the user that it is going to be.
    pub(crate) fn share_bequests(&mut self, caller: u64, message: &Message) -> Result<()> {
        let [_, heir, count, under, ..] = *message;
        let identity = &self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials;
        if !identity.may_be(heir) {
            return Err(Errno::EPERM);
        }
        let origin = if identity.apart == 0 { identity.principal() } else { u64::from(identity.user.real) };
        let own = [identity.principal(), origin];
        let users_of = Some(PageNumber(under)).filter(|list| list.0 != 0);
        let window = self.server.window(caller)?;
        let words = window.words().iter().take((count as usize).min(AT_ONCE));
        let pages: Vec<PageNumber> = words.map(|word| PageNumber(word.load(Acquire))).collect();
        for some in pages.chunks(TOGETHER) {
            let left: Vec<PageNumber> = some.iter().copied().filter(|page| self.is_bequest(*page)).collect();
            self.while_mapped(left.clone(), |server| {
                left.into_iter().try_for_each(|page| server.share(page, own, users_of, heir))
            })?;
        }
        Ok(())
    }

    /// Shares a page that was left with one more principal, if one of two may use it, and each user of a list, if there
    /// is one.
    fn share(&mut self, page: PageNumber, own: [u64; 2], users_of: Option<PageNumber>, heir: u64) -> Result<()> {
        let under = exposed::page(page).ok_or(Errno::EINVAL)?.access();
        let keys = &self.server.keys;
        let is_of_all = users_of.is_none_or(|list| keys.may_all_use_bequest(under, list));
        if self.is_bequest(page) && is_of_all && keys.may_use_bequest(under, own) {
            let list = self.server.keys.list_for_sharers(heir, under)?;
            syscall::page_claim(OWN_KEY, page, OWN_KEY, list)?;
        }
        Ok(())
    }

    /// Frees the left pages that no process uses, and forgets those that others have claimed or freed.
    pub(crate) fn give_up_bequests(&mut self) {
        let all: Vec<(PageNumber, LeftPage)> =
            self.handed_off.pages.iter().map(|(page, left)| (*page, *left)).collect();
        let unused = all.into_iter().filter(|(page, left)| !self.is_used(*page, *left)).map(|(page, _)| page);
        let unused: Vec<PageNumber> = unused.collect();
        self.free_left(&unused);
    }

    /// Frees pages that were left, and forgets every one that is not here any more.
    fn free_left(&mut self, pages: &[PageNumber]) {
        for some in pages.chunks(TOGETHER) {
            let left: Vec<PageNumber> = some.iter().copied().filter(|page| self.is_bequest(*page)).collect();
            let _ = self.while_mapped(left.clone(), |server| {
                let left: Vec<PageNumber> = left.into_iter().filter(|page| server.is_bequest(*page)).collect();
                principals::ANY_WINDOW.free_many(&left);
                Ok(())
            });
        }
        let mut all = core::mem::take(&mut self.handed_off.pages);
        all.retain(|page, _| self.is_bequest(*page));
        self.handed_off.pages = all;
    }

    /// Whether a process maps a page that a principal has left, or is going to.
    fn is_used(&mut self, page: PageNumber, left: LeftPage) -> bool {
        is_mapped(page) || left.record.0 != 0 && self.is_on_its_way(left.principal, left.record)
    }

    /// Whether the record of a description says that a process refers to it, or is going to. The principal may read it.
    fn is_on_its_way(&mut self, principal: u64, (page, index): (u64, u64)) -> bool {
        let windows = &mut self.server.mappings;
        let opened = with_key_of(SESSION_SLOT, principal, |key| {
            windows.open_of_others(Vec::from([PageNumber(page)]), key, false)
        });
        let Ok(window) = opened else { return false };
        let is_referred_to = is_referred_to_at(&window, index as usize);
        windows.close(&window);
        is_referred_to
    }
}

fn is_mapped(page: PageNumber) -> bool {
    exposed::page(page).is_some_and(|info| info.references() != 0)
}
