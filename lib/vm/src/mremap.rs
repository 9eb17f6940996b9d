//! Mappings that become larger or smaller, move, or are shown twice (mremap(2)). Pure.

use crate::address_space::{AddressSpace, PageOps};
use crate::vma::{Backing, Vma};
use abi::page_table::MapRow;
use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};

/// What is asked; all numbers are multiples of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// Where the mapping, or the part of it, begins.
    pub start: u64,
    /// Present length; 0: it is mapped once more.
    pub bytes: u64,
    /// Wanted length.
    pub new_bytes: u64,
    /// It may go elsewhere.
    pub may_move: bool,
    /// Its pages go, and it stays.
    pub stays: bool,
    /// Where it is to go; what is there goes.
    pub to: Option<u64>,
    /// Bytes that may be locked.
    pub most_locked: u64,
}

impl Remap {
    const fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

impl AddressSpace {
    /// Does it: where the mapping is then.
    ///
    /// # Errors
    /// `EFAULT` where no mapping is, or more than one; `EINVAL` for private memory to map once more;
    /// `EAGAIN` where more would be locked than may be; `ENOMEM`.
    pub fn remap(&mut self, pages: &mut impl PageOps, wish: Remap) -> Result<u64> {
        let area = *self.areas.find(wish.start).ok_or(Errno::EFAULT)?;
        if wish.to.is_none() && !wish.stays && wish.new_bytes <= wish.bytes {
            let end = wish.start + wish.new_bytes;
            // Pages in the middle of a mapping are not kept.
            if wish.end() == area.end {
                self.keep_cut(pages, &area, end, wish.end())?;
            }
            self.unmap(pages, end, wish.end())?;
            return Ok(wish.start);
        }
        // What moves is as long as wanted, at most.
        let kept = Remap { bytes: wish.bytes.min(wish.new_bytes), ..wish };
        self.check_remap(&area, &kept)?;
        let fits_behind = || self.areas.is_free(kept.end(), kept.start + kept.new_bytes);
        if wish.to.is_none() && !wish.stays && kept.bytes > 0 && kept.end() == area.end && fits_behind() {
            let part = self.areas.within(kept.start, kept.end())[0];
            self.extend(pages, part, kept.new_bytes, true)?;
            return Ok(kept.start);
        }
        if !wish.may_move {
            return Err(Errno::ENOMEM);
        }
        if wish.end() == area.end {
            self.keep_cut(pages, &area, kept.end(), wish.end())?;
        }
        self.unmap(pages, kept.end(), wish.end())?;
        let to = match wish.to {
            Some(to) => to,
            None => self.areas.find_place(kept.new_bytes)?,
        };
        self.relocate(pages, &kept, to)?;
        Ok(to)
    }

    fn check_remap(&self, area: &Vma, wish: &Remap) -> Result<()> {
        if wish.bytes == 0 && !area.shared {
            return Err(Errno::EINVAL);
        }
        if wish.end() > area.end {
            return Err(Errno::EFAULT);
        }
        let more = wish.new_bytes - if wish.stays { 0 } else { wish.bytes };
        if area.locked && more > 0 && self.locked_bytes().saturating_add(more) > wish.most_locked {
            return Err(Errno::EAGAIN);
        }
        self.check_room(area, more)?;
        self.check_commitment(area, more)
    }

    /// Puts what is wanted of a mapping to another place.
    fn relocate(&mut self, pages: &mut impl PageOps, wish: &Remap, to: u64) -> Result<()> {
        let part = self.areas.within(wish.start, wish.start + wish.bytes.max(PAGE_SIZE))[0];
        if wish.bytes == 0 || wish.stays && part.shared {
            return self.show_again(pages, wish, to);
        }
        self.move_area(pages, part, to..to + wish.new_bytes, wish.stays)?;
        if wish.stays {
            self.unlock(pages, wish.start, wish.end())?;
        }
        self.extend(pages, Vma { start: to, end: to + wish.bytes, ..part }, wish.new_bytes, true)
    }

    /// Moves an area, or the part of one that `old` is, to `new`; what lay there goes, and so do pages that have no
    /// room. With `keep` the old area stays, without its pages.
    ///
    /// # Errors
    /// `ENOMEM` where there is no room for page tables: everything is where it was, but for what lay at `new`.
    pub fn move_area(&mut self, pages: &mut impl PageOps, old: Vma, new: Range<u64>, keep: bool) -> Result<()> {
        let bytes = (old.end - old.start).min(new.end - new.start);
        self.unmap(pages, old.start + bytes, old.end)?;
        self.map(pages, Vma { start: new.start, end: new.end, ..old })?;
        if let Err(error) = self.move_pages(pages, old.start, new.start, bytes) {
            self.unmap(pages, new.start, new.end)?;
            return Err(error);
        }
        if keep { Ok(()) } else { self.unmap(pages, old.start, old.start + bytes) }
    }

    /// The pages are mapped at their new place before they go from the old one: only then can nothing be lost.
    fn move_pages(&mut self, pages: &mut impl PageOps, from: u64, to: u64, bytes: u64) -> Result<()> {
        let before: Vec<(u64, u64)> = self.frames.within(from, from + bytes).collect();
        let rows = |to: u64, mapped: bool| -> Vec<MapRow> {
            let row = |(address, entry): &(u64, u64)| MapRow {
                address: address - from + to,
                entry: if mapped { *entry } else { 0 },
            };
            before.iter().map(row).collect()
        };
        pages.map(&rows(to, true)).and_then(|()| pages.map(&rows(from, false))).inspect_err(|_| {
            // Whatever is not back at its old place comes with a fault; the tables at the new one are there by now.
            let _ = pages.map(&rows(to, false));
            self.hide_files(&rows(from, false));
        })?;
        for (address, entry) in self.frames.take(from, from + bytes) {
            self.frames.set(address - from + to, entry);
        }
        Ok(())
    }

    /// Shows shared memory a second time.
    fn show_again(&mut self, pages: &mut impl PageOps, wish: &Remap, to: u64) -> Result<()> {
        let end = self.areas.find(wish.start).map_or(wish.start, |area| area.end);
        let bytes = wish.new_bytes.min(end - wish.start);
        let part = self.areas.within(wish.start, wish.start + bytes)[0];
        self.fill_whole(pages, &part)?;
        let row = |(at, entry): (u64, u64)| MapRow { address: at - wish.start + to, entry };
        let rows: Vec<MapRow> = match part.backing {
            Backing::Anonymous => self.frames.within(part.start, part.end).map(row).collect(),
            // Those of a file come by themselves.
            _ => Vec::new(),
        };
        self.extend(pages, Vma { start: to, end: to + bytes, ..part }, wish.new_bytes, false)?;
        pages.map(&rows)?;
        self.frames.set_rows(&rows);
        Ok(())
    }

    /// All pages of shared memory must be there before they are shown twice.
    pub(crate) fn fill_whole(&mut self, pages: &mut impl PageOps, part: &Vma) -> Result<()> {
        let missing = |address: &u64| self.frames.get(*address) == 0 && part.backing == Backing::Anonymous;
        let missing: Vec<u64> = (part.start..part.end).step_by(PAGE_SIZE as usize).filter(missing).collect();
        missing.into_iter().try_for_each(|address| {
            pages.give_way();
            self.fill(pages, part, address, true, 1).map_err(|_| Errno::ENOMEM)
        })
    }

    /// Extends an area to its wanted length; `is_there`: as long as it is, it is mapped. Behind the end of shared
    /// memory there is nothing.
    fn extend(&mut self, pages: &mut impl PageOps, area: Vma, bytes: u64, is_there: bool) -> Result<()> {
        let end = area.start + bytes;
        let is_shared_memory = area.shared && area.backing == Backing::Anonymous;
        let first = if is_shared_memory { area } else { Vma { end, ..area } };
        match is_there {
            true => self.areas.insert(first),
            false => self.map(pages, first)?,
        }
        let reached = if first.end < end { self.restore_cut(pages, &first, end)? } else { first.end };
        if reached < end {
            self.map(pages, Vma { start: reached, end, backing: Backing::Nothing, ..area })?;
        }
        if area.locked {
            // As with `mlock`, but without an error for what does not come.
            let _ = self.bring_locked(pages, area.start, end);
        }
        Ok(())
    }
}
