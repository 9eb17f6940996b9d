//! What a process has of System V objects: the segments that it has attached, and whether semaphores owe it something back.

use alloc::vec::Vec;

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

impl Holdings {
    /// Takes out the segment at an address.
    pub fn take(&mut self, address: u64) -> Option<Attachment> {
        let place = self.attached.iter().position(|one| one.address == address)?;
        Some(self.attached.remove(place))
    }
}
