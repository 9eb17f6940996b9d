//! Budgets: what each environment may hold of each resource, and who is asked first when there is too little.
//!
//! Invariants: `used` is at most `limit`; the reservations of all environments together are at most what there is.
//! Limits may come to more than that: the first environment has all pages reserved, and a limit of twice as many to
//! hand out. A dead environment's figures go to its heir, with the charge for what is still in use.

use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, refuse};
use abi::budget::{Figure, Resource};
use abi::capability::Rights;
use abi::environment::Budget;
use abi::limits::DEVICE_PINS;
use abi::{EnvironmentId, Error, Failure, KeyIndex};
use core::sync::atomic::{AtomicU64, Ordering};
use machine::exposed::{add, subtract};

/// How much more may be charged.
#[inline(always)]
pub(crate) fn left(environment: Environment, resource: Resource) -> u64 {
    let budget = environment.budget(resource);
    budget.limit.load(Ordering::Relaxed).saturating_sub(budget.used.load(Ordering::Relaxed))
}

/// Fails if charging `amount` more would exceed the limit.
pub(crate) fn check(environment: Environment, resource: Resource, amount: u64) -> Result<(), Failure> {
    if amount <= left(environment, resource) { Ok(()) } else { Err(Error::OverBudget.about(resource as u64)) }
}

/// Charges; the caller has checked.
pub(crate) fn charge(environment: Environment, resource: Resource, amount: u64) {
    add(&environment.budget(resource).used, amount);
}

/// Takes a charge back.
pub(crate) fn discharge(environment: Environment, resource: Resource, amount: u64) {
    subtract(&environment.budget(resource).used, amount);
}

/// Fails if so many more device pins would exceed the limit, or what an environment may have at all.
pub(crate) fn check_pins(environment: Environment, count: u64) -> Result<(), Failure> {
    if environment.info().device_pins.load(Ordering::Relaxed) + count > DEVICE_PINS {
        return Err(Error::TooMany.about(DEVICE_PINS));
    }
    check(environment, Resource::Pin, count)
}

/// Charges device pins; the caller has checked.
pub(crate) fn charge_pins(environment: Environment, count: u64) {
    add(&environment.info().device_pins, count);
    charge(environment, Resource::Pin, count);
}

/// Takes a charge of device pins back.
pub(crate) fn discharge_pins(environment: Environment, count: u64) {
    subtract(&environment.info().device_pins, count);
    discharge(environment, Resource::Pin, count);
}

/// By how much an environment uses more than its reservation.
pub(crate) fn above_reservation(environment: Environment, resource: Resource) -> u64 {
    let budget = environment.budget(resource);
    budget.used.load(Ordering::Relaxed).saturating_sub(budget.reserved.load(Ordering::Relaxed))
}

/// Whether an environment uses less than its reservation.
pub(crate) fn is_below_reservation(environment: Environment, resource: Resource) -> bool {
    let budget = environment.budget(resource);
    budget.used.load(Ordering::Relaxed) < budget.reserved.load(Ordering::Relaxed)
}

/// Moves the charge for one thing from one environment to another, with what allowed it.
pub(crate) fn pass(from: Environment, to: Environment, resource: Resource) {
    let (from, to) = (from.budget(resource), to.budget(resource));
    for (source, target) in [(&from.limit, &to.limit), (&from.used, &to.used)] {
        subtract(source, 1);
        add(target, 1);
    }
}

/// Gives all figures of a dead environment to its heir.
pub(crate) fn bequeath(from: Environment, to: Environment) {
    for resource in Resource::ALL {
        let (from, to) = (from.budget(resource), to.budget(resource));
        move_all(&from.limit, &to.limit);
        move_all(&from.reserved, &to.reserved);
        move_all(&from.used, &to.used);
    }
}

fn move_all(from: &AtomicU64, to: &AtomicU64) {
    add(to, from.swap(0, Ordering::AcqRel));
}

/// What may be moved away of a figure.
fn movable(budget: &Budget, figure: Figure) -> u64 {
    let limit = budget.limit.load(Ordering::Relaxed);
    match figure {
        Figure::Limit => limit - budget.used.load(Ordering::Relaxed),
        Figure::Reserved => budget.reserved.load(Ordering::Relaxed),
    }
}

impl Kernel {
    /// Moves part of a budget (see `abi::syscall`).
    pub(crate) fn move_budget(
        &mut self,
        key: KeyIndex,
        from: EnvironmentId,
        to: EnvironmentId,
        resource: u64,
        figure: u64,
        amount: u64,
    ) -> Outcome<()> {
        let (giver, receiver) = (self.remaining(from)?, self.living(to)?);
        if giver != self.caller() {
            self.require(key, &giver.name(), Rights::OWN)?;
        }
        let Some(resource) = Resource::from_number(resource) else { return refuse(Error::BadArgument, 3) };
        let figure = match figure {
            0 => Figure::Limit,
            1 => Figure::Reserved,
            _ => return refuse(Error::BadArgument, 4),
        };
        let (giver, receiver) = (giver.budget(resource), receiver.budget(resource));
        if amount > movable(giver, figure) {
            return refuse(Error::OverBudget, resource as u64);
        }
        let (source, target) = match figure {
            Figure::Limit => (&giver.limit, &receiver.limit),
            Figure::Reserved => (&giver.reserved, &receiver.reserved),
        };
        subtract(source, amount);
        add(target, amount);
        Ok(())
    }
}
