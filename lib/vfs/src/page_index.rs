//! The pages of a file by their index: many or few, together or far apart (a sparse file of terabytes is a few
//! pages). Pure.
//!
//! They lie in stretches of 512; the first one is where every small file is, and costs no more than a vector.
//! Invariant: no stretch is empty.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Pages of a stretch.
const STRETCH: u64 = 512;

/// Indices in a store, 0 standing for a hole and `n + 1` for page `n`.
type Stretch = Vec<u32>;

/// Pages by index.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    first: Stretch,
    rest: BTreeMap<u64, Stretch>,
    count: u64,
    changes: u64,
}

impl Pages {
    /// The page at an index.
    pub fn get(&self, index: u64) -> Option<u32> {
        self.stretch(index / STRETCH)?.get((index % STRETCH) as usize)?.checked_sub(1)
    }

    /// How many there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Grows whenever a page comes or goes.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Puts a page where none is; false where one is.
    pub fn put(&mut self, index: u64, page: u32) -> bool {
        let stretch = match index / STRETCH {
            0 => &mut self.first,
            number => self.rest.entry(number).or_default(),
        };
        let place = (index % STRETCH) as usize;
        if stretch.len() <= place {
            stretch.resize(place + 1, 0);
        }
        if stretch[place] != 0 {
            return false;
        }
        stretch[place] = page + 1;
        self.count += 1;
        self.changes += 1;
        true
    }

    /// Takes the pages from `start` to `end` out.
    pub fn take(&mut self, start: u64, end: u64) -> Vec<u32> {
        let mut taken = Vec::new();
        let mut clear = |number: u64, stretch: &mut Stretch| {
            let base = number * STRETCH;
            let from = start.saturating_sub(base).min(stretch.len() as u64) as usize;
            let to = end.saturating_sub(base).min(stretch.len() as u64) as usize;
            if from < to {
                taken.extend(stretch[from..to].iter_mut().filter_map(|place| core::mem::take(place).checked_sub(1)));
            }
            while stretch.last() == Some(&0) {
                stretch.pop();
            }
        };
        clear(0, &mut self.first);
        for (number, stretch) in self.rest.range_mut(start / STRETCH..end.div_ceil(STRETCH).max(start / STRETCH)) {
            clear(*number, stretch);
        }
        self.rest.retain(|_, stretch| !stretch.is_empty());
        self.count -= taken.len() as u64;
        self.changes += taken.len() as u64;
        taken
    }

    /// All of them, in order, with their indices, from one on.
    pub fn from(&self, start: u64) -> impl Iterator<Item = (u64, u32)> {
        let first = (start / STRETCH == 0).then_some((0, &self.first));
        let rest = self.rest.range((start / STRETCH).max(1)..).map(|(number, stretch)| (*number, stretch));
        let within = |(number, stretch)| {
            let stretch: &Stretch = stretch;
            let numbered = stretch.iter().enumerate();
            numbered.filter_map(move |(place, page)| Some((number * STRETCH + place as u64, page.checked_sub(1)?)))
        };
        first.into_iter().chain(rest).flat_map(within).filter(move |(index, _)| *index >= start)
    }

    /// The first index from `start` on without a page.
    pub fn hole_from(&self, start: u64) -> u64 {
        self.hole_within(start, u64::MAX).unwrap_or(u64::MAX)
    }

    /// The first index between two without a page.
    pub fn hole_within(&self, start: u64, end: u64) -> Option<u64> {
        let mut next = start;
        while next < end {
            let from = next % STRETCH;
            let most = (STRETCH - from).min(end - next) as usize;
            let places =
                self.stretch(next / STRETCH).and_then(|stretch| stretch.get(from as usize..)).unwrap_or_default();
            let there = places.iter().take(most).take_while(|place| **place != 0).count();
            next += there as u64;
            if there < most {
                return Some(next);
            }
        }
        None
    }

    fn stretch(&self, number: u64) -> Option<&Stretch> {
        if number == 0 { Some(&self.first) } else { self.rest.get(&number) }
    }
}
