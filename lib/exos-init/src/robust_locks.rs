//! Robust mutexes of a destroyed process: each word that its threads still own is marked `FUTEX_OWNER_DIED`, and
//! one waiter wakes (`set_robust_list`).
//!
//! The session walks the page tables of the dead process, which stay until its parent takes them back. Nothing
//! of a list is trusted. Only words in the program's range are changed, through entries that let the process
//! write them.

use crate::boot::Session;
use abi::limits::PAGE_SIZE;
use abi::page_table::{LARGE, PRESENT, WRITE};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::usercopy;
use exos::process::futex::{ROBUST_MOST, left_by};
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed};
use unix_core::process::public_page as public;
use vm::page_record::page_of;

/// Level of the tables below the root.
const UPPERMOST: u32 = 3;

/// The list of one thread.
#[derive(Debug)]
pub(super) struct RobustList {
    /// The number of the thread, as the words of mutexes have it.
    owner: u32,
    head: u64,
}

impl RobustList {
    /// The list that a thread has published, if it has one.
    pub(super) fn of(thread: EnvironmentId, owner: u64, key: KeyIndex) -> Option<Self> {
        let page = PageNumber(exposed::environment(thread)?.public.load(Acquire));
        let public = Window::open(&[page], key, Access::READ).ok()?;
        let head = public.words()[public::ROBUST_LIST].load(Acquire);
        (head != 0).then_some(Self { owner: owner as u32, head })
    }

    /// Marks what the thread has left locked.
    pub(super) fn release(&self, session: &Session, process: u64, memory: &mut DeadMemory) {
        let Some([mut entry, offset, pending]) = memory.three_words(self.head) else { return };
        let mut entries = Vec::new();
        while entry & !1 != self.head && entry != 0 && entries.len() < ROBUST_MOST {
            entries.push(entry & !1);
            let Some(next) = memory.word(entry & !1) else { break };
            entry = next;
        }
        if pending != 0 {
            entries.push(pending & !1);
        }
        for entry in entries {
            let address = entry.wrapping_add(offset);
            let Some((word, old)) = memory.change(address, |old| left_by(self.owner, old)) else { continue };
            if old & linux::FUTEX_WAITERS != 0 {
                session.state.lock().wake_one(process, word);
            }
        }
    }
}

/// The memory of a dead process, through its page tables.
#[derive(Debug)]
pub(super) struct DeadMemory {
    key: KeyIndex,
    root: Window,
    /// The table of the last page that was looked up, and the first address of it.
    last: Option<(u64, Window)>,
}

impl DeadMemory {
    /// That below a root, which stays as long as it is looked at.
    pub(super) fn open(root: PageNumber, key: KeyIndex) -> Option<Self> {
        let root = Window::open(&[root], key, Access::READ).ok()?;
        Some(Self { key, root, last: None })
    }

    /// The entry of a page, if there is one.
    fn entry(&mut self, address: u64) -> Option<u64> {
        usercopy::check(address, 8).ok()?;
        let (base, at) = (address >> 21, |level: u32| (address >> (12 + 9 * level)) as usize % 512);
        let is_leaf = |entry: &u64| entry & PRESENT != 0;
        if self.last.as_ref().is_none_or(|(known, _)| *known != base) {
            let mut entry = self.root.words()[at(UPPERMOST)].load(Acquire);
            let mut table = None;
            for level in (0..UPPERMOST).rev() {
                if entry & PRESENT == 0 || entry & LARGE != 0 {
                    return None;
                }
                let next = Window::open(&[PageNumber(page_of(entry))], self.key, Access::READ).ok()?;
                entry = next.words()[at(level)].load(Acquire);
                table = Some(next);
            }
            self.last = table.map(|table| (base, table));
        }
        let (_, table) = self.last.as_ref()?;
        Some(table.words()[at(0)].load(Acquire)).filter(is_leaf)
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        let page = PageNumber(page_of(self.entry(address).filter(|_| address.is_multiple_of(8))?));
        let window = Window::open(&[page], self.key, Access::READ).ok()?;
        Some(place(&window, address).load(Acquire))
    }

    fn three_words(&mut self, address: u64) -> Option<[u64; 3]> {
        let mut at = |index: u64| self.word(address.checked_add(index * 8)?);
        Some([at(0)?, at(1)?, at(2)?])
    }

    /// Changes a word of 32 bits that the process could write: its name as a futex, and what it was.
    fn change(&mut self, address: u64, new: impl Fn(u32) -> Option<u32>) -> Option<(u64, u32)> {
        let entry = self.entry(address).filter(|entry| entry & WRITE != 0 && address.is_multiple_of(4))?;
        let window = Window::open(&[PageNumber(page_of(entry))], self.key, Access::WRITE).ok()?;
        let shift = address % 8 * 8;
        let half = |word: u64| (word >> shift) as u32;
        let changed = |word: u64| Some(word & !(0xffff_ffff << shift) | u64::from(new(half(word))?) << shift);
        let old = place(&window, address).fetch_update(SeqCst, Acquire, changed).ok()?;
        Some((page_of(entry) * PAGE_SIZE + address % PAGE_SIZE, half(old)))
    }
}

fn place(window: &Window, address: u64) -> &AtomicU64 {
    &window.words()[(address % PAGE_SIZE / 8) as usize]
}
