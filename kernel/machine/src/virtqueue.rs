//! The split virtqueue (virtio 1.2, section 2.7), proof against its device (FAULTS row 75).
//!
//! The three rings lie in memory that the device can write. So nothing is ever read back but the used ring, and that
//! is checked against what the kernel remembers on its own side. That is which chains are out, with how many writable
//! bytes, under which token, over which pages of programs. A device that breaks the rules gets [`Broken`], and its
//! driver resets it.
//!
//! Invariants:
//! - a chain that the device has keeps its pins: they come out by [`Virtqueue::take`], or after a reset of the device;
//! - nothing is freed twice, and no length exceeds what was offered.

use crate::dma::{Direction, Part, Pinned, Segment};
use crate::layout::PAGE_SIZE;
use core::borrow::BorrowMut;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Entries of a queue whose record lies in its owner; all rings of it fit in a page.
pub const ENTRIES: usize = 64;

const DESCRIPTOR_BYTES: u64 = 16;
const FLAG_NEXT: u64 = 1;
const FLAG_DEVICE_WRITES: u64 = 2;
/// Flag of the used ring.
const FLAG_NO_NOTIFY: u16 = 1;
const NONE: u16 = u16::MAX;
/// Entries of any queue at most (virtio 1.2, section 2.7).
const MOST_ENTRIES: usize = 1 << 15;

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
#[derive(Debug)]
pub struct Slot {
    /// The next of its chain or of the free list.
    next: u16,
    /// It is the head of a chain that the device has.
    out: bool,
    token: u64,
    writable: u32,
    /// The page of a program that it points to.
    pin: Option<Pinned>,
}

impl Slot {
    /// Room for a record.
    pub const EMPTY: Self = Self { next: NONE, out: false, token: 0, writable: 0, pin: None };
}

/// Where the three rings of a queue lie in its memory, and how many bytes they take.
#[derive(Clone, Copy, Debug)]
struct Layout {
    available: u64,
    used: u64,
    bytes: u64,
}

impl Layout {
    const fn of(entries: u64) -> Self {
        let available = entries * DESCRIPTOR_BYTES;
        let used = (available + 6 + entries * 2).next_multiple_of(8);
        Self { available, used, bytes: used + 6 + entries * 8 }
    }
}

const _: () = assert!(Layout::of(ENTRIES as u64).bytes <= PAGE_SIZE);

/// Pages that the rings of a queue take.
pub(crate) const fn pages(entries: u16) -> u64 {
    Layout::of(entries as u64).bytes.div_ceil(PAGE_SIZE)
}

/// One queue. Its owner gives it the memory of its rings and the records of its descriptors.
#[derive(Debug)]
pub struct Virtqueue<S = [Slot; ENTRIES]> {
    physical: u64,
    base: u64,
    entries: u16,
    layout: Layout,
    slots: S,
    first_free: u16,
    free: u16,
    available: u16,
    used: u16,
    chains_out: u16,
    /// Descriptors below this are heads of no chain that is out: [`Self::take_back`] looks from here.
    taken_back: u16,
}

impl<S: BorrowMut<[Slot]>> Virtqueue<S> {
    /// An empty queue of `entries` entries (a power of two) over the [`pages`] at `physical`, mapped at `base`.
    ///
    /// # Safety
    /// The pages belong to this queue alone, for ever, and no device knows of them yet.
    pub(crate) unsafe fn new(physical: u64, base: u64, entries: u16, slots: S) -> Self {
        let most = slots.borrow().len().min(MOST_ENTRIES);
        assert!(entries.is_power_of_two() && usize::from(entries) <= most);
        let layout = Layout::of(u64::from(entries));
        let mut queue = Self {
            physical,
            base,
            entries,
            layout,
            slots,
            first_free: 0,
            free: 0,
            available: 0,
            used: 0,
            chains_out: 0,
            taken_back: 0,
        };
        queue.clear();
        queue
    }

    /// Forgets every chain. The device must have been reset. A pin that was not taken back is never ended.
    pub(crate) fn clear(&mut self) {
        for offset in (0..self.layout.bytes.next_multiple_of(8)).step_by(8) {
            self.word64(offset).store(0, Ordering::Relaxed);
        }
        let entries = usize::from(self.entries);
        for (index, slot) in self.slots.borrow_mut().iter_mut().take(entries).enumerate() {
            let next = if index + 1 < entries { index as u16 + 1 } else { NONE };
            *slot = Slot { next, ..Slot::EMPTY };
        }
        (self.first_free, self.free) = (0, self.entries);
        (self.available, self.used, self.chains_out, self.taken_back) = (0, 0, 0, 0);
    }

    /// Entries.
    pub fn entries(&self) -> u16 {
        self.entries
    }

    /// Physical addresses of descriptors, available ring and used ring.
    pub(crate) fn addresses(&self) -> [u64; 3] {
        [0, self.layout.available, self.layout.used].map(|offset| self.physical + offset)
    }

    /// Descriptors that are free.
    pub fn room(&self) -> usize {
        usize::from(self.free)
    }

    fn slot(&mut self, index: u16) -> &mut Slot {
        &mut self.slots.borrow_mut()[usize::from(index)]
    }

    /// Offers a chain of boot memory to the device; false if there are not enough free descriptors. The device learns
    /// of it when it is notified.
    pub fn offer(&mut self, token: u64, segments: &[Segment]) -> bool {
        self.offer_parts(token, segments.len(), segments.iter().copied().map(Part::from))
    }

    /// The same of the first `count` parts; where it is false, no part was asked for.
    pub fn offer_parts(&mut self, token: u64, count: usize, parts: impl IntoIterator<Item = Part>) -> bool {
        if count == 0 || count > self.room() {
            return false;
        }
        let mut parts = parts.into_iter();
        let head = self.first_free;
        let mut writable = 0u32;
        for position in 0..count {
            let Part { segment, pin } = parts.next().expect("there are as many parts as were promised");
            let index = self.first_free;
            let next = self.slot(index).next;
            let last = position + 1 == count;
            self.write_descriptor(index, &segment, if last { None } else { Some(next) });
            let slot = self.slot(index);
            slot.pin = pin;
            if last {
                slot.next = NONE;
            }
            if segment.direction == Direction::FromDevice {
                writable = writable.saturating_add(segment.length);
            }
            self.first_free = next;
        }
        self.free -= count as u16;
        let slot = self.slot(head);
        (slot.out, slot.token, slot.writable) = (true, token, writable);
        self.publish(head);
        true
    }

    fn publish(&mut self, head: u16) {
        let entry = self.layout.available + 4 + u64::from(self.available % self.entries) * 2;
        self.word16(entry).store(head, Ordering::Relaxed);
        self.available = self.available.wrapping_add(1);
        self.chains_out += 1;
        self.word16(self.layout.available + 2).store(self.available, Ordering::Release);
        // The index must be seen before the device is notified.
        fence(Ordering::SeqCst);
    }

    /// Asks the device for no interrupts of this queue, or for interrupts again: a hint. What the device has done
    /// meanwhile must be taken after it was asked again.
    pub fn suppress_interrupts(&self, suppress: bool) {
        self.word16(self.layout.available).store(u16::from(suppress), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether the device wants to be notified of chains.
    pub fn wants_notification(&self) -> bool {
        self.word16(self.layout.used).load(Ordering::Relaxed) & FLAG_NO_NOTIFY == 0
    }

    /// Takes back a chain that the device is done with; `ended` gets the pins of its pages.
    pub fn take(&mut self, ended: impl FnMut(Pinned)) -> Result<Option<Completion>, Broken> {
        let index = self.word16(self.layout.used + 2).load(Ordering::Acquire);
        let done = index.wrapping_sub(self.used);
        if done == 0 {
            return Ok(None);
        }
        if done > self.chains_out {
            return Err(Broken);
        }
        let entry = self.layout.used + 4 + u64::from(self.used % self.entries) * 8;
        let head = self.word32(entry).load(Ordering::Relaxed);
        let length = self.word32(entry + 4).load(Ordering::Relaxed);
        if head >= u32::from(self.entries) {
            return Err(Broken);
        }
        let head = head as u16;
        let slot = self.slot(head);
        if !slot.out || length > slot.writable {
            return Err(Broken);
        }
        let token = slot.token;
        self.used = self.used.wrapping_add(1);
        self.free_chain(head, ended);
        Ok(Some(Completion { token, length }))
    }

    /// Takes back any chain that the device has, which must have been reset: its token. Until the queue is cleared it
    /// takes no chain.
    pub(crate) fn take_back(&mut self, ended: impl FnMut(Pinned)) -> Option<u64> {
        let from = usize::from(self.taken_back);
        let slots = &self.slots.borrow()[from..usize::from(self.entries)];
        let found = slots.iter().position(|slot| slot.out);
        self.taken_back = found.map_or(self.entries, |index| (from + index) as u16);
        let head = found.map(|_| self.taken_back)?;
        let token = self.slot(head).token;
        self.free_chain(head, ended);
        Some(token)
    }

    /// The token of the chain that has a page of a program.
    pub fn holder_of(&self, page: abi::PageNumber) -> Option<u64> {
        let slots = self.slots.borrow();
        let is_over = |head: &Slot| {
            let mut slot = head;
            loop {
                if slot.pin.as_ref().is_some_and(|pin| pin.page() == page) {
                    return true;
                }
                match slots.get(usize::from(slot.next)) {
                    Some(next) => slot = next,
                    None => return false,
                }
            }
        };
        slots.iter().filter(|slot| slot.out).find(|head| is_over(head)).map(|head| head.token)
    }

    fn free_chain(&mut self, head: u16, mut ended: impl FnMut(Pinned)) {
        self.slot(head).out = false;
        self.chains_out -= 1;
        let first_free = core::mem::replace(&mut self.first_free, head);
        let mut index = head;
        loop {
            self.free += 1;
            let slot = self.slot(index);
            if let Some(pin) = slot.pin.take() {
                ended(pin);
            }
            if slot.next == NONE {
                slot.next = first_free;
                return;
            }
            index = slot.next;
        }
    }

    fn write_descriptor(&self, index: u16, segment: &Segment, next: Option<u16>) {
        let device_writes = if segment.direction == Direction::FromDevice { FLAG_DEVICE_WRITES } else { 0 };
        let flags = device_writes | if next.is_some() { FLAG_NEXT } else { 0 };
        let second = u64::from(segment.length) | flags << 32 | u64::from(next.unwrap_or(0)) << 48;
        let place = u64::from(index) * DESCRIPTOR_BYTES;
        self.word64(place).store(segment.address, Ordering::Relaxed);
        self.word64(place + 8).store(second, Ordering::Relaxed);
    }

    fn address(&self, offset: u64) -> u64 {
        self.base + offset
    }

    fn word16(&self, offset: u64) -> &AtomicU16 {
        // SAFETY: `offset` lies in the queue's pages and is even; the pages are used through atomics only.
        unsafe { &*(self.address(offset) as *const AtomicU16) }
    }

    fn word32(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: `offset` lies in the queue's pages and is a multiple of 4; the pages are used through atomics only.
        unsafe { &*(self.address(offset) as *const AtomicU32) }
    }

    fn word64(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: `offset` lies in the queue's pages and is a multiple of 8; the pages are used through atomics only.
        unsafe { &*(self.address(offset) as *const AtomicU64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    #[repr(align(4096))]
    struct Page {
        _words: [u64; 512],
    }

    fn queue(entries: u16) -> Virtqueue {
        let page = Box::leak(Box::new(Page { _words: [0xff; 512] }));
        // SAFETY: the page is leaked, so it belongs to the queue for ever.
        unsafe { Virtqueue::new(0x1000, core::ptr::from_mut(page) as u64, entries, [const { Slot::EMPTY }; ENTRIES]) }
    }

    fn segment(length: u32, direction: Direction) -> Segment {
        Segment { address: 0x5000, length, direction }
    }

    /// Plays the device: writes a used entry.
    fn complete(queue: &Virtqueue, index: u16, head: u32, length: u32) {
        let entry = queue.layout.used + 4 + u64::from(index % queue.entries) * 8;
        queue.word32(entry).store(head, Ordering::Relaxed);
        queue.word32(entry + 4).store(length, Ordering::Relaxed);
        queue.word16(queue.layout.used + 2).store(index.wrapping_add(1), Ordering::Release);
    }

    fn available_head(queue: &Virtqueue, index: u16) -> u16 {
        queue.word16(queue.layout.available + 4 + u64::from(index % queue.entries) * 2).load(Ordering::Relaxed)
    }

    #[test]
    fn chains_come_back_with_their_tokens_in_any_order() {
        let mut queue = queue(8);
        for token in 0..4 {
            assert!(queue.offer(token, &[segment(10, Direction::ToDevice), segment(20, Direction::FromDevice)]));
        }
        assert!(!queue.offer(9, &[segment(1, Direction::ToDevice)]));
        for (index, chain) in [2u16, 0, 3, 1].into_iter().enumerate() {
            let head = available_head(&queue, chain);
            complete(&queue, index as u16, u32::from(head), 20);
            assert_eq!(queue.take(drop), Ok(Some(Completion { token: u64::from(chain), length: 20 })));
        }
        assert_eq!((queue.take(drop), queue.room()), (Ok(None), 8));
    }

    #[test]
    fn fault_75_identifier_out_of_range_or_not_out() {
        for head in [8, 63, 64, 65_535, u32::MAX, 1] {
            let mut queue = queue(8);
            assert!(queue.offer(7, &[segment(10, Direction::FromDevice)]));
            complete(&queue, 0, head, 1);
            assert_eq!(queue.take(drop), Err(Broken), "head {head}");
        }
    }

    #[test]
    fn fault_75_same_chain_twice() {
        let mut queue = queue(8);
        assert!(queue.offer(1, &[segment(10, Direction::FromDevice)]));
        assert!(queue.offer(2, &[segment(10, Direction::FromDevice)]));
        let head = u32::from(available_head(&queue, 0));
        complete(&queue, 0, head, 1);
        assert!(queue.take(drop).is_ok());
        complete(&queue, 1, head, 1);
        assert_eq!(queue.take(drop), Err(Broken));
    }

    #[test]
    fn fault_75_length_beyond_what_was_offered() {
        let mut queue = queue(8);
        assert!(queue.offer(1, &[segment(100, Direction::ToDevice), segment(10, Direction::FromDevice)]));
        complete(&queue, 0, 0, 11);
        assert_eq!(queue.take(drop), Err(Broken));
    }

    #[test]
    fn fault_75_index_jumps() {
        for jump in [2u16, 9, 32_768, 65_535] {
            let mut queue = queue(8);
            assert!(queue.offer(1, &[segment(10, Direction::FromDevice)]));
            queue.word16(queue.layout.used + 2).store(jump, Ordering::Release);
            assert_eq!(queue.take(drop), Err(Broken), "jump {jump}");
        }
    }

    #[test]
    fn fault_75_a_device_that_scribbles_over_its_rings_breaks_nothing() {
        for seed in 1..3000u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = move |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % bound
            };
            let mut queue = queue(16);
            let mut out: Vec<(u64, u32)> = Vec::new();
            for token in 0..60 {
                let segments: Vec<_> = (0..random(3) + 1)
                    .map(|_| {
                        segment(
                            random(100) as u32,
                            if random(2) == 0 { Direction::ToDevice } else { Direction::FromDevice },
                        )
                    })
                    .collect();
                let writable = segments.iter().filter(|s| s.direction == Direction::FromDevice).map(|s| s.length).sum();
                if queue.offer(token, &segments) {
                    out.push((token, writable));
                }
                queue.word64(random(512) * 8).store(random(u64::MAX), Ordering::Relaxed);
                complete(&queue, queue.used.wrapping_add(random(3) as u16), random(20) as u32, random(60) as u32);
                match queue.take(drop) {
                    Ok(Some(done)) => {
                        let place =
                            out.iter().position(|(token, _)| *token == done.token).expect("a chain that was out");
                        assert!(done.length <= out.swap_remove(place).1, "seed {seed}");
                    }
                    Ok(None) => {}
                    Err(Broken) => {
                        queue.clear();
                        out.clear();
                        assert_eq!(queue.room(), 16);
                    }
                }
            }
        }
    }
}
