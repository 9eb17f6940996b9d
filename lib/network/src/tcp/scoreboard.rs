//! SACK scoreboard (RFC 2018, RFC 6675): which bytes beyond the cumulative acknowledgement the peer has.
//!
//! Invariants:
//! - Ranges are sorted, disjoint, not adjacent and not empty.
//! - At most [`LIMIT`] ranges: a peer that reports more loses the lowest report.

use alloc::vec::Vec;

use super::segment::SackBlock;
use super::sequence::Sequence;

pub const LIMIT: usize = 64;
/// RFC 6675: so many reports above a byte make it lost.
const DUPLICATE_THRESHOLD: usize = 3;

#[derive(Debug, Default)]
pub struct Scoreboard {
    ranges: Vec<SackBlock>,
}

impl Scoreboard {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn ranges(&self) -> &[SackBlock] {
        &self.ranges
    }

    pub fn clear(&mut self) {
        self.ranges = Vec::new();
    }

    /// Adds a reported block of `una..next`. Blocks outside are ignored: stale or invented. Returns whether any
    /// byte is new.
    pub fn record(&mut self, block: SackBlock, una: Sequence, next: Sequence) -> bool {
        let (first, end) = block;
        if !(first < end && una < end && end <= next && first.distance(una) < next.distance(una)) {
            return false;
        }
        let before = self.bytes();
        let (mut first, mut end) = block;
        self.ranges.retain(|&(other_first, other_end)| {
            let touches = other_first <= end && first <= other_end;
            if touches {
                first = first.min(other_first);
                end = end.max(other_end);
            }
            !touches
        });
        let at = self.ranges.partition_point(|&(other, _)| other < first);
        self.ranges.insert(at, (first, end));
        if self.ranges.len() > LIMIT {
            self.ranges.remove(0);
        }
        self.bytes() > before
    }

    /// Forgets what the cumulative acknowledgement covers.
    pub fn advance(&mut self, una: Sequence) {
        self.ranges.retain_mut(|range| {
            range.0 = range.0.max(una);
            range.0 < range.1
        });
        if self.ranges.is_empty() {
            self.clear();
        }
    }

    /// Whether the peer has dropped what it had reported: its acknowledgement stops where a report begins.
    pub fn is_reneged(&self, una: Sequence) -> bool {
        self.ranges.first().is_some_and(|&(first, _)| first == una)
    }

    pub fn bytes(&self) -> u32 {
        self.ranges.iter().map(|(first, end)| end.distance(*first)).sum()
    }

    pub fn highest(&self) -> Option<Sequence> {
        self.ranges.last().map(|&(_, end)| end)
    }

    /// Unreported bytes below this are lost (`IsLost` of RFC 6675): three ranges, or more than two segments, lie above.
    pub fn lost_edge(&self, segment: u32) -> Option<Sequence> {
        let mut bytes = 0;
        for (count, &(first, end)) in self.ranges.iter().rev().enumerate() {
            bytes += end.distance(first);
            if count + 1 >= DUPLICATE_THRESHOLD || bytes > (DUPLICATE_THRESHOLD as u32 - 1) * segment {
                return Some(first);
            }
        }
        None
    }

    /// Bytes of `first..end` that are not reported.
    pub fn unreported(&self, first: Sequence, end: Sequence) -> u32 {
        if end <= first {
            return 0;
        }
        let overlap = |range: &SackBlock| {
            let (low, high) = (range.0.max(first), range.1.min(end));
            if low < high { high.distance(low) } else { 0 }
        };
        end.distance(first) - self.ranges.iter().map(overlap).sum::<u32>()
    }

    /// The first gap of unreported bytes at or after `from` that begins below `limit`.
    pub fn hole(&self, from: Sequence, limit: Sequence) -> Option<SackBlock> {
        let mut first = from;
        for &(range_first, range_end) in &self.ranges {
            if first < range_first {
                return (first < limit).then_some((first, range_first.min(limit)));
            }
            first = first.max(range_end);
        }
        (first < limit).then_some((first, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u32) -> Sequence {
        Sequence(number.wrapping_sub(500))
    }

    fn board(blocks: &[(u32, u32)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        for &(first, end) in blocks {
            board.record((at(first), at(end)), at(0), at(100_000));
        }
        board
    }

    #[test]
    fn blocks_merge() {
        let board = board(&[(100, 200), (300, 400), (200, 250), (240, 300)]);
        assert_eq!(board.ranges(), [(at(100), at(400))]);
        assert_eq!((board.bytes(), board.highest()), (300, Some(at(400))));
    }

    #[test]
    fn blocks_outside_what_was_sent_are_ignored() {
        let mut board = Scoreboard::default();
        for block in
            [(at(10), at(10)), (at(20), at(10)), (at(10), at(201)), (at(300), at(400)), (at(0).minus(9), at(0))]
        {
            assert!(!board.record(block, at(0), at(200)), "{block:?}");
        }
        assert!(board.record((at(10), at(200)), at(0), at(200)));
        assert!(!board.record((at(20), at(100)), at(0), at(200)));
    }

    #[test]
    fn three_ranges_or_more_than_two_segments_above_are_loss() {
        assert_eq!(board(&[(100, 200), (300, 400)]).lost_edge(1000), None);
        assert_eq!(board(&[(100, 200), (300, 400), (500, 600)]).lost_edge(1000), Some(at(100)));
        assert_eq!(board(&[(1000, 3000)]).lost_edge(1000), None);
        assert_eq!(board(&[(1000, 3001)]).lost_edge(1000), Some(at(1000)));
    }

    #[test]
    fn holes_and_unreported_bytes() {
        let board = board(&[(100, 200), (300, 400)]);
        assert_eq!(board.hole(at(0), at(400)), Some((at(0), at(100))));
        assert_eq!(board.hole(at(120), at(400)), Some((at(200), at(300))));
        assert_eq!(board.hole(at(300), at(400)), None);
        assert_eq!(board.hole(at(300), at(450)), Some((at(400), at(450))));
        assert_eq!(board.unreported(at(0), at(450)), 250);
        assert_eq!(board.unreported(at(150), at(350)), 100);
    }

    #[test]
    fn the_acknowledgement_moves_and_reneging_is_seen() {
        let mut board = board(&[(100, 200), (300, 400)]);
        assert!(!board.is_reneged(at(50)));
        board.advance(at(150));
        assert!(board.is_reneged(at(150)));
        board.advance(at(400));
        assert!(board.is_empty());
    }

    #[test]
    fn fault_78_the_number_of_ranges_is_bounded() {
        let mut board = Scoreboard::default();
        for index in 0..10_000 {
            board.record((at(index * 4), at(index * 4 + 1)), at(0), at(100_000));
            assert!(board.ranges().len() <= LIMIT);
        }
    }
}
