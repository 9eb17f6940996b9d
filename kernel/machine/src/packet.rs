//! Frames in memory that devices or programs may write: described, copied, never a Rust slice.
//!
//! The driver of a network card hands a [`Received`] to the kernel proper, and takes an [`Outgoing`] from it. The 8
//! bytes before the first piece of a received frame belong to the same buffer: the kernel writes there what filters
//! see before the frame.

use crate::dma::{DeviceBuffer, Part};
use crate::memory::Generation;
use abi::{EnvironmentId, PageNumber};

/// Bytes before a frame that the kernel writes and filters see: interface, flags, length.
pub const PREFIX: usize = 8;

/// A run of bytes in a buffer of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece {
    /// Its address in the direct map.
    pub(crate) address: u64,
    pub(crate) length: usize,
}

impl Piece {
    /// Bytes.
    #[inline(always)]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Writes what filters see before a frame.
    pub fn write_prefix(&self, bytes: [u8; PREFIX]) {
        let word = u64::from_ne_bytes(bytes);
        // SAFETY: a piece is made only with so many bytes of its buffer before it, which no reference covers; a device
        // that writes there, too, spoils only what filters see of its own frame.
        unsafe { (self.address.wrapping_sub(PREFIX as u64) as *mut u64).write_unaligned(word) };
    }
}

impl DeviceBuffer {
    /// A run of its bytes as a piece of a frame. The first piece of a frame has [`PREFIX`] bytes of the buffer before
    /// it.
    #[inline(always)]
    pub fn piece(&self, offset: usize, length: usize) -> Piece {
        assert!(offset >= PREFIX, "the kernel writes before the first piece");
        Piece { address: self.address(offset, length), length }
    }
}

/// What a device says, or is asked to do, about checksum and size of a frame. The fields are those of virtio's header
/// (virtio 1.2, section 5.1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The device has verified the checksum. Of received frames only.
    pub verified: bool,
    /// A checksum is partial: it covers what begins at `start` and belongs at `start + offset`.
    pub partial: bool,
    /// Where the checksum begins to count.
    pub start: u16,
    /// Where it is stored, from `start` on.
    pub offset: u16,
    /// Kind of segmentation as virtio numbers it; 0: none.
    pub segmentation: u8,
    /// Bytes of payload in each segment.
    pub segment: u16,
}

/// A frame that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Number of the interface.
    pub interface: u64,
    /// Where it lies, in order; one piece at least. The buffers are the driver's again when the call returns.
    pub pieces: &'a [Piece],
    /// What the device says about it.
    pub offload: Offload,
}

/// Whose frame it is, and where its end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The environment that is charged for its pins; `NONE` once that has died.
    pub sender: EnvironmentId,
    /// The ring that it stood in.
    pub ring: (PageNumber, Generation),
    /// Its slot there.
    pub slot: usize,
    /// Device pins.
    pub pins: u64,
}

/// A frame to send: the header by value, the payload by reference.
#[derive(Debug)]
pub struct Outgoing<P> {
    /// Copied by the driver before it returns.
    pub header: Piece,
    /// The payload: pinned pages. The pins come back when the device is done.
    pub parts: P,
    /// What the device is asked for; all zero where it offers nothing.
    pub offload: Offload,
    /// What the driver reports with the end of the transmission.
    pub origin: Origin,
}

/// What the kernel proper asks of the driver of a network card.
pub trait Card {
    /// Frames with so many parts each that can be sent now.
    fn room(&self, parts: usize) -> usize;
    /// Takes a frame, for which there is room. The device learns of it by [`Card::notify`].
    fn send<P: ExactSizeIterator<Item = Part>>(&mut self, frame: Outgoing<P>);
    /// Has the device look at what it was given.
    fn notify(&mut self);
}
