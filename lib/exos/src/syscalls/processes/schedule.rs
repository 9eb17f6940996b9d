//! Calls on priorities, scheduling policies and CPUs: see `process::attributes` for what they mean here.

use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::current::thread;
use crate::process::sched::change::change_own;
use crate::process::sched::priority;
use crate::process::thread::Thread;
use crate::process_table::{self, ProcessInfo};
use crate::signal::remote_call;
use crate::wait::cpu_placement::{self, machine};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::EnvironmentId;
use unix_core::process::prctl_state::{Attributes, Change, RESET_ON_FORK};
use unix_core::process::remote_request::{self, Schedule};

const PRIO_PROCESS: u32 = 0;
const PRIO_GROUP: u32 = 1;
const PRIO_USER: u32 = 2;
/// Where the class of a priority of input and output lies, the classes, and how many levels two of them have
/// (ioprio_set(2)).
const IO_CLASS: u32 = 13;
const IO_NONE: u32 = 0;
const IO_REAL_TIME: u32 = 1;
const IO_BEST_EFFORT: u32 = 2;
const IO_IDLE: u32 = 3;
const IO_LEVELS: u64 = 8;
/// Flag in `struct sched_attr` that stands for [`RESET_ON_FORK`].
const FLAG_RESET_ON_FORK: u32 = 1;
/// Flags of `sched_setattr`: the policy stays; all stays; those that Linux knows.
const FLAG_KEEP_POLICY: u32 = 8;
const FLAG_KEEP_PARAMS: u32 = 16;
const KNOWN_FLAGS: u64 = 0x7f;
/// Bytes of the first version of `struct sched_attr`.
const ATTRIBUTE_BYTES: u64 = 48;
/// With the bounds of use that later ones have behind, which are not there: 0.
const MOST_ATTRIBUTE_BYTES: u64 = 56;

/// The processes that a call on priorities means.
fn meant(call: &Call<'_>, which: u64, who: u64) -> Result<Vec<ProcessInfo>> {
    let own = (call.process.number(), call.process.signal.group());
    let wanted: fn(&ProcessInfo, u64) -> bool = match which as u32 {
        PRIO_PROCESS => |other, who| other.number == who,
        PRIO_GROUP => |other, who| other.group == who,
        PRIO_USER => |other, who| u64::from(other.user[0]) == who,
        _ => return Err(Errno::EINVAL),
    };
    let who = match (who as u32, which as u32) {
        (0, PRIO_PROCESS) => own.0,
        (0, PRIO_GROUP) => own.1,
        (0, PRIO_USER) => u64::from(call.process.attributes.credentials.lock().user.real),
        (who, _) => u64::from(who),
    };
    let found: Vec<ProcessInfo> = if which as u32 == PRIO_PROCESS {
        process_table::find_any(who).into_iter().collect()
    } else {
        process_table::all().into_iter().filter(|other| wanted(other, who)).collect()
    };
    if found.is_empty() { Err(Errno::ESRCH) } else { Ok(found) }
}

pub(crate) fn getpriority(call: &mut Call<'_>) -> Result<u64> {
    let [which, who, ..] = call.arguments();
    Ok(meant(call, which, who)?.iter().map(|other| other.attributes.priority).max().unwrap_or(20))
}

pub(crate) fn setpriority(call: &mut Call<'_>) -> Result<u64> {
    let [which, who, nice, ..] = call.arguments();
    let nice = i64::from(nice as i32).clamp(-20, 19);
    let change = Change::Priority((20 - nice) as u64);
    let outcomes: Vec<Result<u64>> =
        meant(call, which, who)?.iter().map(|other| set(call, other.number, change)).collect();
    // As on Linux, all are tried, and the last refusal is told.
    outcomes.into_iter().rev().find(Result::is_err).unwrap_or(Ok(0))
}

/// Changes how a process is scheduled: that of another one its own library changes, if the server finds that it may be
/// asked to.
fn set(call: &Call<'_>, number: u64, change: Change) -> Result<u64> {
    let may_raise = call.process.may(linux::CAP_SYS_NICE);
    if check_exists(call, number)? {
        return change_own(call.process, change, may_raise).map(|()| 0);
    }
    // The server lets pass who could become user 0 again.
    if !may_raise && !may_set(call, number) {
        return Err(Errno::EPERM);
    }
    if process_table::find(number).is_none() && number != runtime::entry::FIRST.0 {
        // It has ended, and nothing comes of it.
        return Ok(0);
    }
    if may_raise {
        priority::grant(call.process, number, change);
    }
    let request = Schedule { change: Some(change), may_raise };
    remote_call::request(number, &request.to_path()).map(|_| 0).map_err(|error| match (error, change) {
        // The process refuses by itself; or the caller may not ask it.
        (Errno::EACCES, Change::Priority(_)) if may_set(call, number) => Errno::EACCES,
        (Errno::EACCES, _) => Errno::EPERM,
        (error, _) => error,
    })
}

/// Whether another process is of the caller's user.
fn may_set(call: &Call<'_>, number: u64) -> bool {
    let own = call.process.attributes.credentials.lock().user.effective;
    process_table::find_any(number).is_some_and(|other| other.user.contains(&own))
}

/// How a process is scheduled. Of one that does not answer is told what it shows.
fn attributes_of(call: &Call<'_>, number: u64) -> Result<Attributes> {
    if check_exists(call, number)? {
        return Ok(call.process.attributes.prctl.lock().clone());
    }
    let request = Schedule { change: None, may_raise: false };
    let told = remote_call::request(number, &request.to_path()).ok();
    let shown = || process_table::find_any(number).map(|other| other.attributes).unwrap_or_default();
    Ok(told.and_then(|told| remote_request::schedule_from(&told)).unwrap_or_else(shown))
}

/// A process, by its number or 0 for the own one, or a thread of the own process. The session counts as one: it is the
/// first process of all.
fn check_exists(call: &Call<'_>, number: u64) -> Result<bool> {
    if (number as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let is_own = |number: u64| call.process.threads.lock().iter().any(|thread| thread.shown_number() == number);
    if number == 0 || number == call.process.number() || is_own(number) {
        return Ok(true);
    }
    if number == runtime::entry::FIRST.0 {
        return Ok(false);
    }
    process_table::find_any(number).map(|_| false).ok_or(Errno::ESRCH)
}

pub(crate) fn sched_getscheduler(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    Ok(u64::from(attributes_of(call, number)?.policy))
}

pub(crate) fn sched_setscheduler(call: &mut Call<'_>) -> Result<u64> {
    let [number, policy, parameter, ..] = call.arguments();
    if (policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    set_policy(call, number, policy, read_parameter(parameter)?)
}

pub(crate) fn sched_setparam(call: &mut Call<'_>) -> Result<u64> {
    let [number, parameter, ..] = call.arguments();
    let priority = read_parameter(parameter)?;
    let policy = u64::from(attributes_of(call, number)?.policy);
    set_policy(call, number, policy, priority)
}

/// The one field of `struct sched_param`; no address at all is no parameter.
fn read_parameter(from: u64) -> Result<u32> {
    if from == 0 { Err(Errno::EINVAL) } else { usercopy::read_half(from) }
}

fn set_policy(call: &Call<'_>, number: u64, policy: u64, priority: u32) -> Result<u64> {
    check_exists(call, number)?;
    let plain = policy & !u64::from(RESET_ON_FORK);
    if plain as u32 == linux::SCHED_DEADLINE {
        return Err(Errno::EINVAL);
    }
    let [least, most] = priorities(plain)?;
    if !(least..=most).contains(&u64::from(priority)) {
        return Err(Errno::EINVAL);
    }
    set(call, number, Change::Policy(policy as u32, priority))
}

pub(crate) fn sched_getparam(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, ..] = call.arguments();
    if to == 0 {
        return Err(Errno::EINVAL);
    }
    usercopy::write_half(to, attributes_of(call, number)?.real_time_priority).map(|()| 0)
}

/// The least and the highest priority of a policy.
fn priorities(policy: u64) -> Result<[u64; 2]> {
    match policy as u32 {
        linux::SCHED_FIFO | linux::SCHED_RR => Ok([1, 99]),
        linux::SCHED_NORMAL | linux::SCHED_BATCH | linux::SCHED_IDLE | linux::SCHED_DEADLINE => Ok([0, 0]),
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn sched_get_priority_min(call: &mut Call<'_>) -> Result<u64> {
    priorities(call.arguments()[0]).map(|[least, _]| least)
}

pub(crate) fn sched_get_priority_max(call: &mut Call<'_>) -> Result<u64> {
    priorities(call.arguments()[0]).map(|[_, most]| most)
}

/// The quantum, whatever the policy.
pub(crate) fn sched_rr_get_interval(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, ..] = call.arguments();
    let policy = attributes_of(call, number)?.policy & !RESET_ON_FORK;
    let quantum = if policy == linux::SCHED_FIFO { 0 } else { runtime::exposed::kernel().quantum.load(Relaxed) };
    usercopy::write_word(to, 0)?;
    usercopy::write_word(to.wrapping_add(8), quantum).map(|()| 0)
}

/// Calls for CPU masks treat a number below 0 as one without a process.
fn nobody(error: Errno) -> Errno {
    if error == Errno::EINVAL { Errno::ESRCH } else { error }
}

/// A thread of the own process that is not its first.
fn other_thread(call: &Call<'_>, number: u64) -> Option<&'static Thread> {
    let number = if number == 0 { thread().number() } else { number };
    let threads = call.process.threads.lock();
    threads.iter().find(|one| one.number() == number && !call.process.is_first(one)).copied()
}

pub(crate) fn sched_getaffinity(call: &mut Call<'_>) -> Result<u64> {
    let [number, bytes, to, ..] = call.arguments();
    if bytes < 8 || !bytes.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let cpus = match other_thread(call, number) {
        Some(thread) => thread.attributes.cpus.load(Relaxed).into(),
        None => attributes_of(call, number).map_err(nobody)?.cpus,
    };
    usercopy::write_word(to, cpus & machine())?;
    Ok(8)
}

pub(crate) fn sched_setaffinity(call: &mut Call<'_>) -> Result<u64> {
    let [number, bytes, from, ..] = call.arguments();
    let given = usercopy::read_vec(from, bytes.min(8) as usize)?;
    let wanted = given.iter().rev().fold(0, |mask, byte| mask << 8 | u64::from(*byte));
    check_exists(call, number).map_err(nobody)?;
    if wanted & machine() == 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(thread) = other_thread(call, number) {
        thread.attributes.cpus.store((wanted & machine()) as u32, Relaxed);
        return cpu_placement::pin_to(EnvironmentId(thread.number()), wanted & machine()).map(|()| 0);
    }
    set(call, number, Change::Cpus(wanted & machine()))
}

pub(crate) fn sched_getattr(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, bytes, flags, ..] = call.arguments();
    if to == 0 || bytes < ATTRIBUTE_BYTES || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let attributes = attributes_of(call, number)?;
    let nice = (20 - attributes.priority as i64) as i32 as u32;
    let told = bytes.min(MOST_ATTRIBUTE_BYTES);
    usercopy::write(to, &[0; MOST_ATTRIBUTE_BYTES as usize][..told as usize])?;
    usercopy::write_half(to, told as u32)?;
    usercopy::write_half(to.saturating_add(4), attributes.policy & !RESET_ON_FORK)?;
    usercopy::write_half(
        to.saturating_add(8),
        if attributes.policy & RESET_ON_FORK == 0 { 0 } else { FLAG_RESET_ON_FORK },
    )?;
    usercopy::write_half(to.saturating_add(16), nice)?;
    usercopy::write_half(to.saturating_add(20), attributes.real_time_priority).map(|()| 0)
}

/// What only holds with one's own time slices, deadlines, there is none.
pub(crate) fn sched_setattr(call: &mut Call<'_>) -> Result<u64> {
    let [number, from, flags, ..] = call.arguments();
    if from == 0 || (number as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let bytes = u64::from(usercopy::read_half(from)?);
    if flags != 0 || bytes != 0 && bytes < ATTRIBUTE_BYTES {
        return Err(if flags != 0 { Errno::EINVAL } else { Errno::E2BIG });
    }
    let [policy, nice, priority] = [4, 16, 20].map(|at| usercopy::read_half(from.saturating_add(at)));
    let (mut policy, nice, priority) = (policy?, nice? as i32, priority?);
    let wanted = usercopy::read_word(from.saturating_add(8))?;
    if (policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let number = if number == 0 { call.process.number() } else { number };
    let had = attributes_of(call, number)?;
    if wanted & !KNOWN_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let has = |flag: u32| wanted & u64::from(flag) != 0;
    if has(FLAG_KEEP_POLICY) {
        policy = had.policy & !RESET_ON_FORK;
    }
    if has(FLAG_KEEP_PARAMS) {
        return Ok(0);
    }
    let resets = if has(FLAG_RESET_ON_FORK) { RESET_ON_FORK } else { 0 };
    set_policy(call, number, u64::from(policy | resets), priority)?;
    if ![linux::SCHED_NORMAL, linux::SCHED_BATCH].contains(&policy) {
        return Ok(0);
    }
    set(call, number, Change::Priority((20 - nice.clamp(-20, 19)) as u64))
}

/// Whom a call on priorities of input and output means, as one on others counts them: a process, a group, a user.
fn io_which(which: u64) -> Result<u32> {
    (which as u32).checked_sub(1).filter(|which| *which <= PRIO_USER).ok_or(Errno::EINVAL)
}

/// Of several the best, where those that none was set for have that of their priority.
pub(crate) fn ioprio_get(call: &mut Call<'_>) -> Result<u64> {
    let [which, who, ..] = call.arguments();
    let which = io_which(which)?;
    if which == PRIO_PROCESS {
        return Ok(attributes_of(call, who)?.io_priority);
    }
    let best_effort = |priority: u64| u64::from(IO_BEST_EFFORT) << IO_CLASS | (40 - priority) / 5;
    let of = |other: &ProcessInfo| attributes_of(call, other.number).unwrap_or_else(|_| other.attributes.clone());
    let effective = |attributes: Attributes| match attributes.io_priority {
        0 => best_effort(attributes.priority),
        set => set,
    };
    meant(call, u64::from(which), who)?.iter().map(|other| effective(of(other))).min().ok_or(Errno::ESRCH)
}

pub(crate) fn ioprio_set(call: &mut Call<'_>) -> Result<u64> {
    let [which, who, priority, ..] = call.arguments();
    let (class, data) = ((priority as u32) >> IO_CLASS, priority & ((1 << IO_CLASS) - 1));
    match class {
        IO_NONE if data == 0 => {}
        IO_REAL_TIME | IO_BEST_EFFORT if data < IO_LEVELS => {}
        IO_IDLE => {}
        _ => return Err(Errno::EINVAL),
    }
    let may = |capability| call.process.may(capability);
    if class == IO_REAL_TIME && !may(linux::CAP_SYS_ADMIN) && !may(linux::CAP_SYS_NICE) {
        return Err(Errno::EPERM);
    }
    match io_which(which)? {
        PRIO_PROCESS => set(call, who, Change::Io(priority)),
        which => meant(call, u64::from(which), who)?
            .iter()
            .try_fold(0, |_, other| set(call, other.number, Change::Io(priority))),
    }
}
