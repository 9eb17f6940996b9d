//! POSIX message queues (mq_overview(7)).

use super::ipc::wait;
use crate::descriptor::events::mq_fd::Queue;
use crate::descriptor::fd_pins::Used;
use crate::descriptor::object::Object;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::netlink::{COOKIE, Netlink, QueueNotice};
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process_table;
use crate::server::client::wall_clock;
use crate::syscalls::events::event_fds::open_as;
use crate::syscalls::events::poll::duration;
use alloc::sync::Arc;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::ipc::posix_mq::{HIGHEST, NAME_BYTES, PRIORITIES};
use unix_core::server::protocol::Request;
use unix_core::signal::frame::Information;
use unix_core::signal::set::COUNT;

const SIGEV_SIGNAL: u32 = 0;
const SIGEV_NONE: u32 = 1;
const SIGEV_THREAD: u32 = 2;
/// `si_code` of a message that came.
const SI_MESGQ: i32 = -3;

/// A name, which the C library has stripped of its slash.
fn name(at: u64) -> Result<alloc::vec::Vec<u8>> {
    usercopy::read_string(at, NAME_BYTES + 1, Errno::ENAMETOOLONG)
}

pub(crate) fn mq_open(call: &mut Call<'_>) -> Result<u64> {
    let [at, flags, mode, attributes, ..] = call.arguments();
    let flags = flags as u32;
    let name = name(at)?;
    let create = flags & linux::O_CREAT != 0;
    let most = if create && attributes != 0 {
        let [_, messages, bytes, _] = usercopy::read_words::<4>(attributes)?;
        if messages == 0 || bytes == 0 || messages > HIGHEST[0] || bytes > HIGHEST[1] {
            return Err(Errno::EINVAL);
        }
        messages | bytes << 32
    } else {
        0
    };
    let wanted = match flags & linux::O_ACCMODE {
        linux::O_RDONLY => 4,
        linux::O_WRONLY => 2,
        linux::O_RDWR => 6,
        _ => return Err(Errno::EINVAL),
    };
    let how = match (create, flags & linux::O_EXCL != 0) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    };
    let mode = mode & !u64::from(call.process.fs.lock().mask);
    let words = [how, wanted, mode, most, name.len() as u64];
    let [number, ..] = call.process.files.lock().on_object_with(Request::QueueOpen, words, &name)?;
    let kept = flags & (linux::O_ACCMODE | linux::O_NONBLOCK);
    let opened = open_as(call, Arc::new(Queue { number }), kept, flags & linux::O_CLOEXEC != 0);
    if opened.is_err() {
        call.process.files.lock().on_object(Request::QueueClose, [number, 0, 0, 0, 0])?;
    }
    opened
}

pub(crate) fn mq_unlink(call: &mut Call<'_>) -> Result<u64> {
    let [at, ..] = call.arguments();
    let name = name(at)?;
    call.process.files.lock().on_object_with(Request::QueueUnlink, [name.len() as u64, 0, 0, 0, 0], &name).map(|_| 0)
}

/// The queue behind a descriptor, if it was opened for this.
fn find(call: &Call<'_>, number: u64, allowed: fn(&OpenFile) -> bool) -> Result<(Used, Queue)> {
    let description = call.process.descriptors.description(number)?;
    let queue = *description.as_kind::<Queue>().filter(|_| allowed(&description)).ok_or(Errno::EBADF)?;
    Ok((description, queue))
}

/// Until when a call may wait: not at all, until a time by the wall clock, or for ever.
fn deadline(description: &OpenFile, time: u64) -> Result<Option<u64>> {
    let time = duration(time, 1)?;
    if description.is_nonblocking() {
        return Ok(Some(0));
    }
    Ok(time.map(|time| runtime::clock::now().saturating_add(time.saturating_sub(wall_clock()))))
}

fn timed_out(description: &OpenFile, error: Errno) -> Errno {
    if error == Errno::EAGAIN && !description.is_nonblocking() { Errno::ETIMEDOUT } else { error }
}

pub(crate) fn mq_timedsend(call: &mut Call<'_>) -> Result<u64> {
    let [number, from, bytes, priority, time, _] = call.arguments();
    let priority = u64::from(priority as u32);
    if priority >= PRIORITIES {
        return Err(Errno::EINVAL);
    }
    let (description, queue) = find(call, number, OpenFile::can_write)?;
    let deadline = deadline(&description, time)?;
    if bytes > HIGHEST[1] {
        return Err(Errno::EMSGSIZE);
    }
    let message = usercopy::read_vec(from, bytes as usize)?;
    let words = [queue.number, priority, bytes, 0, 0];
    let outcome = wait(call, deadline, |files| {
        let [waits, notice @ ..] = files.on_object_with(Request::QueueSend, words, &message)?;
        Ok((waits == 0).then_some(notice))
    });
    let [process, signal, value, _] = outcome.map_err(|error| timed_out(&description, error))?;
    if signal != 0 {
        let detail = call.process.attributes.sender();
        let information = Information { signal: signal as u32, code: SI_MESGQ, detail, value };
        // The process that asked for the notification may be gone.
        let _ = process_table::send(process, &information);
    }
    Ok(0)
}

pub(crate) fn mq_timedreceive(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, room, priority_at, time, _] = call.arguments();
    let (description, queue) = find(call, number, OpenFile::can_read)?;
    let deadline = deadline(&description, time)?;
    let outcome = wait(call, deadline, |files| {
        let words = [queue.number, room, 0, 0, 0];
        let [waits, bytes, priority, ..] = files.on_object_with(Request::QueueReceive, words, b"")?;
        if waits != 0 { Ok(None) } else { Ok(Some((priority, files.left(bytes)?))) }
    });
    let (priority, message) = outcome.map_err(|error| timed_out(&description, error))?;
    usercopy::write(to, &message)?;
    if priority_at != 0 {
        usercopy::write_half(priority_at, priority as u32)?;
    }
    Ok(message.len() as u64)
}

pub(crate) fn mq_getsetattr(call: &mut Call<'_>) -> Result<u64> {
    let [number, new, old, ..] = call.arguments();
    let (description, queue) = find(call, number, |_| true)?;
    let flags = if new == 0 { None } else { Some(usercopy::read_word(new)?) };
    if flags.is_some_and(|flags| flags & !u64::from(linux::O_NONBLOCK) != 0) {
        return Err(Errno::EINVAL);
    }
    let before = u64::from(description.flags() & linux::O_NONBLOCK);
    let [messages, bytes, there, _] = queue.status()?;
    if let Some(flags) = flags {
        description.set_flags(description.flags() & !linux::O_NONBLOCK | flags as u32);
    }
    if old != 0 {
        usercopy::write(old, &unix_core::uapi::bytes(&[before, messages, bytes, there, 0, 0, 0, 0]))?;
    }
    Ok(0)
}

/// Asks for a signal, for no word at all, or for a cookie, which a thread of the program receives.
pub(crate) fn mq_notify(call: &mut Call<'_>) -> Result<u64> {
    let [number, event, ..] = call.arguments();
    if event == 0 {
        let (_, queue) = find(call, number, |_| true)?;
        call.process.files.lock().on_object(Request::QueueNotify, [queue.number, 0, 0, 0, 0])?;
        return Ok(0);
    }
    let value = usercopy::read_word(event)?;
    let [signal, kind] =
        [usercopy::read_half(event.saturating_add(8))?, usercopy::read_half(event.saturating_add(12))?];
    let signal = match kind {
        SIGEV_NONE => 0,
        SIGEV_SIGNAL if (1..=COUNT).contains(&signal) => u64::from(signal),
        SIGEV_THREAD => return notify_by_cookie(call, number, value, signal),
        _ => return Err(Errno::EINVAL),
    };
    let (_, queue) = find(call, number, |_| true)?;
    let words = [queue.number, 1, signal, value, 0];
    call.process.files.lock().on_object(Request::QueueNotify, words).map(|_| 0)
}

/// `SIGEV_THREAD`: the C library's thread receives the cookie at `cookie_at` from a socket when a message comes.
fn notify_by_cookie(call: &Call<'_>, number: u64, cookie_at: u64, socket: u32) -> Result<u64> {
    let cookie = usercopy::read_vec(cookie_at, COOKIE)?;
    let cookie = <[u8; COOKIE]>::try_from(cookie.as_slice()).map_err(|_| Errno::EFAULT)?;
    let socket = call.process.descriptors.description(u64::from(socket))?;
    let is_socket =
        matches!(&socket.object, Object::Other(other) if other.status().0 & linux::S_IFMT == linux::S_IFSOCK);
    let netlink = socket.as_kind::<Netlink>().ok_or(if is_socket { Errno::EINVAL } else { Errno::ENOTSOCK })?;
    let (_, queue) = find(call, number, |_| true)?;
    // Earlier notices of this process have other numbers.
    let id = runtime::clock::ticks();
    call.process.files.lock().on_object(Request::QueueNotify, [queue.number, 1, 0, id, 0])?;
    netlink.add_notice(QueueNotice { queue: queue.number, id, cookie });
    Ok(0)
}
