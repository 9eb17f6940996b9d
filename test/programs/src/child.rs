//! Children: tests that run in an environment of their own, and evil for tests that watch it from outside.

use crate::victim::describe;
use crate::{Outcome, Place, Test, World, check};
use abi::area::PrivateWords;
use abi::budget::Resource;
use abi::environment::Specification;
use abi::limits::PAGE_SIZE;
use abi::machine::Setting;
use alloc::format;
use alloc::string::String;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime::address_space::Access;
use runtime::area::{Area, LIBRARY, LibraryWords};
use runtime::environment::{Builder, Child};
use runtime::page::Allocator;
use runtime::window::Window;
use runtime::{
    EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, clock, entry, exposed, syscall, time_slice,
};

/// How long a test in a child may take without coming any further, in nanoseconds. No verdict depends on the pace of
/// the host, only on whether the awaited event comes at all.
pub const LIMIT: u64 = 120_000_000_000;
/// Status word of a child that counts how far it has come, where that takes long.
const PROGRESS: usize = 40;
/// Bytes of a reason that fit in the public page.
const REASON_BYTES: usize = 1024;
/// Exit status of a child whose test failed.
const FAILED: u32 = 1;

/// A builder for a child of this program that begins with `function`, with some pages to use.
///
/// # Errors
/// Why the kernel refused.
pub fn prepare(world: &World, function: extern "C" fn(u64), argument: u64) -> Result<Builder, String> {
    let build = || -> Result<Builder, Failure> {
        let mut builder = Builder::new()?;
        builder.program(&world.image)?.function(function, argument);
        builder.budget(Resource::Page, 512).budget(Resource::Slice, 4).budget(Resource::Predicate, 16);
        builder.budget(Resource::Environment, 8).budget(Resource::Pin, 4);
        Ok(builder)
    };
    build().map_err(describe)
}

/// Creates what was prepared and gives it a slice on CPU 0.
///
/// # Errors
/// Why the kernel refused.
pub fn launch(builder: Builder) -> Result<Child, String> {
    let child = builder.create().map_err(describe)?;
    child.run(0, time_slice::ANY_POSITION).map_err(describe)?;
    Ok(child)
}

/// Runs this while slices have this length, in nanoseconds. The old length is back afterwards.
///
/// # Errors
/// Why the kernel refused, or what `run` says.
pub fn with_quantum<T>(quantum: u64, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let set = |to| syscall::machine_set(KeyIndex::FIRST, Setting::Quantum as u64, to).map_err(describe);
    let before = exposed::kernel().quantum.load(Relaxed);
    set(quantum)?;
    let result = run();
    set(before)?;
    result
}

/// A child that runs `function`.
///
/// # Errors
/// Why the kernel refused.
pub fn spawn(world: &World, function: extern "C" fn(u64), argument: u64) -> Result<Child, String> {
    launch(prepare(world, function, argument)?)
}

/// A page of words for an environment that begins again at `entry` with a critical section, and calls `function` on its
/// upcall stack.
///
/// # Errors
/// Why there is none.
pub fn first_page(entry: u64, function: extern "C" fn(u64), argument: u64) -> Result<PageNumber, String> {
    let page = Allocator::own().allocate().map_err(describe)?;
    let window = Window::open(&[page], KeyIndex::FIRST, Access::WRITE).map_err(describe)?;
    let library = |offset: usize| LIBRARY as usize + offset;
    for (offset, value) in [
        (offset_of!(PrivateWords, slice_start_entry), entry),
        (offset_of!(PrivateWords, critical_section), 1),
        (library(offset_of!(LibraryWords, keys)), 0b11),
        (library(offset_of!(LibraryWords, start_stack)), abi::boot::AREA + 7 * PAGE_SIZE),
        (library(offset_of!(LibraryWords, start_function)), function as usize as u64),
        (library(offset_of!(LibraryWords, start_argument)), argument),
    ] {
        window.words()[offset / 8].store(value, Relaxed);
    }
    Ok(page)
}

/// What creates an environment from the parts of a dead one, under the own name.
pub fn parts(number: EnvironmentId, first: PageNumber, keeps: bool) -> Specification {
    let (name_key, space) = (KeyIndex::FIRST.0, u64::from(keeps));
    Specification { name_key, parts_of: number.0, first: first.0, space, ..Specification::default() }
}

/// Creates an environment in as many steps as it takes.
///
/// # Errors
/// Why the kernel refused.
pub fn create(key: KeyIndex, wanted: &Specification) -> Result<EnvironmentId, Failure> {
    loop {
        // SAFETY: the kernel reads the specification; nothing of this program lies in the pages that become an area.
        match unsafe { syscall::environment_create(key, UserAddress(core::ptr::from_ref(wanted) as u64)) } {
            Err(Failure { error: Error::Again, .. }) => {}
            done => return done,
        }
    }
}

/// Creates an environment from the parts of a dead one; the address space stays as it is if it `keeps` it.
///
/// # Errors
/// Why the kernel refused.
pub fn renew(number: EnvironmentId, first: PageNumber, keeps: bool) -> Result<EnvironmentId, Failure> {
    create(KeyIndex::FIRST, &parts(number, first, keeps))
}

/// Runs a test of the table in a child and waits for its verdict.
pub(crate) fn run_test(world: &World, index: usize) -> Outcome {
    let argument = (&raw const world.tests[index]) as u64;
    let child = spawn(world, body, argument)?;
    let outcome = verdict(&child);
    child.destroy().map_err(|failure| format!("destroying the child: {}", describe(failure)))?;
    outcome
}

/// Waits for a child to end and reads what it left.
fn verdict(child: &Child) -> Outcome {
    let mut come = status(child, PROGRESS);
    while !child.wait(clock::now() + LIMIT) {
        let before = core::mem::replace(&mut come, status(child, PROGRESS));
        check!(come != before, "the child does not end");
    }
    match child.status() {
        Some(0) => Ok(()),
        Some(FAILED) => Err(read_reason(child)),
        Some(status) => Err(format!("the child ended with status {status}")),
        None => Err(format!("the child died: {}", death(child))),
    }
}

/// In a child whose test takes long: it has come further.
pub fn comes_further() {
    Area::current().status(PROGRESS).fetch_add(1, Relaxed);
}

/// In the child: the test itself. The table lies at the same address as in the first environment.
extern "C" fn body(test: u64) {
    // SAFETY: the creator passed the address of an element of a static of this same image.
    let test: &Test = unsafe { &*(test as *const Test) };
    let Place::Child(body) = test.place else { entry::exit(FAILED) };
    if let Err(why) = body() {
        leave_reason(&why);
        entry::exit(FAILED);
    }
}

fn leave_reason(why: &str) {
    let end = why.floor_char_boundary(REASON_BYTES);
    for (index, bytes) in why.as_bytes()[..end].chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Area::current().public_library(index).store(u64::from_le_bytes(word), Relaxed);
    }
}

fn read_reason(child: &Child) -> String {
    let mut bytes = [0; REASON_BYTES];
    let Ok(public) = child.public() else { return String::from("the child failed, and its public page is gone") };
    public.read((PAGE_SIZE / 2) as usize, &mut bytes);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A status word of a child's public page.
pub fn status(child: &Child, index: usize) -> u64 {
    let word = abi::area::PUBLIC_STATUS as usize / 8 + index;
    child.public().map_or(0, |public| public.words()[word].load(Acquire))
}

/// Whether a child sleeps on a predicate over words: it is charged for each.
pub fn sleeps(child: &Child) -> bool {
    child.info().is_some_and(|info| info.budget[Resource::Predicate as usize].used.load(Acquire) != 0)
}

/// Lets a child that serves transfers, and says so in its first status word, come to its waiting place. That it was
/// given time says nothing: a busy host may have used it up before the child's first instruction, or between two of
/// them. Then the child is refused as busy, rightly.
///
/// # Errors
/// When it does not come there.
pub fn settle(child: &Child) -> Outcome {
    let waits = || {
        let _ = time_slice::yield_to(child.number);
        status(child, 1) == 1 && sleeps(child) && !exposed::runs(child.number)
    };
    check!(eventually(waits), "the callee does not come to wait");
    Ok(())
}

/// Waits until a condition holds, for as long as a busy host may need.
pub fn eventually(condition: impl FnMut() -> bool) -> bool {
    eventually_by(|| 0, condition)
}

/// Waits until a condition holds that takes many steps; `progress` changes with each, and each may take as long as a
/// busy host needs.
pub fn eventually_by(progress: impl Fn() -> u64, mut condition: impl FnMut() -> bool) -> bool {
    let (mut come, mut end) = (progress(), clock::now() + LIMIT / 2);
    while !condition() {
        let before = core::mem::replace(&mut come, progress());
        if come != before {
            end = clock::now() + LIMIT / 2;
        }
        if clock::now() > end {
            return false;
        }
        time_slice::yield_now();
    }
    true
}

/// Whether something that a busy host can spoil comes out as it should in one of so many tries; else the first reason.
///
/// # Errors
/// What the first try said.
pub fn once_in(tries: usize, mut attempt: impl FnMut() -> Outcome) -> Outcome {
    let first = attempt();
    first.or_else(|why| if (1..tries).any(|_| attempt().is_ok()) { Ok(()) } else { Err(why) })
}

/// How a child died, as the kernel recorded it.
pub fn death(child: &Child) -> String {
    child.info().map_or_else(|| String::from("its record is gone"), death_of)
}

fn death_of(info: exposed::Environment) -> String {
    format!(
        "reason {}, kind {}, address {:#x}, rip {:#x}, by {}",
        info.death_reason.load(Acquire),
        info.death_kind.load(Acquire),
        info.death_address.load(Acquire),
        info.death_rip.load(Acquire),
        info.death_by.load(Acquire)
    )
}

/// Waits for a child's death and checks the recorded reason, then takes its pages back.
///
/// # Errors
/// What was different.
pub fn expect_death(child: Child, reason: runtime::environment::DeathReason) -> Outcome {
    let died = child.wait(clock::now() + LIMIT / 2);
    let found = child.info().map_or(u64::MAX, |info| info.death_reason.load(Acquire));
    let text = death(&child);
    child.destroy().map_err(describe)?;
    check!(died, "the child lives on");
    check!(found == reason as u64, "the child died otherwise than by {reason:?}: {text}");
    Ok(())
}
