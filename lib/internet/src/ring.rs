//! The bytes of one direction of a stream: two counts that only grow, and where the bytes between them lie.
//!
//! Each count lies in a page that one side writes and the other side only reads. The first bytes lie in the page
//! itself; a
//! sender with more of them gets a larger area, and what it sends from a position on lies there. Nothing is copied
//! over.
//! Invariant: whatever the other side writes, a stretch lies within its area.

use crate::error::{Error, Result};

/// Bytes of the area in the page of a socket.
pub const INLINE: u64 = 2048;
/// Bytes of the larger area.
pub const LARGE: u64 = 32 * 4096;
/// Bit of the count of a sender: it sends no more.
pub const FINISHED: u64 = 1 << 62;
/// Bit of both counts: the connection was reset.
pub const RESET: u64 = 1 << 63;
const POSITION: u64 = FINISHED - 1;

/// The two counts as one side found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    sent: u64,
    taken: u64,
    /// From which position on bytes lie in the larger area, if there is one.
    large_from: Option<u64>,
}

/// Bytes that lie behind each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Whether they lie in the larger area.
    pub is_large: bool,
    /// Where they begin there.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

impl Ring {
    /// From the words of both sides. `large_from` is a position and one, or 0.
    pub const fn new(sent: u64, taken: u64, large_from: u64) -> Self {
        let large_from = if large_from == 0 { None } else { Some(large_from.wrapping_sub(1) & POSITION) };
        Self { sent: sent & POSITION, taken: taken & POSITION, large_from }
    }

    /// The position of the next byte that is sent.
    pub const fn sent(self) -> u64 {
        self.sent
    }

    /// The position of the next byte that is read.
    pub const fn taken(self) -> u64 {
        self.taken
    }

    /// Bytes that wait to be read.
    ///
    /// # Errors
    /// The counts make no sense.
    #[inline]
    pub const fn waiting(self) -> Result<u64> {
        let waiting = self.sent.wrapping_sub(self.taken) & POSITION;
        let most = if self.large_from.is_some() { INLINE + LARGE } else { INLINE };
        if waiting <= most { Ok(waiting) } else { Err(Error::Garbage) }
    }

    /// Bytes that can be sent now.
    ///
    /// # Errors
    /// The counts make no sense.
    #[inline]
    pub fn room(self) -> Result<u64> {
        let waiting = self.waiting()?;
        let Some(from) = self.large_from else { return Ok(INLINE - waiting) };
        // What lies in the page yet takes no room of the larger area.
        let in_page = from.wrapping_sub(self.taken) & POSITION;
        let in_page = if in_page <= INLINE { in_page.min(waiting) } else { 0 };
        Ok(LARGE.saturating_sub(waiting - in_page))
    }

    /// Where the bytes from a position on lie, up to the next break.
    #[inline]
    pub fn stretch(self, position: u64, bytes: u64) -> Stretch {
        let before = self.large_from.map(|from| from.wrapping_sub(position) & POSITION);
        match before {
            // They lie before the position where the larger area begins.
            Some(before) if before != 0 && before <= INLINE => cut(false, position % INLINE, bytes.min(before), INLINE),
            Some(_) => cut(true, position % LARGE, bytes, LARGE),
            None => cut(false, position % INLINE, bytes, INLINE),
        }
    }
}

/// A count that has grown, with its flags.
#[inline]
pub const fn advance(count: u64, bytes: u64) -> u64 {
    count & !POSITION | (count & POSITION).wrapping_add(bytes) & POSITION
}

/// A count that is at a position or behind it, with its flags.
#[inline]
pub const fn at_least(count: u64, position: u64) -> u64 {
    if count & POSITION < position & POSITION { count & !POSITION | position & POSITION } else { count }
}

fn cut(is_large: bool, offset: u64, bytes: u64, size: u64) -> Stretch {
    Stretch { is_large, offset, bytes: bytes.min(size - offset) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_before_the_larger_area_stay_in_the_page() {
        let ring = Ring::new(3000, 2500, 2900 + 1);
        assert_eq!(ring.waiting(), Ok(500));
        assert_eq!(ring.room(), Ok(LARGE - 100));
        assert_eq!(ring.stretch(2500, 500), Stretch { is_large: false, offset: 452, bytes: 400 });
        assert_eq!(ring.stretch(2900, 100), Stretch { is_large: true, offset: 2900, bytes: 100 });
    }

    #[test]
    fn a_page_holds_so_many_bytes() {
        let full = Ring::new(INLINE + 7, 7, 0);
        assert_eq!((full.waiting(), full.room()), (Ok(INLINE), Ok(0)));
        assert_eq!(full.stretch(7, INLINE).bytes, INLINE - 7);
        assert_eq!(Ring::new(INLINE + 8, 7, 0).waiting(), Err(Error::Garbage));
    }

    #[test]
    fn flags_are_no_part_of_a_position() {
        let sent = advance(5 | FINISHED, 3);
        assert_eq!(sent, 8 | FINISHED);
        assert_eq!(Ring::new(sent, 2 | RESET, 0).waiting(), Ok(6));
        assert_eq!((at_least(2 | RESET, 5), at_least(2 | RESET, 1)), (5 | RESET, 2 | RESET));
    }

    /// Whatever the other side writes, a stretch lies within its area.
    #[test]
    fn fault_86_every_count_has_a_meaning() {
        let mut seed = 12345u64;
        let mut draw = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if seed >> 63 == 0 { seed >> (seed >> 58) } else { seed }
        };
        for _ in 0..100_000 {
            let taken = draw();
            let ring =
                Ring::new(if draw() % 2 == 0 { taken.wrapping_add(draw() % 200_000) } else { draw() }, taken, draw());
            let stretch = ring.stretch(draw(), draw());
            assert!(stretch.offset + stretch.bytes <= if stretch.is_large { LARGE } else { INLINE });
            if let (Ok(waiting), Ok(room)) = (ring.waiting(), ring.room()) {
                assert!(waiting <= INLINE + LARGE && room <= LARGE);
            }
        }
    }
}
