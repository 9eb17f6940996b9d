//! Pages given up while others use them: who is charged, and how the charge ends although the others do not give way.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::capability::Rights;
use abi::page_table::{LARGE, MapRow};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::page::{self, Allocator, PageKind};
use runtime::predicate::{Fired, Operator, Predicate, word};
use runtime::window::Window;
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, area, clock, exposed, syscall, time_slice};
use test_programs::child::{eventually, launch, prepare, status};
use test_programs::{Outcome, World, check, granted, guest};
use test_programs::{free_large_page, level_one_of};

guest! {
    Here who_gives_a_page_up_is_charged_and_nobody_else;
    Here an_heir_gets_orphans_with_what_allowed_them;
    Here who_gave_a_page_up_gets_rid_of_it_whatever_others_do;
    Here a_watched_page_is_free_at_once;
    Here mappings_and_watches_do_not_stop_forced_revocation;
}

/// Pages that a giver gives up.
const GIVEN_UP: u64 = 40;
/// Where the holder finds the page with its orders, which is writable.
const ORDERS: u64 = 0x2200_0000;
/// Places that share no table with anything else.
const PLACE: u64 = 0x200_0000_0000;
const LARGE_PLACE: u64 = 0x240_0000_0000;
const OTHER: u64 = 0x280_0000_0000;
const TABLE_PLACE: u64 = 0x2c0_0000_0000;
/// Status words: how far a child came; a number that it tells.
const DONE: usize = 1;
const FOUND: usize = 2;
/// `DONE` of a child for whom something was refused that must not be.
const FAILED: u64 = u64::MAX;

/// What a level-1 table covers.
const SPAN: u64 = 2 << 20;
/// Where the words of the library begin in a public page.
const PUBLIC_LIBRARY: usize = abi::limits::PAGE_SIZE as usize / 2;

/// How the holder uses the pages that the victim gives up.
const MAPPED: usize = 0;
const MAPPED_OFTEN: usize = 1;
const ELSEWHERE: usize = 2;
const IN_A_COPY: usize = 3;
const WATCHED: usize = 4;
const LINKED: usize = 5;
const IN_A_LARGE_ONE: usize = 6;
const WAYS: usize = 7;

/// All figures of the budgets of the first environment.
fn figures() -> Vec<u64> {
    let info = exposed::environment(area::number());
    info.iter()
        .flat_map(|info| &info.budget)
        .flat_map(|budget| [&budget.limit, &budget.reserved, &budget.used])
        .map(|figure| figure.load(SeqCst))
        .collect()
}

fn pages_used_by(number: abi::EnvironmentId) -> u64 {
    exposed::environment(number).map_or(0, |info| info.budget[Resource::Page as usize].used.load(SeqCst))
}

fn is_free(page: PageNumber) -> bool {
    exposed::page(page).is_some_and(|info| info.kind() == PageKind::Free)
}

fn is_orphan(page: PageNumber) -> bool {
    exposed::page(page).is_some_and(|info| info.is_orphan())
}

fn came_to(child: &Child, step: u64) -> bool {
    eventually(|| [step, FAILED].contains(&status(child, DONE))) && status(child, DONE) == step
}

/// The page with the creator's orders.
fn orders() -> &'static [AtomicU64; 512] {
    // SAFETY: the creator shows a page of words here.
    unsafe { &*(ORDERS as *const [AtomicU64; 512]) }
}

fn wait_for_order(order: u64) {
    while orders()[0].load(SeqCst) < order {
        time_slice::yield_now();
    }
}

/// Gives pages up that its creator has mapped, and tries to have as many again and more.
extern "C" fn give_up(_: u64) {
    let area = Area::current();
    let own = Allocator::own();
    for index in 0..GIVEN_UP {
        let Ok(page) = own.allocate() else { return area.status(DONE).store(FAILED, SeqCst) };
        area.public_library(index as usize).store(page.0, SeqCst);
    }
    area.status(DONE).store(1, SeqCst);
    wait_for_order(1);
    for index in 0..GIVEN_UP {
        let _ = own.free(PageNumber(area.public_library(index as usize).load(SeqCst)));
    }
    let mut more = 0;
    while own.allocate().is_ok() {
        more += 1;
    }
    area.status(FOUND).store(more, SeqCst);
    area.status(DONE).store(2, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// Pages of a child, the giver, that are mapped here, and that it gives up when it is told to.
struct Giving {
    pages: Vec<PageNumber>,
    held: Window,
    orders: PageNumber,
    window: Window,
}

impl Giving {
    fn begin(world: &World) -> Result<(Child, Self), String> {
        let orders = granted!(Allocator::own().allocate());
        let window = granted!(Window::open(&[orders], KeyIndex::FIRST, Access::WRITE));
        let mut builder = prepare(world, give_up, 0)?;
        granted!(builder.show(ORDERS, &[orders], Access::WRITE));
        let giver = launch(builder)?;
        check!(came_to(&giver, 1), "the giver got no pages");
        let public = granted!(giver.public());
        let told = &public.words()[PUBLIC_LIBRARY / 8..][..GIVEN_UP as usize];
        let pages: Vec<PageNumber> = told.iter().map(|word| PageNumber(word.load(SeqCst))).collect();
        drop(public);
        let held = granted!(Window::open(&pages, KeyIndex::FIRST, Access::READ));
        Ok((giver, Self { pages, held, orders, window }))
    }

    fn give_up(&self, giver: &Child) -> Outcome {
        self.window.words()[0].store(1, SeqCst);
        check!(came_to(giver, 2), "the giver does not give up");
        check!(self.pages.iter().all(|page| is_orphan(*page)), "a page that is mapped is no orphan");
        Ok(())
    }

    /// The giver is gone: its pages are orphans as long as they are mapped here, and then free.
    fn end(self) -> Outcome {
        check!(self.pages.iter().all(|page| is_orphan(*page)), "a page that is mapped is free");
        drop(self.held);
        check!(self.pages.iter().all(|page| is_free(*page)), "a page that nobody maps is not free");
        drop(self.window);
        granted!(Allocator::own().free(self.orders));
        Ok(())
    }
}

fn who_gives_a_page_up_is_charged_and_nobody_else(world: &World) -> Outcome {
    let begun = figures();
    let (giver, giving) = Giving::begin(world)?;
    let (own, used) = (figures(), pages_used_by(giver.number));
    let limit = giver.info().map_or(0, |info| info.budget[Resource::Page as usize].limit.load(SeqCst));
    giving.give_up(&giver)?;
    check!(figures() == own, "who maps them is charged: {:?}, before {own:?}", figures());
    check!(status(&giver, FOUND) == limit - used, "the giver got {} pages more", status(&giver, FOUND));
    check!(pages_used_by(giver.number) == limit, "{} pages are charged to it", pages_used_by(giver.number));
    // With its death the charge comes to its creator, and with it what allowed it.
    granted!(giver.destroy());
    giving.end()?;
    check!(figures() == begun, "{:?} is left of {begun:?}", figures());
    Ok(())
}

/// A giver dies, whose creator has no page to spare: between any two steps of the giver's end the creator uses no more
/// than it may.
fn an_heir_gets_orphans_with_what_allowed_them(world: &World) -> Outcome {
    const LIMIT: u64 = 0;
    // What the heap takes meanwhile is used.
    let limits = || figures().into_iter().step_by(3).collect::<Vec<u64>>();
    let begun = limits();
    let (giver, giving) = Giving::begin(world)?;
    giving.give_up(&giver)?;
    let info = exposed::environment(area::number()).ok_or_else(|| String::from("the kernel does not show who runs"))?;
    let own = &info.budget[Resource::Page as usize];
    let spare = own.limit.load(SeqCst) - own.used.load(SeqCst);
    let move_limit =
        |to, amount| syscall::budget_move(KeyIndex::FIRST, area::number(), to, Resource::Page as u64, LIMIT, amount);
    granted!(move_limit(giver.number, spare));
    let mut steps = 0;
    while let Err(failure) = syscall::environment_destroy(KeyIndex::FIRST, giver.number) {
        check!(failure.error == Error::Again, "the giver is not destroyed: {failure:?}");
        granted!(move_limit(area::number(), 0));
        let (used, limit) = (own.used.load(SeqCst), own.limit.load(SeqCst));
        check!(used <= limit, "after {steps} steps {used} pages are used of {limit}");
        steps += 1;
    }
    check!(steps > 3, "the giver ended in {steps} steps");
    giving.end()?;
    check!(limits() == begun, "{:?} is left of {begun:?}", limits());
    Ok(())
}

/// Uses the victim's pages, one way each, and then sleeps for ever.
extern "C" fn hold(_: u64) {
    let outcome = hold_all();
    Area::current().status(FOUND).store(outcome.err().unwrap_or(0), SeqCst);
    Area::current().status(DONE).store(if outcome.is_ok() { 1 } else { FAILED }, SeqCst);
    // SAFETY: the page was mapped there.
    let watched = unsafe { &*(PLACE as *const AtomicU64) };
    let _ = Predicate::new().or(&[word(watched, Operator::Equal, 1)]).and_then(|predicate| predicate.wait());
    loop {
        time_slice::yield_now();
    }
}

fn row(address: u64, page: PageNumber) -> MapRow {
    MapRow { address: address | KeyIndex::FIRST.0, entry: page.address() | Access::READ.0 }
}

/// Links a table into the own address space, or takes the link away.
fn link(address: u64, table: PageNumber) -> Result<(), Failure> {
    // SAFETY: nothing of the program lies at the places of this test.
    unsafe { syscall::page_table_link(KeyIndex::FIRST, area::root(), UserAddress(address), 1, table, KeyIndex::FIRST) }
}

fn unlink(address: u64) -> Result<PageNumber, Failure> {
    loop {
        // SAFETY: as for `link`.
        match unsafe { syscall::page_table_unlink(KeyIndex::FIRST, area::root(), UserAddress(address), 1) } {
            Err(Failure { error: Error::Again, .. }) => {}
            done => return done,
        }
    }
}

/// Uses the pages that the creator names, each in its way. An error is the number of the way that was refused, plus
/// one.
fn hold_all() -> Result<(), u64> {
    let page = |way: usize| PageNumber(orders()[1 + way].load(SeqCst));
    let at = |way: usize| move |_: Failure| way as u64 + 1;
    let own = address_space::own();
    own.apply(&[row(PLACE, page(WATCHED)), row(PLACE + 4096, page(MAPPED))]).map_err(at(MAPPED))?;
    let often: Vec<MapRow> = (0..512).map(|index| row(PLACE + SPAN + index * 4096, page(MAPPED_OFTEN))).collect();
    own.apply(&often).map_err(at(MAPPED_OFTEN))?;
    let other = AddressSpace::create(Allocator::own()).map_err(at(ELSEWHERE))?;
    other.apply(&[row(PLACE, page(ELSEWHERE))]).map_err(at(ELSEWHERE))?;
    begin_a_copy(page(IN_A_COPY)).map_err(at(IN_A_COPY))?;
    own.link_tables(TABLE_PLACE, true).map_err(at(LINKED))?;
    link(TABLE_PLACE, page(LINKED)).map_err(at(LINKED))?;
    let large = PageNumber(page(IN_A_LARGE_ONE).0 & !511);
    let row = row(LARGE_PLACE, large);
    own.apply(&[MapRow { entry: row.entry | LARGE, ..row }]).map_err(at(IN_A_LARGE_ONE))
}

/// A table with many entries for a page is shared, copied in part, and gone: what is left is the copy, which nothing
/// leads to.
fn begin_a_copy(page: PageNumber) -> Result<(), Failure> {
    let (own, second) = (address_space::own(), OTHER + SPAN);
    let rows: Vec<MapRow> = (0..256).map(|index| row(OTHER + index * 4096, page)).collect();
    own.apply(&rows)?;
    let table = level_one_of(OTHER)?;
    own.link_tables(second, true)?;
    link(second, table)?;
    let (place, copy) = (UserAddress(OTHER), Allocator::own().allocate()?);
    let begun = syscall::page_table_copy(KeyIndex::FIRST, area::root(), place, 1, copy, KeyIndex::FIRST);
    unlink(second)?;
    unlink(OTHER)?;
    match begun {
        Err(Failure { error: Error::Again, .. }) => Ok(()),
        _ => Err(Error::BadArgument.about(0)),
    }
}

/// What the victim gives up: pages of a list of their own, by how the holder uses them.
struct Bait {
    pages: Allocator,
    /// 2 MiB.
    large: PageNumber,
    used: [PageNumber; WAYS],
}

impl Bait {
    fn lay(window: &Window) -> Result<Self, String> {
        let list = granted!(Allocator::own().allocate());
        granted!(page::become_list(KeyIndex::FIRST, list, KeyIndex::FIRST));
        let pages = Allocator { key: KeyIndex::FIRST, list };
        let large = free_large_page().ok_or("no 2 MiB are free")?;
        for page in large.0..large.0 + 512 {
            granted!(pages.allocate_this(PageNumber(page)));
        }
        let mut used = [PageNumber(large.0 + 77); WAYS];
        granted!(pages.allocate_many(&mut used[..IN_A_LARGE_ONE]));
        for (order, page) in window.words()[1..].iter().zip(used) {
            order.store(page.0, SeqCst);
        }
        Ok(Self { pages, large, used })
    }

    /// A second environment that may read them, with the right given; 0: only their owner may.
    fn admit(&self, key: KeyIndex, rights: Rights) -> Outcome {
        granted!(syscall::access_list_set(KeyIndex::FIRST, self.pages.list, 1, key, u64::from(rights.0)));
        Ok(())
    }

    /// Gives everything up; by force where the holder uses it.
    fn give_up(self, holder: &Child) -> Outcome {
        let own = area::number();
        for (way, page) in self.used.into_iter().enumerate() {
            granted!(self.pages.free(page));
            check!(is_orphan(page), "the page of way {way} is not in use");
            check!(exposed::page(page).map(|info| info.owner()) == Some(own), "way {way}: another is charged");
            let used = pages_used_by(own);
            // SAFETY: nothing lies in the page.
            granted!(unsafe { self.pages.free_by_force(page) });
            check!(is_free(page), "way {way}: the page is not free");
            check!(pages_used_by(own) == used - 1, "way {way}: {} pages are charged, not one less", pages_used_by(own));
            check!(holder.alive(), "way {way}: the holder died");
        }
        let large = (self.large.0..self.large.0 + 512).map(PageNumber).filter(|page| !self.used.contains(page));
        check!(self.pages.free_many(&large.collect::<Vec<_>>()) == 511, "the rest of 2 MiB is not free");
        granted!(self.pages.free(self.pages.list));
        Ok(())
    }
}

/// The holder uses pages in every way there is, and gives none of them back.
fn who_gave_a_page_up_gets_rid_of_it_whatever_others_do(world: &World) -> Outcome {
    // The heap must not grow meanwhile.
    drop(core::hint::black_box(Vec::<u64>::with_capacity(2048)));
    let begun = figures();
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    let mut builder = prepare(world, hold, 0)?;
    granted!(builder.show(ORDERS, &[page], Access::WRITE));
    let holder = granted!(builder.create());
    let bait = Bait::lay(&window)?;
    let key = holder.key.ok_or("the holder has no key")?;
    // A table, for the holder to link.
    let table = bait.used[LINKED];
    let space = granted!(AddressSpace::create(Allocator::own()));
    granted!(space.link_tables(PLACE, true));
    let place = UserAddress(PLACE);
    // SAFETY: not the own address space.
    granted!(unsafe { syscall::page_table_link(KeyIndex::FIRST, space.root, place, 1, table, KeyIndex::FIRST) });
    let above: Vec<PageNumber> =
        core::iter::successors(Some(table), |table| exposed::page(*table)?.parent().map(|at| at.0)).skip(1).collect();
    // The link that makes a table shared takes the right to write it.
    bait.admit(key, Rights::READ.either(Rights::WRITE))?;
    granted!(holder.run(0, time_slice::ANY_POSITION));
    check!(came_to(&holder, 1), "the holder was refused way {}, counted from 1", status(&holder, FOUND));
    bait.admit(key, Rights::NONE)?;
    for page in above.into_iter().rev() {
        granted!(Allocator::own().free(page));
    }
    bait.give_up(&holder)?;
    granted!(holder.destroy());
    drop(window);
    granted!(Allocator::own().free(page));
    check!(figures() == begun, "{:?} is left of {begun:?}", figures());
    Ok(())
}

/// Sleeps until the word of the creator is 1, which never comes to pass while the creator has it.
extern "C" fn sleep(_: u64) {
    let area = Area::current();
    area.status(DONE).store(1, SeqCst);
    let fired = Predicate::new().or(&[word(&orders()[0], Operator::Equal, 1)]).and_then(|predicate| predicate.wait());
    area.status(FOUND).store(if fired == Ok(Fired::Gone) { 1 } else { 2 }, SeqCst);
    area.status(DONE).store(2, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// The watcher gets no slice any more and never looks at its predicate; the page can be used otherwise all the same.
fn a_watched_page_is_free_at_once(world: &World) -> Outcome {
    let begun = figures();
    let own = Allocator::own();
    let page = granted!(own.allocate());
    let mut builder = prepare(world, sleep, 0)?;
    granted!(builder.show(ORDERS, &[page], Access::READ));
    let sleeper = granted!(builder.create());
    let position = granted!(sleeper.run(0, time_slice::ANY_POSITION));
    let sleeps = || exposed::environment(sleeper.number).is_some_and(|info| info.predicate_terms.load(SeqCst) > 0);
    check!(came_to(&sleeper, 1) && eventually(sleeps), "it does not sleep");
    granted!(syscall::time_slice_free(KeyIndex::FIRST, 0, position));
    // SAFETY: nothing lies in the page.
    granted!(unsafe { own.free_by_force(page) });
    check!(is_free(page), "a page is in use because somebody sleeps over it");
    let again = granted!(own.allocate_this(page));
    let window = granted!(Window::open(&[again], KeyIndex::FIRST, Access::WRITE));
    window.words()[0].store(1, SeqCst);
    granted!(sleeper.run(0, time_slice::ANY_POSITION));
    check!(came_to(&sleeper, 2), "it does not wake");
    check!(status(&sleeper, FOUND) == 1, "it was not told that the page is gone");
    granted!(sleeper.destroy());
    drop(window);
    granted!(own.free(again));
    check!(figures() == begun, "{:?} is left of {begun:?}", figures());
    Ok(())
}

/// Pages that a hoarder has.
const HOARD: usize = 3;

/// Maps pages of its own, twice each, names them to be taken first, and sleeps.
extern "C" fn hoard(_: u64) {
    let area = Area::current();
    for index in 0..HOARD {
        let page = Allocator::own().allocate().unwrap_or(PageNumber::NONE);
        let place = PLACE + 2 * index as u64 * 4096;
        let mapped = address_space::own().apply(&[row(place, page), row(place + 4096, page)]);
        area.public_library(index).store(page.0, SeqCst);
        area.private().take_first[index].store(page.0, SeqCst);
        if mapped.is_err() {
            area.status(DONE).store(FAILED, SeqCst);
        }
    }
    area.private().take_first_count.store(HOARD as u64, SeqCst);
    sleep(0);
}

fn mappings_and_watches_do_not_stop_forced_revocation(world: &World) -> Outcome {
    let begun = figures();
    let page = granted!(Allocator::own().allocate());
    let mut builder = prepare(world, hoard, 0)?;
    granted!(builder.show(ORDERS, &[page], Access::READ));
    let hoarder = launch(builder)?;
    check!(came_to(&hoarder, 1), "it could not map");
    let public = granted!(hoarder.public());
    let first = PUBLIC_LIBRARY / 8;
    let pages: Vec<PageNumber> =
        public.words()[first..][..HOARD].iter().map(|word| PageNumber(word.load(SeqCst))).collect();
    drop(public);
    granted!(syscall::revocation_request(
        KeyIndex::FIRST,
        hoarder.number,
        Resource::Page as u64,
        HOARD as u64,
        clock::now()
    ));
    let taken = || syscall::revocation_enforce(KeyIndex::FIRST, hoarder.number).is_ok();
    check!(eventually(taken), "the revocation does not end");
    check!(pages.iter().all(|page| is_free(*page)), "a mapped page was not taken");
    granted!(hoarder.destroy());
    granted!(Allocator::own().free(page));
    check!(figures() == begun, "{:?} is left of {begun:?}", figures());
    Ok(())
}
