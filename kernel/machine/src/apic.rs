//! The local interrupt controller of each CPU: interrupts between CPUs, end of interrupt, the one-shot timer
//! (SDM volume 3, chapter 11). x2APIC where the CPU has it, else by its registers in memory.

use crate::features::{Features, leaf, read_msr, write_msr};
use crate::kernel_map::{KernelMap, MapFailure};
use crate::{device_discovery, entry, exposed, per_cpu, tlb};
use abi::feature;
use core::sync::atomic::{AtomicU64, Ordering};

/// Vector that only wakes a CPU. One interrupt ends a halt, and any program may wake a CPU without end: so this one is
/// the lowest, and what devices want comes first.
pub const WAKE_VECTOR: u8 = 0x30;
/// Vector by which a CPU tells itself that devices have more for it. It is below those of devices: theirs come first.
pub const REST_VECTOR: u8 = 0x31;
/// Vector of the one-shot timer.
pub const TIMER_VECTOR: u8 = 0xf0;
/// Vector of interrupts that vanished before they were taken; it gets no end of interrupt.
pub const SPURIOUS_VECTOR: u8 = 0xff;

const MSR_BASE: u32 = 0x1b;
const BASE_ENABLE: u64 = 1 << 11;
const BASE_X2APIC: u64 = 1 << 10;
const MSR_X2APIC: u32 = 0x800;

/// Registers, as offsets of the memory form; the x2APIC form is the offset divided by 16.
mod register {
    pub(super) const IDENTIFIER: u32 = 0x20;
    pub(super) const TASK_PRIORITY: u32 = 0x80;
    pub(super) const END_OF_INTERRUPT: u32 = 0xb0;
    pub(super) const SPURIOUS: u32 = 0xf0;
    pub(super) const COMMAND: u32 = 0x300;
    pub(super) const COMMAND_HIGH: u32 = 0x310;
    pub(super) const TIMER: u32 = 0x320;
    pub(super) const LINT0: u32 = 0x350;
    pub(super) const LINT1: u32 = 0x360;
    pub(super) const ERROR: u32 = 0x370;
    pub(super) const INITIAL_COUNT: u32 = 0x380;
    pub(super) const CURRENT_COUNT: u32 = 0x390;
    pub(super) const DIVIDE: u32 = 0x3e0;
}

const SOFTWARE_ENABLE: u32 = 1 << 8;
const MASKED: u32 = 1 << 16;
const PERIODIC: u32 = 1 << 17;
const DEADLINE: u32 = 2 << 17;
const DELIVERY_NMI: u32 = 4 << 8;
const DELIVERY_INIT: u32 = 5 << 8;
const DELIVERY_STARTUP: u32 = 6 << 8;
const LEVEL_ASSERT: u32 = 1 << 14;
const PENDING: u32 = 1 << 12;
const ALL_OTHERS: u32 = 3 << 18;
const SEND_PATIENCE: u32 = 1_000_000;
const DIVIDE_BY_ONE: u32 = 0b1011;

/// How the registers are reached: 0 before initialisation, 1 by MSRs, else the virtual address of the memory form.
static ACCESS: AtomicU64 = AtomicU64::new(NONE);
const NONE: u64 = 0;
const BY_MSR: u64 = 1;

/// Finds out how the registers are reached, and maps them if need be. On the bootstrap CPU.
pub(crate) fn prepare(map: &mut KernelMap, features: &Features) -> Result<(), MapFailure> {
    // SAFETY: every 64-bit CPU has IA32_APIC_BASE.
    let base = unsafe { read_msr(MSR_BASE) };
    let access = if features.has(feature::X2APIC) { BY_MSR } else { map.map_device(base & 0xf_ffff_f000, 4096)? };
    ACCESS.store(access, Ordering::Relaxed);
    Ok(())
}

/// Turns on this CPU's controller; everything but interrupts from other CPUs is masked. Returns its identifier.
pub(crate) fn start() -> u32 {
    // SAFETY: IA32_APIC_BASE exists; the bits set are those that CPUID announced.
    unsafe {
        let mode = if ACCESS.load(Ordering::Relaxed) == BY_MSR { BASE_X2APIC } else { 0 };
        write_msr(MSR_BASE, read_msr(MSR_BASE) | BASE_ENABLE);
        write_msr(MSR_BASE, read_msr(MSR_BASE) | BASE_ENABLE | mode);
    }
    write(register::TASK_PRIORITY, 0);
    write(register::TIMER, MASKED | u32::from(TIMER_VECTOR));
    write(register::LINT0, MASKED);
    // LINT1 is the line of the non-maskable interrupt.
    write(register::LINT1, DELIVERY_NMI);
    write(register::ERROR, MASKED);
    write(register::DIVIDE, DIVIDE_BY_ONE);
    write(register::SPURIOUS, SOFTWARE_ENABLE | u32::from(SPURIOUS_VECTOR));
    identifier()
}

/// Identifier of this CPU's controller.
pub(crate) fn identifier() -> u32 {
    match ACCESS.load(Ordering::Relaxed) {
        NONE => leaf(1, 0).ebx >> 24,
        BY_MSR => read(register::IDENTIFIER),
        _ => read(register::IDENTIFIER) >> 24,
    }
}

/// Ends the interrupt that this CPU is in.
pub(crate) fn end_of_interrupt() {
    write(register::END_OF_INTERRUPT, 0);
}

/// An interrupt was taken: the controller is told, which sends the next one only then. An interrupt that no driver
/// asked for is counted.
pub fn acknowledge(vector: u64) {
    if !is_owned(vector)
        && let Some(own) = exposed::cpus().get(entry::cpu())
    {
        exposed::add(&own.stray_interrupts, 1);
    }
    if vector != u64::from(SPURIOUS_VECTOR) {
        end_of_interrupt();
    }
}

fn is_owned(vector: u64) -> bool {
    [TIMER_VECTOR, WAKE_VECTOR, REST_VECTOR, tlb::VECTOR].map(u64::from).contains(&vector)
        || device_discovery::number_of(vector).is_some()
}

/// Interrupts another CPU.
pub fn send(cpu: usize, vector: u8) {
    command(per_cpu::get(cpu).apic.load(Ordering::Relaxed), u32::from(vector) | LEVEL_ASSERT);
}

/// Sends INIT to the controller `identifier`.
pub(crate) fn send_init(identifier: u32) {
    command(identifier, DELIVERY_INIT | LEVEL_ASSERT);
}

/// Sends STARTUP: its CPU begins in real mode at `page` times 4096.
pub(crate) fn send_startup(identifier: u32, page: u8) {
    command(identifier, DELIVERY_STARTUP | LEVEL_ASSERT | u32::from(page));
}

/// Stops every other CPU by NMI: for a panic. Before the controller is mapped there are no others.
pub(crate) fn stop_others() {
    if ACCESS.load(Ordering::Relaxed) != NONE {
        command(0, ALL_OTHERS | DELIVERY_NMI | LEVEL_ASSERT);
    }
}

fn command(identifier: u32, low: u32) {
    if ACCESS.load(Ordering::Relaxed) == BY_MSR {
        let value = u64::from(identifier) << 32 | u64::from(low);
        // In this mode the write is not ordered after earlier stores.
        core::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: x2APIC mode is on; the command only interrupts CPUs, which all handle it.
        unsafe { write_msr(MSR_X2APIC + (register::COMMAND >> 4), value) };
        return;
    }
    // Bounded, because a dying kernel sends too.
    for _ in 0..SEND_PATIENCE {
        if read(register::COMMAND) & PENDING == 0 {
            break;
        }
        core::hint::spin_loop();
    }
    write(register::COMMAND_HIGH, identifier << 24);
    write(register::COMMAND, low);
}

/// Lets the timer interrupt once after `ticks` of its clock.
pub(crate) fn start_timer(ticks: u32) {
    write(register::TIMER, u32::from(TIMER_VECTOR));
    write(register::INITIAL_COUNT, ticks);
}

/// Lets the timer interrupt every `ticks` of its clock.
pub(crate) fn start_periodic_timer(ticks: u32) {
    write(register::TIMER, PERIODIC | u32::from(TIMER_VECTOR));
    write(register::INITIAL_COUNT, ticks);
}

/// Lets the timer count down from `ticks` without interrupting.
pub(crate) fn start_counter(ticks: u32) {
    write(register::TIMER, MASKED | u32::from(TIMER_VECTOR));
    write(register::INITIAL_COUNT, ticks);
}

/// Stops the timer; an interrupt that was due may still come.
pub(crate) fn stop_timer() {
    write(register::INITIAL_COUNT, 0);
}

/// Makes the timer interrupt at a time stamp instead of counting.
pub(crate) fn start_deadline_mode() {
    write(register::TIMER, DEADLINE | u32::from(TIMER_VECTOR));
    // The mode must be in force before the first deadline is written (SDM volume 3, 11.5.4.1).
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// Ticks left of the timer.
pub(crate) fn timer_left() -> u32 {
    read(register::CURRENT_COUNT)
}

fn write(register: u32, value: u32) {
    match ACCESS.load(Ordering::Relaxed) {
        NONE => {}
        // SAFETY: x2APIC mode is on or being turned on; the values written in this file keep the CPU running.
        BY_MSR => unsafe { write_msr(MSR_X2APIC + (register >> 4), u64::from(value)) },
        // SAFETY: `prepare` mapped the registers at this address, uncached, for ever.
        base => unsafe { ((base + u64::from(register)) as *mut u32).write_volatile(value) },
    }
}

fn read(register: u32) -> u32 {
    match ACCESS.load(Ordering::Relaxed) {
        NONE => 0,
        // SAFETY: x2APIC mode is on; these registers exist in it.
        BY_MSR => unsafe { read_msr(MSR_X2APIC + (register >> 4)) as u32 },
        // SAFETY: as in `write`.
        base => unsafe { ((base + u64::from(register)) as *const u32).read_volatile() },
    }
}
