//! Threads: `clone` with shared memory makes another environment in the same address space, which runs in parallel.
//!
//! It bears the process's own name, so that it can do what the process can; it has an area, a key ring and a budget of
//! its own. The next clone destroys threads that ended. The last few of these keep their parts, pages and a place where
//! they are mapped, in their records, and the next threads are made of them. The kernel has emptied all of them but the
//! public page.

use crate::budget;
use crate::hw::current::{area_at, word};
use crate::hw::{env_create, fpu, usercopy};
use crate::loader::cpu_entry;
use crate::process::current;
use crate::process::current::{process, thread};
use crate::process::environment::{
    self, AREA_PAGES, EnvironmentRef, StartInfo, area_words, parts_of_area, write_words,
};
use crate::process::exit::exit_handoff::inherit_from_thread;
use crate::process::thread::{DeadThread, Thread};
use crate::wait::cpu_placement;
use abi::budget::Resource;
use abi::capability::Rights;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use runtime::address_space::Access;
use runtime::environment::CHANNEL_SLOT;
use runtime::layout;
use runtime::page::Allocator;
use runtime::upcall::Context;
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber, area, heap, syscall};
use unix_core::process::public_page as public;

/// So many records keep the parts of their threads.
const KEPT: usize = 4;

/// What a thread may use at first; it draws more from the bank.
const BUDGETS: [(Resource, u64); 3] = [(Resource::Page, 32), (Resource::Slice, 1), (Resource::Predicate, 16)];

/// How a thread begins.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Its stack pointer.
    pub stack: u64,
    /// Base of FS, if it gets another one than its maker's.
    pub segment_base: Option<u64>,
    /// Where its number is stored for its maker, and for itself; 0: nowhere.
    pub set_number: [u64; 2],
    /// Where its number is cleared when it ends; 0: nowhere.
    pub clear_number: u64,
}

/// Makes a thread that starts at `context`, on a stack of its own; the result is its number.
pub fn spawn(context: &Context, options: Options) -> Result<u64> {
    take_remains_back();
    budget::ensure(Resource::Environment, 1).map_err(|_| Errno::EAGAIN)?;
    let record = record(context, &options)?;
    let _turn = process().credentials_turn();
    process().begin_thread(record);
    let made = build(record).and_then(|made| begin_to_run(record, &made, &options).map(|()| made));
    let made = made.inspect_err(|_| {
        take_apart(record);
        put_aside(record);
    })?;
    Ok(made.number.0)
}

/// Tells whom it concerns that the thread is there, and gives it a slice.
fn begin_to_run(record: &'static Thread, made: &EnvironmentRef, options: &Options) -> Result<()> {
    let number = made.number.0;
    for to in options.set_number.into_iter().filter(|to| *to != 0) {
        // As on Linux, a place that cannot be written is the program's affair.
        let _ = usercopy::write_half(to, number as u32);
    }
    let process = process();
    process.descriptors.has_threads.store(true, Relaxed);
    process.threads.lock().push(record);
    process.publish_signal_limit();
    crate::process::fork::child_start::publish_threads(process);
    made.run(KeyIndex::FIRST).map_err(|_| {
        process.threads.lock().retain(|thread| !core::ptr::eq(*thread, record));
        crate::process::fork::child_start::publish_threads(process);
        Errno::EAGAIN
    })
}

/// The record of a new thread: a fresh one, or that of a thread that ended.
fn record(context: &Context, options: &Options) -> Result<&'static Thread> {
    let spare = take_spare();
    let maker = thread();
    let record = match spare {
        Some(record) => record,
        None => Box::leak(Box::new(Thread::new()?)),
    };
    record.reset(maker.signals.blocked());
    record.attributes.cpus.store(cpu_placement::own() as u32, Relaxed);
    record.note_name(&maker.name());
    let mut context = *context;
    context.registers.rax = 0;
    if options.stack != 0 {
        context.frame.rsp = options.stack;
    }
    *record.start.lock() = Some(context);
    record.segment_base.store(options.segment_base.unwrap_or_else(cpu_entry::segment_base), Relaxed);
    record.clear_at_end.store(options.clear_number, Relaxed);
    record.vectors.lock().set_bytes(&fpu::copy());
    Ok(record)
}

/// Makes the environment: of the parts that its record has, or of fresh ones. Where another process still looks at a
/// page of the former, they are of no use.
fn build(record: &'static Thread) -> Result<EnvironmentRef> {
    if record.has_parts() {
        match make(record) {
            Ok(made) => return Ok(made),
            Err(_) => take_apart(record),
        }
    }
    allocate_parts(record)?;
    make(record)
}

/// Makes the environment, or what can be had of it.
fn make(record: &'static Thread) -> Result<EnvironmentRef> {
    let process = process();
    let own = Allocator::own();
    let (place, pages) = (record.area.load(Relaxed), record.pages.lock().clone());
    let (fixed, in_area) = pages.split_at(2);
    let beginning = StartInfo {
        function: (begin as *const () as u64, 0),
        heap: heap::address(),
        records: current::words(process, record),
        borrows: process.borrows_key(),
        ..StartInfo::of_image()
    };
    let channel = area::channel_key();
    write_words(in_area[1], process.session_key, &area_words(&beginning, place, channel.is_some()))?;
    write_words(in_area[0], process.session_key, &[(public::PROCESS * 8, process.environment())])?;
    let private: Vec<u64> = in_area[1..].iter().map(|page| page.0).collect();
    let pages = [fixed[0], fixed[1], in_area[0], area::root()];
    let number = env_create::create(KeyIndex::FIRST, KeyIndex::FIRST, pages, place, &private)?;
    record.number.store(number.0, Relaxed);
    let made = EnvironmentRef { number, public: in_area[0], list: own.list };
    equip(&made, channel)?;
    Ok(made)
}

/// Allocates the pages of a thread, and maps those of its area at a free place.
fn allocate_parts(record: &'static Thread) -> Result<()> {
    budget::reserve_or_fail(AREA_PAGES as u64 + 8)?;
    let place = layout::area_at(heap::reserve_area()?);
    record.area.store(place, Relaxed);
    let mut pages = vec![PageNumber::NONE; AREA_PAGES + 2];
    Allocator::own().allocate_many(&mut pages)?;
    *record.pages.lock() = pages.clone();
    for (address, pages) in parts_of_area(place, &pages[2..]) {
        env_create::show_area(address, pages)?;
    }
    Ok(())
}

/// Gives a new environment keys, budgets, and the connection to the server.
fn equip(made: &EnvironmentRef, channel: Option<KeyIndex>) -> Result<()> {
    let process = process();
    let key = process.session_key;
    syscall::key_copy(key, u64::from(Rights::ALL.0), made.number, key, KeyIndex::FIRST)?;
    if process.borrows_key() {
        let borrowed = process.opening_key();
        syscall::key_copy(borrowed, u64::from(Rights::ALL.0), made.number, borrowed, KeyIndex::FIRST)?;
    }
    if let Some(channel) = channel {
        syscall::key_copy(channel, u64::from(Rights::WRITE.0), made.number, CHANNEL_SLOT, KeyIndex::FIRST)?;
    }
    made.endow(&BUDGETS).map_err(|_| Errno::EAGAIN)?;
    process.files.lock().join(made.number)
}

/// The first function of a thread.
extern "C" fn begin(_argument: u64) {
    (process().calls.image().install_gate)();
    let thread = thread();
    area_at(thread.area.load(Relaxed)).library().free[word::NUMBER].store(process().number(), Relaxed);
    cpu_entry::set_segment_base(thread.segment_base.load(Relaxed));
    let start = thread.start.lock().take();
    let Some(context) = start else { crate::process::exit::leave() };
    fpu::load();
    cpu_entry::resume(&context)
}

/// Takes back what threads that ended were made of, but for what is kept for the next ones.
fn take_remains_back() {
    take_back(DeadThread::is_over);
}

fn take_back(is_over: impl Fn(&DeadThread) -> bool) {
    let remains: Vec<DeadThread> = process().remains.lock().extract_if(.., |dead| is_over(dead)).collect();
    if remains.is_empty() {
        return;
    }
    for DeadThread { thread } in remains {
        destroy(thread);
        if count_kept() < KEPT {
            empty_public_page(thread);
        } else {
            free_parts_of(thread);
        }
        put_aside(thread);
    }
    // What they were endowed with came back to whom they were made by, not to the bank.
    budget::give_back();
}

/// The same of all threads in that list, with what is kept.
pub fn take_everything_back() {
    take_back(|_| true);
    free_kept();
}

/// Frees what is kept for the next threads.
pub fn free_kept() {
    while count_kept() > 0 {
        let Some(record) = take_spare() else { return };
        free_parts_of(record);
        put_aside(record);
    }
}

fn take_spare() -> Option<&'static Thread> {
    process().spare_threads.lock().pop()
}

fn count_kept() -> usize {
    kept_among(&process().spare_threads.lock())
}

/// Records with parts stand at the end of the list.
fn kept_among(spare: &[&Thread]) -> usize {
    spare.iter().rev().take_while(|record| record.has_parts()).count()
}

/// Keeps the record of a thread for another one: at the end where it has parts, else before those that have.
fn put_aside(record: &'static Thread) {
    let mut spare = process().spare_threads.lock();
    let place = if record.has_parts() { spare.len() } else { spare.len() - kept_among(&spare) };
    spare.insert(place, record);
}

/// Destroys the environment of a thread, as far as it was made.
fn destroy(thread: &'static Thread) {
    let number = EnvironmentId(thread.number.swap(0, Relaxed));
    if number != EnvironmentId::NONE {
        inherit_from_thread(number, process().session_key);
        environment::release(number, KeyIndex::FIRST);
    }
}

/// Destroys the environment of a thread, and frees what it is made of.
fn take_apart(thread: &'static Thread) {
    destroy(thread);
    free_parts_of(thread);
}

/// The words of an environment that is no more, for which the next one has no use.
fn empty_public_page(thread: &'static Thread) {
    let public = thread.pages.lock().get(2).copied();
    if let Some(public) = public
        && let Ok(window) = Window::open(&[public], process().session_key, Access::WRITE)
    {
        window.words().iter().for_each(|word| word.store(0, Relaxed));
    } else {
        free_parts_of(thread);
    }
}

/// Frees the pages and the place of a thread that is destroyed.
fn free_parts_of(thread: &'static Thread) {
    let pages = core::mem::take(&mut *thread.pages.lock());
    let place = thread.area.swap(0, Relaxed);
    if place == 0 {
        return;
    }
    if let [_, _, in_area @ ..] = &*pages {
        env_create::hide_area(place, in_area.len() as u64);
    }
    Allocator::own().free_many(&pages);
    heap::release_area(layout::area_index(place));
}
