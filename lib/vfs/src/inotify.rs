//! Watches on nodes (inotify(7)): which instances asked for events of which nodes, and the events that wait to be
//! read.
//!
//! Pure. The tree records events where it changes; its keeper adds those of opening and closing. An instance is known
//! by the number of a node that its descriptors hold, and goes with it. Where no node is watched, recording an event
//! costs one comparison.

use crate::file_data::PageStorage;
use crate::inode::{Inode, NodeId};
use crate::namespace::FileTree;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Bytes of `struct inotify_event` before the name: watch, mask, cookie, length of the name.
const HEAD: usize = 16;
/// Events that wait in an instance at most, as on Linux; the next one is `IN_Q_OVERFLOW`.
pub const MOST_EVENTS: usize = 16_384;
/// Watches of an instance at most.
pub const MOST_WATCHES: usize = 65_536;
/// Bits that say how a watch behaves.
const BEHAVIOUR: u32 = linux::IN_EXCL_UNLINK | linux::IN_ONESHOT;

/// One inotify watch of a node.
#[derive(Clone, Copy, Debug)]
struct Watch {
    number: i32,
    mask: u32,
}

/// An event that waits to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    number: i32,
    mask: u32,
    cookie: u32,
    name: Vec<u8>,
}

#[derive(Debug, Default)]
struct Instance {
    /// The number that a watch got last.
    last: i32,
    watches: BTreeMap<NodeId, Watch>,
    events: VecDeque<Event>,
}

/// All instances, and the watchers of each node.
#[derive(Debug, Default)]
pub struct Watches {
    instances: BTreeMap<NodeId, Instance>,
    watchers: BTreeMap<NodeId, BTreeSet<NodeId>>,
    cookie: u32,
    has_news: bool,
}

impl Event {
    /// Bytes of it, with the name in whole multiples of the head, ended by zeros.
    fn bytes(&self) -> usize {
        if self.name.is_empty() { HEAD } else { HEAD + (self.name.len() + 1).next_multiple_of(HEAD) }
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + self.bytes();
        let words = [self.number as u32, self.mask, self.cookie, (self.bytes() - HEAD) as u32];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend_from_slice(&self.name);
        bytes.resize(end, 0);
    }
}

impl Instance {
    /// An event like the one before it is the same one.
    fn add(&mut self, event: Event) {
        if event.mask & linux::IN_IGNORED == 0 && self.events.back() == Some(&event) {
            return;
        }
        match self.events.len() {
            MOST_EVENTS.. => {}
            few if few == MOST_EVENTS - 1 => {
                self.events.push_back(Event { number: -1, mask: linux::IN_Q_OVERFLOW, cookie: 0, name: Vec::new() });
            }
            _ => self.events.push_back(event),
        }
    }

    fn ignore(&mut self, number: i32) {
        self.add(Event { number, mask: linux::IN_IGNORED, cookie: 0, name: Vec::new() });
    }
}

impl Watches {
    /// A new instance.
    pub fn create(&mut self, instance: NodeId) {
        self.instances.insert(instance, Instance::default());
    }

    /// Destroys an instance without holders.
    pub fn destroy(&mut self, instance: NodeId) {
        for node in self.instances.remove(&instance).into_iter().flat_map(|gone| gone.watches.into_keys()) {
            self.forget(instance, node);
        }
    }

    /// How many instances there are.
    pub fn count(&self) -> u64 {
        self.instances.len() as u64
    }

    /// Whether nothing is watched.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Whether any instance watches a node.
    pub fn is_watched(&self, node: NodeId) -> bool {
        !self.watchers.is_empty() && self.watchers.contains_key(&node)
    }

    /// Watches a node, or changes what a watch waits for; the watch's number.
    ///
    /// # Errors
    /// What inotify_add_watch(2) says of masks and of too many watches; `EINVAL` for an instance that is none.
    pub fn add(&mut self, instance: NodeId, node: NodeId, mask: u32) -> Result<i32> {
        let watcher = self.instances.get_mut(&instance).ok_or(Errno::EINVAL)?;
        let (adds, creates) = (mask & linux::IN_MASK_ADD != 0, mask & linux::IN_MASK_CREATE != 0);
        if mask & linux::IN_ALL_EVENTS == 0 || adds && creates {
            return Err(Errno::EINVAL);
        }
        let kept = mask & (linux::IN_ALL_EVENTS | BEHAVIOUR) | linux::IN_UNMOUNT;
        if let Some(watch) = watcher.watches.get_mut(&node) {
            if creates {
                return Err(Errno::EEXIST);
            }
            watch.mask = if adds { watch.mask | kept } else { kept };
            return Ok(watch.number);
        }
        if watcher.watches.len() >= MOST_WATCHES {
            return Err(Errno::ENOSPC);
        }
        watcher.last = watcher.last.checked_add(1).ok_or(Errno::ENOSPC)?;
        watcher.watches.insert(node, Watch { number: watcher.last, mask: kept });
        self.watchers.entry(node).or_default().insert(instance);
        Ok(watcher.last)
    }

    /// Takes a watch away by its number.
    ///
    /// # Errors
    /// `EINVAL` for one that is not there.
    pub fn remove(&mut self, instance: NodeId, number: i32) -> Result<()> {
        let watcher = self.instances.get_mut(&instance).ok_or(Errno::EINVAL)?;
        let found = watcher.watches.iter().find(|(_, watch)| watch.number == number);
        let node = *found.ok_or(Errno::EINVAL)?.0;
        watcher.watches.remove(&node);
        watcher.ignore(number);
        self.has_news = true;
        self.forget(instance, node);
        Ok(())
    }

    fn forget(&mut self, instance: NodeId, node: NodeId) {
        if let Some(watchers) = self.watchers.get_mut(&node) {
            watchers.remove(&instance);
            if watchers.is_empty() {
                self.watchers.remove(&node);
            }
        }
    }

    /// Something happened to a node, or to what has this name in it.
    pub fn note(&mut self, node: NodeId, event: u32, cookie: u32, name: &[u8]) {
        if !self.is_watched(node) {
            return;
        }
        for instance in self.watchers[&node].clone() {
            let Some(watcher) = self.instances.get_mut(&instance) else { continue };
            let Some(watch) = watcher.watches.get(&node).copied() else { continue };
            if watch.mask & event & (linux::IN_ALL_EVENTS | linux::IN_UNMOUNT) == 0 {
                continue;
            }
            self.has_news = true;
            watcher.add(Event { number: watch.number, mask: event, cookie, name: name.to_vec() });
            if watch.mask & linux::IN_ONESHOT != 0 {
                watcher.ignore(watch.number);
                watcher.watches.remove(&node);
                self.forget(instance, node);
            }
        }
    }

    /// A node is gone, as `event` says, and so are the watches on it.
    pub fn note_gone(&mut self, node: NodeId, event: u32) {
        self.note(node, event, 0, b"");
        for instance in self.watchers.remove(&node).unwrap_or_default() {
            let Some(watcher) = self.instances.get_mut(&instance) else { continue };
            if let Some(watch) = watcher.watches.remove(&node) {
                watcher.ignore(watch.number);
                self.has_news = true;
            }
        }
    }

    /// A number that ties the two events of a move together.
    pub const fn next_cookie(&mut self) -> u32 {
        self.cookie = self.cookie.wrapping_add(1);
        self.cookie
    }

    /// Takes events out as bytes, as many as there is room for.
    ///
    /// # Errors
    /// `EINVAL` where there is no room for the first.
    pub fn take(&mut self, instance: NodeId, room: usize) -> Result<Vec<u8>> {
        let events = &mut self.instances.get_mut(&instance).ok_or(Errno::EINVAL)?.events;
        let mut bytes = Vec::new();
        while let Some(event) = events.front() {
            if bytes.len() + event.bytes() > room {
                break;
            }
            event.append_to(&mut bytes);
            events.pop_front();
        }
        if bytes.is_empty() && !events.is_empty() { Err(Errno::EINVAL) } else { Ok(bytes) }
    }

    /// Bytes of the events that wait.
    pub fn waiting(&self, instance: NodeId) -> usize {
        self.instances.get(&instance).map_or(0, |found| found.events.iter().map(Event::bytes).sum())
    }

    /// Whether events came since this was asked last.
    pub const fn take_news(&mut self) -> bool {
        core::mem::replace(&mut self.has_news, false)
    }
}

impl<S: PageStorage> FileTree<S> {
    /// Something happened to a node: the watchers of the directory of its name are told first.
    pub fn note_event(&mut self, id: NodeId, event: u32) {
        if self.watches.watchers.is_empty() {
            return;
        }
        let Some(node) = self.nodes.get(&id) else { return };
        let event = event | directory_bit(node.is_directory());
        let above = node.directory_of_name();
        if above != id && self.watches.is_watched(above) {
            if let Some(name) = self.nodes.get(&above).and_then(|directory| directory.name_of(id)).map(<[u8]>::to_vec) {
                self.watches.note(above, event, 0, &name);
            }
        }
        self.watches.note(id, event, 0, b"");
    }

    /// A node has another name.
    pub(crate) fn note_move(&mut self, id: NodeId, (from, from_name): (NodeId, &[u8]), (to, to_name): (NodeId, &[u8])) {
        let directory = directory_bit(self.nodes.get(&id).is_some_and(Inode::is_directory));
        let cookie = self.watches.next_cookie();
        self.watches.note(from, linux::IN_MOVED_FROM | directory, cookie, from_name);
        self.watches.note(to, linux::IN_MOVED_TO | directory, cookie, to_name);
        self.watches.note(id, linux::IN_MOVE_SELF, 0, b"");
    }
}

/// What an event about a directory bears.
pub(crate) const fn directory_bit(is_directory: bool) -> u32 {
    if is_directory { linux::IN_ISDIR } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(bytes: &[u8]) -> Vec<u32> {
        let mut masks = Vec::new();
        let mut rest = bytes;
        while let Some(([_, mask, _, length], names)) = rest.split_at_checked(HEAD).map(|(head, names)| {
            let word = |place: usize| u32::from_le_bytes(head[place * 4..][..4].try_into().unwrap_or_default());
            ([word(0), word(1), word(2), word(3)], names)
        }) {
            masks.push(mask);
            rest = &names[length as usize..];
        }
        masks
    }

    #[test]
    fn what_waits_is_told_once_and_no_more_than_there_is_room_for() {
        let mut watches = Watches::default();
        watches.create(9);
        assert_eq!(watches.add(9, 5, linux::IN_MODIFY | linux::IN_CREATE), Ok(1));
        for name in [&b"a"[..], b"a", b"a name of twenty bytes"] {
            watches.note(5, linux::IN_CREATE, 0, name);
        }
        watches.note(5, linux::IN_ATTRIB, 0, b"");
        assert!(watches.take_news() && !watches.take_news());
        assert_eq!(watches.waiting(9), 32 + 48);
        assert_eq!(watches.take(9, 31), Err(Errno::EINVAL));
        assert_eq!(watches.take(9, 79).map(|bytes| masks(&bytes)), Ok([linux::IN_CREATE].into()));
        assert_eq!(watches.take(9, 79).map(|bytes| bytes.len()), Ok(48));
        watches.destroy(9);
        assert!(!watches.is_watched(5));
        assert_eq!(watches.take(9, 79), Err(Errno::EINVAL));
    }

    #[test]
    fn a_full_queue_says_so_at_its_end() {
        let mut watches = Watches::default();
        watches.create(9);
        assert_eq!(watches.add(9, 5, linux::IN_ALL_EVENTS), Ok(1));
        for turn in 0..MOST_EVENTS + 10 {
            watches.note(5, [linux::IN_MODIFY, linux::IN_ATTRIB][turn % 2], 0, b"");
        }
        let told = watches.take(9, usize::MAX).map(|bytes| masks(&bytes)).unwrap_or_default();
        assert_eq!((told.len(), told.last()), (MOST_EVENTS, Some(&linux::IN_Q_OVERFLOW)));
    }
}
