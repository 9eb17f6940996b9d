//! What the kernel exposes, as safe typed views: read-only words that change under the reader.
//!
//! Single words are always whole. Where several belong together, [`Environment::consistent`] and [`Page::consistent`]
//! read until the record did not change meanwhile.

extern crate alloc;

use abi::device::DeviceInfo;
use abi::environment::{EnvironmentInfo, State};
use abi::exposed::{CpuInfo, KernelInfo};
use abi::interface::InterfaceInfo;
use abi::limits::{DEVICES, INTERFACES, SLICES_PER_CPU};
use abi::memory_map::{
    EXPOSED_CPUS, EXPOSED_DEVICES, EXPOSED_ENVIRONMENTS, EXPOSED_FILTERS, EXPOSED_INTERFACES, EXPOSED_KERNEL,
    EXPOSED_PAGES, EXPOSED_SLICES,
};
use abi::packet_filter::FilterInfo;
use abi::page::{EIGHTHS_SHIFT, NO_PAGE, ORPHAN, PageInfo, PageKind};
use abi::time_slice::SliceInfo;
use abi::{EnvironmentId, PageNumber};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU64, fence};

/// Walks over the pages of an environment, at most: each but the last met a page that was just freed.
const WALKS: usize = 1000;

/// What the kernel says of itself.
#[inline]
pub fn kernel() -> &'static KernelInfo {
    // SAFETY: the kernel maps this record read-only at this address in every address space; all its fields are atomics.
    unsafe { &*(EXPOSED_KERNEL as *const KernelInfo) }
}

/// Whether a bit of [`abi::feature`] is set.
#[inline]
pub fn has(feature: u64) -> bool {
    kernel().features.load(Relaxed) & feature != 0
}

/// The CPU with this number, if it runs.
#[inline]
pub fn cpu(number: u64) -> Option<&'static CpuInfo> {
    // SAFETY: as for `kernel`: the table has as many records as CPUs run.
    (number < kernel().cpus.load(Relaxed)).then(|| unsafe { &*(EXPOSED_CPUS as *const CpuInfo).add(number as usize) })
}

/// The records of devices; those that the machine does not have are of kind `NONE`.
pub fn devices() -> &'static [DeviceInfo] {
    // SAFETY: as for `kernel`: the table always has so many records.
    unsafe { core::slice::from_raw_parts(EXPOSED_DEVICES as *const DeviceInfo, DEVICES) }
}

/// The index and the record of the device of a kind with this number, if the machine has it.
pub fn device(kind: u64, number: u64) -> Option<(u64, &'static DeviceInfo)> {
    let is_it = |info: &&DeviceInfo| info.kind.load(Acquire) == kind && info.number.load(Acquire) == number;
    let index = devices().iter().position(|info| is_it(&info))?;
    Some((index as u64, &devices()[index]))
}

/// The records of interfaces; empty where the machine has no network.
pub fn interfaces() -> &'static [InterfaceInfo] {
    let count = if kernel().filters.load(Relaxed) == 0 { 0 } else { INTERFACES };
    // SAFETY: as for `kernel`: the table has so many records where there are records of filters.
    unsafe { core::slice::from_raw_parts(EXPOSED_INTERFACES as *const InterfaceInfo, count) }
}

/// The records of filters; empty where the machine has no network.
pub fn filters() -> &'static [FilterInfo] {
    let count = kernel().filters.load(Relaxed) as usize;
    // SAFETY: as for `kernel`: the table has so many records.
    unsafe { core::slice::from_raw_parts(EXPOSED_FILTERS as *const FilterInfo, count) }
}

/// Every CPU, from number 0 on.
#[inline]
pub fn cpus() -> impl Iterator<Item = &'static CpuInfo> {
    (0..kernel().cpus.load(Relaxed)).map_while(cpu)
}

/// Whether an environment runs on some CPU now.
pub fn runs(environment: EnvironmentId) -> bool {
    cpus().any(|cpu| cpu.environment.load(Relaxed) == environment.0 & u64::from(u32::MAX))
}

/// The slice vector of a CPU; empty where there is no such CPU.
pub fn slices(cpu: u64) -> &'static [SliceInfo] {
    if cpu >= kernel().cpus.load(Relaxed) {
        return &[];
    }
    let first = EXPOSED_SLICES as *const SliceInfo;
    // SAFETY: as for `kernel`: the table has SLICES_PER_CPU records for each CPU that runs.
    unsafe { core::slice::from_raw_parts(first.add(cpu as usize * SLICES_PER_CPU), SLICES_PER_CPU) }
}

/// The record of a page, exposed.
#[derive(Clone, Copy, Debug)]
pub struct Page(&'static PageInfo);

/// The page with this number, if the machine has such a number.
#[inline]
pub fn page(number: PageNumber) -> Option<Page> {
    if number.0 >= kernel().pages.load(Relaxed) {
        return None;
    }
    // SAFETY: as for `kernel`: the table has a record for each number below `pages`.
    Some(Page(unsafe { &*(EXPOSED_PAGES as *const PageInfo).add(number.0 as usize) }))
}

/// A page as it was when its number was noted: number (0..32), generation (32..64). An environment that finds one in
/// memory, and has mapped the page, knows by it whether the page was given up in between, and is something else now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStamp(pub u64);

impl PageStamp {
    /// No page.
    pub const NONE: Self = Self(0);

    /// A page as it is now.
    #[inline]
    pub fn of(number: PageNumber) -> Self {
        page(number).map_or(Self::NONE, |info| Self(info.generation() << 32 | number.0))
    }

    /// Its number.
    #[inline]
    pub const fn page(self) -> PageNumber {
        if self.0 == Self::NONE.0 { PageNumber::NONE } else { PageNumber(self.0 & 0xffff_ffff) }
    }

    /// Whether the page is still what it was. Once it is mapped it stays that.
    #[inline]
    pub fn is_current(self) -> bool {
        Self::of(self.page()) == self
    }
}

impl Deref for Page {
    type Target = PageInfo;
    #[inline]
    fn deref(&self) -> &PageInfo {
        self.0
    }
}

impl Page {
    /// What it is.
    #[inline]
    pub fn kind(self) -> PageKind {
        PageKind::from_number(self.state.load(Acquire) as u8)
    }
    /// Changes whenever its contents are gone, or others see them.
    #[inline]
    pub fn generation(self) -> u64 {
        self.state.load(Acquire) >> 32
    }
    /// Its flags: [`abi::page::ZEROED`] and the others.
    #[inline]
    pub fn flags(self) -> u8 {
        (self.state.load(Acquire) >> 8) as u8
    }
    /// Level of a page table.
    #[inline]
    pub fn level(self) -> u64 {
        self.state.load(Acquire) >> 16 & 0xff
    }
    /// The environment that is charged for it.
    #[inline]
    pub fn owner(self) -> EnvironmentId {
        EnvironmentId(self.owner.load(Acquire))
    }
    /// Page of its access list.
    #[inline]
    pub fn access(self) -> PageNumber {
        PageNumber(low(self.access.load(Acquire)))
    }
    /// Entries of page tables that map it.
    #[inline]
    pub fn references(self) -> u64 {
        self.access.load(Acquire) >> 32
    }
    /// Whether it was given up, and is freed with the last that holds it.
    #[inline]
    pub fn is_orphan(self) -> bool {
        self.state.load(Acquire) >> 8 & u64::from(ORPHAN) != 0
    }
    /// Device pins that hold it.
    #[inline]
    pub fn device_pins(self) -> u64 {
        self.holds.load(Acquire) >> 16 & 0xffff
    }
    /// Links to a page table; pages under an access list.
    #[inline]
    pub fn links(self) -> u64 {
        self.holds.load(Acquire) >> 32
    }
    /// The next page of the same owner, or the next free page.
    #[inline]
    pub fn next(self) -> Option<PageNumber> {
        page_number(low(self.neighbours.load(Acquire)))
    }
    /// For a page table or an access list: a number that changes when one of its entries is set, or when the page
    /// becomes another one.
    #[inline]
    pub fn edits(self) -> (u64, u64) {
        (self.generation(), self.block.load(Acquire))
    }
    /// For a page table: which eighths of it may hold entries, one bit each.
    #[inline]
    pub fn used_eighths(self) -> u8 {
        (self.state.load(Acquire) >> EIGHTHS_SHIFT) as u8
    }
    /// For a page table with one link: the table above, and the index in it.
    #[inline]
    pub fn parent(self) -> Option<(PageNumber, u64)> {
        let word = self.parent.load(Acquire);
        page_number(low(word)).map(|page| (page, word >> 32 & 0xffff))
    }
}

#[inline]
fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

#[inline]
fn page_number(number: u64) -> Option<PageNumber> {
    (number != u64::from(NO_PAGE)).then_some(PageNumber(number))
}

/// The record of an environment, exposed.
#[derive(Clone, Copy, Debug)]
pub struct Environment(&'static EnvironmentInfo);

/// The record that bears this number: of one that lives, dies, or died and was not forgotten yet.
#[inline]
pub fn environment(number: EnvironmentId) -> Option<Environment> {
    let slots = kernel().environments.load(Relaxed);
    let record = environment_slot(number.0 & (slots - 1))?;
    (number != EnvironmentId::NONE && record.number.load(Acquire) == number.0).then_some(record)
}

/// The record in a slot of the table, of any environment.
#[inline]
pub fn environment_slot(slot: u64) -> Option<Environment> {
    if slot >= kernel().environments.load(Relaxed) {
        return None;
    }
    // SAFETY: as for `kernel`: the table has a record for each slot.
    Some(Environment(unsafe { &*(EXPOSED_ENVIRONMENTS as *const EnvironmentInfo).add(slot as usize) }))
}

impl Deref for Environment {
    type Target = EnvironmentInfo;
    fn deref(&self) -> &EnvironmentInfo {
        self.0
    }
}

impl Environment {
    /// Whether it may run again.
    pub fn alive(self) -> bool {
        self.state.load(Acquire) == State::Alive as u64
    }
    /// Whether it is gone, with all that it held released.
    pub fn dead(self) -> bool {
        self.state.load(Acquire) == State::Dead as u64
    }
    /// Whether it is found by its number: it lives, is dying, or is a zombie.
    pub fn remains(self) -> bool {
        let state = self.state.load(Acquire);
        [State::Alive, State::Dying, State::Zombie].iter().any(|one| *one as u64 == state)
    }
    /// Whether only its slot, its public page and its root are left.
    pub fn is_zombie(self) -> bool {
        self.state.load(Acquire) == State::Zombie as u64
    }
    /// The word of its state: 8-byte aligned, so that a predicate can watch it.
    pub fn state_word(self) -> &'static AtomicU64 {
        &self.0.state
    }
    /// The pages charged to it, the last first. If one of them gets another owner while they are listed, or is freed,
    /// the rest of the list is of other pages: see [`Self::charged`].
    pub fn pages(self) -> impl Iterator<Item = PageNumber> {
        let most = kernel().pages.load(Relaxed) as usize;
        let first = page_number(low(self.pages.load(Acquire)));
        core::iter::successors(first, |number| page(*number)?.next()).take(most)
    }
    /// Those of the pages charged to it that are looked for, at most so many, the last first. No page is missed that it
    /// is charged for all the time: where one on the way gets another owner, or is freed, the walk begins anew.
    pub fn charged(self, most: usize, is_looked_for: impl Fn(PageNumber, Page) -> bool) -> Vec<PageNumber> {
        let owner = EnvironmentId(self.number.load(Acquire));
        for _ in 0..WALKS {
            let mut found = Vec::new();
            let end = self.walk(owner, |number, info| {
                if is_looked_for(number, info) {
                    found.push(number);
                }
                found.len() < most
            });
            if end.is_some() || self.number.load(Acquire) != owner.0 {
                return found;
            }
        }
        Vec::new()
    }
    /// Visits the pages charged to an environment while `goes_on`; `None`: it lost its way.
    fn walk(self, owner: EnvironmentId, mut goes_on: impl FnMut(PageNumber, Page) -> bool) -> Option<()> {
        let mut next = page_number(low(self.pages.load(Acquire)));
        for _ in 0..kernel().pages.load(Relaxed) {
            let Some(number) = next else { return Some(()) };
            crate::critical_section::give_way();
            let info = page(number)?;
            next = info.next();
            // Asked last: the page before was in the list when it named this one, and so is this one now.
            if info.owner() != owner {
                return None;
            }
            if !goes_on(number, info) {
                return Some(());
            }
        }
        None
    }
    /// What `read` finds while the record does not change.
    pub fn consistent<T>(self, read: impl Fn(Self) -> T) -> T {
        loop {
            let before = self.sequence.load(Acquire);
            let found = read(self);
            fence(Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Relaxed) == before {
                return found;
            }
            core::hint::spin_loop();
        }
    }
}

/// Whether an environment with this number lives.
pub fn lives(number: EnvironmentId) -> bool {
    environment(number).is_some_and(Environment::alive)
}
