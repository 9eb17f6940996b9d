//! Which pages of a file programs touch: those that faults asked for, the latest last.
//!
//! Pure. Who maps a file again gets these at once, instead of a fault for each. A page that stays in the set costs who does
//! not need it an entry of a table; one that is not in it costs who does a fault, which puts it there.

use super::node::NodeId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Pages of a file that are remembered.
pub const WORKING_SET: usize = 192;

/// The working sets of files.
#[derive(Clone, Debug, Default)]
pub struct WorkingSets {
    files: BTreeMap<NodeId, Vec<u32>>,
}

impl WorkingSets {
    /// A fault asked for a page.
    pub fn note(&mut self, file: NodeId, page: u64) {
        let Ok(page) = u32::try_from(page) else { return };
        let pages = self.files.entry(file).or_default();
        pages.retain(|other| *other != page);
        if pages.len() == WORKING_SET {
            pages.remove(0);
        }
        pages.push(page);
    }

    /// Those of a file's pages between two.
    pub fn within(&self, file: NodeId, first: u64, end: u64) -> impl Iterator<Item = u64> {
        let pages = self.files.get(&file).into_iter().flatten();
        pages.map(|page| u64::from(*page)).filter(move |page| (first..end).contains(page))
    }

    /// The file is gone, or its contents are others.
    pub fn forget(&mut self, file: NodeId) {
        self.files.remove(&file);
    }
}
