//! What the primitives of the kernel cost, in instructions of the guest (exokernel-sosp95, Tables 4 to 6 and 10).
//!
//! Meant for the counting clock (`./chitin run --icount`): there the time stamp counter counts instructions, user's and
//! kernel's alike. Each operation stands [`REPEATS`] times in a row in one piece of code, so that no loop is counted; the
//! least of [`TRIALS`] trials is kept, because a time slice may end in any of them; what reading the counter costs is
//! subtracted.
#![no_std]
#![no_main]

use abi::page_table::{MapRow, NO_EXECUTE, PRESENT, WRITE};
use abi::syscall::number;
use abi::upcall::kind;
use abi::{KeyIndex, PageNumber};
use core::arch::{asm, global_asm};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::{self, Area};
use runtime::environment::{Builder, Child};
use runtime::page::Allocator;
use runtime::transfer::{self, Kind, Message};
use runtime::{address_space, archive, channel, clock, exposed, image, predicate, println, syscall, time_slice};

runtime::entry!(main);

/// Times that an operation stands in a row.
const REPEATS: u64 = 16;
const TRIALS: usize = 12;
/// Where pages are mapped for the measurements.
const PLACE: u64 = 0x2_0000_0000;
const PAGES: usize = 100;

unsafe extern "C" {
    fn costs_nothing();
    fn costs_null_call();
    fn costs_protection_fault();
    fn costs_invalid_opcode();
    fn costs_reflected_call();
    fn costs_map_call(root: u64, rows: *const MapRow, count: u64);
    fn costs_fresh_pages(place: u64);
    fn costs_skip_seven();
    fn costs_skip_two();
    fn costs_resume();
    fn costs_fill_page();
    fn costs_transfers();
    fn costs_returned();
    fn costs_bounce();
}

// SAFETY: the pieces keep to the C calling convention: they change only registers that a call may change. The entries
// keep to the conventions of upcalls: they change no register and leave by IRETQ.
global_asm!(
    ".global costs_nothing", "costs_nothing:", "ret",
    // The null call.
    ".global costs_null_call", "costs_null_call:", ".rept 16", "xor eax, eax", "syscall", ".endr", "ret",
    // A write to a page that may only be read; the handler steps over its seven bytes.
    ".global costs_protection_fault", "costs_protection_fault:",
    "mov eax, 2", "shl rax, 32",
    ".rept 16", ".byte 0x48, 0xc7, 0x00, 1, 0, 0, 0", ".endr", "ret",
    ".global costs_skip_seven", "costs_skip_seven:", "add qword ptr [rsp + 32], 7", "add rsp, 32", "iretq",
    // An invalid opcode of two bytes.
    ".global costs_invalid_opcode", "costs_invalid_opcode:", ".rept 16", "ud2", ".endr", "ret",
    ".global costs_skip_two", "costs_skip_two:", "add qword ptr [rsp + 32], 2", "add rsp, 32", "iretq",
    // A call from outside of the gate, whose handler goes on at once.
    ".global costs_reflected_call", "costs_reflected_call:", ".rept 16", "mov eax, 39", "syscall", ".endr", "ret",
    ".global costs_resume", "costs_resume:", "add rsp, 32", "iretq",
    // One call of page_map.
    ".global costs_map_call", "costs_map_call:",
    "mov r10, rdx", "mov rdx, rsi", "mov rsi, rdi", "mov edi, 1", "mov eax, {page_map}", "syscall", "ret",
    // Writes to sixteen pages that are not there.
    ".global costs_fresh_pages", "costs_fresh_pages:", ".set distance, 0", ".rept 16",
    "mov byte ptr [rdi + distance], 1", ".set distance, distance + 4096", ".endr", "ret",
    // The handler that gives each a fresh page: allocate, map, go on.
    ".global costs_fill_page", "costs_fill_page:",
    "push rax", "push rcx", "push rdx", "push rsi", "push rdi", "push r10", "push r11",
    "mov eax, {page_allocate}", "mov edi, 1", "mov rsi, [rip + costs_list]", "mov edx, 0xffffffff", "syscall",
    "shl rdx, 12", "or rdx, 3", "mov [rip + costs_row + 8], rdx",
    "mov rdx, [rsp + 72]", "and rdx, -4096", "or rdx, 1", "mov [rip + costs_row], rdx",
    "mov eax, {page_map}", "mov edi, 1", "mov rsi, [rip + costs_root]", "lea rdx, [rip + costs_row]", "mov r10d, 1", "syscall",
    "pop r11", "pop r10", "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
    "add rsp, 32", "iretq",
    // Sixteen calls into another environment and back: every register passes, the stack pointer too.
    ".global costs_transfers", "costs_transfers:", "push rbx", "mov ebx, 16",
    "2:", "mov rax, [rip + costs_callee]", "syscall", "ud2",
    ".global costs_returned", "costs_returned:", "dec ebx", "jnz 2b", "pop rbx", "ret",
    ".global costs_bounce", "costs_bounce:", "mov rax, [rip + costs_callee]", "syscall", "ud2",
    ".data", ".balign 16", ".global costs_callee", "costs_callee: .quad 0", "costs_row: .quad 0, 0", ".global costs_list", "costs_list: .quad 0",
    ".global costs_root", "costs_root: .quad 0", ".text",
    page_map = const number::page_map,
    page_allocate = const number::page_allocate,
);

unsafe extern "C" {
    static mut costs_list: u64;
    static mut costs_root: u64;
    static mut costs_callee: u64;
}

/// The time stamp counter, after everything before it.
fn stamp() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reading the counter changes nothing else.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Instructions that `operation` takes, call and return included: the least of the trials. `prepare` is not counted.
fn least(mut prepare: impl FnMut(), mut operation: impl FnMut()) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..TRIALS {
        prepare();
        let start = stamp();
        operation();
        least = least.min(stamp() - start);
    }
    least
}

/// What measuring nothing gives.
fn overhead() -> u64 {
    // SAFETY: the piece only returns.
    least(|| (), || unsafe { costs_nothing() })
}

fn report(name: &str, total: u64, repeats: u64) {
    let hundredths = total * 100 / repeats;
    println!("{name:<44} {:>7}.{:02}", hundredths / 100, hundredths % 100);
    channel::measurement(name, total / repeats, "instructions");
}

/// Declares the raw entry of a kind for as long as `operation` runs.
fn with_entry<T>(upcall: u64, entry: unsafe extern "C" fn(), operation: impl FnOnce() -> T) -> T {
    let private = Area::current().private();
    let word = if upcall == kind::REFLECTION { &private.reflection_entry } else { &private.exception_entry };
    let before = word.swap(entry as usize as u64, SeqCst);
    let result = operation();
    word.store(before, SeqCst);
    result
}

fn rows(pages: &[PageNumber], rights: u64) -> [MapRow; PAGES] {
    core::array::from_fn(|index| MapRow {
        address: PLACE + index as u64 * 4096 | KeyIndex::FIRST.0,
        entry: pages[index].address() | PRESENT | NO_EXECUTE | rights,
    })
}

fn map(rows: &[MapRow]) {
    // SAFETY: the rows concern addresses that only this program's measurements use.
    unsafe { costs_map_call(area::root().0, rows.as_ptr(), rows.len() as u64) }
}

fn exceptions(overhead: u64) {
    // SAFETY: the handler steps over each instruction that faults.
    let count = |piece: unsafe extern "C" fn()| least(|| (), || unsafe { piece() }) - overhead;
    report("null call", count(costs_null_call), REPEATS);
    let total = with_entry(kind::INVALID_OPCODE, costs_skip_two, || count(costs_invalid_opcode));
    report("invalid opcode to handler and resumed", total, REPEATS);
    let total = with_entry(kind::PAGE_FAULT, costs_skip_seven, || count(costs_protection_fault));
    report("protection fault to handler and resumed", total - 2, REPEATS);
    let private = Area::current().private();
    let total = with_entry(kind::REFLECTION, costs_resume, || {
        private.gate_start.store(0x1000, Relaxed);
        private.gate_end.store(0x2000, SeqCst);
        let total = count(costs_reflected_call);
        private.gate_end.store(0, SeqCst);
        total
    });
    report("reflected call, resumed", total, REPEATS);
}

fn protection(overhead: u64, pages: &[PageNumber]) {
    let (writable, readable) = (rows(pages, WRITE), rows(pages, 0));
    let total = least(|| map(&writable), || map(&readable[..1]));
    report("prot1: one page read-only", total - overhead, 1);
    let total = least(|| map(&writable), || map(&readable));
    report("prot100: 100 pages read-only", total - overhead, 1);
    let total = least(|| map(&readable), || map(&writable));
    report("unprot100: 100 pages writable", total - overhead, 1);
}

/// Lets the CPU idle for a while: it fills free pages with zeros then.
fn rest() {
    let _ = predicate::wait_any(&[], Some(clock::now() + 20_000_000));
}

fn fresh_pages(overhead: u64, taken: Allocator) {
    // SAFETY: only the handler below reads these words, and only while a piece of this program runs.
    unsafe {
        costs_list = taken.list.0;
        costs_root = area::root().0;
    }
    let mut next = PLACE + 0x20_0000;
    let mut count = |prepare: fn()| {
        with_entry(kind::PAGE_FAULT, costs_fill_page, || {
            let touch = || {
                // SAFETY: the handler maps each page that is written.
                unsafe { costs_fresh_pages(next) };
                next += REPEATS * 4096;
            };
            least(prepare, touch) - overhead
        })
    };
    report("page fault with a fresh page, zeroed ahead", count(rest), REPEATS);
    report("page fault with a fresh page, zeroed then", count(|| ()).max(count(|| ())), REPEATS);
}

extern "C" fn yield_back(parent: u64) {
    loop {
        let _ = time_slice::yield_to(abi::EnvironmentId(parent));
    }
}

/// Makes this environment one that can be entered at `entry`, and names the one that it transfers to.
fn open_for_transfers(entry: unsafe extern "C" fn(), other: abi::EnvironmentId) {
    // SAFETY: only the pieces that transfer read the word, and none runs now.
    unsafe { costs_callee = other.0 << 32 | number::transfer_synchronous };
    let private = Area::current().private();
    private.synchronous_entry.store(entry as usize as u64, SeqCst);
    private.ready.store(1, SeqCst);
}

extern "C" fn bounce(parent: u64) {
    let _section = runtime::critical_section::enter();
    open_for_transfers(costs_bounce, abi::EnvironmentId(parent));
    loop {
        time_slice::yield_now();
    }
}

fn transfers(overhead: u64) {
    let callee = child(bounce);
    (0..50).for_each(|_| drop(time_slice::yield_to(callee.number)));
    let _section = runtime::critical_section::enter();
    open_for_transfers(costs_returned, callee.number);
    // SAFETY: the callee sends everything back as it came.
    let total = least(|| (), || unsafe { costs_transfers() });
    report("synchronous transfer, one way", total - overhead, 2 * REPEATS);
    Area::current().private().ready.store(0, SeqCst);
    callee.destroy().expect("the callee can be destroyed");
}

extern "C" fn answer(_: abi::EnvironmentId, _: &mut Message) {}

extern "C" fn serve(_: u64) {
    transfer::serve(answer)
}

fn child(function: extern "C" fn(u64)) -> Child {
    let mut builder = Builder::new().expect("the budget suffices");
    let file = archive::boot().find(abi::boot::INIT).expect("this program is `init` of the boot archive").data;
    let own = image::Image::load(file, Allocator::own()).expect("this program can be loaded");
    builder.program(&own).expect("the program fits").function(function, area::number().0).silent();
    builder.create().expect("the environment can be made")
}

fn switching(overhead: u64) {
    let partner = child(yield_back);
    let number = partner.number;
    (0..50).for_each(|_| drop(time_slice::yield_to(number)));
    let total = least(|| (), || drop(time_slice::yield_to(number)));
    report("directed yield, there and back, per way", total - overhead, 2);
    partner.destroy().expect("the partner can be destroyed");
    let callee = child(serve);
    (0..50).for_each(|_| drop(time_slice::yield_to(callee.number)));
    let mut message = [0; 6];
    let mut call = || drop(transfer::call(Kind::Synchronous, callee.number, &mut message));
    (0..10).for_each(|_| call());
    let total = least(|| (), call);
    report("synchronous call by the runtime, per way", total - overhead, 2);
    callee.destroy().expect("the callee can be destroyed");
}

fn main() -> u32 {
    let overhead = overhead();
    let own = Allocator::own();
    let mut pages = [PageNumber::NONE; PAGES];
    own.allocate_many(&mut pages).expect("there is memory");
    for place in [PLACE, PLACE + 0x20_0000, PLACE + 0x40_0000] {
        address_space::own().link_tables(place, false).expect("there is memory for tables");
    }
    map(&rows(&pages, 0));
    exceptions(overhead);
    protection(overhead, &pages);
    fresh_pages(overhead, own);
    switching(overhead);
    transfers(overhead);
    let kernel = exposed::kernel();
    report("boot to the first user instruction", kernel.boot_ticks.load(Relaxed), 1);
    report("longest kernel entry", kernel.longest_entry.load(Relaxed), 1);
    println!("  which was call {:#x}", kernel.longest_entry_call.load(Relaxed));
    let _ = syscall::null();
    0
}
