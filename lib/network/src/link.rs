//! The traits that join the stack to the world: a device that takes gather lists, and the pages that payload lies in.

use alloc::vec::Vec;

pub use smoltcp::wire::EthernetAddress;

use crate::checksum::Sum;

/// A page, by a number that only the owner of the pages understands.
pub type PageNumber = u64;

/// Bytes in a page, queued for sending by reference, with their sum where the owner has stored it. The owner keeps the
/// bytes as they are until the stack releases the extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub page: PageNumber,
    pub offset: u32,
    pub length: u32,
    pub sum: Option<Sum>,
}

/// Bytes in a page that a device is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub page: PageNumber,
    pub offset: u32,
    pub length: u32,
}

/// The pages that payload lies in.
pub trait Pages {
    /// The sum of some bytes of an extent: of a segment's, or of what the stored sum has besides them.
    fn sum(&self, part: Part) -> Sum;

    /// Copies some bytes of an extent, where they cannot be sent by reference.
    fn append(&self, part: Part, to: &mut Vec<u8>);

    /// Makes a whole frame, for a device that takes no gather lists.
    fn gather(&self, head: &[u8], parts: &[Part], frame: &mut Vec<u8>) {
        frame.clear();
        frame.extend_from_slice(head);
        parts.iter().for_each(|part| self.append(*part, frame));
    }

    /// All bytes of the extent were acknowledged, or the connection ended: the owner may reuse them.
    fn release(&mut self, extent: Extent);
}

/// A frame was not taken because the device has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// An Ethernet device.
pub trait Link: Pages {
    fn hardware_address(&self) -> EthernetAddress;

    /// Largest IP packet: that of Ethernet (RFC 894), where the device says nothing else.
    fn mtu(&self) -> usize {
        1500
    }

    /// Moves the next received frame into `frame`, which is cleared first. False when none waits.
    fn receive(&mut self, frame: &mut Vec<u8>) -> bool;

    /// Whether a frame would be taken now.
    fn has_room(&self) -> bool;

    /// Sends a frame: its head, which is copied, and parts of pages by reference.
    ///
    /// # Errors
    /// [`Full`] when the device has no room: the frame is lost.
    fn send(&mut self, head: &[u8], parts: &[Part]) -> Result<(), Full>;
}
