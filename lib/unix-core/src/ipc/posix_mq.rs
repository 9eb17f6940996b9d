//! Queues of messages with priorities, under names (mq_overview(7)).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use vfs::namespace::{FsCredentials, access};

/// Messages and bytes of each that a queue may have: unless it is said, and at most.
pub const DEFAULT: [u64; 2] = [10, 8192];
/// The most that may be asked for.
pub const HIGHEST: [u64; 2] = [256, 16384];
/// The first priority that is too high.
pub const PRIORITIES: u64 = 32768;
/// Bytes of a name.
pub const NAME_BYTES: usize = 255;
/// Queues that there can be.
pub const MOST_QUEUES: usize = 256;

/// A process that asked to be told when a message comes to an empty queue: process, signal (0: none is sent), value.
pub type Notice = [u64; 3];

/// A queue.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its owner.
    pub owner: FsCredentials,
    /// Permissions to read and write.
    pub mode: u32,
    /// Messages, and bytes of each, that it may have.
    pub most: [u64; 2],
    /// The process to notify.
    pub notice: Option<Notice>,
    /// The notice that the last message used up which met one.
    pub used_notice: Option<Notice>,
    /// Open descriptions of it.
    pub opens: u64,
    /// Messages that wait, by priority.
    messages: BTreeMap<u64, VecDeque<Vec<u8>>>,
}

impl Queue {
    /// Messages in it.
    pub fn len(&self) -> u64 {
        self.messages.values().map(|some| some.len() as u64).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.messages.values().flatten().map(|bytes| bytes.len() as u64).sum()
    }

    /// Puts a message in; `None` where there is no room, else the process to notify.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EINVAL` for too high a priority.
    pub fn send(&mut self, priority: u64, bytes: Vec<u8>) -> Result<Option<Option<Notice>>> {
        if priority >= PRIORITIES {
            return Err(Errno::EINVAL);
        }
        if bytes.len() as u64 > self.most[1] {
            return Err(Errno::EMSGSIZE);
        }
        if self.len() >= self.most[0] {
            return Ok(None);
        }
        let was_empty = self.is_empty();
        self.messages.entry(priority).or_default().push_back(bytes);
        let notice = if was_empty { self.notice.take() } else { None };
        self.used_notice = notice.or(self.used_notice);
        Ok(Some(notice))
    }

    /// Takes the oldest message of the highest priority; nothing where there is none.
    ///
    /// # Errors
    /// `EMSGSIZE` where there is less room than a message may need.
    pub fn receive(&mut self, room: u64) -> Result<Option<(u64, Vec<u8>)>> {
        if room < self.most[1] {
            return Err(Errno::EMSGSIZE);
        }
        let Some(mut highest) = self.messages.last_entry() else { return Ok(None) };
        let (priority, message) = (*highest.key(), highest.get_mut().pop_front());
        if highest.get().is_empty() {
            highest.remove();
        }
        Ok(message.map(|message| (priority, message)))
    }

    fn check(&self, who: FsCredentials, wanted: u32) -> Result<()> {
        let shift = if who.uid == self.owner.uid { 6 } else { 3 * u32::from(who.gid == self.owner.gid) };
        let is_reader = wanted == access::READ && who.has(linux::CAP_DAC_READ_SEARCH);
        let granted = is_reader || who.has(linux::CAP_DAC_OVERRIDE) || self.mode >> shift & wanted == wanted;
        if granted { Ok(()) } else { Err(Errno::EACCES) }
    }
}

/// All queues, by number, and the names of those that have one.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    queues: BTreeMap<u64, Queue>,
    names: BTreeMap<Vec<u8>, u64>,
    next: u64,
}

/// How a queue is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Whether it is made where it is not there, and whether it must not be there.
    pub create: (bool, bool),
    /// Access that is wanted, as bits of one digit of a mode.
    pub wanted: u32,
    /// Mode of a new one.
    pub mode: u32,
    /// What a new one may hold; nothing: as usual.
    pub most: Option<[u64; 2]>,
}

impl Queues {
    /// Opens a queue; its number.
    ///
    /// # Errors
    /// Those of `mq_open`.
    pub fn open(&mut self, name: &[u8], who: FsCredentials, how: Opening) -> Result<u64> {
        check_name(name)?;
        if let Some(number) = self.names.get(name).copied() {
            if how.create == (true, true) {
                return Err(Errno::EEXIST);
            }
            let queue = self.find(number)?;
            queue.check(who, how.wanted)?;
            queue.opens += 1;
            return Ok(number);
        }
        if !how.create.0 {
            return Err(Errno::ENOENT);
        }
        let most = how.most.unwrap_or(DEFAULT);
        if most.iter().zip(HIGHEST).any(|(most, highest)| *most == 0 || *most > highest) {
            return Err(Errno::EINVAL);
        }
        if self.queues.len() >= MOST_QUEUES {
            return Err(Errno::ENOSPC);
        }
        self.next += 1;
        let messages = BTreeMap::new();
        let queue =
            Queue { owner: who, mode: how.mode & 0o777, most, notice: None, used_notice: None, opens: 1, messages };
        self.queues.insert(self.next, queue);
        self.names.insert(name.to_vec(), self.next);
        Ok(self.next)
    }

    /// The queue with a number.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn find(&mut self, number: u64) -> Result<&mut Queue> {
        self.queues.get_mut(&number).ok_or(Errno::EBADF)
    }

    /// Takes a name away; the queue goes with its last description.
    ///
    /// # Errors
    /// Those of `mq_unlink`.
    pub fn unlink(&mut self, name: &[u8], who: FsCredentials) -> Result<()> {
        check_name(name)?;
        let number = *self.names.get(name).ok_or(Errno::ENOENT)?;
        if !who.may_own(self.find(number)?.owner.uid) {
            return Err(Errno::EACCES);
        }
        self.names.remove(name);
        self.forget(number);
        Ok(())
    }

    /// The last descriptor of a description was closed.
    pub fn close(&mut self, number: u64) {
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.opens = queue.opens.saturating_sub(1);
        }
        self.forget(number);
    }

    fn forget(&mut self, number: u64) {
        let unused = self.queues.get(&number).is_some_and(|queue| queue.opens == 0);
        if unused && !self.names.values().any(|named| *named == number) {
            self.queues.remove(&number);
        }
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    match name {
        [] => Err(Errno::EINVAL),
        name if name.len() > NAME_BYTES => Err(Errno::ENAMETOOLONG),
        b"." | b".." => Err(Errno::EACCES),
        name if name.contains(&b'/') => Err(Errno::EACCES),
        _ => Ok(()),
    }
}
