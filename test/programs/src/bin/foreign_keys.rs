//! Upcalls that interrupt code under other protection keys than those of upcalls: such code sets RSP, and changes
//! nothing else of the upcall stack. CPUs without protection keys pass.
#![no_std]
#![no_main]

extern crate alloc;

use abi::area::UPCALL_STACK;
use abi::feature::PKU;
use abi::limits::PAGE_SIZE;
use abi::upcall::{FRAME_ALIGNMENT, UpcallFrame, kind};
use core::arch::{asm, naked_asm};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::upcall::{Context, give_way, set_handler};
use runtime::{context, critical_section, exposed, image};
use test_programs::{Outcome, check, granted, guest};

guest! {
    Child fault_157_exceptions_wherever_rsp_points;
    Child fault_157_reflected_calls_wherever_rsp_points;
    Child fault_157_ends_of_slices_wherever_rsp_points;
    Child handlers_nest_below_their_frames;
    Child interrupted_code_keeps_registers_and_keys;
}

/// Key 5 is refused; no page has it.
const FOREIGN: u32 = 0b11 << 10;
/// What fills the upcall stack below its last page.
const CANARY: u64 = 0x0123_4567_89ab_cdef;
/// Free words of the area: upcalls that came, where the last frame lay, the RSP and the PKRU in it.
const COUNT: usize = 8;
const FRAME: usize = 9;
const RSP: usize = 10;
const KEYS: usize = 11;

/// How the code leaves its keys.
#[derive(Clone, Copy)]
enum Way {
    Fault = 0,
    Call = 1,
    Spin = 2,
}

/// With this RSP and PKRU, faults, calls the kernel or spins, until a handler resumes at r13 with r12 as RSP.
#[unsafe(naked)]
extern "C" fn run_foreign(_rsp: u64, _pkru: u32, _way: u64) {
    naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15",
        "mov r12, rsp",
        "lea r13, [rip + 2f]",
        "mov r14, rdx",
        "mov eax, esi",
        "xor ecx, ecx",
        "xor edx, edx",
        "wrpkru",
        "mov rsp, rdi",
        "cmp r14, 1",
        "je 3f",
        "ja 4f",
        "ud2",
        "3:",
        "mov eax, 39",
        "syscall",
        "4:",
        "jmp 4b",
        "2:",
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
    )
}

fn word(index: usize) -> &'static AtomicU64 {
    &Area::current().library().free[index]
}

fn note(context: &Context) {
    word(COUNT).fetch_add(1, SeqCst);
    word(FRAME).store(&raw const context.frame as u64, SeqCst);
    word(RSP).store(context.frame.rsp, SeqCst);
    word(KEYS).store(context.frame.pkru, SeqCst);
}

/// Notes the frame and ends the foreign code.
extern "C" fn end_foreign(context: &mut Context) {
    note(context);
    leave(context);
}

/// The same at the end of a slice; one that interrupted the program itself is none of them.
extern "C" fn end_foreign_slice(context: &mut Context) {
    let foreign = context.frame.pkru != 0;
    if foreign {
        note(context);
    }
    give_way();
    if foreign {
        leave(context);
    }
}

fn leave(context: &mut Context) {
    context.frame.rip = context.registers.r13;
    context.frame.rsp = context.registers.r12;
    context.frame.pkru = 0;
}

/// The upcall stack: its first address and the one after it.
fn upcall_stack() -> (u64, u64) {
    let area = Area::current();
    (area.address() + UPCALL_STACK, area.library().upcall_stack_end.load(SeqCst))
}

/// Every word of the upcall stack between its guard page and its last page.
fn lower_words() -> impl Iterator<Item = &'static AtomicU64> {
    let (base, end) = upcall_stack();
    // SAFETY: the pages are mapped and writable; frames and handlers lie in the last one.
    (base + PAGE_SIZE..end - PAGE_SIZE).step_by(8).map(|address| unsafe { &*(address as *const AtomicU64) })
}

/// RSP at the ends of the upcall stack, within it, near frames, and nowhere.
fn places() -> [u64; 13] {
    let (base, end) = upcall_stack();
    let frame = size_of::<UpcallFrame>() as u64;
    [
        base,
        base + 8,
        base + frame - 1,
        base + FRAME_ALIGNMENT,
        base + 1000,
        base - 8,
        end - PAGE_SIZE,
        end - FRAME_ALIGNMENT,
        end - 8,
        end,
        0,
        0x12_3456,
        u64::MAX,
    ]
}

/// Leaves foreign code in one way, with RSP everywhere in turn: the frame lies at the top and nothing below is touched.
fn leave_everywhere(way: Way) -> Outcome {
    lower_words().for_each(|word| word.store(CANARY, SeqCst));
    let top = upcall_stack().1 - FRAME_ALIGNMENT;
    for (turn, rsp) in (1..).zip(places()) {
        run_foreign(rsp, FOREIGN, way as u64);
        let seen = [COUNT, FRAME, RSP, KEYS].map(|index| word(index).load(SeqCst));
        check!(seen == [turn, top, rsp, u64::from(FOREIGN)], "RSP {rsp:#x}: {seen:x?}, not in a frame at {top:#x}");
        check!(lower_words().all(|word| word.load(SeqCst) == CANARY), "RSP {rsp:#x}: the stack below was written");
    }
    Ok(())
}

fn fault_157_exceptions_wherever_rsp_points() -> Outcome {
    if !exposed::has(PKU) {
        return Ok(());
    }
    granted!(context::set_protection_keys(true));
    set_handler(kind::INVALID_OPCODE, end_foreign);
    let _section = critical_section::enter();
    leave_everywhere(Way::Fault)
}

fn fault_157_reflected_calls_wherever_rsp_points() -> Outcome {
    if !exposed::has(PKU) {
        return Ok(());
    }
    granted!(context::set_protection_keys(true));
    set_handler(kind::REFLECTION, end_foreign);
    let section = critical_section::enter();
    let private = Area::current().private();
    private.ungated_transfers.store(0, SeqCst);
    private.gate_pkru_checked.store(1, SeqCst);
    private.gate_start.store(image::own_range().0, SeqCst);
    private.gate_end.store(image::own_range().1, SeqCst);
    let outcome = leave_everywhere(Way::Call);
    private.gate_end.store(0, SeqCst);
    drop(section);
    outcome
}

fn fault_157_ends_of_slices_wherever_rsp_points() -> Outcome {
    if !exposed::has(PKU) {
        return Ok(());
    }
    granted!(context::set_protection_keys(true));
    set_handler(kind::SLICE_END, end_foreign_slice);
    leave_everywhere(Way::Spin)
}

/// Free word: how many handlers are open.
const OPEN: usize = 12;

extern "C" fn nest(context: &mut Context) {
    let below = word(FRAME).load(SeqCst);
    let here = &raw const context.frame as u64;
    let open = word(OPEN).fetch_add(1, SeqCst);
    if open > 0 && here >= below {
        word(COUNT).fetch_add(1, SeqCst);
    }
    word(FRAME).store(here, SeqCst);
    if open < 6 {
        // SAFETY: this function handles the fault, and steps over the two bytes of UD2.
        unsafe { asm!("ud2") };
    }
    context.frame.rip += 2;
}

fn handlers_nest_below_their_frames() -> Outcome {
    if !exposed::has(PKU) {
        return Ok(());
    }
    granted!(context::set_protection_keys(true));
    set_handler(kind::INVALID_OPCODE, nest);
    // SAFETY: the handler steps over the two bytes of UD2.
    unsafe { asm!("ud2") };
    let seen = [OPEN, COUNT].map(|index| word(index).load(SeqCst));
    check!(seen == [7, 0], "{} handlers were open, {} of them at or above the one before", seen[0], seen[1]);
    Ok(())
}

/// Counts to `turns` under the keys, and returns the counter, the keys and a register that nothing changes.
fn count_foreign(turns: u64) -> (u64, u32, u64) {
    let (counted, keys, kept): (u64, u32, u64);
    // SAFETY: everything mapped here has key 0, which is not refused; registers are declared.
    unsafe {
        asm!(
            "wrpkru", "xor r8, r8", "2:", "inc r8", "lea r9, [r8 + r10]", "sub r9, r10", "cmp r9, r8", "jne 3f",
            "cmp r8, rdi", "jne 2b", "3:", "rdpkru", "mov esi, eax", "xor eax, eax", "wrpkru",
            inout("eax") FOREIGN => _, inout("ecx") 0 => _, inout("edx") 0 => _, in("rdi") turns,
            out("r8") counted, out("r9") _, inout("r10") CANARY => kept, out("esi") keys
        );
    }
    (counted, keys, kept)
}

/// Through many slices, by the entries of the runtime.
fn interrupted_code_keeps_registers_and_keys() -> Outcome {
    if !exposed::has(PKU) {
        return Ok(());
    }
    granted!(context::set_protection_keys(true));
    const TURNS: u64 = 8_000_000;
    let seen = count_foreign(TURNS);
    check!(seen == (TURNS, FOREIGN, CANARY), "counted {:?}", seen);
    Ok(())
}
