//! How the native programs of this folder measure and report: exactly as the programs of `bench/peer` do, so that
//! `./chitin bench` reads both. `bench/peer/harness.h` says what the lines and the marks mean.
#![no_std]

use core::arch::asm;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use runtime::{clock, println};

/// Instructions of the calibration loop: `CALIBRATION` of `bench/peer/harness.h`.
const CALIBRATION: u64 = 200_003;
const SAMPLES: usize = 11;
/// Nanoseconds that a sample takes at least by the wall clock.
const SHORTEST_SAMPLE: u64 = 1_000_000;
/// Rounds of a sample at most, even of nothing.
const MOST_ROUNDS: u64 = 1 << 24;

/// Whether the time stamp counter counts instructions.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// The first thing in every program: which clock is this, and what does measuring take?
pub fn begin() {
    let least = (0..5).map(|_| calibration_loop()).min().unwrap_or(0);
    COUNTING.store(least == CALIBRATION, Relaxed);
    println!("bench: calibration {least}");
    measure_after("overhead", 1, || (), || ());
}

/// Whether the clock counts instructions.
pub fn is_counting() -> bool {
    COUNTING.load(Relaxed)
}

/// The loop of known length: [`CALIBRATION`] instructions by the counting clock, any number by another.
fn calibration_loop() -> u64 {
    let (first, last): (u32, u32);
    // SAFETY: the registers that change are declared; nothing else does.
    unsafe {
        asm!(
            "rdtsc", "mov {first:e}, eax", "mov ecx, 100000", "2:", "dec ecx", "jnz 2b", "rdtsc",
            first = out(reg) first, out("eax") last, out("edx") _, out("ecx") _, options(nomem, nostack),
        );
    }
    u64::from(last.wrapping_sub(first))
}

/// Instructions, or nanoseconds since boot.
fn now() -> u64 {
    if is_counting() { clock::ticks() } else { clock::now() }
}

/// The first of the marks that a plugin looks for: a NOP whose displacement is one of three numbers.
fn mark_begin() {
    // SAFETY: it does nothing.
    unsafe { asm!(".byte 0x0f, 0x1f, 0x80, 0x01, 0x42, 0x48, 0x43", options(nostack)) }
}

fn mark_end() {
    // SAFETY: it does nothing.
    unsafe { asm!(".byte 0x0f, 0x1f, 0x80, 0x02, 0x42, 0x48, 0x43", options(nostack)) }
}

/// All samples of a figure are made.
fn mark_figure() {
    // SAFETY: it does nothing.
    unsafe { asm!(".byte 0x0f, 0x1f, 0x80, 0x03, 0x42, 0x48, 0x43", options(nostack)) }
}

#[inline(never)]
fn sample(rounds: u64, body: &mut impl FnMut()) -> u64 {
    mark_begin();
    let begun = now();
    for _ in 0..rounds {
        body();
    }
    let ended = now();
    mark_end();
    ended - begun
}

/// Rounds that make one sample long enough for the wall clock.
fn rounds_of(body: &mut impl FnMut()) -> u64 {
    let mut rounds = 1;
    while !is_counting() {
        let begun = now();
        (0..rounds).for_each(|_| body());
        if now() - begun >= SHORTEST_SAMPLE || rounds >= MOST_ROUNDS {
            break;
        }
        rounds *= 2;
    }
    rounds
}

/// What was measured and not reported yet: for code in which printing would disturb.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    operations: u64,
    values: [u64; SAMPLES],
}

impl Samples {
    /// Measures `body`, which does `operations` of something.
    pub fn collect(operations: u64, mut body: impl FnMut()) -> Self {
        body();
        let rounds = rounds_of(&mut body);
        let values = core::array::from_fn(|_| sample(rounds, &mut body));
        mark_figure();
        Self { operations: operations * rounds, values }
    }

    /// Measures `body`, one round a sample; `before` runs before each and is not measured.
    pub fn collect_after(operations: u64, mut before: impl FnMut(), mut body: impl FnMut()) -> Self {
        before();
        body();
        let values = core::array::from_fn(|_| {
            before();
            sample(1, &mut body)
        });
        mark_figure();
        Self { operations, values }
    }

    /// Prints the line of a figure.
    pub fn report(&self, name: &str) {
        let operations = self.operations;
        let [a, b, c, d, e, f, g, h, i, j, k] = self.values;
        println!("bench: figure {name} {operations} {a} {b} {c} {d} {e} {f} {g} {h} {i} {j} {k}");
    }
}

/// Measures and reports at once.
pub fn measure(name: &str, operations: u64, body: impl FnMut()) {
    Samples::collect(operations, body).report(name);
}

/// Measures and reports at once, with something before each sample.
pub fn measure_after(name: &str, operations: u64, before: impl FnMut(), body: impl FnMut()) {
    Samples::collect_after(operations, before, body).report(name);
}
