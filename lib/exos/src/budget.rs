//! Budgets of processes: each draws from the session's bank when it runs short.
//!
//! The bank is an environment that never runs and holds the unused budget. It bears a name under the session's, so that
//! processes of user 0 take from it themselves; those of other users ask the server, which keeps a part back. What
//! files take of it, and what the server keeps for itself, is the affair of `hw::page_quota`.
//!
//! The last pages of the bank are not for everybody: see [`left_in_bank`].

pub use crate::hw::bank::{left_in_bank, spare, spare_of};
use crate::hw::current::is_adopted;
use crate::hw::domain::domain;
use crate::server::client;
use abi::budget::{Figure, Resource};
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use runtime::page::Allocator;
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, area, clock, exposed, syscall, time_slice};

/// Pages that a process draws at a time.
const PAGES: u64 = 256;
const FOR_ONE_END: u64 = 32;
/// What a process keeps when it gives back.
const KEPT: [(Resource, u64); 4] =
    [(Resource::Page, 256), (Resource::Slice, 4), (Resource::Predicate, 64), (Resource::Environment, 4)];

/// A fresh page under the process's own access list.
pub fn allocate() -> core::result::Result<PageNumber, Failure> {
    match Allocator::own().allocate() {
        Err(Failure { error: Error::OverBudget, .. }) => {
            draw_missing(1);
            Allocator::own().allocate()
        }
        done => done,
    }
}

/// Makes sure that `pages` can be had, as far as the bank goes.
#[inline]
pub fn reserve(pages: u64) {
    match missing(Resource::Page, pages) {
        0 => {}
        missing => draw_missing(missing),
    }
}

#[cold]
fn draw_missing(pages: u64) {
    if draw(Resource::Page, pages.max(PAGES)).is_err() && pages < PAGES {
        let _ = draw(Resource::Page, pages);
    }
}

/// Makes sure that a call which takes about `pages` can have them, so that it is refused before it has begun.
///
/// # Errors
/// `ENOMEM`.
#[inline]
pub fn reserve_or_fail(pages: u64) -> Result<()> {
    if missing(Resource::Page, pages) == 0 { Ok(()) } else { reserve_drawn(pages) }
}

#[cold]
fn reserve_drawn(pages: u64) -> Result<()> {
    reserve(pages);
    if missing(Resource::Page, pages) == 0 || await_pages(pages) { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// Waits a while for pages that the dead still have, if there are any dead: the session buries orphans five times a
/// second. Whether there are so many then.
#[cold]
pub fn await_pages(pages: u64) -> bool {
    const PATIENCE: u64 = 1_000_000_000;
    let deadline = clock::now() + PATIENCE;
    let slots = exposed::kernel().environments.load(Relaxed);
    let is_dead = |info: exposed::Environment| info.remains() && !info.alive();
    while clock::now() < deadline && (0..slots).filter_map(exposed::environment_slot).any(is_dead) {
        time_slice::yield_now();
        reserve(pages);
        if missing(Resource::Page, pages) == 0 {
            return true;
        }
    }
    false
}

/// Gives a part of the own budget to an environment that this one made; it comes back when that dies.
///
/// # Errors
/// The kernel's refusal where there is too little.
pub fn give(to: EnvironmentId, resource: Resource, amount: u64) -> core::result::Result<(), Failure> {
    syscall::budget_move(KeyIndex::FIRST, area::number(), to, resource as u64, Figure::Limit as u64, amount)
}

/// The same of what this process has beyond what it keeps; where that is less, from the bank.
///
/// # Errors
/// The kernel's refusal where the bank has too little.
pub fn grant(to: EnvironmentId, resource: Resource, amount: u64) -> core::result::Result<(), Failure> {
    let kept = KEPT.iter().find(|(other, _)| *other == resource).map_or(0, |(_, kept)| *kept);
    if spare(resource) >= kept + amount { give(to, resource, amount) } else { draw_for(to, resource, amount) }
}

/// Makes sure that so much of a resource can be had.
///
/// # Errors
/// The kernel's refusal where the bank has too little.
pub fn ensure(resource: Resource, amount: u64) -> core::result::Result<(), Failure> {
    match missing(resource, amount) {
        0 => Ok(()),
        missing => draw(resource, missing),
    }
}

/// Does something that may need a few pages, with those pages at hand.
pub fn with_reserve<T>(action: impl FnOnce() -> Result<T>) -> Result<T> {
    const FOR_TABLES: u64 = 8;
    reserve(FOR_TABLES);
    action()
}

/// Takes from the bank.
pub fn draw(resource: Resource, amount: u64) -> core::result::Result<(), Failure> {
    if !is_adopted() {
        return Err(Error::OverBudget.about(resource as u64));
    }
    draw_for(area::number(), resource, amount)
}

/// Takes from the bank for an environment: the running one, or one that it made.
pub fn draw_for(to: EnvironmentId, resource: Resource, amount: u64) -> core::result::Result<(), Failure> {
    let domain = domain();
    if domain.principal.load(Relaxed) != 0 {
        let drawn = client::draw(domain.server, to, resource as u64, amount);
        return drawn.map_err(|_| Error::OverBudget.about(resource as u64));
    }
    if resource == Resource::Page && spare_of(domain.bank, resource) < amount + left_in_bank(area::number()) {
        return Err(Error::OverBudget.about(resource as u64));
    }
    move_from_bank(to, resource, amount)
}

fn move_from_bank(to: EnvironmentId, resource: Resource, amount: u64) -> core::result::Result<(), Failure> {
    let domain = domain();
    syscall::budget_move(domain.session_key, domain.bank, to, resource as u64, Figure::Limit as u64, amount)
}

/// Takes `pages` and a few more for the end of a process that got none the ordinary way.
///
/// # Errors
/// The kernel's refusal, or the server's, where others have ended with what was kept for that.
pub fn draw_for_end(pages: u64) -> core::result::Result<(), Failure> {
    let (domain, amount) = (domain(), pages + FOR_ONE_END);
    if domain.principal.load(Relaxed) != 0 {
        let drawn = client::draw_for_end(domain.server, area::number(), amount);
        return drawn.map_err(|_| Error::OverBudget.about(Resource::Page as u64));
    }
    move_from_bank(area::number(), Resource::Page, amount)
}

/// Pages that the running process could still have.
pub fn pages_for_processes() -> u64 {
    let in_bank = spare_of(domain().bank, Resource::Page).saturating_sub(left_in_bank(area::number()));
    in_bank + spare(Resource::Page)
}

/// Gives to the bank what is more than a process keeps; children's budgets come back to their creator.
pub fn give_back() {
    give_back_beyond(2);
}

/// The same for who does not expect to need any soon.
pub fn give_back_all() {
    give_back_beyond(1);
}

/// Gives to the bank what is more than a process keeps, where it is so many times as much.
fn give_back_beyond(times: u64) {
    let (bank, key) = (domain().bank, domain().session_key);
    for (resource, kept) in KEPT {
        let spare = spare(resource);
        if spare > times * kept {
            let (from, figure) = (area::number(), Figure::Limit as u64);
            let _ = syscall::budget_move(key, from, bank, resource as u64, figure, spare - kept);
        }
    }
}

/// What the session and the server each keep for themselves of so many pages, so that they can go on when processes and
/// files have all others.
pub const fn reserve_of(pages: u64) -> u64 {
    pages / 128 + 256
}

/// What is left of the own budget of pages to hand out, so that every page handed out exists. The limit of the first
/// environment exceeds the number of pages by as much as it has reserved.
pub fn pages_at_hand() -> u64 {
    let reserved = exposed::environment(area::number())
        .map_or(0, |info| info.budget[Resource::Page as usize].reserved.load(Relaxed));
    spare(Resource::Page).saturating_sub(reserved)
}

/// How much the own budget lacks for so much more to be had. It can be used beyond its limit: what a child leaves that
/// cannot be given up is charged to its maker before what the child might use comes back.
#[inline]
fn missing(resource: Resource, amount: u64) -> u64 {
    let Some(info) = exposed::environment(area::number()) else { return amount };
    let budget = &info.budget[resource as usize];
    (budget.used.load(Relaxed) + amount).saturating_sub(budget.limit.load(Relaxed))
}

/// All pages of the machine.
pub fn total_pages() -> u64 {
    let kernel = exposed::kernel();
    [&kernel.free_pages, &kernel.owned_pages, &kernel.orphan_pages, &kernel.kernel_pages, &kernel.cached_pages]
        .map(|word| word.load(Relaxed))
        .iter()
        .sum()
}

/// Puts pages under another list, on this process's account. What may not be taken stays where it is: then the process
/// can use it, and its children cannot.
pub fn claim_under(pages: &[PageNumber], list: PageNumber) {
    reserve(pages.len() as u64);
    let key: KeyIndex = domain().session_key;
    for page in pages {
        let _ = syscall::page_claim(key, *page, key, list);
    }
}
