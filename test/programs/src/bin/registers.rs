//! Registers and what else a CPU holds: after every switch one sees one's own values or zero, never another's.
//!
//! A painter fills every register it can reach with a pattern and lets go of the CPU in every way; the observer looks at
//! what the kernel gives it when its own slice begins.
#![no_std]
#![no_main]

extern crate alloc;

use abi::area::PUBLIC_LIBRARY;
use abi::budget::Resource;
use abi::upcall::{USER_CODE, USER_DATA, UpcallFrame, kind};
use abi::{UserAddress, feature};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::layout::AREA_ALIGNMENT;
use runtime::transfer::{Kind, Message, call, serve};
use runtime::upcall::{Context, set_entry, set_handler, slice_start_entry};
use runtime::{EnvironmentId, KeyIndex, area, exposed, syscall, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{death, eventually, first_page, launch, prepare, renew, settle, spawn, status};
use test_programs::{Outcome, World, attempt, check, granted, guest, refused};

guest! {
    Here fault_30_vector_state_of_another;
    Here fault_30_vector_registers_over_a_transfer;
    Child fault_30_reserved_bits_in_vector_state;
    Child fault_30_vector_unit_off;
    Here fault_31_registers_after_a_yield;
    Here fault_31_registers_at_the_beginning;
    Child fault_31_registers_after_a_call;
    Here fault_31_registers_of_one_that_begins_in_anothers_pages;
    Here fault_31_registers_of_one_that_begins_in_anothers_slot;
    Here fault_32_segment_bases_and_protection_keys;
    Child fault_34_unused_words_are_zero;
    Child fault_34_frames_hold_nothing_else;
    Here fault_35_no_kernel_address_is_exposed;
    Child fault_36_beyond_what_is_exposed;
}

const PATTERN: u64 = 0xdead_beef_dead_beef;
const OWN: u64 = 0x0123_4567_89ab_cdef;
const MASK: i64 = -(AREA_ALIGNMENT as i64);

/// Paints every general and vector register, and yields or spins, by its argument.
extern "C" fn paint(mode: u64) {
    let _ = syscall::vector_state_set(1);
    let private = Area::current().private();
    for round in 1.. {
        Area::current().status(1).store(round, Relaxed);
        paint_vectors();
        if mode == 1 {
            // Until it spins: the entry goes back to who called `paint_and_spin`.
            private.critical_section.store(1, SeqCst);
            private.slice_end_entry.store(yield_painted as *const () as u64, SeqCst);
            paint_and_spin();
        } else {
            paint_and_yield();
        }
    }
}

fn paint_vectors() {
    // SAFETY: this program keeps nothing in vector registers.
    unsafe {
        core::arch::asm!(
            "mov rax, {pattern}", "movq xmm0, rax", "punpcklqdq xmm0, xmm0",
            "movdqa xmm1, xmm0", "movdqa xmm2, xmm0", "movdqa xmm3, xmm0", "movdqa xmm4, xmm0", "movdqa xmm5, xmm0",
            "movdqa xmm6, xmm0", "movdqa xmm7, xmm0", "movdqa xmm8, xmm0", "movdqa xmm9, xmm0", "movdqa xmm10, xmm0",
            "movdqa xmm11, xmm0", "movdqa xmm12, xmm0", "movdqa xmm13, xmm0", "movdqa xmm14, xmm0", "movdqa xmm15, xmm0",
            "fninit", "fldpi", "fldpi", "push 0x5f80", "ldmxcsr [rsp]", "pop rax",
            pattern = const PATTERN as i64, out("rax") _
        );
    }
    if exposed::has(feature::AVX) {
        // SAFETY: as above; the CPU has AVX and the kernel enabled it.
        unsafe {
            core::arch::asm!(
                "vinsertf128 ymm0, ymm0, xmm0, 1",
                "vinsertf128 ymm1, ymm1, xmm1, 1",
                "vinsertf128 ymm2, ymm2, xmm2, 1",
                "vinsertf128 ymm4, ymm4, xmm4, 1",
                "vinsertf128 ymm5, ymm5, xmm5, 1",
                "vinsertf128 ymm6, ymm6, xmm6, 1",
                "vinsertf128 ymm7, ymm7, xmm7, 1",
                "vinsertf128 ymm8, ymm8, xmm8, 1",
                "vinsertf128 ymm9, ymm9, xmm9, 1",
                "vinsertf128 ymm10, ymm10, xmm10, 1",
                "vinsertf128 ymm11, ymm11, xmm11, 1",
                "vinsertf128 ymm13, ymm13, xmm13, 1",
                "vinsertf128 ymm14, ymm14, xmm14, 1",
                "vinsertf128 ymm15, ymm15, xmm15, 1",
                "vpcmpeqd ymm3, ymm3, ymm3",
                "vpcmpeqd ymm12, ymm12, ymm12"
            )
        };
    }
}

/// What FXSAVE stores: control and status of the x87 unit, the place of its last instruction, MXCSR, its registers, and the
/// lower halves of the vector registers.
#[repr(C, align(64))]
struct Legacy([u64; 64]);

/// The words of [`Legacy`] in the initial state, but for the mask of MXCSR, which the CPU gives, and what is left to software.
const CONTROL: u64 = 0x037f;
const MXCSR: u64 = 0x1f80;
const MXCSR_WORD: usize = 3;
const LEGACY_WORDS: usize = 52;

fn legacy() -> Legacy {
    let mut found = Legacy([0; 64]);
    // SAFETY: the area is aligned and large enough; nothing changes by it.
    unsafe { core::arch::asm!("fxsave64 [{}]", in(reg) &raw mut found, options(nostack)) };
    found
}

/// The upper halves of the wide registers, two words of each.
fn upper_halves() -> [u64; 32] {
    let mut found = [0u64; 32];
    // SAFETY: the registers are read only, and the array has room for all; the caller has checked that the CPU has AVX.
    unsafe {
        core::arch::asm!(
            "vextractf128 [{at}], ymm0, 1", "vextractf128 [{at} + 16], ymm1, 1", "vextractf128 [{at} + 32], ymm2, 1",
            "vextractf128 [{at} + 48], ymm3, 1", "vextractf128 [{at} + 64], ymm4, 1", "vextractf128 [{at} + 80], ymm5, 1",
            "vextractf128 [{at} + 96], ymm6, 1", "vextractf128 [{at} + 112], ymm7, 1", "vextractf128 [{at} + 128], ymm8, 1",
            "vextractf128 [{at} + 144], ymm9, 1", "vextractf128 [{at} + 160], ymm10, 1",
            "vextractf128 [{at} + 176], ymm11, 1", "vextractf128 [{at} + 192], ymm12, 1",
            "vextractf128 [{at} + 208], ymm13, 1", "vextractf128 [{at} + 224], ymm14, 1",
            "vextractf128 [{at} + 240], ymm15, 1",
            at = in(reg) found.as_mut_ptr()
        );
    }
    found
}

/// Yields with the pattern in every register.
#[unsafe(naked)]
extern "C" fn paint_and_yield() {
    core::arch::naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15",
        "mov rbx, {pattern}",
        "mov rcx, rbx; mov rdx, rbx; mov rsi, rbx; mov rbp, rbx; mov r8, rbx; mov r9, rbx; mov r10, rbx",
        "mov r11, rbx; mov r12, rbx; mov r13, rbx; mov r14, rbx; mov r15, rbx",
        "mov eax, {number}", "xor edi, edi", "syscall",
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
        pattern = const PATTERN as i64, number = const abi::syscall::number::time_slice_yield,
    )
}

/// Spins with the pattern in every register until the slice ends.
#[unsafe(naked)]
extern "C" fn paint_and_spin() {
    core::arch::naked_asm!(
        "push rbx; push rbp; push r12; push r13; push r14; push r15",
        "mov gs:[{stack}], rsp",
        "mov qword ptr gs:[{section}], 0",
        "mov rbx, {pattern}",
        "mov rax, rbx; mov rcx, rbx; mov rdx, rbx; mov rsi, rbx; mov rbp, rbx; mov rdi, rbx; mov r8, rbx; mov r9, rbx",
        "mov r10, rbx; mov r11, rbx; mov r12, rbx; mov r13, rbx; mov r14, rbx; mov r15, rbx",
        "2:", "pause", "jmp 2b",
        pattern = const PATTERN as i64, stack = const test_programs::attempt::free_word(8), section = const SECTION,
    )
}

/// Offset from GS base of the critical-section word.
const SECTION: usize = core::mem::offset_of!(abi::area::PrivateWords, critical_section);

/// Slice end entry of the spinning painter: yields with the pattern, and goes back to who called `paint_and_spin`.
#[unsafe(naked)]
extern "C" fn yield_painted() {
    core::arch::naked_asm!(
        "mov qword ptr gs:[{section}], 1",
        "mov eax, {number}", "xor edi, edi", "syscall",
        "mov rsp, gs:[{stack}]",
        "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
        "ret",
        number = const abi::syscall::number::time_slice_yield, stack = const test_programs::attempt::free_word(8),
        section = const SECTION,
    )
}

/// Notes all general registers in the library's half of the public page, and keeps them; RSP is at a frame.
macro_rules! dump {
    () => {
        "push rax
         push rcx
         mov rax, rsp
         and rax, {mask}
         lea rax, [rax + {place}]
         mov [rax + 8], rbx; mov [rax + 16], rcx; mov [rax + 24], rdx; mov [rax + 32], rsi; mov [rax + 40], rdi
         mov [rax + 48], rbp; mov [rax + 56], r8; mov [rax + 64], r9; mov [rax + 72], r10; mov [rax + 80], r11
         mov [rax + 88], r12; mov [rax + 96], r13; mov [rax + 104], r14; mov [rax + 112], r15
         mov rcx, [rsp + 8]
         mov [rax], rcx
         pop rcx
         pop rax"
    };
}

/// Slice start entry of the observer.
#[unsafe(naked)]
extern "C" fn note_and_resume() {
    core::arch::naked_asm!(
        dump!(), "add rsp, 32", "iretq",
        mask = const MASK, place = const PUBLIC_LIBRARY,
    )
}

/// Beginning of an environment whose first registers are to be seen.
#[unsafe(naked)]
extern "C" fn note_and_start() {
    core::arch::naked_asm!(
        dump!(), "jmp {start}",
        mask = const MASK, place = const PUBLIC_LIBRARY, start = sym runtime::entry::_start,
    )
}

/// Yields with own values in every register, and gives what was in them when the next slice began.
fn yield_with_own_values() -> [u64; 15] {
    // SAFETY: every register is declared lost but rbx and rbp, which are kept on the stack.
    unsafe {
        core::arch::asm!(
            "push rbx", "push rbp",
            "mov rbx, {own}",
            "mov rcx, rbx", "mov rdx, rbx", "mov rsi, rbx", "mov rbp, rbx", "mov r8, rbx", "mov r9, rbx", "mov r10, rbx",
            "mov r11, rbx", "mov r12, rbx", "mov r13, rbx", "mov r14, rbx", "mov r15, rbx",
            "mov eax, {number}", "xor edi, edi", "syscall",
            "pop rbp", "pop rbx",
            own = const OWN as i64, number = const abi::syscall::number::time_slice_yield,
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
            out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    core::array::from_fn(|index| Area::current().public_library(index).load(Relaxed))
}

/// What the vector registers hold: the low words of all sixteen, then MXCSR.
fn vectors() -> [u64; 17] {
    let mut found = [0u64; 17];
    // SAFETY: the registers are read only; the array has room for what is stored.
    unsafe {
        core::arch::asm!(
            "movq [{at}], xmm0", "movq [{at} + 8], xmm1", "movq [{at} + 16], xmm2", "movq [{at} + 24], xmm3",
            "movq [{at} + 32], xmm4", "movq [{at} + 40], xmm5", "movq [{at} + 48], xmm6", "movq [{at} + 56], xmm7",
            "movq [{at} + 64], xmm8", "movq [{at} + 72], xmm9", "movq [{at} + 80], xmm10", "movq [{at} + 88], xmm11",
            "movq [{at} + 96], xmm12", "movq [{at} + 104], xmm13", "movq [{at} + 112], xmm14", "movq [{at} + 120], xmm15",
            "stmxcsr [{at} + 128]",
            at = in(reg) found.as_mut_ptr()
        );
    }
    found
}

fn painters(world: &World) -> Result<[Child; 2], alloc::string::String> {
    let painters = [spawn(world, paint, 0)?, spawn(world, paint, 1)?];
    check!(eventually(|| painters.iter().all(|painter| status(painter, 1) > 2)), "a painter does not run");
    Ok(painters)
}

fn with_painters(world: &World, look: impl Fn(usize) -> Outcome) -> Outcome {
    let painters = painters(world)?;
    let outcome = (0..200).try_for_each(look);
    for painter in painters {
        check!(painter.alive(), "a painter died: {}", test_programs::child::death(&painter));
        granted!(painter.destroy());
    }
    outcome
}

fn fault_30_vector_state_of_another(world: &World) -> Outcome {
    granted!(syscall::vector_state_set(1));
    let outcome = with_painters(world, |round| {
        time_slice::yield_now();
        let Legacy(found) = legacy();
        for (index, word) in found[..LEGACY_WORDS].iter().enumerate() {
            let (word, initial) = match index {
                0 => (*word, CONTROL),
                MXCSR_WORD => (*word & 0xffff_ffff, MXCSR),
                _ => (*word, 0),
            };
            check!(word == initial, "round {round}: word {index} of the vector state is {word:#x}");
        }
        if exposed::has(feature::AVX) {
            check!(upper_halves() == [0; 32], "round {round}: wide registers hold {:x?}", upper_halves());
        }
        Ok(())
    });
    granted!(syscall::vector_state_set(0));
    outcome
}

/// What a service with its vector unit off says of the first use.
const UNIT_OFF: u64 = 0x0ff;

/// Tells what its vector registers hold, and what they hold once its unit is on if it was off; leaves the pattern in them.
extern "C" fn tell_vectors(_: EnvironmentId, message: &mut Message) {
    let is_off = attempt!(["pxor xmm0, xmm0"]).is_some_and(|frame| frame.kind == kind::DEVICE_NOT_AVAILABLE);
    if is_off {
        message[0] = UNIT_OFF;
        let _ = syscall::vector_state_set(1);
    } else {
        // The attempt has emptied the first.
        message[0] = vectors()[1];
    }
    message[1] = vectors()[2];
    message[2] = vectors()[16] & 0xffff_ffff;
    paint_vectors();
    if is_off {
        let _ = syscall::vector_state_set(0);
    }
}

extern "C" fn serve_vectors(on: u64) {
    watch();
    let _ = syscall::vector_state_set(on);
    Area::current().status(1).store(1, SeqCst);
    serve(tell_vectors)
}

/// Vector registers are part of the message where both have their unit on. To a callee that has it on, a caller without gives
/// the initial state, and nothing is left behind for a callee that switches it on itself; so it is on the way back.
fn fault_30_vector_registers_over_a_transfer(world: &World) -> Outcome {
    for callee_on in [0, 1] {
        let mut builder = prepare(world, serve_vectors, callee_on)?;
        builder.budget(abi::budget::Resource::Slice, 0);
        let child = granted!(builder.create());
        settle(&child)?;
        for (caller_on, kind) in
            [(0, Kind::Synchronous), (1, Kind::Synchronous), (0, Kind::Asynchronous), (1, Kind::Asynchronous)]
        {
            let case = alloc::format!("{kind:?}, units {caller_on} and {callee_on}");
            // The end of a slice leaves the initial state to both, who have not declared theirs live.
            let slice = || exposed::cpu(area::cpu()).map_or(0, |cpu| cpu.slice_end.load(SeqCst));
            let within_a_slice = (0..1000).find_map(|_| {
                let begun = slice();
                let (told, back) = exchange_vectors(&child, kind, caller_on)?;
                (slice() == begun).then_some((told, back))
            });
            let Some((told, back)) = within_a_slice else { return Err(case + ": no call came back within its slice") };
            let (first, later) = match (caller_on, callee_on) {
                (1, 1) => (CALLERS, CALLERS),
                (_, 1) => (0, 0),
                _ => (UNIT_OFF, 0),
            };
            check!(told == [first, later, 0x1f80], "{case}: the callee found {told:x?}");
            let left = if (caller_on, callee_on) == (1, 1) { PATTERN } else { 0 };
            // The callee leaves something else in the third and the twelfth where they are wider.
            let is_left = |(index, word): (usize, &u64)| *word == left || left != 0 && (index == 3 || index == 12);
            check!(back[..16].iter().enumerate().all(is_left), "{case}: the caller found {back:x?}");
        }
        granted!(syscall::vector_state_set(0));
        granted!(child.destroy());
    }
    Ok(())
}

/// What the caller leaves in its registers.
const CALLERS: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// One call: what the callee found, and what the caller finds afterwards.
fn exchange_vectors(child: &Child, kind: Kind, caller_on: u64) -> Option<([u64; 3], [u64; 17])> {
    syscall::vector_state_set(1).ok()?;
    fill_vectors(CALLERS);
    if caller_on == 0 {
        syscall::vector_state_set(0).ok()?;
    }
    let mut message: Message = [0; 6];
    call(kind, child.number, &mut message).ok()?;
    if caller_on == 0 {
        syscall::vector_state_set(1).ok()?;
    }
    Some(([message[0], message[1], message[2]], vectors()))
}

/// The same word in every vector register; MXCSR stays.
fn fill_vectors(word: u64) {
    // SAFETY: this program keeps nothing in vector registers.
    unsafe {
        core::arch::asm!(
            "movq xmm0, {word}", "punpcklqdq xmm0, xmm0",
            "movdqa xmm1, xmm0", "movdqa xmm2, xmm0", "movdqa xmm3, xmm0", "movdqa xmm4, xmm0", "movdqa xmm5, xmm0",
            "movdqa xmm6, xmm0", "movdqa xmm7, xmm0", "movdqa xmm8, xmm0", "movdqa xmm9, xmm0", "movdqa xmm10, xmm0",
            "movdqa xmm11, xmm0", "movdqa xmm12, xmm0", "movdqa xmm13, xmm0", "movdqa xmm14, xmm0", "movdqa xmm15, xmm0",
            word = in(reg) word
        );
    }
}

fn fault_30_reserved_bits_in_vector_state() -> Outcome {
    watch();
    granted!(syscall::vector_state_set(1));
    // The emulator may let reserved bits pass; nothing but a general protection fault may come of them.
    let raised = attempt!(["push -1", "ldmxcsr [rsp]"]).map(|frame| frame.kind);
    check!(matches!(raised, None | Some(kind::GENERAL_PROTECTION)), "reserved MXCSR bits raised {raised:?}");
    let raised = attempt!([
        "sub rsp, 1024",
        "and rsp, -64",
        "fxsave64 [rsp]",
        "mov dword ptr [rsp + 24], 0xffff0000",
        "fxrstor64 [rsp]"
    ]);
    check!(raised.is_none_or(|frame| frame.kind == kind::GENERAL_PROTECTION), "FXRSTOR raised {raised:?}");
    if exposed::has(feature::XSAVE) {
        let raised = attempt!([
            "sub rsp, 4096",
            "and rsp, -64",
            "mov rdi, rsp",
            "mov ecx, 512",
            "xor eax, eax",
            "rep stosq",
            "mov qword ptr [rsp + 512], -1",
            "mov eax, -1",
            "mov edx, -1",
            "xrstor64 [rsp]"
        ]);
        check!(raised.is_some_and(|frame| frame.kind == kind::GENERAL_PROTECTION), "XRSTOR raised {raised:?}");
    }
    Ok(())
}

fn fault_30_vector_unit_off() -> Outcome {
    watch();
    granted!(syscall::vector_state_set(0));
    let raised = attempt!(["pxor xmm0, xmm0"]).map(|frame| frame.kind);
    check!(raised == Some(kind::DEVICE_NOT_AVAILABLE), "with the vector unit off, PXOR raised {raised:?}");
    granted!(syscall::vector_state_set(1));
    check!(attempt!(["pxor xmm0, xmm0"]).is_none(), "the vector unit does not come on");
    check!(vectors()[..16].iter().all(|word| *word == 0), "vector registers are not zero after off and on");
    check!(syscall::vector_state_set(2).is_err(), "2 is no state of the vector unit");
    Ok(())
}

fn fault_31_registers_after_a_yield(world: &World) -> Outcome {
    set_entry(kind::SLICE_START, note_and_resume as *const () as u64);
    let slices = || exposed::environment(runtime::area::number()).map_or(0, |info| info.slices.load(Relaxed));
    let clean = AtomicU64::new(0);
    let outcome = with_painters(world, |round| {
        let begun = slices();
        let found = yield_with_own_values();
        // A slice that ended by itself somewhere in between began with what this environment had in its registers.
        if slices() != begun + 1 {
            return Ok(());
        }
        clean.fetch_add(1, Relaxed);
        // RCX and R11 hold what SYSRET takes from them: the environment's own entry and flags.
        let entry = note_and_resume as *const () as u64;
        let foreign = found.iter().find(|word| **word > 0xfff && ![OWN, entry].contains(*word));
        check!(foreign.is_none(), "round {round}: a slice began with {found:x?}");
        Ok(())
    });
    set_entry(kind::SLICE_START, slice_start_entry as *const () as u64);
    outcome?;
    check!(clean.load(Relaxed) >= 20, "only {} of 200 yields were not disturbed", clean.load(Relaxed));
    Ok(())
}

extern "C" fn stay(_: u64) {
    Area::current().status(1).store(1, SeqCst);
    eventually(|| false);
}

fn fault_31_registers_at_the_beginning(world: &World) -> Outcome {
    with_painters(world, |round| {
        if round % 20 != 0 {
            return Ok(());
        }
        let mut builder = prepare(world, stay, 0)?;
        builder.entry(note_and_start as *const () as u64);
        let child = launch(builder)?;
        check!(eventually(|| status(&child, 1) == 1), "round {round}: the child does not start");
        let public = granted!(child.public());
        let found: Vec<u64> =
            public.words()[PUBLIC_LIBRARY as usize / 8..][..15].iter().map(|word| word.load(SeqCst)).collect();
        drop(public);
        granted!(child.destroy());
        // RCX and R11 hold what SYSRET takes from them: the environment's own entry and flags.
        let own = |word: u64| [0, note_and_start as *const () as u64, 0x202].contains(&word);
        check!(found.iter().all(|word| own(*word)), "round {round}: an environment began with {found:x?}");
        Ok(())
    })
}

fn fault_31_registers_after_a_call() -> Outcome {
    for (number, first) in [(0u64, 0u64), (2, 99), (7, 99), (25, 99), (99, 0), (u64::MAX, 0)] {
        let (rcx, r11, rdx): (u64, u64, u64);
        let (rsi, r10, r15): (u64, u64, u64);
        // SAFETY: the calls are refused or do nothing; all registers that they may change are declared.
        unsafe {
            core::arch::asm!(
                "syscall",
                inout("rax") number => _, inout("rdi") first => _, inout("rsi") OWN => rsi, inout("r10") OWN + 1 => r10,
                inout("r15") OWN + 2 => r15, lateout("rdx") rdx, lateout("rcx") rcx, lateout("r11") r11
            );
        }
        let kept = [rsi, r10, r15];
        check!(kept == [OWN, OWN + 1, OWN + 2], "call {number} changed registers: {kept:x?}");
        for word in [rcx, r11, rdx] {
            let own = word < abi::memory_map::USER_END || word == number || (OWN..OWN + 3).contains(&word);
            check!(own, "call {number} left {word:#x} in a register");
        }
    }
    Ok(())
}

/// Spins with the pattern in every register but the stack pointer, for ever.
#[unsafe(naked)]
extern "C" fn paint_and_stay() {
    core::arch::naked_asm!(
        "mov rbx, {pattern}",
        "mov rax, rbx; mov rcx, rbx; mov rdx, rbx; mov rsi, rbx; mov rbp, rbx; mov rdi, rbx; mov r8, rbx; mov r9, rbx",
        "mov r10, rbx; mov r11, rbx; mov r12, rbx; mov r13, rbx; mov r14, rbx; mov r15, rbx",
        "2:", "pause", "jmp 2b",
        pattern = const PATTERN as i64,
    )
}

/// Ways in which a painter leaves the CPU: switched out whole, of its own will, and so with its vector unit off.
mod leaving {
    pub const WHOLE: u64 = 0;
    pub const YIELDING: u64 = 1;
    pub const WITHOUT_VECTORS: u64 = 2;
    pub const WAYS: u64 = 3;
}

/// Fills whatever it can reach, and leaves the CPU in one of the ways of [`leaving`].
extern "C" fn paint_everything(way: u64) {
    let area = Area::current();
    paint_vectors();
    if way == leaving::WITHOUT_VECTORS {
        let _ = syscall::vector_state_set(0);
    }
    // SAFETY: nothing of this program uses FS.
    let _ = unsafe { syscall::segment_base_set(0, UserAddress(0x6666_0000)) };
    if exposed::has(feature::PKU) && syscall::protection_keys_set(1).is_ok() {
        set_protection_keys(0xffff_fff0);
    }
    while way != leaving::WHOLE {
        area.status(1).store(1, SeqCst);
        paint_and_yield();
    }
    area.private().critical_section.store(1, SeqCst);
    // SAFETY: nothing goes by GS from here on: upcalls, whose handlers do, wait for ever.
    let _ = unsafe { syscall::segment_base_set(1, UserAddress(0x6666_1000)) };
    area.status(1).store(1, SeqCst);
    paint_and_stay();
}

/// Words of the library's half of the public page in which one that begins tells what it found, behind its general registers.
mod told {
    pub const FS_BASE: usize = 16;
    pub const GS_WORD: usize = 17;
    pub const VECTOR_UNIT: usize = 18;
    pub const KEYS: usize = 19;
    pub const PKRU: usize = 20;
    pub const LEGACY: usize = 24;
    pub const UPPER: usize = LEGACY + super::LEGACY_WORDS;
    pub const END: usize = UPPER + 32;
}

/// Tells what else it finds in the CPU.
extern "C" fn tell_the_rest(argument: u64) {
    watch();
    let area = Area::current();
    let tell = |place: usize, word: u64| area.public_library(place).store(word, SeqCst);
    // Page 0 is not mapped: the address that faults is the base.
    tell(told::FS_BASE, attempt!(["mov rax, fs:[0]"]).map_or(u64::MAX, |frame| frame.detail));
    let word: u64;
    // SAFETY: the first word that the runtime itself finds by GS.
    unsafe { core::arch::asm!("mov {}, gs:[0]", out(reg) word) };
    tell(told::GS_WORD, word ^ area.private().exception_entry.load(SeqCst));
    // The vector unit is on in the beginning.
    let off = attempt!(["movq rax, xmm0"]).is_some();
    tell(told::VECTOR_UNIT, off.into());
    if off {
        return;
    }
    let Legacy(mut found) = legacy();
    found[0] ^= CONTROL;
    found[MXCSR_WORD] = found[MXCSR_WORD] & 0xffff_ffff ^ MXCSR;
    found[..LEGACY_WORDS].iter().enumerate().for_each(|(index, word)| tell(told::LEGACY + index, *word));
    if exposed::has(feature::AVX) {
        upper_halves().iter().enumerate().for_each(|(index, word)| tell(told::UPPER + index, *word));
    }
    tell(told::KEYS, attempt!(["xor ecx, ecx", "rdpkru"]).is_none().into());
    if exposed::has(feature::PKU) && syscall::protection_keys_set(1).is_ok() {
        tell(told::PKRU, protection_keys().into());
    }
    area.status(1).store(argument, SeqCst);
    eventually(|| false);
}

/// Runs a child that was renewed and begins at [`note_and_start`]: it must find nothing of whoever was there before it.
fn finds_nothing(world: &World, child: &Child, round: u64) -> Outcome {
    granted!(world.image.map_into(&child.space, child.pages));
    for (resource, amount) in [(Resource::Page, 512), (Resource::Slice, 4), (Resource::Predicate, 16)] {
        granted!(child.give(resource, amount));
    }
    granted!(child.run(0, time_slice::ANY_POSITION));
    check!(eventually(|| status(child, 1) == round), "round {round}: it does not begin: {}", death(child));
    let public = granted!(child.public());
    let words = &public.words()[PUBLIC_LIBRARY as usize / 8..][..told::END];
    let found: Vec<u64> = words.iter().map(|word| word.load(SeqCst)).collect();
    let (registers, rest) = found.split_at(told::FS_BASE);
    let own = |word: u64| [0, note_and_start as *const () as u64, 0x202].contains(&word);
    check!(registers[..15].iter().all(|word| own(*word)), "round {round}: it began with {registers:x?}");
    let foreign = rest.iter().position(|word| *word != 0);
    check!(foreign.is_none(), "round {round}: word {foreign:?} of {rest:x?} is not as in the beginning");
    Ok(())
}

/// A child that has filled everything and left the CPU.
fn painted(world: &World, round: u64) -> Result<Child, alloc::string::String> {
    let way = round % leaving::WAYS;
    let child = spawn(world, paint_everything, way)?;
    let forced_out = |info: exposed::Environment| way != leaving::WHOLE || info.excess.load(SeqCst) != 0;
    let is_painted = || status(&child, 1) == 1 && child.info().is_some_and(forced_out) && !exposed::runs(child.number);
    check!(eventually(is_painted), "round {round}: it does not paint: {}", death(&child));
    Ok(child)
}

/// The same pages serve the next environment: its context, its area, its upcall stack.
fn fault_31_registers_of_one_that_begins_in_anothers_pages(world: &World) -> Outcome {
    for round in 2..12 {
        let mut child = painted(world, round)?;
        let first = first_page(note_and_start as *const () as u64, tell_the_rest, round)?;
        refused!(syscall::environment_destroy(KeyIndex::FIRST, child.number), Again);
        child.number = granted!(renew(child.number, first, round % 2 == 0));
        granted!(runtime::page::Allocator::own().free(first));
        finds_nothing(world, &child, round)?;
        granted!(child.destroy());
    }
    Ok(())
}

extern "C" fn end_at_once(_: u64) {
    runtime::entry::exit(0);
}

/// The same slot of the table, but other pages; on small machines, where going round all slots takes no minutes.
fn fault_31_registers_of_one_that_begins_in_anothers_slot(world: &World) -> Outcome {
    let slots = exposed::kernel().environments.load(SeqCst);
    let rounds = if slots > 2048 { 0 } else { leaving::WAYS };
    for round in 2..2 + rounds {
        let mut next = spawn(world, end_at_once, 0)?;
        let child = painted(world, round)?;
        let slot = child.number.0 % slots;
        granted!(child.destroy());
        check!(next.wait(u64::MAX), "the next one does not end");
        for _ in 0..slots {
            let first = first_page(note_and_start as *const () as u64, tell_the_rest, round)?;
            next.number = granted!(renew(next.number, first, true));
            granted!(runtime::page::Allocator::own().free(first));
            if next.number.0 % slots == slot {
                break;
            }
            refused!(syscall::environment_destroy(KeyIndex::FIRST, next.number), Again);
        }
        check!(next.number.0 % slots == slot, "round {round}: slot {slot} does not come again");
        finds_nothing(world, &next, round)?;
        granted!(next.destroy());
    }
    Ok(())
}

/// Sets its bases and protection keys to values of its own, over and over.
extern "C" fn set_bases(_: u64) {
    let area = Area::current();
    loop {
        // SAFETY: nothing of this program uses FS.
        let _ = unsafe { syscall::segment_base_set(0, UserAddress(0x6666_0000)) };
        if exposed::has(feature::PKU) && syscall::protection_keys_set(1).is_ok() {
            set_protection_keys(0xffff_fff0);
        }
        area.status(1).store(1, SeqCst);
        // Upcalls, whose handlers go by GS, wait as long as it leads nowhere.
        area.private().critical_section.store(1, SeqCst);
        // SAFETY: nothing goes by GS until it is set back; a yield does not.
        let _ = unsafe { syscall::segment_base_set(1, UserAddress(0x6666_1000)) };
        time_slice::yield_now();
        // SAFETY: this is what it was.
        let _ = unsafe { syscall::segment_base_set(1, UserAddress(area.address() + abi::area::PRIVATE)) };
        area.private().critical_section.store(0, SeqCst);
    }
}

/// What RDTSCP tells beside the time: the number of the CPU, which nobody but the kernel can set.
fn tsc_aux() -> u64 {
    let found: u64;
    // SAFETY: the CPU has the instruction, as the caller has checked; it changes these registers only.
    unsafe { core::arch::asm!("rdtscp", out("eax") _, out("edx") _, out("rcx") found, options(nostack)) };
    found
}

fn set_protection_keys(value: u32) {
    // SAFETY: key 0, which everything mapped here has, stays open in each value the tests use.
    unsafe { core::arch::asm!("wrpkru", in("eax") value, in("ecx") 0, in("edx") 0, options(nostack)) };
}

fn protection_keys() -> u32 {
    let value: u32;
    // SAFETY: the CPU has protection keys, as the callers have checked.
    unsafe { core::arch::asm!("rdpkru", out("eax") value, in("ecx") 0, out("edx") _, options(nostack)) };
    value
}

fn fault_32_segment_bases_and_protection_keys(world: &World) -> Outcome {
    watch();
    let child = spawn(world, set_bases, 0)?;
    if exposed::has(feature::PKU) {
        granted!(syscall::protection_keys_set(1));
    }
    check!(eventually(|| status(&child, 1) == 1), "the other environment does not run");
    // SAFETY: nothing of this program uses FS.
    granted!(unsafe { syscall::segment_base_set(0, UserAddress(0x7777_0000)) });
    for round in 0..100 {
        time_slice::yield_now();
        if exposed::has(feature::FSGSBASE) {
            let base: u64;
            // SAFETY: the CPU has the instruction.
            unsafe { core::arch::asm!("rdfsbase {}", out(reg) base) };
            check!(base == 0x7777_0000, "round {round}: FS base is {base:#x}");
        }
        if exposed::has(feature::PKU) {
            check!(protection_keys() == 0, "round {round}: PKRU is {:#x}", protection_keys());
        }
        if exposed::has(feature::RDTSCP) {
            let cpus = exposed::kernel().cpus.load(SeqCst);
            check!(tsc_aux() < cpus, "round {round}: RDTSCP tells {:#x}", tsc_aux());
        }
    }
    // Debug registers: nobody can set them, nobody sees them.
    for raised in [
        attempt!(["mov rax, dr7"]),
        attempt!(["mov rax, dr6"]),
        attempt!(["mov rax, dr0"]),
        attempt!(["xor eax, eax", "mov dr7, rax"]),
        attempt!(["mov dr0, rax"]),
    ] {
        check!(
            raised.is_some_and(|frame| frame.kind == kind::GENERAL_PROTECTION),
            "a debug register raised {raised:?}"
        );
    }
    // SAFETY: as above.
    granted!(unsafe { syscall::segment_base_set(0, UserAddress(0)) });
    granted!(child.destroy());
    Ok(())
}

fn fault_34_unused_words_are_zero() -> Outcome {
    let private = Area::current().private();
    check!(private.unused.iter().all(|word| word.load(SeqCst) == 0), "unused words of the private page are not zero");
    let vector = private.repossession.iter().all(|entry| entry.resource.load(SeqCst) | entry.name.load(SeqCst) == 0);
    check!(vector, "the repossession vector of a new environment is not empty");
    check!(
        exposed::kernel().unused.iter().all(|word| word.load(SeqCst) == 0),
        "unused words of KernelInfo are not zero"
    );
    for cpu in exposed::cpus() {
        check!(cpu.unused.iter().all(|word| word.load(SeqCst) == 0), "unused words of CpuInfo are not zero");
    }
    for slot in 0..exposed::kernel().environments.load(SeqCst) {
        let unused =
            exposed::environment_slot(slot).is_none_or(|info| info.unused.iter().all(|word| word.load(SeqCst) == 0));
        check!(unused, "unused words of environment slot {slot} are not zero");
    }
    Ok(())
}

/// The words of the last frame.
static FRAME: [AtomicU64; 9] = [const { AtomicU64::new(u64::MAX) }; 9];

extern "C" fn keep_frame(context: &mut Context) {
    let UpcallFrame { kind, error, detail, pkru, rip, cs, rflags, rsp, ss } = context.frame;
    for (place, word) in FRAME.iter().zip([kind, error, detail, pkru, rip, cs, rflags, rsp, ss]) {
        place.store(word, SeqCst);
    }
    context.frame.rip += 2;
}

/// Each word of a frame is what it says, all 64 bits of it.
fn fault_34_frames_hold_nothing_else() -> Outcome {
    set_handler(kind::INVALID_OPCODE, keep_frame);
    for _ in 0..100 {
        let (rip, rsp): (u64, u64);
        // SAFETY: the handler steps over the two bytes of UD2.
        unsafe {
            core::arch::asm!(
                "lea {rip}, [rip + 2f]", "mov {rsp}, rsp", "push 0x202", "popfq", "2:", "ud2",
                rip = out(reg) rip, rsp = out(reg) rsp
            );
        }
        let found = FRAME.each_ref().map(|word| word.load(SeqCst));
        let wanted = [kind::INVALID_OPCODE, 0, 0, 0, rip, USER_CODE, 0x202, rsp, USER_DATA];
        check!(found == wanted, "a frame holds {found:x?}, not {wanted:x?}");
    }
    Ok(())
}

/// Every word of what is exposed: none is an address of the kernel.
fn fault_35_no_kernel_address_is_exposed(_: &World) -> Outcome {
    use abi::memory_map::{
        DIRECT_MAP, EXPOSED_CPUS, EXPOSED_ENVIRONMENTS, EXPOSED_KERNEL, EXPOSED_PAGES, EXPOSED_SLICES, KERNEL_IMAGE,
    };
    let kernel = exposed::kernel();
    let cpus = kernel.cpus.load(SeqCst);
    let tables = [
        (EXPOSED_KERNEL, 512),
        (EXPOSED_CPUS, cpus * 128),
        (EXPOSED_SLICES, cpus * 16 * abi::limits::SLICES_PER_CPU as u64),
        (EXPOSED_ENVIRONMENTS, kernel.environments.load(SeqCst) * 512),
        (EXPOSED_PAGES, kernel.pages.load(SeqCst) * 64),
    ];
    for (start, bytes) in tables {
        for address in (start..start + bytes).step_by(8) {
            // SAFETY: the kernel maps these tables read-only for everybody, as long as their counts say.
            let word = unsafe { (address as *const u64).read_volatile() };
            let kernels = (DIRECT_MAP..DIRECT_MAP + (1 << 40)).contains(&word)
                || (KERNEL_IMAGE..KERNEL_IMAGE + (1 << 30)).contains(&word);
            check!(!kernels, "{address:#x} exposes {word:#x}");
        }
    }
    Ok(())
}

fn fault_36_beyond_what_is_exposed() -> Outcome {
    use abi::memory_map::{
        DIRECT_MAP, EXPOSED_CPUS, EXPOSED_ENVIRONMENTS, EXPOSED_KERNEL, EXPOSED_PAGES, EXPOSED_SLICES, KERNEL_IMAGE,
    };
    watch();
    let kernel = exposed::kernel();
    let (pages, cpus) = (kernel.pages.load(SeqCst), kernel.cpus.load(SeqCst));
    // What is shown ends with the page that its last record lies in, and behind that record there are zeros.
    let ends = [
        EXPOSED_KERNEL + 512,
        EXPOSED_CPUS + cpus * 128,
        EXPOSED_SLICES + cpus * 16 * abi::limits::SLICES_PER_CPU as u64,
        EXPOSED_ENVIRONMENTS + kernel.environments.load(SeqCst) * 512,
        EXPOSED_PAGES + pages * 64,
    ];
    for end in ends {
        let last = end.next_multiple_of(abi::limits::PAGE_SIZE);
        for address in (end..last).step_by(8) {
            // SAFETY: the rest of a page whose beginning is shown.
            let word = unsafe { (address as *const u64).read_volatile() };
            check!(word == 0, "behind the last record, at {address:#x}, stands {word:#x}");
        }
        let raised = attempt!(["mov rax, [rdi]"], "rdi" = last);
        check!(raised.is_some_and(|frame| frame.kind == kind::PAGE_FAULT), "reading {last:#x} raised {raised:?}");
    }
    for address in [DIRECT_MAP, DIRECT_MAP + 0x10_0000, KERNEL_IMAGE, KERNEL_IMAGE + 0x10_0000, EXPOSED_KERNEL - 8] {
        let raised = attempt!(["mov rax, [rdi]"], "rdi" = address);
        check!(raised.is_some_and(|frame| frame.kind == kind::PAGE_FAULT), "reading {address:#x} raised {raised:?}");
    }
    for address in [EXPOSED_KERNEL, EXPOSED_CPUS, EXPOSED_SLICES, EXPOSED_ENVIRONMENTS, EXPOSED_PAGES] {
        let raised = attempt!(["mov [rdi], rax"], "rdi" = address);
        check!(raised.is_some_and(|frame| frame.error == 7), "writing {address:#x} raised {raised:?}");
        let raised = attempt!(["call rdi"], "rdi" = address);
        check!(raised.is_some_and(|frame| frame.kind == kind::PAGE_FAULT), "jumping to {address:#x} raised {raised:?}");
    }
    Ok(())
}
