//! Memory that a program locks (mlock(2)): its pages come at once, count against a limit, and are not dropped.
//! Nothing is ever written elsewhere to make room, so that all memory would stay anyway. Pure.

use crate::address_space::{Access, AddressSpace, PageOps};
use crate::vma::{Protection, Vma};
use linux_abi::errno::{Errno, Result};

impl AddressSpace {
    /// Bytes that are locked.
    pub fn locked_bytes(&self) -> u64 {
        self.areas.iter().filter(|area| area.locked).map(Vma::bytes).sum()
    }

    /// Locks a range, or no longer, up to the first gap. `most`: how much may be locked in all.
    ///
    /// # Errors
    /// `ENOMEM` for more than that, for a gap, and for what cannot even be read.
    pub fn lock(&mut self, pages: &mut impl PageOps, (start, end): (u64, u64), most: u64, at_once: bool) -> Result<()> {
        let there: u64 = self.areas.within(start, end).iter().filter(|area| area.locked).map(Vma::bytes).sum();
        if (end - start).saturating_add(self.locked_bytes()).saturating_sub(there) > most {
            return Err(Errno::ENOMEM);
        }
        self.set_locked(pages, start, end, true)?;
        if at_once { self.bring_locked(pages, start, end) } else { Ok(()) }
    }

    /// Locks no part of a range any more, up to the first gap.
    ///
    /// # Errors
    /// `ENOMEM` for a gap.
    pub fn unlock(&mut self, pages: &mut impl PageOps, start: u64, end: u64) -> Result<()> {
        self.set_locked(pages, start, end, false)
    }

    fn set_locked(&mut self, pages: &mut impl PageOps, start: u64, end: u64, locked: bool) -> Result<()> {
        self.has_marks |= locked;
        self.by_parts(pages, start..end, |space, _, start, end| {
            space.areas.change(start, end, |area| {
                area.locked = locked;
                Ok(())
            })
        })
    }

    /// Locks all that there is, or no longer.
    pub fn lock_all(&mut self, pages: &mut impl PageOps, locked: bool, at_once: bool) {
        let all: alloc::vec::Vec<Vma> = self.areas.iter().copied().collect();
        for area in all {
            // What cannot come does not keep the rest from coming.
            let _ = self.set_locked(pages, area.start, area.end, locked);
            pages.give_way();
            if locked && at_once {
                let _ = self.bring_locked(pages, area.start, area.end);
            }
        }
    }

    /// Brings the pages of a range, to be written where the program has them for itself.
    ///
    /// # Errors
    /// `ENOMEM` where one cannot come.
    pub fn bring_locked(&mut self, pages: &mut impl PageOps, start: u64, end: u64) -> Result<()> {
        for part in self.areas.within(start, end) {
            let access = if part.is_data() { Access::Write } else { Access::Read };
            if part.protection == Protection::NONE {
                return Err(Errno::ENOMEM);
            }
            self.populate(pages, &part, access).map_err(|_| Errno::ENOMEM)?;
        }
        Ok(())
    }
}
