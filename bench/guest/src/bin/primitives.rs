//! What the primitives of the kernel cost: calls, exceptions, transfers, yields (exokernel-sosp95, Tables 4 to 6).
//!
//! Each operation stands [`REPEATS`] times in a row in one piece of code, so that no loop is counted. The reader
//! subtracts reading the counter and calling an empty piece, as "overhead" and "piece".
#![no_std]
#![no_main]

extern crate alloc;

use abi::KeyIndex;
use abi::budget::Resource;
use abi::environment::ContextPart;
use abi::page_table::{MapRow, NO_EXECUTE, PRESENT, WRITE};
use abi::predicate::Term;
use abi::syscall::{SYNCHRONOUS, number};
use abi::upcall::kind;
use alloc::format;
use alloc::vec::Vec;
use bench_guest::{Samples, begin, measure};
use core::arch::global_asm;
use core::hint::black_box;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::{self, Area};
use runtime::environment::{Builder, Child};
use runtime::page::Allocator;
use runtime::predicate::{Operator, Predicate, word};
use runtime::{address_space, archive, context, exposed, image, println, time_slice};
use wakeup_predicate::compile::CODE_BYTES_MAX;

runtime::entry!(main);

/// Times that an operation stands in a row.
const REPEATS: u64 = 16;
/// Where this program begins (lib/runtime/src/layout.rs).
const PROGRAM: u64 = 0x40_0000;
/// Where a page is mapped that may only be read; behind it, one of code that is not this program's.
const PLACE: u64 = 0x2_0000_0000;
/// Bytes of the calls that are reflected: no more than this.
const CALLS_BYTES: usize = 256;

unsafe extern "C" {
    fn primitive_nothing();
    fn primitive_null_call();
    fn primitive_stack_call();
    fn primitive_protection_fault();
    fn primitive_invalid_opcode();
    fn primitive_division();
    fn primitive_alignment();
    fn primitive_coprocessor();
    fn primitive_reflected_call();
    fn primitive_skip_seven();
    fn primitive_skip_two();
    fn primitive_skip_five();
    fn primitive_noticed();
    fn primitive_resume();
    fn primitive_transfers();
    fn primitive_returned();
    fn primitive_bounce();
}

// SAFETY: the pieces keep to the C calling convention: they change only registers that a call may change. The entries
// keep to the conventions of upcalls: they change no register and leave by IRETQ.
global_asm!(
    ".global primitive_nothing", "primitive_nothing:", "ret",
    // The null call, which needs no stack.
    ".global primitive_null_call", "primitive_null_call:", ".rept 16", "xor eax, eax", "syscall", ".endr", "ret",
    // A call through the table that does next to nothing: it sets the base of FS, which no library uses.
    ".global primitive_stack_call", "primitive_stack_call:",
    ".rept 16", "mov edi, {fs_base}", "mov esi, 0x1000", "mov eax, {context_set}", "syscall", ".endr", "ret",
    // A write to a page that may only be read; the handler steps over its seven bytes.
    ".global primitive_protection_fault", "primitive_protection_fault:",
    "mov eax, 2", "shl rax, 32",
    ".rept 16", ".byte 0x48, 0xc7, 0x00, 1, 0, 0, 0", ".endr", "ret",
    ".global primitive_skip_seven", "primitive_skip_seven:", "add qword ptr [rsp + 32], 7", "add rsp, 32", "iretq",
    // An invalid opcode of two bytes.
    ".global primitive_invalid_opcode", "primitive_invalid_opcode:", ".rept 16", "ud2", ".endr", "ret",
    ".global primitive_skip_two", "primitive_skip_two:", "add qword ptr [rsp + 32], 2", "add rsp, 32", "iretq",
    // A division by zero, of two bytes.
    ".global primitive_division", "primitive_division:", "xor ecx, ecx", "xor edx, edx",
    ".rept 16", "div ecx", ".endr", "ret",
    // A read that is not aligned while alignment is checked, of five bytes.
    ".global primitive_alignment", "primitive_alignment:",
    "pushfq", "or dword ptr [rsp], 0x40000", "popfq",
    ".rept 16", ".byte 0x48, 0x8b, 0x44, 0x24, 0xf1", ".endr",
    "pushfq", "and dword ptr [rsp], 0xfffbffff", "popfq", "ret",
    ".global primitive_skip_five", "primitive_skip_five:", "add qword ptr [rsp + 32], 5", "add rsp, 32", "iretq",
    ".global primitive_noticed", "primitive_noticed:", "inc qword ptr [rip + primitive_faults]", "jmp primitive_skip_five",
    // An instruction of the vector unit while it is off, of five bytes.
    ".global primitive_coprocessor", "primitive_coprocessor:",
    ".rept 16", "movups xmm0, [rsp - 16]", ".endr", "ret",
    // A call from outside of the gate, whose handler resumes at once.
    ".global primitive_reflected_call", "primitive_reflected_call:", ".rept 16", "mov eax, 39", "syscall", ".endr", "ret",
    ".global primitive_resume", "primitive_resume:", "add rsp, 32", "iretq",
    // Sixteen calls into another environment and back: every register passes, the stack pointer too. An environment
    // whose own slice begins before it is entered runs on behind the call, and gives that slice to the one it waits
    // for.
    ".global primitive_transfers", "primitive_transfers:", "push rbx", "mov ebx, 16",
    "2:", "mov rax, [rip + primitive_callee]", "syscall", "jmp primitive_give_way",
    ".global primitive_returned", "primitive_returned:", "dec ebx", "jnz 2b", "pop rbx", "ret",
    ".global primitive_bounce", "primitive_bounce:", "mov rax, [rip + primitive_callee]", "syscall",
    "primitive_give_way:", "mov edi, dword ptr [rip + primitive_callee]", "mov eax, {time_slice_yield}", "syscall",
    "jmp primitive_give_way",
    ".data", ".balign 16", ".global primitive_callee", "primitive_callee: .quad 0",
    ".global primitive_faults", "primitive_faults: .quad 0", ".text",
    fs_base = const ContextPart::FsBase as u64,
    context_set = const number::context_set,
    time_slice_yield = const number::time_slice_yield,
);

unsafe extern "C" {
    static mut primitive_callee: u64;
    static mut primitive_faults: u64;
}

/// A piece of code above.
type Piece = unsafe extern "C" fn();

/// Measures a piece that does an operation [`REPEATS`] times.
fn samples(piece: unsafe extern "C" fn()) -> Samples {
    // SAFETY: the entry that the piece needs is declared.
    Samples::collect(REPEATS, || unsafe { piece() })
}

/// Declares the raw entry of a kind for as long as a piece is measured; nothing else may need the usual one meanwhile.
fn with_entry(upcall: u64, entry: unsafe extern "C" fn(), piece: unsafe extern "C" fn()) -> Samples {
    let private = Area::current().private();
    let word = if upcall == kind::REFLECTION { &private.reflection_entry } else { &private.exception_entry };
    let before = word.swap(entry as usize as u64, SeqCst);
    let measured = samples(piece);
    word.store(before, SeqCst);
    measured
}

fn calls() {
    samples(primitive_nothing).report("piece");
    samples(primitive_null_call).report("null-call");
    samples(primitive_stack_call).report("stack-call");
    let stranger = outside_of_the_gate();
    let private = Area::current().private();
    private.gate_start.store(PROGRAM, Relaxed);
    private.gate_end.store(PLACE, SeqCst);
    let reflected = with_entry(kind::REFLECTION, primitive_resume, stranger);
    private.gate_end.store(0, SeqCst);
    reflected.report("reflected-call");
}

/// A copy of the calls that are reflected, at an address that is not this program's own.
fn outside_of_the_gate() -> Piece {
    let page = Allocator::own().allocate().expect("there is memory");
    let place = PLACE + 0x1000;
    map(place, page.address() | PRESENT | WRITE);
    // SAFETY: the page is mapped, and larger than the piece, which can run anywhere.
    unsafe { core::ptr::copy_nonoverlapping(primitive_reflected_call as *const u8, place as *mut u8, CALLS_BYTES) };
    map(place, page.address() | PRESENT);
    // SAFETY: the piece stands there, and keeps to the calling convention.
    unsafe { core::mem::transmute::<usize, Piece>(place as usize) }
}

fn map(address: u64, entry: u64) {
    let row = MapRow { address: address | KeyIndex::FIRST.0, entry };
    address_space::own().apply(&[row]).expect("the page can be mapped");
}

fn exceptions() {
    let page = Allocator::own().allocate().expect("there is memory");
    map(PLACE, page.address() | PRESENT | NO_EXECUTE);
    let pieces: [(&str, Piece, Piece); 3] = [
        ("invalid-opcode", primitive_skip_two, primitive_invalid_opcode),
        ("protection", primitive_skip_seven, primitive_protection_fault),
        ("division", primitive_skip_two, primitive_division),
    ];
    for (name, entry, piece) in pieces {
        with_entry(kind::PAGE_FAULT, entry, piece).report(name);
    }
    let before = Area::current().private().exception_entry.swap(primitive_noticed as *const () as u64, SeqCst);
    // SAFETY: the entry steps over what faults.
    unsafe { primitive_alignment() };
    Area::current().private().exception_entry.store(before, SeqCst);
    // SAFETY: only that entry writes the word, and it does not run now.
    if unsafe { primitive_faults } > 0 {
        with_entry(kind::PAGE_FAULT, primitive_skip_five, primitive_alignment).report("alignment");
    } else {
        println!("bench: absent alignment this machine does not check alignment");
    }
    context::set_vector(false).expect("the vector unit can be turned off");
    let off = with_entry(kind::PAGE_FAULT, primitive_skip_five, primitive_coprocessor);
    context::set_vector(true).expect("the vector unit can be turned on");
    off.report("coprocessor");
}

/// Makes this environment one that can be entered at `entry`, and names the one that it transfers to.
fn open_for_transfers(entry: unsafe extern "C" fn(), other: abi::EnvironmentId) {
    // SAFETY: only the pieces that transfer read the word, and none runs now.
    unsafe { primitive_callee = other.0 | SYNCHRONOUS };
    let private = Area::current().private();
    private.synchronous_entry.store(entry as usize as u64, SeqCst);
    private.ready.store(1, SeqCst);
}

extern "C" fn yield_back(parent: u64) {
    loop {
        let _ = time_slice::yield_to(abi::EnvironmentId(parent));
    }
}

extern "C" fn bounce(parent: u64) {
    let _section = runtime::critical_section::enter();
    open_for_transfers(primitive_bounce, abi::EnvironmentId(parent));
    loop {
        time_slice::yield_now();
    }
}

/// A child that knows this environment and has run long enough to be where it waits.
fn settled(function: extern "C" fn(u64)) -> Child {
    settled_with(function, area::number().0)
}

fn settled_with(function: extern "C" fn(u64), argument: u64) -> Child {
    let mut builder = Builder::new().expect("the budget suffices");
    let file = archive::boot().find(abi::boot::INIT).expect("this program is `init` of the boot archive").data;
    let own = image::Image::load(file, Allocator::own()).expect("this program can be loaded");
    builder
        .program(&own)
        .expect("the program fits")
        .function(function, argument)
        .budget(Resource::Predicate, 16)
        .silent();
    let child = builder.create().expect("the environment can be made");
    (0..50).for_each(|_| drop(time_slice::yield_to(child.number)));
    child
}

/// Synchronous transfers: what no end of a slice can come between.
fn transfers() {
    let callee = settled(bounce);
    let section = runtime::critical_section::enter();
    open_for_transfers(primitive_returned, callee.number);
    // SAFETY: the callee sends everything back as it came.
    let measured = Samples::collect(2 * REPEATS, || unsafe { primitive_transfers() });
    Area::current().private().ready.store(0, SeqCst);
    drop(section);
    measured.report("transfer");
    callee.destroy().expect("the callee can be destroyed");
}

fn yields() {
    let partner = settled(yield_back);
    measure("directed-yield", 2, || drop(time_slice::yield_to(partner.number)));
    partner.destroy().expect("the partner can be destroyed");
}

/// A term that never holds.
fn never(index: u64) -> Term {
    word(Area::current().status(index as usize), Operator::Equal, u64::MAX)
}

/// Sleeps for ever on so many words, one after the other: each is looked at, each time.
extern "C" fn sleep(terms: u64) {
    loop {
        let predicate = (0..terms).try_fold(Predicate::new(), |predicate, index| predicate.or(&[never(index)]));
        let _ = predicate.map(|predicate| predicate.wait());
    }
}

/// Evaluates the predicate of an environment that sleeps on: a yield to it is refused.
fn predicates() {
    for terms in [1, 4, 16] {
        let sleeper = settled_with(sleep, terms);
        let look = || drop(time_slice::yield_to(sleeper.number));
        measure(&format!("predicate-{terms}"), 1, look);
        sleeper.destroy().expect("the sleeper can be destroyed");
    }
    let nobody = abi::EnvironmentId(u64::from(u32::MAX));
    measure("refused-yield", 1, || drop(time_slice::yield_to(nobody)));
}

/// What compiling a predicate takes, which the kernel does not do (doc/decision/0010).
fn compilations() {
    for terms in [1, 4, 16] {
        let rows: Vec<Term> = (0..terms).map(never).collect();
        let predicate = wakeup_predicate::Predicate::check(&rows).expect("the terms are good");
        let mut buffer = [0; CODE_BYTES_MAX];
        measure(&format!("predicate-compile-{terms}"), 1, || {
            predicate.compile(black_box(&mut buffer)).expect("the buffer suffices");
        });
    }
}

fn main() -> u32 {
    begin();
    address_space::own().link_tables(PLACE, false).expect("there is memory for tables");
    calls();
    exceptions();
    transfers();
    yields();
    predicates();
    compilations();
    let kernel = exposed::kernel();
    println!("boot to the first user instruction: {}", kernel.boot_ticks.load(Relaxed));
    println!("longest kernel entry: {}", kernel.longest_entry.load(Relaxed));
    0
}
