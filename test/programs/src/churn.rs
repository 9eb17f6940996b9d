//! Churn: environments come and go, move pages among themselves, and have pages taken from them by force; in the end
//! everything is accounted for.
//!
//! All children hold a key for a common pool of pages, and offer pages to each other on a board that all of them write.
//! A child that finds an offer claims the page. One in three ignores every request to give pages back. Each child
//! publishes its repossession vector, which must tell of exactly the pages that were seen to be taken from it. Where
//! there are several CPUs the children are spread over them. The number of pages that are taken from those on other
//! CPUs than their creator is seen then, but not which pages, as others free some at the same time. Of children on the
//! creator's CPU nothing is seen.

extern crate alloc;

use crate::child::{eventually, prepare, status};
use crate::random::Random;
use crate::{Outcome, World, check, granted};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::page::PageKind;
use abi::upcall::kind;
use abi::{Error, KeyIndex, PageNumber, UserAddress};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::Access;
use runtime::area::{self, Area};
use runtime::environment::Child;
use runtime::page::{self, Allocator};
use runtime::predicate::{Operator, wait_any, word};
use runtime::upcall::{Context, set_handler};
use runtime::{clock, critical_section, exposed, key, syscall, time_slice};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Environments that are created.
    pub environments: u64,
    /// Of them, at the same time.
    pub together: usize,
    /// Pages that must have been moved from one to another.
    pub moves: u64,
}

const SEED: u64 = 0x10_000;
/// Status words of a child: pages it has claimed from others, and entries of its vector it has published.
const MOVED: usize = 1;
const PUBLISHED: usize = 2;
/// Words of its public page: pages it holds, then its repossession vector.
const HELD: usize = 24;
const VECTOR: usize = 32;
/// Entries of a vector that can be published.
const MOST_TAKEN: usize = 100;
/// A page that was taken, and not seen.
const UNSEEN: u64 = u64::MAX;
/// Where the board lies in children, and the offers on it.
const BOARD: u64 = 0x2200_0000;
const OFFERS: u64 = 64;
/// Slots of a child's ring: the key of the pool, and one to be filled and emptied.
const POOL_KEY: KeyIndex = KeyIndex(10);
const SPARE_KEY: KeyIndex = KeyIndex(11);
/// Free words of a child's area: whether it answers requests, and the access list of the pool.
const ANSWERS: usize = 0;
const POOL: usize = 1;

fn pool() -> Allocator {
    Allocator { key: POOL_KEY, list: PageNumber(Area::current().library().free[POOL].load(SeqCst)) }
}

fn board(index: u64) -> &'static AtomicU64 {
    assert!(index < OFFERS);
    // SAFETY: the creator shows a page of zeros there, which all children write, as atomics.
    unsafe { &*((BOARD + index * 8) as *const AtomicU64) }
}

/// Publishes what was taken, and gives back what is asked, unless it ignores requests.
extern "C" fn answer(context: &mut Context) {
    // Another one in the middle of this would publish more, which is not to become less again.
    let _section = critical_section::enter();
    let (area, words) = (Area::current(), Area::current().private());
    let taken = words.repossessed.load(SeqCst);
    for index in area.status(PUBLISHED).load(SeqCst)..taken.min(MOST_TAKEN as u64) {
        let page = words.repossession[index as usize].name.load(SeqCst);
        area.public_library(VECTOR + index as usize).store(page, SeqCst);
    }
    area.status(PUBLISHED).store(taken, SeqCst);
    if context.frame.kind != kind::REVOCATION || area.library().free[ANSWERS].load(SeqCst) == 0 {
        return;
    }
    let mut left = context.frame.detail;
    for index in 0..HELD {
        let page = area.public_library(index).swap(0, SeqCst);
        if left > 0 && page != 0 && pool().free(PageNumber(page)).is_ok() {
            left -= 1;
        } else {
            area.public_library(index).store(page, SeqCst);
        }
    }
}

/// What a child does, without end.
extern "C" fn live(seed: u64) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, answer);
    }
    let mut random = Random(seed);
    loop {
        let place = Area::current().public_library(random.below(HELD as u64) as usize);
        match random.below(10) {
            0..=4 => exchange(place, board(random.below(OFFERS))),
            5 | 6 => allocate_or_free(place),
            7 => use_regions(),
            8 => derive_and_drop(),
            _ => wait_a_little(board(random.below(OFFERS))),
        }
        if random.below(3) == 0 {
            time_slice::yield_now();
        }
    }
}

/// Puts what it has on the board, and claims what was there.
fn exchange(place: &AtomicU64, offer: &AtomicU64) {
    // The list of pages and the upcall that edits it must not meet.
    let _section = critical_section::enter();
    let found = offer.swap(place.swap(0, SeqCst), SeqCst);
    let owner = exposed::page(PageNumber(found)).map(|page| page.owner());
    if found == 0 || owner == Some(area::number()) {
        place.store(found, SeqCst);
    } else if syscall::page_claim(POOL_KEY, PageNumber(found), POOL_KEY, pool().list).is_ok() {
        place.store(found, SeqCst);
        Area::current().status(MOVED).fetch_add(1, SeqCst);
    }
}

fn allocate_or_free(place: &AtomicU64) {
    let _section = critical_section::enter();
    let page = place.swap(0, SeqCst);
    if page != 0 {
        let _ = pool().free(PageNumber(page));
    } else if let Ok(page) = pool().allocate() {
        place.store(page.0, SeqCst);
    }
}

/// A page of regions is made, written and given up, or, where the environment is ended in between, left behind.
fn use_regions() {
    let Ok(page) = Allocator::own().allocate() else { return };
    let value = 7u64;
    if page::become_regions(KeyIndex::FIRST, page).is_ok()
        && syscall::region_name(KeyIndex::FIRST, page, 1, KeyIndex::FIRST, u64::from(Rights::ALL.0)).is_ok()
    {
        // SAFETY: the kernel reads eight bytes of a word of this function.
        let _ =
            unsafe { syscall::region_copy(KeyIndex::FIRST, page, 1 << 32, UserAddress(&raw const value as u64), 8, 1) };
    }
    let _ = Allocator::own().free(page);
}

fn derive_and_drop() {
    if syscall::key_derive(KeyIndex::FIRST, SPARE_KEY, u64::from(Rights::ALL.0), 0).is_ok() {
        let _ = syscall::key_drop(area::number(), SPARE_KEY, KeyIndex::FIRST);
    }
}

fn wait_a_little(offer: &AtomicU64) {
    let changed = [word(offer, Operator::NotEqual, offer.load(SeqCst))];
    let _ = wait_any(&[&changed], Some(clock::now() + 100_000));
}

/// A child, and the pages that were seen to be taken from it.
struct Victim {
    child: Child,
    /// Whether it runs on the CPU of its creator, and so never while that one looks.
    is_here: bool,
    /// [`UNSEEN`] where other CPUs may have freed a page at the same time.
    taken: Vec<u64>,
}

/// The creator, which also takes pages and destroys.
struct Churn<'a> {
    world: &'a World,
    random: Random,
    board: PageNumber,
    pool_key: KeyIndex,
    pool_list: PageNumber,
    children: Vec<Victim>,
    begun: u64,
    moved: u64,
    taken: u64,
    /// Takings in the middle of which the own slice ended, so that others ran in between.
    unclear: u64,
}

impl Churn<'_> {
    fn start(&mut self) -> Outcome {
        let seed = self.random.number();
        let mut builder = prepare(self.world, live, seed)?;
        builder.silent().budget(Resource::Page, 64).budget(Resource::Slice, 1).budget(Resource::Pin, 0);
        builder.budget(Resource::Environment, 0).budget(Resource::Predicate, 4);
        builder.free_word(ANSWERS, seed % 3).free_word(POOL, self.pool_list.0);
        granted!(builder.show(BOARD, &[self.board], Access::WRITE));
        let mut child = granted!(builder.create());
        granted!(child.grant(self.pool_key, Rights::ALL, POOL_KEY));
        let home = self.begun % cpus();
        self.begun += 1;
        granted!(child.run(home, time_slice::ANY_POSITION));
        granted!(child.forget_key());
        let is_here = home == area::cpu();
        self.children.push(Victim { child, is_here, taken: Vec::with_capacity(MOST_TAKEN) });
        Ok(())
    }

    /// Ends a child, whose vector tells of what was taken from it and, though pages of others were taken, of nothing
    /// else.
    fn end(&mut self, index: usize) -> Outcome {
        let Victim { child, taken, .. } = &self.children[index];
        let found = published(child)?;
        check!(agrees(&found, taken), "in the end {taken:?} were taken, the vector has {found:?}");
        self.bury(index)
    }

    fn bury(&mut self, index: usize) -> Outcome {
        let Victim { child, .. } = self.children.swap_remove(index);
        check!(child.alive(), "a child died: {}", crate::child::death(&child));
        self.moved += status(&child, MOVED);
        granted!(child.destroy());
        Ok(())
    }

    /// Asks a child for pages, takes them, and compares what it publishes with what was seen.
    fn revoke(&mut self) -> Outcome {
        let index = self.random.below(self.children.len() as u64) as usize;
        let (count, wait) = (self.random.below(6) + 1, self.random.below(2) * 1_000_000);
        let number = self.children[index].child.number;
        let (page, deadline) = (Resource::Page as u64, clock::now() + wait);
        granted!(syscall::revocation_request(KeyIndex::FIRST, number, page, count, deadline));
        let unclear = self.take(index)?;
        let Victim { child, taken, .. } = &self.children[index];
        if !unclear {
            let wanted = taken.len() as u64;
            check!(eventually(|| status(child, PUBLISHED) >= wanted), "the vector tells of too few pages");
            let found = published(child)?;
            check!(agrees(&found, taken), "{taken:?} were taken, the vector has {found:?}");
        }
        match unclear {
            true => self.bury(index),
            false if taken.len() + 8 > MOST_TAKEN => self.end(index),
            false => Ok(()),
        }
    }

    /// Drives the taking. True if others ran in the middle of it, so that it was not seen which page went.
    fn take(&mut self, index: usize) -> Result<bool, String> {
        let Victim { child, taken, is_here } = &mut self.children[index];
        let own = exposed::environment(area::number()).ok_or("no record of the own")?;
        let info = child.info().ok_or("no record of the child")?;
        let (mut unclear, end) = (!*is_here, clock::now() + 60_000_000_000);
        loop {
            check!(clock::now() < end, "the taking does not end");
            let (slices, left) = (own.slices.load(SeqCst), info.revocation_count.load(SeqCst));
            let outcome = syscall::revocation_enforce(KeyIndex::FIRST, child.number);
            let went = info.revocation_count.load(SeqCst) < left && info.revocation_deadline.load(SeqCst) != 0;
            let head = exposed::kernel().first_free_page.load(SeqCst) & 0xffff_ffff;
            self.taken += u64::from(went);
            match (went && *is_here, own.slices.load(SeqCst) == slices) {
                (true, true) => taken.push(if cpus() == 1 { head } else { UNSEEN }),
                (true, false) => (unclear, self.unclear) = (true, self.unclear + 1),
                (false, _) => {}
            }
            match outcome {
                Ok(()) => return Ok(unclear),
                Err(failure) if failure.error == Error::Again && went => {}
                Err(failure) if failure.error == Error::Again => time_slice::yield_now(),
                Err(failure) => return Err(format!("enforcing gave {failure:?}")),
            }
        }
    }
}

/// Whether a vector tells of as many pages as were taken, and of those that were seen.
fn agrees(found: &[u64], taken: &[u64]) -> bool {
    found.len() == taken.len() && found.iter().zip(taken).all(|(found, taken)| *taken == UNSEEN || found == taken)
}

fn published(child: &Child) -> Result<Vec<u64>, String> {
    let public = granted!(child.public());
    let count = status(child, PUBLISHED) as usize;
    let words = &public.words()[abi::area::PUBLIC_LIBRARY as usize / 8 + VECTOR..];
    Ok(words.iter().take(count).map(|word| word.load(SeqCst)).collect())
}

fn cpus() -> u64 {
    exposed::kernel().cpus.load(SeqCst)
}

/// All that can leak: pages of each kind, positions of each CPU, what the own budgets say is in use, keys in the ring.
fn account() -> Vec<u64> {
    let mut pages = [0; PageKind::COUNT as usize];
    let all = (0..exposed::kernel().pages.load(SeqCst)).filter_map(|number| exposed::page(PageNumber(number)));
    all.for_each(|page| pages[page.kind() as usize] += 1);
    let slices = (0..cpus()).flat_map(|cpu| exposed::slices(cpu).iter());
    let slices = slices.filter(|slice| slice.owner.load(SeqCst) != 0).count() as u64;
    let keys = Area::current().library().keys.load(SeqCst).count_ones();
    let info = exposed::environment(area::number());
    let budgets = info.iter().flat_map(|info| info.budget.iter());
    let budgets = budgets.flat_map(|budget| [budget.limit.load(SeqCst), budget.used.load(SeqCst)]);
    let orphans = exposed::kernel().orphan_pages.load(SeqCst);
    pages.into_iter().chain([slices, u64::from(keys), orphans]).chain(budgets).collect()
}

/// The whole of it.
///
/// # Errors
/// What was not as it should be.
pub fn run(world: &World, amount: Amount) -> Outcome {
    let pool_key = granted!(key::derive(KeyIndex::FIRST, Rights::ALL, 0));
    let (board, pool_list) = (granted!(Allocator::own().allocate()), granted!(Allocator::own().allocate()));
    granted!(page::become_list(KeyIndex::FIRST, pool_list, pool_key));
    let children = Vec::with_capacity(amount.together);
    let random = Random(SEED);
    let (begun, moved, taken, unclear) = (0, 0, 0, 0);
    let mut churn = Churn { world, random, board, pool_key, pool_list, children, begun, moved, taken, unclear };
    // Once before the account is taken, so that page tables and the heap have grown.
    rounds(&mut churn, amount.together as u64 * 2, amount.together)?;
    let before = account();
    rounds(&mut churn, amount.environments, amount.together)?;
    let after = account();
    check!(after == before, "the account was {before:?} and is {after:?}");
    check!(churn.moved >= amount.moves, "only {} pages were moved", churn.moved);
    let Churn { taken, unclear, .. } = churn;
    // With several CPUs a host that has fewer may end a slice in any taking, as each waits for all of them. A child may
    // also be asked before its CPU has begun it, when it has little that could be taken.
    let (least, seen) = if cpus() > 1 { (32, true) } else { (8, unclear * 10 <= taken) };
    check!(taken * least >= amount.environments && seen, "{taken} were taken, {unclear} unseen");
    world.pages_add_up()
}

/// So many come and go.
fn rounds(churn: &mut Churn<'_>, environments: u64, together: usize) -> Outcome {
    for number in 0..environments {
        let explained = |why| format!("seed {SEED:#x}, environment {number}: {why}");
        if churn.children.len() >= together {
            let index = churn.random.below(together as u64) as usize;
            churn.end(index).map_err(explained)?;
        }
        churn.start().map_err(explained)?;
        if churn.random.below(3) == 0 {
            churn.revoke().map_err(explained)?;
        }
        time_slice::yield_now();
        if number % 100 == 0 {
            churn.world.still_whole().map_err(explained)?;
        }
    }
    while !churn.children.is_empty() {
        churn.end(0)?;
    }
    Ok(())
}
