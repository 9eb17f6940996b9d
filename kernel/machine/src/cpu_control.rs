//! The registers of a CPU that belong to the running program: address space, segment bases, PKRU, and the SMAP
//! window.
//!
//! Everything here changes only this CPU and only state that the next entry into a context sets again.

use crate::per_cpu::entry_state;
use crate::{entry, exposed};
use abi::PageNumber;
use core::arch::asm;
use core::sync::atomic::Ordering;

const MSR_FS_BASE: u32 = 0xc000_0100;
const MSR_USER_GS_BASE: u32 = 0xc000_0102;

/// Whether the CPUs have a feature ([`abi::feature`]).
#[inline]
pub fn has(feature: u64) -> bool {
    exposed::kernel().features.load(Ordering::Relaxed) & feature != 0
}

/// The address of the last page fault.
pub fn read_cr2() -> u64 {
    let address: u64;
    // SAFETY: reading CR2 has no effect.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// Whether protection keys are on for the program that runs.
#[inline(always)]
pub fn keys_are_on() -> bool {
    entry_state().keys_on.load(Ordering::Relaxed) != 0
}

/// PKRU, or 0 where there are no protection keys.
pub fn read_pkru() -> u64 {
    if !keys_are_on() {
        return 0;
    }
    let pkru: u32;
    // SAFETY: the CPU has protection keys and CR4.PKE is set.
    unsafe { asm!("rdpkru", in("ecx") 0, out("eax") pkru, out("edx") _, options(nomem, nostack, preserves_flags)) };
    u64::from(pkru)
}

/// Loads PKRU where there are protection keys, unless it holds the value already.
pub fn write_pkru(pkru: u64) {
    if entry_state().keys_on.load(Ordering::Relaxed) == 0 || read_pkru() == pkru {
        return;
    }
    // SAFETY: the CPU has protection keys and CR4.PKE is set; PKRU governs user pages only, which the kernel touches
    // only where a fault is caught.
    unsafe { asm!("wrpkru", in("ecx") 0, in("eax") pkru as u32, in("edx") 0, options(nostack, preserves_flags)) };
}

/// Switches protection keys on or off on this CPU, where it has them: off, no program can change PKRU, so that it
/// needs no look at every switch.
pub fn switch_protection_keys(on: bool) {
    let state = entry_state();
    if state.keys_on.load(Ordering::Relaxed) == u64::from(on) || state.pku.load(Ordering::Relaxed) == 0 {
        return;
    }
    state.keys_on.store(u64::from(on), Ordering::Relaxed);
    // SAFETY: the CPU has protection keys; CR4.PKE governs nothing but them, and pages of the kernel have none.
    unsafe {
        if on {
            asm!("mov {0}, cr4", "bts {0}, 22", "mov cr4, {0}", out(reg) _, options(nostack));
        } else {
            asm!("mov {0}, cr4", "btr {0}, 22", "mov cr4, {0}", out(reg) _, options(nostack));
        }
    }
}

/// Closes the SMAP window that a program may have left open (AC survives an interrupt).
pub fn forbid_user_access() {
    if entry_state().smap.load(Ordering::Relaxed) != 0 {
        // SAFETY: the CPU has SMAP.
        unsafe { asm!("clac", options(nomem, nostack)) };
    }
}

/// Exchanges the kernel's and the user's GS base: only where a fault came between swapgs and iretq.
pub(crate) fn swap_gs() {
    // SAFETY: the caller runs with the user's GS base and gets the kernel's back.
    unsafe { asm!("swapgs", options(nostack, preserves_flags)) };
}

fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: only called for registers that every 64-bit CPU has.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

fn write_msr(register: u32, value: u64) {
    // SAFETY: only called for the bases of FS and of the user's GS, with canonical values.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack, preserves_flags));
    };
}

/// Base of FS.
#[inline(always)]
pub fn read_fs_base() -> u64 {
    if entry_state().fs_gs_base.load(Ordering::Relaxed) == 0 {
        return read_msr(MSR_FS_BASE);
    }
    let base: u64;
    // SAFETY: the CPU has FSGSBASE and CR4 allows it.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// Sets the base of FS, which must be canonical.
pub fn write_fs_base(base: u64) {
    if has(abi::feature::FSGSBASE) {
        // SAFETY: the CPU has FSGSBASE; every stored base came from the register or from a checked argument.
        unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        write_msr(MSR_FS_BASE, base);
    }
}

/// Base of the user's GS, which waits in the swap register while the kernel runs.
pub fn read_user_gs_base() -> u64 {
    if entry_state().fs_gs_base.load(Ordering::Relaxed) == 0 {
        return read_msr(MSR_USER_GS_BASE);
    }
    let base: u64;
    // SAFETY: the CPU has FSGSBASE and CR4 allows it; interrupts are off between the two swaps, and what can come all
    // the same (NMI, machine check) looks at the base itself.
    unsafe {
        asm!("swapgs", "rdgsbase {}", "swapgs", out(reg) base, options(nomem, nostack, preserves_flags));
    }
    base
}

/// Sets the base of the user's GS, which must be canonical.
pub fn write_user_gs_base(base: u64) {
    if has(abi::feature::FSGSBASE) {
        // SAFETY: as in `read_user_gs_base`.
        unsafe { asm!("swapgs", "wrgsbase {}", "swapgs", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        write_msr(MSR_USER_GS_BASE, base);
    }
}

/// Empties the data segment registers, which are no place to keep a message in, and sets the bases of FS and of the
/// user's GS, which must be canonical.
#[inline(always)]
pub fn load_segments(fs: u64, gs: u64) {
    if entry_state().fs_gs_base.load(Ordering::Relaxed) == 0 {
        return load_segments_by_registers(fs, gs);
    }
    // SAFETY: 64-bit code uses none of DS, ES and FS by selector; loading a null GS changes the base that is active,
    // which between the two swaps is the user's. The CPU has FSGSBASE and CR4 allows it; every stored base came from
    // the register or from a checked argument.
    unsafe {
        asm!(
            "mov ds, {0:e}", "mov es, {0:e}", "mov fs, {0:e}", "wrfsbase {1}",
            "swapgs", "mov gs, {0:e}", "wrgsbase {2}", "swapgs",
            in(reg) 0, in(reg) fs, in(reg) gs, options(nomem, nostack, preserves_flags),
        );
    }
}

/// Returns the base of FS, and does what [`load_segments`] does.
///
/// # Safety
/// The CPU has FSGSBASE.
#[inline(always)]
pub(crate) unsafe fn exchange_segments(fs: u64, gs: u64) -> u64 {
    let old_fs: u64;
    // SAFETY: as in `load_segments`, and by the caller.
    unsafe {
        asm!(
            "mov ds, {0:e}", "mov es, {0:e}", "rdfsbase {3}", "mov fs, {0:e}", "wrfsbase {1}",
            "swapgs", "mov gs, {0:e}", "wrgsbase {2}", "swapgs",
            in(reg) 0, in(reg) fs, in(reg) gs, out(reg) old_fs,
            options(nomem, nostack, preserves_flags),
        );
    }
    old_fs
}

/// The same on a CPU without FSGSBASE.
#[cold]
fn load_segments_by_registers(fs: u64, gs: u64) {
    // SAFETY: as in `load_segments`.
    unsafe {
        asm!(
            "mov ds, {0:e}", "mov es, {0:e}", "mov fs, {0:e}", "swapgs", "mov gs, {0:e}", "swapgs",
            in(reg) 0, options(nomem, nostack, preserves_flags),
        );
    }
    write_msr(MSR_FS_BASE, fs);
    write_msr(MSR_USER_GS_BASE, gs);
}

/// Loads an address space. This CPU has published before which context it runs, or that it runs none. So a CPU that
/// narrows a mapping under this root either sees this CPU or is seen by it.
#[inline(always)]
pub fn load_address_space(root_address: u64) {
    // SAFETY: the page is a level-4 table made by this crate with the kernel's half in it; it stays one while any
    // context names it. Stores before it are done when it is: it serialises.
    unsafe { asm!("mov cr3, {}", in(reg) root_address, options(nostack, preserves_flags)) };
}

/// Loads the kernel's own address space, so that no program's is in use on a CPU where none runs.
pub fn load_kernel_address_space() {
    let loaded = &entry_state().address_space;
    let root = crate::kernel_map::root_address();
    assert!(entry::current().is_none(), "the address space of the context that runs is in use");
    if loaded.swap(root, Ordering::SeqCst) != root {
        load_address_space(root);
    }
}

/// Loads the address space that is loaded again: drops all that the TLB holds for it.
pub fn flush_tlb() {
    // SAFETY: CR3 keeps its value.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack, preserves_flags)) };
}

/// Drops what this CPU's TLB holds for one address.
#[inline(always)]
pub(crate) fn drop_tlb_entry(address: u64) {
    // SAFETY: INVLPG of any address only costs a later walk.
    unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// The root that this CPU has loaded.
#[inline(always)]
pub fn loaded_root() -> PageNumber {
    PageNumber(entry::loaded_on(entry_state()) >> 12)
}
