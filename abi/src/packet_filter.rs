//! Packet filters: whose frame it is, and what header a frame to be sent must have.
//!
//! Filters form a tree. A filter without a parent takes *own* on its interface; any other is contained in its parent,
//! on which its inserter has *own*. Of several filters that accept a frame, the more specific gets it. Filters see 8
//! bytes before each frame, most significant byte first: the interface (2), zeros (2), the length of the frame (4).

use core::sync::atomic::AtomicU64;

/// One question about a packet, as filters are made of: 20 bytes, little-endian like the machine. Fields that a
/// comparison does not use are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Atom {
    /// Which conjunction it belongs to: 0 for the first, then the same or one more.
    pub conjunction: u8,
    /// How it compares: 0 equal, 1 not equal, 2 within, 3 outside, 4 shift of the base.
    pub compare: u8,
    /// Bytes loaded, most significant first: 1, 2 or 4.
    pub size: u8,
    /// For a shift: bits to the left, or to the right when negative.
    pub shift: i8,
    /// Where to load, in bytes from the base.
    pub offset: u32,
    /// Which bits of the load count.
    pub mask: u32,
    /// The value, or the first of the range.
    pub low: u32,
    /// The last of the range.
    pub high: u32,
}

/// No parent: the filter is a root of its interface. No filter has this number.
pub const ROOT: u64 = 0;

/// What `filter_insert` makes a filter of.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterSpecification {
    /// The interface that it is about.
    pub interface: u64,
    /// The filter that it is contained in, or [`ROOT`].
    pub parent: u64,
    /// Address of its [`Atom`]s.
    pub atoms: u64,
    /// How many; 0: it receives nothing, and only allows to send.
    pub atom_count: u64,
    /// Its access list: *own* to remove it, to direct it, and to insert filters in it; *write* to send by it.
    pub list: u64,
    /// The key that owns the list.
    pub list_key: u64,
    /// The ring that its frames go to, or [`NONE`](crate::PageNumber::NONE).
    pub ring: u64,
    /// The key that writes the ring.
    pub ring_key: u64,
    /// What each of its frames bears in the ring: 16 bits.
    pub tag: u64,
    /// Which bits of the first 64 bytes of a frame to be sent are fixed, byte 0 lowest in word 0. At least those that
    /// the parent fixes.
    pub send_mask: [u64; 8],
    /// Their values; 0 where the mask is 0.
    pub send_value: [u64; 8],
}

/// One filter, exposed. 64 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct FilterInfo {
    /// Its number: the place in this table (0..16), and how often a filter was inserted before it (16..64). 0: none.
    pub number: AtomicU64,
    /// The environment that is charged for it.
    pub owner: AtomicU64,
    /// The filter that it is contained in, or [`ROOT`].
    pub parent: AtomicU64,
    /// Page of its ring (0..32), interface (32..40), tag (48..64). A ring of `u32::MAX` is none.
    pub target: AtomicU64,
    /// Page of its access list.
    pub list: AtomicU64,
    /// Frames that it won.
    pub packets: AtomicU64,
    /// Bytes of them.
    pub bytes: AtomicU64,
    /// Those of them that were dropped.
    pub drops: AtomicU64,
}

const _: () = assert!(size_of::<Atom>() == 20 && align_of::<Atom>() == 4);
const _: () = assert!(size_of::<FilterInfo>() == 64);
const _: () = assert!(size_of::<FilterSpecification>() == 25 * 8);
