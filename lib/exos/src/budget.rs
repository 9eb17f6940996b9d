//! Budgets of processes: each draws from the session's bank when it runs short.
//!
//! The bank is an environment that never runs and holds what no process uses. It bears a name under the session's, so
//! that processes of user 0 take from it themselves; those of other users ask the guardian, which keeps a part back.

use crate::errno::Result;
use crate::guardian::client;
use crate::user_memory::current::{is_adopted, process};
use abi::budget::{Figure, Resource};
use core::sync::atomic::Ordering::Relaxed;
use runtime::page::Allocator;
use runtime::{EnvironmentId, Error, Failure, PageNumber, area, exposed, syscall};

/// Pages that a process draws at a time.
const PAGES: u64 = 256;
/// What a process keeps when it gives back.
const KEPT: [(Resource, u64); 4] =
    [(Resource::Page, 1024), (Resource::Slice, 4), (Resource::Predicate, 64), (Resource::Environment, 4)];

/// A fresh page under the process's own access list.
pub fn allocate() -> core::result::Result<PageNumber, Failure> {
    match Allocator::own().allocate() {
        Err(Failure { error: Error::OverBudget, .. }) => {
            draw(Resource::Page, PAGES)?;
            Allocator::own().allocate()
        }
        done => done,
    }
}

/// Makes sure that `pages` can be had, as far as the bank goes.
#[inline]
pub fn reserve(pages: u64) {
    let spare = spare(Resource::Page);
    if spare < pages {
        draw_missing(pages - spare);
    }
}

#[cold]
fn draw_missing(pages: u64) {
    let _ = draw(Resource::Page, pages.max(PAGES));
}

/// Makes sure that so much of a resource can be had.
///
/// # Errors
/// The kernel's refusal where the bank has too little.
pub fn ensure(resource: Resource, amount: u64) -> core::result::Result<(), Failure> {
    match amount.saturating_sub(spare(resource)) {
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
    let process = process();
    if process.principal.load(Relaxed) != 0 {
        let drawn = client::draw(process.guardian, to, resource as u64, amount);
        return drawn.map_err(|_| Error::OverBudget.about(resource as u64));
    }
    syscall::budget_move(process.session_key, process.bank, to, resource as u64, Figure::Limit as u64, amount)
}

/// Gives to the bank what is more than a process keeps; children's budgets come back to their creator.
pub fn give_back() {
    let (bank, key) = (process().bank, process().session_key);
    for (resource, kept) in KEPT {
        let spare = spare(resource);
        if spare > 2 * kept {
            let (from, figure) = (area::number(), Figure::Limit as u64);
            let _ = syscall::budget_move(key, from, bank, resource as u64, figure, spare - kept);
        }
    }
}

/// What is left of the own budget of pages to hand out, so that all that is handed out is there: the first environment's limit is
/// by as much more than there is as it has reserved.
pub fn pages_at_hand() -> u64 {
    let reserved = exposed::environment(area::number())
        .map_or(0, |info| info.budget[Resource::Page as usize].reserved.load(Relaxed));
    spare(Resource::Page).saturating_sub(reserved)
}

/// What is left of the own budget.
#[inline]
pub fn spare(resource: Resource) -> u64 {
    spare_of(area::number(), resource)
}

/// What is left of an environment's budget.
#[inline]
pub fn spare_of(environment: EnvironmentId, resource: Resource) -> u64 {
    let Some(info) = exposed::environment(environment) else { return 0 };
    let budget = &info.budget[resource as usize];
    budget.limit.load(Relaxed).saturating_sub(budget.used.load(Relaxed))
}
