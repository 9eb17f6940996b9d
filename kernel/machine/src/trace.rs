//! The trace: the last entries into the kernel of each CPU (DESIGN.md §6), in a kernel that was built with the feature
//! `trace`; any other keeps none and pays nothing.
//!
//! It goes to the serial line when the machine stops, in order or not, a line for each entry;
//! `./chitin run --trace kernel` shows it. What `entry.s` does by itself leaves no trace: null calls, exceptions,
//! reflections, transfers that take no lock.

use crate::exposed;
use crate::reference_clock::time_stamp;
use crate::segment::cpu_number;
use crate::serial::Serial;
use abi::limits::CPUS;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Entries that a CPU remembers.
const ENTRIES: usize = 1024;
/// Words of an entry: time stamp, cause, environment, address where the CPU was.
const WORDS: usize = 4;

/// A CPU's entries; only that CPU writes them.
struct Ring {
    noted: AtomicU64,
    entries: [[AtomicU64; WORDS]; ENTRIES],
}

static RINGS: [Ring; CPUS] =
    [const { Ring { noted: AtomicU64::new(0), entries: [const { [const { AtomicU64::new(0) }; WORDS] }; ENTRIES] } };
        CPUS];
static TOLD: AtomicBool = AtomicBool::new(false);

/// Notes an entry: `cause` is the number of the system call, or 0x100 + vector.
pub(crate) fn note(cause: u64, rip: u64) {
    let cpu = cpu_number().unwrap_or(0);
    let environment = exposed::cpus().get(cpu).map_or(0, |info| info.environment.load(Ordering::Relaxed));
    let ring = &RINGS[cpu];
    let index = ring.noted.fetch_add(1, Ordering::Relaxed) as usize % ENTRIES;
    for (word, value) in ring.entries[index].iter().zip([time_stamp(), cause, environment, rip]) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Writes all rings to the serial line, once: `trace CPU STAMP CAUSE ENVIRONMENT RIP`, the oldest entry of a CPU
/// first. The machine is about to stop, and the line may be held by a CPU that has been stopped, so it is not asked
/// for.
pub(crate) fn tell() {
    if TOLD.swap(true, Ordering::AcqRel) {
        return;
    }
    for (cpu, ring) in RINGS.iter().enumerate() {
        let noted = ring.noted.load(Ordering::Relaxed) as usize;
        for index in noted.saturating_sub(ENTRIES)..noted {
            let [stamp, cause, environment, rip] =
                ring.entries[index % ENTRIES].each_ref().map(|word| word.load(Ordering::Relaxed));
            // Writing cannot fail.
            let _ = writeln!(Serial, "trace {cpu} {stamp} {cause} {environment} {rip:#x}");
        }
    }
}
