//! What processes leave to others when they end: pages that they made and that others go on using. Those are of pipes, sockets and
//! counters which children have or which are on their way in a message, and what the library of a child keeps for it.
//!
//! Nobody can sleep over a page whose maker is buried: the kernel says at once that it is gone. So who ends leaves such pages to
//! the guardian, which keeps them as long as somebody maps them or is going to. What is said of them is not believed: a client
//! leaves what is charged to it, and nothing else; whether a page is used the kernel says; and of what is said to be on its way a
//! principal leaves so much and no more.

use super::client::Client;
use super::keys;
use super::protocol::{Operation, WINDOW_BYTES};
use super::service::{Guardian, OWN_KEY};
use crate::descriptor::description::is_referred_to_at;
use crate::errno::{Errno, Result};
use crate::process::create::SESSION_SLOT;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime::page::PageKind;
use runtime::transfer::Message;
use runtime::{EnvironmentId, PageNumber, exposed, syscall};

/// Pages that one principal may leave for what is on its way.
const MOST_ON_THEIR_WAY: usize = 4096;
/// Words that fit into the window.
const AT_ONCE: usize = WINDOW_BYTES as usize / 8;

/// A page that somebody leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bequest {
    /// The page.
    pub page: PageNumber,
    /// Page and index of the record of a description that is on its way and consists of it; page 0: others map it.
    pub record: (u64, u64),
}

impl Bequest {
    const PAGE_BITS: u32 = 28;
    const PAGE_MASK: u64 = (1 << Self::PAGE_BITS) - 1;

    /// One that others map.
    pub const fn mapped(page: PageNumber) -> Self {
        Self { page, record: (0, 0) }
    }

    /// As a word of a message.
    const fn to_word(self) -> u64 {
        let (record, index) = self.record;
        self.page.0 | record << Self::PAGE_BITS | index << (2 * Self::PAGE_BITS)
    }

    /// From that.
    const fn from_word(word: u64) -> Self {
        let record = (word >> Self::PAGE_BITS & Self::PAGE_MASK, word >> (2 * Self::PAGE_BITS));
        Self { page: PageNumber(word & Self::PAGE_MASK), record }
    }
}

/// What was left.
#[derive(Debug, Default)]
pub struct Bequests(Vec<(u64, Bequest)>);

impl Guardian {
    /// See [`Operation::Bequeath`].
    pub(super) fn bequeath(&mut self, caller: u64, message: &Message) -> Result<()> {
        let principal = self.server.clients.get(&caller).ok_or(Errno::EPERM)?.identity.principal();
        let window = self.server.window(caller)?;
        let words = window.words().iter().take((message[1] as usize).min(AT_ONCE));
        let left: Vec<Bequest> = words.map(|word| Bequest::from_word(word.load(Acquire))).collect();
        let on_their_way = |(of, one): &&(u64, Bequest)| *of == principal && one.record.0 != 0;
        let mut room = MOST_ON_THEIR_WAY.saturating_sub(self.bequests.0.iter().filter(on_their_way).count());
        let mut lists = [PageNumber::NONE; 2];
        for one in left {
            let is_on_its_way = one.record.0 != 0;
            if is_on_its_way && room == 0 || self.take_over(caller, principal, one.page, &mut lists).is_err() {
                continue;
            }
            room -= usize::from(is_on_its_way);
            self.bequests.0.push((principal, one));
        }
        Ok(())
    }

    /// Takes a page of a client over, for its principal and those who have shared it until now. `lists`: that of the page before it,
    /// and under which that came.
    fn take_over(&mut self, caller: u64, principal: u64, page: PageNumber, lists: &mut [PageNumber; 2]) -> Result<()> {
        let info = exposed::page(page).ok_or(Errno::EINVAL)?;
        let owner = info.owner().0;
        let is_its = self.threads.get(&owner).copied().unwrap_or(owner) == caller;
        if !is_its || info.kind() != PageKind::Ordinary || info.is_orphan() || !self.has_room() {
            return Err(Errno::EPERM);
        }
        let under = info.access();
        if lists[0] != under {
            *lists = [under, self.server.keys.list_for_heirs(principal, under)?];
        }
        let list = lists[1];
        let claim = |key| syscall::page_claim(key, page, OWN_KEY, list);
        Ok(claim(SESSION_SLOT).or_else(|_| claim(OWN_KEY))?)
    }

    /// What is taken over counts as what files have.
    fn has_room(&self) -> bool {
        self.server.tree.store.allowance.has_room(0)
    }

    /// See [`Operation::ShareBequests`]: who may open a page shares it with who it is going to be.
    pub(super) fn share_bequests(&mut self, caller: u64, message: &Message) -> Result<()> {
        let [_, heir, count, ..] = *message;
        let identity = &self.server.clients.get(&caller).ok_or(Errno::EPERM)?.identity;
        if !identity.may_be(heir) {
            return Err(Errno::EPERM);
        }
        let origin = if identity.apart == 0 { identity.principal() } else { u64::from(identity.user.real) };
        let own = [identity.principal(), origin];
        let window = self.server.window(caller)?;
        let words = window.words().iter().take((count as usize).min(AT_ONCE));
        let pages: Vec<PageNumber> = words.map(|word| PageNumber(word.load(Acquire))).collect();
        for page in pages.into_iter().filter(|page| self.bequests.0.iter().any(|(_, one)| one.page == *page)) {
            let Some(under) = exposed::page(page).map(|info| info.access()) else { continue };
            if self.server.keys.may_use_bequest(under, own) {
                let list = self.server.keys.list_for_heirs(heir, under)?;
                syscall::page_claim(OWN_KEY, page, OWN_KEY, list)?;
            }
        }
        Ok(())
    }

    /// Gives up what nobody uses any more.
    pub(super) fn give_up_bequests(&mut self) {
        let mut free = Vec::new();
        let mut all = core::mem::take(&mut self.bequests.0);
        all.retain(|(_, one)| {
            let is_mapped = exposed::page(one.page).is_some_and(|info| info.references() != 0);
            let is_used = is_mapped || one.record.0 != 0 && self.is_on_its_way(one.record);
            if !is_used {
                free.push(one.page);
            }
            is_used
        });
        self.bequests.0 = all;
        keys::ANY_WINDOW.free_many(&free);
    }

    /// Whether the record of a description says that somebody refers to it, or is going to.
    fn is_on_its_way(&mut self, (page, index): (u64, u64)) -> bool {
        let Ok(window) = self.server.windows.open_of_others(Vec::from([PageNumber(page)]), SESSION_SLOT, false) else {
            return false;
        };
        let is_referred_to = is_referred_to_at(&window, index as usize);
        self.server.windows.close(&window);
        is_referred_to
    }
}

impl Client {
    /// Leaves pages to the guardian, as far as it takes them: it looks at them as long as others may use them.
    ///
    /// # Errors
    /// The guardian cannot be reached.
    pub fn bequeath(&mut self, left: &[Bequest]) -> Result<()> {
        let window = self.window()?;
        for some in left.chunks(AT_ONCE) {
            some.iter().zip(window.words()).for_each(|(one, word)| word.store(one.to_word(), Relaxed));
            self.exchange([Operation::Bequeath as u64, some.len() as u64, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Shares with a principal, that this process is going to be, those of these pages that were left to the guardian.
    ///
    /// # Errors
    /// The guardian's refusals: then the new principal can use what shows already, and its children cannot.
    pub fn share_bequests(&mut self, heir: u64, pages: &[PageNumber]) -> Result<()> {
        let window = self.window()?;
        for some in pages.chunks(AT_ONCE) {
            some.iter().zip(window.words()).for_each(|(page, word)| word.store(page.0, Relaxed));
            self.exchange([Operation::ShareBequests as u64, heir, some.len() as u64, 0, 0, 0])?;
        }
        Ok(())
    }
}

/// Whether a page is one that a process can leave: an ordinary one that is charged to it.
pub fn can_leave(process: u64, page: PageNumber) -> bool {
    exposed::page(page).is_some_and(|info| {
        info.owner() == EnvironmentId(process) && info.kind() == PageKind::Ordinary && !info.is_orphan()
    })
}
