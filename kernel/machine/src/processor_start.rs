//! Starting the other processors, one at a time (Intel MultiProcessor Specification 1.4, appendix B.4).
//!
//! INIT to all of them, a wait, then STARTUP to each. A CPU runs a trampoline below 1 MiB, then `boot.s`, then comes
//! here, takes its number, and waits, halted, until [`release`]. A CPU that does not come in time, or lacks a feature
//! of the bootstrap CPU, is put back to sleep; the machine runs without it. CPU numbers have no gaps.

use crate::acpi::Platform;
use crate::boot_memory::BootMemory;
use crate::kernel_map::{self, KernelMap, MapFailure};
use crate::layout::{PAGE_SIZE, direct};
use crate::stamp_offset;
use crate::{apic, clock, features, interrupt_table, log, per_cpu, stop};
use abi::feature;
use abi::limits::CPUS;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Nanoseconds between INIT and STARTUP (64-bit processors need none of the 10 ms of the specification), between two
/// STARTUPs, and until a processor counts as dead. The last is long, because a busy host may not run it for a while.
const AFTER_INIT: u64 = 200_000;
const AFTER_STARTUP: u64 = 10_000_000;
const PATIENCE: u64 = 2_000_000_000;

/// Number and stack of the processor that is being started.
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static STACK: AtomicU64 = AtomicU64::new(0);
/// The processor that is being started lacks a feature.
static UNFIT: AtomicBool = AtomicBool::new(false);
/// The processors may go on into the kernel proper.
static RELEASED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_end: u8;
}

unsafe extern "Rust" {
    /// The linked image's entry for every CPU but the first: it never returns.
    safe fn processor_main(cpu: usize) -> !;
}

/// Starts what can be started; returns how many CPUs run, this one included.
pub(crate) fn start_all(memory: &mut BootMemory, platform: &Platform) -> Result<usize, MapFailure> {
    let this = apic::identifier();
    let others = || platform.apics[..platform.cpus].iter().copied().filter(|&apic| apic != this);
    if platform.surplus_cpus > 0 {
        log!("{} CPUs stay parked: more than the kernel can use", platform.surplus_cpus);
    }
    if others().next().is_none() {
        return Ok(1);
    }
    let page = copy_trampoline(memory)?;
    others().for_each(apic::send_init);
    clock::halt_until(clock::now() + AFTER_INIT, || false);
    let mut running = 1;
    for apic in others().take(CPUS - 1) {
        let mut map = KernelMap::resume(memory, features::get().has(feature::PAGE_1G));
        // SAFETY: no CPU has this number yet, and the kernel's map is in force.
        unsafe { per_cpu::prepare(running, apic, features::get(), &mut map)? };
        if start_one(running, apic, page) {
            running += 1;
        }
    }
    Ok(running)
}

/// Copies the trampoline to a page below 1 MiB; returns the page's number.
fn copy_trampoline(memory: &mut BootMemory) -> Result<u8, MapFailure> {
    let address = memory.allocate_low().ok_or(MapFailure::NoMemory)?;
    let start = &raw const trampoline_start;
    let length = (&raw const trampoline_end) as usize - start as usize;
    // The symbols are linked low, where nothing is mapped any more.
    let source = direct(start as u64) as *const u8;
    // SAFETY: both lie in the direct map: the source is the kernel's boot part, the destination a page that was free.
    unsafe { core::ptr::copy_nonoverlapping(source, direct(address) as *mut u8, length) };
    Ok((address / PAGE_SIZE) as u8)
}

fn start_one(number: usize, apic: u32, page: u8) -> bool {
    let cpu = per_cpu::get(number);
    NUMBER.store(number, Ordering::Relaxed);
    STACK.store(cpu.kernel_stack(), Ordering::Relaxed);
    UNFIT.store(false, Ordering::Relaxed);
    let came = || cpu.started.load(Ordering::Acquire) || UNFIT.load(Ordering::Acquire);
    for patience in [AFTER_STARTUP, PATIENCE] {
        apic::send_startup(apic, page);
        clock::halt_until(clock::now() + patience, came);
        if came() {
            break;
        }
    }
    if cpu.started.load(Ordering::Acquire) {
        stamp_offset::adjust(cpu);
        return true;
    }
    apic::send_init(apic);
    let why = if UNFIT.load(Ordering::Acquire) { "lacks a feature of the first" } else { "does not start" };
    log!("CPU with local APIC {apic} {why}: going on without it");
    false
}

/// Where `boot.s` leaves a processor: long mode, the boot map.
///
/// # Safety
/// Only `boot.s` comes here, once for each processor, while the bootstrap CPU waits in `start_one`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn processor_start() -> ! {
    naked_asm!(
        "mov rax, [rip + {root}]",
        "mov cr3, rax",
        "mov rsp, [rip + {stack}]",
        "xor ebp, ebp",
        "call {continue_start}",
        "ud2",
        root = sym kernel_map::ROOT,
        stack = sym STACK,
        continue_start = sym continue_start,
    )
}

extern "C" fn continue_start() -> ! {
    let number = NUMBER.load(Ordering::Relaxed);
    if !features::get().hold_here() {
        UNFIT.store(true, Ordering::Release);
        stop::halt_for_ever();
    }
    // SAFETY: this is the processor that was prepared under this number.
    unsafe { per_cpu::start_on(number, features::get()) };
    apic::start();
    clock::start_timer();
    per_cpu::get(number).started.store(true, Ordering::Release);
    apic::send(0, apic::WAKE_VECTOR);
    stamp_offset::answer();
    while !RELEASED.load(Ordering::Acquire) {
        interrupt_table::wait_for_interrupt();
    }
    interrupt_table::load(&interrupt_table::RUNNING);
    processor_main(number)
}

/// Lets all other CPUs enter the kernel proper. Called once the kernel's own structures stand.
pub fn release(cpus: usize) {
    RELEASED.store(true, Ordering::Release);
    for cpu in 1..cpus {
        apic::send(cpu, apic::WAKE_VECTOR);
    }
}
