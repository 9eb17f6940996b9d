//! The table of descriptors: small numbers for open files, the lowest free one first.
//!
//! Pure. Invariant: no number at or above the limit is given out; closing a number that is not open is `EBADF`.

use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// How many descriptors a process may have, unless it changes that.
pub const LIMIT: usize = 1024;
/// How many it may give itself without privilege, unless that is changed.
pub const HARD_LIMIT: usize = 4096;
/// The most that a privileged process may ask for: `fs.nr_open`.
pub const LIMIT_MOST: usize = 1 << 20;

/// Descriptors for which a table keeps room, whatever becomes of them.
const SMALL: usize = 1024;

/// One open descriptor.
#[derive(Clone, Debug)]
struct Slot<T> {
    file: T,
    close_on_exec: bool,
}

/// The table.
#[derive(Clone, Debug)]
pub struct FdTable<T> {
    slots: Vec<Option<Slot<T>>>,
    limit: usize,
    /// How many are open below the limit.
    open: usize,
    /// Every number below this one is open.
    full_below: usize,
}

impl<T> Default for FdTable<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), limit: LIMIT, open: 0, full_below: 0 }
    }
}

impl<T> FdTable<T> {
    /// What a descriptor stands for.
    #[inline]
    pub fn get(&self, number: u64) -> Result<&T> {
        Ok(&self.slot(number)?.file)
    }

    /// Gives out the lowest free number from `least` on.
    #[inline]
    pub fn add(&mut self, file: T, least: u64, close_on_exec: bool) -> Result<u64> {
        let number = self.next_free(least)?;
        if least as usize <= self.full_below {
            self.full_below = number + 1;
        }
        self.put(number, Slot { file, close_on_exec });
        Ok(number as u64)
    }

    /// The number that [`Self::add`] gives out next.
    ///
    /// # Errors
    /// `EMFILE`; `EINVAL` where `least` is at or above the limit.
    #[inline]
    pub fn next_free(&self, least: u64) -> Result<usize> {
        let wanted = usize::try_from(least).ok().filter(|least| *least < self.limit);
        // A caller that named no lowest number has no room.
        let least = wanted.ok_or(if least == 0 { Errno::EMFILE } else { Errno::EINVAL })?;
        let first = least.max(self.full_below);
        let free = (first..self.limit).find(|number| !matches!(self.slots.get(*number), Some(Some(_))));
        free.ok_or(Errno::EMFILE)
    }

    /// Whether [`Self::replace`] takes a number.
    pub fn has_place(&self, number: u64) -> bool {
        usize::try_from(number).is_ok_and(|number| number < self.limit)
    }

    /// How many more descriptors can be given out.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.open)
    }

    /// Puts a file at a number; the result is what was there.
    pub fn replace(&mut self, number: u64, file: T, close_on_exec: bool) -> Result<Option<T>> {
        let number = usize::try_from(number).ok().filter(|number| *number < self.limit).ok_or(Errno::EBADF)?;
        let before = self.take(number);
        self.put(number, Slot { file, close_on_exec });
        Ok(before)
    }

    /// Takes a descriptor out.
    pub fn remove(&mut self, number: u64) -> Result<T> {
        let number = usize::try_from(number).map_err(|_| Errno::EBADF)?;
        self.take(number).ok_or(Errno::EBADF)
    }

    /// Whether exec closes it.
    pub fn close_on_exec(&self, number: u64) -> Result<bool> {
        Ok(self.slot(number)?.close_on_exec)
    }

    /// Says whether exec closes it.
    pub fn set_close_on_exec(&mut self, number: u64, close: bool) -> Result<()> {
        self.slot(number)?;
        if let Some(Some(slot)) = self.slots.get_mut(number as usize) {
            slot.close_on_exec = close;
        }
        Ok(())
    }

    /// Every open number and its file.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.iter_from(0)
    }

    /// Every open number from `least` on and its file.
    pub fn iter_from(&self, least: u64) -> impl Iterator<Item = (u64, &T)> {
        let slots = self.slots.get(least as usize..).unwrap_or_default();
        let open = move |(index, slot): (usize, &'_ Option<Slot<T>>)| slot.is_some().then_some(least + index as u64);
        slots.iter().enumerate().filter_map(open).zip(slots.iter().flatten().map(|slot| &slot.file))
    }

    /// Every open number that exec leaves open, and its file.
    pub fn kept_by_exec(&self) -> impl Iterator<Item = (u64, &T)> {
        self.iter().filter(|(number, _)| self.close_on_exec(*number) == Ok(false))
    }

    /// Puts a file at a number, whatever the limit is; the result is what was there, or the file where there is no such
    /// number.
    pub fn put_at(&mut self, number: u64, file: T) -> Option<T> {
        let Some(number) = usize::try_from(number).ok().filter(|number| *number < LIMIT_MOST) else {
            return Some(file);
        };
        let before = self.take(number);
        self.put(number, Slot { file, close_on_exec: false });
        before
    }

    /// Takes out the lowest descriptor from `least` on that exec closes: its number and its file.
    pub fn take_closed_by_exec(&mut self, least: u64) -> Option<(u64, T)> {
        let (least, closes) = (least as usize, |slot: &Slot<T>| slot.close_on_exec);
        let found = self.slots.get(least..)?.iter().position(|slot| slot.as_ref().is_some_and(closes))?;
        self.take(least + found).map(|file| ((least + found) as u64, file))
    }

    /// Takes out the highest descriptor.
    ///
    /// Emptying a table by this call takes time that grows with the number of its slots, and not with their square.
    pub fn take_last(&mut self) -> Option<T> {
        while let Some(None) = self.slots.last() {
            self.slots.pop();
        }
        let last = self.slots.len().checked_sub(1)?;
        self.take(last)
    }

    /// The limit.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the limit; what is open above it stays open.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(LIMIT_MOST);
        self.open = self.slots.iter().take(self.limit).flatten().count();
    }

    #[inline]
    fn slot(&self, number: u64) -> Result<&Slot<T>> {
        let number = usize::try_from(number).map_err(|_| Errno::EBADF)?;
        self.slots.get(number).and_then(Option::as_ref).ok_or(Errno::EBADF)
    }

    /// Puts a file where none is.
    fn put(&mut self, number: usize, slot: Slot<T>) {
        if self.slots.len() <= number {
            self.slots.resize_with(number + 1, || None);
        }
        self.slots[number] = Some(slot);
        self.open += usize::from(number < self.limit);
    }

    fn take(&mut self, number: usize) -> Option<T> {
        let slot = self.slots.get_mut(number)?.take()?;
        self.open -= usize::from(number < self.limit);
        self.full_below = self.full_below.min(number);
        if self.slots.capacity() > SMALL {
            self.give_room_back();
        }
        Some(slot.file)
    }

    /// Gives back the room of a large table, where there is memory for one with a quarter of it that is enough.
    #[cold]
    fn give_room_back(&mut self) {
        while let Some(None) = self.slots.last() {
            self.slots.pop();
        }
        let mut smaller = Vec::new();
        let room = self.slots.capacity() / 4;
        if self.slots.len() < room / 2 && smaller.try_reserve_exact(room).is_ok() {
            smaller.append(&mut self.slots);
            self.slots = smaller;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_kept_for_many_that_were_closed() {
        let mut table = FdTable { limit: 20_000, ..FdTable::default() };
        for number in 0..10_000 {
            assert_eq!(table.add(number, 0, false), Ok(number));
        }
        for number in (3..10_000).rev() {
            assert_eq!(table.take(number), Some(number as u64));
        }
        assert!(table.slots.capacity() <= SMALL);
        assert_eq!((table.get(2), table.get(3)), (Ok(&2), Err(Errno::EBADF)));
        assert_eq!(table.add(7, 0, false), Ok(3));
    }
}
