//! Send queue: the bytes that are not acknowledged yet, as a list of extents in pages of the owner's. Payload is never
//! copied; its checksum comes from the extents' stored sums.
//!
//! Invariant: `length` is the sum of the extents' lengths without `head`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::checksum::Sum;
use crate::link::{Extent, Pages, Part};

#[derive(Debug, Default)]
pub struct SendQueue {
    extents: VecDeque<Extent>,
    /// Acknowledged bytes of the first extent, which stays whole so that its stored sum stays right.
    head: u32,
    length: u32,
}

impl SendQueue {
    /// Bytes that are not acknowledged.
    pub fn length(&self) -> u32 {
        self.length
    }

    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// Acknowledged bytes of the first extent.
    pub fn head(&self) -> u32 {
        self.head
    }

    pub fn push(&mut self, extent: Extent) {
        if extent.length > 0 {
            self.length += extent.length;
            self.extents.push_back(extent);
        }
    }

    /// A queue as [`SendQueue::extents`] and [`SendQueue::head`] describe it; `None` when they contradict each other.
    pub fn restore(extents: Vec<Extent>, head: u32) -> Option<Self> {
        let total = extents.iter().try_fold(0u32, |total, extent| total.checked_add(extent.length))?;
        let first = extents.first().map_or(0, |extent| extent.length);
        if head > 0 && head >= first {
            return None;
        }
        Some(Self { extents: extents.into(), head, length: total - head })
    }

    /// Drops the first `bytes` bytes and releases the extents that end there.
    pub fn acknowledge(&mut self, bytes: u32, released: &mut Vec<Extent>) {
        let bytes = bytes.min(self.length);
        self.length -= bytes;
        self.head += bytes;
        while let Some(first) = self.extents.front().filter(|first| first.length <= self.head) {
            self.head -= first.length;
            released.push(*first);
            self.extents.pop_front();
        }
        if self.extents.is_empty() {
            self.extents = VecDeque::new();
        }
    }

    pub fn clear(&mut self, released: &mut Vec<Extent>) {
        released.extend(core::mem::take(self).extents);
    }

    /// Appends the parts of `offset..offset + length` to `parts` and returns their sum.
    pub fn gather(&self, offset: u32, length: u32, pages: &impl Pages, parts: &mut Vec<Part>) -> Sum {
        let mut skip = offset + self.head;
        let mut left = length;
        let mut done = 0;
        let mut sum = Sum::ZERO;
        for extent in &self.extents {
            if left == 0 {
                break;
            }
            if skip >= extent.length {
                skip -= extent.length;
                continue;
            }
            let part = Part { page: extent.page, offset: extent.offset + skip, length: left.min(extent.length - skip) };
            sum = sum.combine_at(done, sum_of(extent, part, pages));
            done += part.length as usize;
            left -= part.length;
            skip = 0;
            parts.push(part);
        }
        sum
    }
}

/// The sum of a part: the stored one without what lies before and after it where that is shorter.
fn sum_of(extent: &Extent, part: Part, pages: &impl Pages) -> Sum {
    if part.length == extent.length {
        return extent.sum;
    }
    if part.length <= extent.length / 2 {
        return Sum::of(pages.bytes(part));
    }
    let before = part.offset - extent.offset;
    let after = before + part.length;
    let head = Part { page: extent.page, offset: extent.offset, length: before };
    let tail = Part { page: extent.page, offset: extent.offset + after, length: extent.length - after };
    let rest = extent.sum.subtract_at(0, Sum::of(pages.bytes(head)));
    rest.subtract_at(after as usize, Sum::of(pages.bytes(tail))).shifted(before as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<u8>);

    impl Pages for Memory {
        fn bytes(&self, part: Part) -> &[u8] {
            &self.0[part.offset as usize..][..part.length as usize]
        }

        fn release(&mut self, _: Extent) {}
    }

    fn queue(memory: &Memory, lengths: &[u32]) -> SendQueue {
        let mut queue = SendQueue::default();
        let mut offset = 0;
        for &length in lengths {
            let sum = Sum::of(memory.bytes(Part { page: 0, offset, length }));
            queue.push(Extent { page: 0, offset, length, sum });
            offset += length;
        }
        queue
    }

    #[test]
    fn sums_of_any_part_are_right() {
        let memory = Memory((0..60).map(|index: u32| (index * 89 + 7) as u8).collect());
        for head in 0..10 {
            let mut queue = queue(&memory, &[11, 20, 1, 9, 19]);
            queue.acknowledge(head, &mut Vec::new());
            for offset in 0..60 - head {
                for length in 0..=60 - head - offset {
                    let mut parts = Vec::new();
                    let sum = queue.gather(offset, length, &memory, &mut parts);
                    let bytes: Vec<u8> = parts.iter().flat_map(|part| memory.bytes(*part)).copied().collect();
                    assert_eq!(bytes, memory.0[(head + offset) as usize..][..length as usize]);
                    assert_eq!(sum.word() % 0xffff, Sum::of(&bytes).word() % 0xffff, "{head} {offset} {length}");
                }
            }
        }
    }

    #[test]
    fn extents_are_released_when_their_last_byte_is_acknowledged() {
        let memory = Memory(alloc::vec![1; 60]);
        let mut queue = queue(&memory, &[10, 20, 30]);
        let mut released = Vec::new();
        queue.acknowledge(9, &mut released);
        assert_eq!((queue.length(), released.len()), (51, 0));
        queue.acknowledge(21, &mut released);
        assert_eq!((queue.length(), queue.head(), released.len()), (30, 0, 2));
        queue.acknowledge(1000, &mut released);
        assert_eq!((queue.length(), released.len()), (0, 3));
    }
}
