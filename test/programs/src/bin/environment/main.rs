//! Environments: creation refused when it should be, destruction from any state, budgets, threads, and locks that
//! outlive their holders.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::{Figure, Resource};
use abi::environment::{DeathReason, Specification, State};
use abi::limits::PAGE_SIZE;
use abi::upcall::kind;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use parts::{
    a_dead_environment_begins_again, an_address_space_stays_with_who_begins_again,
    fault_31_kept_parts_hold_nothing_of_the_old_one, refused_parts_stay_as_they_are,
};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::environment::{Builder, PRIVATE_COUNT};
use runtime::layout::AREA_COUNT;
use runtime::lock::{OwnerLock, Taken};
use runtime::page::{Allocator, PageKind};
use runtime::upcall::Context;
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber, area, exposed, syscall, time_slice, transfer};
use test_programs::child::{create, death, eventually, first_page, launch, prepare, renew, spawn, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

mod parts;

guest! {
    Here a_child_runs_and_leaves_its_status;
    Here two_environments_share_an_address_space;
    Here a_thread_that_makes_none_leaves_their_places_free;
    Here the_stack_of_a_thread_is_unmapped;
    Here a_public_page_outlives_its_environment;
    Child fault_20_area_that_is_none;
    Child creation_is_refused_without_pages;
    Here fault_151_orphans_become_no_area;
    Here destruction_from_any_state;
    Here a_service_that_has_answered_gets_no_slice;
    Here budgets_come_back;
    Here the_budget_of_a_dying_one_is_to_be_had;
    Here what_is_left_of_one_that_is_still_asked_about;
    Here a_grandchild_goes_before_its_dead_creator;
    Here fault_46_lock_of_a_dead_holder;
    Here a_dead_environment_begins_again;
    Here an_address_space_stays_with_who_begins_again;
    Here refused_parts_stay_as_they_are;
    Here fault_31_kept_parts_hold_nothing_of_the_old_one;
    Here every_slot_of_the_table_is_like_the_others;
    Here every_environment_is_accounted_for;
}

extern "C" fn count_to(argument: u64) {
    for number in 0..=argument {
        Area::current().status(1).store(number, SeqCst);
    }
    runtime::entry::exit(7);
}

fn a_child_runs_and_leaves_its_status(world: &World) -> Outcome {
    let child = spawn(world, count_to, 1000)?;
    let number = child.number;
    check!(child.wait(u64::MAX), "the child does not end");
    check!(child.status() == Some(7), "its status is {:?}", child.status());
    check!(status(&child, 1) == 1000, "it counted to {}", status(&child, 1));
    let info = exposed::environment(number).ok_or("no record")?;
    check!(info.death_reason.load(SeqCst) == DeathReason::Destroyed as u64, "it died otherwise");
    check!(info.death_by.load(SeqCst) == number.0, "not it but {} ended it", info.death_by.load(SeqCst));
    granted!(child.destroy());
    check!(info.state.load(SeqCst) == State::Dead as u64, "it is not dead after destruction");
    refused!(syscall::environment_destroy(KeyIndex::FIRST, number), NoSuchEnvironment);
    Ok(())
}

static SHARED: AtomicU64 = AtomicU64::new(0);

extern "C" fn add_to_shared(argument: u64) {
    for _ in 0..argument {
        SHARED.fetch_add(1, SeqCst);
    }
    let heap: Vec<u64> = (0..1000).collect();
    Area::current().status(1).store(heap.iter().sum(), SeqCst);
}

fn two_environments_share_an_address_space(_: &World) -> Outcome {
    SHARED.store(0, SeqCst);
    // The threads have no pages, nor a key to ours, to let the heap grow: it has room for all of them.
    drop(core::hint::black_box(Vec::<u64>::with_capacity(3 * 2000)));
    let mut threads = Vec::new();
    for index in 0..3 {
        let mut builder = granted!(Builder::sharing());
        builder.function(add_to_shared, 10_000).budget(Resource::Slice, 1);
        let thread = granted!(builder.create());
        let cpus = exposed::kernel().cpus.load(SeqCst);
        granted!(thread.run(index % cpus, time_slice::ANY_POSITION));
        threads.push(thread);
    }
    check!(eventually(|| SHARED.load(SeqCst) == 30_000), "three threads counted to {}", SHARED.load(SeqCst));
    for thread in threads {
        check!(thread.wait(u64::MAX), "a thread does not end");
        check!(status(&thread, 1) == 499_500, "a thread's heap gave {}", status(&thread, 1));
        granted!(thread.destroy());
    }
    Ok(())
}

/// Tells where its stack is.
extern "C" fn tell_of_stack(_: u64) {
    let here = 0_u64;
    Area::current().status(1).store(&raw const here as u64, SeqCst);
    runtime::entry::exit(0);
}

/// Nothing of a thread's stack stays mapped, however long it was.
fn the_stack_of_a_thread_is_unmapped(_: &World) -> Outcome {
    const PAGES: usize = 24;
    let mut builder = granted!(Builder::sharing());
    builder.function(tell_of_stack, 0).stack(PAGES).budget(Resource::Slice, 1);
    let thread = granted!(builder.create());
    granted!(thread.run(0, time_slice::ANY_POSITION));
    check!(thread.wait(u64::MAX), "the thread does not end");
    let end = status(&thread, 1).next_multiple_of(PAGE_SIZE);
    let mapped = || {
        let is_mapped = |at: &u64| address_space::own().pages_at(*at, &mut [PageNumber::NONE]);
        (end - PAGES as u64 * PAGE_SIZE..end).step_by(PAGE_SIZE as usize).filter(is_mapped).count()
    };
    check!(mapped() == PAGES, "{} pages of its stack are mapped", mapped());
    granted!(thread.destroy());
    check!(mapped() == 0, "{} pages of its stack are still mapped", mapped());
    Ok(())
}

/// Tries more often than there are places for areas to make a thread, and tells what came of the last.
extern "C" fn fail_to_make_threads(_: u64) {
    let tried = (0..AREA_COUNT + 8).map(|_| Builder::sharing().and_then(Builder::create));
    let told = tried.last().map_or(0, |made| made.map_or_else(|failure| failure.error as u64, |_| u64::MAX));
    Area::current().status(1).store(told, SeqCst);
    runtime::entry::exit(0);
}

/// A thread whose own key does not open the address space can map nothing there: what it reserved is free again.
fn a_thread_that_makes_none_leaves_their_places_free(_: &World) -> Outcome {
    let mut builder = granted!(Builder::sharing());
    builder.function(fail_to_make_threads, 0).budget(Resource::Slice, 1);
    builder.budget(Resource::Page, 64).budget(Resource::Environment, 1);
    let thread = granted!(builder.create());
    granted!(thread.run(0, time_slice::ANY_POSITION));
    check!(thread.wait(u64::MAX), "the thread does not end");
    check!(thread.status() == Some(0), "its status is {:?}", thread.status());
    let told = status(&thread, 1);
    check!(told == abi::Error::NotPermitted as u64, "the last try was told {told}");
    granted!(thread.destroy());
    granted!(granted!(Builder::sharing().and_then(Builder::create)).destroy());
    Ok(())
}

extern "C" fn leave_a_mark(argument: u64) {
    Area::current().public_library(3).store(argument, SeqCst);
}

fn a_public_page_outlives_its_environment(world: &World) -> Outcome {
    let child = spawn(world, leave_a_mark, 0xfeed_f00d)?;
    check!(child.wait(u64::MAX), "the child does not end");
    while let Err(failure) = syscall::environment_destroy(KeyIndex::FIRST, child.number) {
        check!(failure.error == abi::Error::Again, "destruction gave {failure:?}");
    }
    let public = granted!(child.public());
    let mark = public.words()[abi::area::PUBLIC_LIBRARY as usize / 8 + 3].load(SeqCst);
    let record: Vec<u64> = public.words()[..3].iter().map(|word| word.load(SeqCst)).collect();
    check!(mark == 0xfeed_f00d, "the mark is {mark:#x}");
    check!(
        record[0] == child.number.0 && record[1] == DeathReason::Destroyed as u64,
        "the record of death is {record:x?}"
    );
    drop(public);
    granted!(child.destroy());
    Ok(())
}

/// Pages for an environment, and a specification that would do.
fn sound_specification() -> Result<(Vec<PageNumber>, AddressSpace, Specification), alloc::string::String> {
    let own = Allocator::own();
    let mut pages = alloc::vec![PageNumber::NONE; 7];
    granted!(own.allocate_many(&mut pages));
    let space = granted!(AddressSpace::create(own));
    let mut private = [0; abi::limits::PRIVATE_PAGES];
    for (place, page) in private.iter_mut().zip(&pages[3..]) {
        *place = page.0;
    }
    let specification = Specification {
        name_key: KeyIndex::FIRST.0,
        control: pages[0].0,
        key_ring: pages[1].0,
        public: pages[2].0,
        root: space.root.0,
        area: 0x1000_0000,
        private_count: 4,
        private,
        ..Specification::default()
    };
    Ok((pages, space, specification))
}

fn fault_20_area_that_is_none() -> Outcome {
    let (pages, space, sound) = sound_specification()?;
    for area in [
        1,
        0xfff,
        0x1000_0008,
        0xffff_8000_0000_0000,
        abi::memory_map::USER_END,
        abi::memory_map::USER_END - 0x2000,
        1 << 63,
        u64::MAX - 0xfff,
    ] {
        let refused = create(KeyIndex::FIRST, &Specification { area, ..sound });
        check!(
            matches!(refused, Err(failure) if matches!(failure.error, abi::Error::BadAddress | abi::Error::BadArgument)),
            "an area at {area:#x} gave {refused:?}"
        );
    }
    check!(Allocator::own().free_many(&pages) == pages.len(), "a refused creation kept pages");
    granted!(Allocator::own().free(space.root));
    Ok(())
}

fn creation_is_refused_without_pages() -> Outcome {
    let (pages, space, sound) = sound_specification()?;
    let list = Allocator::own().list.0;
    let mut twice = sound.private;
    twice[1] = twice[0];
    let wrong = [
        Specification { control: u64::MAX, ..sound },
        Specification { control: list, ..sound },
        Specification { key_ring: sound.control, ..sound },
        Specification { public: sound.private[0], ..sound },
        Specification { public: 0, ..sound },
        Specification { root: sound.control, ..sound },
        Specification { root: 1 << 50, ..sound },
        Specification { private: twice, ..sound },
        Specification { private_count: 3, ..sound },
        Specification { private_count: 17, ..sound },
        Specification { private_count: u64::MAX, ..sound },
        Specification { name_key: 43, ..sound },
        Specification { name_key: u64::MAX, ..sound },
    ];
    for (index, specification) in wrong.iter().enumerate() {
        let made = create(KeyIndex::FIRST, specification);
        check!(made.is_err(), "wrong specification {index} made {made:?}");
    }
    check!(create(KeyIndex::WELL_KNOWN, &sound).is_err(), "the well-known name made an environment");
    for page in &pages {
        check!(
            exposed::page(*page).map(|info| info.kind()) == Some(PageKind::Ordinary),
            "a refused creation changed {page:?}"
        );
    }
    granted!(
        address_space::own().apply(&[abi::page_table::MapRow {
            address: 0x2000_0000 | 1,
            entry: pages[0].address() | Access::WRITE.0
        }])
    );
    refused!(create(KeyIndex::FIRST, &sound), InUse);
    granted!(address_space::own().apply(&[abi::page_table::MapRow { address: 0x2000_0000, entry: 0 }]));
    check!(Allocator::own().free_many(&pages) == pages.len(), "a refused creation kept pages");
    granted!(Allocator::own().free(space.root));
    Ok(())
}

/// Rounds of orphans offered, and pages in a round: the public page and as many private ones as an area has at most.
const ORPHAN_ROUNDS: u64 = 16;
const AREA_PAGES: usize = 1 + abi::limits::PRIVATE_PAGES;
/// Where the area would lie: away from all memory of the program.
const ORPHAN_AREA: u64 = 0x240_0000_0000;

/// Pages that their owner gave up while they were mapped at their place in an area become no area: an environment made
/// of them would give each back twice.
fn fault_151_orphans_become_no_area(_: &World) -> Outcome {
    let (own, space) = (Allocator::own(), address_space::own());
    let rows = |entry: &dyn Fn(usize) -> u64| {
        let place = |index: usize| ORPHAN_AREA + index as u64 * abi::limits::PAGE_SIZE;
        let row = |index| abi::page_table::MapRow { address: place(index) | space.key.0, entry: entry(index) };
        (0..AREA_PAGES).map(row).collect::<Vec<_>>()
    };
    granted!(space.link_tables(ORPHAN_AREA, false));
    for _ in 0..ORPHAN_ROUNDS {
        let mut pages = alloc::vec![PageNumber::NONE; 2 + AREA_PAGES];
        granted!(own.allocate_many(&mut pages));
        let (kept, area) = pages.split_at(2);
        granted!(space.apply(&rows(&|index| area[index].address() | Access::WRITE.0)));
        let mut private = [0; abi::limits::PRIVATE_PAGES];
        private.iter_mut().zip(&area[1..]).for_each(|(place, page)| *place = page.0);
        let wanted = Specification {
            name_key: KeyIndex::FIRST.0,
            control: kept[0].0,
            key_ring: kept[1].0,
            public: area[0].0,
            root: space.root.0,
            area: ORPHAN_AREA,
            private_count: private.len() as u64,
            private,
            ..Specification::default()
        };
        for page in area.iter().rev() {
            granted!(own.free(*page));
            refused!(create(KeyIndex::FIRST, &wanted), WrongKind);
        }
        granted!(space.apply(&rows(&|_| 0)));
        check!(own.free_many(kept) == kept.len(), "a refused creation kept pages");
    }
    Ok(())
}

extern "C" fn be_in_a_state(state: u64) {
    Area::current().status(1).store(1, SeqCst);
    match state {
        0 => loop {
            core::hint::spin_loop();
        },
        1 => loop {
            time_slice::yield_now();
        },
        2 => {
            let never = runtime::predicate::Predicate::new().or(&[runtime::predicate::clock(u64::MAX)]);
            let _ = never.map(|never| never.wait());
        }
        3 => transfer::serve(serve_nothing),
        4 => {
            let _section = runtime::critical_section::enter();
            loop {
                core::hint::spin_loop();
            }
        }
        5 => {
            runtime::upcall::set_handler(kind::INVALID_OPCODE, spin_in_handler);
            // SAFETY: the handler never comes back.
            unsafe { core::arch::asm!("ud2") };
        }
        6 => {
            let mut children = Vec::new();
            while let Ok(builder) = Builder::new() {
                match builder.create() {
                    Ok(child) => children.push(child),
                    Err(_) => break,
                }
            }
            loop {
                time_slice::yield_now();
            }
        }
        _ => {
            let mut pages = Vec::new();
            while let Ok(page) = Allocator::own().allocate() {
                pages.push(page);
            }
            loop {
                time_slice::yield_now();
            }
        }
    }
}

extern "C" fn serve_nothing(_: EnvironmentId, _: &mut transfer::Message) {}

extern "C" fn spin_in_handler(_: &mut Context) {
    loop {
        core::hint::spin_loop();
    }
}

fn destruction_from_any_state(world: &World) -> Outcome {
    for state in 0..8 {
        let before = exposed::kernel().free_pages.load(SeqCst);
        let child = spawn(world, be_in_a_state, state)?;
        check!(eventually(|| status(&child, 1) == 1), "state {state}: the child does not start");
        for _ in 0..5 {
            time_slice::yield_now();
        }
        granted!(child.destroy());
        world.still_whole()?;
        let after = exposed::kernel().free_pages.load(SeqCst);
        check!(after + 8 >= before, "state {state}: {before} free pages became {after}");
    }
    Ok(())
}

/// It waits for the next call without one, and that call finds it. Where a busy host ends our slice within a call, the
/// service has slices to answer in; so it is enough that none follows one of many calls.
fn a_service_that_has_answered_gets_no_slice(world: &World) -> Outcome {
    let child = spawn(world, be_in_a_state, 3)?;
    check!(eventually(|| status(&child, 1) == 1), "the service does not start");
    let slices = || exposed::environment(child.number).map_or(0, |info| info.slices.load(SeqCst));
    let mut message = [7; 6];
    let mut call = || transfer::call(transfer::Kind::Asynchronous, child.number, &mut message);
    check!(eventually(|| call().is_ok()), "no call");
    let none_follows = |_| {
        let _ = call();
        let before = slices();
        (0..20).for_each(|_| time_slice::yield_now());
        slices() == before
    };
    check!((0..20).any(none_follows), "it got slices after each of 20 calls");
    let before = slices();
    granted!(transfer::call(transfer::Kind::Asynchronous, child.number, &mut message));
    check!(message == [7; 6], "the answer is {message:?}");
    // What is pending wakes it.
    granted!(syscall::event_raise(KeyIndex::FIRST, child.number, 1));
    check!(eventually(|| slices() > before), "an event does not wake it");
    granted!(child.destroy());
    world.still_whole()
}

fn used() -> Vec<[u64; 3]> {
    let info = exposed::environment(area::number());
    let figures = |info: exposed::Environment| {
        info.budget
            .iter()
            .skip(1)
            .map(|budget| [&budget.limit, &budget.reserved, &budget.used].map(|word| word.load(SeqCst)))
            .collect()
    };
    info.map(figures).unwrap_or_default()
}

fn budgets_come_back(world: &World) -> Outcome {
    let before = used();
    for state in [1, 6, 7] {
        let child = spawn(world, be_in_a_state, state)?;
        check!(eventually(|| status(&child, 1) == 1), "state {state}: the child does not start");
        refused!(
            syscall::budget_move(
                KeyIndex::FIRST,
                area::number(),
                child.number,
                Resource::Page as u64,
                Figure::Limit as u64,
                u64::MAX
            ),
            OverBudget
        );
        refused!(
            syscall::budget_move(KeyIndex::WELL_KNOWN, child.number, area::number(), Resource::Page as u64, 0, 1),
            NotPermitted
        );
        refused!(syscall::budget_move(KeyIndex::FIRST, child.number, area::number(), 99, 0, 1), BadArgument);
        refused!(syscall::budget_move(KeyIndex::FIRST, child.number, area::number(), 0, 2, 1), BadArgument);
        granted!(child.destroy());
        check!(used() == before, "state {state}: budgets were {before:?} and are {:?}", used());
    }
    Ok(())
}

/// The controller of an ended environment moves what that one has or inherits. Nothing is given to it, and what is gone
/// has nothing.
fn the_budget_of_a_dying_one_is_to_be_had(world: &World) -> Outcome {
    const PAGE: u64 = Resource::Page as u64;
    let before = used();
    let child = spawn(world, leave_a_child, 0)?;
    check!(child.wait(u64::MAX), "the child does not end");
    let (number, grandchild) = (child.number, EnvironmentId(status(&child, 1)));
    let spare = |number: EnvironmentId| {
        let info = exposed::environment(number);
        info.map_or(0, |info| {
            let [limit, used] = [&info.budget[0].limit, &info.budget[0].used].map(|word| word.load(SeqCst));
            limit - used
        })
    };
    let move_from = |number, amount| syscall::budget_move(KeyIndex::FIRST, number, area::number(), PAGE, 0, amount);
    let (rest, own) = (spare(number), spare(area::number()));
    check!(rest > 0, "the child had nothing");
    refused!(syscall::budget_move(KeyIndex::WELL_KNOWN, number, area::number(), PAGE, 0, 1), NotPermitted);
    refused!(syscall::budget_move(KeyIndex::FIRST, area::number(), number, PAGE, 0, 1), NoSuchEnvironment);
    refused!(move_from(number, rest + 1), OverBudget);
    granted!(move_from(number, rest));
    check!(spare(number) == 0 && spare(area::number()) == own + rest, "it has {} pages left", spare(number));
    // Its own child has ended before it: what that one had is the dying one's, and to be had again.
    while syscall::environment_destroy(KeyIndex::FIRST, grandchild)
        .is_err_and(|failure| failure.error == abi::Error::Again)
    {}
    granted!(move_from(number, spare(number)));
    granted!(child.destroy());
    refused!(move_from(number, 0), NoSuchEnvironment);
    check!(used() == before, "budgets were {before:?} and are {:?}", used());
    Ok(())
}

extern "C" fn leave_a_child(_: u64) {
    let child = Builder::new().and_then(Builder::create).map(|child| child.number.0);
    Area::current().status(1).store(child.unwrap_or(u64::MAX), SeqCst);
    runtime::entry::exit(0);
}

/// The charge for an environment is its creator's, and goes to the heir with it, not with the last of the creator.
fn a_grandchild_goes_before_its_dead_creator(world: &World) -> Outcome {
    let before = used();
    let child = spawn(world, leave_a_child, 0)?;
    check!(child.wait(u64::MAX), "the child does not end");
    let grandchild = EnvironmentId(status(&child, 1));
    let creator = || exposed::environment(grandchild).map_or(0, |info| info.creator.load(SeqCst));
    check!(creator() == child.number.0, "the child made none");
    while creator() == child.number.0 {
        refused!(syscall::environment_destroy(KeyIndex::FIRST, child.number), Again);
    }
    check!(creator() == area::number().0, "it was not adopted");
    while syscall::environment_destroy(KeyIndex::FIRST, grandchild).is_err() {}
    granted!(child.destroy());
    check!(used() == before, "budgets were {before:?} and are {:?}", used());
    Ok(())
}

/// Those that are charged to this environment.
fn private_pages() -> Vec<PageNumber> {
    let own = exposed::environment(area::number()).into_iter().flat_map(|info| info.pages());
    let is_private =
        |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.kind() == PageKind::EnvironmentPrivate);
    own.filter(is_private).collect()
}

/// Its public page, its number and its place among its creator's stay, and nothing that it used, until it is destroyed
/// for good.
fn what_is_left_of_one_that_is_still_asked_about(world: &World) -> Outcome {
    let seen = || (exposed::kernel().free_pages.load(SeqCst), used());
    // The first time takes tables and room on the heap, and its child's pages are this environment's from then on.
    ask_about_what_is_left(world, leave_a_child)?;
    let before = seen();
    ask_about_what_is_left(world, count_to)?;
    check!(seen() == before, "there was {before:?} and is {:?}", seen());
    Ok(())
}

fn ask_about_what_is_left(world: &World, function: extern "C" fn(u64)) -> Outcome {
    let others = private_pages();
    let child = spawn(world, function, 0)?;
    check!(child.wait(u64::MAX), "the child does not end");
    let (number, said) = (child.number, [child.status().map_or(u64::MAX, u64::from), status(&child, 1)]);
    let private: Vec<PageNumber> = private_pages().into_iter().filter(|page| !others.contains(page)).collect();
    check!(private.len() == PRIVATE_COUNT, "it had {} private pages", private.len());
    let info = exposed::environment(number).ok_or("no record")?;
    let mut steps = 0;
    while !info.is_zombie() {
        refused!(syscall::environment_destroy(KeyIndex::FIRST, number), Again);
        steps += 1;
        check!(steps < 1000, "it is no zombie after {steps} steps");
    }
    check!(info.creator.load(SeqCst) == area::number().0, "its creator is another one");
    let says = [child.status().map_or(u64::MAX, u64::from), status(&child, 1)];
    check!(says == said, "its public page says {says:?}, not {said:?}");
    let figures = info.budget.iter().flat_map(|budget| [&budget.limit, &budget.reserved, &budget.used]);
    check!(figures.map(|figure| figure.load(SeqCst)).sum::<u64>() == 0, "it has a budget");
    check!(info.first_child.load(SeqCst) == 0, "its child was not adopted");
    let is_ordinary = |page: &PageNumber| {
        exposed::page(*page).is_some_and(|info| info.kind() == PageKind::Ordinary && info.owner() == area::number())
    };
    check!(private.iter().all(is_ordinary), "private pages are still its own");
    // They hold anything else, and what comes for it does not find them.
    let window = granted!(Window::open(&private, KeyIndex::FIRST, Access::WRITE));
    window.words().iter().for_each(|word| word.store(number.0, SeqCst));
    refused!(syscall::event_raise(KeyIndex::FIRST, number, 1), NoSuchEnvironment);
    refused!(syscall::revocation_request(KeyIndex::FIRST, number, 1, 1, u64::MAX), NoSuchEnvironment);
    refused!(syscall::time_slice_allocate(KeyIndex::FIRST, number, 0, time_slice::ANY_POSITION), NoSuchEnvironment);
    let first = first_page(world.image.plan.entry, count_to, 1)?;
    for keeps in [true, false] {
        refused!(renew(number, first, keeps), NoSuchEnvironment);
    }
    granted!(Allocator::own().free(first));
    check!(window.words().iter().all(|word| word.load(SeqCst) == number.0), "something was written into its pages");
    drop(window);
    while syscall::environment_destroy(KeyIndex::FIRST, EnvironmentId(said[1]))
        .is_err_and(|failure| failure.error == abi::Error::Again)
    {}
    granted!(child.destroy());
    check!(!exposed::environment(number).is_some_and(|info| info.remains()), "it is still there");
    Ok(())
}

/// Where children find the page of the lock.
const LOCK: u64 = 0x2100_0000;

/// Takes the lock and a critical section, and ends with both (0), or never leaves them (1).
extern "C" fn die_with_the_lock(case: u64) {
    // SAFETY: the creator shows a page of zeros here, which is a free lock.
    let lock = unsafe { &*(LOCK as *const OwnerLock) };
    let held = lock.acquire();
    core::mem::forget(runtime::critical_section::enter());
    Area::current().status(1).store(1, SeqCst);
    core::mem::forget(held);
    while case == 1 {
        core::hint::spin_loop();
    }
    runtime::entry::exit(0);
}

fn fault_46_lock_of_a_dead_holder(world: &World) -> Outcome {
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    for case in 0..2 {
        let mut builder = prepare(world, die_with_the_lock, case)?;
        granted!(builder.show(LOCK, &[page], Access::WRITE));
        let child = launch(builder)?;
        check!(eventually(|| status(&child, 1) == 1), "the child does not take the lock");
        // SAFETY: the window shows the page for as long as it is open.
        let lock = unsafe { &*(window.address() as *const OwnerLock) };
        check!(lock.owner() == child.number, "the lock is held by {:?}", lock.owner());
        if case == 1 {
            check!(child.alive(), "the child died: {}", death(&child));
            refused!(syscall::environment_destroy(KeyIndex::FIRST, child.number), Again);
        }
        check!(eventually(|| !child.alive()), "the child does not die with the lock");
        let held = lock.acquire();
        check!(held.taken == Taken::FromTheDead(child.number), "the lock was {:?}", held.taken);
        drop(held);
        check!(lock.acquire().taken == Taken::Free, "the lock is not free after its release");
        granted!(child.destroy());
    }
    drop(window);
    granted!(Allocator::own().free(page));
    Ok(())
}

/// Ends with pages that are charged to it.
extern "C" fn allocate_and_end(_: u64) {
    for _ in 0..3 {
        let _ = Allocator::own().allocate();
    }
}

/// Environments in every slot, the first included, whose number in a record also means "none". Large tables and
/// several CPUs are left to the churn of full runs.
fn every_slot_of_the_table_is_like_the_others(world: &World) -> Outcome {
    let slots = exposed::kernel().environments.load(SeqCst);
    let mut first_slot_seen = slots > 2048 || exposed::kernel().cpus.load(SeqCst) > 1;
    for _ in 0..slots {
        if first_slot_seen {
            break;
        }
        let child = spawn(world, allocate_and_end, 0)?;
        first_slot_seen = child.number.0.is_multiple_of(slots);
        check!(child.wait(u64::MAX), "environment {} does not end", child.number.0);
        granted!(child.destroy());
    }
    check!(first_slot_seen, "no environment of {slots} was in the first slot");
    Ok(())
}

/// Recomputes what is exposed of environments from single records, and compares.
fn every_environment_is_accounted_for(_: &World) -> Outcome {
    let kernel = exposed::kernel();
    let mut charged = 0;
    for slot in 0..kernel.environments.load(SeqCst) {
        let Some(info) = exposed::environment_slot(slot).filter(|info| info.alive()) else { continue };
        let used = info.budget[Resource::Page as usize].used.load(SeqCst);
        let listed = info.pages().count() as u64;
        check!(
            used == listed,
            "environment {} is charged for {used} pages and lists {listed}",
            info.number.load(SeqCst)
        );
        let slices: usize = (0..kernel.cpus.load(SeqCst))
            .map(|cpu| {
                exposed::slices(cpu).iter().filter(|slice| slice.owner.load(SeqCst) == info.number.load(SeqCst)).count()
            })
            .sum();
        let slices_used = info.budget[Resource::Slice as usize].used.load(SeqCst);
        check!(
            slices as u64 == slices_used,
            "environment {} holds {slices} slices, charged {slices_used}",
            info.number.load(SeqCst)
        );
        charged += used;
    }
    let owned = kernel.owned_pages.load(SeqCst) + kernel.orphan_pages.load(SeqCst);
    check!(charged == owned, "living environments are charged for {charged} pages, {owned} are owned");
    let kinds: Vec<u64> = (0..kernel.pages.load(SeqCst)).filter_map(|number| exposed::page(PageNumber(number))).fold(
        alloc::vec![0; PageKind::COUNT as usize],
        |mut counts, info| {
            counts[info.kind() as usize] += 1;
            counts
        },
    );
    check!(kinds[PageKind::Free as usize] == kernel.free_pages.load(SeqCst), "pages by kind are {kinds:?}");
    let head = kernel.first_free_page.load(SeqCst);
    let free = core::iter::successors(Some(PageNumber(head & 0xffff_ffff)), |page| exposed::page(*page)?.next())
        .take(kernel.pages.load(SeqCst) as usize + 1)
        .count() as u64;
    check!(free == kernel.free_pages.load(SeqCst), "the free list has {free} pages");
    Ok(())
}
