//! Areas in the order of their addresses, in pieces of a few. A binary search finds what lies at an address, and one
//! area more moves only those behind it in its piece.
//!
//! Pure. Invariants: no piece is empty, none has more than [`MOST`], and of two areas the one that stands behind
//! begins behind.

use crate::vma::Vma;
use alloc::vec::Vec;
use core::cell::Cell;

/// Areas at most in a piece.
const MOST: usize = 16;

/// The areas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted {
    pieces: Vec<Vec<Vma>>,
    count: usize,
    /// Where the last search found its area: the next search mostly looks for the same.
    last: Cell<Place>,
}

/// Where one of them stands, until one more or less stands before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    piece: usize,
    index: usize,
}

impl Sorted {
    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The last one that begins at an address or below.
    #[inline]
    pub(crate) fn last_at(&self, address: u64) -> Option<Place> {
        let last = self.last.get();
        let there = self.pieces.get(last.piece).and_then(|piece| piece.get(last.index));
        if there.is_some_and(|area| area.start <= address && address < area.end) {
            return Some(last);
        }
        let found = self.search(address);
        self.last.set(found.unwrap_or_default());
        found
    }

    /// The one that stands there is looked for next: that is quicker, if it is so.
    #[inline]
    pub(crate) fn expect_at(&self, place: Place) {
        self.last.set(place);
    }

    #[inline(never)]
    fn search(&self, address: u64) -> Option<Place> {
        let last = self.last.get();
        let there = self.pieces.get(last.piece).and_then(|piece| piece.get(last.index..));
        // Where nothing lies, the next search mostly looks for the same, too.
        if matches!(there, Some([area, next, ..]) if area.start <= address && address < next.start) {
            return Some(last);
        }
        let begins = |area: &Vma| area.start <= address;
        let pieces = self.pieces.partition_point(|piece| piece.first().is_some_and(begins));
        let piece = pieces.checked_sub(1)?;
        let index = self.pieces[piece].partition_point(begins).checked_sub(1)?;
        Some(Place { piece, index })
    }

    /// The one that stands there.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> &Vma {
        &self.pieces[place.piece][place.index]
    }

    /// The same, to change it: it may not pass its neighbours.
    #[inline]
    pub(crate) fn change_at(&mut self, place: Place) -> &mut Vma {
        &mut self.pieces[place.piece][place.index]
    }

    /// The first.
    pub(crate) fn first(&self) -> Option<Place> {
        (!self.pieces.is_empty()).then_some(Place { piece: 0, index: 0 })
    }

    /// The one behind.
    #[inline]
    pub(crate) fn behind(&self, place: Place) -> Option<Place> {
        let Place { piece, index } = place;
        if index + 1 < self.pieces[piece].len() {
            return Some(Place { piece, index: index + 1 });
        }
        (piece + 1 < self.pieces.len()).then_some(Place { piece: piece + 1, index: 0 })
    }

    /// The one before.
    #[inline]
    pub(crate) fn before(&self, place: Place) -> Option<Place> {
        let Place { piece, index } = place;
        if let Some(index) = index.checked_sub(1) {
            return Some(Place { piece, index });
        }
        let piece = piece.checked_sub(1)?;
        Some(Place { piece, index: self.pieces[piece].len() - 1 })
    }

    /// All.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Vma> {
        self.pieces.iter().flatten()
    }

    /// Puts one behind another, or in front of all; where it stands.
    pub(crate) fn insert_behind(&mut self, place: Option<Place>, area: Vma) -> Place {
        self.count += 1;
        let Place { mut piece, mut index } = match place {
            Some(place) => Place { index: place.index + 1, ..place },
            None => Place { piece: 0, index: 0 },
        };
        if self.pieces.is_empty() {
            self.pieces.push(Vec::new());
        }
        if self.pieces[piece].len() == MOST {
            let upper = self.pieces[piece].split_off(MOST / 2);
            self.pieces.insert(piece + 1, upper);
            if index > MOST / 2 {
                (piece, index) = (piece + 1, index - MOST / 2);
            }
        }
        self.pieces[piece].insert(index, area);
        self.last.set(Place { piece, index });
        Place { piece, index }
    }

    /// Takes one out; where the one behind it stands now.
    pub(crate) fn remove(&mut self, place: Place) -> Option<Place> {
        self.count -= 1;
        let Place { piece, index } = place;
        self.pieces[piece].remove(index);
        if self.pieces[piece].is_empty() {
            self.pieces.remove(piece);
            return (piece < self.pieces.len()).then_some(Place { piece, index: 0 });
        }
        if index < self.pieces[piece].len() {
            return Some(place);
        }
        (piece + 1 < self.pieces.len()).then_some(Place { piece: piece + 1, index: 0 })
    }
}
