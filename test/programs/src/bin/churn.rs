//! Many environments and many pages: ten thousand come and go, and at the end everything is accounted for. For full runs.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::upcall::kind;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::environment::Child;
use runtime::page::Allocator;
use runtime::upcall::{Context, set_handler};
use runtime::{Error, KeyIndex, PageNumber, clock, exposed, syscall, time_slice};
use test_programs::child::{launch, prepare, status};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Here ten_thousand_environments_and_a_hundred_thousand_pages;
}

const SEED: u64 = 0x10_000;
const ENVIRONMENTS: u64 = 10_000;
const TOGETHER: usize = 30;
/// Status words of a child: pages it has allocated so far, and pages taken from it by force.
const MOVED: usize = 1;
const TAKEN: usize = 2;
/// Pages that a child holds at most.
const HELD: usize = 24;

/// Gives back what is asked; one in three ignores it.
extern "C" fn answer(context: &mut Context) {
    let area = Area::current();
    area.status(TAKEN).store(area.private().repossessed.load(SeqCst), SeqCst);
    if context.frame.kind != kind::REVOCATION || area.library().free[0].load(SeqCst) == 0 {
        return;
    }
    let mut left = context.frame.detail;
    for index in 0..HELD {
        let page = area.public_library(index).swap(0, SeqCst);
        if left > 0 && page != 0 && Allocator::own().free(PageNumber(page)).is_ok() {
            left -= 1;
        } else {
            area.public_library(index).store(page, SeqCst);
        }
    }
}

/// Allocates and frees pages for ever; bit 0 of the seed decides whether it answers requests.
extern "C" fn live(seed: u64) {
    let area = Area::current();
    area.library().free[0].store(seed % 3, SeqCst);
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, answer);
    }
    let mut random = Random(seed);
    loop {
        // The list of pages and the upcall that edits it must not meet.
        let section = runtime::critical_section::enter();
        let index = random.below(HELD as u64) as usize;
        let page = area.public_library(index).swap(0, SeqCst);
        if page != 0 {
            let _ = Allocator::own().free(PageNumber(page));
        }
        if let Ok(page) = Allocator::own().allocate() {
            area.public_library(index).store(page.0, SeqCst);
            area.status(MOVED).fetch_add(1, SeqCst);
        }
        drop(section);
        if random.below(4) == 0 {
            time_slice::yield_now();
        }
    }
}

fn start(world: &World, seed: u64) -> Result<Child, alloc::string::String> {
    let mut builder = prepare(world, live, seed)?;
    builder.silent().budget(Resource::Page, 64).budget(Resource::Slice, 1);
    builder.budget(Resource::Predicate, 0).budget(Resource::Environment, 0).budget(Resource::Pin, 0);
    let mut child = launch(builder)?;
    granted!(child.forget_key());
    Ok(child)
}

/// Asks for pages, and takes them after the deadline.
fn revoke(child: &Child, count: u64) -> Outcome {
    let asked = syscall::revocation_request(KeyIndex::FIRST, child.number, Resource::Page as u64, count, clock::now());
    if asked.is_ok() {
        time_slice::yield_now();
    }
    while let Err(failure) = syscall::revocation_enforce(KeyIndex::FIRST, child.number) {
        match failure.error {
            Error::Again => time_slice::yield_now(),
            Error::BadArgument | Error::NoSuchEnvironment => break,
            _ => return Err(format!("enforcing gave {failure:?}")),
        }
    }
    Ok(())
}

fn ten_thousand_environments_and_a_hundred_thousand_pages(world: &World) -> Outcome {
    let mut random = Random(SEED);
    let free = || exposed::kernel().free_pages.load(SeqCst);
    let (before, mut moved, mut taken) = (free(), 0, 0);
    let mut children: Vec<Child> = Vec::with_capacity(TOGETHER);
    for number in 0..ENVIRONMENTS {
        while children.len() >= TOGETHER {
            let child = children.swap_remove(random.below(TOGETHER as u64) as usize);
            moved += status(&child, MOVED);
            taken += status(&child, TAKEN);
            granted!(child.destroy());
        }
        children.push(start(world, random.number())?);
        if random.below(4) == 0 {
            revoke(&children[random.below(children.len() as u64) as usize], random.below(8) + 1)?;
        }
        time_slice::yield_now();
        if number % 500 == 0 {
            world.still_whole().map_err(|why| format!("seed {SEED:#x}, environment {number}: {why}"))?;
        }
    }
    for child in children {
        moved += status(&child, MOVED);
        taken += status(&child, TAKEN);
        granted!(child.destroy());
    }
    check!(moved >= 100_000 && taken > 0, "only {moved} pages were moved, {taken} taken by force");
    check!(free() + 128 >= before, "{before} free pages became {}", free());
    world.pages_add_up()
}
