//! The ring of a pipe: two counts that only grow, and the bytes between them.
//!
//! Pure. The counts lie in memory that relatives write, so that each reader checks them: what makes no sense is `EIO`,
//! never a wrong address.

use linux_abi::errno::{Errno, Result};

/// Bytes that a pipe holds, unless its size was changed: as on Linux.
pub const CAPACITY: u64 = 65536;
/// Bytes that one may hold that has grown, at most.
pub const MOST: u64 = CAPACITY << DOUBLED_MOST;
/// Bytes that are written as one.
pub const ATOMIC: u64 = 4096;

const DOUBLED_MOST: u32 = 4;
/// Bit of a shape: packets were written; see `packets`.
pub const PACKETS: u64 = 1 << 63;

/// The two counts, and the shape of the pipe, as they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bytes ever written.
    pub written: u64,
    /// Bytes ever read.
    pub read: u64,
    /// Bytes of its capacity that it may not hold (`F_SETPIPE_SZ`; 0..32), how often the capacity was doubled (32..63),
    /// and [`PACKETS`].
    pub shape: u64,
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
    #[inline]
    pub fn waiting(self) -> Result<u64> {
        let waiting = self.written.wrapping_sub(self.read);
        if waiting <= self.capacity() { Ok(waiting) } else { Err(Errno::EIO) }
    }

    /// Bytes that there is a place for.
    #[inline]
    pub const fn capacity(self) -> u64 {
        if self.shape == 0 { CAPACITY } else { self.shaped().0 }
    }

    /// Bytes that it may hold.
    #[inline]
    pub const fn size(self) -> u64 {
        if self.shape == 0 { CAPACITY } else { self.shaped().1 }
    }

    /// Both, of one whose size was changed.
    #[cold]
    const fn shaped(self) -> (u64, u64) {
        let doubled = (self.shape & !PACKETS) >> 32;
        let capacity = CAPACITY << if doubled < DOUBLED_MOST as u64 { doubled } else { DOUBLED_MOST as u64 };
        let (withheld, most) = (self.shape & 0xffff_ffff, capacity - ATOMIC);
        (capacity, capacity - if withheld < most { withheld } else { most })
    }

    /// The shape of one that is to hold `size` bytes where it has a place for as many as this one, or for more.
    pub const fn shape_of(self, size: u64) -> u64 {
        let (mut doubled, mut capacity) = ((self.capacity() / CAPACITY).ilog2() as u64, self.capacity());
        while capacity < size {
            (doubled, capacity) = (doubled + 1, capacity * 2);
        }
        self.shape & PACKETS | doubled << 32 | (capacity - size)
    }

    /// Bytes that can be written.
    #[inline]
    pub fn room(self) -> Result<u64> {
        Ok(self.size().saturating_sub(self.waiting()?))
    }

    /// The first stretch to read of at most `bytes` bytes.
    #[inline]
    pub fn to_read(self, bytes: u64) -> Result<Stretch> {
        Ok(self.stretch(self.read, bytes.min(self.waiting()?)))
    }

    /// The first stretch to write of at most `bytes` bytes.
    #[inline]
    pub fn to_write(self, bytes: u64) -> Result<Stretch> {
        Ok(self.to_write_into(self.room()?, bytes))
    }

    /// The same where the room is known.
    #[inline]
    pub fn to_write_into(self, room: u64, bytes: u64) -> Stretch {
        self.stretch(self.written, bytes.min(room))
    }

    /// What lies at a position, up to the next break: the pages that it began with lie apart from those that came
    /// later.
    #[inline]
    pub const fn stretch(self, position: u64, bytes: u64) -> Stretch {
        if self.shape != 0 {
            return self.stretch_of_shaped(position, bytes);
        }
        up_to(position % CAPACITY, bytes, CAPACITY)
    }

    #[cold]
    const fn stretch_of_shaped(self, position: u64, bytes: u64) -> Stretch {
        let offset = position & (self.capacity() - 1);
        up_to(offset, bytes, if offset < CAPACITY { CAPACITY } else { self.capacity() })
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

const fn up_to(offset: u64, bytes: u64, end: u64) -> Stretch {
    Stretch { offset, bytes: if bytes < end - offset { bytes } else { end - offset } }
}
