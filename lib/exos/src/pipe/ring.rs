//! The ring of a pipe: two counts that only grow, and the bytes between them.
//!
//! Pure. The counts lie in memory that relatives write, so that each reader checks them: what makes no sense is `EIO`,
//! never a wrong address.

use crate::errno::{Errno, Result};

/// Bytes that a pipe holds, unless its size was changed: as on Linux.
pub const CAPACITY: u64 = 65536;
/// Bytes that are written as one.
pub const ATOMIC: u64 = 4096;

/// The two counts, and what the pipe may not hold, as somebody found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bytes ever written.
    pub written: u64,
    /// Bytes ever read.
    pub read: u64,
    /// Bytes of its capacity that it may not hold (`F_SETPIPE_SZ`).
    pub withheld: u64,
}

/// A stretch of the ring without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Offset of its first byte in the ring.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

impl Ring {
    /// Bytes that wait to be read.
    pub fn waiting(self) -> Result<u64> {
        let waiting = self.written.wrapping_sub(self.read);
        if waiting <= CAPACITY { Ok(waiting) } else { Err(Errno::EIO) }
    }

    /// Bytes that it may hold.
    pub const fn size(self) -> u64 {
        CAPACITY - if self.withheld < CAPACITY - ATOMIC { self.withheld } else { CAPACITY - ATOMIC }
    }

    /// Bytes that can be written.
    pub fn room(self) -> Result<u64> {
        Ok(self.size().saturating_sub(self.waiting()?))
    }

    /// The first stretch to read of at most `bytes` bytes.
    pub fn to_read(self, bytes: u64) -> Result<Stretch> {
        Ok(stretch(self.read, bytes.min(self.waiting()?)))
    }

    /// The first stretch to write of at most `bytes` bytes.
    pub fn to_write(self, bytes: u64) -> Result<Stretch> {
        Ok(self.to_write_into(self.room()?, bytes))
    }

    /// The same where the room is known.
    pub fn to_write_into(self, room: u64, bytes: u64) -> Stretch {
        stretch(self.written, bytes.min(room))
    }

    /// The room that a write of `bytes` bytes needs to begin: all of a small one must fit.
    pub const fn needed(bytes: u64) -> u64 {
        if bytes <= ATOMIC { bytes } else { 1 }
    }

    /// Whether a write of `bytes` bytes may begin.
    pub fn takes(self, bytes: u64) -> Result<bool> {
        Ok(self.room()? >= Self::needed(bytes))
    }
}

fn stretch(position: u64, bytes: u64) -> Stretch {
    let offset = position % CAPACITY;
    Stretch { offset, bytes: bytes.min(CAPACITY - offset) }
}
