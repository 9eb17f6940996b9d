//! What stands in the top-level slots of an address space in which a program stood beside the memory of a child (`process::beside`).
//!
//! Pure, over the words of the root. Who ran there may have linked anything anywhere. Holds always: what [`find`] tells is all that
//! is linked in the user half.

use super::table_scan::used_entries;
use crate::address_map::{IMAGE_SLOT, OLD_MEMORY_SLOT, PAGE_SIZE};
use abi::PageNumber;
use abi::memory_map::TOP_LEVEL_SLOT;
use abi::page_table::{PAGE, PRESENT};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The eighths of a root that are the user half.
const USER_EIGHTHS: u8 = 0b1111;

/// How a program and the memory that it stands beside are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootState {
    /// As they were made.
    Made,
    /// Each in the place of the other.
    Changed,
    /// The program in the place of the memory, which is gone.
    Alone,
}

/// Finds the uppermost tables of a program and of the memory in a root, which has entries in the eighths whose bits are set in `used`
/// only, and in which nothing else is linked than `others` say: slots, and tables. Nothing where they are not found in any of the
/// ways that there are.
pub fn find(
    (root, used): (&[AtomicU64], u8),
    (program, memory): (PageNumber, PageNumber),
    others: &[(u64, Option<PageNumber>)],
) -> Option<RootState> {
    let mut found = [None; 3];
    for (index, words) in used_entries(root, used & USER_EIGHTHS) {
        let first = index as u64 * TOP_LEVEL_SLOT;
        for (address, word) in (first..).step_by(TOP_LEVEL_SLOT as usize).zip(words) {
            let entry = word.load(Relaxed);
            if entry & PRESENT == 0 {
                continue;
            }
            let page = Some(PageNumber((entry & PAGE) / PAGE_SIZE));
            match [0, IMAGE_SLOT, OLD_MEMORY_SLOT].iter().position(|slot| *slot == address) {
                Some(place) => found[place] = page,
                None if others.contains(&(address, page)) => {}
                None => return None,
            }
        }
    }
    let (program, memory) = (Some(program), Some(memory));
    match found {
        [place, beside, None] if (place, beside) == (memory, program) => Some(RootState::Made),
        [place, None, before] if (place, before) == (program, memory) => Some(RootState::Changed),
        [place, None, None] if place == program => Some(RootState::Alone),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::page_table::{USER, WRITE};
    use alloc::vec::Vec;

    fn root(entries: &[(u64, u64)]) -> Vec<AtomicU64> {
        let words: Vec<AtomicU64> = (0..512).map(|_| AtomicU64::new(0)).collect();
        for (address, page) in entries {
            words[(address / TOP_LEVEL_SLOT) as usize].store(page * PAGE_SIZE | PRESENT | USER | WRITE, Relaxed);
        }
        words
    }

    #[test]
    fn only_three_ways_are_known_in_which_both_are_found() {
        const AREA: u64 = 251 * TOP_LEVEL_SLOT;
        let found = |entries: &[(u64, u64)]| {
            let entries = [entries, &[(AREA, 7)]].concat();
            find((&root(&entries), 9), (PageNumber(2), PageNumber(1)), &[(AREA, Some(PageNumber(7)))])
        };
        assert_eq!(found(&[(0, 1), (IMAGE_SLOT, 2)]), Some(RootState::Made));
        assert_eq!(found(&[(0, 2), (OLD_MEMORY_SLOT, 1)]), Some(RootState::Changed));
        assert_eq!(found(&[(0, 2)]), Some(RootState::Alone));
        for other in [
            &[(0, 1)][..],
            &[(0, 1), (IMAGE_SLOT, 1)],
            &[(0, 2), (IMAGE_SLOT, 2)],
            &[(0, 2), (OLD_MEMORY_SLOT, 3)],
            &[(0, 1), (IMAGE_SLOT, 2), (OLD_MEMORY_SLOT, 1)],
            &[(0, 1), (IMAGE_SLOT, 2), (TOP_LEVEL_SLOT, 1)],
            &[(IMAGE_SLOT, 2), (OLD_MEMORY_SLOT, 1)],
            &[],
        ] {
            assert_eq!(found(other), None, "{other:?}");
        }
        let alone = root(&[(0, 2)]);
        assert_eq!(find((&alone, 9), (PageNumber(2), PageNumber(1)), &[]), Some(RootState::Alone));
        let foreign = root(&[(0, 2), (AREA, 8)]);
        assert_eq!(find((&foreign, 9), (PageNumber(2), PageNumber(1)), &[(AREA, Some(PageNumber(7)))]), None);
    }
}
