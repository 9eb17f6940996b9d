//! Descriptors in messages (`SCM_RIGHTS`, unix(7)): what a description is open on as words, from which another process
//! of the session opens the same. A descriptor in flight counts one reference, and the server holds its node; the
//! reader that drops the message closes descriptors that no process received.

use super::internet_socket::InternetSocket;
use super::listen_queue::is_user_0;
use super::socket::{Kind, Socket};
use crate::budget;
use crate::descriptor::block_device::BlockDevice;
use crate::descriptor::events::eventfd::EventCounter;
use crate::descriptor::events::timerfd::Timer;
use crate::descriptor::object::{Device, Object};
use crate::descriptor::open_file::OpenFile;
use crate::hw::domain::domain;
use crate::hw::key_slots::with_key_of;
use crate::pipe::message_frames::Frame;
use crate::pipe::{Pipe, Side, list_of};
use crate::server::client::{self, is_left};
use crate::terminal::Terminal;
use crate::terminal::pty_master::{self, Master};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use runtime::exposed::{self, PageStamp};
use runtime::{Kind as Output, PageNumber, area};
use unix_core::process::exec_state::DESCRIPTOR_WORDS;
use unix_core::process::ucred::Ucred;

/// Words of one descriptor: stamp of the page and index of its record; its kind; the server's number for handing over
/// its node (0: none). Then the words of the kind, and its peer's token. Where the receiver will hold the node anyhow,
/// the node is there in place of the number. Only a socket has a token.
const WORDS: usize = DESCRIPTOR_WORDS;
const NODE: usize = 3;
/// Bytes of one descriptor.
pub const BYTES: usize = WORDS * 8;

const FILE: u64 = 1;
const DIRECTORY: u64 = 2;
const PIPE: u64 = 3;
const SOCKET: u64 = 4;
const COUNTER: u64 = 5;
const TIMER: u64 = 6;
const DEVICE: u64 = 7;
const FIFO: u64 = 8;
const CONSOLE: u64 = 9;
const TERMINAL: u64 = 10;
const MASTER: u64 = 11;
const OUTPUT: u64 = 12;
const INTERNET: u64 = 13;
const DISK: u64 = 14;

const SIDES: [Side; 3] = [Side::Read, Side::Write, Side::Both];
const KINDS: [Kind; 3] = [Kind::Stream, Kind::Datagram, Kind::Packets];
const OUTPUTS: [Output; 2] = [Output::Output, Output::Error];
const DEVICES: [Device; 4] = [Device::Null, Device::Zero, Device::Full, Device::Random];

fn index_in<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or_default() as u64
}

/// A descriptor as bytes; from then on it is on its way. `EINVAL` for what cannot be passed.
pub fn pack(description: &OpenFile) -> Result<Vec<u8>> {
    let mut words = words_of(description)?;
    if let Some(node) = description.object.node() {
        words[NODE] = client::files().lock().offer(node)?;
    }
    send(description);
    Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// What user 0 sends to a relative that became another user, through a pair of sockets which both had before, that one
/// may open as what it had itself. What others made stays closed to it.
pub fn share_with_heir(socket: &Socket, description: &OpenFile) {
    let Some(list) = socket.heirs_list().filter(|_| domain().principal.load(Relaxed) == 0) else { return };
    let (record, _) = description.place();
    let all = [record.page()].into_iter().chain(description.object.pages());
    let is_own = |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.access() == area::access_list());
    budget::claim_under(&all.filter(is_own).collect::<Vec<_>>(), list);
}

/// Pages of descriptors that wait in a ring of messages. They are under the list that the ring was under, or were left
/// to the server, which looks at its lists. So a process that writes the ring cannot name pages here that it could not
/// open itself.
pub fn pages_waiting(ring: &Pipe, list: PageNumber) -> Vec<PageNumber> {
    let frames = ring.controls_waiting().unwrap_or_default();
    let is_under = |page: &PageNumber| list_of(*page) == list || is_left(domain().server, *page);
    let mut pages = Vec::new();
    for words in frames.iter().filter_map(Frame::parts).flat_map(|(_, rights)| words_in(rights)) {
        let (pipes, others) = pages_named(words);
        pages.extend(others.map(PageStamp::page));
        for first in pipes.into_iter().filter(|first| is_under(&first.page())) {
            let pipe = Pipe::open_by_first(&mut domain().mappings.lock(), first, domain().session_key);
            if let Ok(pipe) = pipe {
                pages.extend(pipe.all_pages());
                domain().mappings.lock().close(pipe.window());
            }
        }
    }
    pages.retain(is_under);
    pages
}

/// The first pages of pipes that a descriptor names, and the other pages.
fn pages_named([record, _, kind, _, a, b, c, d, _]: [u64; WORDS]) -> ([PageStamp; 2], [PageStamp; 2]) {
    let (pipes, other) = match kind {
        PIPE => ([b, 0], 0),
        SOCKET => ([b, c], d),
        COUNTER | TIMER => ([0; 2], a),
        _ => ([0; 2], 0),
    };
    (pipes.map(PageStamp), [record, other].map(PageStamp))
}

/// Takes the descriptors out of a message from another user, which may name pages that only this process opens. They
/// come to user 0 where the key of that user opens all of them. What the shared page of a socket names, or that of a
/// console, the sender may have chosen: neither comes.
pub fn drop_foreign(socket: &Socket, frame: &mut Frame) {
    let Some((name, rights)) = frame.parts().filter(|(_, rights)| !rights.is_empty()) else { return };
    let Some(peer) = socket.foreign_peer() else { return };
    if !is_user_0() || peer == Ucred::UNKNOWN || !may_send(peer, rights) {
        frame.control = Frame::control_of(name, &[]);
    }
}

/// Whether a peer could open itself what it sends to user 0.
fn may_send(peer: Ucred, rights: &[u8]) -> bool {
    let names_others = |words: &[u64; WORDS]| words[2] == CONSOLE || words[2] == SOCKET && words[7] != 0;
    let named = words_in(rights).flat_map(|words| <[[PageStamp; 2]; 2]>::from(pages_named(words))).flatten();
    let named: Vec<PageStamp> = named.filter(|page| *page != PageStamp::NONE).collect();
    let are_open = with_key_of(domain().session_key, peer.user.into(), |key| {
        let mut windows = domain().mappings.lock();
        named.iter().try_for_each(|page| {
            let window = windows.open_of_others(Vec::from([page.page()]), key, true)?;
            windows.close(&window);
            if page.is_current() { Ok(()) } else { Err(Errno::EIO) }
        })
    });
    are_open.is_ok() && !words_in(rights).any(|words| names_others(&words))
}

/// It is on its way from now on.
pub fn send(description: &OpenFile) {
    description.refer_on_its_way();
    description.note_sent();
}

/// What a descriptor is open on, as words.
pub fn words_of(description: &OpenFile) -> Result<[u64; WORDS]> {
    let (page, index) = description.place();
    let node = description.object.node().unwrap_or_default();
    let [kind, a, b, c, d] = kind_of(&description.object)?;
    Ok([page.0, index, kind, node, a, b, c, d, voucher_of(&description.object)])
}

/// A terminal as words, of which those of a description are 0.
pub fn words_of_terminal(terminal: &Terminal) -> Result<[u64; WORDS]> {
    let object = Object::Terminal(terminal.clone());
    let [kind, a, b, c, d] = kind_of(&object)?;
    Ok([0, 0, kind, object.node().unwrap_or_default(), a, b, c, d, 0])
}

/// The number by which the server says who is at the other end of a socket.
fn voucher_of(object: &Object) -> u64 {
    let Object::Other(other) = object else { return 0 };
    let other: &dyn Any = &**other;
    other.downcast_ref().map_or(0, Socket::vouch_for_peer)
}

fn kind_of(object: &Object) -> Result<[u64; 5]> {
    Ok(match object {
        Object::File { .. } => [FILE, 0, 0, 0, 0],
        Object::Directory { .. } => [DIRECTORY, 0, 0, 0, 0],
        Object::Device(device, _) => [DEVICE, index_in(&DEVICES, device), 0, 0, 0],
        Object::Disk(disk) => [DISK, disk.number, 0, 0, 0],
        Object::Pipe(pipe, side) if pipe.node == 0 => {
            [PIPE, index_in(&SIDES, side), PageStamp::of(pipe.pages()[0]).0, 0, 0]
        }
        Object::Pipe(_, side) => [FIFO, index_in(&SIDES, side), 0, 0, 0],
        Object::Terminal(terminal) => match terminal.node() {
            None => [CONSOLE, terminal.generation(), PageStamp::of(terminal.pages()[0]).0, 0, 0],
            Some(_) => [TERMINAL, terminal.generation(), 0, 0, 0],
        },
        Object::Console(kind) => [OUTPUT, index_in(&OUTPUTS, kind), 0, 0, 0],
        Object::Other(other) => pack_other(&**other)?,
        _ => return Err(Errno::EINVAL),
    })
}

fn pack_other(other: &dyn Any) -> Result<[u64; 5]> {
    if let Some(counter) = other.downcast_ref::<EventCounter>() {
        return Ok([COUNTER, counter.page().0, u64::from(counter.by_ones), 0, 0]);
    }
    if let Some(timer) = other.downcast_ref::<Timer>() {
        return Ok([TIMER, timer.page().0, timer.clock, 0, 0]);
    }
    if let Some(master) = other.downcast_ref::<Master>() {
        return Ok([MASTER, master.nodes()[1], 0, 0, 0]);
    }
    if other.is::<InternetSocket>() {
        return Ok([INTERNET, 0, 0, 0, 0]);
    }
    let socket = other.downcast_ref::<Socket>().ok_or(Errno::EINVAL)?;
    let [incoming, outgoing, queue] = socket.places();
    Ok([SOCKET, index_in(&KINDS, &socket.kind), incoming.0, outgoing.0, queue.0])
}

/// The descriptors that bytes tell of, in the process that received them.
pub fn unpack(bytes: &[u8]) -> impl Iterator<Item = Result<OpenFile>> {
    words_in(bytes).map(open)
}

fn words_in(bytes: &[u8]) -> impl Iterator<Item = [u64; WORDS]> {
    bytes.chunks_exact(BYTES).map(|bytes| {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(core::array::from_fn(|index| bytes[index]));
        }
        words
    })
}

/// Closes descriptors that no process takes.
pub fn drop_all(bytes: &[u8]) {
    unpack(bytes).flatten().for_each(OpenFile::close);
}

fn open(mut words: [u64; WORDS]) -> Result<OpenFile> {
    if words[NODE] != 0 {
        words[NODE] = client::files().lock().accept_offer(words[NODE])?;
    }
    open_held(words)
}

/// What words tell of, whose node this process holds already.
pub fn open_held(words: [u64; WORDS]) -> Result<OpenFile> {
    let [page, index, ..] = words;
    OpenFile::adopt(open_object(words)?, PageStamp(page), index as usize)
}

/// The terminal that words tell of, whose node this process holds already.
pub fn open_terminal(words: [u64; WORDS]) -> Result<Terminal> {
    match open_object(words)? {
        Object::Terminal(terminal) => Ok(terminal),
        _ => Err(Errno::EIO),
    }
}

fn open_object([_, _, kind, node, a, b, c, d, voucher]: [u64; WORDS]) -> Result<Object> {
    let key = domain().opening_key();
    let at = |index: u64, length: usize| (index as usize).min(length - 1);
    let side = SIDES[at(a, SIDES.len())];
    let first = PageStamp(b);
    Ok(match kind {
        FILE => Object::File { node },
        DIRECTORY => Object::Directory { node },
        DEVICE => Object::Device(DEVICES[at(a, DEVICES.len())], node),
        DISK => Object::Disk(BlockDevice { node, number: a }),
        PIPE => Object::Pipe(Pipe::open_by_first(&mut domain().mappings.lock(), first, key)?, side),
        FIFO => Object::Pipe(Pipe::open_fifo(node)?, side),
        CONSOLE => {
            let terminal = Terminal::open_by_first(&mut domain().mappings.lock(), first, key)?;
            Object::Terminal(terminal.as_old_as(a))
        }
        TERMINAL => Object::Terminal(pty_master::see(node, node)?.as_old_as(a)),
        MASTER => Object::Other(Arc::new(Master::open(node, a)?)),
        OUTPUT => Object::Console(OUTPUTS[at(a, OUTPUTS.len())]),
        INTERNET => Object::Other(Arc::new(InternetSocket::open(node)?)),
        COUNTER => Object::Other(Arc::new(EventCounter::open(PageStamp(a), b != 0)?)),
        TIMER => Object::Other(Arc::new(Timer::open(PageStamp(a), b)?)),
        SOCKET => {
            let pages = [b, c, d].map(PageStamp);
            Object::Other(Arc::new(Socket::open(
                KINDS[at(a, KINDS.len())],
                pages,
                Some(node).filter(|node| *node != 0),
                voucher,
            )?))
        }
        _ => return Err(Errno::EIO),
    })
}
