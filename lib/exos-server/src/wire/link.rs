//! The card as the device of a stack, and the bytes that the stack sends.
//!
//! Bytes of a program are copied out of its pages once, so that what is sent again is what was sent. They stay here
//! until the other machine has acknowledged them.
//!
//! Invariant: `queued` is the number of bytes of all chunks.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use exos::hw::card::Card;
use network::checksum::Sum;
use network::link::{EthernetAddress, Extent, Full, Link, PageNumber, Pages, Part};

type Chunks = BTreeMap<PageNumber, Box<[u8]>>;

#[derive(Debug)]
pub(super) struct CardLink {
    pub(super) card: Card,
    chunks: Chunks,
    next: PageNumber,
    pub(super) queued: usize,
}

impl CardLink {
    pub(super) const fn new(card: Card) -> Self {
        Self { card, chunks: BTreeMap::new(), next: 0, queued: 0 }
    }

    /// Keeps bytes until the stack releases them.
    pub(super) fn keep(&mut self, bytes: Box<[u8]>) -> Extent {
        let extent = Extent { page: self.next, offset: 0, length: bytes.len() as u32, sum: Sum::of(&bytes) };
        self.next += 1;
        self.queued += bytes.len();
        self.chunks.insert(extent.page, bytes);
        extent
    }
}

impl Pages for CardLink {
    fn bytes(&self, part: Part) -> &[u8] {
        bytes_in(&self.chunks, part)
    }

    fn release(&mut self, extent: Extent) {
        if let Some(chunk) = self.chunks.remove(&extent.page) {
            self.queued -= chunk.len();
        }
    }
}

impl Link for CardLink {
    fn hardware_address(&self) -> EthernetAddress {
        EthernetAddress(self.card.address())
    }

    fn mtu(&self) -> usize {
        self.card.mtu()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.card.ring.receive(frame)
    }

    fn has_room(&self) -> bool {
        self.card.ring.has_room()
    }

    fn send(&mut self, head: &[u8], parts: &[Part]) -> Result<(), Full> {
        let pieces = parts.iter().map(|part| bytes_in(&self.chunks, *part));
        if self.card.send(head, pieces) { Ok(()) } else { Err(Full) }
    }
}

fn bytes_in(chunks: &Chunks, part: Part) -> &[u8] {
    let chunk = chunks.get(&part.page).map_or(&[][..], |chunk| chunk);
    let begin = part.offset as usize;
    chunk.get(begin..begin + part.length as usize).unwrap_or_default()
}
