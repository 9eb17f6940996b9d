//! Interfaces, exposed: what arrived, what was dropped and why, what was sent.
//!
//! Interface 0 is the machine itself: what is sent there is received there. Interface n is the n-th network card, n
//! from 1 on. `[DEVICE, NETWORK, n]` is its name, for each n (see [`crate::capability::DEVICE`]). A machine has
//! interfaces where it has a network card, or where the word `packets` stands on the kernel's command line. Elsewhere
//! [`crate::exposed::KernelInfo::filters`] is 0, and every call about packets is refused with `Absent`.

use core::sync::atomic::AtomicU64;

/// The interface that is the machine itself.
pub const LOOPBACK: u64 = 0;

/// Bits of [`InterfaceInfo::features`].
pub mod feature {
    /// It computes checksums of frames to be sent.
    pub const CHECKSUM: u64 = 1 << 0;
    /// It cuts frames into segments of kind 1, as virtio numbers them.
    pub const SEGMENTS_1: u64 = 1 << 1;
    /// It cuts frames into segments of kind 4.
    pub const SEGMENTS_4: u64 = 1 << 2;
}

/// One interface, exposed. 128 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct InterfaceInfo {
    /// Environment that opened it; 0: it is closed.
    pub opened_by: AtomicU64,
    /// Bytes of a frame at most; 0: there is no such interface.
    pub frame_bytes: AtomicU64,
    /// Frames that arrived.
    pub received: AtomicU64,
    /// Bytes of them.
    pub received_bytes: AtomicU64,
    /// Frames that no filter accepts.
    pub unclaimed: AtomicU64,
    /// Frames whose filter has no ring, or one that has ended.
    pub dropped_no_ring: AtomicU64,
    /// Frames whose ring had no free slot.
    pub dropped_full: AtomicU64,
    /// Frames that are longer than all slots of their ring together.
    pub dropped_long: AtomicU64,
    /// Frames that were given to it to send.
    pub sent: AtomicU64,
    /// Bytes of them.
    pub sent_bytes: AtomicU64,
    /// Frames that its device could not send.
    pub send_errors: AtomicU64,
    /// Of interface 0: filters in the table that all interfaces share.
    pub filters: AtomicU64,
    /// Of interface 0: tests that a frame is put to at most.
    pub shapes: AtomicU64,
    /// Address of a network card on its link, the first byte lowest; 0: it names none.
    pub address: AtomicU64,
    /// Bits of [`feature`].
    pub features: AtomicU64,
    /// Not used.
    pub unused: [AtomicU64; 1],
}

const _: () = assert!(size_of::<InterfaceInfo>() == 128);
