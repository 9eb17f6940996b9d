//! As many environments as the machine has memory for: four thousand in a gigabyte.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::limits::PAGE_SIZE;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::{clock, exposed, heap, time_slice};
use test_programs::child::{prepare, status};
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Here four_thousand_environments_live_and_run;
}

const ENVIRONMENTS: usize = 4000;
/// Page tables that the heap of the creator may have come to need.
const TABLES: u64 = 2;

/// Says that it has run.
extern "C" fn live(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

fn four_thousand_environments_live_and_run(world: &World) -> Outcome {
    let (before, heap_before) = (free_pages(), heap::range().1);
    let mut children = Vec::with_capacity(ENVIRONMENTS);
    for number in 0..ENVIRONMENTS {
        let mut builder = prepare(world, live, 0)?;
        builder.silent();
        for resource in Resource::ALL {
            builder.budget(resource, 0);
        }
        let child = builder.create();
        check!(child.is_ok(), "environment {number} could not be made: {:?}", child.err());
        let mut child = granted!(child);
        granted!(child.forget_key());
        children.push(child);
    }
    for (number, child) in children.iter().enumerate() {
        let end = clock::now() + 10_000_000_000;
        while status(child, 1) == 0 && clock::now() < end {
            granted!(time_slice::yield_to(child.number));
        }
        check!(status(child, 1) == 1, "environment {number} does not run");
    }
    world.still_whole()?;
    // The newest first: the pages of the others need not be looked at.
    for child in children.into_iter().rev() {
        granted!(child.destroy());
    }
    let (after, grown) = (free_pages(), (heap::range().1 - heap_before) / PAGE_SIZE);
    check!(after + grown <= before, "{before} free pages became {after}, with {grown} in the heap");
    check!(after + grown + TABLES >= before, "{before} free pages became {after}, only {grown} of them in the heap");
    Ok(())
}

fn free_pages() -> u64 {
    exposed::kernel().free_pages.load(SeqCst)
}
