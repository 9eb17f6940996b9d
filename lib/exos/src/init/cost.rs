//! Costs of a run, sent to the host at its end: `./chitin run --stats`.
//!
//! Each process sends its own cost. The session sends what the kernel exposes of itself, of the server and of processes
//! that still live, and the figures of the machine.

use super::boot::Session;
use abi::host_channel::cost::{BOOT, BYTES, IDLE, NAMES, NOT_COUNTED, RATE, RUN, SWITCHES};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::{EnvironmentId, Kind, area, channel, clock, exposed, time_slice};
use unix_core::process::rusage::Rusage;

/// Sends the cost of one environment; without a `usage` what the kernel counts. One that is gone has none.
pub fn send(number: EnvironmentId, usage: Option<&Rusage>, program: &[u8]) {
    let Some(info) = exposed::environment(number) else { return };
    let counted = |figure: fn(&Rusage) -> u64| usage.map_or(NOT_COUNTED, figure);
    let exposed = |word: &AtomicU64| word.load(Relaxed);
    let figures: [u64; NAMES.len()] = [
        number.0,
        exposed(&info.creator),
        usage.map_or_else(|| exposed(&info.time), |usage| usage.time),
        counted(|usage| usage.system),
        exposed(&info.slices),
        counted(|usage| usage.faults),
        counted(|usage| usage.upcalls),
        counted(|usage| usage.transfers),
        counted(|usage| usage.waits),
        counted(|usage| usage.peak),
    ];
    let mut bytes = [0; BYTES];
    for (place, figure) in bytes.chunks_exact_mut(8).zip(figures) {
        place.copy_from_slice(&figure.to_le_bytes());
    }
    // An environment without a key for the channel sends nothing.
    let _ = channel::send_frame(Kind::Cost, &[&bytes, program]);
}

/// The session sends what it knows, where the host asked for it. The first process has ended.
pub fn report(session: &Session) {
    if !session.reports_cost {
        return;
    }
    time_slice::yield_now();
    send(session.server, None, b"(server)");
    send(area::number(), None, b"(session)");
    let processes = session.sight().all();
    let numbers = processes.iter().map(|process| EnvironmentId(process.environment));
    numbers.filter(|number| exposed::lives(*number)).for_each(|number| send(number, None, b"(still alive)"));
    report_machine();
}

fn report_machine() {
    let kernel = exposed::kernel();
    let word = |word: &AtomicU64| word.load(Relaxed);
    let boot = word(&kernel.boot_ticks);
    let rate = (1_000_000_000_u128 << word(&kernel.tsc_shift)) / u128::from(word(&kernel.tsc_multiplier).max(1));
    let since_start = clock::ticks().wrapping_sub(word(&kernel.tsc_start));
    channel::measurement(BOOT, boot, "ticks");
    channel::measurement(RUN, since_start.saturating_sub(boot), "ticks");
    channel::measurement(RATE, rate as u64, "ticks");
    channel::measurement(IDLE, exposed::cpus().map(|cpu| word(&cpu.idle_time)).sum(), "ns");
    channel::measurement(SWITCHES, exposed::cpus().map(|cpu| word(&cpu.switches)).sum(), "switches");
}
