//! Physical pages: allocation by number, ownership, access, orphans (DESIGN.md §4, "Page").
//!
//! Invariants:
//! - every page is charged to exactly one environment, or free, or the kernel's: the exposed counts add up;
//! - a page is free only when no entry maps it, no device pins it, no link leads to it as a table, and no page has it
//!   as list. A page that is given up before is an orphan, and freed when its last use ends.

use crate::budget;
use crate::cost;
use crate::environment::Environment;
use crate::free_list;
use crate::interrupt;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::key::permit;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::page::{ORPHAN, PageInfo, PageKind, WATCHED, ZEROED};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::dma::device_pins;
use machine::exposed::{self, add, subtract};
use machine::memory::{self, Numbered, note_use, references, state};
use machine::page_table::{ROOT_LEVEL, links};

/// For an access list: the pages that name it.
pub(crate) fn users(info: &PageInfo) -> u32 {
    (info.holds.load(Ordering::Relaxed) >> 32) as u32
}

/// The access list of a page.
pub(crate) fn access_list(info: &PageInfo) -> PageNumber {
    PageNumber(info.access.load(Ordering::Relaxed) & 0xffff_ffff)
}

/// Counts a page that names an access list.
#[inline(always)]
pub(crate) fn count_user(list: PageNumber, change: i64) {
    let list = memory::info(list).expect("an access list has a record");
    let word = list.holds.load(Ordering::Relaxed);
    list.holds.store(word.wrapping_add((change as u64) << 32), Ordering::Release);
}

/// Puts a page that is under no access list under one, or under none.
#[inline(always)]
fn put_under(page: PageNumber, info: &PageInfo, list: PageNumber) {
    if list != PageNumber::NONE && list != page {
        count_user(list, 1);
    }
    set_list(info, list);
}

/// Notes under which access list a page is.
#[inline(always)]
fn set_list(info: &PageInfo, list: PageNumber) {
    let word = info.access.load(Ordering::Relaxed);
    info.access.store(word & !0xffff_ffff | list.0, Ordering::Release);
}

/// Makes an environment the owner of a page that is in no list; charges are the caller's affair.
#[inline(always)]
fn set_owner(page: PageNumber, info: &PageInfo, owner: Environment) {
    info.owner.store(owner.number().0, Ordering::Release);
    free_list::push(&owner.info().pages, page, info);
    note_use(info);
}

/// Pages that one call takes for an environment, one after the other, while nothing comes free: what is counted of them
/// is counted at the end.
pub(crate) struct Taking {
    owner: Environment,
    list: PageNumber,
    taken: u64,
}

impl Taking {
    /// None yet. The budget allows as many as will be taken.
    #[inline(always)]
    pub(crate) const fn begin(owner: Environment, list: PageNumber) -> Self {
        Self { owner, list, taken: 0 }
    }

    /// The page to be taken next, if one is free.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<Numbered> {
        memory::numbered(free_list::first(&exposed::kernel().first_free_page)?)
    }

    /// It is an ordinary page by now, and mapped.
    #[inline(always)]
    pub(crate) fn take(&mut self, page: Numbered) {
        free_list::remove_first(&exposed::kernel().first_free_page, page.info());
        set_list(page.info(), self.list);
        set_owner(page.number(), page.info(), self.owner);
        self.taken += 1;
    }

    /// No more; how many were taken.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        let kernel = exposed::kernel();
        subtract(&kernel.free_pages, self.taken);
        add(&kernel.owned_pages, self.taken);
        count_user(self.list, self.taken as i64);
        budget::charge(self.owner, Resource::Page, self.taken);
        self.taken as usize
    }
}

/// Whether a page is an ordinary one under this list that was not given up: not mapped, not watched, not pinned by a
/// device.
#[inline(always)]
fn is_unused(info: &PageInfo, list: PageNumber) -> bool {
    let found = state(info);
    let is_plain = found.kind == PageKind::Ordinary && found.flags & (ORPHAN | WATCHED) == 0;
    // The upper half of its word counts the entries that map it.
    is_plain && info.access.load(Ordering::Relaxed) == list.0 && device_pins(info) == 0
}

/// A page was given up that something still uses.
#[inline(always)]
fn become_orphan(info: &PageInfo) {
    memory::become_orphan(info);
    subtract(&exposed::kernel().owned_pages, 1);
    add(&exposed::kernel().orphan_pages, 1);
}

/// A page is about to lose its watchers: makes those look that sleep over it on an idle CPU.
pub(crate) fn wake_watchers(info: &PageInfo) {
    if state(info).flags & WATCHED != 0 {
        interrupt::wake_all_idle();
    }
}

/// Free pages, from the first on, that an idle CPU keeps filled with zeros.
const PAGES_AHEAD: usize = 256;
/// Pages that one kernel entry fills.
const ZEROED_PER_ENTRY: usize = 8;

impl Kernel {
    /// The record of a page of memory.
    pub(crate) fn page(&self, page: PageNumber) -> Result<&'static PageInfo, Failure> {
        memory::info(page).filter(|info| state(info).kind != PageKind::Absent).ok_or(Error::NoSuchPage.about(page.0))
    }

    /// What a key of the caller's may do with a page.
    #[inline]
    pub(crate) fn rights_on_page(&self, key: KeyIndex, info: &PageInfo) -> Result<Rights, Failure> {
        match state(info).kind {
            PageKind::Free | PageKind::Kernel | PageKind::Absent => Ok(Rights::NONE),
            _ => self.rights_on_list(key, access_list(info)),
        }
    }

    /// Fails unless a key owns a page, or the caller is charged for it. A payer ends its charge although other
    /// environments, which own the page too, have changed the access list.
    #[inline(always)]
    pub(crate) fn permit_release(&self, key: KeyIndex, info: &PageInfo) -> Result<(), Failure> {
        let given = self.rights_on_page(key, info)?;
        let pays = || info.owner.load(Ordering::Relaxed) == self.caller().number().0;
        if given.contains(Rights::OWN) || pays() { Ok(()) } else { permit(given, Rights::OWN) }
    }

    /// An ordinary page that the caller may own. An orphan is refused: its owner gave it up, and an object made of it
    /// would be counted twice when it ends.
    pub(crate) fn owned_page(&self, key: KeyIndex, page: PageNumber) -> Result<&'static PageInfo, Failure> {
        let info = self.page(page)?;
        permit(self.rights_on_page(key, info)?, Rights::OWN)?;
        match state(info) {
            found if found.kind == PageKind::Ordinary && found.flags & ORPHAN == 0 => Ok(info),
            found => Err(Error::WrongKind.about(found.kind as u64)),
        }
    }

    /// An ordinary page that the caller may own and that nothing maps and no device pins: what objects are made of.
    pub(crate) fn donatable(&self, key: KeyIndex, page: PageNumber) -> Result<&'static PageInfo, Failure> {
        let info = self.owned_page(key, page)?;
        match references(info) + device_pins(info) {
            0 => {
                wake_watchers(info);
                Ok(info)
            }
            holds => Err(Error::InUse.about(u64::from(holds))),
        }
    }

    /// The environment that is charged for a page.
    pub(crate) fn owner(&self, info: &PageInfo) -> Environment {
        Environment::numbered(EnvironmentId(info.owner.load(Ordering::Relaxed)))
    }

    /// Puts a page under an access list, or under none.
    pub(crate) fn set_access_list(&mut self, page: PageNumber, list: Option<PageNumber>) {
        let info = memory::info(page).expect("a page with an access list has a record");
        let old = access_list(info);
        // What is remembered is about a list or a root: only of these it matters which list they are under.
        if old != PageNumber::NONE && matches!(state(info).kind, PageKind::AccessList | PageKind::PageTable) {
            self.forget();
        }
        if old != PageNumber::NONE && old != page {
            count_user(old, -1);
            self.settle(old);
        }
        put_under(page, info, list.unwrap_or(PageNumber::NONE));
    }

    /// Fails unless a page is an ordinary one that a key opens to be read.
    pub(crate) fn readable(&self, key: KeyIndex, page: PageNumber) -> Result<(), Failure> {
        let info = self.page(page)?;
        permit(self.rights_on_page(key, info)?, Rights::READ)?;
        match state(info).kind {
            PageKind::Ordinary => Ok(()),
            kind => Err(Error::WrongKind.about(kind as u64)),
        }
    }

    /// Fails unless the caller may have one more page.
    #[inline(always)]
    pub(crate) fn check_allocation(&mut self, caller: Environment) -> Outcome<()> {
        budget::check(caller, Resource::Page, 1)?;
        if self.short_until != 0 {
            self.check_shortage(caller)?;
        }
        Ok(())
    }

    /// The first free page. Where there is none, the kernel may ask an environment for one.
    #[inline(always)]
    pub(crate) fn any_free_page(&mut self, caller: Environment) -> Outcome<PageNumber> {
        match free_list::first(&exposed::kernel().first_free_page) {
            Some(page) => Ok(page),
            None => self.shortage(caller),
        }
    }

    /// This page, if it is free.
    pub(crate) fn this_free_page(&self, page: PageNumber) -> Outcome<PageNumber> {
        let info = self.page(page)?;
        match state(info).kind {
            PageKind::Free => Ok(page),
            _ => refuse(Error::NotFree, info.owner.load(Ordering::Relaxed)),
        }
    }

    /// Takes a free page for an environment, filled with zeros; the budget was checked.
    #[inline(never)]
    pub(crate) fn give_page(&mut self, page: PageNumber, owner: Environment, list: PageNumber) {
        self.give(page, PageNumber::NONE, owner, list);
    }

    /// The same, filled with what lies in an ordinary page, if one is named.
    #[inline(always)]
    pub(crate) fn give(&mut self, page: PageNumber, source: PageNumber, owner: Environment, list: PageNumber) {
        let (kernel, info) = (exposed::kernel(), memory::info(page).expect("a free page has a record"));
        free_list::remove(&kernel.first_free_page, info);
        self.spend(cost::PAGE_TAKE);
        match source {
            PageNumber::NONE => self.memory.take_free(page),
            source => self.memory.take_free_as_copy(page, source),
        }
        subtract(&kernel.free_pages, 1);
        add(&kernel.owned_pages, 1);
        // A free page is under no list.
        put_under(page, info, list);
        set_owner(page, info, owner);
        budget::charge(owner, Resource::Page, 1);
    }

    /// Fills some of the pages that will be taken next with zeros, for a CPU that has nothing else to do; false where
    /// that is done already.
    pub(crate) fn zero_ahead(&mut self) -> bool {
        let kernel = exposed::kernel();
        let list = [&kernel.first_free_page, &kernel.free_pages].map(|word| word.load(Ordering::Relaxed));
        // A walk through pages that all are zeroed takes 2,500 instructions: an idle CPU begins none twice. A list that
        // changed and looks the same is walked when it looks different.
        if self.zeroed_list == list {
            return false;
        }
        let mut next = free_list::first(&kernel.first_free_page);
        let mut zeroed = 0;
        for _ in 0..PAGES_AHEAD {
            let Some(page) = next.filter(|_| zeroed < ZEROED_PER_ENTRY) else { break };
            let info = memory::info(page).expect("a free page has a record");
            if state(info).flags & ZEROED == 0 {
                self.memory.zero_free(page);
                zeroed += 1;
            }
            next = free_list::next(page);
        }
        if zeroed == 0 {
            self.zeroed_list = list;
        }
        zeroed > 0
    }

    /// Charges a page of the boot archive to an environment.
    pub(crate) fn adopt_page(&mut self, page: PageNumber, owner: Environment, list: PageNumber) {
        self.set_access_list(page, Some(list));
        set_owner(page, memory::info(page).expect("a page of the archive has a record"), owner);
        budget::charge(owner, Resource::Page, 1);
    }

    /// Moves a page from one owner to another, with its charge.
    fn pass_page(&mut self, page: PageNumber, from: Environment, to: Environment) {
        self.change_owner(page, from, to);
        budget::discharge(from, Resource::Page, 1);
        budget::charge(to, Resource::Page, 1);
    }

    /// Moves a page from a dead owner to its heir, with its charge and what allowed it. So between two steps of a
    /// destruction, too, no environment uses more than it may.
    pub(crate) fn bequeath_page(&mut self, page: PageNumber, from: Environment, heir: Environment) {
        self.change_owner(page, from, heir);
        budget::pass(from, heir, Resource::Page);
    }

    fn change_owner(&mut self, page: PageNumber, from: Environment, to: Environment) {
        let info = memory::info(page).expect("an owned page has a record");
        free_list::remove(&from.info().pages, info);
        set_owner(page, info, to);
    }

    /// Gives a page up (see `abi::syscall`).
    #[inline(always)]
    pub(crate) fn free_page(&mut self, key: KeyIndex, page: PageNumber) -> Outcome<()> {
        let info = self.page(page)?;
        self.permit_release(key, info)?;
        self.give_up(page, info)
    }

    /// Gives up a page that no environment needs as the object it may be: mostly one that others map still.
    #[inline(always)]
    pub(crate) fn give_up(&mut self, page: PageNumber, info: &'static PageInfo) -> Outcome<()> {
        let found = state(info);
        let stays = found.kind == PageKind::Ordinary && references(info) != 0;
        if !stays || found.flags & (ORPHAN | WATCHED) != 0 {
            return self.give_up_any(page, info);
        }
        self.spend(cost::PAGE_GIVE_UP);
        become_orphan(info);
        Ok(())
    }

    #[inline(never)]
    fn give_up_any(&mut self, page: PageNumber, info: &'static PageInfo) -> Outcome<()> {
        self.spend(cost::PAGE_GIVE_UP);
        let found = state(info);
        let is_mapped = references(info) + device_pins(info) != 0;
        let is_used = match found.kind {
            kind if found.flags & ORPHAN != 0 => return refuse(Error::WrongKind, kind as u64),
            PageKind::Ordinary => is_mapped,
            PageKind::AccessList if users(info) != 0 && access_list(info) != page => {
                return refuse(Error::InUse, u64::from(users(info)));
            }
            PageKind::AccessList => is_mapped || users(info) != 0,
            PageKind::Region if device_pins(info) == 0 => {
                self.memory.dissolve(page);
                is_mapped
            }
            PageKind::PacketRing => {
                self.end_ring(page)?;
                is_mapped
            }
            PageKind::PageTable if links(info) != 0 && found.level != ROOT_LEVEL => true,
            PageKind::PageTable => {
                self.dissolve_free_table(page, info)?;
                is_mapped
            }
            kind => return refuse(Error::WrongKind, kind as u64),
        };
        if is_used {
            become_orphan(info);
        } else {
            self.finish_free(page);
        }
        if found.flags & WATCHED != 0 {
            interrupt::wake_all_idle();
        }
        Ok(())
    }

    /// Frees an orphan that nothing holds any more.
    #[inline]
    pub(crate) fn settle(&mut self, page: PageNumber) {
        let Some(info) = memory::info(page) else { return };
        if state(info).flags & ORPHAN != 0 && references(info) + device_pins(info) == 0 {
            self.settle_orphan(page, info);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_orphan(&mut self, page: PageNumber, info: &PageInfo) {
        match state(info).kind {
            PageKind::Ordinary => {}
            PageKind::AccessList if users(info) == 0 => {}
            _ => return,
        }
        self.spend(cost::PAGE_GIVE_UP);
        memory::set_flags(info, 0, ORPHAN);
        subtract(&exposed::kernel().orphan_pages, 1);
        add(&exposed::kernel().owned_pages, 1);
        self.finish_free(page);
    }

    /// Puts an ordinary page, or an access list, that nothing holds on the free list. Now it counts against an open
    /// revocation: a page that others hold is none that was given back.
    fn finish_free(&mut self, page: PageNumber) {
        let info = memory::info(page).expect("a page that is given up has a record");
        if state(info).kind == PageKind::AccessList {
            self.memory.dissolve(page);
            self.forget();
        }
        let owner = self.owner(info);
        free_list::remove(&owner.info().pages, info);
        budget::discharge(owner, Resource::Page, 1);
        self.note_returned(owner, Resource::Page, 1);
        self.set_access_list(page, None);
        info.owner.store(0, Ordering::Release);
        self.memory.make_free(page);
        let kernel = exposed::kernel();
        free_list::push(&kernel.first_free_page, page, info);
        subtract(&kernel.owned_pages, 1);
        add(&kernel.free_pages, 1);
    }

    /// Frees the first of the pages that are charged to an environment, as long as nothing uses them and they are under
    /// one list: most of what a program leaves. `limit` at most; how many.
    pub(crate) fn free_first(&mut self, owner: Environment, limit: usize) -> usize {
        let (kernel, own) = (exposed::kernel(), &owner.info().pages);
        let Some(first) = free_list::first(own) else { return 0 };
        let list = memory::info(first).map_or(PageNumber::NONE, access_list);
        if list == PageNumber::NONE {
            return 0;
        }
        let (mut next, mut last, mut count) = (Some(first), first, 0);
        while let Some(page) = next.filter(|_| count < limit) {
            let info = memory::info(page).expect("a charged page has a record");
            if !is_unused(info, list) {
                break;
            }
            next = free_list::next(page);
            set_list(info, PageNumber::NONE);
            info.owner.store(0, Ordering::Release);
            self.memory.make_free(page);
            (last, count) = (page, count + 1);
        }
        if count > 0 {
            free_list::move_first(own, &kernel.first_free_page, last);
            budget::discharge(owner, Resource::Page, count as u64);
            subtract(&kernel.owned_pages, count as u64);
            add(&kernel.free_pages, count as u64);
            count_user(list, -(count as i64));
            self.note_returned(owner, Resource::Page, count as u64);
            self.settle(list);
        }
        count
    }

    /// Takes over a page or a page table (see `abi::syscall`). An orphan stays one: it goes with its last use,
    /// whichever environment is charged for it.
    pub(crate) fn claim_page(
        &mut self,
        key: KeyIndex,
        page: PageNumber,
        list_key: KeyIndex,
        list: PageNumber,
    ) -> Outcome<()> {
        let info = self.page(page)?;
        permit(self.rights_on_page(key, info)?, Rights::OWN)?;
        let kind = state(info).kind;
        if !matches!(kind, PageKind::Ordinary | PageKind::PageTable) {
            return refuse(Error::WrongKind, kind as u64);
        }
        permit(self.rights_on_list(list_key, list)?, Rights::OWN)?;
        let (owner, caller) = (self.owner(info), self.caller());
        if owner != caller {
            budget::check(caller, Resource::Page, 1)?;
            self.pass_page(page, owner, caller);
        }
        if access_list(info) != list {
            self.set_access_list(page, Some(list));
        }
        Ok(())
    }

    /// Ends by force the ring that a page is in, and all watching of it. Device pins end with their requests.
    pub(crate) fn end_ring_and_watches(&mut self, page: PageNumber, info: &PageInfo) {
        if state(info).kind == PageKind::Ordinary {
            self.end_ring_of(page, info);
        }
        // A generation says that contents changed hands. No environment sees the contents of an access list, and the
        // creator of a child tells by the generation whether the child has freed its list.
        if state(info).kind != PageKind::AccessList {
            memory::begin_generation(info);
        }
        wake_watchers(info);
        self.settle(page);
    }
}
