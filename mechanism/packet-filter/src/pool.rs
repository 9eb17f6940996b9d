//! A fixed number of records in storage given by the caller: a pool that hands them out and gets them back.
//!
//! Index 0 is never handed out: it means "none". Records that are free form a list through
//! their own link; records never used lie above `fresh`.

/// A record that can carry the link of a list of free ones.
pub(crate) trait Linked: Default {
    /// The link. Its owner may use it for lists of its own while the record is in use.
    fn link(&mut self) -> &mut u32;
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Pool<'a, T> {
    records: &'a mut [T],
    free: u32,
    fresh: u32,
    used: u32,
}

impl<'a, T: Linked> Pool<'a, T> {
    /// A pool over these records, all free.
    pub(crate) fn new(records: &'a mut [T]) -> Self {
        Self { records, free: 0, fresh: 1, used: 0 }
    }

    /// How many are in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// How many can still be taken.
    pub(crate) fn left(&self) -> u32 {
        (self.records.len() as u32).saturating_sub(1 + self.used)
    }

    /// Takes a record, set to its default, or `None` when all are in use.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let index = if self.free != 0 {
            let index = self.free;
            self.free = *self.records[index as usize].link();
            index
        } else if (self.fresh as usize) < self.records.len() {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return None;
        };
        self.records[index as usize] = T::default();
        self.used += 1;
        Some(index)
    }

    /// Takes a record back.
    pub(crate) fn give(&mut self, index: u32) {
        debug_assert!(index != 0 && index < self.fresh);
        *self.records[index as usize].link() = self.free;
        self.free = index;
        self.used -= 1;
    }
}

impl<T> core::ops::Index<u32> for Pool<'_, T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: u32) -> &T {
        &self.records[index as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Pool<'_, T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.records[index as usize]
    }
}

impl<T> Pool<'_, T> {
    /// The record at a place, if there is such a place. One that is not in use has its default values and a link.
    #[inline(always)]
    pub(crate) fn get(&self, index: u64) -> Option<&T> {
        self.records.get(index as usize)
    }

    /// One past the largest index that may be in use.
    pub(crate) fn end(&self) -> u32 {
        self.fresh
    }
}
