//! What budgets have left, and what of it stays in the bank.

use abi::budget::Resource;
use core::sync::atomic::Ordering::Relaxed;
use runtime::{EnvironmentId, area, exposed};

/// Pages that stay in the bank for processes that end for lack of pages.
pub const FOR_ENDS: u64 = 256;

/// Pages that an environment leaves in the bank: a few for processes that end, and more the more pages the environment
/// has. So where one process has nearly all, the others can work until it has ended.
pub fn left_in_bank(environment: EnvironmentId) -> u64 {
    const PART: u64 = 128;
    let own = exposed::environment(environment);
    FOR_ENDS + own.map_or(0, |own| own.budget[Resource::Page as usize].used.load(Relaxed)) / PART
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
