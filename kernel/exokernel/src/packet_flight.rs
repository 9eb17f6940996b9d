//! Frames on their way: given to a network card, and not yet reported as sent.
//!
//! Invariants:
//! - the pages of a frame bear a device pin each until the card is done with it or is reset;
//! - an environment is charged for the pins of its frames, as for those of disk requests, until they end or it dies.

use crate::budget;
use crate::cost;
use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::packet_filter::Network;
use crate::packet_ring::Ring;
use crate::packet_send::{BAD_SEGMENT, FRAME, Order, SEGMENT_WORD, segment};
use abi::budget::Resource;
use abi::limits::{DEVICE_PINS, INTERFACES, SEND_SEGMENTS};
use abi::{EnvironmentId, Error, KeyIndex, PageNumber};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use driver::network::{self as cards, SENDS};
use machine::boot_memory::BootMemory;
use machine::dma::Direction;
use machine::exposed::{self, add, subtract};
use machine::memory::{self, Generation};
use machine::packet::{Card, Outgoing};

// No page can have more device pins than its record counts, those of disks left aside.
const _: () = assert!((INTERFACES - 1) * SENDS * SEND_SEGMENTS < 1 << 16);

/// One frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    interface: u64,
    ring: (PageNumber, Generation),
    slot: usize,
    sender: EnvironmentId,
    pins: u64,
}

/// All of them, by token, and the tokens that are free.
#[derive(Debug)]
pub(crate) struct Flights {
    flights: &'static mut [Cell<Option<Flight>>],
    free: &'static mut [Cell<u16>],
    left: Cell<usize>,
    /// Cards that were given frames and do not know of them yet, as bits.
    to_notify: Cell<u64>,
}

impl Flights {
    /// As many as all cards have at once.
    pub(crate) fn new(memory: &mut BootMemory<'_>) -> Option<Self> {
        let count = (SENDS * cards::count().min(INTERFACES - 1)).max(1);
        let mut next = 0..count as u16;
        let free = memory.slice(count, || Cell::new(next.next().unwrap_or_default()))?;
        let flights = memory.slice(count, || Cell::new(None))?;
        Some(Self { flights, free, left: Cell::new(count), to_notify: Cell::new(0) })
    }

    fn begin(&self, flight: Flight) -> Option<u64> {
        self.left.set(self.left.get().checked_sub(1)?);
        let token = self.free[self.left.get()].get();
        self.flights[usize::from(token)].set(Some(flight));
        self.to_notify.set(self.to_notify.get() | 1 << flight.interface);
        Some(u64::from(token))
    }

    fn end(&self, token: u64) -> Option<Flight> {
        let flight = self.flights.get(token as usize)?.take()?;
        self.free[self.left.get()].set(token as u16);
        self.left.set(self.left.get() + 1);
        Some(flight)
    }
}

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
        let segments: [u64; SEND_SEGMENTS] = core::array::from_fn(|index| order.words.read(SEGMENT_WORD + index));
        let segments = &segments[..order.segments];
        let most = info.frame_bytes.load(Ordering::Relaxed) as usize;
        let mut length = order.length;
        for (index, word) in segments.iter().enumerate() {
            let (page, _, bytes) = segment(*word, index)?;
            length += bytes;
            self.check_flying_page(key, page)?;
            self.spend(cost::SEGMENT);
            if length > most {
                return refuse(Error::BadArgument, BAD_SEGMENT + index as u64);
            }
        }
        let (caller, pins) = (self.caller(), segments.len() as u64);
        if self.is_under_enforcement(caller) {
            return refuse(Error::OverBudget, Resource::Page as u64);
        }
        if caller.info().device_pins.load(Ordering::Relaxed) + pins > DEVICE_PINS {
            return refuse(Error::TooMany, DEVICE_PINS);
        }
        budget::check(caller, Resource::Pin, pins)?;
        let ring = (ring, memory::info(ring).map_or(Generation::FIRST, memory::generation));
        let flight = Flight { interface, ring, slot: order.slot, sender: caller.number(), pins };
        let given = cards::with(interface, |card| {
            let token = if card.room(segments.len()) == 0 { None } else { network.flights.begin(flight) }?;
            let parts = segments.iter().map(|word| {
                let (page, offset, bytes) = segment(*word, 0).expect("it was checked");
                self.pin(page).part(offset, bytes, Direction::ToDevice)
            });
            let header = network.frame.piece(FRAME, order.length);
            card.send(Outgoing { header, parts, offload: order.offload, token });
            Some(())
        });
        if given.flatten().is_none() {
            return refuse(Error::Exhausted, interface);
        }
        add(&caller.info().device_pins, pins);
        budget::charge(caller, Resource::Pin, pins);
        add(&info.sent, 1);
        add(&info.sent_bytes, length as u64);
        Ok(())
    }

    /// Fails unless the caller reads a page that may be pinned for a device.
    fn check_flying_page(&self, key: KeyIndex, page: PageNumber) -> Outcome<()> {
        self.readable(key, page)?;
        let owner = self.owner(self.page(page)?);
        if owner != self.caller() && self.is_under_enforcement(owner) {
            return refuse(Error::OverBudget, Resource::Page as u64);
        }
        Ok(())
    }

    /// Takes back what the cards have sent, and tells them of what they were given.
    pub(crate) fn notify_cards(&mut self) {
        let given = self.network.as_deref().map_or(0, |network| network.flights.to_notify.take());
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
    pub(crate) fn sent(&mut self, token: u64, done: bool) {
        let flight = self.network().ok().and_then(|network| network.flights.end(token));
        let Some(Flight { interface, ring: (ring, generation), slot, sender, pins }) = flight else { return };
        if !done {
            add(&exposed::interfaces()[interface as usize].send_errors, 1);
        }
        if memory::info(ring).is_some_and(|info| memory::generation(info) == generation)
            && let Some(ring) = self.memory.get::<Ring>(ring)
        {
            ring.note_sent(ring.send_slot(slot), done);
        }
        if let Some(sender) = self.known(sender) {
            subtract(&sender.info().device_pins, pins);
            budget::discharge(sender, Resource::Pin, pins);
        }
    }

    /// The environment dies: its frames go on without a charge.
    pub(crate) fn disown_flights(&mut self, environment: Environment) {
        let Some(network) = self.network.as_deref_mut() else { return };
        let flights = network.flights.flights.iter_mut().filter_map(|flight| flight.get_mut().as_mut());
        let own = flights.filter(|flight| flight.sender == environment.number());
        own.for_each(|flight| flight.sender = EnvironmentId::NONE);
    }
}
