//! Queues of messages with types (msgop(2)).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// Bytes in one message.
pub const MOST_BYTES: u64 = 8192;
/// Bytes in a queue, unless its owner changes that.
pub const QUEUE_BYTES: u64 = 16384;
/// Flag of a receiver: too long a message is cut.
pub const NO_ERROR: u32 = 0o10000;
/// Flag of a receiver: any type but this one.
pub const EXCEPT: u32 = 0o20000;
/// Flag of a receiver: a copy of the message in a place, which `kind` tells.
pub const COPY: u32 = 0o40000;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its type, more than 0.
    pub kind: i64,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// A queue.
#[derive(Clone, Debug)]
pub struct Queue {
    messages: VecDeque<Message>,
    /// Bytes that it may hold.
    pub most: u64,
    /// Seconds: last message sent, received, last change.
    pub times: [u64; 3],
    /// The processes that sent last, and received last.
    pub processes: [u64; 2],
}

impl Queue {
    /// An empty one.
    pub const fn new(now: u64) -> Self {
        Self { messages: VecDeque::new(), most: QUEUE_BYTES, times: [0, 0, now], processes: [0; 2] }
    }

    /// Messages in it.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.messages.iter().map(|message| message.bytes.len() as u64).sum()
    }

    /// Puts a message in; `false` where there is no room.
    ///
    /// # Errors
    /// `EINVAL` for a type or a length that cannot be.
    pub fn send(&mut self, message: Message, process: u64, now: u64) -> Result<bool> {
        let length = message.bytes.len() as u64;
        if message.kind < 1 || length > MOST_BYTES {
            return Err(Errno::EINVAL);
        }
        if self.bytes() + length > self.most || self.messages.len() as u64 >= self.most {
            return Ok(false);
        }
        self.messages.push_back(message);
        (self.times[0], self.processes[0]) = (now, process);
        Ok(true)
    }

    /// Takes the message out that is meant by `kind`: 0 the first, above 0 the first of that type, below 0 the first
    /// of the lowest type up to that. Nothing where there is none.
    ///
    /// # Errors
    /// `E2BIG` for a message that is too long, `ENOMSG` where none is in the place to copy.
    pub fn receive(&mut self, kind: i64, room: u64, flags: u32, (process, now): (u64, u64)) -> Result<Option<Message>> {
        if flags & COPY != 0 {
            let place = usize::try_from(kind).ok();
            let copied = place.and_then(|place| self.messages.get(place)).ok_or(Errno::ENOMSG)?;
            return if copied.bytes.len() as u64 > room { Err(Errno::E2BIG) } else { Ok(Some(copied.clone())) };
        }
        let Some(place) = self.place(kind, flags) else { return Ok(None) };
        if self.messages[place].bytes.len() as u64 > room && flags & NO_ERROR == 0 {
            return Err(Errno::E2BIG);
        }
        let message = self.messages.remove(place).map(|mut message| {
            message.bytes.truncate(room as usize);
            message
        });
        (self.times[1], self.processes[1]) = (now, process);
        Ok(message)
    }

    fn place(&self, kind: i64, flags: u32) -> Option<usize> {
        match kind {
            0 => (!self.messages.is_empty()).then_some(0),
            1.. if flags & EXCEPT != 0 => self.messages.iter().position(|message| message.kind != kind),
            1.. => self.messages.iter().position(|message| message.kind == kind),
            _ => {
                let most = kind.checked_neg().unwrap_or(i64::MAX);
                let lowest = self.messages.iter().map(|message| message.kind).filter(|kind| *kind <= most).min()?;
                self.messages.iter().position(|message| message.kind == lowest)
            }
        }
    }
}
