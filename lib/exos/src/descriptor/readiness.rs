//! Readiness of an open file: the events of poll(2) that have come.

use super::file_ops::FileOps;
use super::object::{Event, Object};
use super::open_file::OpenFile;
use super::sockets::internet_socket::InternetSocket;
use super::sockets::socket::Socket;
use internet::option::Sort;
use linux_raw_sys::general as linux;

pub(crate) const READABLE: u16 = (linux::POLLIN | linux::POLLRDNORM) as u16;
pub(crate) const WRITABLE: u16 = (linux::POLLOUT | linux::POLLWRNORM) as u16;
/// What of a set of exceptional descriptors is waited for.
pub(crate) const SPECIAL: u16 = linux::POLLPRI as u16;
pub(crate) const URGENT: u16 = linux::POLLWRBAND as u16;
pub(crate) const HUNG_UP: u16 = linux::POLLHUP as u16;
pub(crate) const BROKEN: u16 = linux::POLLERR as u16;

/// What of `poll` neither files nor pipes nor terminals have: ends of one half, and of sockets what is urgent, which
/// goes where all else goes, and errors that wait.
#[inline(never)]
fn state_beside(description: &OpenFile, other: &dyn FileOps, wanted: u16, found: u16) -> u16 {
    let half_closed = wanted & linux::POLLRDHUP as u16;
    let mut beside = if half_closed != 0 && other.is_half_closed() { half_closed } else { 0 };
    if let Some(socket) = description.as_kind::<InternetSocket>() {
        beside |= if socket.sort == Sort::Tcp && socket.has_urgent() { wanted & SPECIAL } else { 0 };
        beside |= if socket.has_error() { BROKEN } else { 0 };
    }
    if let Some(socket) = description.as_kind::<Socket>() {
        beside |= if found & WRITABLE != 0 { wanted & URGENT } else { 0 };
        beside |= if socket.is_broken_off() { BROKEN } else { 0 };
    }
    beside
}

/// The events of `poll` that have come, of those that are wanted, and those that are told always.
pub(crate) fn state(description: &OpenFile, wanted: u16) -> u16 {
    let mut found = 0;
    if wanted & READABLE != 0 && description.is_ready(Event::Readable) {
        found |= wanted & READABLE;
    }
    if wanted & WRITABLE != 0 && description.is_ready(Event::Writable) {
        found |= wanted & WRITABLE;
    }
    if description.is_hung_up() {
        // The writer of a pipe without readers is told of an error; all others that the other side is gone.
        let is_writer = description.can_write() && matches!(description.object, Object::Pipe(..));
        found |= if is_writer { BROKEN } else { HUNG_UP };
    }
    if let Object::Text(text) = &description.object
        && text.take_mount_change()
    {
        found |= BROKEN | wanted & SPECIAL;
    }
    if let Object::Other(other) = &description.object {
        found |= state_beside(description, &**other, wanted, found);
    }
    // A pipe whose writers are gone is at its end, not full of data.
    if found & HUNG_UP != 0 && !description.has_data() {
        found &= !READABLE;
    }
    found
}
