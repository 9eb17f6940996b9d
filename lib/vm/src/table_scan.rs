//! Scans a table of the lowest level, entry by entry, before it is used again.
//!
//! Pure, over the words of the table. The environment that ran there before may have put anything there. Invariant:
//! what [`compare_tables`] does not report is empty, or as it should be.

use abi::page_table::{ACCESSED, DIRTY, MapRow, USER};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE};

/// Bytes that such a table translates.
pub const SPAN: u64 = PAGE_SIZE << 9;
/// Entries that are looked at together, most being empty.
const AT_ONCE: usize = 8;
/// Entries of an eighth of a table.
const EIGHTH: usize = 512 / 8;
/// Bits of an entry that the CPU and the kernel set by themselves.
const BY_THE_MACHINE: u64 = ACCESSED | DIRTY | USER;

/// What a table maps that is not what it should.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The rows that it does not map, by their indices.
    pub missing: Vec<usize>,
    /// The addresses of all entries that are neither empty nor what a row says.
    pub others: Vec<u64>,
}

/// Looks at a table that translates the addresses from `base` on, and has entries in the eighths whose bits are set
/// in `used` only. It should map `rows`, which are in the order of their addresses; their keys do not count, and
/// those without an entry say nothing. It may map anything at addresses in `vouched`.
pub fn compare_tables(words: &[AtomicU64], used: u8, base: u64, rows: &[MapRow], vouched: &Range<u64>) -> Differences {
    let mut seen = Differences::default();
    let mut next = 0;
    used_entries(words, used).for_each(|(index, some)| {
        let first = base.wrapping_add(index as u64 * PAGE_SIZE);
        next = look_at(some, first, (rows, next), vouched, &mut seen);
    });
    pass_over(rows, next, u64::MAX, &mut seen);
    seen
}

/// The entries of a table of any level that lie together and are not all empty, and the index of the first of them.
/// It looks only at the eighths whose bits are set in `used`.
#[inline]
fn used_entries(words: &[AtomicU64], used: u8) -> impl Iterator<Item = (usize, &[AtomicU64; AT_ONCE])> {
    let eighths = words.as_chunks::<EIGHTH>().0.iter().enumerate().filter(move |(index, _)| used >> index & 1 != 0);
    let all =
        eighths.flat_map(|(index, words)| (index * EIGHTH..).step_by(AT_ONCE).zip(words.as_chunks::<AT_ONCE>().0));
    all.filter(|(_, some)| some.iter().fold(0, |all, word| all | word.load(Relaxed)) != 0)
}

/// The same as [`look`] of a few entries, which translate the addresses from `first` on, and of the rows from `next`
/// on. The result is the first row behind them.
#[inline(never)]
fn look_at(
    some: &[AtomicU64; AT_ONCE],
    first: u64,
    (rows, mut next): (&[MapRow], usize),
    vouched: &Range<u64>,
    seen: &mut Differences,
) -> usize {
    let mut address = first.wrapping_sub(PAGE_SIZE);
    for word in some {
        address = address.wrapping_add(PAGE_SIZE);
        let entry = word.load(Relaxed);
        if entry == 0 {
            continue;
        }
        // Nearly always it is the next row.
        if rows.get(next).is_some_and(|row| is_it(row, address, entry)) {
            next = next.wrapping_add(1);
        } else if !vouched.contains(&address) {
            next = pass_over(rows, next, address, seen);
            if rows.get(next).is_some_and(|row| is_it(row, address, entry)) {
                next = next.wrapping_add(1);
            } else {
                seen.others.push(address);
            }
        }
    }
    next
}

/// Whether an entry at an address is what a row says.
#[inline]
const fn is_it(row: &MapRow, address: u64, entry: u64) -> bool {
    row.address & PAGE_MASK == address && (row.entry ^ entry) & !BY_THE_MACHINE == 0
}

/// The rows from one on whose addresses lie below one are missing. The result is the first of the others.
fn pass_over(rows: &[MapRow], from: usize, address: u64, seen: &mut Differences) -> usize {
    let mut next = from;
    while let Some(row) = rows.get(next)
        && row.address & PAGE_MASK < address
    {
        if row.entry != 0 {
            seen.missing.push(next);
        }
        next += 1;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::page_table::{NO_EXECUTE, PRESENT, WRITE};

    const BASE: u64 = 0x7d80_0000_0000;
    const LEAF: u64 = PRESENT | WRITE | NO_EXECUTE;

    fn table(entries: &[(usize, u64)]) -> Vec<AtomicU64> {
        let words: Vec<AtomicU64> = (0..512).map(|_| AtomicU64::new(0)).collect();
        entries.iter().for_each(|(at, entry)| words[*at].store(*entry, Relaxed));
        words
    }

    fn row(at: u64, page: u64) -> MapRow {
        MapRow { address: BASE + at * PAGE_SIZE | 3, entry: page << 12 | LEAF }
    }

    fn seen(entries: &[(usize, u64)], rows: &[MapRow]) -> (Vec<usize>, Vec<u64>) {
        let used = entries.iter().fold(0, |used, (at, _)| used | 1 << (at / 64));
        let seen = compare_tables(&table(entries), used, BASE, rows, &(BASE..BASE + 15 * PAGE_SIZE));
        (seen.missing, seen.others.into_iter().map(|address| (address - BASE) / PAGE_SIZE).collect())
    }

    #[test]
    fn what_was_put_there_stays_and_everything_else_is_told() {
        let rows = [row(20, 51), row(300, 50), row(301, 52)];
        let by_cpu = USER | ACCESSED | DIRTY;
        let entries = [(20, 51 << 12 | LEAF | USER), (300, 50 << 12 | LEAF | by_cpu), (301, 52 << 12 | LEAF | USER)];
        assert_eq!(seen(&[], &rows), ([0, 1, 2].to_vec(), Vec::new()));
        assert_eq!(seen(&entries, &rows), (Vec::new(), Vec::new()));
        let mut more = entries.to_vec();
        more.extend([(2, 77 << 12 | LEAF), (15, 77 << 12 | LEAF), (511, 1 << 9)]);
        assert_eq!(seen(&more, &rows), (Vec::new(), [15, 511].to_vec()), "the area is vouched for");
        assert_eq!(seen(&entries[1..], &rows), ([0].to_vec(), Vec::new()));
        assert_eq!(seen(&entries[..2], &rows), ([2].to_vec(), Vec::new()));
    }

    #[test]
    fn another_page_or_other_rights_are_not_what_was_put_there() {
        for entry in
            [51 << 12 | LEAF, 50 << 12 | PRESENT | WRITE, 50 << 12 | LEAF | 1 << 10, 50 << 12 | LEAF & !PRESENT]
        {
            let entries = [(300, entry | USER), (301, 52 << 12 | LEAF)];
            assert_eq!(
                seen(&entries, &[row(300, 50), row(301, 52)]),
                ([0].to_vec(), [300].to_vec()),
                "entry {entry:#x}"
            );
        }
    }

    #[test]
    fn a_row_without_an_entry_is_no_row() {
        let none = MapRow { entry: 0, ..row(20, 0) };
        assert_eq!(seen(&[], &[none]), (Vec::new(), Vec::new()));
        assert_eq!(seen(&[(20, 51 << 12 | LEAF)], &[none]), (Vec::new(), [20].to_vec()));
    }
}
