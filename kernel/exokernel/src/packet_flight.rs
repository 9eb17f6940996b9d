//! Frames on their way: given to a network card, and not yet reported as sent.
//!
//! Invariants:
//! - the pages of a frame bear a device pin each until the card is done with it or is reset;
//! - an environment is charged for the pins of its frames, as for those of disk requests, until they end or it dies.

use crate::budget;
use crate::cost;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::packet_filter::Network;
use crate::packet_ring::Ring;
use crate::packet_send::{BAD_SEGMENT, FRAME, Order, SEGMENT_WORD, segment};
use abi::budget::Resource;
use abi::limits::{INTERFACES, SEND_SEGMENTS};
use abi::{Error, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use driver::network::{self as cards, SENDS, Sent};
use machine::dma::Direction;
use machine::exposed::{self, add};
use machine::memory::{self, Generation};
use machine::packet::{Card, Origin, Outgoing};

// No page can have more device pins than its record counts, those of disks left aside.
const _: () = assert!((INTERFACES - 1) * SENDS * SEND_SEGMENTS < 1 << 16);

impl Kernel {
    /// Gives the frame of a slot to a card. Its header was checked.
    #[inline(never)]
    pub(crate) fn send_on_card(
        &self,
        key: KeyIndex,
        ring: PageNumber,
        network: &Network,
        order: &Order<'_>,
        interface: u64,
    ) -> Outcome<()> {
        let info = &exposed::interfaces()[interface as usize];
        let mut copy = [0; SEND_SEGMENTS];
        let segments = &mut copy[..order.segments];
        (SEGMENT_WORD..).zip(&mut *segments).for_each(|(index, segment)| *segment = order.words.read(index));
        let most = info.frame_bytes.load(Ordering::Relaxed) as usize;
        let (caller, mut length) = (self.caller(), order.length);
        for (index, word) in segments.iter().enumerate() {
            let (page, _, bytes) = segment(*word, index)?;
            length += bytes;
            self.readable(key, page)?;
            self.check_pinnable(caller, self.page(page)?)?;
            self.spend(cost::SEGMENT);
            if length > most {
                return refuse(Error::BadArgument, BAD_SEGMENT + index as u64);
            }
        }
        let pins = segments.len() as u64;
        if self.is_under_enforcement(caller) {
            return refuse(Error::OverBudget, Resource::Page as u64);
        }
        budget::check_pins(caller, pins)?;
        let ring = (ring, memory::info(ring).map_or(Generation::FIRST, memory::generation));
        let origin = Origin { sender: caller.number(), ring, slot: order.slot, pins };
        let given = cards::with(interface, |card| {
            if card.room(segments.len()) == 0 {
                return false;
            }
            let parts = segments.iter().map(|word| {
                let (page, offset, bytes) = segment(*word, 0).expect("it was checked");
                self.pin(page).part(offset, bytes, Direction::ToDevice)
            });
            let header = network.frame.piece(FRAME, order.length);
            card.send(Outgoing { header, parts, offload: order.offload, origin });
            true
        });
        if given != Some(true) {
            return refuse(Error::Exhausted, interface);
        }
        network.to_notify.set(network.to_notify.get() | 1 << interface);
        budget::charge_pins(caller, pins);
        add(&info.sent, 1);
        add(&info.sent_bytes, length as u64);
        Ok(())
    }

    /// Takes back what the cards have sent, and tells them of what they were given.
    pub(crate) fn notify_cards(&mut self) {
        let given = self.network.as_deref().map_or(0, |network| network.to_notify.take());
        if given == 0 {
            return;
        }
        for interface in (1..INTERFACES as u64).filter(|interface| given >> interface & 1 != 0) {
            let device = cards::with(interface, |card| {
                card.notify();
                card.facts().device
            });
            if let Some(device) = device {
                self.reap_card(interface, &exposed::devices()[device]);
            }
        }
    }

    /// A transmission ended; whether the device sent it.
    pub(crate) fn sent(&mut self, interface: u64, Sent { origin, done }: Sent) {
        if !done {
            add(&exposed::interfaces()[interface as usize].send_errors, 1);
        }
        let (ring, generation) = origin.ring;
        if memory::info(ring).is_some_and(|info| memory::generation(info) == generation)
            && let Some(ring) = self.memory.get::<Ring>(ring)
        {
            ring.note_sent(ring.send_slot(origin.slot), done);
        }
        if let Some(sender) = self.known(origin.sender) {
            budget::discharge_pins(sender, origin.pins);
        }
    }
}
