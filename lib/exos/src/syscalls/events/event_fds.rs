//! Calls that make descriptors of events: eventfd, timerfd and epoll.

use super::poll::{check_mask, duration, with_mask};
use super::time;
use crate::descriptor::events::epoll::Set;
use crate::descriptor::events::eventfd::EventCounter;
use crate::descriptor::events::signalfd::Signals;
use crate::descriptor::events::timerfd::{Setting, Timer};
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::object::{Device, Object};
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::wait::{self, WakeReason};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::signal::set::UNSTOPPABLE;

const NANOSECONDS: u64 = 1_000_000_000;
/// Bytes of `struct epoll_event`: events, then data, packed.
const EVENT_BYTES: u64 = 12;
/// Events that one call usually tells.
/// Events that one call tells, as on Linux.
const MOST_EVENTS: u64 = i32::MAX as u64 / EVENT_BYTES;

/// Gives out a descriptor for something that was made.
pub(crate) fn open(call: &Call<'_>, made: Arc<dyn FileOps>, flags: u32) -> Result<u64> {
    open_as(call, made, linux::O_RDWR | flags & linux::O_NONBLOCK, flags & linux::O_CLOEXEC != 0)
}

/// The same with the flags that its description is to keep.
pub(crate) fn open_as(call: &Call<'_>, made: Arc<dyn FileOps>, kept: u32, close_on_exec: bool) -> Result<u64> {
    let description = OpenFile::new(Object::Other(made), kept)?;
    call.process.descriptors.install(description, 0, close_on_exec)
}

/// Makes a descriptor of signals, or changes which ones it is of.
pub(crate) fn signalfd4(call: &mut Call<'_>) -> Result<u64> {
    let [number, set, bytes, flags, ..] = call.arguments();
    let flags = flags as u32;
    if bytes != 8 || flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let set = usercopy::read_word(set)? & !UNSTOPPABLE;
    if number as i32 == -1 {
        check_room(call)?;
        return open(call, Arc::new(Signals::new(set)), flags);
    }
    let description = call.process.descriptors.description(number)?;
    description.as_kind::<Signals>().ok_or(Errno::EINVAL)?.change(set);
    Ok(number)
}

pub(crate) fn signalfd(call: &mut Call<'_>) -> Result<u64> {
    call.context.registers.r10 = 0;
    signalfd4(call)
}

fn check_room(call: &Call<'_>) -> Result<()> {
    if call.process.descriptors.table.lock().room() == 0 { Err(Errno::EMFILE) } else { Ok(()) }
}

pub(crate) fn eventfd(call: &mut Call<'_>) -> Result<u64> {
    let [count, ..] = call.arguments();
    check_room(call)?;
    open(call, Arc::new(EventCounter::create(u64::from(count as u32), false)?), 0)
}

pub(crate) fn eventfd2(call: &mut Call<'_>) -> Result<u64> {
    let [count, flags, ..] = call.arguments();
    let flags = flags as u32;
    if flags & !(linux::EFD_SEMAPHORE | linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    check_room(call)?;
    let counter = EventCounter::create(u64::from(count as u32), flags & linux::EFD_SEMAPHORE != 0)?;
    open(call, Arc::new(counter), flags)
}

pub(crate) fn timerfd_create(call: &mut Call<'_>) -> Result<u64> {
    let [clock, flags, ..] = call.arguments();
    if !matches!(clock as u32, linux::CLOCK_REALTIME | linux::CLOCK_MONOTONIC | linux::CLOCK_BOOTTIME) {
        return Err(Errno::EINVAL);
    }
    if flags as u32 & !(linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    check_room(call)?;
    open(call, Arc::new(Timer::create(clock)?), flags as u32)
}

pub(crate) fn timerfd_settime(call: &mut Call<'_>) -> Result<u64> {
    let [number, flags, new, old, ..] = call.arguments();
    let period = duration(new, 1)?.ok_or(Errno::EFAULT)?;
    let next = duration(new.saturating_add(16), 1)?.ok_or(Errno::EFAULT)?;
    if flags as u32 & !(linux::TFD_TIMER_ABSTIME | linux::TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let description = call.process.descriptors.description(number)?;
    let timer: &Timer = description.as_kind().ok_or(Errno::EINVAL)?;
    let before = timer.setting();
    let now = runtime::clock::now();
    let next = match next {
        0 => 0,
        next if flags as u32 & linux::TIMER_ABSTIME == 0 => now.saturating_add(next),
        // It may have been long ago: then periods have passed.
        next => now.saturating_add(next).saturating_sub(time::read(timer.clock)?).max(1),
    };
    timer.set(next, period);
    if old != 0 {
        tell_setting(old, before)?;
    }
    Ok(0)
}

pub(crate) fn timerfd_gettime(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, ..] = call.arguments();
    let description = call.process.descriptors.description(number)?;
    let timer: &Timer = description.as_kind().ok_or(Errno::EINVAL)?;
    tell_setting(to, timer.setting()).map(|()| 0)
}

/// `struct itimerspec`: the period, then the time to the next expiry.
fn tell_setting(to: u64, Setting { next, period }: Setting) -> Result<()> {
    let words = [period / NANOSECONDS, period % NANOSECONDS, next / NANOSECONDS, next % NANOSECONDS];
    usercopy::write(to, &unix_core::uapi::bytes(&words))
}

pub(crate) fn epoll_create(call: &mut Call<'_>) -> Result<u64> {
    let [size, ..] = call.arguments();
    if (size as i32) <= 0 {
        return Err(Errno::EINVAL);
    }
    open(call, call.process.descriptors.make_set(), 0)
}

pub(crate) fn epoll_create1(call: &mut Call<'_>) -> Result<u64> {
    let [flags, ..] = call.arguments();
    if flags as u32 & !linux::O_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    open(call, call.process.descriptors.make_set(), flags as u32)
}

pub(crate) fn epoll_ctl(call: &mut Call<'_>) -> Result<u64> {
    let [number, operation, wanted, event, ..] = call.arguments();
    let description = call.process.descriptors.description(number)?;
    let target = call.process.descriptors.opened(wanted)?;
    let set: &Set = description.as_kind().ok_or(Errno::EINVAL)?;
    if description.number() == target.number() {
        return Err(Errno::EINVAL);
    }
    let never_waits = |object: &Object| match object {
        Object::File { .. } | Object::Directory { .. } | Object::Disk(_) | Object::Listing(_) => true,
        Object::Text(text) => !text.can_be_waited_for(),
        Object::Device(device, _) => *device != Device::Random,
        _ => false,
    };
    if never_waits(&target.object) {
        return Err(Errno::EPERM);
    }
    match operation as u32 {
        linux::EPOLL_CTL_DEL => set.remove(wanted, &target)?,
        linux::EPOLL_CTL_ADD | linux::EPOLL_CTL_MOD => {
            let (events, data) = (usercopy::read_half(event)?, usercopy::read_word(event.saturating_add(4))?);
            if events & linux::EPOLLEXCLUSIVE != 0 && !may_be_exclusive(operation as u32, events, &target) {
                return Err(Errno::EINVAL);
            }
            set.put(wanted, &target, events, data, operation as u32 == linux::EPOLL_CTL_ADD)?;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// Whether an interest may be one of those of which only some are told (`EPOLLEXCLUSIVE`).
fn may_be_exclusive(operation: u32, events: u32, target: &OpenFile) -> bool {
    const WITH_IT: u32 = linux::EPOLLIN
        | linux::EPOLLOUT
        | linux::EPOLLERR
        | linux::EPOLLHUP
        | linux::EPOLLWAKEUP
        | linux::EPOLLET
        | linux::EPOLLEXCLUSIVE;
    operation == linux::EPOLL_CTL_ADD && events & !WITH_IT == 0 && target.as_kind::<Set>().is_none()
}

pub(crate) fn epoll_wait(call: &mut Call<'_>) -> Result<u64> {
    let [number, events, most, milliseconds, ..] = call.arguments();
    wait(call, number, events, most, timeout(milliseconds))
}

pub(crate) fn epoll_pwait(call: &mut Call<'_>) -> Result<u64> {
    let [number, events, most, milliseconds, mask, bytes] = call.arguments();
    check_mask(mask, bytes)?;
    with_mask(call, mask, |call| wait(call, number, events, most, timeout(milliseconds)))
}

pub(crate) fn epoll_pwait2(call: &mut Call<'_>) -> Result<u64> {
    let [number, events, most, time, mask, bytes] = call.arguments();
    check_mask(mask, bytes)?;
    let timeout = duration(time, 1)?;
    with_mask(call, mask, |call| wait(call, number, events, most, timeout))
}

fn timeout(milliseconds: u64) -> Option<u64> {
    u64::try_from(milliseconds as i32).ok().map(|milliseconds| milliseconds * 1_000_000)
}

fn wait(call: &Call<'_>, number: u64, to: u64, most: u64, timeout: Option<u64>) -> Result<u64> {
    let description = call.process.descriptors.description(number)?;
    let set: &Set = description.as_kind().ok_or(Errno::EINVAL)?;
    if most == 0 || most > MOST_EVENTS {
        return Err(Errno::EINVAL);
    }
    usercopy::check(to, most * EVENT_BYTES)?;
    let deadline = timeout.map(|timeout| runtime::clock::now().saturating_add(timeout));
    let mut terms = None;
    loop {
        let found = tell(set, to, most as usize)?;
        if found != 0 || timeout == Some(0) {
            return Ok(found);
        }
        // What comes while the terms are made is in none of them: another look, then a wait.
        match terms.take() {
            None => terms = Some(set.wait_terms(Event::Readable)),
            Some(terms) if wait::wait(&terms, deadline)? == WakeReason::TimedOut => {
                return tell(set, to, most as usize);
            }
            Some(_) => {}
        }
    }
}

/// Writes what has come of a set into the program's memory, packed: events, then the program's data. The first of it
/// needs no room in the heap.
fn tell(set: &Set, to: u64, most: usize) -> Result<u64> {
    const FEW: usize = 8;
    const BYTES: usize = EVENT_BYTES as usize;
    let mut few = [0; FEW * BYTES];
    let (mut count, mut more) = (0, Vec::new());
    let found = set.collect(most, |events, data| {
        match few.get_mut(count * BYTES..(count + 1) * BYTES) {
            Some(place) => {
                place[..4].copy_from_slice(&events.to_le_bytes());
                place[4..].copy_from_slice(&data.to_le_bytes());
            }
            None => {
                more.extend_from_slice(&events.to_le_bytes());
                more.extend_from_slice(&data.to_le_bytes());
            }
        }
        count += 1;
    });
    usercopy::write(to, &few[..count.min(FEW) * BYTES])?;
    if !more.is_empty() {
        usercopy::write(to.saturating_add((FEW * BYTES) as u64), &more)?;
    }
    Ok(found)
}
