//! A buddy allocator over a range of units, with its bookkeeping in bytes given by the caller.
//!
//! The map is a complete binary tree, root at 1; each byte holds the order plus one of the largest
//! free block below it, 0 for none. Taking and giving walk one path: about as many steps as the tree is
//! deep. Free buddies are always joined, so freeing everything restores the whole.

/// The allocator. Blocks are named by their first unit.
#[derive(Debug)]
pub(crate) struct Buddy<'a> {
    map: &'a mut [u8],
    depth: u32,
    taken: u32,
}

impl<'a> Buddy<'a> {
    /// An allocator over `map.len() / 2` units, all free; `None` when that is no power of two.
    /// Writes the whole map.
    pub(crate) fn new(map: &'a mut [u8]) -> Option<Self> {
        if map.len() < 2 || !map.len().is_power_of_two() {
            return None;
        }
        let depth = map.len().ilog2() - 1;
        for level in 0..=depth {
            map[1 << level..2 << level].fill((depth - level + 1) as u8);
        }
        Some(Self { map, depth, taken: 0 })
    }

    /// Units in all.
    pub(crate) fn units(&self) -> usize {
        1 << self.depth
    }

    /// Takes a block of `1 << order` units.
    pub(crate) fn take(&mut self, order: u32) -> Option<u32> {
        let wanted = order as u8 + 1;
        if order > self.depth || self.map[1] < wanted {
            return None;
        }
        let mut node = 1;
        for _ in order..self.depth {
            node *= 2;
            if !self.fits_better(node, wanted) {
                node += 1;
            }
        }
        self.map[node] = 0;
        self.repair(node);
        self.taken += 1 << order;
        Some(((node << order) - self.units()) as u32)
    }

    /// Whether to go left: it fits, and the right does not fit or would be broken up needlessly.
    fn fits_better(&self, left: usize, wanted: u8) -> bool {
        let (left, right) = (self.map[left], self.map[left + 1]);
        left >= wanted && (right < wanted || left <= right)
    }

    /// Takes `count` blocks of this order that lie in a row; each is given back by itself. One search
    /// serves for all.
    pub(crate) fn take_run(&mut self, order: u32, count: u32) -> Option<u32> {
        let spread = count.next_power_of_two().ilog2();
        let first = self.take(order + spread)?;
        let node = (first as usize + self.units()) >> (order + spread);
        for level in 1..=spread {
            self.map[node << level..(node + 1) << level].fill(0);
        }
        for spare in count..1 << spread {
            self.give(first + (spare << order), order);
        }
        Some(first)
    }

    /// Gives back a block that was taken with this order.
    pub(crate) fn give(&mut self, unit: u32, order: u32) {
        let node = (unit as usize + self.units()) >> order;
        debug_assert_eq!(self.map[node], 0);
        self.map[node] = order as u8 + 1;
        self.repair(node);
        self.taken -= 1 << order;
    }

    /// Recomputes what lies above a changed node.
    fn repair(&mut self, mut node: usize) {
        while node > 1 {
            node /= 2;
            let (left, right) = (self.map[2 * node], self.map[2 * node + 1]);
            let order = self.depth - node.ilog2();
            let whole = order as u8;
            self.map[node] = if left == whole && right == whole { whole + 1 } else { left.max(right) };
        }
    }

    /// Units taken.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }
}
