//! Walks from a root down to where an address is translated.

use super::link::links;
use super::{ROOT_LEVEL, Slot, index, page_of, span, table};
use crate::memory;
use abi::PageNumber;
use abi::page_table::{LARGE, PRESENT};
use core::sync::atomic::Ordering;

/// Where a walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The slot at the level asked for.
    pub slot: Slot,
    /// The first table on the way that more than one link leads to; everything from it on is immutable.
    pub shared: Option<PageNumber>,
}

/// Why a walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkError {
    /// No table at this level.
    Missing(u8),
    /// A large entry at this level.
    Large(u8),
}

/// Walks from a root to the slot for `address` at `level`.
pub fn walk(root: PageNumber, address: u64, level: u8) -> Result<Walk, WalkError> {
    let mut at = root;
    let mut shared = None;
    for above in (level + 1..=ROOT_LEVEL).rev() {
        let entry = table(at)[index(address, above)].load(Ordering::Relaxed);
        if entry & PRESENT == 0 {
            return Err(WalkError::Missing(above - 1));
        }
        if entry & LARGE != 0 {
            return Err(WalkError::Large(above));
        }
        at = page_of(entry);
        if shared.is_none() && links(memory::info(at).expect("a linked table has a record")) > 1 {
            shared = Some(at);
        }
    }
    Ok(Walk { slot: Slot { table: at, index: index(address, level) }, shared })
}

/// The entry that translates an address under a root, and the bytes that it covers; none where nothing is mapped.
pub fn translate(root: PageNumber, address: u64) -> Option<(u64, u64)> {
    let mut at = root;
    for level in (1..=ROOT_LEVEL).rev() {
        let entry = table(at)[index(address, level)].load(Ordering::Relaxed);
        if entry & PRESENT == 0 {
            return None;
        }
        if level == 1 || entry & LARGE != 0 {
            return Some((entry, span(level)));
        }
        at = page_of(entry);
    }
    None
}
