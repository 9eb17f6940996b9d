//! Claims: which blocks a sector owns, as an owns program reports them.
//!
//! Invariants: after [`Claims::sort`] ranges ascend and do not overlap.

use crate::error::{Error, Result};

/// Most claims of one sector.
pub const MAX_CLAIMS: usize = 64;
/// Most blocks of one claim.
pub const MAX_COUNT: u64 = 4096;

/// A range of blocks of one template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// First block.
    pub first: u64,
    /// Number of blocks, at least 1.
    pub count: u64,
    /// Slot of the template of each block.
    pub template: u8,
}

impl Claim {
    /// The block after the last.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Whether `block` is claimed.
    pub fn holds(&self, block: u64) -> bool {
        (self.first..self.end()).contains(&block)
    }
}

/// The claims of one sector.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    ranges: [Claim; MAX_CLAIMS],
    length: usize,
}

impl Default for Claims {
    fn default() -> Self {
        Self { ranges: [Claim { first: 0, count: 0, template: 0 }; MAX_CLAIMS], length: 0 }
    }
}

impl Claims {
    /// Forgets all claims.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Adds a claim. Refused: an empty or too long range, block 0, too many claims.
    pub fn own(&mut self, first: u64, count: u64, template: u8) -> Result<()> {
        let fits = first != 0 && (1..=MAX_COUNT).contains(&count) && first < crate::format::MAX_BLOCKS;
        let slot = self.ranges.get_mut(self.length).ok_or(Error::Undeclared(first))?;
        if !fits {
            return Err(Error::Undeclared(first));
        }
        *slot = Claim { first, count, template };
        self.length += 1;
        Ok(())
    }

    /// The claims.
    pub fn ranges(&self) -> &[Claim] {
        &self.ranges[..self.length]
    }

    /// Sorts; refuses ranges that overlap.
    pub fn sort(&mut self) -> Result<()> {
        let ranges = &mut self.ranges[..self.length];
        ranges.sort_unstable_by_key(|claim| claim.first);
        match ranges.windows(2).find(|pair| pair[0].end() > pair[1].first) {
            Some(pair) => Err(Error::Undeclared(pair[1].first)),
            None => Ok(()),
        }
    }

    /// The claim of a sorted list that holds `block`.
    pub fn find(&self, block: u64) -> Option<Claim> {
        let behind = self.ranges().partition_point(|claim| claim.first <= block);
        self.ranges()[..behind].last().filter(|claim| claim.holds(block)).copied()
    }
}
