//! Wakeup predicates: what wakes, what may be watched, and who pays.
#![no_std]
#![no_main]

extern crate alloc;

use abi::UserAddress;
use abi::budget::Resource;
use abi::exposed::CpuState;
use abi::host_channel::{HEADER, PAYLOAD};
use abi::limits::PREDICATE_TERMS;
use abi::page_table::MapRow;
use abi::predicate::Term;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use runtime::address_space::{self, Access};
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::page::{self, Allocator, PageKind};
use runtime::predicate::{
    Event, EventLoop, Fired, Next, Operator, Predicate, Source, clock as until, wait_any, word, word_masked,
};
use runtime::window::Window;
use runtime::{Failure, KeyIndex, Kind, PageNumber, area, channel, clock, exposed, syscall, time_slice};
use test_programs::child::{LIMIT, eventually, launch, prepare, sleeps, spawn, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Child a_clock_term_ends_the_wait;
    Child every_operator_compares_as_it_says;
    Child the_product_that_fired_is_named;
    Here a_word_of_another_wakes;
    Here the_record_of_a_page_wakes;
    Here no_wakeup_is_lost;
    Here a_frame_of_the_host_wakes_on_every_cpu;
    Here many_sleepers_let_their_cpu_idle_and_lose_no_wakeup;
    Child an_event_loop_serves_its_sources;
    Here fault_16_terms_are_changed_while_one_sleeps_by_them;
    Here fault_41_watched_page_is_freed;
    Here fault_41_who_watches_on_an_idle_cpu_is_told;
    Here fault_41_who_watches_a_table_that_goes_is_told;
    Here fault_41_who_watches_through_a_table_that_goes_is_told;
    Child fault_41_words_that_cannot_be_watched;
    Child fault_41_too_many_terms;
    Here fault_41_never_true;
    Child fault_42_budget_of_watched_pages;
    Here fault_42_evaluation_is_charged_to_the_owner;
}

fn a_clock_term_ends_the_wait() -> Outcome {
    for wait in [0, 1, 1_000_000, 20_000_000] {
        let time = clock::now() + wait;
        granted!(granted!(Predicate::new().or(&[until(time)])).wait());
        check!(clock::now() >= time, "the wait for {wait} ns ended {} ns too early", time - clock::now());
        check!(clock::now() < time + 30_000_000_000, "the wait for {wait} ns took {} ns too long", clock::now() - time);
    }
    Ok(())
}

/// Whether a predicate over one term is true now, tried against a deadline that is past.
fn holds(term: Term) -> Result<bool, Failure> {
    let predicate = Predicate::new().or(&[term])?.or(&[until(0)])?;
    Ok(predicate.wait()? == Fired::Product(0))
}

fn every_operator_compares_as_it_says() -> Outcome {
    let watched = Area::current().status(9);
    for value in [0u64, 1, 7, u64::MAX - 1, u64::MAX, 1 << 63] {
        for other in [0u64, 1, 7, u64::MAX - 1, u64::MAX, 1 << 63] {
            watched.store(value, SeqCst);
            let expected = [
                (Operator::Equal, value == other),
                (Operator::NotEqual, value != other),
                (Operator::Less, value < other),
                (Operator::LessOrEqual, value <= other),
                (Operator::Greater, value > other),
                (Operator::GreaterOrEqual, value >= other),
            ];
            for (operator, truth) in expected {
                check!(granted!(holds(word(watched, operator, other))) == truth, "{value} {operator:?} {other}");
            }
            let masked = granted!(holds(word_masked(watched, 0xff, Operator::Equal, other & 0xff)));
            check!(masked == (value & 0xff == other & 0xff), "{value} and {other} under a mask");
        }
    }
    Ok(())
}

fn the_product_that_fired_is_named() -> Outcome {
    let (left, right) = (Area::current().status(9), Area::current().status(10));
    let equal = |at: &AtomicU64, value| word(at, Operator::Equal, value);
    for (values, expected) in [([1, 2], 1), ([3, 4], 2), ([9, 9], 3), ([1, 1], 0)] {
        left.store(values[0], SeqCst);
        right.store(values[1], SeqCst);
        let predicate = granted!(Predicate::new().or(&[equal(left, 1), equal(right, 1)]));
        let predicate = granted!(predicate.or(&[equal(left, 1), equal(right, 2)]));
        let predicate = granted!(granted!(predicate.or(&[equal(right, 4)])).or(&[until(clock::now() + 1_000_000)]));
        let fired = granted!(predicate.wait());
        check!(fired == Fired::Product(expected), "with {values:?} it was {fired:?}, not {expected}");
    }
    Ok(())
}

/// Adds one to its word whenever the creator's word, which it is shown at this address, has grown.
const SHOWN: u64 = 0x2200_0000;

extern "C" fn follow(_: u64) {
    // SAFETY: the creator shows its page here, which holds atomics only.
    let shown = unsafe { &*(SHOWN as *const AtomicU64) };
    let own = Area::current().status(1);
    loop {
        let seen = own.load(SeqCst);
        let Ok(Event::Source(0)) = wait_any(&[&[word(shown, Operator::Greater, seen)]], None) else { break };
        own.store(seen + 1, SeqCst);
        let _ = syscall::cpu_kick(0);
    }
}

fn a_word_of_another_wakes(world: &World) -> Outcome {
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    let mut builder = prepare(world, follow, 0)?;
    granted!(builder.show(SHOWN, &[page], Access::READ));
    let child = launch(builder)?;
    let public = granted!(child.public());
    let answer = &public.words()[abi::area::PUBLIC_STATUS as usize / 8 + 1];
    for round in 1..=300 {
        window.words()[0].store(round, SeqCst);
        let deadline = clock::now() + 60_000_000_000;
        let event = granted!(wait_any(&[&[word(answer, Operator::Equal, round)]], Some(deadline)));
        check!(event == Event::Source(0), "round {round}: {event:?}, the child is at {}", answer.load(SeqCst));
    }
    drop(public);
    granted!(child.destroy());
    drop(window);
    granted!(Allocator::own().free(page));
    Ok(())
}

/// Sleeps until the references of a page change.
extern "C" fn watch_references(page: u64) {
    let Some(info) = exposed::page(PageNumber(page)) else { return };
    let seen = info.access.load(SeqCst);
    Area::current().status(1).store(1, SeqCst);
    let changed = Predicate::new().or(&[word(&info.access, Operator::NotEqual, seen)]);
    let woken = changed.and_then(|predicate| predicate.wait());
    Area::current().status(2).store(1 + u64::from(woken == Ok(Fired::Product(0))), SeqCst);
    eventually(|| false);
}

/// Exposed records can be watched: that of the lowest free page, and that of the highest, which may lie behind a hole
/// in memory.
fn the_record_of_a_page_wakes(world: &World) -> Outcome {
    let own = Allocator::own();
    let numbers = || (0..exposed::kernel().pages.load(SeqCst)).map(PageNumber);
    let is_free = |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.kind() == PageKind::Free);
    for place in [numbers().find(is_free), numbers().rev().find(is_free)] {
        let page = place.ok_or("no page is free")?;
        granted!(page::allocate_one(KeyIndex::FIRST, own.list, page));
        let child = spawn(world, watch_references, page.0)?;
        check!(eventually(|| status(&child, 1) == 1 && sleeps(&child)), "it does not sleep by the record of {page:?}");
        check!(status(&child, 2) == 0, "it woke up too early");
        let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::READ));
        check!(eventually(|| status(&child, 2) != 0), "the record of {page:?} does not wake it");
        check!(status(&child, 2) == 2, "the record of {page:?} woke it otherwise");
        drop(window);
        granted!(child.destroy());
        granted!(own.free(page));
    }
    Ok(())
}

/// The same with the child on another CPU, where there is one: both sleep and wake each other.
fn no_wakeup_is_lost(world: &World) -> Outcome {
    let cpus = exposed::kernel().cpus.load(SeqCst);
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    let mut builder = prepare(world, follow, 0)?;
    granted!(builder.show(SHOWN, &[page], Access::READ));
    let child = granted!(builder.create());
    let cpu = cpus - 1;
    granted!(child.run(cpu, time_slice::ANY_POSITION));
    let public = granted!(child.public());
    let answer = &public.words()[abi::area::PUBLIC_STATUS as usize / 8 + 1];
    for round in 1..=500 {
        window.words()[0].store(round, SeqCst);
        granted!(syscall::cpu_kick(cpu));
        let deadline = clock::now() + 60_000_000_000;
        let event = granted!(wait_any(&[&[word(answer, Operator::Equal, round)]], Some(deadline)));
        check!(
            event == Event::Source(0),
            "round {round} on CPU {cpu}: {event:?}, the child is at {}",
            answer.load(SeqCst)
        );
    }
    refused!(syscall::cpu_kick(cpus), NoSuchSlice);
    refused!(syscall::cpu_kick(u64::MAX), NoSuchSlice);
    drop(public);
    granted!(child.destroy());
    drop(window);
    granted!(Allocator::own().free(page));
    Ok(())
}

/// Says that a frame has come from the host.
extern "C" fn watch_frames(_: u64) {
    let frames = &exposed::kernel().channel_frames;
    let _ = wait_any(&[&[word(frames, Operator::NotEqual, 0)]], None);
    Area::current().status(1).store(1, SeqCst);
    let _ = syscall::cpu_kick(0);
}

/// The device interrupts one CPU. A sleeper on another CPU that waits for a frame is woken all the same, and only the
/// kernel could wake it. The frame says that this guest has no input, which the host tells once, when it may send some.
fn a_frame_of_the_host_wakes_on_every_cpu(world: &World) -> Outcome {
    let child = sleeper(world, watch_frames)?;
    channel::send(Kind::InputCredit, &1u32.to_le_bytes());
    let public = granted!(child.public());
    let seen = &public.words()[abi::area::PUBLIC_STATUS as usize / 8 + 1];
    let event = granted!(wait_any(&[&[word(seen, Operator::Equal, 1)]], Some(clock::now() + LIMIT / 2)));
    check!(event == Event::Source(0), "{event:?}, and {} frames wait", exposed::kernel().channel_frames.load(SeqCst));
    let mut frame = [0; HEADER + PAYLOAD];
    let (header, _) = granted!(channel::receive(&mut frame)).ok_or("no frame")?;
    check!(header.kind == Kind::InputEnd as u8, "the frame was {header:?}");
    drop(public);
    granted!(child.destroy());
    Ok(())
}

/// A child on the last CPU, asleep, and the CPU with it where it has no other environment.
fn sleeper(world: &World, function: extern "C" fn(u64)) -> Result<Child, String> {
    sleeper_of(prepare(world, function, 0)?)
}

fn sleeper_of(builder: Builder) -> Result<Child, String> {
    asleep_on_the_last_cpu(granted!(builder.create()))
}

fn asleep_on_the_last_cpu(child: Child) -> Result<Child, String> {
    let cpu = exposed::kernel().cpus.load(SeqCst) - 1;
    let home = exposed::cpu(cpu).ok_or("no such CPU")?;
    granted!(child.run(cpu, time_slice::ANY_POSITION));
    let is_idle = || cpu == 0 || home.state.load(SeqCst) == CpuState::Idle as u64;
    check!(eventually(|| sleeps(&child) && is_idle()), "the child does not sleep");
    Ok(child)
}

/// Sleepers on one CPU, and positions of each: many more than one entry into the kernel may look at, because each has a
/// predicate as long as can be.
const SLEEPERS: usize = 24;
const POSITIONS: u64 = 4;
/// What each waits for, and what it has seen of it. They share this address space.
static CALLED: [AtomicU64; SLEEPERS] = [const { AtomicU64::new(0) }; SLEEPERS];
static ANSWERED: [AtomicU64; SLEEPERS] = [const { AtomicU64::new(0) }; SLEEPERS];
static NEVER: AtomicU64 = AtomicU64::new(0);

extern "C" fn answer_calls(number: u64) {
    let (called, answered) = (&CALLED[number as usize], &ANSWERED[number as usize]);
    let never = [word(&NEVER, Operator::NotEqual, 0)];
    loop {
        let call = word(called, Operator::NotEqual, answered.load(SeqCst));
        let mut conditions = [&never[..]; PREDICATE_TERMS];
        conditions[PREDICATE_TERMS - 1] = core::slice::from_ref(&call);
        let _ = wait_any(&conditions, None);
        answered.store(called.load(SeqCst), SeqCst);
        let _ = syscall::cpu_kick(0);
    }
}

/// Looking for who runs next takes several entries, none of which may be long, and lets interrupts in between. The CPU
/// comes to rest all the same, and a kick that comes in the middle is not lost.
fn many_sleepers_let_their_cpu_idle_and_lose_no_wakeup(_: &World) -> Outcome {
    let cpu = exposed::kernel().cpus.load(SeqCst) - 1;
    let home = exposed::cpu(cpu).ok_or("no such CPU")?;
    let mut sleepers = Vec::new();
    for number in 0..SLEEPERS {
        let mut builder = granted!(Builder::sharing());
        builder.function(answer_calls, number as u64).budget(Resource::Slice, POSITIONS);
        builder.budget(Resource::Predicate, PREDICATE_TERMS as u64);
        let sleeper = granted!(builder.create());
        for _ in 0..POSITIONS {
            granted!(sleeper.run(cpu, time_slice::ANY_POSITION));
        }
        sleepers.push(sleeper);
    }
    let is_idle = || cpu == 0 || home.state.load(SeqCst) == CpuState::Idle as u64;
    check!(eventually(|| sleepers.iter().all(sleeps) && is_idle()), "they do not come to sleep, or their CPU to rest");
    for round in 1..=300u64 {
        let number = (round as usize * 31) % SLEEPERS;
        CALLED[number].store(round, SeqCst);
        granted!(syscall::cpu_kick(cpu));
        let answer = word(&ANSWERED[number], Operator::Equal, round);
        let event = granted!(wait_any(&[&[answer]], Some(clock::now() + LIMIT / 2)));
        check!(event == Event::Source(0), "round {round}: {event:?} from sleeper {number}");
    }
    for sleeper in sleepers {
        granted!(sleeper.destroy());
    }
    Ok(())
}

struct Ticker {
    next: u64,
    ticks: u64,
    word: usize,
}

impl Source for Ticker {
    fn condition(&self) -> alloc::vec::Vec<Term> {
        alloc::vec![until(self.next)]
    }
    fn serve(&mut self) -> Next {
        self.next += 1_000_000;
        self.ticks -= 1;
        Area::current().status(self.word).fetch_add(1, SeqCst);
        if self.ticks == 0 { Next::Leave } else { Next::Stay }
    }
}

fn an_event_loop_serves_its_sources() -> Outcome {
    let mut events = EventLoop::new();
    for (word, ticks) in [(9, 20), (10, 5), (11, 1)] {
        events.add(Ticker { next: clock::now(), ticks, word });
    }
    granted!(events.run(Some(clock::now() + 10_000_000_000)));
    let ticks = [9, 10, 11].map(|word| Area::current().status(word).load(SeqCst));
    check!(ticks == [20, 5, 1], "the sources were served {ticks:?} times");
    Ok(())
}

extern "C" fn watch_shown(_: u64) {
    watch(Some(clock::now() + 100_000_000_000));
}

/// As [`watch_shown`]; no time wakes it.
extern "C" fn watch_shown_for_ever(_: u64) {
    watch(None);
}

fn watch(deadline: Option<u64>) {
    // SAFETY: the creator shows its page here, which holds atomics only.
    let shown = unsafe { &*(SHOWN as *const AtomicU64) };
    Area::current().status(1).store(1, SeqCst);
    let outcome = wait_any(&[&[word(shown, Operator::Equal, 77)]], deadline);
    let code = match outcome {
        Ok(Event::Gone) => 1,
        Ok(Event::Source(_)) => 2,
        Ok(Event::TimedOut) => 3,
        Err(_) => 4,
    };
    Area::current().status(2).store(code, SeqCst);
    eventually(|| false);
}

/// Freeing never waits: the watcher keeps the page until it is told that it is gone.
fn fault_41_watched_page_is_freed(world: &World) -> Outcome {
    let page = granted!(Allocator::own().allocate());
    let mut builder = prepare(world, watch_shown, 0)?;
    granted!(builder.show(SHOWN, &[page], Access::READ));
    let child = launch(builder)?;
    check!(eventually(|| status(&child, 1) == 1), "the child does not run");
    for _ in 0..10 {
        time_slice::yield_now();
    }
    granted!(Allocator::own().free(page));
    let kind = exposed::page(page).map(|info| info.kind());
    check!(kind != Some(PageKind::Free), "a page that is watched and mapped is free");
    check!(eventually(|| status(&child, 2) != 0), "the watcher is not woken");
    check!(status(&child, 2) == 1, "the watcher was told {}, not that the page is gone", status(&child, 2));
    granted!(child.destroy());
    check!(exposed::page(page).map(|info| info.kind()) == Some(PageKind::Free), "the page is not free at last");
    Ok(())
}

/// An environment that gives a page up, or takes it from all by force, does not know the watchers. The kernel does, and
/// makes idle CPUs look.
fn fault_41_who_watches_on_an_idle_cpu_is_told(world: &World) -> Outcome {
    for round in 0..4 {
        let page = granted!(Allocator::own().allocate());
        let mut builder = prepare(world, watch_shown_for_ever, 0)?;
        granted!(builder.show(SHOWN, &[page], Access::READ));
        let child = sleeper_of(builder)?;
        let by_force = round % 2 == 1;
        if by_force {
            let root = child.info().map(|info| PageNumber(info.root.load(SeqCst))).ok_or("no root")?;
            unbind(page, root)?;
            let info = exposed::page(page).ok_or("no record")?;
            check!(info.references() == 0, "{} uses are left", info.references());
        } else {
            granted!(Allocator::own().free(page));
        }
        check!(eventually(|| status(&child, 2) != 0), "round {round}: the watcher is not woken");
        check!(status(&child, 2) == 1, "the watcher was told {}, not that the page is gone", status(&child, 2));
        if by_force {
            granted!(Allocator::own().free(page));
        }
        granted!(child.destroy());
        check!(exposed::page(page).map(|info| info.kind()) == Some(PageKind::Free), "the page is not free at last");
    }
    Ok(())
}

/// Ends every use of a page under a root.
fn unbind(page: PageNumber, root: PageNumber) -> Outcome {
    let mut cursor = 0;
    // SAFETY: the places where the page is mapped hold nothing of the program.
    while let Err(failure) = unsafe { syscall::page_unbind(KEY, page, root, UserAddress(cursor)) } {
        check!(failure.error == abi::Error::Again, "unbinding gave {failure:?}");
        cursor = failure.detail;
    }
    Ok(())
}

/// Where tables are linked that others watch, or watch through.
const TABLES: u64 = 0x200_0000_0000;
const KEY: KeyIndex = KeyIndex::FIRST;

fn link(root: PageNumber, address: u64, level: u64, table: PageNumber) -> Result<(), Failure> {
    // SAFETY: the places that the tests use hold nothing of a program.
    unsafe { syscall::page_table_link(KEY, root, UserAddress(address), level, table, KEY) }
}

fn unlink(root: PageNumber, address: u64, level: u64) -> Result<PageNumber, Failure> {
    // SAFETY: as for `link`.
    unsafe { syscall::page_table_unlink(KEY, root, UserAddress(address), level) }
}

/// Three tables in our own address space, the lowest of which has one entry for `page`.
fn build_tables(page: PageNumber) -> Result<[PageNumber; 3], String> {
    let own = Allocator::own();
    let tables = [granted!(own.allocate()), granted!(own.allocate()), granted!(own.allocate())];
    for (level, table) in (1..=3).rev().zip(tables) {
        granted!(link(area::root(), TABLES, level, table));
    }
    let row = MapRow { address: TABLES | KEY.0, entry: page.address() | Access::READ.0 };
    granted!(address_space::own().apply(&[row]));
    Ok(tables)
}

/// How a page table can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Unlinked,
    GivenUp,
    Forced,
}

fn end_table(end: End, table: PageNumber) -> Outcome {
    match end {
        End::Unlinked => drop(granted!(unlink(area::root(), TABLES, 1))),
        End::GivenUp => granted!(syscall::page_free(KEY, table)),
        End::Forced => unbind(table, area::root())?,
    }
    Ok(())
}

/// A page table is shown like any page, and a watcher sleeps over an entry of it on an idle CPU. However the table
/// goes, the watcher is told.
fn fault_41_who_watches_a_table_that_goes_is_told(world: &World) -> Outcome {
    for end in [End::Unlinked, End::GivenUp, End::Forced] {
        let page = granted!(Allocator::own().allocate());
        let tables = build_tables(page)?;
        let mut builder = prepare(world, watch_shown_for_ever, 0)?;
        granted!(builder.show(SHOWN, &[tables[2]], Access::READ));
        let child = sleeper_of(builder)?;
        end_table(end, tables[2])?;
        check!(eventually(|| status(&child, 2) != 0), "{end:?}: the watcher is not woken");
        check!(status(&child, 2) == 1, "{end:?}: it was told {}, not that the table is gone", status(&child, 2));
        granted!(child.destroy());
        if end == End::GivenUp {
            granted!(unlink(area::root(), TABLES, 1));
        }
        for level in 2..=3 {
            granted!(unlink(area::root(), TABLES, level));
        }
        for given in [page, tables[0], tables[1]] {
            granted!(Allocator::own().free(given));
        }
        if end != End::GivenUp {
            granted!(Allocator::own().free(tables[2]));
        }
    }
    Ok(())
}

/// A watcher sleeps on an idle CPU over a word of a page that it sees through a table of ours. Without the table it
/// sleeps on; with the page given up, before or after, it is told.
fn fault_41_who_watches_through_a_table_that_goes_is_told(world: &World) -> Outcome {
    for page_first in [false, true] {
        let page = granted!(Allocator::own().allocate());
        let tables = build_tables(page)?;
        let other = granted!(Allocator::own().allocate());
        let mut builder = prepare(world, watch_shown_for_ever, 0)?;
        // The table for this place is there, and makes room for ours.
        granted!(builder.show(SHOWN, &[other], Access::READ));
        let child = granted!(builder.create());
        let root = child.info().map(|info| PageNumber(info.root.load(SeqCst))).ok_or("no root")?;
        let replaced = granted!(unlink(root, SHOWN, 1));
        granted!(link(root, SHOWN, 1, tables[2]));
        let child = asleep_on_the_last_cpu(child)?;
        if page_first {
            granted!(Allocator::own().free(page));
            check!(eventually(|| status(&child, 2) != 0), "the watcher is not woken by the page");
        }
        check!(granted!(unlink(root, SHOWN, 1)) == tables[2], "another table was unlinked");
        check!(granted!(unlink(area::root(), TABLES, 1)) == tables[2], "another table was unlinked");
        if !page_first {
            check!(sleeps(&child), "the watcher was woken though its page is as it was");
            granted!(Allocator::own().free(page));
            check!(eventually(|| status(&child, 2) != 0), "the watcher is not woken");
        }
        check!(status(&child, 2) == 1, "the watcher was told {}, not that the page is gone", status(&child, 2));
        check!(exposed::page(page).map(|info| info.kind()) == Some(PageKind::Free), "the page is not free at last");
        granted!(child.destroy());
        for level in 2..=3 {
            granted!(unlink(area::root(), TABLES, level));
        }
        for given in [tables[0], tables[1], tables[2], other, replaced] {
            let _ = Allocator::own().free(given);
        }
    }
    Ok(())
}

fn raw_wait(terms: &[Term]) -> Result<u64, Failure> {
    // SAFETY: the terms are as many as we say. The calls here are refused: a wait that was granted would lose registers,
    // and the test with them.
    unsafe {
        syscall::invoke(abi::syscall::number::predicate_wait, [terms.as_ptr() as u64, terms.len() as u64, 0, 0, 0, 0])
    }
}

fn fault_41_words_that_cannot_be_watched() -> Outcome {
    let good = word(Area::current().status(9), Operator::Equal, 5);
    let own = Area::current().address();
    for source in [1 << 47, u64::MAX, 3, own + 1, own + 4, abi::memory_map::KERNEL_IMAGE, abi::memory_map::DIRECT_MAP] {
        if source == abi::predicate::CLOCK {
            continue;
        }
        let outcome = raw_wait(&[Term { source, ..good }]);
        check!(outcome.is_err(), "a word at {source:#x} was watched");
    }
    for operation in [6, 255, 1 << 9, u64::MAX, 0x200] {
        refused!(raw_wait(&[Term { operation, ..good }]), BadArgument);
    }
    // SAFETY: refused: the terms lie where nobody can read, or nowhere.
    let outcome = unsafe { syscall::invoke(abi::syscall::number::predicate_wait, [1 << 62, 1, 0, 0, 0, 0]) };
    refused!(outcome, BadAddress);
    Ok(())
}

fn fault_41_too_many_terms() -> Outcome {
    let terms = [word(Area::current().status(9), Operator::Equal, 5); PREDICATE_TERMS + 1];
    refused!(raw_wait(&terms), TooMany);
    // SAFETY: refused by the count alone.
    let outcome =
        unsafe { syscall::invoke(abi::syscall::number::predicate_wait, [terms.as_ptr() as u64, u64::MAX, 0, 0, 0, 0]) };
    refused!(outcome, TooMany);
    Ok(())
}

extern "C" fn sleep_for_ever(_: u64) {
    let never = word(Area::current().status(9), Operator::Equal, 5);
    Area::current().status(1).store(1, SeqCst);
    let _ = Predicate::new().or(&[never]).map(|never| never.wait());
    Area::current().status(2).store(1, SeqCst);
}

fn fault_41_never_true(world: &World) -> Outcome {
    let child = spawn(world, sleep_for_ever, 0)?;
    check!(eventually(|| status(&child, 1) == 1), "the child does not run");
    for _ in 0..50 {
        time_slice::yield_now();
    }
    check!(status(&child, 2) == 0, "it woke up");
    granted!(child.destroy());
    Ok(())
}

/// Where a sleeper finds a page that its creator writes, too: its terms, and in the second half the word that it
/// watches.
const SHARED: u64 = 0x2100_0000;
const WATCHED: usize = 256;

/// Sleeps by terms that others write, until a word is 5; says how it was woken.
extern "C" fn sleep_by_shared_terms(_: u64) {
    // SAFETY: the creator shows a page of zeros here, half of which has room for a predicate; it changes only words that the
    // kernel alone reads.
    let (predicate, watched) =
        unsafe { (&mut *(SHARED as *mut Predicate), &*(SHARED as *const AtomicU64).add(WATCHED)) };
    *predicate = Predicate::new();
    let _ = predicate.add(&[word(watched, Operator::Equal, 5)]);
    Area::current().status(1).store(predicate.terms().as_ptr() as u64, SeqCst);
    let as_told = predicate.wait_once() == Ok(Fired::Product(0));
    Area::current().status(2).store(1 + u64::from(as_told), SeqCst);
    eventually(|| false);
}

/// The kernel sleeps by its own copy: what is written into the terms afterwards wakes no sleeper, and keeps none
/// asleep.
fn fault_16_terms_are_changed_while_one_sleeps_by_them(world: &World) -> Outcome {
    let page = granted!(Allocator::own().allocate());
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::WRITE));
    let mut builder = prepare(world, sleep_by_shared_terms, 0)?;
    granted!(builder.show(SHARED, &[page], Access::WRITE));
    let child = launch(builder)?;
    check!(eventually(|| status(&child, 1) != 0 && sleeps(&child)), "the child does not sleep");
    let first = (status(&child, 1) - SHARED) as usize / 8;
    let words = &window.words()[first..first + 4];
    check!(words[0].load(SeqCst) == SHARED + 8 * WATCHED as u64, "its terms are not at {first}");
    let (always, clock) = (Operator::LessOrEqual as u64, abi::predicate::CLOCK);
    let kernels = abi::memory_map::KERNEL_IMAGE;
    for (source, operation, mask, value) in [
        (SHARED, Operator::NotEqual as u64, u64::MAX, 0),
        (SHARED, always, 0, 0),
        (clock, Operator::GreaterOrEqual as u64, u64::MAX, 0),
        (kernels, Operator::NotEqual as u64, u64::MAX, 0),
        (u64::MAX, u64::MAX, u64::MAX, u64::MAX),
    ] {
        words.iter().zip([source, operation, mask, value]).for_each(|(place, word)| place.store(word, SeqCst));
        for _ in 0..20 {
            time_slice::yield_now();
        }
        check!(status(&child, 2) == 0 && sleeps(&child), "terms of {source:#x} woke it: {}", status(&child, 2));
    }
    window.words()[WATCHED].store(5, SeqCst);
    check!(eventually(|| status(&child, 2) != 0), "its own word does not wake it");
    check!(status(&child, 2) == 2, "it was woken otherwise");
    drop(window);
    granted!(child.destroy());
    granted!(Allocator::own().free(page));
    Ok(())
}

fn fault_42_budget_of_watched_pages() -> Outcome {
    let info = exposed::environment(area::number()).ok_or("no record")?;
    let limit = info.budget[Resource::Predicate as usize].limit.load(SeqCst) as usize;
    check!(limit <= 16, "the test assumes a small budget, not {limit}");
    granted!(syscall::budget_move(
        KeyIndex::FIRST,
        area::number(),
        abi::EnvironmentId(1),
        Resource::Predicate as u64,
        0,
        limit as u64
    ));
    refused!(raw_wait(&[word(Area::current().status(9), Operator::Equal, 5)]), OverBudget);
    Ok(())
}

fn fault_42_evaluation_is_charged_to_the_owner(world: &World) -> Outcome {
    let child = spawn(world, sleep_for_ever, 0)?;
    check!(eventually(|| status(&child, 1) == 1), "the child does not run");
    let terms = || child.info().map_or(0, |info| info.predicate_terms.load(SeqCst));
    let before = terms();
    check!(eventually(|| terms() > before + 20), "evaluations are not counted: {} after {before}", terms());
    let own = exposed::environment(world.victim.number()).map_or(1, |info| info.predicate_terms.load(SeqCst));
    check!(own == 0, "the victim, which never waits, is charged {own} terms");
    granted!(child.destroy());
    Ok(())
}
