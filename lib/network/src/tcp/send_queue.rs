//! Send queue: the bytes that are not acknowledged yet, as a list of extents in pages of the owner's. Payload is never
//! copied; its checksum comes from the extents' stored sums, where they have one.
//!
//! Invariant: `length` is the sum of the extents' lengths without `head`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::checksum::Sum;
use crate::link::{Extent, Pages, Part};

#[derive(Debug, Default)]
pub struct SendQueue {
    /// Each with the position at which it begins. Positions grow, and only their differences mean something.
    extents: VecDeque<(u64, Extent)>,
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
        self.extents.iter().map(|(_, extent)| extent)
    }

    /// Bytes of the extents that are not released: some that are acknowledged are summed again with the rest of theirs.
    pub fn held(&self) -> u32 {
        self.head + self.length
    }

    /// Acknowledged bytes of the first extent.
    pub fn head(&self) -> u32 {
        self.head
    }

    pub fn push(&mut self, extent: Extent) {
        if extent.length > 0 {
            self.length += extent.length;
            let begins = self.extents.back().map_or(0, |(begins, last)| begins + u64::from(last.length));
            self.extents.push_back((begins, extent));
        }
    }

    /// A queue as [`SendQueue::extents`] and [`SendQueue::head`] describe it; `None` when they contradict each other.
    pub fn restore(extents: Vec<Extent>, head: u32) -> Option<Self> {
        extents.iter().try_fold(0u32, |total, extent| total.checked_add(extent.length))?;
        let first = extents.first().map_or(0, |extent| extent.length);
        if head > 0 && head >= first {
            return None;
        }
        let mut queue = Self::default();
        extents.into_iter().for_each(|extent| queue.push(extent));
        (queue.head, queue.length) = (head, queue.length - head);
        Some(queue)
    }

    /// Drops the first `bytes` bytes and releases the extents that end there.
    pub fn acknowledge(&mut self, bytes: u32, released: &mut Vec<Extent>) {
        let bytes = bytes.min(self.length);
        self.length -= bytes;
        self.head += bytes;
        while let Some((_, first)) = self.extents.pop_front_if(|(_, first)| first.length <= self.head) {
            self.head -= first.length;
            released.push(first);
        }
        if self.extents.is_empty() {
            self.extents = VecDeque::new();
        }
    }

    pub fn clear(&mut self, released: &mut Vec<Extent>) {
        released.extend(core::mem::take(self).extents());
    }

    /// Appends the parts of `offset..offset + length` to `parts` and returns their sum.
    pub fn gather(&self, offset: u32, length: u32, pages: &impl Pages, parts: &mut Vec<Part>) -> Sum {
        let position = self.extents.front().map_or(0, |(begins, _)| begins + u64::from(self.head + offset));
        let first = self.extents.partition_point(|(begins, extent)| begins + u64::from(extent.length) <= position);
        let mut done = 0;
        let mut sum = Sum::ZERO;
        for (begins, extent) in self.extents.range(first..) {
            let left = length - done;
            if left == 0 {
                break;
            }
            let skip = position.saturating_sub(*begins) as u32;
            let part = Part { page: extent.page, offset: extent.offset + skip, length: left.min(extent.length - skip) };
            sum = sum.combine_at(done as usize, sum_of(extent, part, pages));
            done += part.length;
            parts.push(part);
        }
        sum
    }
}

/// The sum of a part: the stored one without what lies before and after it where that is shorter.
fn sum_of(extent: &Extent, part: Part, pages: &impl Pages) -> Sum {
    let Some(stored) = extent.sum.filter(|_| part.length > extent.length / 2) else { return pages.sum(part) };
    if part.length == extent.length {
        return stored;
    }
    let before = part.offset - extent.offset;
    let after = before + part.length;
    let head = Part { page: extent.page, offset: extent.offset, length: before };
    let tail = Part { page: extent.page, offset: extent.offset + after, length: extent.length - after };
    let rest = stored.subtract_at(0, pages.sum(head));
    rest.subtract_at(after as usize, pages.sum(tail)).shifted(before as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<u8>);

    impl Memory {
        fn bytes(&self, part: Part) -> &[u8] {
            &self.0[part.offset as usize..][..part.length as usize]
        }
    }

    impl Pages for Memory {
        fn sum(&self, part: Part) -> Sum {
            Sum::of(self.bytes(part))
        }

        fn append(&self, part: Part, to: &mut Vec<u8>) {
            to.extend_from_slice(self.bytes(part));
        }

        fn release(&mut self, _: Extent) {}
    }

    fn queue(memory: &Memory, lengths: &[u32]) -> SendQueue {
        let mut queue = SendQueue::default();
        let mut offset = 0;
        for &length in lengths {
            let sum = (length != 9).then(|| Sum::of(memory.bytes(Part { page: 0, offset, length })));
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
        assert_eq!((queue.length(), queue.held(), released.len()), (51, 60, 0));
        queue.acknowledge(21, &mut released);
        assert_eq!((queue.length(), queue.held(), queue.head(), released.len()), (30, 30, 0, 2));
        queue.acknowledge(1000, &mut released);
        assert_eq!((queue.length(), released.len()), (0, 3));
    }
}
