//! Locks on files: record locks (fcntl(2), of a process or of an open description) and whole-file locks (flock(2)).
//!
//! Pure. Invariants: no two locks of different owners that meet overlap, unless both are shared; an owner's locks on
//! a node do not overlap.

use crate::inode::NodeId;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A process: `F_SETLK`.
    Process(u64),
    /// An open description: `F_OFD_SETLK`.
    Description(u64),
    /// An open description, by `flock`; these meet only each other.
    Whole(u64),
}

impl Owner {
    const fn meets(self, other: Self) -> bool {
        matches!(self, Self::Whole(_)) == matches!(other, Self::Whole(_))
    }
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Its holder.
    pub owner: Owner,
    /// No other owner may have one there.
    pub exclusive: bool,
    /// First byte.
    pub start: u64,
    /// Last byte; `u64::MAX`: to the end, wherever it is.
    pub last: u64,
    /// The process that took it.
    pub taker: u64,
}

impl Lock {
    const fn overlaps(&self, start: u64, last: u64) -> bool {
        self.start <= last && start <= self.last
    }

    /// As `/proc/locks` has it, behind its number; `volume` is where the node lies.
    fn line(&self, node: NodeId, volume: u32) -> String {
        let kind = match self.owner {
            Owner::Process(_) => "POSIX ",
            Owner::Description(_) => "OFDLCK",
            Owner::Whole(_) => "FLOCK ",
        };
        let access = if self.exclusive { "WRITE" } else { "READ" };
        let taker = if matches!(self.owner, Owner::Description(_)) { -1 } else { self.taker as i64 };
        let last = if self.last >= LAST_OFFSET { String::from("EOF") } else { format!("{}", self.last) };
        format!("{kind} ADVISORY  {access} {taker} 00:{volume:02x}:{node} {} {last}\n", self.start)
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.owner != other.owner
            && self.owner.meets(other.owner)
            && (self.exclusive || other.exclusive)
            && self.overlaps(other.start, other.last)
    }
}

/// The last byte that a file can have: a lock up to there goes to the end.
const LAST_OFFSET: u64 = i64::MAX as u64;

/// All locks of a file system, and which owner waits for which.
#[derive(Debug, Default)]
pub struct Locks {
    held: BTreeMap<NodeId, Vec<Lock>>,
    waiting: BTreeMap<Owner, (NodeId, Lock)>,
}

impl Locks {
    /// The first lock that stands in the way of this one, as they lie in the file.
    pub fn conflict(&self, node: NodeId, wanted: &Lock) -> Option<Lock> {
        self.held.get(&node)?.iter().filter(|held| held.conflicts(wanted)).min_by_key(|held| held.start).copied()
    }

    /// Takes a lock in place of what its owner had there; the error is what stands in the way.
    pub fn set(&mut self, node: NodeId, wanted: Lock) -> core::result::Result<(), Lock> {
        if let Some(conflict) = self.conflict(node, &wanted) {
            return Err(conflict);
        }
        self.waiting.remove(&wanted.owner);
        self.clear(node, wanted.owner, wanted.start, wanted.last);
        let held = self.held.entry(node).or_default();
        let mut whole = wanted;
        // Neighbours that could be one are one.
        held.retain(|lock| {
            let touches =
                lock.last.checked_add(1) == Some(whole.start) || whole.last.checked_add(1) == Some(lock.start);
            let joins = touches && lock.owner == whole.owner && lock.exclusive == whole.exclusive;
            if joins {
                (whole.start, whole.last) = (whole.start.min(lock.start), whole.last.max(lock.last));
            }
            !joins
        });
        held.push(whole);
        Ok(())
    }

    /// Gives up what an owner has in a range; whether that was anything.
    pub fn clear(&mut self, node: NodeId, owner: Owner, start: u64, last: u64) -> bool {
        let Some(held) = self.held.get_mut(&node) else { return false };
        let (gone, mut kept): (Vec<Lock>, Vec<Lock>) =
            held.iter().partition(|lock| lock.owner == owner && lock.overlaps(start, last));
        for lock in &gone {
            if lock.start < start {
                kept.push(Lock { last: start - 1, ..*lock });
            }
            if lock.last > last {
                kept.push(Lock { start: last + 1, ..*lock });
            }
        }
        if kept.is_empty() {
            self.held.remove(&node);
        } else {
            *held = kept;
        }
        !gone.is_empty()
    }

    /// Gives up everything that an owner has; whether that was anything.
    pub fn forget(&mut self, owner: Owner) -> bool {
        self.waiting.remove(&owner);
        let nodes: Vec<NodeId> = self.held.keys().copied().collect();
        nodes.into_iter().fold(false, |any, node| self.clear(node, owner, 0, u64::MAX) | any)
    }

    /// Gives up every lock on a node that no process has open any more.
    pub fn forget_node(&mut self, node: NodeId) {
        self.held.remove(&node);
    }

    /// Records the owner of a wanted lock as waiting; `EDEADLK` where it would wait for itself.
    pub fn wait(&mut self, node: NodeId, wanted: Lock) -> Result<()> {
        let mut seen = Vec::new();
        let mut ahead = self.blockers(node, &wanted);
        while let Some(owner) = ahead.pop() {
            if owner == wanted.owner {
                return Err(Errno::EDEADLK);
            }
            if !seen.contains(&owner) {
                seen.push(owner);
                ahead.extend(
                    self.waiting.get(&owner).map(|(node, lock)| self.blockers(*node, lock)).unwrap_or_default(),
                );
            }
        }
        self.waiting.insert(wanted.owner, (node, wanted));
        Ok(())
    }

    /// Records that an owner waits no more.
    pub fn stop_waiting(&mut self, owner: Owner) {
        self.waiting.remove(&owner);
    }

    /// The lines of `/proc/locks`: each lock, and behind it its waiters; `volume` tells where a node lies.
    pub fn lines(&self, volume: impl Fn(NodeId) -> u32) -> Vec<String> {
        let held = self.held.iter().flat_map(|(node, held)| held.iter().map(move |lock| (*node, lock)));
        let mut lines = Vec::new();
        for (number, (node, lock)) in (1..).zip(held) {
            lines.push(format!("{number}: {}", lock.line(node, volume(node))));
            let waits = |waiting: &&(NodeId, Lock)| waiting.0 == node && lock.conflicts(&waiting.1);
            let waiting = self.waiting.values().filter(waits);
            lines.extend(waiting.map(|(node, one)| format!("{number}: -> {}", one.line(*node, volume(*node)))));
        }
        lines
    }

    /// How many locks there are.
    pub fn count(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }

    fn blockers(&self, node: NodeId, wanted: &Lock) -> Vec<Owner> {
        let held = self.held.get(&node).map(Vec::as_slice).unwrap_or_default();
        held.iter().filter(|lock| lock.conflicts(wanted)).map(|lock| lock.owner).collect()
    }
}
