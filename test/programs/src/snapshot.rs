//! A snapshot of what the kernel exposes, to show that refused calls changed nothing: page records, environments,
//! positions, and counts, each folded into one number.
//!
//! Left out is what changes without a call: time, slices begun, the running environment, and terms that were looked at.
//! So is the flag of free pages that an idle CPU has filled with zeros.

use crate::child::eventually;
use crate::{Outcome, check};
use abi::PageNumber;
use abi::page::ZEROED;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use runtime::exposed;

/// What was exposed at some time. Two are equal when nothing changed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pages: u64,
    environments: u64,
    positions: u64,
    counts: [u64; 8],
}

impl Snapshot {
    /// What is exposed now.
    pub fn take() -> Self {
        Self { pages: pages(), environments: environments(), positions: positions(), counts: counts() }
    }

    /// The exposed state once it is stable: the creator of this environment may be about to sleep.
    ///
    /// # Errors
    /// When that does not come.
    pub fn settled() -> Result<Self, alloc::string::String> {
        let mut last = Self::take();
        let still = eventually(|| {
            runtime::time_slice::yield_now();
            let now = Self::take();
            core::mem::replace(&mut last, now) == now
        });
        check!(still, "what is exposed does not come to rest");
        Ok(last)
    }

    /// Fails unless nothing has changed since; `after` says what was done.
    ///
    /// # Errors
    /// Which records are others.
    pub fn is_unchanged(&self, after: &str) -> Outcome {
        let now = Self::take();
        check!(now.counts == self.counts, "{after} the counts {:?} became {:?}", self.counts, now.counts);
        check!(now.pages == self.pages, "{after} a page's record is another");
        check!(now.environments == self.environments, "{after} an environment's record is another");
        check!(now.positions == self.positions, "{after} a position is somebody else's");
        Ok(())
    }
}

/// One number of many words: another one for other words, or the same in another order.
struct Sum(u64);

impl Sum {
    const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn add_all(&mut self, words: &[&AtomicU64]) {
        words.iter().for_each(|word| self.add(word.load(Acquire)));
    }
}

fn pages() -> u64 {
    let mut sum = Sum::EMPTY;
    for page in (0..exposed::kernel().pages.load(Acquire)).filter_map(|number| exposed::page(PageNumber(number))) {
        sum.add(page.state.load(Acquire) & !(u64::from(ZEROED) << 8));
        sum.add_all(&[&page.owner, &page.access, &page.holds, &page.neighbours]);
        sum.add_all(&[&page.last_use, &page.block, &page.parent]);
    }
    sum.0
}

fn environments() -> u64 {
    let mut sum = Sum::EMPTY;
    for info in (0..exposed::kernel().environments.load(Acquire)).filter_map(exposed::environment_slot) {
        sum.add_all(&[&info.number, &info.state, &info.creator, &info.root, &info.control, &info.public, &info.area]);
        sum.add_all(&[&info.pages, &info.key_ring, &info.first_child, &info.siblings]);
        sum.add_all(&[&info.death_reason, &info.death_kind, &info.death_address, &info.death_rip, &info.death_by]);
        sum.add_all(&[&info.revocation_resource, &info.revocation_count, &info.revocation_deadline]);
        sum.add_all(&info.name.each_ref());
        info.budget.iter().for_each(|budget| sum.add_all(&[&budget.limit, &budget.reserved, &budget.used]));
    }
    sum.0
}

fn positions() -> u64 {
    let mut sum = Sum::EMPTY;
    let slices = (0..exposed::kernel().cpus.load(Acquire)).flat_map(exposed::slices);
    slices.for_each(|slice| sum.add_all(&[&slice.owner, &slice.runner]));
    sum.0
}

fn counts() -> [u64; 8] {
    let kernel = exposed::kernel();
    [
        &kernel.free_pages,
        &kernel.owned_pages,
        &kernel.orphan_pages,
        &kernel.cached_pages,
        &kernel.kernel_pages,
        &kernel.first_free_page,
        &kernel.reserved_pages,
        &kernel.binding_events,
    ]
    .map(|count| count.load(Acquire))
}
