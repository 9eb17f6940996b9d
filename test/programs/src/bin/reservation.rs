//! Reservations: an environment below its own gets its pages though others hold everything, and only one above its own
//! is asked (DESIGN.md §4, "Revocation": the one policy of the kernel).
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::{Figure, Resource};
use abi::machine::Setting;
use abi::upcall::kind;
use alloc::string::String;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::page::{self, Allocator};
use runtime::upcall::{Context, set_handler};
use runtime::{Error, Failure, KeyIndex, PageNumber, area, clock, exposed, predicate, syscall, time_slice};
use test_programs::child::{eventually, launch, once_in, prepare, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here reservations_are_moved_and_never_made;
    Here who_is_below_its_reservation_gets_what_others_give_back;
    Here who_is_below_its_reservation_gets_what_others_do_not_give_back;
    Here who_is_not_below_its_reservation_is_refused;
    Here a_search_left_unfinished_misleads_nobody;
    Here the_root_key_sets_what_a_shortage_asks_for;
}

/// Status words of the children.
const HELD: usize = 1;
const REQUESTS: usize = 2;
const REPOSSESSIONS: usize = 3;
const REFUSALS: usize = 4;
/// Pages that the modest hold, and that those who come late want.
const MODEST: u64 = 60;
const WANTED: u64 = 150;
/// Pages that a hog remembers, so that it can give them back.
const REMEMBERED: usize = 512;

/// The last pages that a hog got: a ring.
static LAST: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];

extern "C" fn note(context: &mut Context) {
    let area = Area::current();
    if context.frame.kind == kind::REVOCATION {
        area.status(REQUESTS).fetch_add(1, SeqCst);
    }
    area.status(REPOSSESSIONS).fetch_max(area.private().repossessed.load(SeqCst), SeqCst);
}

/// Gives back what is asked, and takes what it can at once.
extern "C" fn give_back(context: &mut Context) {
    note(context);
    if context.frame.kind != kind::REVOCATION {
        return;
    }
    let mut left = context.frame.detail;
    for word in LAST.iter().filter(|word| word.load(Relaxed) != 0) {
        if left == 0 {
            break;
        }
        left -= u64::from(Allocator::own().free(PageNumber(word.swap(0, Relaxed))).is_ok());
    }
    if page::allocate_one(KeyIndex::FIRST, Allocator::own().list, PageNumber::NONE).is_err() {
        Area::current().status(REFUSALS).fetch_add(1, SeqCst);
    }
}

fn handle(handler: extern "C" fn(&mut Context)) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, handler);
    }
}

/// Takes pages until there are so many, or until it is refused; then lives on.
fn take(most: u64) -> ! {
    let mut held = 0;
    while held < most {
        match Allocator::own().allocate() {
            Ok(page) => LAST[held as usize % REMEMBERED].store(page.0, Relaxed),
            Err(failure) => {
                Area::current().status(REFUSALS).store(failure.error as u64, SeqCst);
                break;
            }
        }
        held += 1;
        Area::current().status(HELD).store(held, SeqCst);
    }
    Area::current().status(0).store(1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

extern "C" fn hog_and_give_back(_: u64) {
    handle(give_back);
    take(u64::MAX)
}

extern "C" fn hog_and_ignore(_: u64) {
    handle(note);
    take(u64::MAX)
}

extern "C" fn hold(count: u64) {
    handle(note);
    take(count)
}

fn budget(number: abi::EnvironmentId) -> (u64, u64, u64) {
    exposed::environment(number).map_or((0, 0, 0), |info| {
        let budget = &info.budget[Resource::Page as usize];
        (budget.limit.load(SeqCst), budget.reserved.load(SeqCst), budget.used.load(SeqCst))
    })
}

/// A child that holds pages, with so much of the reservation. It has it before it runs: an earlier shortage may last
/// still, in which those above their reservation are refused.
fn holder(world: &World, count: u64, reserved: u64) -> Result<Child, String> {
    let child = granted!(prepare(world, hold, count)?.create());
    granted!(child.reserve(Resource::Page, reserved));
    granted!(child.run(0, time_slice::ANY_POSITION));
    Ok(child)
}

/// A child that holds all that was free. Its limit is more than there is.
fn hog(world: &World, function: extern "C" fn(u64)) -> Result<Child, String> {
    // While an environment may be short of pages none above its reservation gets any: wait until earlier shortages are
    // over.
    predicate::sleep_until(clock::now() + 2 * exposed::kernel().shortage_deadline.load(SeqCst));
    let all = exposed::kernel().free_pages.load(SeqCst) + 1000;
    let mut builder = prepare(world, function, 0)?;
    builder.budget(Resource::Page, all);
    let child = launch(builder)?;
    check!(eventually(|| status(&child, 0) == 1), "the hog holds {} pages and wants more", status(&child, HELD));
    check!(
        status(&child, REFUSALS) == Error::Exhausted as u64,
        "the hog was refused with {}",
        status(&child, REFUSALS)
    );
    Ok(child)
}

fn reservations_are_moved_and_never_made(world: &World) -> Outcome {
    let all = exposed::kernel().reserved_pages.load(SeqCst);
    let (_, own, _) = budget(area::number());
    check!(all > 0 && own <= all, "{own} of {all} reserved pages are ours");
    let child = launch(prepare(world, hold, 0)?)?;
    granted!(child.reserve(Resource::Page, 100));
    check!(budget(child.number).1 == 100 && budget(area::number()).1 == own - 100, "the reservation did not move");
    let move_on = |amount| {
        let (from, figure) = (child.number, Figure::Reserved as u64);
        syscall::budget_move(KeyIndex::FIRST, from, area::number(), Resource::Page as u64, figure, amount)
    };
    refused!(move_on(101), OverBudget);
    refused!(move_on(u64::MAX), OverBudget);
    granted!(move_on(40));
    granted!(child.destroy());
    check!(budget(area::number()).1 == own, "{} pages are reserved for us, not {own}", budget(area::number()).1);
    check!(exposed::kernel().reserved_pages.load(SeqCst) == all, "there are more or fewer reservations than before");
    Ok(())
}

/// Only the hog has pages to give. An environment below its reservation gets its pages, and the modest are not asked.
fn gets_its_pages(world: &World, function: extern "C" fn(u64), by_force: bool) -> Outcome {
    let modest = holder(world, MODEST, 400)?;
    check!(eventually(|| status(&modest, HELD) == MODEST), "the modest holds {} pages", status(&modest, HELD));
    let late = granted!(prepare(world, hold, WANTED)?.create());
    granted!(late.reserve(Resource::Page, 400));
    let hog = hog(world, function)?;
    granted!(late.run(0, time_slice::ANY_POSITION));
    let outcome = is_as_said([&modest, &late, &hog], by_force);
    for child in [hog, late, modest] {
        granted!(child.destroy());
    }
    outcome
}

fn is_as_said([modest, late, hog]: [&Child; 3], by_force: bool) -> Outcome {
    check!(
        eventually(|| status(late, HELD) == WANTED),
        "who is below its reservation holds {} pages of {WANTED}, refused with {}",
        status(late, HELD),
        status(late, REFUSALS)
    );
    // What it is told it counts when it runs, which may be after the pages came.
    check!(eventually(|| status(hog, REQUESTS) > 0), "the hog was not asked");
    let taken = status(hog, REPOSSESSIONS);
    check!((taken > 0) == by_force, "{taken} pages were taken by force");
    // What it gave back was not for itself.
    check!(by_force || status(hog, REFUSALS) > 1, "the hog took back what it gave");
    let (asked, lost) = (status(modest, REQUESTS), status(modest, REPOSSESSIONS));
    check!(asked == 0 && lost == 0, "the modest was asked {asked} times and lost {lost} pages");
    Ok(())
}

/// The holder has until a deadline, which passes on a host that has no time for this machine just then: the test must
/// succeed once.
fn who_is_below_its_reservation_gets_what_others_give_back(world: &World) -> Outcome {
    once_in(5, || gets_its_pages(world, hog_and_give_back, false))
}

fn who_is_below_its_reservation_gets_what_others_do_not_give_back(world: &World) -> Outcome {
    gets_its_pages(world, hog_and_ignore, true)
}

fn a_search_left_unfinished_misleads_nobody(world: &World) -> Outcome {
    let hog = hog(world, hog_and_give_back)?;
    let ask = || page::allocate_one(KeyIndex::FIRST, Allocator::own().list, PageNumber::NONE);
    let is_asked = |info: exposed::Environment| info.revocation_resource.load(SeqCst) != 0;
    while !exposed::environment(hog.number).is_some_and(is_asked) && status(&hog, REQUESTS) == 0 {
        if let Ok(page) = ask() {
            granted!(Allocator::own().free(page));
        }
    }
    // The first step of another search, which the pages that the hog gives back make needless.
    if let Ok(page) = ask() {
        granted!(Allocator::own().free(page));
    }
    check!(eventually(|| exposed::kernel().free_pages.load(SeqCst) > 0), "the hog gives nothing back");
    granted!(hog.destroy());
    gets_its_pages(world, hog_and_ignore, true)
}

fn who_is_not_below_its_reservation_is_refused(world: &World) -> Outcome {
    let poor = granted!(prepare(world, hold, WANTED)?.create());
    granted!(poor.reserve(Resource::Page, 20));
    let hog = hog(world, hog_and_give_back)?;
    granted!(poor.run(0, time_slice::ANY_POSITION));
    check!(eventually(|| status(&poor, 0) == 1), "who is refused waits");
    let (held, why) = (status(&poor, HELD), status(&poor, REFUSALS));
    check!((20..WANTED).contains(&held), "with 20 pages reserved {held} were had");
    check!(why == Error::Exhausted as u64, "who is above its reservation was refused with {why}");
    granted!(hog.destroy());
    granted!(poor.destroy());
    Ok(())
}

fn set(setting: Setting, value: u64) -> Result<(), Failure> {
    syscall::machine_set(KeyIndex::FIRST, setting as u64, value)
}

fn the_root_key_sets_what_a_shortage_asks_for(world: &World) -> Outcome {
    const PAGES: u64 = 7;
    const DEADLINE: u64 = 50_000_000;
    let hog = hog(world, hog_and_ignore)?;
    let before =
        [&exposed::kernel().shortage_pages, &exposed::kernel().shortage_deadline].map(|word| word.load(SeqCst));
    granted!(set(Setting::ShortagePages, PAGES));
    granted!(set(Setting::ShortageDeadline, DEADLINE));
    let begin = clock::now();
    let request = || {
        exposed::environment(hog.number).map_or((0, 0, 0), |info| {
            let [resource, count, deadline] =
                [&info.revocation_resource, &info.revocation_count, &info.revocation_deadline];
            (resource.load(SeqCst), count.load(SeqCst), deadline.load(SeqCst))
        })
    };
    let mut asked = (0, 0, 0);
    let is_asked = eventually(|| {
        if let Ok(page) = page::allocate_one(KeyIndex::FIRST, Allocator::own().list, PageNumber::NONE) {
            let _ = Allocator::own().free(page);
        }
        asked = request();
        asked.0 != 0
    });
    let end = clock::now();
    granted!(set(Setting::ShortagePages, before[0]));
    granted!(set(Setting::ShortageDeadline, before[1]));
    granted!(hog.destroy());
    // Until then none above its reservation gets any.
    predicate::sleep_until(end + 2 * DEADLINE);
    check!(is_asked && asked.1 == PAGES, "the hog was asked for {} pages, not {PAGES}", asked.1);
    let times = begin + DEADLINE..=end + DEADLINE;
    check!(times.contains(&asked.2), "the hog has until {}, not {times:?}", asked.2);
    Ok(())
}
