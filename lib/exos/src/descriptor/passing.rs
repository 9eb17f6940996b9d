//! Descriptors in messages (`SCM_RIGHTS`, unix(7)): what a description is open on as words, from which another process of
//! the session opens the same. A description on its way counts one reference, and the guardian holds its node.

use super::counter::Counter;
use super::description::Description;
use super::object::{Device, Object};
use super::socket::{Kind, Socket};
use super::timer::Timer;
use crate::errno::{Errno, Result};
use crate::pipe::{Pipe, Side};
use crate::terminal::Terminal;
use crate::terminal::master::{self, Master};
use crate::user_memory::current::process;
use alloc::sync::Arc;
use core::any::Any;
use runtime::PageNumber;

/// Words of one descriptor: page and index of its record, kind, and what the kind needs.
pub const WORDS: usize = 6;

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

const SIDES: [Side; 3] = [Side::Read, Side::Write, Side::Both];
const KINDS: [Kind; 3] = [Kind::Stream, Kind::Datagram, Kind::Packets];
const DEVICES: [Device; 4] = [Device::Null, Device::Zero, Device::Full, Device::Random];

fn index_in<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or_default() as u64
}

/// A descriptor as words; from then on it is on its way. `EINVAL` for what cannot be passed.
pub fn pack(description: &Description) -> Result<[u64; WORDS]> {
    let [a, b, c, d] = match &description.object {
        Object::File { node } => [FILE, *node, 0, 0],
        Object::Directory { node } => [DIRECTORY, *node, 0, 0],
        Object::Device(device, node) => [DEVICE, *node, index_in(&DEVICES, device), 0],
        Object::Pipe(pipe, side) if pipe.node == 0 => [PIPE, pipe.pages()[0].0, index_in(&SIDES, side), 0],
        Object::Pipe(pipe, side) => [FIFO, pipe.node, index_in(&SIDES, side), 0],
        Object::Terminal(terminal) => match terminal.node() {
            None => [CONSOLE, terminal.pages()[0].0, terminal.generation(), 0],
            Some(node) => [TERMINAL, node, terminal.generation(), 0],
        },
        Object::Other(other) => pack_other(&**other)?,
        _ => return Err(Errno::EINVAL),
    };
    if let Some(node) = description.object.node() {
        process().files.lock().offer(node)?;
    }
    description.refer();
    let (page, index) = description.place();
    Ok([page, index, a, b, c, d])
}

fn pack_other(other: &dyn Any) -> Result<[u64; 4]> {
    if let Some(counter) = other.downcast_ref::<Counter>() {
        return Ok([COUNTER, counter.page(), u64::from(counter.by_ones), 0]);
    }
    if let Some(timer) = other.downcast_ref::<Timer>() {
        return Ok([TIMER, timer.page(), timer.clock, 0]);
    }
    if let Some(master) = other.downcast_ref::<Master>() {
        let [node, slave] = master.nodes();
        return Ok([MASTER, node, slave, 0]);
    }
    let socket = other.downcast_ref::<Socket>().ok_or(Errno::EINVAL)?;
    let ends = socket.ends.lock();
    match (&ends.incoming, &ends.outgoing) {
        (Some(incoming), Some(outgoing)) => {
            let kind = index_in(&KINDS, &socket.kind);
            Ok([SOCKET, kind, incoming.pages()[0].0, outgoing.pages()[0].0])
        }
        _ => Err(Errno::EINVAL),
    }
}

/// The descriptor that words tell of, in the process that received them.
pub fn unpack([page, index, a, b, c, d]: [u64; WORDS]) -> Result<Description> {
    let key = process().session_key;
    let pipe = |first: u64| Pipe::open_by_first(&mut process().windows.lock(), PageNumber(first), key);
    let at = |index: u64, length: usize| (index as usize).min(length - 1);
    if matches!(a, FILE | DIRECTORY | DEVICE | FIFO | TERMINAL | MASTER) {
        process().files.lock().accept_offer(b)?;
    }
    let object = match a {
        FILE => Object::File { node: b },
        DIRECTORY => Object::Directory { node: b },
        DEVICE => Object::Device(DEVICES[at(c, DEVICES.len())], b),
        PIPE => Object::Pipe(pipe(b)?, SIDES[at(c, SIDES.len())]),
        FIFO => Object::Pipe(Pipe::open_fifo(b)?, SIDES[at(c, SIDES.len())]),
        CONSOLE => {
            let terminal = Terminal::open_by_first(&mut process().windows.lock(), PageNumber(b), key)?;
            Object::Terminal(terminal.as_old_as(c))
        }
        TERMINAL => Object::Terminal(master::see(b, b)?.as_old_as(c)),
        MASTER => Object::Other(Arc::new(Master::open(b, c)?)),
        COUNTER => Object::Other(Arc::new(Counter::open(b, c != 0)?)),
        TIMER => Object::Other(Arc::new(Timer::open(b, c)?)),
        SOCKET => Object::Other(Arc::new(Socket::joined(KINDS[at(b, KINDS.len())], pipe(c)?, pipe(d)?))),
        _ => return Err(Errno::EIO),
    };
    Description::adopt(object, PageNumber(page), index as usize)
}
