//! Numbers with bits above those in use are never taken for others, and others add no frame to a deep upcall stack.
#![no_std]
#![no_main]

extern crate alloc;

use abi::Error;
use abi::area::UPCALL_STACK;
use abi::capability::Rights;
use abi::limits::{KEYS, PAGE_SIZE};
use abi::syscall::{ASYNCHRONOUS, CALLEE, SYNCHRONOUS};
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::Access;
use runtime::area::Area;
use runtime::environment::Child;
use runtime::page::{self, Allocator};
use runtime::predicate::{Operator, Predicate, word};
use runtime::{EnvironmentId, KeyIndex, PageNumber, UserAddress, address_space, area, syscall, time_slice};
use test_programs::callee::{callee, leave_ready};
use test_programs::child::{death, eventually, prepare, sleeps, spawn, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here fault_158_transfers_compare_whole_numbers;
    Here fault_158_yields_compare_whole_numbers;
    Child fault_158_key_indices_with_high_bits;
    Here fault_159_slices_of_an_environment_deep_in_its_upcall_stack;
    Here fault_159_events_of_an_environment_deep_in_its_upcall_stack;
}

/// Status word in which a child counts.
const COUNT: usize = 1;

fn fault_158_transfers_compare_whole_numbers(world: &World) -> Outcome {
    let child = callee(world)?;
    for bit in 16..CALLEE.trailing_ones() {
        for way in [SYNCHRONOUS, ASYNCHRONOUS] {
            let other = child.number.0 | 1 << bit;
            let answer = leave_ready(way | other, 0, 0);
            check!(answer == Error::NoSuchEnvironment as u64, "a transfer to {other:#x} gave {answer:#x}");
        }
    }
    check!(status(&child, 2) == 0, "the callee was entered {} times", status(&child, 2));
    granted!(child.destroy());
    Ok(())
}

extern "C" fn count(_: u64) {
    loop {
        Area::current().status(COUNT).fetch_add(1, SeqCst);
    }
}

extern "C" fn sleep(_: u64) {
    let never = word(Area::current().status(COUNT), Operator::Equal, 7);
    if let Ok(predicate) = Predicate::new().or(&[never]) {
        let _ = predicate.wait();
    }
}

fn refuse_others(child: &Child) -> Outcome {
    for bit in 16..64 {
        let other = EnvironmentId(child.number.0 | 1 << bit);
        refused!(time_slice::yield_to(other), NoSuchEnvironment);
    }
    Ok(())
}

/// In each state that makes a context another than a simple one: never run, asleep, switched out whole.
fn fault_158_yields_compare_whole_numbers(world: &World) -> Outcome {
    let fresh = granted!(prepare(world, count, 0)?.create());
    refuse_others(&fresh)?;
    check!(status(&fresh, COUNT) == 0, "a child that has no slice began");
    granted!(fresh.destroy());
    let sleeper = spawn(world, sleep, 0)?;
    check!(eventually(|| sleeps(&sleeper)), "the child does not sleep: {}", death(&sleeper));
    refuse_others(&sleeper)?;
    check!(sleeps(&sleeper), "the child was woken");
    granted!(sleeper.destroy());
    let runner = spawn(world, count, 0)?;
    for _ in 0..5 {
        let before = status(&runner, COUNT);
        refuse_others(&runner)?;
        check!(eventually(|| status(&runner, COUNT) > before), "the child does not count: {}", death(&runner));
    }
    granted!(runner.destroy());
    Ok(())
}

/// A place that no table leads to.
const PLACE: UserAddress = UserAddress(0x280_0000_0000);

/// Each call that takes a key, by an index whose low bits are those of a key that allows it.
fn fault_158_key_indices_with_high_bits() -> Outcome {
    let (allocator, good) = (Allocator::own(), KeyIndex::FIRST);
    let (page, table, root) = (granted!(allocator.allocate()), granted!(allocator.allocate()), area::root());
    for bit in 6..64 {
        let key = KeyIndex(good.0 | 1 << bit);
        check!(key.0 >= KEYS as u64, "the index is one of the ring");
        refused!(syscall::key_copy(key, u64::from(Rights::ALL.0), area::number(), KeyIndex(9), good), NoSuchKey);
        refused!(syscall::key_derive(key, KeyIndex(9), u64::from(Rights::ALL.0), 0), NoSuchKey);
        refused!(syscall::key_drop(area::number(), key, good), NoSuchKey);
        refused!(syscall::access_list_set(key, allocator.list, 9, good, 0), NoSuchKey);
        refused!(syscall::access_list_set(good, allocator.list, 9, key, u64::from(Rights::ALL.0)), NoSuchKey);
        refused!(page::allocate_one(key, allocator.list, PageNumber::NONE), NoSuchKey);
        // SAFETY: the page is mapped nowhere, and each call is refused.
        refused!(syscall::page_free(key, page), NoSuchKey);
        refused!(syscall::page_claim(key, page, good, allocator.list), NoSuchKey);
        refused!(syscall::page_claim(good, page, key, allocator.list), NoSuchKey);
        // SAFETY: as before.
        refused!(unsafe { syscall::page_map(key, root, PLACE, 0) }, NoSuchKey);
        // SAFETY: as before.
        refused!(unsafe { syscall::page_table_link(key, root, PLACE, 3, table, good) }, NoSuchKey);
        // SAFETY: as before.
        refused!(unsafe { syscall::page_table_link(good, root, PLACE, 3, table, key) }, NoSuchKey);
    }
    copy_by_high_index(page)
}

/// Ends the sharing of a table by such an index, where the right one was used a moment before.
fn copy_by_high_index(page: PageNumber) -> Outcome {
    let (space, good) = (address_space::own(), KeyIndex::FIRST);
    let places = [PLACE.0, PLACE.0 + (1 << 30)];
    for place in places {
        // SAFETY: no object of the program lies there.
        granted!(unsafe { space.map(place, &[page], Access::READ) });
    }
    let fresh = granted!(Allocator::own().allocate());
    // SAFETY: as before.
    let other = unsafe { syscall::page_table_unlink(good, area::root(), UserAddress(places[1]), 1) };
    granted!(Allocator::own().free(granted!(other)));
    let first = granted!(test_programs::level_one_of(places[0]));
    // SAFETY: as before.
    granted!(unsafe { syscall::page_table_link(good, area::root(), UserAddress(places[1]), 1, first, good) });
    for bit in 6..64 {
        let key = KeyIndex(good.0 | 1 << bit);
        refused!(syscall::page_table_copy(good, area::root(), UserAddress(places[1]), 1, fresh, key), NoSuchKey);
    }
    // SAFETY: as before.
    granted!(unsafe { syscall::page_table_unlink(good, area::root(), UserAddress(places[1]), 1) });
    granted!(Allocator::own().free(fresh));
    Ok(())
}

/// Counts in its first status word with RSP so far above the lowest byte of its upcall stack.
extern "C" fn count_deep(above: u64) {
    let area = Area::current();
    area.private().events_accepted.store(1, SeqCst);
    // SAFETY: the code below uses no stack, and never ends.
    unsafe {
        core::arch::asm!(
            "mov rsp, {rsp}", "2:", "inc qword ptr [{count}]", "jmp 2b",
            rsp = in(reg) area.address() + UPCALL_STACK + above, count = in(reg) area.status(COUNT), options(noreturn)
        )
    }
}

/// How far from the lowest byte: nothing fits, one frame fits, nearly half of the smallest stack.
const DEPTHS: [u64; 4] = [0, 8, 200, PAGE_SIZE];

fn keeps_counting(child: &Child, rounds: usize, mut disturb: impl FnMut()) -> Outcome {
    for round in 0..rounds {
        let before = status(child, COUNT);
        disturb();
        let counts = || status(child, COUNT) > before;
        check!(eventually(counts), "round {round}: the child does not count: {}", death(child));
    }
    Ok(())
}

fn fault_159_slices_of_an_environment_deep_in_its_upcall_stack(world: &World) -> Outcome {
    for depth in DEPTHS {
        let child = spawn(world, count_deep, depth)?;
        keeps_counting(&child, 20, || {
            let _ = time_slice::yield_to(child.number);
        })?;
        granted!(child.destroy());
    }
    Ok(())
}

fn fault_159_events_of_an_environment_deep_in_its_upcall_stack(world: &World) -> Outcome {
    for depth in DEPTHS {
        let child = spawn(world, count_deep, depth)?;
        keeps_counting(&child, 20, || {
            // Refused until the child accepts it.
            let _ = syscall::event_raise(KeyIndex::WELL_KNOWN, child.number, 1);
            let _ = time_slice::yield_to(child.number);
        })?;
        granted!(child.destroy());
    }
    Ok(())
}
