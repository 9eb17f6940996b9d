//! Upcalls that wait: events, revocation, repossession, emergency (DESIGN.md §4, "Upcall and exception").
//!
//! The event bits and the pending bits of the private page are the whole state: an environment that fakes them only
//! calls itself. They are delivered at the next entry of the environment outside a critical section.

use crate::environment::Environment;
use crate::interrupt;
use crate::kernel::{Kernel, Outcome, refuse};
use abi::area::{PENDING_EMERGENCY, PENDING_EVENT, PENDING_REPOSSESSION, PENDING_REVOCATION, PrivateWords};
use abi::capability::Rights;
use abi::upcall::kind;
use abi::{EnvironmentId, Error, KeyIndex};
use core::sync::atomic::Ordering;
use machine::context::{Context, Entry, Upcall};

/// An upcall that waited.
pub(crate) struct Waiting(pub(crate) Upcall);

/// Pending bits that are upcalls of their own, in the order of delivery.
const KINDS: [(u64, u64); 3] = [
    (PENDING_EMERGENCY, kind::EMERGENCY),
    (PENDING_REPOSSESSION, kind::REPOSSESSION),
    (PENDING_REVOCATION, kind::REVOCATION),
];
const DELIVERED_BITS: u64 = PENDING_EMERGENCY | PENDING_REPOSSESSION | PENDING_REVOCATION;

impl Kernel {
    /// Raises event bits (see `abi::syscall`).
    pub(crate) fn raise_event(&mut self, key: KeyIndex, to: EnvironmentId, bits: u64) -> Outcome<()> {
        let target = self.living(to)?;
        if bits == 0 {
            return refuse(Error::BadArgument, 2);
        }
        let words = self.context_of(target).private_words();
        if bits & !words.events_accepted.load(Ordering::Relaxed) != 0 {
            self.require(key, &target.name(), Rights::WRITE)?;
        }
        self.raise(target, bits);
        Ok(())
    }

    /// Raises event bits of an environment that lives.
    pub(crate) fn raise(&mut self, target: Environment, bits: u64) {
        let words = self.context_of(target).private_words();
        let raised = words.events.fetch_or(bits, Ordering::AcqRel);
        let pending = words.pending.fetch_or(PENDING_EVENT, Ordering::AcqRel);
        // The first of the events that wait has made it look.
        if raised == 0 || pending & PENDING_EVENT == 0 {
            self.notify(target);
        }
    }

    /// Makes an environment look at what waits for it: at once if it runs, else when its slice comes.
    pub(crate) fn notify(&mut self, target: Environment) {
        self.attention.set(true);
        let context = self.context_of(target);
        match machine::entry::runner_of(context) {
            Some(cpu) => interrupt::kick(cpu),
            // Some CPU is just entering it.
            None if context.is_claimed() => (0..machine::exposed::cpu_count()).for_each(interrupt::kick),
            None => interrupt::wake_all_idle(),
        }
    }

    /// Makes an upcall wait for an environment.
    pub(crate) fn post(&mut self, target: Environment, pending: u64) {
        self.context_of(target).private_words().pending.fetch_or(pending, Ordering::AcqRel);
        self.notify(target);
    }

    /// Whether an upcall waits that can be delivered.
    pub(crate) fn is_waited_for(&self, environment: Environment) -> bool {
        let context = self.context_of(environment);
        let words = context.private_words();
        context.declares(Entry::Event) && words.critical_section.load(Ordering::Relaxed) == 0 && waiting(words) != 0
    }

    /// The next upcall that waits, taken.
    pub(crate) fn take_waiting(&mut self, context: &Context, environment: Environment) -> Option<Waiting> {
        let words = context.private_words();
        if words.critical_section.load(Ordering::Relaxed) != 0 || !context.declares(Entry::Event) {
            return None;
        }
        take_event(words).or_else(|| take_pending(words, environment)).map(Waiting)
    }
}

/// Not 0: an upcall waits.
#[inline(always)]
pub(crate) fn waiting(words: &PrivateWords) -> u64 {
    words.events.load(Ordering::Relaxed) | words.pending.load(Ordering::Relaxed) & DELIVERED_BITS
}

fn take_event(words: &PrivateWords) -> Option<Upcall> {
    if words.events.load(Ordering::Relaxed) == 0 {
        return None;
    }
    words.pending.fetch_and(!PENDING_EVENT, Ordering::AcqRel);
    let bits = words.events.swap(0, Ordering::AcqRel);
    (bits != 0).then_some(Upcall { entry: Entry::Event, kind: kind::EVENT, error: 0, detail: bits })
}

fn take_pending(words: &PrivateWords, environment: Environment) -> Option<Upcall> {
    let pending = words.pending.load(Ordering::Relaxed);
    let (bit, kind) = KINDS.into_iter().find(|(bit, _)| pending & bit != 0)?;
    words.pending.fetch_and(!bit, Ordering::AcqRel);
    let info = environment.info();
    let resource = info.revocation_resource.load(Ordering::Relaxed).saturating_sub(1);
    let detail = info.revocation_count.load(Ordering::Relaxed);
    Some(Upcall { entry: Entry::Event, kind, error: resource, detail })
}
