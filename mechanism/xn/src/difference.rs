//! The difference between what a sector owned before and after a change, as pieces.
//!
//! Invariant: the pieces of one sector are disjoint, and a piece has one template before and one after.

use crate::claim::Claim;
use crate::error::{Error, Result};

/// Most pieces of a transaction.
pub const MAX_PIECES: usize = 64;

/// A range of blocks whose claim changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
    /// Template before; `None` if the blocks were not owned.
    pub before: Option<u8>,
    /// Template after; `None` if the blocks are no longer owned.
    pub after: Option<u8>,
    /// Page of the owner.
    pub page: usize,
    /// Sector of the owner.
    pub sector: usize,
}

/// The pieces of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    pieces: [Piece; MAX_PIECES],
    length: usize,
}

impl Default for Difference {
    fn default() -> Self {
        let none = Piece { first: 0, count: 0, before: None, after: None, page: 0, sector: 0 };
        Self { pieces: [none; MAX_PIECES], length: 0 }
    }
}

impl Difference {
    /// Forgets all pieces.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// The pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.length]
    }

    fn push(&mut self, piece: Piece) -> Result<()> {
        *self.pieces.get_mut(self.length).ok_or(Error::Exhausted)? = piece;
        self.length += 1;
        Ok(())
    }

    /// Adds the difference between two sorted lists of claims of one sector.
    pub fn add(&mut self, before: &[Claim], after: &[Claim], page: usize, sector: usize) -> Result<()> {
        let (mut before, mut after) = (Ranges::new(before), Ranges::new(after));
        loop {
            let (left, right) = (before.head(), after.head());
            let (first, count, sides) = match (left, right) {
                (None, None) => return Ok(()),
                (Some(left), Some(right)) if left.first == right.first => {
                    (left.first, left.count.min(right.count), (Some(left.template), Some(right.template)))
                }
                (Some(left), right) if right.is_none_or(|right| left.first < right.first) => {
                    let end = right.map_or(left.end(), |right| left.end().min(right.first));
                    (left.first, end - left.first, (Some(left.template), None))
                }
                (left, Some(right)) => {
                    let end = left.map_or(right.end(), |left| right.end().min(left.first));
                    (right.first, end - right.first, (None, Some(right.template)))
                }
                (Some(_), None) => return Ok(()),
            };
            before.skip(if sides.0.is_some() { count } else { 0 });
            after.skip(if sides.1.is_some() { count } else { 0 });
            if sides.0 != sides.1 {
                self.push(Piece { first, count, before: sides.0, after: sides.1, page, sector })?;
            }
        }
    }

    /// Sorts; refuses a block that two sectors change.
    pub fn sort(&mut self) -> Result<()> {
        let pieces = &mut self.pieces[..self.length];
        pieces.sort_unstable_by_key(|piece| piece.first);
        match pieces.windows(2).find(|pair| pair[0].first + pair[0].count > pair[1].first) {
            Some(pair) => Err(Error::Undeclared(pair[1].first)),
            None => Ok(()),
        }
    }
}

/// The rest of a list of claims.
struct Ranges<'a> {
    rest: &'a [Claim],
    skipped: u64,
}

impl<'a> Ranges<'a> {
    fn new(rest: &'a [Claim]) -> Self {
        Self { rest, skipped: 0 }
    }

    fn head(&self) -> Option<Claim> {
        let claim = self.rest.first()?;
        Some(Claim { first: claim.first + self.skipped, count: claim.count - self.skipped, ..*claim })
    }

    fn skip(&mut self, count: u64) {
        self.skipped += count;
        if self.rest.first().is_some_and(|claim| claim.count == self.skipped) {
            (self.rest, self.skipped) = (&self.rest[1..], 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn blocks(claims: &[Claim]) -> BTreeMap<u64, u8> {
        claims.iter().flat_map(|claim| (claim.first..claim.end()).map(|block| (block, claim.template))).collect()
    }

    #[test]
    fn agrees_with_sets_of_blocks() {
        let mut seed = 7_u64;
        let mut random = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        for _ in 0..5_000 {
            let mut list = || {
                let (mut claims, mut at) = (Vec::new(), 1);
                for _ in 0..random(6) {
                    let first = at + random(3);
                    let count = 1 + random(5);
                    claims.push(Claim { first, count, template: random(2) as u8 });
                    at = first + count;
                }
                claims
            };
            let (before, after) = (list(), list());
            let mut difference = Difference::default();
            assert_eq!(difference.add(&before, &after, 0, 0), Ok(()));
            assert_eq!(difference.sort(), Ok(()));
            let (old, new) = (blocks(&before), blocks(&after));
            let mut seen = BTreeMap::new();
            for piece in difference.pieces() {
                (piece.first..piece.first + piece.count).for_each(|block| {
                    assert_eq!(seen.insert(block, (piece.before, piece.after)), None);
                });
            }
            for block in 0..60 {
                let pair = (old.get(&block).copied(), new.get(&block).copied());
                assert_eq!(seen.get(&block).copied(), (pair.0 != pair.1).then_some(pair));
            }
        }
    }
}
