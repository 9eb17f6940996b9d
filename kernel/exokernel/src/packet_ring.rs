//! Packet rings: pages of programs that received frames are put into and frames to be sent are taken from.
//!
//! Layout and protocol: `abi::packet_ring`. The kernel keeps its own position and counts in its record. It reads
//! nothing of the pages but owner words and submitted slots, each once.
//!
//! Invariants:
//! - each page of a ring bears one device pin of the ring's, and its record leads back to the ring (`PageInfo::block`);
//! - a ring that lost a page to force is ended: it receives and sends no more, and gives its other pages back when its
//!   object is freed.

use crate::cost;
use crate::interrupt;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::permit;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::limits::{RECEIVE_SLOTS, RECEIVE_SLOTS_LEAST, SEND_SLOTS};
use abi::packet_ring::{
    DROPPED_FULL, DROPPED_LONG, ENDED, FRAME_OFFSET, RECEIVE_SLOT, RECEIVED, RingSpecification, SEND_ERRORS, SEND_SLOT,
    SENT, SLOTS, owner,
};
use abi::page::{PageInfo, PageKind};
use abi::{Error, KeyIndex, PageNumber, UserAddress};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use machine::dma::{Pinned, Words};
use machine::memory::{self, Generation, state};
use machine::packet::{Offload, Received};
use machine::{clock, user};

/// Receive slots and send slots of a page.
const RECEIVE_IN_PAGE: usize = (abi::limits::PAGE_SIZE / RECEIVE_SLOT) as usize;
const SEND_IN_PAGE: usize = (abi::limits::PAGE_SIZE / SEND_SLOT) as usize;
/// Pages of the largest ring.
const PAGES: usize = 1 + RECEIVE_SLOTS as usize / RECEIVE_IN_PAGE + SEND_SLOTS as usize / SEND_IN_PAGE;
/// Slots of one frame at most: the first and as many more as its owner word can say.
const SLOTS_OF_FRAME: usize = 64;

/// The words of a send slot.
pub(crate) type SlotWords<'a> = Words<'a, { SEND_SLOT as usize / 8 }>;

/// Why a frame did not get into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// There is none any more.
    NoRing,
    /// A slot that it needs is not free.
    Full,
    /// It needs more slots than there are.
    Long,
}

/// The kernel's record of a ring.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Control page, receive slots, send slots.
    pages: [Option<Pinned>; PAGES],
    receive_slots: usize,
    pub(crate) send_slots: usize,
    /// The page of the first send slot.
    first_send: usize,
    /// The receive slot that is filled next.
    position: Cell<usize>,
    /// It lost a page, or is given up.
    pub(crate) ended: bool,
    /// Pages up to the last that is not given back.
    left: usize,
    received: Cell<u64>,
    dropped_full: Cell<u64>,
    dropped_long: Cell<u64>,
    sent: Cell<u64>,
    send_errors: Cell<u64>,
}

/// The word of a slot in the control page.
const fn slot_word(slot: usize) -> usize {
    SLOTS as usize / 8 + 2 * slot
}

impl Ring {
    fn control(&self) -> Option<&Pinned> {
        self.pages[0].as_ref().filter(|_| !self.ended)
    }

    /// The words of a send slot.
    #[inline(always)]
    pub(crate) fn send_slot(&self, slot: usize) -> Option<SlotWords<'_>> {
        let page = self.pages[self.first_send + slot / SEND_IN_PAGE].as_ref()?;
        Some(page.words(slot % SEND_IN_PAGE))
    }

    /// The transmission of a slot has ended.
    #[inline(always)]
    pub(crate) fn note_sent(&self, slot: Option<SlotWords<'_>>, done: bool) {
        if let Some(slot) = slot {
            slot.write(0, 0);
        }
        if let Some(control) = self.control() {
            let (counter, word) = if done { (&self.sent, SENT) } else { (&self.send_errors, SEND_ERRORS) };
            count(counter, control, word);
        }
    }

    /// Puts a frame into the next slots.
    #[inline]
    pub(crate) fn deliver(&self, frame: &Received<'_>, length: usize, tag: u64) -> Result<(), Dropped> {
        let slots = self.receive_slots;
        let needed = (length + FRAME_OFFSET as usize).div_ceil(RECEIVE_SLOT as usize);
        let Some(control) = self.pages[0].as_ref().filter(|_| !self.ended) else { return Err(Dropped::NoRing) };
        if needed > slots.min(SLOTS_OF_FRAME) {
            count(&self.dropped_long, control, DROPPED_LONG);
            return Err(Dropped::Long);
        }
        let position = self.position.get();
        let slot = |index| if position + index < slots { position + index } else { position + index - slots };
        if (0..needed).any(|index| control.read(slot_word(slot(index))) != 0) {
            count(&self.dropped_full, control, DROPPED_FULL);
            return Err(Dropped::Full);
        }
        let mut at = FRAME_OFFSET as usize;
        for piece in frame.pieces {
            let mut from = 0;
            while from < piece.length() {
                let some = (RECEIVE_SLOT as usize - at % RECEIVE_SLOT as usize).min(piece.length() - from);
                let place = slot(at / RECEIVE_SLOT as usize);
                let page = self.pages[1 + place / RECEIVE_IN_PAGE].as_ref().ok_or(Dropped::NoRing)?;
                let offset = place % RECEIVE_IN_PAGE * RECEIVE_SLOT as usize + at % RECEIVE_SLOT as usize;
                page.copy_from(offset, piece, from, some);
                (at, from) = (at + some, from + some);
            }
        }
        (1..needed).for_each(|index| control.write(slot_word(slot(index)), owner::CONTINUED));
        let further = (needed as u64 - 1) << owner::FURTHER_SHIFT;
        let marks = tag << owner::TAG_SHIFT | frame.interface << owner::INTERFACE_SHIFT | flags(&frame.offload);
        let word = slot_word(position);
        let when = clock::now() & ((1 << 48) - 1) | u64::from(frame.offload.segment) << 48;
        control.write(word + 1, when);
        control.write(word, length as u64 | further | marks);
        count(&self.received, control, RECEIVED);
        self.position.set(slot(needed));
        Ok(())
    }

    /// Takes the pin of a page of the ring out, which ends it.
    fn lose(&mut self, page: PageNumber) -> Option<Pinned> {
        if let Some(control) = self.control() {
            control.write(ENDED as usize / 8, 1);
        }
        self.ended = true;
        self.pages.iter_mut().find(|pin| pin.as_ref().is_some_and(|pin| pin.page() == page))?.take()
    }
}

/// Counts one more, in the kernel's record and in the control page.
#[inline(always)]
fn count(counter: &Cell<u64>, control: &Pinned, word: u64) {
    counter.set(counter.get().wrapping_add(1));
    control.write(word as usize / 8, counter.get());
}

/// What the owner word says of checksum and segmentation.
fn flags(offload: &Offload) -> u64 {
    let good = if offload.verified { owner::CHECKSUM_GOOD } else { 0 };
    let partial = if offload.partial { owner::CHECKSUM_PARTIAL } else { 0 };
    good | partial | u64::from(offload.segmentation & 7) << owner::SEGMENTATION_SHIFT
}

impl Kernel {
    /// Makes a page a packet ring, by a specification in the caller's memory.
    pub(crate) fn create_ring(&mut self, key: KeyIndex, page: PageNumber, specification: UserAddress) -> Outcome<()> {
        self.network()?;
        let wanted: RingSpecification = copied(user::read(specification), specification)?;
        let (receive, send) = (wanted.receive_slots, wanted.send_slots);
        let fits = (RECEIVE_SLOTS_LEAST..=RECEIVE_SLOTS).contains(&receive) && send <= SEND_SLOTS;
        if !fits || !receive.is_multiple_of(RECEIVE_IN_PAGE as u64) || !send.is_multiple_of(SEND_IN_PAGE as u64) {
            return refuse(Error::BadArgument, 3);
        }
        let count = 1 + receive as usize / RECEIVE_IN_PAGE + send as usize / SEND_IN_PAGE;
        let mut copy = [const { MaybeUninit::uninit() }; PAGES];
        let from = UserAddress(wanted.pages);
        let pages: &[u64] = copied(user::copy_rows_in(&mut copy[..count], from), from)?;
        self.check_ring(key, page, pages)?;
        let mut ring = Ring {
            pages: [const { None }; PAGES],
            receive_slots: receive as usize,
            send_slots: send as usize,
            first_send: 1 + receive as usize / RECEIVE_IN_PAGE,
            position: Cell::new(0),
            ended: false,
            left: count,
            received: Cell::new(0),
            dropped_full: Cell::new(0),
            dropped_long: Cell::new(0),
            sent: Cell::new(0),
            send_errors: Cell::new(0),
        };
        for (place, number) in ring.pages.iter_mut().zip(pages) {
            *place = self.memory.pin(PageNumber(*number));
        }
        self.memory.create(page, PageKind::PacketRing, ring);
        Ok(())
    }

    /// Fails unless a ring can be made of these pages, which lead to it from then on.
    fn check_ring(&self, key: KeyIndex, object: PageNumber, pages: &[u64]) -> Outcome<()> {
        self.donatable(key, object)?;
        if self.is_under_enforcement(self.caller()) {
            return refuse(Error::OverBudget, Resource::Page as u64);
        }
        // A page that was marked is named twice.
        let failed = pages.iter().position(|page| self.mark(key, object, PageNumber(*page)).is_err());
        let Some(failed) = failed else { return Ok(()) };
        for page in &pages[..failed] {
            memory::info(PageNumber(*page)).expect("it was marked").block.store(0, Ordering::Release);
        }
        self.mark(key, object, PageNumber(pages[failed]))?;
        memory::info(PageNumber(pages[failed])).expect("it was marked").block.store(0, Ordering::Release);
        refuse(Error::InUse, pages[failed])
    }

    /// Has a page lead to a ring, unless the page cannot be one of it.
    fn mark(&self, key: KeyIndex, object: PageNumber, page: PageNumber) -> Outcome<()> {
        let info = self.check_transfer_page(self.caller(), key, page)?;
        if page == object || info.block.load(Ordering::Relaxed) != 0 {
            return refuse(Error::InUse, page.0);
        }
        info.block.store(object.0 + 1, Ordering::Release);
        Ok(())
    }

    /// The ring that a filter's frames go to; none for `NONE`.
    pub(crate) fn ring_for(&self, key: KeyIndex, ring: PageNumber) -> Outcome<Option<(PageNumber, Generation)>> {
        if ring == PageNumber::NONE {
            return Ok(None);
        }
        self.key(key)?;
        self.writable_ring(key, ring).map(|info| Some((ring, memory::generation(info))))
    }

    /// Fails unless a page is a ring that the caller may write.
    pub(crate) fn writable_ring(&self, key: KeyIndex, ring: PageNumber) -> Outcome<&'static PageInfo> {
        let info = self.page(ring)?;
        permit(self.rights_on_page(key, info)?, Rights::WRITE)?;
        match state(info).kind {
            PageKind::PacketRing => Ok(info),
            kind => refuse(Error::WrongKind, kind as u64),
        }
    }

    /// The object of a ring is given up: its pages are given back, as many as this entry can.
    pub(crate) fn end_ring(&mut self, page: PageNumber) -> Outcome<()> {
        loop {
            let ring = self.memory.get_mut::<Ring>(page).expect("it is a ring");
            ring.ended = true;
            let Some(last) = ring.left.checked_sub(1) else { break };
            ring.left = last;
            if let Some(pin) = ring.pages[last].take() {
                self.give_back(pin);
            }
            if self.is_spent() {
                return refuse(Error::Again, 0);
            }
        }
        self.spend(cost::RING_CLEAR);
        self.memory.dissolve(page);
        Ok(())
    }

    /// A page is taken by force: the ring that it belongs to has ended.
    pub(crate) fn end_ring_of(&mut self, page: PageNumber, info: &PageInfo) {
        let Some(ring) = info.block.load(Ordering::Relaxed).checked_sub(1) else { return };
        let Some(ring) = self.memory.get_mut::<Ring>(PageNumber(ring)) else { return };
        if let Some(pin) = ring.lose(page) {
            self.give_back(pin);
            interrupt::wake_all_idle();
        }
    }

    fn give_back(&mut self, pin: Pinned) {
        memory::info(pin.page()).expect("a pinned page has a record").block.store(0, Ordering::Release);
        self.spend(cost::RING_PAGE);
        let page = self.memory.unpin(pin);
        self.settle(page);
    }
}
