//! Costs of a run, sent to the host at its end: `./chitin run --stats`.
//!
//! Each process sends its own cost. The session sends what the kernel exposes of itself, of the server and of processes
//! that still live, and the figures of the machine.

use crate::boot::Session;
use abi::host_channel::cost::{BOOT, IDLE, RATE, RUN, SWITCHES};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use exos::process::cost::send;
use runtime::{EnvironmentId, area, channel, clock, exposed, time_slice};

/// The session sends what it knows, where the host asked for it. The first process has ended.
pub(crate) fn report(session: &Session) {
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
