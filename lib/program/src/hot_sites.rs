//! How often each `syscall` trapped. Rewriting one costs as much as some hundred traps, so that a site has to come
//! often first. One that cannot be rewritten is looked at once.
//!
//! Pure. A small table by a hash of the address, each entry an address and its count in one word. Of two sites that
//! share an entry the later one takes it. The hash looks at all bits, because the low ones are much the same where
//! functions are aligned. Two sites that come in turns and share an entry are never rewritten. A count that is lost
//! costs time, nothing else.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The trap at which a site is rewritten.
pub const REWRITTEN_AT: u64 = 16;
const ENTRIES: usize = 1 << ENTRY_BITS;
const ENTRY_BITS: u32 = 7;
/// Bits of an entry that hold the count; the address stands above them.
const COUNT_BITS: u32 = 8;
const DECIDED: u64 = (1 << COUNT_BITS) - 1;

/// The counts of a process.
#[derive(Debug)]
pub struct TrapCounts {
    entries: [AtomicU64; ENTRIES],
}

impl Default for TrapCounts {
    fn default() -> Self {
        Self { entries: [const { AtomicU64::new(0) }; ENTRIES] }
    }
}

impl TrapCounts {
    /// Counts a trap at `site`; true once, when the site has come often enough.
    #[inline]
    pub fn has_come_often(&self, site: u64) -> bool {
        let entry = &self.entries[place(site)];
        let seen = entry.load(Relaxed);
        let count = if seen >> COUNT_BITS == site { seen & DECIDED } else { 0 };
        if count == DECIDED {
            return false;
        }
        let often = count + 1 == REWRITTEN_AT;
        entry.store(site << COUNT_BITS | if often { DECIDED } else { count + 1 }, Relaxed);
        often
    }

    /// Another program lies in memory.
    pub fn forget(&self) {
        self.entries.iter().for_each(|entry| entry.store(0, Relaxed));
    }
}

/// The entry of a site.
const fn place(site: u64) -> usize {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    (site.wrapping_mul(SPREAD) >> (u64::BITS - ENTRY_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_site_is_rewritten_once_and_only_when_it_came_often() {
        let counts = TrapCounts::default();
        let rewritten: Vec<u64> = (1..=1000).filter(|_| counts.has_come_often(0x7f00_1234_5678)).collect();
        assert_eq!(rewritten, [REWRITTEN_AT]);
    }

    #[test]
    fn sites_that_share_an_entry_take_it_from_each_other() {
        let counts = TrapCounts::default();
        let one = 0x40_1000;
        let other = (1..).map(|step| one + 16 * step).find(|other| place(*other) == place(one)).expect("there is one");
        assert!((0..1000).all(|_| !counts.has_come_often(one) && !counts.has_come_often(other)));
        assert_eq!((1..=100).filter(|_| counts.has_come_often(other)).count(), 1, "it has the entry for itself now");
    }

    #[test]
    fn the_calls_of_a_library_whose_functions_are_aligned_spread() {
        let sites = (0..32).map(|number| 0x7f12_3450_0000 + number * 0x40 + 0x17);
        let mut places: Vec<usize> = sites.map(place).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() >= 24, "{} places for 32 sites", places.len());
    }

    #[test]
    fn another_program_begins_at_zero() {
        let counts = TrapCounts::default();
        assert_eq!((0..REWRITTEN_AT).filter(|_| counts.has_come_often(0x1000)).count(), 1);
        counts.forget();
        assert_eq!((1..=REWRITTEN_AT).find(|_| counts.has_come_often(0x1000)), Some(REWRITTEN_AT));
    }
}
