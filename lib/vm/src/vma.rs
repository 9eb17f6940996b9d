//! The areas of a program's memory: what each address means, whether or not a page is there yet.
//!
//! Pure. Invariants: areas are page-aligned, not empty, do not overlap, and neighbours that could be one are one.

use crate::vma_list::{Place, Sorted};
use alloc::vec::Vec;
use core::iter::successors;
use core::ops::Range;
use linux_abi::address_map::{CHOSEN_END, LEAST_ADDRESS, MMAP_TOP, PAGE_SIZE, PROGRAM_END};
use linux_abi::errno::{Errno, Result};
use vfs::handle::is_executable;

/// What a program may do with an area: the bits of `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Protection(pub u8);

impl Protection {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Read.
    pub const READ: Self = Self(1);
    /// Write.
    pub const WRITE: Self = Self(2);
    /// Execute.
    pub const EXECUTE: Self = Self(4);
    /// Read and write.
    pub const READ_WRITE: Self = Self(3);

    /// Whether `other` is in here.
    pub const fn allows(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// From the argument of `mmap`, which ignores bits that have no meaning.
    pub const fn from_argument(argument: u64) -> Self {
        Self((argument & 7) as u8)
    }
}

/// Where the contents of an area come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Zeros.
    Anonymous,
    /// A file, from byte `offset` on.
    File {
        /// Handle of the node at the server.
        node: u64,
        /// Byte of the file at the area's first address.
        offset: u64,
        /// Whether the file itself may be written through the area, if that is shared.
        writable: bool,
    },
    /// Zeros that are never to be written: of `/dev/zero`, which was opened to be read.
    Zeros,
    /// Made by the library: stubs of rewritten calls.
    Library,
    /// What lies behind the end of shared memory that a mapping outgrew.
    Nothing,
}

/// What a child of fork finds of an area (madvise(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtFork {
    /// Nothing at all.
    pub absent: bool,
    /// Zeros.
    pub wiped: bool,
}

impl Backing {
    fn at(self, distance: u64) -> Self {
        match self {
            Self::File { node, offset, writable } => Self::File { node, offset: offset + distance, writable },
            other => other,
        }
    }
}

/// One area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// What the program may do.
    pub protection: Protection,
    /// Other processes that map it see writes.
    pub shared: bool,
    /// Grows downwards when touched below its start.
    pub grows: bool,
    /// The program wants its pages to stay in memory.
    pub locked: bool,
    /// What a child has of it.
    pub at_fork: AtFork,
    /// Where its contents come from.
    pub backing: Backing,
}

impl Vma {
    /// Private zeros.
    pub const fn anonymous(start: u64, end: u64, protection: Protection) -> Self {
        let at_fork = AtFork { absent: false, wiped: false };
        let backing = Backing::Anonymous;
        Self { start, end, protection, shared: false, grows: false, locked: false, at_fork, backing }
    }

    /// How many bytes it has.
    pub const fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it has memory of its own that it may write, which counts as data.
    pub const fn is_data(&self) -> bool {
        !self.shared && self.protection.allows(Protection::WRITE)
    }

    /// The file that it shows.
    pub const fn node(&self) -> Option<u64> {
        match self.backing {
            Backing::File { node, .. } => Some(node),
            _ => None,
        }
    }

    /// Whether the program may have this protection there.
    ///
    /// # Errors
    /// `EACCES` for what the file was not opened for, or its mount forbids.
    pub const fn check(&self, protection: Protection) -> Result<()> {
        let (may_write, may_execute) = match self.backing {
            Backing::File { node, writable, .. } => (!self.shared || writable, is_executable(node)),
            Backing::Zeros => (false, true),
            _ => return Ok(()),
        };
        let writes = !may_write && protection.allows(Protection::WRITE);
        let executes = !may_execute && protection.allows(Protection::EXECUTE);
        if writes || executes { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// What is left of it from an address on.
    #[inline]
    fn from(self, start: u64) -> Self {
        Self { start, backing: self.backing.at(start - self.start), ..self }
    }

    #[inline]
    fn joins(&self, next: &Self) -> bool {
        self.end == next.start && Self { end: next.end, ..self.from(next.start) } == *next
    }
}

/// All areas of a program.
#[derive(Clone, Debug, Default)]
pub struct VmaList {
    all: Sorted,
    /// How often something has changed.
    generation: u64,
}

impl VmaList {
    /// The area that holds `address`.
    #[inline]
    pub fn find(&self, address: u64) -> Option<&Vma> {
        self.holding(address).map(|place| self.all.at(place))
    }

    #[inline]
    fn holding(&self, address: u64) -> Option<Place> {
        self.all.last_at(address).filter(|place| address < self.all.at(*place).end)
    }

    /// A number that is larger after every change.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.count()
    }

    /// The last area that begins below an address.
    pub fn last_below(&self, address: u64) -> Option<&Vma> {
        let place = self.all.last_at(address.checked_sub(1)?)?;
        Some(self.all.at(place))
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma> {
        self.all.iter()
    }

    /// The parts of areas that lie in `start..end`, cut to it.
    pub fn within(&self, start: u64, end: u64) -> Vec<Vma> {
        self.parts(start, end).collect()
    }

    /// The same, one after the other.
    pub fn parts(&self, start: u64, end: u64) -> impl Iterator<Item = Vma> {
        let mut next = self.first_within(start, end);
        core::iter::from_fn(move || {
            let place = next?;
            let area = self.all.at(place);
            next = if area.end < end { self.all.behind(place) } else { None };
            (area.start < end).then(|| Vma { end: area.end.min(end), ..area.from(area.start.max(start)) })
        })
    }

    /// The range of an area and of its neighbours, without a gap, that belong to it: `most` at most on each side.
    pub fn beside(&self, area: &Vma, most: usize, belongs: impl Fn(&Vma) -> bool) -> Range<u64> {
        let here = self.holding(area.start);
        let mut range = area.start..area.end;
        let below = successors(here, |place| self.all.before(*place)).skip(1).take(most);
        for part in below.map(|place| self.all.at(place)).take_while(|part| belongs(part)) {
            if part.end != range.start {
                break;
            }
            range.start = part.start;
        }
        let above = successors(here, |place| self.all.behind(*place)).skip(1).take(most);
        for part in above.map(|place| self.all.at(place)).take_while(|part| belongs(part)) {
            if part.start != range.end {
                break;
            }
            range.end = part.end;
        }
        range
    }

    /// The first area of which a part lies in `start..end`.
    #[inline]
    fn first_within(&self, start: u64, end: u64) -> Option<Place> {
        let first = match self.all.last_at(start) {
            Some(place) if start < self.all.at(place).end => place,
            Some(place) => self.all.behind(place)?,
            None => self.all.first()?,
        };
        (self.all.at(first).start < end).then_some(first)
    }

    /// Whether nothing lies in `start..end`.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.last_below(end).is_none_or(|last| last.end <= start)
    }

    /// Bytes in all areas.
    pub fn bytes(&self) -> u64 {
        self.iter().map(Vma::bytes).sum()
    }

    /// Puts an area in; what lay there is taken out.
    pub fn insert(&mut self, area: Vma) {
        self.remove(area.start, area.end);
        let place = match self.all.last_at(area.start) {
            Some(below) if self.all.at(below).joins(&area) => {
                self.all.change_at(below).end = area.end;
                below
            }
            below => self.all.insert_behind(below, area),
        };
        self.join_behind(place);
    }

    /// Takes `start..end` out, cutting areas that reach beyond it.
    pub fn remove(&mut self, start: u64, end: u64) {
        self.generation += 1;
        let mut next = self.first_within(start, end);
        while let Some(place) = next {
            let area = *self.all.at(place);
            if area.start >= end {
                return;
            }
            next = match (area.start < start, end < area.end) {
                (false, false) => self.all.remove(place),
                (true, false) => {
                    self.all.change_at(place).end = start;
                    self.all.behind(place)
                }
                (false, true) => {
                    *self.all.change_at(place) = area.from(end);
                    None
                }
                (true, true) => {
                    self.all.change_at(place).end = start;
                    self.all.insert_behind(next, area.from(end));
                    None
                }
            };
        }
    }

    /// Changes the areas of `start..end`, cut to it, one after the other, up to the first that `change` refuses, or
    /// up to the first gap, which is `ENOMEM`. Their bounds stay.
    pub fn change(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut Vma) -> Result<()>) -> Result<()> {
        let mut at = start;
        while at < end {
            let place = self.holding(at).ok_or(Errno::ENOMEM)?;
            let area = *self.all.at(place);
            let before = Vma { end: area.end.min(end), ..area.from(at) };
            let mut after = before;
            change(&mut after)?;
            if after != before {
                self.replace(place, area, after);
            }
            at = before.end;
        }
        Ok(())
    }

    /// Puts another area in the place of a part of one that it is not like.
    fn replace(&mut self, place: Place, area: Vma, part: Vma) {
        self.generation += 1;
        let above = (part.end < area.end).then(|| area.from(part.end));
        let here = if area.start < part.start {
            self.all.change_at(place).end = part.start;
            self.all.insert_behind(Some(place), part)
        } else {
            match (self.all.before(place).filter(|before| self.all.at(*before).joins(&part)), above) {
                // Only the border moves.
                (Some(before), Some(above)) => {
                    self.all.change_at(before).end = part.end;
                    *self.all.change_at(place) = above;
                    return self.all.expect_at(before);
                }
                (Some(before), None) => {
                    self.all.change_at(before).end = part.end;
                    self.all.remove(place);
                    before
                }
                (None, _) => {
                    *self.all.change_at(place) = part;
                    place
                }
            }
        };
        match above {
            Some(above) => _ = self.all.insert_behind(Some(here), above),
            None => self.join_behind(here),
        }
        self.all.expect_at(here);
    }

    /// Joins an area with the one behind it, where they could be one.
    fn join_behind(&mut self, place: Place) {
        let Some(behind) = self.all.behind(place) else { return };
        let next = *self.all.at(behind);
        if self.all.at(place).joins(&next) {
            self.all.change_at(place).end = next.end;
            self.all.remove(behind);
        }
    }

    /// Whether areas cover a range without a gap.
    pub fn cover(&self, start: u64, end: u64) -> bool {
        self.within(start, end).iter().map(Vma::bytes).sum::<u64>() == end - start
    }

    /// Moves the start of the area at `start`, which grows downwards, to a lower address; nothing lies between.
    pub fn grow_down(&mut self, start: u64, new_start: u64) {
        if let Some(place) = self.holding(start).filter(|place| self.all.at(*place).start == start) {
            self.generation += 1;
            self.all.change_at(place).start = new_start;
        }
    }

    /// The highest free place for `bytes` bytes below the stack, or where none is, as for a reservation of terabytes,
    /// above it.
    pub fn find_place(&self, bytes: u64) -> Result<u64> {
        self.find_place_below(MMAP_TOP, bytes).or_else(|_| self.find_place_between(CHOSEN_END, PROGRAM_END, bytes))
    }

    /// The highest free place for `bytes` bytes below an address.
    pub fn find_place_below(&self, top: u64, bytes: u64) -> Result<u64> {
        self.find_place_between(LEAST_ADDRESS, top, bytes)
    }

    fn find_place_between(&self, bottom: u64, top: u64, bytes: u64) -> Result<u64> {
        let mut ceiling = top;
        for area in self.all.iter().rev().skip_while(|area| area.start >= top) {
            if area.end <= ceiling && ceiling - area.end >= bytes {
                break;
            }
            ceiling = ceiling.min(area.start);
        }
        let lowest = self.last_below(ceiling).map_or(bottom, |area| area.end);
        match ceiling.checked_sub(bytes) {
            Some(place) if place >= lowest.max(bottom) => Ok(place),
            _ => Err(Errno::ENOMEM),
        }
    }

    /// A free place for `bytes` bytes whose every byte is within `reach` of `address`: the nearest above, or the
    /// nearest below that leaves room for the program to grow.
    pub fn find_near(&self, address: u64, bytes: u64, reach: u64) -> Option<u64> {
        const STEP: u64 = 16 << 20;
        let from = (address + reach / 2) / STEP * STEP;
        let above = (0..reach / 2 / STEP).map(|step| from + step * STEP);
        let below = (1..reach / STEP).filter_map(|step| from.checked_sub(step * STEP));
        above.chain(below).find(|place| {
            *place >= LEAST_ADDRESS
                && place.abs_diff(address) + bytes < reach
                && self.is_free(*place, place + bytes + PAGE_SIZE)
        })
    }
}
