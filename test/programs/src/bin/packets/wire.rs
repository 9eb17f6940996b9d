//! What the tests share: a ring with its pages mapped, filters in few words, frames.

use abi::limits::PAGE_SIZE;
use abi::packet_filter::{Atom, FilterSpecification, ROOT};
use abi::packet_ring::{FRAME_OFFSET, RECEIVE_SLOT, RingSpecification, SEND_SLOT, SLOTS, owner};
use abi::page::PageKind;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use runtime::address_space::Access;
use runtime::page::Allocator;
use runtime::window::Window;
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, area, syscall};
use test_programs::granted;

pub(crate) const KEY: KeyIndex = KeyIndex::FIRST;
/// The kind of frame that most tests send: bytes 12 and 13.
pub(crate) const KIND: u16 = 0x88b5;

/// A ring, and where its reader is.
pub(crate) struct Ring {
    pub(crate) object: PageNumber,
    pub(crate) pages: Vec<PageNumber>,
    pub(crate) window: Window,
    pub(crate) slots: usize,
    send: usize,
    next: usize,
}

/// A frame out of a ring.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) word: u64,
    pub(crate) when: u64,
}

impl Frame {
    pub(crate) fn tag(&self) -> u64 {
        self.word >> owner::TAG_SHIFT & 0xffff
    }
}

/// Makes a ring of these pages.
pub(crate) fn become_ring(key: KeyIndex, object: PageNumber, slots: (u64, u64), pages: &[u64]) -> Result<(), Failure> {
    let (receive_slots, send_slots) = slots;
    let wanted = RingSpecification { receive_slots, send_slots, pages: pages.as_ptr() as u64 };
    let at = (&raw const wanted) as u64;
    // SAFETY: the kernel reads the specification and the numbers; what it writes are pages of windows, of atomic words.
    unsafe { syscall::page_become(key, object, PageKind::PacketRing as u64, at) }
}

impl Ring {
    pub(crate) fn new(slots: usize, send: usize) -> Result<Self, String> {
        let mut pages = alloc::vec![PageNumber::NONE; 2 + slots / 2 + send / 8];
        granted!(Allocator::own().allocate_many(&mut pages));
        let object = pages.remove(0);
        let window = granted!(Window::open(&pages, KEY, Access::WRITE));
        let numbers: Vec<u64> = pages.iter().map(|page| page.0).collect();
        granted!(become_ring(KEY, object, (slots as u64, send as u64), &numbers));
        Ok(Self { object, pages, window, slots, send, next: 0 })
    }

    pub(crate) fn control(&self, offset: u64) -> u64 {
        self.word(offset).load(Acquire)
    }

    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        &self.window.words()[offset as usize / 8]
    }

    pub(crate) fn owner(&self, slot: usize) -> &AtomicU64 {
        self.word(SLOTS + 16 * slot as u64)
    }

    /// The next frame, if there is one.
    pub(crate) fn take(&mut self) -> Option<Frame> {
        let word = self.owner(self.next).load(Acquire);
        if word == 0 {
            return None;
        }
        let when = self.word(SLOTS + 16 * self.next as u64 + 8).load(Acquire);
        let (mut left, mut at) = ((word & owner::LENGTH) as usize, FRAME_OFFSET as usize);
        let mut bytes = Vec::new();
        for _ in 0..=word >> owner::FURTHER_SHIFT & 63 {
            let some = left.min(RECEIVE_SLOT as usize - at);
            let mut part = alloc::vec![0; some];
            self.window.read(PAGE_SIZE as usize + self.next * RECEIVE_SLOT as usize + at, &mut part);
            bytes.extend(part);
            self.owner(self.next).store(0, Release);
            self.next = (self.next + 1) % self.slots;
            (left, at) = (left - some, 0);
        }
        Some(Frame { bytes, word, when })
    }

    /// Where a send slot lies.
    pub(crate) fn send_word(&self, slot: usize) -> usize {
        (PAGE_SIZE as usize * (1 + self.slots / 2) + slot * SEND_SLOT as usize) / 8
    }

    /// Fills a send slot.
    pub(crate) fn fill(&self, slot: usize, filter: u64, header: &[u8], segments: &[u64], offload: u64) {
        assert!(slot < self.send);
        let mut words = [0; 64];
        words[1..4].copy_from_slice(&[filter, offload, header.len() as u64 | (segments.len() as u64) << 8]);
        for (index, byte) in header.iter().enumerate() {
            words[4 + index / 8] |= u64::from(*byte) << (8 * (index % 8));
        }
        words[20..20 + segments.len()].copy_from_slice(segments);
        words[0] = 1;
        let first = self.send_word(slot);
        for (index, word) in words.iter().enumerate().rev() {
            self.window.words()[first + index].store(*word, SeqCst);
        }
    }

    /// Sends one frame.
    pub(crate) fn send(&self, filter: u64, header: &[u8], segments: &[u64]) -> Result<u64, Failure> {
        self.fill(0, filter, header, segments, 0);
        syscall::packet_send(KEY, self.object, 0, 1)
    }

    /// Gives everything back.
    pub(crate) fn free(self) -> Result<(), String> {
        granted!(free_ring(self.object));
        drop(self.window);
        for page in self.pages {
            granted!(syscall::page_free(KEY, page));
        }
        Ok(())
    }
}

/// Ends a ring, in steps.
pub(crate) fn free_ring(object: PageNumber) -> Result<(), Failure> {
    again(|| syscall::page_free(KEY, object))
}

/// Calls until there is another answer than `Again`.
pub(crate) fn again<T>(mut call: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    loop {
        match call() {
            Err(Failure { error: Error::Again, .. }) => {}
            answer => return answer,
        }
    }
}

/// The load at a byte of the frame equals a value.
pub(crate) fn equal(size: u8, byte: u32, value: u32) -> Atom {
    let mask = u32::MAX >> (32 - 8 * u32::from(size));
    Atom { size, offset: 8 + byte, mask, low: value, ..Atom::default() }
}

/// It lies within two values.
pub(crate) fn within(size: u8, byte: u32, low: u32, high: u32) -> Atom {
    Atom { compare: 2, high, ..equal(size, byte, low) }
}

/// The frame comes from the machine itself.
pub(crate) fn loopback() -> Atom {
    Atom { size: 2, mask: 0xffff, ..Atom::default() }
}

/// A filter of the own list, without a ring, in a parent.
pub(crate) fn filter_in(parent: u64, atoms: &[Atom]) -> FilterSpecification {
    let (at, count) = (atoms.as_ptr() as u64, atoms.len() as u64);
    FilterSpecification { atoms: at, atom_count: count, ..runtime::packet::filter(0, parent, area::access_list(), KEY) }
}

/// One to a ring.
pub(crate) fn filter_to(ring: &Ring, parent: u64, atoms: &[Atom]) -> FilterSpecification {
    FilterSpecification { ring: ring.object.0, ..filter_in(parent, atoms) }
}

/// A step of an insertion.
pub(crate) fn insert_step(key: KeyIndex, wanted: &FilterSpecification) -> Result<u64, Failure> {
    // SAFETY: the kernel reads the specification, and the atoms that it names.
    unsafe { syscall::filter_insert(key, UserAddress(core::ptr::from_ref(wanted) as u64)) }
}

pub(crate) fn insert(key: KeyIndex, wanted: &FilterSpecification) -> Result<u64, Failure> {
    again(|| insert_step(key, wanted))
}

/// Removes a filter that this program inserted, by a key without rights: it is charged for it (decision 0052).
pub(crate) fn remove(filter: u64) -> Result<(), Failure> {
    again(|| syscall::filter_remove(KeyIndex::WELL_KNOWN, filter))
}

/// A root for frames of [`KIND`], which has no ring.
pub(crate) fn root() -> Result<u64, Failure> {
    insert(KEY, &filter_in(ROOT, &[loopback(), equal(2, 12, u32::from(KIND))]))
}

/// A filter by which anything can be sent.
pub(crate) fn sender() -> Result<u64, Failure> {
    insert(KEY, &filter_in(ROOT, &[]))
}

/// A header of this kind, and 32 bits behind it.
pub(crate) fn header(kind: u16, word: u32) -> [u8; 18] {
    let mut header = [0xee; 18];
    header[12..14].copy_from_slice(&kind.to_be_bytes());
    header[14..].copy_from_slice(&word.to_be_bytes());
    header
}
