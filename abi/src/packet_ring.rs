//! Packet rings: pages of a program that the kernel puts received frames into and takes frames to send from.
//!
//! One page becomes the kernel's own record of the ring and is not mapped. The others stay ordinary pages, mapped by
//! programs. The first is the control page, then come those of the receive slots, two slots each, then those of the
//! send slots, eight slots each. A page is in one ring at most.
//!
//! *Receiving.* The kernel fills slots in their order, round and round. A slot whose owner word is 0 is the kernel's.
//! The kernel writes the frame, then the owner word, then adds to [`RECEIVED`]. The program gives a slot back by
//! storing 0. A frame lies from [`FRAME_OFFSET`] on in its first slot and continues at the beginning of the next ones.
//!
//! *Sending.* The program fills a send slot and calls `packet_send`. The kernel stores 0 in the slot's first word when
//! the frame is sent, or when the device failed.

/// Words of the control page, in bytes from its beginning: frames received. The kernel adds to it.
pub const RECEIVED: u64 = 0x000;
/// Frames dropped because a slot that they needed was not free.
pub const DROPPED_FULL: u64 = 0x008;
/// Frames dropped because they need more slots than the ring has.
pub const DROPPED_LONG: u64 = 0x010;
/// Frames sent.
pub const SENT: u64 = 0x028;
/// Frames that the device could not send.
pub const SEND_ERRORS: u64 = 0x030;
/// 1 from when a page of the ring was taken by force: the kernel uses the ring no more.
pub const ENDED: u64 = 0x038;
/// The first of the words of the receive slots: 16 bytes a slot, owner and time.
pub const SLOTS: u64 = 0x100;

/// Bytes of a receive slot.
pub const RECEIVE_SLOT: u64 = 2048;
/// Where a frame begins in its first slot.
pub const FRAME_OFFSET: u64 = 2;
/// Bytes of a send slot.
pub const SEND_SLOT: u64 = 512;

/// The owner word of a receive slot: bytes of the frame in bits 0..18, further slots in 18..24, these bits. The tag of
/// the filter stands in 32..48, the interface in 48..56. The time of arrival in nanoseconds since boot follows (0..48),
/// with the size of a segment (48..64).
pub mod owner {
    /// Bits of the length.
    pub const LENGTH: u64 = (1 << 18) - 1;
    /// Where the number of further slots stands; 6 bits.
    pub const FURTHER_SHIFT: u32 = 18;
    /// The device has verified the checksum.
    pub const CHECKSUM_GOOD: u64 = 1 << 24;
    /// The checksum covers only a part: the sender left the rest to a device.
    pub const CHECKSUM_PARTIAL: u64 = 1 << 25;
    /// Where the kind of segmentation stands; 3 bits.
    pub const SEGMENTATION_SHIFT: u32 = 26;
    /// The slot holds the rest of the frame before it.
    pub const CONTINUED: u64 = 1 << 29;
    /// Where the tag stands.
    pub const TAG_SHIFT: u32 = 32;
    /// Where the interface stands.
    pub const INTERFACE_SHIFT: u32 = 48;
}

/// A send slot, as a program fills it. 512 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendSlot {
    /// 1: to be sent; the kernel stores 0.
    pub state: u64,
    /// The filter under whose template it is sent.
    pub filter: u64,
    /// 0, or what the device does: the byte where the checksum begins (0..16), where it is stored from there on
    /// (16..32), 1 to compute it (32..40). The kind of segmentation stands in 40..48, the size of a segment in 48..64.
    pub offload: u64,
    /// Bytes of the header (0..8), segments that follow it (8..16).
    pub counts: u64,
    /// The header: the first bytes of the frame.
    pub header: [u64; 16],
    /// The rest of the frame: page (0..32), first byte in it (32..44), bytes (44..64) of each segment.
    pub segments: [u64; 43],
    /// Not used.
    pub unused: u64,
}

impl SendSlot {
    /// A segment as [`Self::segments`] has it.
    pub const fn segment(page: crate::PageNumber, offset: u64, bytes: u64) -> u64 {
        page.0 | offset << 32 | bytes << 44
    }
}

/// What `page_become` makes a ring of.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSpecification {
    /// Receive slots: a multiple of 2, from 8 on.
    pub receive_slots: u64,
    /// Send slots: a multiple of 8, or 0.
    pub send_slots: u64,
    /// Address of the page numbers: the control page, then two receive slots a page, then eight send slots a page.
    pub pages: u64,
}

const _: () = assert!(size_of::<SendSlot>() == SEND_SLOT as usize);
