//! What a description can be open on, and what each kind does when it is read, written, or waited for.

use super::console::{FRAME, send, send_now, wait_for_room, write_console};
use super::file_ops::FileOps;
use super::open_file::OpenFile;
use super::poll_event::Event;
use crate::attributes::attributes;
use crate::descriptor::block_device::{self, BlockDevice};
use crate::hw::domain::domain;
use crate::hw::usercopy;
use crate::pipe::{self, Pipe, Side};
use crate::server::client;
use crate::terminal::{Terminal, job_control, pty_master};
use crate::upcalls::upcalls;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::critical_section;
use runtime::predicate::{Operator, Term, word};
use runtime::{Kind, PageNumber};
use unix_core::process::rlimits::UNLIMITED;
use unix_core::server::protocol::{APPEND, READ_BYTES, WINDOW_BYTES};

/// Most bytes that one call moves, as on Linux.
pub const MOST: u64 = 0x7fff_f000;

/// Something open.
#[derive(Clone, Debug)]
pub enum Object {
    /// A file of the server's.
    File {
        /// Its node, which the description holds.
        node: u64,
    },
    /// A directory of the server's.
    Directory {
        /// Its node.
        node: u64,
    },
    /// An end of a pipe.
    Pipe(Pipe, Side),
    /// Standard output or error of the machine.
    Console(Kind),
    /// A terminal.
    Terminal(Terminal),
    /// A device that the library plays, and its node, which the description holds.
    Device(Device, u64),
    /// A disk, whose node the description holds.
    Disk(BlockDevice),
    /// Whatever brings its own table of operations.
    Other(Arc<dyn FileOps>),
    /// A text that was made when it was opened, such as a file of `/proc`.
    Text(Arc<Text>),
    /// A directory of a file system that the library makes: its entries, as `getdents64` gives them.
    Listing(Arc<Listing>),
}

/// What a file of `/proc` said when it was opened.
#[derive(Debug)]
pub struct Text {
    /// Its path below `/proc`.
    pub path: Vec<u8>,
    /// What it says.
    pub bytes: Vec<u8>,
    /// It was opened through the link at its path.
    pub followed: bool,
    /// Count of changes of the mount table that the last `poll` reported, if it is a mount table.
    mounts_seen: AtomicU64,
    /// What it says is read and written where it is, and not here.
    in_place: Option<Box<dyn InPlace>>,
}

/// A file of `/proc` whose contents are read and written where they are.
pub trait InPlace: Debug + Send + Sync {
    /// `read` at an offset.
    ///
    /// # Errors
    /// `EFAULT` where `to` cannot be written, and what the file gives.
    fn read(&self, at: u64, to: u64, count: u64) -> Result<u64>;

    /// `write` at an offset.
    ///
    /// # Errors
    /// `EFAULT` where `from` cannot be read, and what the file gives.
    fn write(&self, at: u64, from: u64, count: u64) -> Result<u64>;
}

impl Text {
    /// A text as it is now.
    pub fn new(path: Vec<u8>, bytes: Vec<u8>, followed: bool) -> Self {
        let mounts_seen = AtomicU64::new(client::mount_changes().load(Acquire));
        Self { path, bytes, followed, mounts_seen, in_place: None }
    }

    /// The same for a file whose contents are elsewhere.
    pub fn in_place(self, in_place: Option<Box<dyn InPlace>>) -> Self {
        Self { in_place, ..self }
    }

    /// Whether it is a mount table, which `poll` reports changes of.
    pub fn is_mount_table(&self) -> bool {
        let name = self.path.rsplit(|byte| *byte == b'/').next();
        matches!(name, Some(b"mounts" | b"mountinfo" | b"mountstats"))
    }

    /// Whether the mount table has changed since this was asked last.
    pub fn take_mount_change(&self) -> bool {
        let now = client::mount_changes().load(Acquire);
        self.is_mount_table() && self.mounts_seen.swap(now, SeqCst) != now
    }

    /// What becomes true at the next change of the mount table.
    fn mount_change(&self) -> Vec<Term> {
        let seen = self.mounts_seen.load(Acquire);
        if self.is_mount_table() { vec![word(client::mount_changes(), Operator::NotEqual, seen)] } else { Vec::new() }
    }

    /// Whether it can be waited for: of the files of a process no more than its mounts and its network.
    pub fn can_be_waited_for(&self) -> bool {
        let mut parts = self.path.split(|byte| *byte == b'/');
        let is_of_process = parts.next().is_some_and(|first| first.first().is_some_and(u8::is_ascii_digit));
        !is_of_process || parts.any(|part| [&b"mounts"[..], b"mountinfo", b"net"].contains(&part))
    }
}

/// A folder of `/proc` as it was when it was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its path below `/proc`.
    pub path: Vec<u8>,
    /// What lies in it.
    pub entries: Vec<Entry>,
}

/// An entry of a [`Listing`]: name, number and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name.
    pub name: Vec<u8>,
    /// Inode number.
    pub node: u64,
    /// Type as `getdents64` tells it.
    pub kind: u8,
}

/// Devices without state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Takes all, gives nothing.
    Null,
    /// Takes all, gives zeros.
    Zero,
    /// Takes nothing, gives zeros.
    Full,
    /// Gives random bytes.
    Random,
}

impl Object {
    /// A descriptor of it is about to be closed: its process has one less of this end of a pipe. The descriptor
    /// still counts as one of its description, so that no other thread releases the node of a FIFO, and with it
    /// the page of this count.
    #[inline]
    pub fn count_out(&self) {
        if let Self::Pipe(pipe, side) = self {
            pipe.release_end(*side, domain().environment());
        }
    }

    /// A descriptor of it was closed. `last`: it was the last one of its description in any process. `locks`: the
    /// number of that description, if locks on the file end with it, or 0.
    #[inline]
    pub fn closed(&self, last: bool, locks: u64) {
        match self {
            Self::File { node } | Self::Directory { node } => client::files().lock().close(*node, last, locks),
            _ => self.closed_beside_files(last),
        }
    }

    #[inline(never)]
    fn closed_beside_files(&self, last: bool) {
        match self {
            Self::Pipe(pipe, side) if last => pipe.leave(*side),
            Self::Other(other) => other.closed(last),
            _ => {}
        }
    }

    /// Its last descriptor in this process was closed, and no thread works with it or sleeps over it: releases its
    /// node, which keeps its pages.
    #[inline]
    pub fn gone(&self) {
        match self {
            Self::File { .. } | Self::Directory { .. } => {}
            _ => self.gone_beside_files(),
        }
    }

    #[inline(never)]
    fn gone_beside_files(&self) {
        if let Some(node) = self.node() {
            client::files().lock().hold(node, false);
        }
    }

    /// A descriptor of it was closed, and this process has another one for the same description: what ends is the locks
    /// that go with any descriptor.
    pub fn closed_one(&self) {
        if let Self::Other(other) = self {
            other.each_pipe(&mut |pipe, side| pipe.release_end(side, domain().environment()));
        }
        if let Self::File { node } | Self::Directory { node } = self {
            client::files().lock().close_one(*node);
        }
    }

    /// Whether it has windows of this process, which other descriptions or descriptors may look through as well.
    #[inline]
    pub const fn has_window(&self) -> bool {
        matches!(self, Self::Pipe(..) | Self::Terminal(_) | Self::Other(_))
    }

    /// Whether two are seen through one window and hold it together. Each description of a pipe holds it by itself.
    pub fn shares_window(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Terminal(one), Self::Terminal(other)) => one == other,
            (Self::Other(one), Self::Other(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// No description of this process looks through its window any more.
    pub fn close_window(&self) {
        match self {
            Self::Pipe(pipe, _) => pipe::discard(pipe),
            Self::Terminal(terminal) if !job_control::is_controlling(terminal) => pty_master::forget(terminal),
            Self::Other(other) => other.gone(),
            _ => {}
        }
    }

    /// The node that it holds, if it has one.
    pub fn node(&self) -> Option<u64> {
        match self {
            Self::File { node } | Self::Directory { node } | Self::Device(_, node) => Some(*node),
            Self::Disk(disk) => Some(disk.node),
            Self::Pipe(pipe, _) => Some(pipe.node).filter(|node| *node != 0),
            Self::Terminal(terminal) => terminal.node(),
            Self::Other(other) => other.node(),
            _ => None,
        }
    }

    /// Pages that relatives share to have it open, those of the server's not counted.
    pub fn pages(&self) -> Vec<PageNumber> {
        match self {
            Self::Pipe(pipe, _) if pipe.node == 0 => pipe.all_pages(),
            Self::Other(other) => other.pages(),
            _ => Vec::new(),
        }
    }

    /// Does something to the pipes that are behind it, each with the side that it has of it.
    fn each_pipe(&self, action: &mut dyn FnMut(&Pipe, Side)) {
        match self {
            Self::Pipe(pipe, side) => action(pipe, *side),
            Self::Other(other) => other.each_pipe(action),
            _ => {}
        }
    }

    /// A process has one descriptor more of it.
    pub fn held(&self, number: u64) {
        self.each_pipe(&mut |pipe, side| pipe.held(side, number));
    }

    /// It is on its way in a message, or has come.
    pub fn on_its_way(&self, is: bool) {
        self.each_pipe(&mut |pipe, _| pipe.in_flight(is));
    }

    /// Something more in this process is open on it.
    pub fn reopened(&self) {
        if let Some(node) = self.node() {
            client::files().lock().hold(node, true);
        }
        if let Self::Pipe(pipe, _) = self {
            domain().mappings.lock().hold_once_more(pipe.window());
        }
    }

    /// Whether reads and writes have a place.
    pub const fn is_seekable(&self) -> bool {
        matches!(
            self,
            Self::File { .. }
                | Self::Directory { .. }
                | Self::Device(..)
                | Self::Disk(_)
                | Self::Text(_)
                | Self::Listing(_)
        )
    }

    /// Whether `lseek` does nothing, and is right all the same: on what has no file in any file system (eventfd, epoll,
    /// inotify, …).
    pub fn stays_where_it_is(&self) -> bool {
        matches!(self, Self::Other(other) if other.stays_where_it_is())
    }

    /// Whether it has an owner who can be told of what comes (`O_ASYNC`).
    pub fn tells_owner(&self) -> bool {
        match self {
            Self::Pipe(..) | Self::Console(_) | Self::Terminal(_) | Self::Device(Device::Random, _) => true,
            Self::Other(other) => other.status().0 & linux::S_IFMT == linux::S_IFSOCK,
            _ => false,
        }
    }

    /// Whether it is a terminal.
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }
}

impl OpenFile {
    /// `read`: at the description's offset, or at `place`.
    pub fn read(&self, to: u64, count: u64, place: Option<u64>) -> Result<u64> {
        if !self.can_read() {
            return Err(Errno::EBADF);
        }
        usercopy::check(to, count)?;
        let count = count.min(MOST);
        match &self.object {
            Object::File { node } => self.read_at(place, |at| read_file(*node, at, to, count)),
            Object::Directory { .. } | Object::Listing(_) => Err(Errno::EISDIR),
            Object::Pipe(pipe, _) => self.read_pipe(pipe, to, count),
            Object::Terminal(terminal) => terminal.read(to, count, self.is_nonblocking()),
            Object::Console(_) => Ok(0),
            Object::Device(device, _) => read_device(*device, to, count),
            Object::Disk(disk) => self.read_at(place, |at| disk.read(at, to, count, self.is_direct())),
            Object::Other(other) => other.read(self, to, count),
            Object::Text(text) => match unix_core::procfs::read_error(&text.path) {
                Some(error) => Err(error),
                None => self.read_at(place, |at| match &text.in_place {
                    Some(file) => file.read(at, to, count),
                    None => read_text(&text.bytes, at, to, count),
                }),
            },
        }
    }

    /// Reads at `place`, or at the offset, which advances by as much.
    #[inline]
    fn read_at(&self, place: Option<u64>, read: impl FnOnce(u64) -> Result<u64>) -> Result<u64> {
        if let Some(place) = place {
            return read(place);
        }
        let _offset = self.hold_offset();
        let at = self.offset();
        let done = read(at)?;
        self.set_offset(at + done);
        Ok(done)
    }

    /// `write`: at the description's offset, at `place`, or at the end.
    pub fn write(&self, from: u64, count: u64, place: Option<u64>) -> Result<u64> {
        if !self.can_write() {
            return Err(Errno::EBADF);
        }
        usercopy::check(from, count)?;
        let count = count.min(MOST);
        match &self.object {
            Object::File { node } => self.write_file(*node, from, count, place),
            Object::Pipe(pipe, _) => self.write_pipe(pipe, from, count),
            Object::Console(kind) => write_console(*kind, from, count),
            Object::Terminal(terminal) => terminal.write(from, count, self.is_nonblocking()),
            Object::Device(Device::Full, _) => Err(Errno::ENOSPC),
            Object::Device(..) => Ok(count),
            Object::Disk(disk) => {
                self.write_disk(place, count, |at, count| disk.write(at, from, count, self.is_direct()))
            }
            Object::Other(other) => other.write(self, from, count),
            Object::Directory { .. } | Object::Listing(_) => Err(Errno::EISDIR),
            Object::Text(text) => match &text.in_place {
                Some(file) => self.read_at(place, |at| file.write(at, from, count)),
                None => (upcalls().write_proc)(&text.path, from, count),
            },
        }
    }

    fn is_direct(&self) -> bool {
        self.flags() & linux::O_DIRECT != 0
    }

    /// Writes to a disk at `place`, or at the offset, as far as the process's limit for files allows.
    fn write_disk(&self, place: Option<u64>, count: u64, write: impl FnOnce(u64, u64) -> Result<u64>) -> Result<u64> {
        let _offset = if place.is_none() { self.hold_offset() } else { None };
        let at = place.unwrap_or_else(|| self.offset());
        let done = write(at, count)?;
        if place.is_none() {
            self.set_offset(at + done);
        }
        self.end_write(done)
    }

    /// Makes what was written durable, where the program opened the file so (`O_SYNC` has the bit `O_DSYNC`).
    pub(crate) fn end_write(&self, done: u64) -> Result<u64> {
        if done > 0 && self.flags() & linux::O_DSYNC != 0 {
            self.make_durable()?;
        }
        Ok(done)
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// `EINVAL` for what is neither a file nor a directory nor a disk; `EIO` or `ENOSPC` where a write failed.
    pub fn make_durable(&self) -> Result<()> {
        match &self.object {
            Object::File { node } | Object::Directory { node } => block_device::sync_file(*node),
            Object::Disk(disk) => disk.flush(),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes bytes of ExOS itself, all of them unless an error comes.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<u64> {
        match &self.object {
            Object::File { node } => self.write_bytes_to_file(*node, bytes),
            Object::Pipe(pipe, Side::Write | Side::Both) => self.write_bytes_to_pipe(pipe, bytes),
            Object::Other(other) => other.write_bytes(self, bytes),
            Object::Console(kind) => send(*kind, bytes),
            Object::Terminal(terminal) => terminal.write_bytes(bytes, self.is_nonblocking()),
            Object::Device(Device::Full, _) => Err(Errno::ENOSPC),
            Object::Device(..) => Ok(bytes.len() as u64),
            Object::Disk(disk) => {
                self.write_disk(None, bytes.len() as u64, |at, count| disk.write_bytes(at, &bytes[..count as usize]))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes bytes of ExOS to what may have to wait for its other side, as far as that takes no waiting: `EAGAIN`
    /// where nothing of them can be written now.
    pub fn write_now(&self, bytes: &[u8]) -> Result<u64> {
        match &self.object {
            Object::Other(other) => other.write_now(bytes),
            Object::Console(kind) => send_now(*kind, bytes),
            Object::Terminal(terminal) => terminal.write_now(bytes),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Waits until so many bytes may be written to such a thing, if they have to be written as one, or some.
    pub fn wait_to_write(&self, bytes: u64) -> Result<()> {
        match &self.object {
            Object::Other(other) => other.wait_to_write(bytes),
            Object::Console(_) => wait_for_room(FRAME as u64),
            Object::Terminal(terminal) => terminal.wait_to_write(),
            _ => Err(Errno::EINVAL),
        }
    }

    fn write_bytes_to_file(&self, node: u64, bytes: &[u8]) -> Result<u64> {
        let _offset = self.hold_offset();
        let at = if self.flags() & linux::O_APPEND != 0 { APPEND } else { self.offset() };
        let room = self.room_in_file(node, at, bytes.len() as u64)?;
        let bytes = &bytes[..room as usize];
        let (done, end) = client::files().lock().write(node, at, bytes)?;
        self.set_offset(end);
        self.end_write(done)
    }

    fn write_bytes_to_pipe(&self, pipe: &Pipe, bytes: &[u8]) -> Result<u64> {
        let mut done = 0;
        while done < bytes.len() {
            if !pipe.has_other(Side::Write) {
                return if done > 0 { Ok(done as u64) } else { Err(broken_pipe()) };
            }
            let now = pipe.write_bytes(&bytes[done..], || self.writes_packets())? as usize;
            done += now;
            if now == 0 && self.is_nonblocking() {
                return if done > 0 { Ok(done as u64) } else { Err(Errno::EAGAIN) };
            }
            if now == 0 {
                pipe.wait_to_write((bytes.len() - done) as u64)?;
            }
        }
        Ok(done as u64)
    }

    /// Whether an event has come.
    #[inline]
    pub fn is_ready(&self, event: Event) -> bool {
        match (&self.object, event) {
            (Object::Terminal(terminal), Event::Readable) => terminal.is_readable(),
            (Object::Terminal(terminal), Event::Writable) => terminal.is_writable(),
            (Object::Pipe(pipe, Side::Read | Side::Both), Event::Readable) => {
                pipe.ring().waiting() != Ok(0) || pipe.is_hung_up(Side::Read)
            }
            (Object::Pipe(pipe, Side::Write | Side::Both), Event::Writable) => {
                pipe.takes_some() || !pipe.has_other(Side::Write)
            }
            (Object::Pipe(..), _) => false,
            (Object::Other(other), event) => other.is_ready(event),
            (Object::Console(_), Event::Readable) => false,
            _ => true,
        }
    }

    /// What becomes true when an event comes that has not come yet.
    pub fn terms(&self, event: Event) -> Vec<Term> {
        match (&self.object, event) {
            (Object::Terminal(terminal), Event::Readable) => terminal.input_terms(terminal.waiting() + 1).to_vec(),
            (Object::Terminal(terminal), Event::Writable) => terminal.output_terms(),
            (Object::Pipe(pipe, Side::Read | Side::Both), Event::Readable) => pipe.readable().to_vec(),
            (Object::Pipe(pipe, Side::Write | Side::Both), Event::Writable) => {
                pipe.writable(unix_core::pipe::ring::ATOMIC).to_vec()
            }
            (Object::Pipe(..), _) => self.end_terms(),
            (Object::Other(other), event) => other.wait_terms(event),
            _ => Vec::new(),
        }
    }

    /// What becomes true when the other side is gone, or an error comes: that is told to those that ask for nothing.
    pub fn end_terms(&self) -> Vec<Term> {
        match &self.object {
            Object::Pipe(pipe, side) => pipe.changes(*side != Side::Write).to_vec(),
            Object::Terminal(terminal) => terminal.gone().to_vec(),
            Object::Other(other) => other.end_terms(),
            _ => Vec::new(),
        }
    }

    /// The running thread is about to wait for an event.
    pub fn note_waiter(&self, event: Event) {
        match &self.object {
            Object::Pipe(pipe, _) => pipe.note_waiter(event),
            Object::Other(other) => other.note_waiter(event),
            _ => {}
        }
    }

    /// A number that changes with each new event of a kind.
    pub fn stamp(&self, event: Event) -> u64 {
        match (&self.object, event) {
            (Object::Pipe(pipe, _), Event::Readable) => {
                pipe.ring().written << 1 | u64::from(pipe.has_other(Side::Read))
            }
            (Object::Pipe(pipe, _), Event::Writable) => pipe.ring().read << 1 | u64::from(pipe.has_other(Side::Write)),
            (Object::Other(other), event) => other.event_sequence(event),
            (Object::Terminal(terminal), Event::Readable) => terminal.input_stamp(),
            (Object::Text(text), Event::Readable) if text.is_mount_table() => client::mount_changes().load(Acquire),
            (_, event) => u64::from(self.is_ready(event)),
        }
    }

    /// What becomes true when the stamp changes.
    pub fn changes(&self, event: Event) -> Vec<Term> {
        match (&self.object, event) {
            (Object::Pipe(pipe, Side::Read | Side::Both), Event::Readable) => pipe.changes(true).to_vec(),
            (Object::Pipe(pipe, Side::Write | Side::Both), Event::Writable) => pipe.changes(false).to_vec(),
            (Object::Pipe(..), _) => self.end_terms(),
            (Object::Other(other), event) => other.edge_terms(event),
            (Object::Terminal(terminal), Event::Readable) => terminal.input_changes().to_vec(),
            (Object::Text(text), Event::Readable) => text.mount_change(),
            (_, event) => self.terms(event),
        }
    }

    /// Whether bytes wait in a pipe; everything else counts as having some.
    pub fn has_data(&self) -> bool {
        match &self.object {
            Object::Pipe(pipe, Side::Read) => pipe.ring().waiting() != Ok(0),
            Object::Other(other) => other.is_ready(Event::Readable),
            _ => true,
        }
    }

    /// One more open description of the same object.
    pub fn refer_object(&self) {
        if let Object::Pipe(pipe, side) = &self.object {
            pipe.add(*side);
        }
    }

    /// Whether the other end is gone.
    #[inline]
    pub fn is_hung_up(&self) -> bool {
        match &self.object {
            Object::Pipe(pipe, side) => pipe.is_hung_up(*side),
            Object::Terminal(terminal) => terminal.is_hung_up(),
            Object::Other(other) => other.is_hung_up(),
            _ => false,
        }
    }

    fn read_pipe(&self, pipe: &Pipe, to: u64, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        loop {
            let waiting = pipe.ring().waiting()?;
            if waiting > 0 {
                let reachable = usercopy::prepare_checked(to, count.min(waiting), true)?;
                let done = pipe.read(to, reachable)?;
                if done > 0 {
                    return Ok(done);
                }
            }
            if !pipe.has_other(Side::Read) && pipe.ring().waiting()? == 0 {
                return Ok(0);
            }
            if self.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            pipe.wait_to_read()?;
        }
    }

    /// What one read of a pipe gives, into a buffer of ExOS.
    pub fn read_from_pipe(&self, pipe: &Pipe, most: u64) -> Result<Vec<u8>> {
        loop {
            let waiting = pipe.ring().waiting()?;
            let bytes = pipe.read_bytes(most.min(waiting))?;
            let is_at_end = || Ok::<_, Errno>(!pipe.has_other(Side::Read) && pipe.ring().waiting()? == 0);
            if !bytes.is_empty() || most == 0 || is_at_end()? {
                return Ok(bytes);
            }
            if self.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            pipe.wait_to_read()?;
        }
    }

    fn write_pipe(&self, pipe: &Pipe, from: u64, count: u64) -> Result<u64> {
        let mut done = 0;
        while done < count {
            if !pipe.has_other(Side::Write) {
                return if done > 0 { Ok(done) } else { Err(broken_pipe()) };
            }
            let wanted = (count - done).min(unix_core::pipe::ring::CAPACITY);
            let reachable = match usercopy::prepare_checked(from.wrapping_add(done), wanted, false) {
                Err(_) if done > 0 => return Ok(done),
                outcome => outcome?,
            };
            let now = pipe.write(from + done, reachable, || self.writes_packets())?;
            done += now;
            if now > 0 {
                continue;
            }
            if self.is_nonblocking() {
                return if done > 0 { Ok(done) } else { Err(Errno::EAGAIN) };
            }
            match pipe.wait_to_write(reachable) {
                Err(_) if done > 0 => return Ok(done),
                outcome => outcome?,
            };
        }
        Ok(done)
    }

    /// Writes bytes of ExOS at a place of its file, as far as the process's limit allows.
    pub(crate) fn write_at(&self, node: u64, at: u64, bytes: &[u8]) -> Result<u64> {
        let room = self.room_in_file(node, at, bytes.len() as u64)?;
        client::files().lock().write(node, at, &bytes[..room as usize]).map(|(done, _)| done)
    }

    /// How many bytes the process may write at a place of a file.
    fn room_in_file(&self, node: u64, at: u64, count: u64) -> Result<u64> {
        if attributes().limits.lock().soft(linux::RLIMIT_FSIZE) == UNLIMITED {
            return Ok(count);
        }
        let at = if at == APPEND { client::files().lock().status_of(node)?.size } else { at };
        super::file_room::file_room(at, count)
    }

    /// `write` at the end, whatever the description's flags are; the offset goes there if `moves`.
    pub fn append(&self, from: u64, count: u64, moves: bool) -> Result<u64> {
        match self.object {
            Object::File { node } if self.can_write() => {
                let place = if moves { None } else { Some(APPEND) };
                self.write_file_at(node, from, count, place, true)
            }
            _ => self.write(from, count, None),
        }
    }

    fn write_file(&self, node: u64, from: u64, count: u64, place: Option<u64>) -> Result<u64> {
        self.write_file_at(node, from, count, place, self.flags() & linux::O_APPEND != 0)
    }

    fn write_file_at(&self, node: u64, from: u64, count: u64, place: Option<u64>, append: bool) -> Result<u64> {
        let _offset = if place.is_none() { self.hold_offset() } else { None };
        let mut at = if append { APPEND } else { place.unwrap_or_else(|| self.offset()) };
        let count = self.room_in_file(node, at, count)?;
        let mut done = 0;
        let mut end = at;
        while done < count {
            let (from, bytes) = (from.saturating_add(done), (count - done).min(WINDOW_BYTES));
            let written = usercopy::with_range(from, bytes, false, |reachable| {
                let written = client::files().lock().write_from_program(node, at, from, reachable)?;
                Ok((written, reachable))
            });
            match written {
                Err(_) if done > 0 => break,
                outcome => {
                    let ((now, reached), reachable) = outcome?;
                    (done, end) = (done + now, reached);
                    critical_section::give_way();
                    if now < reachable {
                        break;
                    }
                }
            }
            at = if append { APPEND } else { end };
        }
        if place.is_none() && done > 0 {
            self.set_offset(end);
        }
        self.end_write(done)
    }
}

/// There is no reader any more: a signal, and the error.
pub(crate) fn broken_pipe() -> Errno {
    crate::signal::raise_here(linux::SIGPIPE);
    Errno::EPIPE
}

fn read_file(node: u64, at: u64, to: u64, count: u64) -> Result<u64> {
    let mut done = 0;
    while done < count {
        let (to, bytes) = (to.saturating_add(done), (count - done).min(READ_BYTES));
        let read = usercopy::with_range(to, bytes, true, |reachable| {
            let now = client::files().lock().read_to_program(node, at.saturating_add(done), to, reachable)?;
            Ok((now, reachable))
        });
        let (now, reachable) = match read {
            Err(_) if done > 0 => break,
            outcome => outcome?,
        };
        done += now;
        critical_section::give_way();
        if now < reachable && (now == 0 || !now.is_multiple_of(WINDOW_BYTES)) {
            break;
        }
    }
    Ok(done)
}

fn read_text(text: &[u8], at: u64, to: u64, count: u64) -> Result<u64> {
    let start = usize::try_from(at).unwrap_or(usize::MAX).min(text.len());
    let end = start.saturating_add(usize::try_from(count).unwrap_or(usize::MAX)).min(text.len());
    usercopy::write(to, &text[start..end])?;
    Ok((end - start) as u64)
}

fn read_device(device: Device, to: u64, count: u64) -> Result<u64> {
    let most = count.min(1 << 20);
    match device {
        Device::Null => Ok(0),
        Device::Zero | Device::Full => {
            let zeros = vec![0; most.min(4096) as usize];
            let mut done = 0;
            while done < most {
                let now = (most - done).min(zeros.len() as u64);
                usercopy::write(to.saturating_add(done), &zeros[..now as usize])?;
                done += now;
            }
            Ok(most)
        }
        Device::Random => {
            usercopy::write(to, &random(most.min(4096) as usize)?)?;
            Ok(most.min(4096))
        }
    }
}

/// Random bytes from the kernel.
pub fn random(count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    for some in bytes.chunks_mut(abi::limits::ENTROPY_BYTES) {
        crate::hw::entropy(some)?;
    }
    Ok(bytes)
}
