//! Devices: what the machine has, and transfers between a device and pages of programs.
//!
//! A key to `[DEVICE, kind, n]` opens the n-th device of a kind (see [`crate::capability::DEVICE`]). Its holder binds
//! the interrupt to event bits and submits requests. The kernel alone writes descriptors. A page of a request bears a
//! device pin until the request ends; force ends no device pin.

use core::sync::atomic::AtomicU64;

/// Kinds of device: the second component of a device's name.
pub mod kind {
    /// No device.
    pub const NONE: u64 = 0;
    /// The console under the host channel.
    pub const CHANNEL: u64 = crate::capability::HOST_CHANNEL;
    /// A disk.
    pub const DISK: u64 = 2;
    /// A source of entropy.
    pub const ENTROPY: u64 = 3;
    /// A network card. No driver yet.
    pub const NETWORK: u64 = 4;
}

/// State of a device, in [`DeviceInfo::state`].
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No driver uses it.
    Unused = 0,
    /// It works.
    Working = 1,
    /// It is being reset; requests end with [`status::RESET`], and none is taken.
    Resetting = 2,
    /// It broke the rules too often, or did not come out of a reset: it is left alone.
    Dead = 3,
}

/// One device, exposed. 128 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceInfo {
    /// Its [`kind`].
    pub kind: AtomicU64,
    /// Its number among the devices of its kind: the third component of its name. Network cards count from 1.
    pub number: AtomicU64,
    /// [`State`].
    pub state: AtomicU64,
    /// Bits of [`feature`].
    pub features: AtomicU64,
    /// Bytes of a disk.
    pub capacity: AtomicU64,
    /// Bytes of a block, which the device prefers as unit.
    pub block: AtomicU64,
    /// Queues that requests can be submitted to.
    pub queues: AtomicU64,
    /// Requests that it can have at once.
    pub depth: AtomicU64,
    /// Requests (0..32) and pages (32..64) that can be submitted now.
    pub room: AtomicU64,
    /// Interrupts.
    pub interrupts: AtomicU64,
    /// Requests that ended.
    pub completed: AtomicU64,
    /// Requests that ended with an error.
    pub errors: AtomicU64,
    /// Times that it was reset, because it broke the rules of its queue or kept a request for too long.
    pub resets: AtomicU64,
    /// Environment that gets [`Self::bits`]; 0: none.
    pub bound: AtomicU64,
    /// Event bits that the end of a request raises there.
    pub bits: AtomicU64,
    /// Flushes that ended without error.
    pub flushes: AtomicU64,
}

/// Bits of [`DeviceInfo::features`].
pub mod feature {
    /// The disk cannot be written.
    pub const READ_ONLY: u64 = 1 << 0;
    /// The disk has a cache, which [`super::operation::FLUSH`] empties. Without it a write is durable when it ends.
    pub const FLUSH: u64 = 1 << 1;
}

/// Operations of a [`TransferRow`], in its low 8 bits.
pub mod operation {
    /// From the disk into the page.
    pub const READ: u64 = 0;
    /// From the page to the disk.
    pub const WRITE: u64 = 1;
    /// Makes all writes that ended before durable. It has no page.
    pub const FLUSH: u64 = 2;
    /// Bit: the next row belongs to the same request.
    pub const MORE: u64 = 1 << 8;
    /// Bit from which on the key index stands by which the caller owns the pages of the row. 16 bits.
    pub const KEY_SHIFT: u32 = 16;
}

/// What the kernel writes into the status word of a request when it ends.
pub mod status {
    /// Done.
    pub const DONE: u64 = 1;
    /// The device reports an error.
    pub const FAILED: u64 = 2;
    /// The device does not know the operation.
    pub const UNSUPPORTED: u64 = 3;
    /// The device was reset meanwhile: whether the request was carried out is not known.
    pub const RESET: u64 = 4;
}

/// One row of `device_submit`: one piece of a page. Rows joined by [`operation::MORE`] are one request, whose pieces
/// lie one behind the other on the disk. 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TransferRow {
    /// The [`operation`], with its bits and the key.
    pub operation: u64,
    /// First byte on the disk; of the first row of a request, 0 in the others and in a flush.
    pub place: u64,
    /// The page (0..32), the first byte in it (32..48) and the bytes (48..64): multiples of [`SECTOR`]. 0 in a flush.
    pub memory: u64,
    /// The page (0..32) and the index in it (32..48) of the status word; of the first row of a request, 0 in the
    /// others.
    pub status: u64,
}

impl TransferRow {
    /// A piece of a page as [`Self::memory`] has it.
    pub const fn piece(page: crate::PageNumber, offset: u64, bytes: u64) -> u64 {
        page.0 | offset << 32 | bytes << 48
    }

    /// A status word as [`Self::status`] has it.
    pub const fn word(page: crate::PageNumber, index: u64) -> u64 {
        page.0 | index << 32
    }
}

/// Bytes of a sector, the unit of transfers.
pub const SECTOR: u64 = 512;

const _: () = assert!(size_of::<DeviceInfo>() == 128 && size_of::<TransferRow>() == 32);
