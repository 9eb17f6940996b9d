//! The ring of an environment as the device of its stack. What is sent lies in answers that are made once.

use alloc::vec::Vec;
use network::checksum::Sum;
use network::link::{EthernetAddress, Extent, Full, Link, Pages, Part};
use runtime::packet::{Frame, Ring};

const ARP: [u8; 2] = [8, 6];

pub(crate) struct Wire {
    pub(crate) ring: Ring,
    /// What questions for addresses are sent by, and what everything else is.
    pub(crate) filters: [u64; 2],
    pub(crate) hardware: [u8; 6],
    pub(crate) answers: Vec<Vec<u8>>,
}

impl Wire {
    pub(crate) const fn new(ring: Ring, filters: [u64; 2], hardware: [u8; 6], answers: Vec<Vec<u8>>) -> Self {
        Self { ring, filters, hardware, answers }
    }
}

impl Pages for Wire {
    fn sum(&self, part: Part) -> Sum {
        Sum::of(bytes_in(&self.answers, part))
    }

    fn append(&self, part: Part, to: &mut Vec<u8>) {
        to.extend_from_slice(bytes_in(&self.answers, part));
    }

    fn release(&mut self, _: Extent) {}
}

impl Link for Wire {
    fn hardware_address(&self) -> EthernetAddress {
        EthernetAddress(self.hardware)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.ring.receive(frame)
    }

    fn has_room(&self) -> bool {
        self.ring.has_room()
    }

    fn send(&mut self, head: &[u8], parts: &[Part]) -> Result<(), Full> {
        let filter = self.filters[usize::from(head.get(12..14) != Some(&ARP))];
        let send = |mut frame: Frame<'_, _>| {
            parts.iter().try_for_each(|part| frame.copy(bytes_in(&self.answers, *part)))?;
            frame.send(filter)
        };
        self.ring.frame(head).and_then(send).map_err(|_| Full)
    }
}

fn bytes_in(answers: &[Vec<u8>], part: Part) -> &[u8] {
    &answers[part.page as usize][part.offset as usize..][..part.length as usize]
}
