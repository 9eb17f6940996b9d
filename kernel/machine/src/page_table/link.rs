//! Tables and the links to them: pages that become tables and are pages again, and how many links lead to each.

use super::used::{bits_of, note_used};
use super::{ENTRIES, ROOT_LEVEL, Slot, index, page_of, table};
use crate::layout::direct;
use crate::memory::{self, Memory, PageState, set_state, state};
use abi::PageNumber;
use abi::page::{PRIVATE, PageInfo, PageKind};
use abi::page_table::{LARGE, PRESENT, USER, WRITE};
use core::sync::atomic::{AtomicU64, Ordering};

/// How many links lead to a table; for a root, how many environments have it.
pub fn links(info: &PageInfo) -> u32 {
    (info.holds.load(Ordering::Relaxed) >> 32) as u32
}

fn set_links(info: &PageInfo, links: u32) {
    let pins = info.holds.load(Ordering::Relaxed) & 0xffff_ffff;
    info.holds.store(u64::from(links) << 32 | pins, Ordering::Release);
}

impl Memory {
    /// Makes a donated page an empty table of a level; a root gets the kernel's half.
    pub fn create_table(&mut self, page: PageNumber, level: u8) {
        assert!(self.is_donatable(page) && (1..=ROOT_LEVEL).contains(&level), "a table is made of a donated page");
        let info = memory::info(page).expect("checked");
        Self::make_zero(page);
        set_state(info, PageState { level, ..PageState::of(PageKind::PageTable) });
        set_links(info, 0);
        set_parent(info, None);
        self.forget_leaf_table();
        if level == ROOT_LEVEL {
            let kernel = &kernel_half()[ENTRIES / 2..];
            for (entry, common) in table(page)[ENTRIES / 2..].iter().zip(kernel) {
                entry.store(common.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Makes a table without links and entries an ordinary page again.
    pub fn dissolve_table(&mut self, page: PageNumber) {
        let info = memory::info(page).expect("a table has a record");
        assert_eq!(links(info), 0, "a linked table is not dissolved");
        self.forget_leaf_table();
        let left = bits_of(page);
        assert_eq!(left & PRESENT, 0, "the table is not empty");
        if left != 0 || state(info).level == ROOT_LEVEL {
            Self::zero(page);
        }
        info.block.store(0, Ordering::Release);
        memory::set_zeroed(info);
    }

    /// Links a table into a slot that holds no present entry. A second link makes every link to it read-only.
    pub fn link(&mut self, slot: Slot, child: PageNumber) {
        let info = memory::info(child).expect("a table has a record");
        let above = state(memory::info(slot.table).expect("a table has a record")).level;
        assert!(
            state(info).kind == PageKind::PageTable && state(info).level + 1 == above,
            "a link leads one level down"
        );
        assert_eq!(slot.entry() & PRESENT, 0, "the slot is taken");
        self.forget_leaf_table();
        let writable = if links(info) == 0 { WRITE } else { 0 };
        if let Some(first) = parent(info) {
            first.note_edit();
            first.word().fetch_and(!WRITE, Ordering::AcqRel);
        }
        set_links(info, links(info) + 1);
        set_parent(info, (links(info) == 1).then_some(slot));
        slot.note_edit();
        note_used(memory::info(slot.table).expect("checked"), slot.index);
        slot.word().store(child.address() | PRESENT | USER | writable, Ordering::Release);
    }

    /// Removes the link in a slot; returns the table.
    pub fn unlink(&mut self, slot: Slot) -> PageNumber {
        self.forget_leaf_table();
        slot.note_edit();
        let old = slot.word().swap(0, Ordering::AcqRel);
        assert!(old & PRESENT != 0 && old & LARGE == 0, "no link in the slot");
        let child = page_of(old);
        let info = memory::info(child).expect("a table has a record");
        set_links(info, links(info) - 1);
        set_parent(info, None);
        child
    }

    /// Makes the only link that is left to a table writable again.
    pub fn unshare(&mut self, slot: Slot) {
        let info = memory::info(page_of(slot.entry())).expect("a table has a record");
        assert_eq!(links(info), 1, "only the last link is made writable");
        set_parent(info, Some(slot));
        if slot.entry() & WRITE == 0 {
            slot.note_edit();
            slot.word().fetch_or(WRITE, Ordering::AcqRel);
        }
    }

    /// Notes that a private page is mapped at an address under a root: no table on the way to it is shared from now
    /// on.
    pub fn note_private(&mut self, root: PageNumber, address: u64) {
        let mut at = root;
        for above in (2..=ROOT_LEVEL).rev() {
            let entry = Slot { table: at, index: index(address, above) }.entry();
            assert!(entry & PRESENT != 0 && entry & LARGE == 0, "no table leads to a private page");
            at = page_of(entry);
            memory::set_flags(memory::info(at).expect("a linked table has a record"), PRIVATE, 0);
        }
    }

    /// Counts an environment that has a root, or has it no more.
    pub fn count_root(&mut self, root: PageNumber, change: i32) {
        let info = memory::info(root).expect("a root has a record");
        assert_eq!((state(info).kind, state(info).level), (PageKind::PageTable, ROOT_LEVEL));
        set_links(info, links(info).checked_add_signed(change).expect("environments of a root went below zero"));
    }
}

/// The kernel's own root table.
fn kernel_half() -> &'static [AtomicU64; ENTRIES] {
    // SAFETY: the kernel's root was made at boot, lies in the direct map, and its upper half never changes after it.
    unsafe { &*(direct(crate::kernel_map::root_address()) as *const [AtomicU64; ENTRIES]) }
}

/// The table above one that has a single link, where that link is writable.
pub fn only_parent(info: &PageInfo) -> Option<PageNumber> {
    parent(info).map(|slot| slot.table)
}

/// The slot of the only link to a table, where that link is writable.
fn parent(info: &PageInfo) -> Option<Slot> {
    let word = info.parent.load(Ordering::Relaxed);
    let table = PageNumber(word & 0xffff_ffff);
    (table != PageNumber::NONE).then_some(Slot { table, index: (word >> 32) as usize & (ENTRIES - 1) })
}

fn set_parent(info: &PageInfo, slot: Option<Slot>) {
    let word = slot.map_or(PageNumber::NONE.0, |slot| slot.table.0 | (slot.index as u64) << 32);
    info.parent.store(word, Ordering::Release);
}
