//! The network card of the peer: frames in memory, and pages for what is sent.

use std::collections::VecDeque;

use network::checksum::Sum;
use network::link::{Extent, Full, Link, Pages, Part};
use smoltcp::wire::EthernetAddress;

/// Frames that wait to be taken.
const ROOM: usize = 256;

#[derive(Debug)]
pub struct Jack {
    address: [u8; 6],
    pub received: VecDeque<Vec<u8>>,
    pub sent: VecDeque<Vec<u8>>,
    pages: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl Jack {
    pub fn new(address: [u8; 6]) -> Self {
        Self { address, received: VecDeque::new(), sent: VecDeque::new(), pages: Vec::new(), free: Vec::new() }
    }

    /// Stores bytes until the stack has had them acknowledged.
    pub fn store(&mut self, bytes: &[u8]) -> Extent {
        let page = self.free.pop().unwrap_or(self.pages.len());
        if page == self.pages.len() {
            self.pages.push(Vec::new());
        }
        self.pages[page] = bytes.to_vec();
        Extent { page: page as u64, offset: 0, length: bytes.len() as u32, sum: Some(Sum::of(bytes)) }
    }
}

impl Jack {
    fn bytes(&self, part: Part) -> &[u8] {
        &self.pages[part.page as usize][part.offset as usize..][..part.length as usize]
    }
}

impl Pages for Jack {
    fn sum(&self, part: Part) -> Sum {
        Sum::of(self.bytes(part))
    }

    fn append(&self, part: Part, to: &mut Vec<u8>) {
        to.extend_from_slice(self.bytes(part));
    }

    fn release(&mut self, extent: Extent) {
        self.pages[extent.page as usize].clear();
        self.free.push(extent.page as usize);
    }
}

impl Link for Jack {
    fn hardware_address(&self) -> EthernetAddress {
        EthernetAddress(self.address)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        frame.clear();
        self.received.pop_front().inspect(|next| frame.extend_from_slice(next)).is_some()
    }

    fn has_room(&self) -> bool {
        self.sent.len() < ROOM
    }

    fn send(&mut self, head: &[u8], parts: &[Part]) -> Result<(), Full> {
        if !self.has_room() {
            return Err(Full);
        }
        let mut frame = Vec::new();
        self.gather(head, parts, &mut frame);
        self.sent.push_back(frame);
        Ok(())
    }
}
