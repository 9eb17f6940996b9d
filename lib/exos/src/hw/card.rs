//! A network card of the machine, by one packet ring of the running environment and a filter for all of its frames.
//!
//! Invariant: a send slot and its half page are written only while the kernel has none of them.

use super::mapping::Mapping;
use abi::packet_filter::{Atom, FilterSpecification, ROOT};
use abi::packet_ring::{FRAME_OFFSET, RECEIVE_SLOT, RECEIVED, RingSpecification, SEND_SLOT, SLOTS, SendSlot, owner};
use abi::page::PageKind;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use linux_abi::address_map::PAGE_SIZE;
use runtime::page::Allocator;
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, area, exposed, syscall};
use vfs::network_card;

/// The slot in which an environment that may use network cards finds the key for all of them.
pub const CARD_KEY: KeyIndex = KeyIndex(6);
/// The interface of the first card.
pub const CARD: u64 = 1;
/// Slots of the ring.
const RECEIVE_SLOTS: usize = 128;
const SEND_SLOTS: usize = 32;
/// Bytes of a frame behind its header lie in half a page for each send slot.
const BODY: usize = PAGE_SIZE as usize / 2;
const CONTROL_PAGES: usize = 1;
const RING_PAGES: usize = CONTROL_PAGES + RECEIVE_SLOTS / 2 + SEND_SLOTS / 8;
/// Pages that a card takes. One more becomes the kernel's record.
pub const PAGES: usize = RING_PAGES + SEND_SLOTS / 2;
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
    let word = exposed::interfaces().get(CARD as usize).map_or(0, |info| info.address.load(Acquire));
    let bytes = word.to_le_bytes();
    core::array::from_fn(|at| bytes[at])
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
    ring: PageNumber,
    memory: Mapping,
    filter: u64,
    next: usize,
    next_send: usize,
}

/// Calls until there is another answer than `Again`.
fn again<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    loop {
        match call() {
            Err(Failure { error: Error::Again, .. }) => {}
            answer => return answer,
        }
    }
}

impl Card {
    /// Opens the first card over [`PAGES`] pages of the own, which are mapped there.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn open(memory: Mapping) -> Result<Self, Failure> {
        syscall::network_open(CARD_KEY, CARD, 1)?;
        let ring = Allocator::own().allocate()?;
        let pages: Vec<u64> = memory.pages().iter().take(RING_PAGES).map(|page| page.0).collect();
        let wanted = RingSpecification {
            receive_slots: RECEIVE_SLOTS as u64,
            send_slots: SEND_SLOTS as u64,
            pages: pages.as_ptr() as u64,
        };
        let at = (&raw const wanted) as u64;
        // SAFETY: the kernel reads the specification and the numbers; what it writes are pages of a window, of atomics.
        unsafe { syscall::page_become(KeyIndex::FIRST, ring, PageKind::PacketRing as u64, at) }?;
        let atoms = [Atom { size: 2, mask: 0xffff, low: CARD as u32, ..Atom::default() }];
        let wanted = FilterSpecification {
            interface: CARD,
            parent: ROOT,
            atoms: atoms.as_ptr() as u64,
            atom_count: atoms.len() as u64,
            list: area::access_list().0,
            list_key: KeyIndex::FIRST.0,
            ring: ring.0,
            ring_key: KeyIndex::FIRST.0,
            ..FilterSpecification::default()
        };
        let at = UserAddress((&raw const wanted) as u64);
        // SAFETY: the kernel reads the specification, and the atoms that it names.
        let filter = again(|| unsafe { syscall::filter_insert(CARD_KEY, at) })?;
        Ok(Self { ring, memory, filter, next: 0, next_send: 0 })
    }

    /// Its address on the link.
    pub fn address(&self) -> [u8; 6] {
        address()
    }

    /// The largest packet.
    pub fn mtu(&self) -> usize {
        mtu()
    }

    /// The word that changes when a frame has come.
    pub fn received(&self) -> &'static AtomicU64 {
        &self.memory.words()[RECEIVED as usize / 8]
    }

    fn owner(&self, slot: usize) -> &'static AtomicU64 {
        &self.memory.words()[SLOTS as usize / 8 + 2 * slot]
    }

    /// Whether a frame waits.
    pub fn has_frame(&self) -> bool {
        self.owner(self.next).load(Acquire) != 0
    }

    /// Moves the next frame into `frame`; false when none waits.
    pub fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        frame.clear();
        let word = self.owner(self.next).load(Acquire);
        if word == 0 {
            return false;
        }
        let (mut left, mut at) = (word & owner::LENGTH, FRAME_OFFSET);
        for _ in 0..=word >> owner::FURTHER_SHIFT & 63 {
            let some = left.min(RECEIVE_SLOT - at);
            let begin = frame.len();
            frame.resize(begin + some as usize, 0);
            let place = PAGE_SIZE * CONTROL_PAGES as u64 + self.next as u64 * RECEIVE_SLOT + at;
            let _ = self.memory.read(place, &mut frame[begin..]);
            self.owner(self.next).store(0, Release);
            self.next = (self.next + 1) % RECEIVE_SLOTS;
            (left, at) = (left - some, 0);
        }
        true
    }

    fn send_words(&self, slot: usize) -> &'static [AtomicU64] {
        let first = (PAGE_SIZE as usize * (CONTROL_PAGES + RECEIVE_SLOTS / 2) + slot * SEND_SLOT as usize) / 8;
        &self.memory.words()[first..first + SEND_SLOT as usize / 8]
    }

    /// Whether a frame would be taken now.
    pub fn has_room(&self) -> bool {
        self.send_words(self.next_send)[0].load(Acquire) == 0
    }

    /// Sends a frame; false when it is lost because the device has no room.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        let (slot, header) = (self.next_send, frame.len().min(abi::limits::SEND_HEADER));
        if !self.has_room() || frame.len() - header > BODY {
            return false;
        }
        let (header, body) = frame.split_at(header);
        let words = self.send_words(slot);
        let page = RING_PAGES + slot / 2;
        let within = (slot % 2 * BODY) as u64;
        if self.memory.write(page as u64 * PAGE_SIZE + within, body).is_err() {
            return false;
        }
        for (word, bytes) in words[4..20].iter().zip(header.chunks(8)) {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(all), SeqCst);
        }
        words[20].store(SendSlot::segment(self.memory.pages()[page], within, body.len() as u64), SeqCst);
        words[3].store(header.len() as u64 | u64::from(!body.is_empty()) << 8, SeqCst);
        words[2].store(0, SeqCst);
        words[1].store(self.filter, SeqCst);
        words[0].store(1, SeqCst);
        let taken = again(|| syscall::packet_send(KeyIndex::FIRST, self.ring, slot as u64, 1));
        if taken != Ok(1) {
            words[0].store(0, SeqCst);
            return false;
        }
        self.next_send = (slot + 1) % SEND_SLOTS;
        true
    }
}
