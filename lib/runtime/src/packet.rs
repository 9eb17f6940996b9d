//! Packet rings and filters of a program: frames in, frames out, under the filters that it may use.
//!
//! A [`Ring`] owns its pages: the control page, receive slots, send slots, and half a page for each send slot, which
//! holds the bytes of a frame behind its header. A native program has them in a [`Window`], the keeper of ExOS's wire
//! in a mapping of its own.
//!
//! Invariant: a send slot and its half page are written only while the kernel has none of them.

extern crate alloc;

use crate::address_space::Access;
use crate::page::Allocator;
use crate::predicate::{Operator, wait_any, word};
use crate::window::{WINDOW_PAGES, Window};
use crate::{clock, syscall};
use abi::limits::{PAGE_SIZE, SEND_HEADER, SEND_SEGMENTS};
use abi::packet_filter::{Atom, FilterSpecification};
use abi::packet_ring::{FRAME_OFFSET, RECEIVE_SLOT, RECEIVED, RingSpecification, SEND_SLOT, SLOTS, SendSlot, owner};
use abi::page::PageKind;
use abi::{Error, Failure, KeyIndex, PageNumber, UserAddress};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes of a frame behind its header that a send slot has room for.
const BODY: usize = PAGE_SIZE as usize / 2;
/// The words of a send slot in which its header and its segments begin.
const HEADER: usize = 4;
const SEGMENTS: usize = HEADER + SEND_HEADER / 8;

/// Calls until there is another answer than `Again`.
fn again<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    loop {
        match call() {
            Err(Failure { error: Error::Again, .. }) => {}
            answer => return answer,
        }
    }
}

/// The address on the link of an interface, where the machine has it.
pub fn hardware_address(interface: u64) -> Option<[u8; 6]> {
    let info = crate::exposed::interfaces().get(interface as usize)?;
    let bytes = info.address.load(Acquire).to_le_bytes();
    (info.frame_bytes.load(Acquire) != 0).then(|| core::array::from_fn(|at| bytes[at]))
}

/// A key for a stack: random words, or the time where the machine has no random numbers.
pub fn secret() -> [u64; 2] {
    let mut key = [clock::ticks(), clock::now()];
    // SAFETY: the kernel writes the 16 bytes of `key`, which is borrowed for the call, or nothing.
    let _ = unsafe { syscall::entropy_read(UserAddress((&raw mut key) as u64), 16) };
    key
}

/// The load of `size` bytes at a byte of the frame equals a value.
pub fn equal(size: u8, byte: u32, value: u32) -> Atom {
    let mask = u32::MAX >> (32 - 8 * u32::from(size));
    Atom { size, offset: 8 + byte, mask, low: value, ..Atom::default() }
}

/// The frame came by this interface.
pub fn came_by(interface: u64) -> Atom {
    Atom { size: 2, mask: 0xffff, low: interface as u32, ..Atom::default() }
}

/// Fixes bytes of what is sent by a filter: from which byte of the frame on, and their values.
pub fn fix(filter: &mut FilterSpecification, fields: &[(usize, &[u8])]) {
    for (at, byte) in fields.iter().flat_map(|(from, bytes)| (*from..).zip(*bytes)) {
        filter.send_mask[at / 8] |= 0xff << (8 * (at % 8));
        filter.send_value[at / 8] |= u64::from(*byte) << (8 * (at % 8));
    }
}

/// A filter of a list without a ring, in the parent.
pub fn filter(interface: u64, parent: u64, list: PageNumber, list_key: KeyIndex) -> FilterSpecification {
    let (ring, ring_key) = (PageNumber::NONE.0, KeyIndex::FIRST.0);
    let (list, list_key) = (list.0, list_key.0);
    FilterSpecification { interface, parent, list, list_key, ring, ring_key, ..FilterSpecification::default() }
}

/// Inserts a filter of these atoms. All else is as `wanted` has it.
///
/// # Errors
/// The kernel's refusals of `filter_insert`.
pub fn insert(key: KeyIndex, wanted: &FilterSpecification, atoms: &[Atom]) -> Result<u64, Failure> {
    let whole = FilterSpecification { atoms: atoms.as_ptr() as u64, atom_count: atoms.len() as u64, ..*wanted };
    let at = UserAddress((&raw const whole) as u64);
    // SAFETY: the kernel reads the specification, and the atoms that it names.
    again(|| unsafe { syscall::filter_insert(key, at) })
}

/// Where the pages of a ring are mapped.
pub trait RingMemory {
    /// All of their words.
    fn words(&self) -> &[AtomicU64];

    /// Copies bytes out.
    fn read(&self, offset: usize, bytes: &mut [u8]);

    /// Copies bytes in.
    fn write(&self, offset: usize, bytes: &[u8]);
}

impl RingMemory for Window {
    fn words(&self) -> &[AtomicU64] {
        self.words()
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.read(offset, bytes);
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.write(offset, bytes);
    }
}

/// A ring that the running environment made.
#[derive(Debug)]
pub struct Ring<M = Window> {
    /// The page that is the kernel's record of it.
    pub page: PageNumber,
    pages: Vec<PageNumber>,
    memory: M,
    receive_slots: usize,
    send_slots: usize,
    next: usize,
    next_send: usize,
}

/// Pages of the ring proper, and all pages, for so many slots.
pub const fn ring_pages(receive_slots: usize, send_slots: usize) -> (usize, usize) {
    let of_ring = 1 + receive_slots / 2 + send_slots / 8;
    (of_ring, of_ring + send_slots / 2)
}

impl Ring {
    /// Makes one. `receive_slots` are a multiple of 2 from 8 on, `send_slots` a multiple of 8.
    ///
    /// # Errors
    /// The kernel's refusals of `page_become`; `TooMany` where one window cannot hold all pages.
    pub fn new(receive_slots: usize, send_slots: usize) -> Result<Self, Failure> {
        let mut pages = vec![PageNumber::NONE; ring_pages(receive_slots, send_slots).1];
        if pages.len() > WINDOW_PAGES {
            return Err(Error::TooMany.about(WINDOW_PAGES as u64));
        }
        Allocator::own().allocate_many(&mut pages)?;
        let window = Window::open(&pages, KeyIndex::FIRST, Access::WRITE)?;
        // SAFETY: the pages are fresh, and the window alone shows them.
        unsafe { Self::over(pages, window, receive_slots, send_slots) }
    }
}

impl<M: RingMemory> Ring<M> {
    /// Makes one of pages of the own, [`ring_pages`] in number, that are mapped in `memory`.
    ///
    /// # Errors
    /// The kernel's refusals of `page_become`.
    ///
    /// # Safety
    /// `memory` shows these pages, and no reference covers them but to atomics.
    pub unsafe fn over(
        pages: Vec<PageNumber>,
        memory: M,
        receive_slots: usize,
        send_slots: usize,
    ) -> Result<Self, Failure> {
        let page = Allocator::own().allocate()?;
        let of_ring = ring_pages(receive_slots, send_slots).0;
        let numbers: Vec<u64> = pages.iter().take(of_ring).map(|page| page.0).collect();
        let wanted = RingSpecification {
            receive_slots: receive_slots as u64,
            send_slots: send_slots as u64,
            pages: numbers.as_ptr() as u64,
        };
        let at = (&raw const wanted) as u64;
        // SAFETY: the kernel reads the specification and the numbers; what it writes are pages of atomics, as the
        // caller says.
        unsafe { syscall::page_become(KeyIndex::FIRST, page, PageKind::PacketRing as u64, at) }?;
        Ok(Self { page, pages, memory, receive_slots, send_slots, next: 0, next_send: 0 })
    }

    /// Directs the frames of a filter here, on which the own first key has *own*.
    ///
    /// # Errors
    /// The kernel's refusals of `filter_direct`.
    pub fn take_frames_of(&self, filter: u64) -> Result<(), Failure> {
        syscall::filter_direct(KeyIndex::FIRST, filter, KeyIndex::FIRST, self.page)
    }

    /// The word that changes when a frame has come.
    pub fn received(&self) -> &AtomicU64 {
        &self.memory.words()[RECEIVED as usize / 8]
    }

    fn owner(&self, slot: usize) -> &AtomicU64 {
        &self.memory.words()[SLOTS as usize / 8 + 2 * slot]
    }

    /// Sleeps until a frame waits, no longer than until a time. `seen` is what [`Self::received`] was before the last
    /// look for frames.
    pub fn wait(&self, seen: u64, until: u64) {
        if !self.has_frame() {
            let _ = wait_any(&[&[word(self.received(), Operator::NotEqual, seen)]], Some(until));
        }
    }

    /// Whether a frame waits.
    pub fn has_frame(&self) -> bool {
        self.owner(self.next).load(Acquire) != 0
    }

    /// Moves the next frame into `frame`; false when none waits.
    pub fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        frame.clear();
        let word = self.owner(self.next).load(Acquire);
        let (mut left, mut at) = ((word & owner::LENGTH) as usize, FRAME_OFFSET as usize);
        for _ in 0..=word >> owner::FURTHER_SHIFT & 63 {
            if word == 0 {
                return false;
            }
            let (some, begin) = (left.min(RECEIVE_SLOT as usize - at), frame.len());
            frame.resize(begin + some, 0);
            let slot = PAGE_SIZE as usize + self.next * RECEIVE_SLOT as usize;
            self.memory.read(slot + at, &mut frame[begin..]);
            self.owner(self.next).store(0, Release);
            self.next = (self.next + 1) % self.receive_slots;
            (left, at) = (left - some, 0);
        }
        true
    }

    #[inline]
    fn send_words(&self, slot: usize) -> &[AtomicU64] {
        let first = (PAGE_SIZE as usize * (1 + self.receive_slots / 2) + slot * SEND_SLOT as usize) / 8;
        &self.memory.words()[first..first + SEND_SLOT as usize / 8]
    }

    /// Whether a frame would be taken now.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.send_words(self.next_send)[0].load(Acquire) == 0
    }

    /// Begins a frame with its head, which is copied.
    ///
    /// # Errors
    /// `Exhausted` without room, `TooMany` where it is too long.
    pub fn frame(&mut self, head: &[u8]) -> Result<Frame<'_, M>, Failure> {
        if !self.has_room() {
            return Err(Error::Exhausted.about(self.page.0));
        }
        let (header, rest) = head.split_at(head.len().min(SEND_HEADER));
        let (whole, last) = header.as_chunks();
        let last = last.iter().rfold(0, |word, byte| word << 8 | u64::from(*byte));
        let values = whole.iter().map(|bytes| u64::from_le_bytes(*bytes)).chain([last]);
        let words = &self.send_words(self.next_send)[HEADER..SEGMENTS];
        words.iter().zip(values).for_each(|(word, value)| word.store(value, Relaxed));
        let mut frame = Frame { header: header.len(), segments: 0, copied: 0, last: 0, ring: self };
        frame.copy(rest)?;
        Ok(frame)
    }
}

/// A frame that is put together in a send slot. What is dropped is not sent.
#[derive(Debug)]
pub struct Frame<'r, M> {
    ring: &'r mut Ring<M>,
    /// Bytes of the header.
    header: usize,
    /// Segments behind the header, bytes that were copied for them, and those of the last one, where it is of these.
    segments: usize,
    copied: usize,
    last: usize,
}

impl<M: RingMemory> Frame<'_, M> {
    /// Appends bytes, which are copied.
    ///
    /// # Errors
    /// `TooMany`: more bytes than half a page, or too many segments.
    pub fn copy(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.copied + bytes.len() > BODY {
            return Err(Error::TooMany.about(BODY as u64));
        }
        let (of_ring, _) = ring_pages(self.ring.receive_slots, self.ring.send_slots);
        let (page, half) = (of_ring + self.ring.next_send / 2, self.ring.next_send % 2 * BODY);
        self.ring.memory.write(page * PAGE_SIZE as usize + half + self.copied, bytes);
        self.copied += bytes.len();
        self.segments -= usize::from(self.last > 0);
        let length = self.last + bytes.len();
        self.push(SendSlot::segment(self.ring.pages[page], (half + self.copied - length) as u64, length as u64))?;
        self.last = length;
        Ok(())
    }

    /// Appends bytes of a page that the own first key reads. They may still be read after they were sent.
    ///
    /// # Errors
    /// `TooMany`: too many segments.
    pub fn lend(&mut self, page: PageNumber, offset: u64, bytes: u64) -> Result<(), Failure> {
        self.last = 0;
        self.push(SendSlot::segment(page, offset, bytes))
    }

    fn push(&mut self, segment: u64) -> Result<(), Failure> {
        let words = &self.ring.send_words(self.ring.next_send)[SEGMENTS..];
        words.get(self.segments).ok_or(Error::TooMany.about(SEND_SEGMENTS as u64))?.store(segment, Relaxed);
        self.segments += 1;
        Ok(())
    }

    /// Sends it by a filter.
    ///
    /// # Errors
    /// The kernel's refusals of `packet_send`.
    pub fn send(self, filter: u64) -> Result<(), Failure> {
        let ring = self.ring;
        let slot = ring.next_send;
        let words = ring.send_words(slot);
        words[3].store(self.header as u64 | (self.segments as u64) << 8, Relaxed);
        words[2].store(0, Relaxed);
        words[1].store(filter, Relaxed);
        words[0].store(1, Release);
        let taken = again(|| syscall::packet_send(KeyIndex::FIRST, ring.page, slot as u64, 1));
        if !matches!(taken, Ok(1)) {
            words[0].store(0, Release);
            return taken.and(Err(Error::Exhausted.about(ring.page.0)));
        }
        ring.next_send = (slot + 1) % ring.send_slots;
        Ok(())
    }
}
