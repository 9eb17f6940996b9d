//! A network card of the machine, by one packet ring of the running environment and a filter for all of its frames.

use super::mapping::Mapping;
use abi::packet_filter::{FilterSpecification, ROOT};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use runtime::packet::{self, Frame, Ring, RingMemory};
use runtime::{Failure, KeyIndex, area, exposed, syscall};
use vfs::network_card;

/// The slot in which an environment that may use network cards finds the key for all of them.
pub const CARD_KEY: KeyIndex = KeyIndex(6);
/// The interface of the first card.
pub const CARD: u64 = 1;
/// Slots of the ring.
const RECEIVE_SLOTS: usize = 128;
const SEND_SLOTS: usize = 32;
/// Pages that a card takes. One more becomes the kernel's record.
pub const PAGES: usize = packet::ring_pages(RECEIVE_SLOTS, SEND_SLOTS).1;
/// Bytes of the header of Ethernet.
const LINK_HEADER: u64 = 14;

/// Whether the machine has a network card.
pub fn is_there() -> bool {
    exposed::interfaces().get(CARD as usize).is_some_and(|info| info.frame_bytes.load(Acquire) != 0)
}

/// What there is to say of the card before it is open.
pub fn find() -> Option<network_card::Card> {
    is_there().then(|| network_card::Card { hardware: address(), mtu: mtu() })
}

fn address() -> [u8; 6] {
    packet::hardware_address(CARD).unwrap_or_default()
}

fn mtu() -> usize {
    let bytes = exposed::interfaces().get(CARD as usize).map_or(0, |info| info.frame_bytes.load(Acquire));
    (bytes.saturating_sub(LINK_HEADER) as usize).clamp(576, 1500)
}

/// Bytes and frames that have come, and that were sent.
pub fn counts() -> [u64; 4] {
    let Some(info) = exposed::interfaces().get(CARD as usize) else { return [0; 4] };
    [&info.received_bytes, &info.received, &info.sent_bytes, &info.sent].map(|word| word.load(Acquire))
}

/// A card that is open.
#[derive(Debug)]
pub struct Card {
    /// Where its frames come from.
    pub ring: Ring<Mapping>,
    filter: u64,
}

impl RingMemory for Mapping {
    fn words(&self) -> &[AtomicU64] {
        self.words()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.read(offset as u64, bytes).expect("the ring lies in the mapping");
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.write(offset as u64, bytes).expect("the ring lies in the mapping");
    }
}

impl Card {
    /// Opens the first card over [`PAGES`] pages of the own, which are mapped there.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn open(memory: Mapping) -> Result<Self, Failure> {
        syscall::network_open(CARD_KEY, CARD, 1)?;
        // SAFETY: the pages are those of the mapping, which lends out atomics alone.
        let ring = unsafe { Ring::over(memory.pages().to_vec(), memory, RECEIVE_SLOTS, SEND_SLOTS) }?;
        let wanted = packet::filter(CARD, ROOT, area::access_list(), KeyIndex::FIRST);
        let wanted = FilterSpecification { ring: ring.page.0, ..wanted };
        let filter = packet::insert(CARD_KEY, &wanted, &[packet::came_by(CARD)])?;
        Ok(Self { ring, filter })
    }

    /// Its address on the link.
    pub fn address(&self) -> [u8; 6] {
        address()
    }

    /// The largest packet.
    pub fn mtu(&self) -> usize {
        mtu()
    }

    /// Sends a frame of a head and what `fill` appends; false when it is lost, as where the device has no room.
    pub fn send(
        &mut self,
        head: &[u8],
        fill: impl FnOnce(&mut Frame<'_, Mapping>) -> core::result::Result<(), Failure>,
    ) -> bool {
        let filter = self.filter;
        let sent = self.ring.frame(head).and_then(|mut frame| {
            fill(&mut frame)?;
            frame.send(filter)
        });
        sent.is_ok()
    }
}
