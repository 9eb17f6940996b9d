//! User-level threads on slice starts, slice ends and page faults, which are scheduler activations (exokernel-sosp95
//! §5.1.1). The thread scheduler decides whenever the environment gains or loses the CPU, or a thread would have to
//! wait.
//!
//! A thread that touches a page that is not there waits for it, as if for a disk, and another one runs at once. The
//! kernel knows nothing of threads: an upcall shows the interrupted registers, and resumes what is put in their
//! place.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::page_table::MapRow;
use abi::upcall::{USER_CODE, USER_DATA, kind};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::address_space::{self, Access};
use runtime::area::Area;
use runtime::lock::Lock;
use runtime::page::Allocator;
use runtime::predicate::wait_any;
use runtime::upcall::{Context, Registers, deliver, set_handler};
use runtime::{Failure, KeyIndex, clock, entry, error_line, layout, memory, println, time_slice};

entry!(main);

const THREADS: usize = 4;
/// Pages that each thread touches, all of them missing at first.
const PAGES: u64 = 8;
const STACK_BYTES: usize = 16384;
/// Where the pages of the threads lie.
const MEMORY: u64 = 0x1000_0000;
/// How long a missing page takes to come, in nanoseconds.
const LATENCY: u64 = 3_000_000;
/// Additions that a thread makes for each page.
const WORK: u64 = 400_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// Until this page has come, at this time.
    Waits(u64, u64),
    Done,
}

struct Thread {
    context: Context,
    state: State,
}

struct Scheduler {
    threads: Vec<Thread>,
    running: usize,
    switches: u64,
}

static SCHEDULER: Lock<Scheduler> = Lock::new(Scheduler { threads: Vec::new(), running: 0, switches: 0 });
static FAULTS: AtomicU64 = AtomicU64::new(0);
static STARTS: AtomicU64 = AtomicU64::new(0);
static IDLE: AtomicU64 = AtomicU64::new(0);
static SUMS: [AtomicU64; THREADS] = [const { AtomicU64::new(0) }; THREADS];

fn main() -> u32 {
    let threads = (0..THREADS as u64).map(|index| Thread { context: beginning(index), state: State::Ready });
    // What runs now is the last thread.
    let this = Thread { context: Context::default(), state: State::Ready };
    let mut scheduler = SCHEDULER.lock();
    (scheduler.threads, scheduler.running) = (threads.chain([this]).collect(), THREADS);
    drop(scheduler);
    set_handler(kind::PAGE_FAULT, page_fault);
    set_handler(kind::EVENT, switch);
    set_handler(kind::SLICE_START, slice_start);
    set_handler(kind::SLICE_END, slice_end);
    while SCHEDULER.lock().threads[..THREADS].iter().any(|thread| thread.state != State::Done) {
        deliver(kind::EVENT, 0, 0);
    }
    report()
}

/// A thread that has not run yet.
fn beginning(index: u64) -> Context {
    let stack = vec![0u64; STACK_BYTES / 8].leak();
    let mut context = Context { registers: Registers { rdi: index, ..Registers::default() }, ..Context::default() };
    context.frame.rip = thread as *const () as u64;
    context.frame.rsp = ((stack.as_ptr_range().end as u64) & !15) - 8;
    (context.frame.cs, context.frame.ss, context.frame.rflags) = (USER_CODE, USER_DATA, 0x202);
    context
}

/// What each thread does: touches its pages one after the other, and computes for a while with each.
extern "C" fn thread(index: u64) {
    let mut sum = 0;
    for page in 0..PAGES {
        let address = MEMORY + index * (1 << 20) + page * abi::limits::PAGE_SIZE;
        memory::store(address, index * 100 + page);
        (0..WORK).for_each(|_| sum += core::hint::black_box(memory::load(address)));
    }
    SUMS[index as usize].store(sum, SeqCst);
    SCHEDULER.lock().threads[index as usize].state = State::Done;
    loop {
        deliver(kind::EVENT, 0, 0);
    }
}

/// Whether the upcall interrupted a thread, rather than a handler on the upcall stack.
fn interrupted_a_thread(context: &Context) -> bool {
    layout::area_of(context.frame.rsp) != Area::current().address()
}

/// A thread lets another go on.
extern "C" fn switch(context: &mut Context) {
    SCHEDULER.lock().choose(context);
}

extern "C" fn slice_start(context: &mut Context) {
    STARTS.fetch_add(1, Relaxed);
    if interrupted_a_thread(context) {
        SCHEDULER.lock().choose(context);
    }
}

/// The environment loses the CPU: the thread that runs next need not be the one that ran.
extern "C" fn slice_end(context: &mut Context) {
    if interrupted_a_thread(context) {
        SCHEDULER.lock().choose(context);
    }
    time_slice::yield_now();
}

/// The thread waits for its page; another one runs at once.
extern "C" fn page_fault(context: &mut Context) {
    let address = context.frame.detail;
    if !(MEMORY..MEMORY + (1 << 28)).contains(&address) {
        println!("failed: no memory at {address:#x}");
        entry::exit(entry::FAULT_STATUS);
    }
    FAULTS.fetch_add(1, Relaxed);
    let mut scheduler = SCHEDULER.lock();
    let running = scheduler.running;
    scheduler.threads[running].state = State::Waits(address & !0xfff, clock::now() + LATENCY);
    scheduler.choose(context);
}

impl Scheduler {
    /// Puts the next ready thread in the place of the interrupted one; waits where there is none.
    fn choose(&mut self, context: &mut Context) {
        self.threads[self.running].context = *context;
        let next = loop {
            self.take_pages_that_came();
            let after = self.running + 1;
            let order = (0..self.threads.len()).map(|step| (after + step) % self.threads.len());
            let ready = order.into_iter().find(|index| self.threads[*index].state == State::Ready && *index != THREADS);
            let all_done = self.threads[..THREADS].iter().all(|thread| thread.state == State::Done);
            match ready {
                Some(index) => break index,
                None if all_done => break THREADS,
                None => self.wait_for_a_page(),
            }
        };
        self.switches += u64::from(next != self.running);
        self.running = next;
        *context = self.threads[next].context;
    }

    /// Maps every page that has come, and makes its thread ready.
    fn take_pages_that_came(&mut self) {
        let now = clock::now();
        for thread in &mut self.threads {
            if let State::Waits(address, time) = thread.state
                && time <= now
                && map(address).is_ok()
            {
                thread.state = State::Ready;
            }
        }
    }

    fn wait_for_a_page(&self) {
        let time = |thread: &Thread| match thread.state {
            State::Waits(_, time) => Some(time),
            _ => None,
        };
        let begun = clock::now();
        if wait_any(&[], self.threads.iter().filter_map(time).min()).is_err() {
            time_slice::yield_now();
        }
        IDLE.fetch_add(clock::now() - begun, Relaxed);
    }
}

fn map(address: u64) -> Result<(), Failure> {
    let page = Allocator::own().allocate()?;
    let row = MapRow { address: address | KeyIndex::FIRST.0, entry: page.address() | Access::WRITE.0 };
    address_space::own().apply(&[row])
}

/// Every sum is right, every page came once, and most of the waiting went by while other threads computed.
fn report() -> u32 {
    let right = |index: usize| (0..PAGES).map(|page| (index as u64 * 100 + page) * WORK).sum::<u64>();
    let wrong = SUMS.iter().enumerate().filter(|(index, sum)| sum.load(SeqCst) != right(*index)).count();
    let (faults, starts, idle) = (FAULTS.load(Relaxed), STARTS.load(Relaxed), IDLE.load(Relaxed));
    let (pages, switches) = (PAGES * THREADS as u64, SCHEDULER.lock().switches);
    let waited = idle * 100 / (pages * LATENCY);
    error_line!("{faults} faults, {starts} slices, {switches} switches, {waited}% of the waiting was idle");
    if wrong != 0 || faults != pages || starts == 0 || switches < pages || waited > 50 {
        println!("failed: {wrong} wrong sums");
        return 1;
    }
    println!("{THREADS} threads shared the slices and waited for {faults} pages while others ran");
    0
}
