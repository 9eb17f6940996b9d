//! What a program says of its memory: what it will not need again, what a child is not to have, what it wants at once
//! (madvise(2)). Pure.

use crate::address_space::{Access, AddressSpace, FaultError, PageOps};
use crate::page_record::page_of;
use crate::vma::{Backing, Protection, Vma};
use abi::page_table::{PRESENT, WRITE};
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// What is advised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Something that makes things faster elsewhere.
    Hint,
    /// Pages are not needed soon, as they are.
    Cold,
    /// Contents may go.
    Free,
    /// Contents go, of memory that is locked only where this says so.
    Drop {
        /// Locked memory, too.
        locked: bool,
    },
    /// A hole in the file behind it.
    Remove,
    /// A child does not have it, or does.
    Absent(bool),
    /// A child finds zeros, or what is there.
    Wiped(bool),
    /// Its pages come at once, for this access.
    Populate(Access),
}

impl Advice {
    /// From the argument of `madvise`; `EINVAL` for what has no meaning.
    pub const fn from_argument(argument: u32) -> Result<Self> {
        Ok(match argument {
            linux::MADV_NORMAL..=linux::MADV_WILLNEED | linux::MADV_MERGEABLE..=linux::MADV_DODUMP => Self::Hint,
            linux::MADV_COLD | linux::MADV_PAGEOUT => Self::Cold,
            linux::MADV_FREE => Self::Free,
            linux::MADV_DONTNEED => Self::Drop { locked: false },
            linux::MADV_DONTNEED_LOCKED => Self::Drop { locked: true },
            linux::MADV_REMOVE => Self::Remove,
            linux::MADV_DONTFORK => Self::Absent(true),
            linux::MADV_DOFORK => Self::Absent(false),
            linux::MADV_WIPEONFORK => Self::Wiped(true),
            linux::MADV_KEEPONFORK => Self::Wiped(false),
            linux::MADV_POPULATE_READ => Self::Populate(Access::Read),
            linux::MADV_POPULATE_WRITE => Self::Populate(Access::Write),
            _ => return Err(Errno::EINVAL),
        })
    }

    /// Whether it can be followed in an area.
    const fn check(self, area: &Vma) -> Result<()> {
        let is_private_zeros = !area.shared && matches!(area.backing, Backing::Anonymous);
        let may_write = area.shared && area.protection.allows(Protection::WRITE);
        match self {
            Self::Cold | Self::Free | Self::Drop { locked: false } | Self::Remove if area.locked => Err(Errno::EINVAL),
            Self::Free | Self::Wiped(true) if !is_private_zeros => Err(Errno::EINVAL),
            Self::Remove if is_private_zeros => Err(Errno::EINVAL),
            Self::Remove if !may_write => Err(Errno::EACCES),
            _ => Ok(()),
        }
    }
}

impl AddressSpace {
    /// Follows advice in a range, part by part up to the first where that cannot be. Holes in files, which the server
    /// makes, are the result: of which file, from which byte to which.
    ///
    /// # Errors
    /// `ENOMEM` where a part of the range is no area, after the others were looked at; `EINVAL`, `EACCES` or `EFAULT`
    /// for a part where it has no meaning.
    pub fn advise(
        &mut self,
        pages: &mut impl PageOps,
        (start, end): (u64, u64),
        advice: Advice,
    ) -> Result<Vec<(u64, u64, u64)>> {
        let is_whole = self.areas.cover(start, end);
        let mut holes = Vec::new();
        for part in self.areas.within(start, end) {
            advice.check(&part)?;
            holes.extend(self.follow(pages, &part, advice)?);
            pages.give_way();
        }
        if is_whole { Ok(holes) } else { Err(Errno::ENOMEM) }
    }

    fn follow(&mut self, pages: &mut impl PageOps, part: &Vma, advice: Advice) -> Result<Option<(u64, u64, u64)>> {
        let is_shared_memory = part.shared && part.backing == Backing::Anonymous;
        match advice {
            Advice::Drop { .. } if !is_shared_memory => self.drop_pages(pages, part.start, part.end)?,
            Advice::Free => self.free_lazily(pages, part)?,
            Advice::Remove => match part.backing {
                Backing::File { node, offset, .. } => return Ok(Some((node, offset, offset + part.bytes()))),
                _ => self.wipe(pages, part)?,
            },
            Advice::Absent(_) | Advice::Wiped(_) => {
                self.has_marks = true;
                self.areas.change(part.start, part.end, |area| {
                    match advice {
                        Advice::Absent(absent) => area.at_fork.absent = absent,
                        Advice::Wiped(wiped) => area.at_fork.wiped = wiped,
                        _ => {}
                    }
                    Ok(())
                })?;
            }
            Advice::Populate(access) => self.populate(pages, part, access)?,
            _ => {}
        }
        Ok(None)
    }

    /// Brings all pages of a part of an area.
    ///
    /// # Errors
    /// `EINVAL` where the area does not allow the access, `EFAULT` past the end of a file, `ENOMEM`.
    pub fn populate(&mut self, pages: &mut impl PageOps, part: &Vma, access: Access) -> Result<()> {
        let wanted = if access == Access::Write { PRESENT | WRITE } else { PRESENT };
        for address in (part.start..part.end).step_by(PAGE_SIZE as usize) {
            if self.frames.get(address) & wanted != wanted {
                self.fault(pages, address, access).map_err(|violation| match violation {
                    FaultError::NotAllowed => Errno::EINVAL,
                    FaultError::PastEnd => Errno::EFAULT,
                    FaultError::NotMapped | FaultError::OutOfMemory => Errno::ENOMEM,
                })?;
            }
            pages.give_way();
        }
        Ok(())
    }

    /// Makes zeros of memory that others share.
    fn wipe(&mut self, pages: &mut impl PageOps, part: &Vma) -> Result<()> {
        const ZEROS: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];
        self.frames.within(part.start, part.end).try_for_each(|(_, entry)| pages.fill(page_of(entry), &ZEROS))
    }

    /// In a child, before its program runs: takes away what it must not have. Its parent's locks are not its own.
    pub fn begin_child(&mut self, pages: &mut impl PageOps) -> Result<()> {
        self.locks_new = false;
        self.lazily_freed.clear();
        if !core::mem::take(&mut self.has_marks) {
            return Ok(());
        }
        let marked: Vec<Vma> =
            self.areas.iter().filter(|area| area.locked || area.at_fork != Default::default()).copied().collect();
        for area in marked {
            pages.give_way();
            self.has_marks |= area.at_fork.wiped;
            if area.at_fork.absent {
                self.unmap(pages, area.start, area.end)?;
                continue;
            }
            if area.at_fork.wiped {
                self.drop_pages(pages, area.start, area.end)?;
            }
            self.areas.change(area.start, area.end, |area| {
                area.locked = false;
                Ok(())
            })?;
        }
        Ok(())
    }
}
