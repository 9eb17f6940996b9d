//! A shadow of what the kernel exposes: what every record must say, by the account of the actor.
//!
//! The actor keeps the shadow in pages that it shows read-only to an observer. The observer holds no key at all; it
//! reads the exposed structures, counts again what can be counted from them, and compares both with the shadow.

use abi::budget::Resource;
use abi::environment::State;
use abi::limits::{PAGE_SIZE, SLICES_PER_CPU};
use abi::page::{NO_PAGE, ORPHAN, PageKind};
use abi::{EnvironmentId, PageNumber};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::exposed;

/// Where the shadow lies, in both address spaces.
pub const ADDRESS: u64 = 0x3000_0000;
/// Environments that one shadow tells of.
pub const ENVIRONMENTS: usize = 64;
/// CPUs that it tells of.
pub const CPUS: usize = 4;
/// Pages that it can say were taken by force.
pub const FORCED: usize = 64;
/// Kind, orphan bit and level: what the shadow has of the state of a page.
const STATE: u64 = 0xff_00ff | (ORPHAN as u64) << 8;

/// What a page's record must say, word by word as in `abi::page::PageInfo`.
#[repr(C)]
#[derive(Debug)]
pub struct PageShadow {
    /// Kind, orphan bit, level.
    pub state: AtomicU64,
    /// The environment that is charged.
    pub owner: AtomicU64,
    /// Access list and references.
    pub access: AtomicU64,
    /// Pins, and links or users.
    pub holds: AtomicU64,
}

/// What an environment's record must say.
#[repr(C)]
#[derive(Debug)]
pub struct EnvironmentShadow {
    /// Its number; 0: the end of the list.
    pub number: AtomicU64,
    /// State, creator, reason of its death, who ended it.
    pub facts: [AtomicU64; 4],
    /// Limit, reservation and use of each resource.
    pub budget: [[AtomicU64; 3]; Resource::COUNT],
}

/// The whole shadow; the pages' shadows lie behind it.
#[repr(C)]
#[derive(Debug)]
pub struct Shadow {
    /// Counted up by the actor when the shadow is ready to be compared.
    pub step: AtomicU64,
    /// Pages taken from the observer by force, in this order, and how many.
    pub forced: [AtomicU64; FORCED],
    /// See `forced`.
    pub forced_count: AtomicU64,
    /// The environments that there are or were.
    pub environments: [EnvironmentShadow; ENVIRONMENTS],
    /// The owner of each position.
    pub slices: [[AtomicU64; SLICES_PER_CPU]; CPUS],
}

/// Where the first difference was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which comparison: the line of this file.
    pub line: u64,
    /// Page, slot, or position.
    pub place: u64,
    /// What is exposed.
    pub found: u64,
    /// What it should be.
    pub wanted: u64,
}

macro_rules! same {
    ($place:expr, $found:expr, $wanted:expr) => {
        let (found, wanted) = ($found, $wanted);
        if found != wanted {
            return Err(Difference { line: u64::from(line!()), place: $place, found, wanted });
        }
    };
}

/// Pages of memory that a shadow takes.
pub fn pages_needed() -> u64 {
    let bytes = size_of::<Shadow>() as u64 + exposed::kernel().pages.load(Relaxed) * size_of::<PageShadow>() as u64;
    bytes.div_ceil(PAGE_SIZE)
}

impl Shadow {
    /// The shadow at [`ADDRESS`].
    ///
    /// # Safety
    /// Pages of zeros, or of a shadow, are mapped there for as long as the program runs.
    pub unsafe fn mapped() -> &'static Self {
        // SAFETY: as the caller says; a shadow is made of atomics, for which zero is a value.
        unsafe { &*(ADDRESS as *const Self) }
    }

    /// What the records of all pages must say.
    pub fn pages(&self) -> &[PageShadow] {
        let count = exposed::kernel().pages.load(Relaxed) as usize;
        // SAFETY: the shadow was mapped with room for as many, `pages_needed`.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).add(1).cast(), count) }
    }

    /// Takes over everything as it is now.
    pub fn copy_what_is(&self) {
        for (shadow, number) in self.pages().iter().zip(0..) {
            let Some(page) = exposed::page(PageNumber(number)) else { continue };
            let words = [page.state.load(Acquire) & STATE, page.owner.load(Acquire), page.access.load(Acquire)];
            for (word, value) in [&shadow.state, &shadow.owner, &shadow.access].into_iter().zip(words) {
                word.store(value, Relaxed);
            }
            shadow.holds.store(page.holds.load(Acquire), Relaxed);
        }
        let slots = 0..exposed::kernel().environments.load(Relaxed);
        let lives = |info: &exposed::Environment| info.alive();
        for (shadow, info) in self.environments.iter().zip(slots.filter_map(exposed::environment_slot).filter(lives)) {
            shadow.number.store(info.number.load(Acquire), Relaxed);
            shadow.facts[0].store(State::Alive as u64, Relaxed);
            shadow.facts[1].store(info.creator.load(Acquire), Relaxed);
            for (figures, budget) in shadow.budget.iter().zip(&info.budget) {
                for (figure, word) in figures.iter().zip([&budget.limit, &budget.reserved, &budget.used]) {
                    figure.store(word.load(Acquire), Relaxed);
                }
            }
        }
        for cpu in 0..exposed::kernel().cpus.load(Relaxed) {
            for (shadow, slice) in self.slices[cpu as usize].iter().zip(exposed::slices(cpu)) {
                shadow.store(slice.owner.load(Acquire), Relaxed);
            }
        }
    }

    /// The shadow of an environment; of a new one, the first that is unused.
    pub fn environment(&self, number: EnvironmentId) -> &EnvironmentShadow {
        let known = |shadow: &&EnvironmentShadow| [0, number.0].contains(&shadow.number.load(Relaxed));
        let found = self.environments.iter().find(known).expect("the list of environments is full");
        found.number.store(number.0, Relaxed);
        found
    }

    /// Compares everything.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self) -> Result<(), Difference> {
        self.compare_pages()?;
        recount_pages()?;
        self.compare_environments()?;
        self.compare_slices()
    }

    fn compare_pages(&self) -> Result<(), Difference> {
        for (shadow, number) in self.pages().iter().zip(0..) {
            let Some(page) = exposed::page(PageNumber(number)) else { continue };
            same!(number, page.state.load(Acquire) & STATE, shadow.state.load(Relaxed));
            same!(number, page.owner.load(Acquire), shadow.owner.load(Relaxed));
            same!(number, page.access.load(Acquire), shadow.access.load(Relaxed));
            same!(number, page.holds.load(Acquire), shadow.holds.load(Relaxed));
        }
        Ok(())
    }

    fn compare_environments(&self) -> Result<(), Difference> {
        for slot in 0..exposed::kernel().environments.load(Relaxed) {
            let Some(info) = exposed::environment_slot(slot) else { continue };
            let number = info.number.load(Acquire);
            if number == 0 {
                same!(slot, info.state.load(Acquire), State::Free as u64);
                continue;
            }
            let known = |shadow: &&EnvironmentShadow| shadow.number.load(Relaxed) == number;
            let Some(shadow) = self.environments.iter().find(known) else {
                same!(slot, number, 0);
                continue;
            };
            let facts = [&info.state, &info.creator, &info.death_reason, &info.death_by];
            for (found, wanted) in facts.into_iter().zip(&shadow.facts) {
                same!(slot, found.load(Acquire), wanted.load(Relaxed));
            }
            for (found, wanted) in info.budget.iter().zip(&shadow.budget) {
                for (found, wanted) in [&found.limit, &found.reserved, &found.used].into_iter().zip(wanted) {
                    same!(slot, found.load(Acquire), wanted.load(Relaxed));
                }
            }
        }
        Ok(())
    }

    fn compare_slices(&self) -> Result<(), Difference> {
        for cpu in 0..exposed::kernel().cpus.load(Relaxed) {
            for (place, (slice, shadow)) in (0..).zip(exposed::slices(cpu).iter().zip(&self.slices[cpu as usize])) {
                same!(cpu << 32 | place, slice.owner.load(Acquire), shadow.load(Relaxed));
                same!(cpu << 32 | place, slice.runner.load(Acquire), shadow.load(Relaxed));
            }
        }
        Ok(())
    }
}

/// Counts the pages by their records, walks every list, and compares with what is exposed of both.
fn recount_pages() -> Result<(), Difference> {
    let kernel = exposed::kernel();
    let [mut free, mut kernels, mut owned, mut orphans, mut owners] = [0; 5];
    for page in (0..kernel.pages.load(Relaxed)).filter_map(|number| exposed::page(PageNumber(number))) {
        let state = page.state.load(Acquire);
        let is_orphan = state & u64::from(ORPHAN) << 8 != 0;
        match page.kind() {
            PageKind::Free => free += 1,
            PageKind::Kernel => kernels += 1,
            PageKind::Absent => {}
            _ if is_orphan => orphans += 1,
            _ => owned += 1,
        }
        owners += u64::from(page.owner.load(Acquire) != 0);
    }
    same!(0, kernel.free_pages.load(Acquire), free);
    same!(1, kernel.kernel_pages.load(Acquire), kernels);
    same!(2, kernel.owned_pages.load(Acquire), owned);
    same!(3, kernel.orphan_pages.load(Acquire), orphans);
    same!(4, owned + orphans, owners);
    same!(5, walk(kernel.first_free_page.load(Acquire), |page| page.kind() == PageKind::Free), free);
    let mut listed = 0;
    for info in (0..kernel.environments.load(Relaxed)).filter_map(exposed::environment_slot) {
        if !info.alive() {
            continue;
        }
        let number = info.number.load(Acquire);
        let count = walk(info.pages.load(Acquire), |page| page.owner.load(Acquire) == number);
        same!(number, info.budget[Resource::Page as usize].used.load(Acquire), count);
        listed += count;
    }
    same!(6, listed, owners);
    Ok(())
}

/// The length of a list of pages, each of which must belong there; a list that goes round is longer than all pages.
fn walk(first: u64, belongs: impl Fn(exposed::Page) -> bool) -> u64 {
    let most = exposed::kernel().pages.load(Relaxed) as usize + 1;
    let first = Some(PageNumber(first & 0xffff_ffff)).filter(|page| page.0 != u64::from(NO_PAGE));
    let pages = core::iter::successors(first, |number| exposed::page(*number)?.next());
    pages.take(most).filter(|number| exposed::page(*number).is_some_and(&belongs)).count() as u64
}

/// Adds to a word of a shadow; with a number below zero takes away.
pub fn add(word: &AtomicU64, amount: i64) {
    word.store(word.load(Relaxed).wrapping_add_signed(amount), Release);
}
