//! Trees: persistent, unattached and temporary (SOSP 1997, section 4.3.2).
//!
//! A block bears the number of the tree in which it was bound. Attaching one tree to another sets `forward`, so no
//! block is visited.

/// How a tree stands to the roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The record is unused.
    #[default]
    None,
    /// Reachable from a root of the catalogue.
    Attached,
    /// Not reachable from a root, neither in core nor on disk.
    Unattached,
    /// As unattached, and never to be attached.
    Temporary,
    /// Was a root; the catalogue on disk may still name it, until it is durable after write `since`.
    Detached {
        /// Sequence number of the last write that completed before the removal.
        since: u64,
    },
    /// Part of another tree.
    Forward(u16),
}

/// A tree record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// How it stands to the roots.
    pub standing: Standing,
    /// Template of the root block, whose access program guards the tree.
    pub template: u8,
    /// Root block.
    pub root: u64,
}

/// The tree records.
pub struct Trees<'a>(pub &'a mut [Tree]);

impl Trees<'_> {
    /// The tree that `number` is part of now. Follows at most as many steps as there are records.
    pub fn resolve(&self, number: u16) -> u16 {
        let mut number = number;
        for _ in 0..self.0.len() {
            match self.0.get(usize::from(number)).map(|tree| tree.standing) {
                Some(Standing::Forward(next)) => number = next,
                _ => break,
            }
        }
        number
    }

    /// The record that `number` resolves to.
    pub fn get(&self, number: u16) -> Tree {
        self.0.get(usize::from(self.resolve(number))).copied().unwrap_or_default()
    }

    /// An unused record.
    pub fn unused(&self) -> Option<u16> {
        self.0.iter().position(|tree| tree.standing == Standing::None).map(|index| index as u16)
    }
}
