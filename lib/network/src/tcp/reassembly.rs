//! Segments that came out of order, until the gap before them is filled.
//!
//! Invariants:
//! - Chunks are sorted, disjoint and not empty.
//! - At most [`LIMIT`] chunks. Their bytes lie in the receive window, which bounds them.

use alloc::vec::Vec;

use super::segment::SackBlock;
use super::sequence::Sequence;

pub const LIMIT: usize = 128;

#[derive(Debug)]
struct Chunk {
    first: Sequence,
    bytes: Vec<u8>,
}

impl Chunk {
    fn end(&self) -> Sequence {
        self.first.plus(self.bytes.len() as u32)
    }
}

#[derive(Debug, Default)]
pub struct Reassembly {
    chunks: Vec<Chunk>,
    /// Beginning of the segment that came last: its block is reported first (RFC 2018).
    latest: Sequence,
}

impl Reassembly {
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.len()).sum()
    }

    /// Chunks with their beginnings, for an export.
    pub fn chunks(&self) -> impl Iterator<Item = (Sequence, &[u8])> {
        self.chunks.iter().map(|chunk| (chunk.first, chunk.bytes.as_slice()))
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds the bytes that are new. What came first stays.
    pub fn insert(&mut self, first: Sequence, bytes: &[u8]) {
        self.latest = first;
        let end = first.plus(bytes.len() as u32);
        let mut from = first;
        let mut at = self.chunks.partition_point(|chunk| chunk.end() <= first);
        while from < end && self.chunks.len() < LIMIT {
            let gap_end = self.chunks.get(at).map_or(end, |chunk| chunk.first.min(end));
            if from < gap_end {
                let piece = &bytes[from.distance(first) as usize..gap_end.distance(first) as usize];
                at += self.insert_piece(at, from, piece);
            }
            from = from.max(self.chunks.get(at).map_or(end, Chunk::end));
            at += 1;
        }
    }

    /// Inserts a piece that overlaps nothing before chunk `at`, or appends it to the chunk that ends where it begins.
    /// Returns how many chunks more there are.
    fn insert_piece(&mut self, at: usize, first: Sequence, piece: &[u8]) -> usize {
        if let Some(previous) = at.checked_sub(1).map(|index| &mut self.chunks[index])
            && previous.end() == first
        {
            previous.bytes.extend_from_slice(piece);
            return 0;
        }
        self.chunks.insert(at, Chunk { first, bytes: piece.to_vec() });
        1
    }

    /// Moves what follows `next` without a gap into `sink`; returns the number of bytes.
    pub fn take(&mut self, next: Sequence, mut sink: impl FnMut(&[u8])) -> u32 {
        let mut end = next;
        let mut taken = 0;
        for chunk in &self.chunks {
            if chunk.first > end {
                break;
            }
            taken += 1;
            if chunk.end() > end {
                sink(&chunk.bytes[end.distance(chunk.first) as usize..]);
                end = chunk.end();
            }
        }
        self.chunks.drain(..taken);
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
        end.distance(next)
    }

    /// Up to `count` blocks to report: the one that came last, then the lowest others.
    pub fn blocks(&self, count: usize) -> [Option<SackBlock>; 3] {
        let mut blocks = [None; 3];
        let merged = self.merged();
        let latest = merged.iter().position(|&(first, end)| self.latest.is_within(first, end));
        let others = (0..merged.len()).filter(|index| Some(*index) != latest);
        for (slot, index) in blocks.iter_mut().zip(latest.into_iter().chain(others)).take(count) {
            *slot = Some(merged[index]);
        }
        blocks
    }

    fn merged(&self) -> Vec<SackBlock> {
        let mut merged: Vec<SackBlock> = Vec::new();
        for chunk in &self.chunks {
            match merged.last_mut() {
                Some(last) if last.1 == chunk.first => last.1 = chunk.end(),
                _ => merged.push((chunk.first, chunk.end())),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u32) -> Sequence {
        Sequence(number.wrapping_sub(50))
    }

    fn text(first: u32, end: u32) -> Vec<u8> {
        (first..end).map(|number| number as u8).collect()
    }

    #[test]
    fn any_order_and_overlap_gives_the_same_bytes() {
        let pieces = [(0, 10), (5, 25), (20, 30), (28, 60), (55, 56), (60, 99)];
        for turn in 0..720_usize {
            let mut order = pieces.to_vec();
            let mut rest = turn;
            for index in (1..order.len()).rev() {
                order.swap(index, rest % (index + 1));
                rest /= index + 1;
            }
            let mut reassembly = Reassembly::default();
            for (first, end) in order {
                reassembly.insert(at(first), &text(first, end));
            }
            assert_eq!(reassembly.bytes(), 99);
            let mut bytes = Vec::new();
            assert_eq!(reassembly.take(at(0), |chunk| bytes.extend_from_slice(chunk)), 99);
            assert_eq!(bytes, text(0, 99));
            assert!(reassembly.is_empty());
        }
    }

    #[test]
    fn only_what_follows_without_a_gap_is_taken() {
        let mut reassembly = Reassembly::default();
        reassembly.insert(at(10), &text(10, 20));
        reassembly.insert(at(30), &text(30, 40));
        assert_eq!(reassembly.take(at(5), |_| ()), 0);
        let mut bytes = Vec::new();
        assert_eq!(reassembly.take(at(12), |chunk| bytes.extend_from_slice(chunk)), 8);
        assert_eq!((bytes, reassembly.bytes()), (text(12, 20), 10));
    }

    #[test]
    fn the_latest_block_is_reported_first() {
        let mut reassembly = Reassembly::default();
        for first in [100, 300, 500, 700, 310] {
            reassembly.insert(at(first), &text(first, first + 10));
        }
        let block = |first, end| Some((at(first), at(end)));
        assert_eq!(reassembly.blocks(3), [block(300, 320), block(100, 110), block(500, 510)]);
        assert_eq!(reassembly.blocks(1), [block(300, 320), None, None]);
    }

    #[test]
    fn fault_78_the_number_of_chunks_is_bounded() {
        let mut reassembly = Reassembly::default();
        for first in (0..10_000).step_by(2) {
            reassembly.insert(at(first), &[1]);
            assert!(reassembly.chunks().count() <= LIMIT);
        }
    }
}
