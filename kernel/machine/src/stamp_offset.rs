//! Making the time stamp counters of all CPUs agree: at its start each is asked for its stamp several times. The
//! quickest answer tells its offset from the bootstrap CPU's, and what exceeds the doubt is corrected.

use crate::features::write_msr;
use crate::per_cpu::Cpu;
use crate::reference_clock::time_stamp;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const MSR_TIME_STAMP: u32 = 0x10;
const ROUNDS: u64 = 6;
/// Time stamps within which an answer is quick: some microseconds.
const QUICK: u64 = 10_000;
/// The question that ends the asking.
const DONE: u64 = u64::MAX;
const PATIENCE: u64 = 1 << 24;

static QUESTION: AtomicU64 = AtomicU64::new(0);
static ANSWERED: AtomicU64 = AtomicU64::new(0);
static STAMP: AtomicU64 = AtomicU64::new(0);
/// What the asked CPU is to take off its counter before the next question.
static CORRECTION: AtomicI64 = AtomicI64::new(0);

/// Asks the CPU that has just started and corrects its counter. On the bootstrap CPU.
pub(crate) fn adjust(cpu: &Cpu) {
    let offset = measure();
    if offset != 0 {
        CORRECTION.store(offset, Ordering::Relaxed);
        cpu.start_stamp.fetch_add(measure() as u64, Ordering::Relaxed);
    }
    QUESTION.store(DONE, Ordering::Release);
    wait_while(|| ANSWERED.load(Ordering::Acquire) != DONE);
    QUESTION.store(0, Ordering::Relaxed);
    ANSWERED.store(0, Ordering::Release);
}

/// Its counter less this CPU's; 0 if that is within the doubt of the quickest answer. A busy host may let an answer
/// wait for long, so the first that is quick enough ends the asking.
fn measure() -> i64 {
    let mut best = (u64::MAX, 0);
    for _ in 0..ROUNDS {
        best = best.min(ask());
        if best.0 < QUICK {
            break;
        }
    }
    let (doubt, offset) = best;
    if offset.unsigned_abs() <= doubt { 0 } else { offset }
}

/// One question: how long the answer took, and the offset it gave.
fn ask() -> (u64, i64) {
    let question = ANSWERED.load(Ordering::Relaxed) + 1;
    let before = time_stamp();
    QUESTION.store(question, Ordering::Release);
    if !wait_while(|| ANSWERED.load(Ordering::Acquire) != question) {
        return (u64::MAX, 0);
    }
    let took = time_stamp().saturating_sub(before);
    (took, STAMP.load(Ordering::Relaxed).wrapping_sub(before + took / 2) as i64)
}

/// Answers until the bootstrap CPU is done. On the CPU that has just started.
pub(crate) fn answer() {
    let mut last = 0;
    while last != DONE {
        let question = QUESTION.load(Ordering::Acquire);
        if question == last {
            spin_loop();
            continue;
        }
        let correction = CORRECTION.swap(0, Ordering::Relaxed);
        if correction != 0 {
            let stamp = time_stamp().wrapping_sub(correction as u64);
            // SAFETY: every 64-bit CPU has the register; nothing has measured time on this CPU yet.
            unsafe { write_msr(MSR_TIME_STAMP, stamp) };
        }
        STAMP.store(time_stamp(), Ordering::Relaxed);
        ANSWERED.store(question, Ordering::Release);
        last = question;
    }
}

/// Waits while `condition` holds; false if it held too long.
fn wait_while(condition: impl Fn() -> bool) -> bool {
    (0..PATIENCE).any(|_| {
        spin_loop();
        !condition()
    })
}
