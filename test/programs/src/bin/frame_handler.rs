//! Handlers of exceptions by their frames alone: what they do not look at is kept, and all else goes the general way.
#![no_std]
#![no_main]

extern crate alloc;

use abi::feature;
use abi::upcall::{UpcallFrame, kind};
use core::arch::{asm, naked_asm};
use core::sync::atomic::Ordering::Relaxed;
use runtime::area::Area;
use runtime::environment::DeathReason;
use runtime::frame_handler::{FrameHandler, set_frame_handler};
use runtime::upcall::{Context, set_handler};
use runtime::{context, exposed};
use test_programs::child::{expect_death, spawn};
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Child every_register_and_flag_is_kept;
    Child protection_keys_of_the_interrupted_code_are_put_back;
    Child other_kinds_reach_their_own_handlers;
    Child fault_21_nested_faults_resume_by_frames;
    Here fault_21_endless_nesting_by_frames;
}

/// No page is there.
const NOWHERE: u64 = 0x12_3000;
/// Bytes of the store into [`NOWHERE`].
const STORE: u64 = 7;
/// Free words of the area: faults that were handled, and handlers that are open.
const HANDLED: usize = 9;
const DEPTH: usize = 10;

/// Steps over the store, and spoils whatever registers a function may.
struct StepOver;

impl FrameHandler for StepOver {
    const KIND: u64 = kind::PAGE_FAULT;

    extern "C" fn handle(frame: &mut UpcallFrame) {
        if frame.detail == NOWHERE {
            frame.rip += STORE;
        }
        Area::current().library().free[HANDLED].fetch_add(1, Relaxed);
        // SAFETY: the compiler is told of every register that is lost.
        unsafe {
            asm!(
                "mov rcx, rax; mov rdx, rax; mov rsi, rax; mov rdi, rax; mov r8, rax; mov r9, rax; mov r10, rax; mov r11, rax",
                inout("rax") u64::MAX => _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _
            );
        }
    }
}

fn handled() -> u64 {
    Area::current().library().free[HANDLED].load(Relaxed)
}

/// Every register but RSP, then the flags: r15 to r8, rsi, rdx, rcx, rax, rbp, rbx, rdi.
type All = [u64; 16];

/// Takes the registers from there, sets carry and direction, faults, and puts registers and flags back there.
#[unsafe(naked)]
extern "C" fn fault_with(_all: &mut All) {
    naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15; push rdi",
        "mov r15, [rdi]; mov r14, [rdi + 8]; mov r13, [rdi + 16]; mov r12, [rdi + 24]; mov r11, [rdi + 32]",
        "mov r10, [rdi + 40]; mov r9, [rdi + 48]; mov r8, [rdi + 56]; mov rsi, [rdi + 64]; mov rdx, [rdi + 72]",
        "mov rcx, [rdi + 80]; mov rax, [rdi + 88]; mov rbp, [rdi + 96]; mov rbx, [rdi + 104]; mov rdi, [rdi + 112]",
        "stc",
        "std",
        // mov [0x123000], al
        ".byte 0x88, 0x04, 0x25, 0x00, 0x30, 0x12, 0x00",
        "pushfq",
        "push rdi",
        "mov rdi, [rsp + 16]",
        "mov [rdi], r15; mov [rdi + 8], r14; mov [rdi + 16], r13; mov [rdi + 24], r12; mov [rdi + 32], r11",
        "mov [rdi + 40], r10; mov [rdi + 48], r9; mov [rdi + 56], r8; mov [rdi + 64], rsi; mov [rdi + 72], rdx",
        "mov [rdi + 80], rcx; mov [rdi + 88], rax; mov [rdi + 96], rbp; mov [rdi + 104], rbx",
        "pop rax",
        "mov [rdi + 112], rax",
        "pop rax",
        "mov [rdi + 120], rax",
        "cld",
        "pop rdi; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
    )
}

fn every_register_and_flag_is_kept() -> Outcome {
    const CARRY: u64 = 1;
    const DIRECTION: u64 = 1 << 10;
    set_frame_handler::<StepOver>();
    let before: All = core::array::from_fn(|index| 0x0101_0101_0101_0101 * (index as u64 + 1));
    let mut after = before;
    fault_with(&mut after);
    check!(handled() == 1, "{} faults were handled", handled());
    check!(before[..15] == after[..15], "the registers were {before:x?}, and are {after:x?}");
    check!(after[15] & (CARRY | DIRECTION) == CARRY | DIRECTION, "the flags are {:#x}", after[15]);
    Ok(())
}

fn protection_keys_of_the_interrupted_code_are_put_back() -> Outcome {
    if !exposed::has(feature::PKU) {
        return Ok(());
    }
    granted!(context::set_protection_keys(true));
    set_frame_handler::<StepOver>();
    // Key 5 is refused; no page has it.
    let wanted = 0b11 << 10;
    let found: u32;
    // SAFETY: everything mapped here has key 0; the handler steps over the store.
    unsafe {
        asm!(
            "xor ecx, ecx", "xor edx, edx", "wrpkru", ".byte 0x88, 0x04, 0x25, 0x00, 0x30, 0x12, 0x00",
            "xor ecx, ecx", "rdpkru", "mov esi, eax", "xor eax, eax", "wrpkru",
            inout("eax") wanted => _, out("ecx") _, out("edx") _, out("esi") found
        );
    }
    check!(handled() == 1 && found == wanted, "PKRU was {wanted:#x} and is {found:#x}");
    Ok(())
}

extern "C" fn skip(context: &mut Context) {
    context.frame.rip += 2;
    context.registers.rax = 77;
}

fn other_kinds_reach_their_own_handlers() -> Outcome {
    set_handler(kind::INVALID_OPCODE, skip);
    set_frame_handler::<StepOver>();
    let came: u64;
    // SAFETY: the handler steps over the two bytes of UD2, and sets rax.
    unsafe { asm!("ud2", inout("rax") 0u64 => came) };
    check!(came == 77 && handled() == 0, "rax is {came}, and {} faults were handled by frames", handled());
    Ok(())
}

/// Faults within its handler, until eight are open; without end where the word [`ENDLESS`] says so.
struct Nest;

impl FrameHandler for Nest {
    const KIND: u64 = kind::INVALID_OPCODE;

    extern "C" fn handle(frame: &mut UpcallFrame) {
        let words = &Area::current().library().free;
        let depth = words[DEPTH].fetch_add(1, Relaxed) + 1;
        words[HANDLED].fetch_add(1, Relaxed);
        if depth < 8 || words[ENDLESS].load(Relaxed) != 0 {
            // SAFETY: this function handles the fault, and steps over the two bytes of UD2.
            unsafe { asm!("ud2") };
        }
        words[DEPTH].fetch_sub(1, Relaxed);
        frame.rip += 2;
    }
}

/// Free word: nests for ever.
const ENDLESS: usize = 11;

fn fault_21_nested_faults_resume_by_frames() -> Outcome {
    set_frame_handler::<Nest>();
    // SAFETY: as in `Nest`.
    unsafe { asm!("ud2") };
    let open = Area::current().library().free[DEPTH].load(Relaxed);
    check!((open, handled()) == (0, 8), "{open} handlers are open, {} were", handled());
    Ok(())
}

extern "C" fn nest_for_ever(_: u64) {
    set_frame_handler::<Nest>();
    Area::current().library().free[ENDLESS].store(1, Relaxed);
    // SAFETY: as in `Nest`, until the upcall stack is full.
    unsafe { asm!("ud2") };
}

fn fault_21_endless_nesting_by_frames(world: &World) -> Outcome {
    expect_death(spawn(world, nest_for_ever, 0)?, DeathReason::UpcallStackOverflow)
}
