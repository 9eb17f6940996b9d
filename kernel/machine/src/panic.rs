//! The end of a kernel that found itself wrong: stop all CPUs, leave a record, exit with a code of its own.
//!
//! The record goes to the serial line and to [`RECORD`], where a debugger finds it. Three things are survived: a
//! panic inside a panic, a second CPU that panics, and a serial line that takes nothing (FAULTS row 96). Each further
//! try does less, and the last only exits.

use crate::entry::TrapFrame;
use crate::layout::STACKS;
use crate::segment::cpu_number;
use crate::serial::Serial;
use crate::{apic, per_cpu, stop};
use abi::host_channel::stop::PANIC;
use core::arch::asm;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const FRAMES: usize = 24;
const NOBODY: u32 = u32::MAX;

static PANICKING_CPU: AtomicU32 = AtomicU32::new(NOBODY);
static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
static STOPPING: AtomicBool = AtomicBool::new(false);

/// What a debugger reads: `x/32gx &machine::panic::RECORD`.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// "CHITINPANIC" cut to 8 bytes once the record is complete, else 0.
    pub magic: AtomicU64,
    /// CPU that panicked.
    pub cpu: AtomicU64,
    /// Where, as an address in the kernel image.
    pub rip: AtomicU64,
    /// Last page fault address.
    pub cr2: AtomicU64,
    /// Address space.
    pub cr3: AtomicU64,
    /// Return addresses, innermost first, 0-terminated.
    pub frames: [AtomicU64; FRAMES],
}

const MAGIC: u64 = u64::from_le_bytes(*b"CHITINPA");

/// The record of the panic, all zero until one happens.
pub static RECORD: Record = Record {
    magic: AtomicU64::new(0),
    cpu: AtomicU64::new(0),
    rip: AtomicU64::new(0),
    cr2: AtomicU64::new(0),
    cr3: AtomicU64::new(0),
    frames: [const { AtomicU64::new(0) }; FRAMES],
};

/// Whether some CPU is stopping the machine for a panic: an NMI then means halt.
pub(crate) fn is_stopping() -> bool {
    STOPPING.load(Ordering::Acquire)
}

/// An exception in the kernel that has no handler: the end, with all registers in the record.
pub fn exception(frame: &TrapFrame) -> ! {
    let TrapFrame { vector, error, rip, cs, rflags, rsp, ref registers, .. } = *frame;
    let rbp = registers[6];
    stop_with_record(
        format_args!(
            "exception {vector} in the kernel: error {error:#x} cs {cs:#x} rflags {rflags:#x} rsp {rsp:#x}\n\
             chitin: rax rbx rcx rdx rsi rdi rbp r8 to r15: {registers:x?}"
        ),
        rip,
        rbp,
    )
}

/// Stops the machine and leaves the record. `rbp` is the frame pointer to walk from, 0 for none.
pub(crate) fn stop_with_record(why: fmt::Arguments<'_>, rip: u64, rbp: u64) -> ! {
    let cpu = cpu_number().unwrap_or(0);
    if let Err(first) = PANICKING_CPU.compare_exchange(NOBODY, cpu as u32, Ordering::AcqRel, Ordering::Acquire)
        && first != cpu as u32
    {
        stop::halt_for_ever();
    }
    match ATTEMPTS.fetch_add(1, Ordering::AcqRel) {
        0 => {
            STOPPING.store(true, Ordering::Release);
            apic::stop_others();
            write_record(cpu, why, rip, rbp);
        }
        // Formatting may be what failed: plain text only.
        1 => drop(Serial.write_str("\nchitin: panic inside a panic\n")),
        _ => {}
    }
    stop::with(PANIC)
}

fn write_record(cpu: usize, why: fmt::Arguments<'_>, rip: u64, rbp: u64) {
    let (cr2, cr3) = control_registers();
    RECORD.cpu.store(cpu as u64, Ordering::Relaxed);
    RECORD.rip.store(rip, Ordering::Relaxed);
    RECORD.cr2.store(cr2, Ordering::Relaxed);
    RECORD.cr3.store(cr3, Ordering::Relaxed);
    walk(rbp);
    RECORD.magic.store(MAGIC, Ordering::Release);
    // The line may be held by a CPU that has been stopped, so it is not asked for; writing cannot fail.
    let _ = write!(
        Serial,
        "\nchitin: kernel panic on CPU {cpu}: {why}\nchitin: rip {rip:#x} cr2 {cr2:#x} cr3 {cr3:#x}\nchitin: frames"
    );
    for frame in RECORD.frames.iter().map(|frame| frame.load(Ordering::Relaxed)).take_while(|&frame| frame != 0) {
        let _ = write!(Serial, " {frame:#x}");
    }
    let _ = Serial.write_str("\nchitin: end of record\n");
}

fn control_registers() -> (u64, u64) {
    let (cr2, cr3);
    // SAFETY: reading control registers has no effect.
    unsafe { asm!("mov {}, cr2", "mov {}, cr3", out(reg) cr2, out(reg) cr3, options(nomem, nostack, preserves_flags)) };
    (cr2, cr3)
}

/// Follows frame pointers as long as they lead upwards within the kernel's stacks.
fn walk(mut rbp: u64) {
    let stacks = STACKS..STACKS + per_cpu::STACK_AREA;
    for frame in &RECORD.frames {
        if !stacks.contains(&rbp) || !rbp.is_multiple_of(8) || !per_cpu::in_stack(rbp) || !per_cpu::in_stack(rbp + 8) {
            return;
        }
        // SAFETY: both words lie in one mapped kernel stack; a wrong frame pointer gives a wrong number, no more.
        let (next, return_address) =
            unsafe { ((rbp as *const u64).read_volatile(), ((rbp + 8) as *const u64).read_volatile()) };
        frame.store(return_address, Ordering::Relaxed);
        if next <= rbp {
            return;
        }
        rbp = next;
    }
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let (rip, rbp): (u64, u64);
    // SAFETY: reading two registers has no effect.
    unsafe {
        asm!("cli", "lea {}, [rip]", "mov {}, rbp", out(reg) rip, out(reg) rbp, options(nomem, nostack, preserves_flags));
    }
    stop_with_record(format_args!("{info}"), rip, rbp)
}
