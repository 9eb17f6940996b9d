//! Extents of a file on a disk: which of its pages the disk has, and how many of these are in memory, too. Pure.
//!
//! Most files have no holes and cost no memory here. A hole is a range; neighbours are one.
//!
//! Invariants:
//! - holes lie below the end, are not empty, and do not touch each other.
//! - `in_memory` counts the pages that the disk has and that are in memory.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The pages of a file that a disk has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnDisk {
    /// From here on the disk has none.
    end: u64,
    /// Where it has none before that: first page, and the page behind the last one.
    holes: BTreeMap<u64, u64>,
    /// Pages in these.
    hole_pages: u64,
    /// Pages that are in memory, too.
    pub(crate) in_memory: u64,
}

impl OnDisk {
    /// All pages before an end but for these holes.
    pub fn new(end: u64, holes: &[(u64, u64)]) -> Self {
        let mut all = Self { end, ..Self::default() };
        holes.iter().for_each(|(first, end)| all.punch(*first, *end));
        all
    }

    /// From here on the disk has no page.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// How many pages the disk has.
    pub const fn count(&self) -> u64 {
        self.end - self.hole_pages
    }

    /// Whether the disk has a page.
    pub fn has(&self, index: u64) -> bool {
        index < self.end && self.hole_at(index).is_none()
    }

    /// The hole in which a page lies.
    fn hole_at(&self, index: u64) -> Option<(u64, u64)> {
        if self.hole_pages == 0 {
            return None;
        }
        let (first, end) = self.holes.range(..=index).next_back()?;
        (index < *end).then_some((*first, *end))
    }

    /// The first page from one on that the disk has.
    pub fn next_data(&self, from: u64) -> Option<u64> {
        if from >= self.end {
            return None;
        }
        let place = self.hole_at(from).map_or(from, |(_, end)| end);
        (place < self.end).then_some(place)
    }

    /// The first page from one on that it has not.
    pub fn next_hole(&self, from: u64) -> u64 {
        if !self.has(from) {
            return from;
        }
        self.holes.range(from..).next().map_or(self.end, |(first, _)| *first)
    }

    /// The disk has a page from now on that lies before the end.
    pub fn fill(&mut self, index: u64) {
        let Some((first, end)) = self.hole_at(index) else { return };
        self.holes.remove(&first);
        self.hole_pages -= 1;
        for (first, end) in [(first, index), (index + 1, end)] {
            if first < end {
                self.holes.insert(first, end);
            }
        }
    }

    /// The file is so many pages long at least: what comes to it is a hole.
    pub fn grow(&mut self, end: u64) {
        if end > self.end {
            let first = core::mem::replace(&mut self.end, end);
            self.punch(first, end);
        }
    }

    /// A range becomes a hole.
    pub fn punch(&mut self, first: u64, end: u64) {
        let (mut first, mut end) = (first, end.min(self.end));
        if first >= end {
            return;
        }
        // What touches it becomes one with it.
        let touching = self.holes.range(..=end).rev().take_while(|(_, behind)| **behind >= first);
        let touching: Vec<(u64, u64)> = touching.map(|(first, end)| (*first, *end)).collect();
        for hole in touching {
            self.holes.remove(&hole.0);
            self.hole_pages -= hole.1 - hole.0;
            (first, end) = (first.min(hole.0), end.max(hole.1));
        }
        self.hole_pages += end - first;
        self.holes.insert(first, end);
    }

    /// The file is so many pages long at most.
    pub fn cut(&mut self, end: u64) {
        if end >= self.end {
            return;
        }
        let beyond = self.holes.split_off(&end);
        self.hole_pages -= beyond.iter().map(|(first, end)| end - first).sum::<u64>();
        if let Some((_, behind)) = self.holes.iter_mut().next_back().filter(|(_, behind)| **behind > end) {
            self.hole_pages -= *behind - end;
            *behind = end;
        }
        self.end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::OnDisk;
    use alloc::vec::Vec;

    #[test]
    fn extents_agree_with_a_model_of_single_pages() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut extents, mut model) = (OnDisk::default(), Vec::<bool>::new());
            for _ in 0..80 {
                let (one, other) = (random.u64(..60), random.u64(..60));
                match random.u8(..4) {
                    0 => {
                        extents.grow(one);
                        model.resize(model.len().max(one as usize), false);
                    }
                    1 => {
                        extents.cut(one);
                        model.truncate(one as usize);
                    }
                    2 => {
                        extents.punch(one, other);
                        let end = model.len().min(other as usize);
                        model.iter_mut().take(end).skip(one as usize).for_each(|has| *has = false);
                    }
                    _ if (one as usize) < model.len() => {
                        extents.fill(one);
                        model[one as usize] = true;
                    }
                    _ => {}
                }
                let has = |index: u64| model.get(index as usize).copied().unwrap_or(false);
                assert_eq!(extents.end(), model.len() as u64, "seed {seed}");
                assert_eq!(extents.count(), model.iter().filter(|has| **has).count() as u64, "seed {seed}");
                for index in 0..70 {
                    assert_eq!(extents.has(index), has(index), "seed {seed}, page {index}");
                    assert_eq!(extents.next_data(index), (index..70).find(|page| has(*page)), "seed {seed}");
                    assert_eq!(Some(extents.next_hole(index)), (index..).find(|page| !has(*page)), "seed {seed}");
                }
                let ends: Vec<(u64, u64)> = extents.holes.iter().map(|(first, end)| (*first, *end)).collect();
                assert!(ends.windows(2).all(|two| two[0].1 < two[1].0), "seed {seed}: holes touch");
            }
        }
    }
}
