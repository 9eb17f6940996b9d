//! Fault 31: general registers when a slice, an environment or the way back from a call begins.

use crate::OWN;
use crate::observer::{note_and_resume, note_and_start};
use crate::painter::with_painters;
use abi::area::PUBLIC_LIBRARY;
use abi::upcall::kind;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::exposed;
use runtime::upcall::{set_entry, slice_start_entry};
use test_programs::child::{eventually, launch, prepare, status};
use test_programs::{Outcome, World, check, granted};

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

pub(crate) fn fault_31_registers_after_a_yield(world: &World) -> Outcome {
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

pub(crate) fn fault_31_registers_at_the_beginning(world: &World) -> Outcome {
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

pub(crate) fn fault_31_registers_after_a_call() -> Outcome {
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
            let asked = word == number || word == number & abi::syscall::CALLEE;
            let own = word < abi::memory_map::USER_END || asked || (OWN..OWN + 3).contains(&word);
            check!(own, "call {number} left {word:#x} in a register");
        }
    }
    Ok(())
}
