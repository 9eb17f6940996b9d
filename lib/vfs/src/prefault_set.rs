//! Which pages of a file programs touch: those that faults asked for.
//!
//! Pure. A process that maps a file again gets these at once, instead of a fault for each. A page in the set costs a
//! process that does not need it an entry of a table. A page that is not in the set costs a process that needs it a
//! fault, which puts it there. Programs begin more often than sets change, so that what was answered last is kept, in
//! the order of the pages: tables are filled quickest so.

use crate::inode::NodeId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Pages of a file that are remembered.
pub const WORKING_SET: usize = 192;

/// The working sets of files.
#[derive(Clone, Debug, Default)]
pub struct PrefaultSets {
    files: BTreeMap<NodeId, PrefaultPages>,
}

/// That of one file.
#[derive(Clone, Debug, Default)]
struct PrefaultPages {
    /// The latest that was asked for stands last.
    pages: Vec<u32>,
    /// In ascending order: index of each page, and its number in the upper half.
    answer: Vec<u64>,
    /// The count of changes of the file's pages for which that is so.
    holds_for: Option<u64>,
}

impl PrefaultPages {
    /// Whether it is another set by that.
    fn note(&mut self, page: u32) -> bool {
        let before = self.pages.len();
        self.pages.retain(|other| *other != page);
        let is_new = self.pages.len() == before;
        if is_new {
            self.holds_for = None;
        }
        if self.pages.len() == WORKING_SET {
            self.pages.remove(0);
        }
        self.pages.push(page);
        is_new
    }

    fn look_up(&mut self, number: impl Fn(u64) -> Option<u64>) {
        let numbered = |page: &u32| Some(u64::from(*page) | number(u64::from(*page))? << 32);
        self.answer.clear();
        self.answer.extend(self.pages.iter().filter_map(numbered));
        self.answer.sort_unstable_by_key(|word| *word as u32);
    }
}

impl PrefaultSets {
    /// A fault asked for a page. Whether the file's set is another one by that.
    pub fn note(&mut self, file: NodeId, page: u64) -> bool {
        u32::try_from(page).is_ok_and(|page| self.files.entry(file).or_default().note(page))
    }

    /// Those of a file's pages between two that are there, in ascending order: index, and number in the upper half.
    /// `number` tells that of a page, if it is there, and is asked anew when `changes`, a count of what became of the
    /// file's pages, is another.
    pub fn within(
        &mut self,
        file: NodeId,
        (first, end): (u64, u64),
        changes: u64,
        number: impl Fn(u64) -> Option<u64>,
    ) -> &[u64] {
        let Some(set) = self.files.get_mut(&file) else { return &[] };
        if set.holds_for != Some(changes) {
            set.look_up(number);
            set.holds_for = Some(changes);
        }
        let place = |index: u64| set.answer.partition_point(|word| word & 0xffff_ffff < index);
        let (from, to) = (place(first), place(end));
        &set.answer[from..to.max(from)]
    }

    /// Whether programs touch any pages of a file.
    pub fn knows(&self, file: NodeId) -> bool {
        self.files.contains_key(&file)
    }

    /// The file is gone.
    pub fn forget(&mut self, file: NodeId) {
        self.files.remove(&file);
    }
}
