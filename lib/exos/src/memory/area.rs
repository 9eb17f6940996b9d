//! The areas of a program's memory: what each address means, whether or not a page is there yet.
//!
//! Pure. Holds always: areas are page-aligned, not empty, do not overlap, and neighbours that could be one are one.

use crate::errno::{Errno, Result};
use crate::guardian::handle::is_executable;
use crate::layout::{LEAST_ADDRESS, MMAP_TOP, PAGE_SIZE};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

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
        /// Handle of the node at the guardian.
        node: u64,
        /// Byte of the file at the area's first address.
        offset: u64,
        /// Whether the file itself may be written through the area, if that is shared.
        writable: bool,
    },
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
pub struct Area {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// What the program may do.
    pub protection: Protection,
    /// Writes are seen by whoever else maps it.
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

impl Area {
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

    /// Whether the program may have this protection there.
    ///
    /// # Errors
    /// `EACCES` for what the file was not opened for, or its mount forbids.
    pub const fn check(&self, protection: Protection) -> Result<()> {
        let Backing::File { node, writable, .. } = self.backing else { return Ok(()) };
        let writes = self.shared && !writable && protection.allows(Protection::WRITE);
        let executes = !is_executable(node) && protection.allows(Protection::EXECUTE);
        if writes || executes { Err(Errno::EACCES) } else { Ok(()) }
    }

    fn joins(&self, next: &Self) -> bool {
        let backing = self.backing.at(self.bytes());
        self.end == next.start && Self { start: next.start, end: next.end, backing, ..*self } == *next
    }
}

/// All areas of a program.
#[derive(Clone, Debug, Default)]
pub struct Areas {
    by_start: BTreeMap<u64, Area>,
}

impl Areas {
    /// The area that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Area> {
        self.by_start.range(..=address).next_back().map(|(_, area)| area).filter(|area| address < area.end)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_start.len()
    }

    /// The last area that begins below an address.
    pub fn last_below(&self, address: u64) -> Option<&Area> {
        self.by_start.range(..address).next_back().map(|(_, area)| area)
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Area> {
        self.by_start.values()
    }

    /// The parts of areas that lie in `start..end`, cut to it.
    pub fn within(&self, start: u64, end: u64) -> Vec<Area> {
        if self.is_free(start, end) {
            return Vec::new();
        }
        let first = self.find(start).map_or(start, |area| area.start);
        let cut = |area: &Area| {
            let from = area.start.max(start);
            Area { start: from, end: area.end.min(end), backing: area.backing.at(from - area.start), ..*area }
        };
        self.by_start.range(first..end).map(|(_, area)| cut(area)).collect()
    }

    /// Whether nothing lies in `start..end`.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.by_start.range(..end).next_back().is_none_or(|(_, last)| last.end <= start)
    }

    /// Bytes in all areas.
    pub fn bytes(&self) -> u64 {
        self.iter().map(Area::bytes).sum()
    }

    /// Puts an area in; what lay there is taken out.
    pub fn insert(&mut self, area: Area) {
        self.remove(area.start, area.end);
        self.by_start.insert(area.start, area);
        self.join_around(area.start);
        self.join_around(area.end);
    }

    /// Takes `start..end` out, cutting areas that reach beyond it.
    pub fn remove(&mut self, start: u64, end: u64) {
        // Mostly nothing lies there: one look instead of three.
        if self.is_free(start, end) {
            return;
        }
        self.split(start);
        self.split(end);
        let inside: Vec<u64> = self.by_start.range(start..end).map(|(start, _)| *start).collect();
        for start in inside {
            self.by_start.remove(&start);
        }
    }

    /// Changes the areas of `start..end` one after the other, up to the first that `change` refuses, or up to the first gap,
    /// which is `ENOMEM`.
    pub fn change(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut Area) -> Result<()>) -> Result<()> {
        self.split(start);
        self.split(end);
        let mut at = start;
        let mut outcome = Ok(());
        while at < end && outcome.is_ok() {
            outcome = self.by_start.get_mut(&at).ok_or(Errno::ENOMEM).and_then(|area| {
                at = area.end;
                change(area)
            });
        }
        self.join_within(start, end);
        outcome
    }

    /// Whether areas cover a range without a gap.
    pub fn cover(&self, start: u64, end: u64) -> bool {
        self.within(start, end).iter().map(Area::bytes).sum::<u64>() == end - start
    }

    /// Moves the start of the area at `start`, which grows downwards.
    pub fn grow_down(&mut self, start: u64, new_start: u64) {
        if let Some(area) = self.by_start.remove(&start) {
            self.by_start.insert(new_start, Area { start: new_start, ..area });
        }
    }

    /// The highest free place for `bytes` bytes below the stack.
    pub fn find_place(&self, bytes: u64) -> Result<u64> {
        self.find_place_below(MMAP_TOP, bytes)
    }

    /// The highest free place for `bytes` bytes below an address.
    pub fn find_place_below(&self, top: u64, bytes: u64) -> Result<u64> {
        let mut ceiling = top;
        for area in self.by_start.range(..top).rev().map(|(_, area)| area) {
            if area.end <= ceiling && ceiling - area.end >= bytes {
                break;
            }
            ceiling = ceiling.min(area.start);
        }
        let lowest = self.by_start.range(..ceiling).next_back().map_or(LEAST_ADDRESS, |(_, area)| area.end);
        match ceiling.checked_sub(bytes) {
            Some(place) if place >= lowest.max(LEAST_ADDRESS) => Ok(place),
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

    fn split(&mut self, at: u64) {
        let Some(area) = self.find(at).copied().filter(|area| area.start < at) else { return };
        let upper = Area { start: at, backing: area.backing.at(at - area.start), ..area };
        self.by_start.insert(area.start, Area { end: at, ..area });
        self.by_start.insert(at, upper);
    }

    fn join_within(&mut self, start: u64, end: u64) {
        let starts: Vec<u64> = self.by_start.range(start..=end).map(|(start, _)| *start).collect();
        for start in starts {
            self.join_around(start);
        }
    }

    /// Joins what ends at `border` with what begins there, where they could be one.
    fn join_around(&mut self, border: u64) {
        let Some(upper) = self.by_start.get(&border).copied() else { return };
        let Some((_, lower)) = self.by_start.range(..border).next_back() else { return };
        if lower.joins(&upper) {
            let joined = Area { end: upper.end, ..*lower };
            self.by_start.remove(&border);
            self.by_start.insert(joined.start, joined);
        }
    }
}
