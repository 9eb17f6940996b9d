//! What a child that borrows its parent's memory has changed in it (`vfork`): of each page that it wrote, what was
//! there before.
//!
//! Pure. Only bytes that differ go back, so that what other threads of the parent wrote next to them meanwhile stays.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;

/// The pages that were written, by address.
#[derive(Clone, Debug, Default)]
pub struct WriteLog {
    before: BTreeMap<u64, Vec<u8>>,
}

/// Bytes that are others now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Address of the first.
    pub address: u64,
    /// What is there now.
    pub bytes: Vec<u8>,
}

impl WriteLog {
    /// Whether a page was written before.
    pub fn has(&self, page: u64) -> bool {
        self.before.contains_key(&page)
    }

    /// A page is written for the first time; what is missing at the end of its contents are zeros.
    pub fn note(&mut self, page: u64, mut contents: Vec<u8>) {
        contents.resize(PAGE_SIZE as usize, 0);
        self.before.entry(page).or_insert(contents);
    }

    /// The pages that were written.
    pub fn pages(&self) -> Vec<u64> {
        self.before.keys().copied().collect()
    }

    /// What has changed in a page that holds `now`.
    pub fn changes(&self, page: u64, now: &[u8]) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        let Some(before) = self.before.get(&page) else { return changes };
        for (address, (_, byte)) in (page..).zip(before.iter().zip(now)).filter(|(_, (old, new))| old != new) {
            match changes.last_mut() {
                Some(last) if last.address + last.bytes.len() as u64 == address => last.bytes.push(*byte),
                _ => changes.push(Change { address, bytes: Vec::from([*byte]) }),
            }
        }
        changes
    }
}
