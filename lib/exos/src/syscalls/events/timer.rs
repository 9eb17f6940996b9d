//! Calls on timers.

use super::time::{can_wait, own_clock};
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::sched::cpu_time::own_time;
use crate::process::thread::Thread;
use crate::server::client::wall_clock;
use crate::signal::process_clock::ran;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::{area, clock};
use unix_core::signal::frame::Information;
use unix_core::signal::set::COUNT;
use unix_core::signal::timer::{Clock, Created, Timer};
use unix_core::uapi;

const NANOSECONDS: u64 = 1_000_000_000;

/// Two times of two words each, their rests in units of `unit` nanoseconds: interval, value.
fn read_times(from: u64, unit: u64) -> Result<[u64; 2]> {
    let words = usercopy::read_words::<4>(from)?;
    let time = |index: usize| {
        let (seconds, rest) = (words[index], words[index + 1]);
        let valid = (seconds as i64) >= 0 && rest < NANOSECONDS / unit;
        valid.then(|| seconds.saturating_mul(NANOSECONDS).saturating_add(rest * unit)).ok_or(Errno::EINVAL)
    };
    Ok([time(0)?, time(2)?])
}

fn write_times(to: u64, unit: u64, [value, interval]: [u64; 2]) -> Result<()> {
    let words = [interval, value].map(|time| [time / NANOSECONDS, time % NANOSECONDS / unit]);
    // What is left is never told as nothing.
    let rest = if value > 0 && words[1] == [0, 0] { 1 } else { words[1][1] };
    usercopy::write(to, &uapi::bytes(&[words[0][0], words[0][1], words[1][0], rest]))
}

/// The clock of an interval timer.
fn clock_of(which: u64) -> Result<u64> {
    match which as u32 {
        linux::ITIMER_REAL => Ok(clock::now()),
        linux::ITIMER_VIRTUAL | linux::ITIMER_PROF => Ok(own_time()),
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn getitimer(call: &mut Call<'_>) -> Result<u64> {
    let [which, to, ..] = call.arguments();
    let now = clock_of(which)?;
    let timer = call.process.alarms.timers.lock().interval[which as u32 as usize];
    write_times(to, 1000, timer.rest(now)).map(|()| 0)
}

pub(crate) fn setitimer(call: &mut Call<'_>) -> Result<u64> {
    let [which, new, old, ..] = call.arguments();
    let now = clock_of(which)?;
    let [interval, value] = if new == 0 { [0, 0] } else { read_times(new, 1000)? };
    let timer = Timer { deadline: if value == 0 { 0 } else { now.saturating_add(value) }, interval };
    let before =
        call.process.alarms.change(|timers| core::mem::replace(&mut timers.interval[which as u32 as usize], timer));
    if old != 0 {
        write_times(old, 1000, before.rest(now))?;
    }
    Ok(0)
}

pub(crate) fn alarm(call: &mut Call<'_>) -> Result<u64> {
    let [seconds, ..] = call.arguments();
    let (now, value) = (clock::now(), (seconds & 0xffff_ffff) * NANOSECONDS);
    let timer = Timer { deadline: if value == 0 { 0 } else { now.saturating_add(value) }, interval: 0 };
    let before = call.process.alarms.change(|timers| core::mem::replace(&mut timers.interval[0], timer));
    let [rest, _] = before.rest(now);
    Ok(if rest == 0 { 0 } else { ((rest + NANOSECONDS / 2) / NANOSECONDS).max(1) })
}

/// What a fresh timer goes by. The time of another process only that one's library could look at.
fn clock_by(which: u64) -> Result<Clock> {
    match which as u32 {
        linux::CLOCK_REALTIME | linux::CLOCK_TAI => Ok(Clock::Wall),
        linux::CLOCK_MONOTONIC | linux::CLOCK_BOOTTIME => Ok(Clock::Boot),
        linux::CLOCK_PROCESS_CPUTIME_ID => Ok(Clock::Program),
        linux::CLOCK_THREAD_CPUTIME_ID => Ok(Clock::Thread(area::number().0)),
        _ if !can_wait(which) => Err(Errno::EOPNOTSUPP),
        _ => own_clock(which as i32).ok_or(Errno::EINVAL),
    }
}

/// What a clock of the process or of one of its threads shows.
fn read(clock: Clock) -> u64 {
    match clock {
        Clock::Wall | Clock::Boot => clock::now(),
        Clock::Program => own_time(),
        Clock::Thread(number) => ran(number),
    }
}

pub(crate) fn timer_create(call: &mut Call<'_>) -> Result<u64> {
    let [which, event, to, ..] = call.arguments();
    let clock = clock_by(which)?;
    let (value, kind, signal, thread) = match event {
        0 => (None, linux::SIGEV_SIGNAL, linux::SIGALRM, 0),
        event => {
            let [value, words, thread] = usercopy::read_words::<3>(event)?;
            (Some(value), (words >> 32) as u32, words as u32, thread & 0xffff_ffff)
        }
    };
    let thread = match kind {
        linux::SIGEV_SIGNAL | linux::SIGEV_NONE | linux::SIGEV_THREAD => 0,
        kind if kind == linux::SIGEV_SIGNAL | linux::SIGEV_THREAD_ID => {
            let is_own = |one: &&Thread| one.shown_number() == thread;
            if !call.process.threads.lock().iter().any(|one| is_own(&one)) {
                return Err(Errno::EINVAL);
            }
            thread
        }
        _ => return Err(Errno::EINVAL),
    };
    if kind != linux::SIGEV_NONE && !(1..=COUNT).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    let signal = if kind == linux::SIGEV_NONE { 0 } else { signal };
    let information = Information { signal, code: linux::SI_TIMER, ..Information::default() };
    let fresh = Created { timer: Timer::default(), clock, information, thread, overrun: 0 };
    let number = call.process.alarms.change(|timers| {
        let number = timers.create(fresh)?;
        let created = timers.created[number].as_mut()?;
        created.information.detail = number as u64;
        created.information.value = value.unwrap_or(number as u64);
        Some(number)
    });
    usercopy::write_half(to, number.ok_or(Errno::EAGAIN)? as u32).map(|()| 0)
}

/// Does something to a timer that the program created.
fn with_created<T>(call: &Call<'_>, number: u64, action: impl FnOnce(&mut Option<Created>) -> T) -> Result<T> {
    let number = number as u32 as usize;
    call.process.alarms.change(|timers| {
        let slot = timers.created.get_mut(number).filter(|slot| slot.is_some());
        slot.map(action).ok_or(Errno::EINVAL)
    })
}

pub(crate) fn timer_settime(call: &mut Call<'_>) -> Result<u64> {
    let [number, flags, new, old, ..] = call.arguments();
    if new == 0 {
        return Err(Errno::EINVAL);
    }
    let [interval, value] = read_times(new, 1)?;
    let wall = wall_clock();
    let absolute = flags as u32 & linux::TIMER_ABSTIME != 0;
    let rest = with_created(call, number, |slot| {
        let created = slot.as_mut()?;
        let now = read(created.clock);
        let deadline = match (absolute, created.clock) {
            _ if value == 0 => 0,
            (false, _) => now.saturating_add(value),
            (true, Clock::Wall) => now.saturating_add(value).saturating_sub(wall).max(1),
            (true, _) => value,
        };
        created.overrun = 0;
        Some(core::mem::replace(&mut created.timer, Timer { deadline, interval }).rest(now))
    })?;
    if old != 0 {
        write_times(old, 1, rest.unwrap_or_default())?;
    }
    Ok(0)
}

pub(crate) fn timer_gettime(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, ..] = call.arguments();
    let rest = with_created(call, number, |slot| slot.map(|created| created.timer.rest(read(created.clock))))?;
    write_times(to, 1, rest.unwrap_or_default()).map(|()| 0)
}

pub(crate) fn timer_getoverrun(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    Ok(with_created(call, number, |slot| slot.map_or(0, |created| created.overrun))?.min(i32::MAX as u64))
}

pub(crate) fn timer_delete(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    with_created(call, number, |slot| *slot = None).map(|()| 0)
}
