//! Fault 32: segment bases, protection keys, debug registers and the number of the CPU.

use abi::feature;
use abi::upcall::kind;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::{context, exposed, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{eventually, spawn, status};
use test_programs::{Outcome, World, attempt, check, granted};

/// Sets its bases and protection keys to values of its own, over and over.
extern "C" fn set_bases(_: u64) {
    let area = Area::current();
    loop {
        // SAFETY: nothing of this program uses FS.
        let _ = unsafe { context::set_fs_base(0x6666_0000) };
        if exposed::has(feature::PKU) && context::set_protection_keys(true).is_ok() {
            set_protection_keys(0xffff_fff0);
        }
        area.status(1).store(1, SeqCst);
        // Upcalls, whose handlers go by GS, wait as long as it leads nowhere.
        area.private().critical_section.store(1, SeqCst);
        // SAFETY: nothing goes by GS until it is set back; a yield does not.
        let _ = unsafe { context::set_gs_base(0x6666_1000) };
        time_slice::yield_now();
        // SAFETY: this is what it was.
        let _ = unsafe { context::set_gs_base(area.address() + abi::area::PRIVATE) };
        area.private().critical_section.store(0, SeqCst);
    }
}

/// What RDTSCP returns in addition to the time: the number of the CPU, which only the kernel can set.
fn tsc_aux() -> u64 {
    let found: u64;
    // SAFETY: the CPU has the instruction, as the caller has checked; it changes these registers only.
    unsafe { core::arch::asm!("rdtscp", out("eax") _, out("edx") _, out("rcx") found, options(nostack)) };
    found
}

pub(crate) fn set_protection_keys(value: u32) {
    // SAFETY: key 0, which everything mapped here has, stays open in each value the tests use.
    unsafe { core::arch::asm!("wrpkru", in("eax") value, in("ecx") 0, in("edx") 0, options(nostack)) };
}

pub(crate) fn protection_keys() -> u32 {
    let value: u32;
    // SAFETY: the CPU has protection keys, as the callers have checked.
    unsafe { core::arch::asm!("rdpkru", out("eax") value, in("ecx") 0, out("edx") _, options(nostack)) };
    value
}

pub(crate) fn fault_32_segment_bases_and_protection_keys(world: &World) -> Outcome {
    watch();
    let child = spawn(world, set_bases, 0)?;
    if exposed::has(feature::PKU) {
        granted!(context::set_protection_keys(true));
    }
    check!(eventually(|| status(&child, 1) == 1), "the other environment does not run");
    // SAFETY: nothing of this program uses FS.
    granted!(unsafe { context::set_fs_base(0x7777_0000) });
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
    // Debug registers: no environment can set or read them.
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
    granted!(unsafe { context::set_fs_base(0) });
    granted!(child.destroy());
    Ok(())
}
