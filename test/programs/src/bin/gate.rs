//! The system call gate: calls from elsewhere, or under another PKRU, come back as upcalls.
#![no_std]
#![no_main]

extern crate alloc;

use abi::feature::PKU;
use abi::syscall::{ASYNCHRONOUS, SYNCHRONOUS};
use abi::upcall::kind;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::critical_section::{self, CriticalSection};
use runtime::environment::DeathReason;
use runtime::upcall::{Context, set_handler};
use runtime::{area, context, exposed, image};
use test_programs::child::{expect_death, spawn};
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Child a_call_from_elsewhere_is_reflected;
    Child the_end_of_the_gate_is_exact;
    Child another_pkru_is_reflected;
    Child every_number_is_reflected_unchanged;
    Here fault_19_reflection_without_an_entry;
}

/// Free words of the area: how many calls were reflected, and what the last one looked like.
const COUNT: usize = 8;
const NUMBER: usize = 9;
const ADDRESS: usize = 10;

extern "C" fn note(context: &mut Context) {
    let words = &Area::current().library().free;
    words[COUNT].fetch_add(1, SeqCst);
    words[NUMBER].store(context.registers.rax, SeqCst);
    words[ADDRESS].store(context.frame.rip, SeqCst);
    let as_syscall_leaves_them =
        context.registers.rcx == context.frame.rip && context.registers.r11 == context.frame.rflags;
    context.registers.rax = context.registers.rdi.wrapping_add(0x600d_0000 + u64::from(!as_syscall_leaves_them));
}

/// A call whose instruction lies at a place that is known: the result, and the address behind the instruction.
#[inline(never)]
fn emulated(number: u64, first: u64) -> (u64, u64) {
    let (result, address): (u64, u64);
    // SAFETY: either the kernel refuses the call or the handler answers it; registers are declared.
    unsafe {
        core::arch::asm!(
            "lea r8, [rip + 2f]", "syscall", "2:",
            inout("rax") number => result, in("rdi") first, lateout("rdx") _, lateout("rcx") _, lateout("r11") _,
            out("r8") address
        );
    }
    (result, address)
}

/// Closes the gate for all calls but those from the given range; no slice ends meanwhile, since its end needs a call.
fn close_gate(start: u64, end: u64) -> CriticalSection {
    let section = critical_section::enter();
    set_handler(kind::REFLECTION, note);
    let private = Area::current().private();
    private.ungated_transfers.store(0, SeqCst);
    private.gate_start.store(start, SeqCst);
    private.gate_end.store(end, SeqCst);
    section
}

fn open_gate(section: CriticalSection) {
    let private = Area::current().private();
    private.gate_end.store(0, SeqCst);
    private.gate_pkru_checked.store(0, SeqCst);
    drop(section);
}

fn reflected() -> u64 {
    Area::current().library().free[COUNT].load(SeqCst)
}

fn a_call_from_elsewhere_is_reflected() -> Outcome {
    let section = close_gate(0x7000_0000, 0x7000_1000);
    let (result, address) = emulated(39, 5);
    open_gate(section);
    let words = &Area::current().library().free;
    let seen = [COUNT, NUMBER, ADDRESS].map(|index| words[index].load(SeqCst));
    check!(result == 0x600d_0005, "the handler's answer came back as {result:#x}");
    check!(seen == [1, 39, address], "reflected {seen:x?}, the call stood before {address:#x}");
    let (result, _) = emulated(0, 0);
    check!(result == 0 && reflected() == 1, "with the gate open the call was reflected");
    Ok(())
}

/// The instruction lies in the gate when all of it does.
fn the_end_of_the_gate_is_exact() -> Outcome {
    let (_, behind) = emulated(0, 0);
    let (start, end) = image::own_range();
    for (from, to, inside) in [
        (start, end, true),
        (behind - 2, behind, true),
        (behind - 1, behind, false),
        (behind, end, false),
        (start, behind - 1, false),
        (start, behind - 2, false),
        (behind - 2, behind - 2, false),
        (end, start, false),
    ] {
        let before = reflected();
        let section = close_gate(from, to);
        let (_, again) = emulated(0, 0);
        open_gate(section);
        check!(again == behind, "the compiler made two copies of the call");
        check!((reflected() == before) == inside, "gate {from:#x} to {to:#x}, call before {behind:#x}: wrong side");
    }
    Ok(())
}

fn another_pkru_is_reflected() -> Outcome {
    if !exposed::has(PKU) {
        return Ok(());
    }
    granted!(context::set_protection_keys(true));
    let (start, end) = image::own_range();
    let private = Area::current().private();
    for (wanted, is) in [(0u32, 0u32), (0xc, 0xc), (0xc, 0), (0, 0xc), (0xffff_fffc, 0xffff_fff0)] {
        let before = reflected();
        private.gate_pkru.store(u64::from(wanted), SeqCst);
        private.gate_pkru_checked.store(1, SeqCst);
        let section = close_gate(start, end);
        set_protection_keys(is);
        let _ = emulated(0, 0);
        set_protection_keys(0);
        open_gate(section);
        check!((reflected() == before) == (wanted == is), "PKRU {is:#x} where {wanted:#x} must hold");
    }
    granted!(context::set_protection_keys(false));
    Ok(())
}

fn set_protection_keys(value: u32) {
    // SAFETY: key 0, which everything mapped here has, stays open in each value the test uses.
    unsafe { core::arch::asm!("wrpkru", in("eax") value, in("ecx") 0, in("edx") 0, options(nostack)) };
}

const ODD_NUMBERS: [u64; 7] =
    [u64::MAX, SYNCHRONOUS | 1, ASYNCHRONOUS | 1, 1 << 31, 1 << 32, (1 << 32) | 31, 0xffff_ffff];

fn every_number_is_reflected_unchanged() -> Outcome {
    let words = &Area::current().library().free;
    for number in (0..512).chain(ODD_NUMBERS) {
        let section = close_gate(0x7000_0000, 0x7000_1000);
        let (result, _) = emulated(number, number);
        open_gate(section);
        let seen = words[NUMBER].load(SeqCst);
        check!(seen == number, "the number {number:#x} was reflected as {seen:#x}");
        check!(result == 0x600d_0000u64.wrapping_add(number), "the answer came back as {result:#x}");
    }
    check!(area::number().0 > 1, "the environment became another");
    Ok(())
}

extern "C" fn reflect_into_nothing(entry: u64) {
    let private = Area::current().private();
    private.reflection_entry.store(entry, SeqCst);
    private.exception_entry.store(entry, SeqCst);
    private.gate_end.store(1, SeqCst);
    let _ = emulated(0, 0);
}

fn fault_19_reflection_without_an_entry(world: &World) -> Outcome {
    expect_death(spawn(world, reflect_into_nothing, 0)?, DeathReason::BadEntry)?;
    expect_death(spawn(world, reflect_into_nothing, 0x66_6000)?, DeathReason::UpcallStackOverflow)?;
    expect_death(spawn(world, reflect_into_nothing, u64::MAX)?, DeathReason::BadEntry)?;
    expect_death(spawn(world, reflect_into_nothing, 0xffff_8000_0000_0000)?, DeathReason::BadEntry)
}
