//! Calls on signals.

use super::poll::duration;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::current::thread;
use crate::process::fork::child_start;
use crate::process_table;
use crate::signal::{self, Action};
use crate::wait::{self, WakeReason};
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::clock;
use runtime::predicate::{Operator, word_masked};
use unix_core::signal::frame::{self, Information};
use unix_core::signal::pending::from_user;
use unix_core::signal::set::{COUNT, UNSTOPPABLE, bit};

const SET_BYTES: u64 = 8;

/// Flags of an action that are kept: who asks for the action afterwards sees by them which there are.
const KNOWN_FLAGS: u64 = (linux::SA_NOCLDSTOP
    | linux::SA_NOCLDWAIT
    | linux::SA_SIGINFO
    | linux::SA_EXPOSE_TAGBITS
    | linux::SA_ONSTACK
    | linux::SA_RESTART
    | linux::SA_NODEFER
    | linux::SA_RESETHAND
    | linux::SA_RESTORER) as u64;

pub(crate) fn rt_sigaction(call: &mut Call<'_>) -> Result<u64> {
    let [signal, new, old, bytes, ..] = call.arguments();
    if bytes != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let wanted = if new == 0 { None } else { Some(usercopy::read_words::<4>(new)?) };
    let signal = signal as u32;
    if !(1..=COUNT).contains(&signal) || wanted.is_some() && bit(signal) & UNSTOPPABLE != 0 {
        return Err(Errno::EINVAL);
    }
    let before = call.process.signal.actions.lock().get(signal);
    if old != 0 {
        usercopy::write_words(old, &[before.handler, before.flags, before.restorer, before.mask])?;
    }
    if let Some([handler, flags, restorer, mask]) = wanted {
        let action = Action { handler, flags: flags & KNOWN_FLAGS, restorer, mask: mask & !UNSTOPPABLE };
        set_action(call, signal, action);
        child_start::publish_signals(call.process);
    }
    Ok(0)
}

/// A signal that is ignored from now on is no longer pending.
fn set_action(call: &Call<'_>, signal: u32, action: Action) {
    let mut actions = call.process.signal.actions.lock();
    actions.set(signal, action);
    if actions.ignores(signal) {
        call.process.signal.inbox().drop_all(bit(signal));
        thread().signals.post().drop_all(bit(signal));
    }
}

pub(crate) fn rt_sigprocmask(call: &mut Call<'_>) -> Result<u64> {
    let [how, new, old, bytes, ..] = call.arguments();
    if bytes != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let wanted = if new == 0 { None } else { Some(usercopy::read_word(new)?) };
    let before = thread().signals.blocked();
    if let Some(set) = wanted {
        let blocked = match how as u32 {
            linux::SIG_BLOCK => before | set,
            linux::SIG_UNBLOCK => before & !set,
            linux::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        thread().signals.set_blocked(blocked);
    }
    if old != 0 {
        usercopy::write_word(old, before)?;
    }
    Ok(0)
}

pub(crate) fn rt_sigreturn(call: &mut Call<'_>) -> Result<u64> {
    if signal::return_from_handler(call.context).is_err() {
        signal::raise_here(linux::SIGSEGV);
    }
    call.keep_registers();
    Ok(0)
}

pub(crate) fn rt_sigpending(call: &mut Call<'_>) -> Result<u64> {
    let [to, bytes, ..] = call.arguments();
    if bytes > SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let pending = call.process.signal.page.signals().load(Acquire) | thread().signals.pending().load(Acquire);
    usercopy::write_word(to, pending & thread().signals.blocked()).map(|()| 0)
}

/// `sigtimedwait`: takes one of a set of signals, which the program blocks, with what came along.
pub(crate) fn rt_sigtimedwait(call: &mut Call<'_>) -> Result<u64> {
    let [set, to, time, bytes, ..] = call.arguments();
    if bytes != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let wanted = usercopy::read_word(set)? & !UNSTOPPABLE;
    let deadline = duration(time, 1)?.map(|time| clock::now().saturating_add(time));
    let mut woken = WakeReason::Condition;
    loop {
        // What is not blocked and has no handler ends the process, or does whatever else it does by itself.
        let caught = call.process.signal.actions.lock().sets().1;
        let wanted = wanted & (thread().signals.blocked() | caught);
        if let Some(information) = signal::take_wanted(wanted) {
            if to != 0 {
                usercopy::write(to, &frame::information_bytes(&information))?;
            }
            return Ok(u64::from(information.signal));
        }
        if woken == WakeReason::TimedOut {
            return Err(Errno::EAGAIN);
        }
        let waiting = |word| word_masked(word, wanted, Operator::NotEqual, 0);
        let terms = [waiting(call.process.signal.page.signals()), waiting(thread().signals.pending())];
        // One that the program does not block interrupts the wait, and is taken all the same.
        woken = wait::wait(&terms, deadline)?;
    }
}

/// What is to come with a signal, as a program writes it; its number there is another one's affair.
pub(crate) fn read_information(from: u64, signal: u64) -> Result<Information> {
    let [_, code, detail, value] = usercopy::read_words::<4>(from)?;
    Ok(Information { signal: signal as u32, code: code as u32 as i32, detail, value })
}

/// The same, if it may go to a process or a thread: a process may not tell another one that the kernel sent it.
fn sendable(call: &Call<'_>, target: u64, information: Information) -> Result<Information> {
    let is_said_of_kernel = information.code >= 0 || information.code == linux::SI_TKILL;
    if is_said_of_kernel && target != call.process.number() { Err(Errno::EPERM) } else { Ok(information) }
}

pub(crate) fn rt_sigqueueinfo(call: &mut Call<'_>) -> Result<u64> {
    let [target, signal, information, ..] = call.arguments();
    let target = u64::from(target as u32);
    process_table::send(target, &sendable(call, target, read_information(information, signal)?)?)
}

pub(crate) fn rt_tgsigqueueinfo(call: &mut Call<'_>) -> Result<u64> {
    let [group, target, signal, information, ..] = call.arguments();
    let information = read_information(information, signal)?;
    if (group as i32) <= 0 || (target as i32) <= 0 {
        return Err(Errno::EINVAL);
    }
    let information = sendable(call, target, information)?;
    if group != target && group != call.process.number() {
        return Err(Errno::ESRCH);
    }
    send_to_thread(call, target, &information)
}

pub(crate) fn rt_sigsuspend(call: &mut Call<'_>) -> Result<u64> {
    let [set, bytes, ..] = call.arguments();
    if bytes != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    thread().signals.block_for_now(usercopy::read_word(set)?);
    pause(call)
}

pub(crate) fn pause(_: &mut Call<'_>) -> Result<u64> {
    loop {
        crate::wait::wait(&[], None)?;
    }
}

pub(crate) fn sigaltstack(call: &mut Call<'_>) -> Result<u64> {
    let [new, old, ..] = call.arguments();
    let before = thread().signals.alternate(call.context.frame.rsp);
    let wanted = if new == 0 { None } else { Some(usercopy::read_words::<3>(new)?) };
    if let Some(wanted) = wanted {
        thread().signals.change_alternate(call.context.frame.rsp, wanted)?;
    }
    if old != 0 {
        usercopy::write_words(old, &before)?;
    }
    Ok(0)
}

pub(crate) fn kill(call: &mut Call<'_>) -> Result<u64> {
    let [target, signal, ..] = call.arguments();
    // As on Linux the signal is this thread's where it is named, and where it is the first one.
    let names_this = i64::from(target as i32) as u64 == thread().number();
    if names_this && signal::send_at_end(signal as u32, linux::SI_USER as i32) { Ok(0) } else { kill_any(call) }
}

#[inline(never)]
fn kill_any(call: &Call<'_>) -> Result<u64> {
    let [target, signal, ..] = call.arguments();
    match i64::from(target as i32) {
        0 => process_table::send_to_group(call.process.signal.group(), signal as u32),
        -1 => process_table::send_to_all(signal as u32),
        group if group < 0 => process_table::send_to_group(group.unsigned_abs(), signal as u32),
        number => process_table::send(number as u64, &from_user(signal as u32, call.process.attributes.sender())),
    }
}

pub(crate) fn tkill(call: &mut Call<'_>) -> Result<u64> {
    let [target, signal, ..] = call.arguments();
    if target as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    send_to_thread(call, target, &by_thread(call, signal))
}

fn by_thread(call: &Call<'_>, signal: u64) -> Information {
    Information { code: linux::SI_TKILL, ..from_user(signal as u32, call.process.attributes.sender()) }
}

/// To a thread of this process, or to the first thread of another.
fn send_to_thread(call: &Call<'_>, target: u64, information: &Information) -> Result<u64> {
    let signal = information.signal;
    let own = call.process.threads.lock().iter().find(|thread| thread.shown_number() == target).copied();
    let Some(thread) = own else { return process_table::send(target, information) };
    if signal > COUNT {
        return Err(Errno::EINVAL);
    }
    if signal != 0 {
        thread.signals.post().put(information)?;
        if thread.number() != runtime::area::number().0 {
            signal::ring(call.process.session_key, runtime::EnvironmentId(thread.number()))?;
        }
    }
    Ok(0)
}

pub(crate) fn tgkill(call: &mut Call<'_>) -> Result<u64> {
    let [group, target, signal, ..] = call.arguments();
    if group as i32 <= 0 || target as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    let is_own = group == call.process.number();
    if is_own && target == thread().shown_number() && signal::send_at_end(signal as u32, linux::SI_TKILL) {
        return Ok(0);
    }
    if group != target && !is_own {
        return Err(Errno::ESRCH);
    }
    send_to_thread(call, target, &by_thread(call, signal))
}
