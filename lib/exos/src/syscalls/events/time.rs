//! Calls on time: all of it is read from the time stamp counter, without a crossing.

use super::poll::duration;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::current::process;
use crate::process::sched::cpu_time::own_time;
use crate::process_table;
use crate::server::client::{clock_offset, wall_clock};
use crate::signal::process_clock::ran;
use crate::wait::{self, WakeReason};
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::predicate::{Operator, word};
use runtime::{area, clock};
use unix_core::server::protocol::{CLOCK_OFFSET, Request};
use unix_core::signal::timer::Clock;

const NANOSECONDS: u64 = 1_000_000_000;
/// Ticks of `times` in a second.
const TICKS: u64 = 100;

/// Nanoseconds that a clock shows.
pub(crate) fn read(which: u64) -> Result<u64> {
    match which as u32 {
        linux::CLOCK_REALTIME | linux::CLOCK_REALTIME_COARSE | linux::CLOCK_TAI => Ok(wall_clock()),
        linux::CLOCK_MONOTONIC | linux::CLOCK_MONOTONIC_RAW | linux::CLOCK_MONOTONIC_COARSE | linux::CLOCK_BOOTTIME => {
            Ok(clock::now())
        }
        linux::CLOCK_PROCESS_CPUTIME_ID => Ok(own_time()),
        linux::CLOCK_THREAD_CPUTIME_ID => Ok(thread_time()),
        other => processor_time(other as i32),
    }
}

/// Nanoseconds that a process ran, or a thread of the own one, by the number of its clock (`clock_getcpuclockid`). That
/// is the complement of the process's number (0: the own one), a bit for a thread, two for the kind.
fn processor_time(which: i32) -> Result<u64> {
    match own_clock(which) {
        Some(Clock::Thread(number)) => return Ok(ran(number)),
        Some(_) => return Ok(own_time()),
        None if which >= 0 || which & CLOCK_KINDS == CLOCK_KINDS || which & CLOCK_OF_THREAD != 0 => {
            return Err(Errno::EINVAL);
        }
        None => {}
    }
    let number = !(which >> 3) as u64;
    let environment = match number {
        first if first == runtime::entry::FIRST.0 => Some(first),
        number => process_table::find(number).map(|other| other.environment),
    };
    environment.map(ran).ok_or(Errno::EINVAL)
}

/// Bit of the number of a clock: it is a thread's.
const CLOCK_OF_THREAD: i32 = 4;
/// Bits that say which of a process's clocks; all of them: none.
const CLOCK_KINDS: i32 = 3;

/// What the number of a clock means if it is of the own process, or of one of its threads.
pub(crate) fn own_clock(which: i32) -> Option<Clock> {
    if which >= 0 || which & CLOCK_KINDS == CLOCK_KINDS {
        return None;
    }
    let number = !(which >> 3) as u64;
    let process = process();
    if which & CLOCK_OF_THREAD == 0 {
        return (number == 0 || number == process.number()).then_some(Clock::Program);
    }
    if number == 0 {
        return Some(Clock::Thread(area::number().0));
    }
    let threads = process.threads.lock();
    threads.iter().find(|thread| thread.shown_number() == number).map(|thread| Clock::Thread(thread.number()))
}

/// Nanoseconds that this thread ran.
pub(crate) fn thread_time() -> u64 {
    ran(area::number().0)
}

fn write(to: u64, time: u64) -> Result<()> {
    usercopy::write_word(to, time / NANOSECONDS)?;
    usercopy::write_word(to.saturating_add(8), time % NANOSECONDS)
}

pub(crate) fn clock_gettime(call: &mut Call<'_>) -> Result<u64> {
    let [which, to, ..] = call.arguments();
    write(to, read(which)?).map(|()| 0)
}

pub(crate) fn clock_getres(call: &mut Call<'_>) -> Result<u64> {
    let [which, to, ..] = call.arguments();
    read(which)?;
    if to != 0 {
        write(to, 1)?;
    }
    Ok(0)
}

pub(crate) fn clock_settime(call: &mut Call<'_>) -> Result<u64> {
    let [which, time, ..] = call.arguments();
    if which as u32 != linux::CLOCK_REALTIME && processor_time(which as i32).is_err() {
        return Err(Errno::EINVAL);
    }
    let time = duration(time, 1)?.ok_or(Errno::EFAULT)?;
    // Clocks of computed time are not set, as on Linux.
    if which as u32 == linux::CLOCK_REALTIME { set_clock(call, time) } else { Err(Errno::EPERM) }
}

/// Sets the clock of the session. It never says less than the machine has run.
fn set_clock(call: &Call<'_>, time: u64) -> Result<u64> {
    /// As on Linux, a clock can still run for thirty years.
    const LATEST: u64 = i64::MAX as u64 - 30 * 365 * 24 * 3600 * NANOSECONDS;
    if time >= LATEST {
        return Err(Errno::EINVAL);
    }
    if !call.process.may(linux::CAP_SYS_TIME) {
        return Err(Errno::EPERM);
    }
    if time < clock::now() {
        return Err(Errno::EINVAL);
    }
    let offset = clock_offset().load(Relaxed).wrapping_add(time).wrapping_sub(wall_clock());
    let words = [CLOCK_OFFSET as u64, offset, 0, 0, 0];
    call.process.files.lock().on_object(Request::SetMachine, words).map(|_| 0)
}

/// Disciplines the clock (adjtimex(2)): nothing does, and no process may.
pub(crate) fn adjtimex(call: &mut Call<'_>) -> Result<u64> {
    let [settings, ..] = call.arguments();
    tell_discipline(settings)
}

pub(crate) fn clock_adjtime(call: &mut Call<'_>) -> Result<u64> {
    let [which, settings, ..] = call.arguments();
    match which as u32 {
        linux::CLOCK_REALTIME => tell_discipline(settings),
        linux::CLOCK_MONOTONIC..=linux::CLOCK_TAI => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

fn tell_discipline(settings: u64) -> Result<u64> {
    const MODES_THAT_READ: [u32; 2] = [0, 0xa001];
    // Status and result: nothing sets the clock right.
    const UNSYNCHRONIZED: (u64, u64) = (0x40, 5);
    // Microseconds; parts of a million, with 16 bits behind the point; microseconds between two ticks.
    const WORST_ERROR: u64 = 16_000_000;
    const TOLERANCE: u64 = 500 << 16;
    const TICK: u64 = 10_000;
    let modes = usercopy::read_half(settings)?;
    if !MODES_THAT_READ.contains(&modes) {
        return Err(Errno::EPERM);
    }
    let now = wall_clock();
    let mut words = [0; 26];
    words[..12].copy_from_slice(&[
        u64::from(modes),
        0,
        0,
        WORST_ERROR,
        WORST_ERROR,
        UNSYNCHRONIZED.0,
        2,
        1,
        TOLERANCE,
        now / NANOSECONDS,
        now % NANOSECONDS / 1000,
        TICK,
    ]);
    usercopy::write(settings, &unix_core::uapi::bytes(&words))?;
    Ok(UNSYNCHRONIZED.1)
}

pub(crate) fn settimeofday(call: &mut Call<'_>) -> Result<u64> {
    let [time, zone, ..] = call.arguments();
    let time = duration(time, 1000)?;
    if zone != 0 {
        usercopy::read_word(zone)?;
    }
    match time {
        Some(time) => set_clock(call, time),
        // There is no zone to set.
        None if call.process.may(linux::CAP_SYS_TIME) => Ok(0),
        None => Err(Errno::EPERM),
    }
}

pub(crate) fn gettimeofday(call: &mut Call<'_>) -> Result<u64> {
    let [to, zone, ..] = call.arguments();
    let now = wall_clock();
    if to != 0 {
        usercopy::write_word(to, now / NANOSECONDS)?;
        usercopy::write_word(to.saturating_add(8), now % NANOSECONDS / 1000)?;
    }
    if zone != 0 {
        usercopy::write_word(zone, 0)?;
    }
    Ok(0)
}

pub(crate) fn time(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    let seconds = wall_clock() / NANOSECONDS;
    if to != 0 {
        usercopy::write_word(to, seconds)?;
    }
    Ok(seconds)
}

pub(crate) fn times(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    if to != 0 {
        let [user, system] = call.process.usage().times();
        let [children_user, children_system] = call.process.children.lock().usage.times();
        for (index, time) in [user, system, children_user, children_system].into_iter().enumerate() {
            usercopy::write_word(to.saturating_add(index as u64 * 8), time / (NANOSECONDS / TICKS))?;
        }
    }
    Ok(clock::now() / (NANOSECONDS / TICKS))
}

pub(crate) fn nanosleep(call: &mut Call<'_>) -> Result<u64> {
    let [time, rest, ..] = call.arguments();
    let time = duration(time, 1)?.ok_or(Errno::EFAULT)?;
    sleep_until(clock::now().saturating_add(time), rest)
}

/// Whether a clock is one to wait by: those that are told coarsely or raw are only read.
pub(crate) const fn can_wait(which: u64) -> bool {
    !matches!(which as u32, linux::CLOCK_MONOTONIC_RAW | linux::CLOCK_REALTIME_COARSE | linux::CLOCK_MONOTONIC_COARSE)
}

/// Whether a clock is that of the time which the calling thread computes, by its number: no thread sleeps by it.
fn is_of_own_thread(which: u64) -> bool {
    const OF_THREAD: i32 = 4;
    let (which, own) = (which as i32, crate::process::current::thread().shown_number());
    let number = !(which >> 3);
    which < 0 && which & OF_THREAD != 0 && (number == 0 || number as u64 == own)
}

pub(crate) fn clock_nanosleep(call: &mut Call<'_>) -> Result<u64> {
    let [which, flags, time, rest, ..] = call.arguments();
    read(which)?;
    if !can_wait(which) || which as u32 == linux::CLOCK_THREAD_CPUTIME_ID {
        return Err(Errno::EOPNOTSUPP);
    }
    if is_of_own_thread(which) {
        return Err(Errno::EINVAL);
    }
    let time = duration(time, 1)?.ok_or(Errno::EFAULT)?;
    if flags as u32 & linux::TIMER_ABSTIME == 0 {
        return sleep_until(clock::now().saturating_add(time), rest);
    }
    loop {
        // A clock that is set ends the wait: the rest is another one.
        let seen = clock_offset().load(Relaxed);
        let deadline = clock::now().saturating_add(time.saturating_sub(read(which)?));
        let change = word(clock_offset(), Operator::NotEqual, seen);
        if wait::wait(&[change], Some(deadline))? == WakeReason::TimedOut {
            return Ok(0);
        }
    }
}

fn sleep_until(deadline: u64, rest: u64) -> Result<u64> {
    loop {
        match wait::wait(&[], Some(deadline)) {
            Ok(WakeReason::TimedOut) => return Ok(0),
            Ok(WakeReason::Condition) => {}
            Err(error) => {
                if rest != 0 {
                    write(rest, deadline.saturating_sub(clock::now()))?;
                }
                return Err(error);
            }
        }
    }
}
