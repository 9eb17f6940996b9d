//! A resource manager: it gets pages for a library operating system with a reservation while ExOS has nearly all.
//!
//! ExOS fills the machine. This program asks its environments for pages, starts the other system once so many are
//! free, and starts nothing where they do not come in time. The kernel only carries the requests
//! (exokernel-sosp95 §3.3): whom to ask, and for how much, is decided here.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::budget::{Figure, Resource};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::archive::{self, Archive};
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::predicate::sleep_until;
use runtime::{
    EnvironmentId, Failure, KeyIndex, PageNumber, area, clock, entry, error_line, exposed, println, syscall,
};
use runtime::{time_slice, upcall};

entry!(main);

/// How long the answer to a request may take, in nanoseconds. It is for a busy host; what it took is told.
const ANSWER: u64 = 20_000_000_000;
/// The same where nothing can be given up, and no answer comes.
const NO_ANSWER: u64 = 400_000_000;
/// How long ExOS may take for whatever it does.
const LIMIT: u64 = 60_000_000_000;
/// How long a wait takes between two looks.
const STEP: u64 = 500_000;
/// Pages that this program and the making of the other system take.
const OWN: u64 = 1200;
/// Budget of pages that each environment keeps, whatever is asked.
const SPARE: u64 = 1000;
/// Free pages below which the machine counts as full.
const FULL: u64 = 4500;
/// Free pages at which ExOS is asked while it fills the machine.
const FILLING: [u64; 3] = [14_000, 10_000, 6_000];
/// Status words of the other system: pages it holds, when it had all of them, and how many were taken from it.
const HELD: usize = 1;
const DONE: usize = 2;
const TAKEN: usize = 3;

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let inner = archive::boot().find("system/init").ok_or("the boot archive has no system/init")?.data;
    let exos = Image::init_of(Archive::new(inner), Allocator::own()).map_err(|error| format!("{error}"))?;
    let own = Image::init_of(archive::boot(), Allocator::own()).map_err(|error| format!("{error}"))?;
    let half = pages_of_the_machine() / 2;
    FILLING.into_iter().try_for_each(|free| ask_while_it_fills(&exos, free))?;
    println!("one request is answered whole, whenever it comes");
    let exos = start_exos(&exos).map_err(explain)?;
    await_full(&exos)?;
    let begun = clock::now();
    let (missing, mut budget) = ask(half + OWN, begun + ANSWER);
    if missing > 0 {
        return Err(format!("{missing} pages of {half} did not come"));
    }
    let other = start_other(&own, half).map_err(explain)?;
    let took = await_pages(&other, half)?.saturating_sub(begun);
    error_line!("{half} pages came in {took} ns");
    println!("the reservation is there");
    sleep_until(clock::now() + 300_000_000);
    check_other(&other, half)?;
    other.destroy().map_err(explain)?;
    budget.give_back();
    await_full(&exos)?;
    let (missing, _) = ask(half + OWN, clock::now() + NO_ANSWER);
    println!("where nothing can be given up it is refused: {}", missing > 0);
    if !exos.wait(clock::now() + LIMIT) || exos.status() != Some(0) {
        return Err(format!("ExOS ended with status {:?}", exos.status()));
    }
    exos.destroy().map_err(explain)
}

/// One request, for more than the program has given up so far: ExOS answers with that, and with the rest later.
fn ask_while_it_fills(exos: &Image<'static>, free: u64) -> Result<(), String> {
    let before = free_pages();
    let (exos, end) = (start_exos(exos).map_err(explain)?, clock::now() + LIMIT);
    while free_pages() > free {
        sleep_until(clock::now() + STEP);
        if clock::now() > end || !exos.alive() {
            return Err(format!("ExOS leaves {} pages free, and ended with {:?}", free_pages(), exos.status()));
        }
    }
    let (number, _) = richest(&[]).ok_or("no other environment lives")?;
    let wanted = (before * 3 / 4).saturating_sub(free);
    request(number, wanted, end).map_err(explain)?;
    let deadline = clock::now() + NO_ANSWER;
    while asked_of(number) != 0 && clock::now() < deadline {
        sleep_until(clock::now() + STEP);
    }
    let left = asked_of(number);
    exos.destroy().map_err(explain)?;
    while free_pages() + OWN < before && clock::now() < end {
        sleep_until(clock::now() + STEP);
    }
    if left == 0 { Ok(()) } else { Err(format!("asked at {free} free pages, {left} of {wanted} did not come")) }
}

fn explain(why: Failure) -> String {
    format!("{} ({why:?})", why.error.text())
}

fn free_pages() -> u64 {
    exposed::kernel().free_pages.load(SeqCst)
}

fn pages_of_the_machine() -> u64 {
    let kernel = exposed::kernel();
    kernel.free_pages.load(Relaxed) + kernel.owned_pages.load(Relaxed)
}

/// ExOS with nearly everything that there is.
fn start_exos(image: &Image<'static>) -> Result<Child, Failure> {
    let mut builder = Builder::new()?;
    builder.program(image)?.archive(archive::boot_bytes())?;
    let info = exposed::environment(area::number());
    let limit = |resource: Resource| info.map_or(0, |info| info.budget[resource as usize].limit.load(Relaxed));
    for resource in Resource::ALL {
        let share = if resource == Resource::Page { free_pages() - OWN } else { limit(resource) / 2 };
        builder.budget(resource, share);
    }
    let child = builder.create()?;
    child.run(0, time_slice::ANY_POSITION)?;
    Ok(child)
}

/// Waits until ExOS has filled the machine.
fn await_full(exos: &Child) -> Result<(), String> {
    const STEP: u64 = 20_000_000;
    const STEPS: u32 = 5;
    let (end, mut full) = (clock::now() + LIMIT, 0);
    while full < STEPS {
        sleep_until(clock::now() + STEP);
        full = if free_pages() < FULL { full + 1 } else { 0 };
        if clock::now() > end || !exos.alive() {
            return Err(format!("ExOS leaves {} pages free, and ended with {:?}", free_pages(), exos.status()));
        }
    }
    Ok(())
}

/// Asks the environments that have the most until so many pages are free. An environment that gives nothing for a
/// while has given what it can for now: its request stays open, the next one is asked, and later it is asked again. The
/// result is how many are missing at the deadline. What was not answered is withdrawn.
///
/// With the pages goes the budget for them: what was given up cannot be taken again by the one that gave it. Where the
/// pages do not come, the budget goes back.
fn ask(wanted: u64, deadline: u64) -> (u64, Budget) {
    const PATIENCE: u64 = 5_000_000;
    let mut budget = Budget::default();
    let missing = || wanted.saturating_sub(free_pages());
    let (mut turn, mut asked) = (Vec::new(), Vec::new());
    while missing() > 0 && clock::now() < deadline {
        let Some((number, used)) = richest(&turn) else {
            turn.clear();
            sleep_until(clock::now() + STEP);
            continue;
        };
        let _ = request(number, missing().min(used), deadline);
        turn.push(number);
        asked.push(number);
        await_answer(number, deadline, PATIENCE, &mut budget);
    }
    asked.into_iter().filter(|number| asked_of(*number) != 0).for_each(|number| _ = request(number, 0, 0));
    if missing() > 0 {
        budget.give_back();
    }
    (missing(), budget)
}

/// Waits until an environment has answered whole, or has given nothing for so long.
fn await_answer(number: EnvironmentId, deadline: u64, patience: u64, budget: &mut Budget) {
    let (mut left, mut since) = (asked_of(number), clock::now());
    while left != 0 && clock::now() < deadline.min(since + patience) {
        sleep_until(clock::now() + STEP);
        budget.collect();
        if asked_of(number) != left {
            (left, since) = (asked_of(number), clock::now());
        }
    }
}

/// Budget of pages that was taken from other environments: from which, and how much.
#[derive(Default)]
struct Budget(Vec<(EnvironmentId, u64)>);

impl Budget {
    /// Takes what environments have and do not use, beyond a little.
    fn collect(&mut self) {
        for (number, info) in others() {
            let budget = &info.budget[Resource::Page as usize];
            let spare = budget.limit.load(Relaxed).saturating_sub(budget.used.load(Relaxed));
            if spare > SPARE && move_limit(number, area::number(), spare - SPARE).is_ok() {
                self.0.push((number, spare - SPARE));
            }
        }
    }

    fn give_back(&mut self) {
        self.0.drain(..).for_each(|(number, amount)| _ = move_limit(area::number(), number, amount));
    }
}

fn move_limit(from: EnvironmentId, to: EnvironmentId, amount: u64) -> Result<(), Failure> {
    syscall::budget_move(KeyIndex::FIRST, from, to, Resource::Page as u64, Figure::Limit as u64, amount)
}

fn request(from: EnvironmentId, count: u64, deadline: u64) -> Result<(), Failure> {
    syscall::revocation_request(KeyIndex::FIRST, from, Resource::Page as u64, count, deadline)
}

/// Pages that are still asked of an environment.
fn asked_of(number: EnvironmentId) -> u64 {
    let Some(info) = exposed::environment(number).filter(|info| info.alive()) else { return 0 };
    let (resource, count) =
        info.consistent(|info| (info.revocation_resource.load(SeqCst), info.revocation_count.load(SeqCst)));
    if resource == 0 { 0 } else { count }
}

/// The living environment with the most pages of those that were not asked yet.
fn richest(asked: &[EnvironmentId]) -> Option<(EnvironmentId, u64)> {
    let used = |info: &exposed::Environment| info.budget[Resource::Page as usize].used.load(Relaxed);
    let left = others().filter(|(number, _)| !asked.contains(number));
    left.map(|(number, info)| (number, used(&info))).max_by_key(|(_, used)| *used)
}

/// The living environments without this one.
fn others() -> impl Iterator<Item = (EnvironmentId, exposed::Environment)> {
    let slots = 0..exposed::kernel().environments.load(Relaxed);
    let living = slots.filter_map(exposed::environment_slot).filter(|info| info.alive());
    let numbered = living.map(|info| (EnvironmentId(info.number.load(Relaxed)), info));
    numbered.filter(|(number, _)| *number != area::number())
}

/// The other system, with so many pages reserved.
fn start_other(image: &Image<'static>, pages: u64) -> Result<Child, Failure> {
    let mut builder = Builder::new()?;
    builder.program(image)?.function(take_all, pages).budget(Resource::Page, pages);
    let child = builder.create()?;
    child.reserve(Resource::Page, pages)?;
    child.run(0, time_slice::ANY_POSITION)?;
    Ok(child)
}

/// Takes its pages, and says when it had them.
extern "C" fn take_all(pages: u64) {
    let taken: upcall::Handler = note_taken;
    upcall::set_handler(abi::upcall::kind::REPOSSESSION, taken);
    let (area, mut held) = (Area::current(), 0);
    let mut some = [PageNumber::NONE; 64];
    while held < pages {
        let count = (pages - held).min(some.len() as u64);
        if Allocator::own().allocate_many(&mut some[..count as usize]).is_ok() {
            held += count;
        }
        area.status(HELD).store(held, SeqCst);
    }
    area.status(DONE).store(clock::now(), SeqCst);
    loop {
        sleep_until(clock::now() + LIMIT);
    }
}

extern "C" fn note_taken(_: &mut upcall::Context) {
    Area::current().status(TAKEN).fetch_add(1, SeqCst);
}

fn status(child: &Child, word: usize) -> u64 {
    let at = abi::area::PUBLIC_STATUS as usize / 8 + word;
    child.public().map_or(0, |public| public.words()[at].load(SeqCst))
}

/// Waits until the other system has its pages; when that was.
fn await_pages(other: &Child, pages: u64) -> Result<u64, String> {
    let end = clock::now() + LIMIT;
    while status(other, DONE) == 0 {
        if clock::now() > end || !other.alive() {
            return Err(format!("the other system has {} pages of {pages}", status(other, HELD)));
        }
        sleep_until(clock::now() + 1_000_000);
    }
    Ok(status(other, DONE))
}

fn check_other(other: &Child, pages: u64) -> Result<(), String> {
    match (status(other, HELD), status(other, TAKEN)) {
        (held, 0) if held == pages => Ok(()),
        (held, taken) => Err(format!("the other system has {held} pages of {pages}, and lost pages {taken} times")),
    }
}
