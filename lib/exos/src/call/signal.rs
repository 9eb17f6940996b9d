//! Calls on signals.

use super::dispatch::Call;
use super::layout;
use crate::errno::{Errno, Result};
use crate::relatives;
use crate::signal::set::{COUNT, UNSTOPPABLE, bit};
use crate::signal::{self, Action};
use crate::user_memory::copy;
use core::sync::atomic::Ordering::Acquire;
use linux_raw_sys::general as linux;

const SET_BYTES: u64 = 8;

pub(super) fn rt_sigaction(call: &mut Call<'_>) -> Result<u64> {
    let [signal, new, old, bytes, ..] = call.arguments();
    if bytes != SET_BYTES || signal == 0 || signal > u64::from(COUNT) {
        return Err(Errno::EINVAL);
    }
    let signal = signal as u32;
    let wanted = if new == 0 { None } else { Some(copy::read_words::<4>(new)?) };
    if wanted.is_some() && bit(signal) & UNSTOPPABLE != 0 {
        return Err(Errno::EINVAL);
    }
    let before = call.process.signals.lock().action(signal);
    if old != 0 {
        let words = [before.handler, before.flags, before.restorer, before.mask];
        copy::write(old, &layout::bytes(&words))?;
    }
    if let Some([handler, flags, restorer, mask]) = wanted {
        let action = Action { handler, flags, restorer, mask: mask & !UNSTOPPABLE };
        call.process.signals.lock().actions[signal as usize - 1] = action;
    }
    Ok(0)
}

pub(super) fn rt_sigprocmask(call: &mut Call<'_>) -> Result<u64> {
    let [how, new, old, bytes, ..] = call.arguments();
    if bytes != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let wanted = if new == 0 { None } else { Some(copy::read_word(new)?) };
    let before = call.process.signals.lock().blocked;
    if let Some(set) = wanted {
        let blocked = match how as u32 {
            linux::SIG_BLOCK => before | set,
            linux::SIG_UNBLOCK => before & !set,
            linux::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        call.process.signals.lock().blocked = blocked & !UNSTOPPABLE;
    }
    if old != 0 {
        copy::write_word(old, before)?;
    }
    Ok(0)
}

pub(super) fn rt_sigreturn(call: &mut Call<'_>) -> Result<u64> {
    if signal::return_from_handler(call.context).is_err() {
        signal::raise_own(linux::SIGSEGV);
    }
    call.keep_registers();
    Ok(0)
}

pub(super) fn rt_sigpending(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    let pending = call.process.mailbox().signals().load(Acquire);
    let blocked = call.process.signals.lock().blocked;
    copy::write_word(to, pending & blocked).map(|()| 0)
}

pub(super) fn rt_sigsuspend(call: &mut Call<'_>) -> Result<u64> {
    let [set, bytes, ..] = call.arguments();
    if bytes != SET_BYTES {
        return Err(Errno::EINVAL);
    }
    let set = copy::read_word(set)?;
    {
        let mut signals = call.process.signals.lock();
        signals.blocked_before = Some(signals.blocked);
        signals.blocked = set & !UNSTOPPABLE;
    }
    pause(call)
}

pub(super) fn pause(_: &mut Call<'_>) -> Result<u64> {
    loop {
        crate::block::wait(&[], None)?;
    }
}

pub(super) fn sigaltstack(call: &mut Call<'_>) -> Result<u64> {
    let [new, old, ..] = call.arguments();
    let before = call.process.signals.lock().alternate;
    let wanted = if new == 0 { None } else { Some(copy::read_words::<3>(new)?) };
    if let Some([base, flags, size]) = wanted {
        let flags = flags & 0xffff_ffff;
        let disable = flags & u64::from(linux::SS_DISABLE) != 0;
        if !disable && size < u64::from(linux::MINSIGSTKSZ) {
            return Err(Errno::ENOMEM);
        }
        let alternate = if disable { [0, u64::from(linux::SS_DISABLE), 0] } else { [base, 0, size] };
        call.process.signals.lock().alternate = alternate;
    }
    if old != 0 {
        copy::write(old, &layout::bytes(&before))?;
    }
    Ok(0)
}

pub(super) fn kill(call: &mut Call<'_>) -> Result<u64> {
    let [target, signal, ..] = call.arguments();
    let own_group = call.process.group.load(Acquire);
    match i64::from(target as i32) {
        0 => relatives::send_to_group(own_group, signal as u32),
        -1 => relatives::send_to_all(signal as u32),
        group if group < 0 => relatives::send_to_group(group.unsigned_abs(), signal as u32),
        number => relatives::send(number as u64, signal as u32),
    }
}

pub(super) fn tkill(call: &mut Call<'_>) -> Result<u64> {
    let [target, signal, ..] = call.arguments();
    relatives::send(target, signal as u32)
}

pub(super) fn tgkill(call: &mut Call<'_>) -> Result<u64> {
    let [group, target, signal, ..] = call.arguments();
    if group != target { Err(Errno::ESRCH) } else { relatives::send(target, signal as u32) }
}
