//! The split virtqueue (virtio 1.2, section 2.7), proof against its device (FAULTS row 75).
//!
//! The three rings lie in memory that the device can write. So nothing is ever read back but the used ring, and that is
//! checked against what the kernel remembers on its own side: which chains are out, with how many writable bytes, under
//! which token. A device that breaks the rules gets [`Broken`], and its driver resets it; nothing is freed twice and no
//! length exceeds what was offered.

use crate::dma::{Direction, Segment};
use crate::layout::{PAGE_SIZE, direct};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Entries of every queue; a power of two. All rings of one queue fit in a page.
pub const ENTRIES: usize = 64;

const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 2048;
const USED: u64 = 3072;
const FLAG_NEXT: u64 = 1;
const FLAG_DEVICE_WRITES: u64 = 2;
const NONE: u16 = u16::MAX;

const _: () = assert!(ENTRIES * 16 <= AVAILABLE as usize && 6 + ENTRIES * 2 <= (USED - AVAILABLE) as usize);
const _: () = assert!(USED as usize + 6 + ENTRIES * 8 <= PAGE_SIZE as usize);

/// The device has broken the rules of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A chain that the device is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The token it was offered with.
    pub token: u64,
    /// Bytes that the device says it wrote; never more than were offered for writing.
    pub length: u32,
}

/// The kernel's own record of one descriptor.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The next of its chain or of the free list.
    next: u16,
    /// It is the head of a chain that the device has.
    out: bool,
    token: u64,
    writable: u32,
}

/// One queue.
#[derive(Debug)]
pub struct Virtqueue {
    physical: u64,
    slots: [Slot; ENTRIES],
    first_free: u16,
    free: u16,
    available: u16,
    used: u16,
    chains_out: u16,
}

impl Virtqueue {
    /// An empty queue over a zeroed page.
    ///
    /// # Safety
    /// The page is in the direct map and belongs to this queue alone as long as the device may know of it.
    pub(crate) unsafe fn new(physical: u64) -> Self {
        let mut slots = [Slot { next: NONE, out: false, token: 0, writable: 0 }; ENTRIES];
        for (index, slot) in slots.iter_mut().enumerate().take(ENTRIES - 1) {
            slot.next = index as u16 + 1;
        }
        Self { physical, slots, first_free: 0, free: ENTRIES as u16, available: 0, used: 0, chains_out: 0 }
    }

    /// Physical addresses of descriptors, available ring and used ring.
    pub(crate) fn addresses(&self) -> [u64; 3] {
        [DESCRIPTORS, AVAILABLE, USED].map(|offset| self.physical + offset)
    }

    /// Descriptors that are free.
    pub fn room(&self) -> usize {
        usize::from(self.free)
    }

    /// Offers a chain to the device; false if there are not enough free descriptors. The device learns of it when it is
    /// notified.
    pub fn offer(&mut self, token: u64, segments: &[Segment]) -> bool {
        if segments.is_empty() || segments.len() > self.room() {
            return false;
        }
        let head = self.first_free;
        let mut writable = 0u32;
        for (position, segment) in segments.iter().enumerate() {
            let index = self.first_free;
            let next = self.slots[usize::from(index)].next;
            let last = position + 1 == segments.len();
            self.write_descriptor(index, segment, if last { None } else { Some(next) });
            if last {
                self.slots[usize::from(index)].next = NONE;
            }
            if segment.direction == Direction::FromDevice {
                writable = writable.saturating_add(segment.length);
            }
            self.first_free = next;
        }
        self.free -= segments.len() as u16;
        self.slots[usize::from(head)] = Slot { out: true, token, writable, ..self.slots[usize::from(head)] };
        self.publish(head);
        true
    }

    fn publish(&mut self, head: u16) {
        let entry = AVAILABLE + 4 + u64::from(self.available % ENTRIES as u16) * 2;
        self.word16(entry).store(head, Ordering::Relaxed);
        self.available = self.available.wrapping_add(1);
        self.chains_out += 1;
        self.word16(AVAILABLE + 2).store(self.available, Ordering::Release);
        // The index must be seen before the device is notified.
        fence(Ordering::SeqCst);
    }

    /// Takes back a chain that the device is done with.
    pub fn take(&mut self) -> Result<Option<Completion>, Broken> {
        let index = self.word16(USED + 2).load(Ordering::Acquire);
        let done = index.wrapping_sub(self.used);
        if done == 0 {
            return Ok(None);
        }
        if done > self.chains_out {
            return Err(Broken);
        }
        let entry = USED + 4 + u64::from(self.used % ENTRIES as u16) * 8;
        let head = self.word32(entry).load(Ordering::Relaxed);
        let length = self.word32(entry + 4).load(Ordering::Relaxed);
        let slot = *self.slots.get(head as usize).filter(|slot| slot.out && length <= slot.writable).ok_or(Broken)?;
        self.used = self.used.wrapping_add(1);
        self.chains_out -= 1;
        self.free_chain(head as u16);
        Ok(Some(Completion { token: slot.token, length }))
    }

    fn free_chain(&mut self, head: u16) {
        self.slots[usize::from(head)].out = false;
        let mut index = head;
        loop {
            self.free += 1;
            let slot = &mut self.slots[usize::from(index)];
            if slot.next == NONE {
                slot.next = self.first_free;
                self.first_free = head;
                return;
            }
            index = slot.next;
        }
    }

    fn write_descriptor(&self, index: u16, segment: &Segment, next: Option<u16>) {
        let device_writes = if segment.direction == Direction::FromDevice { FLAG_DEVICE_WRITES } else { 0 };
        let flags = device_writes | if next.is_some() { FLAG_NEXT } else { 0 };
        let second = u64::from(segment.length) | flags << 32 | u64::from(next.unwrap_or(0)) << 48;
        let place = DESCRIPTORS + u64::from(index) * 16;
        self.word64(place).store(segment.address, Ordering::Relaxed);
        self.word64(place + 8).store(second, Ordering::Relaxed);
    }

    fn address(&self, offset: u64) -> u64 {
        direct(self.physical) + offset
    }

    fn word16(&self, offset: u64) -> &AtomicU16 {
        // SAFETY: `offset` lies in the queue's page and is even; the page is used through atomics only.
        unsafe { &*(self.address(offset) as *const AtomicU16) }
    }

    fn word32(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: `offset` lies in the queue's page and is a multiple of 4; the page is used through atomics only.
        unsafe { &*(self.address(offset) as *const AtomicU32) }
    }

    fn word64(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: `offset` lies in the queue's page and is a multiple of 8; the page is used through atomics only.
        unsafe { &*(self.address(offset) as *const AtomicU64) }
    }
}
