//! What a process has of System V objects: the segments that it has attached, and whether semaphores owe it something
//! back.

use alloc::vec::Vec;
use vm::vma::{Vma, VmaList};

/// A segment in the memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Where it begins.
    pub address: u64,
    /// Where it ends: the first address after it.
    pub end: u64,
    /// The node that it shows, which each attachment holds.
    pub node: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Segments; children inherit them, `execve` detaches them.
    pub attached: Vec<Attachment>,
    /// Whether it asked for semaphores to be put back when it ends.
    pub undoes: bool,
}

impl Attachment {
    fn covers(&self, area: &Vma) -> bool {
        area.node() == Some(self.node) && self.address < area.end && area.start < self.end
    }
}

impl Holdings {
    /// Follows what became of segments by other calls than those on them (munmap(2), mremap(2)). One that was moved
    /// begins elsewhere; of one that is not in memory any more nothing is left. The nodes of these.
    pub fn follow(&mut self, areas: &VmaList) -> Vec<u64> {
        let mut gone = Vec::new();
        for place in (0..self.attached.len()).rev() {
            let one = self.attached[place];
            if areas.iter().any(|area| one.covers(area)) {
                continue;
            }
            let is_others = |area: &Vma| self.attached.iter().any(|other| other.covers(area));
            match areas.iter().find(|area| area.node() == Some(one.node) && !is_others(area)) {
                Some(area) => self.attached[place] = Attachment { address: area.start, end: area.end, ..one },
                None => gone.push(self.attached.remove(place).node),
            }
        }
        gone
    }

    /// A segment is in the place of others: their nodes.
    pub fn replace(&mut self, with: Attachment) -> Vec<u64> {
        let replaced = |one: &mut Attachment| with.address <= one.address && one.end <= with.end;
        let gone = self.attached.extract_if(.., replaced).map(|one| one.node).collect();
        self.attached.push(with);
        gone
    }

    /// Takes out the segment at an address.
    pub fn take(&mut self, address: u64) -> Option<Attachment> {
        let place = self.attached.iter().position(|one| one.address == address)?;
        Some(self.attached.remove(place))
    }
}
