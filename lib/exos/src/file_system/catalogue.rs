//! What the guardian shows of names and nodes: a cache in pages that every process may read, so that finding a file and
//! telling what it is needs nobody's help (exposed structure, xok-exos-sosp97 §3).
//!
//! Pure, over words. Three tables of entries that are found by a hash: what a name in a directory leads to, or that it leads
//! nowhere; what `stat` tells of a node; and where a symbolic link leads, which never changes. Only what everybody may see is shown: names in directories that all may read and
//! search, as are all directories above them. The guardian takes an entry out before it answers whoever changed what the
//! entry tells; what is not there is asked for, as ever. There is one writer. An entry begins with a sequence number, odd
//! while it is written: a reader that meets a change finds nothing. A reader trusts nothing but the guardian, whose pages
//! nobody else can write.

use super::node::{NodeId, Status};
use super::tree::ROOT;
use crate::errno::Errno;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};
use linux_raw_sys::general::{S_IFDIR, S_IFLNK, S_IFMT};

/// Bytes of the longest name that is shown.
pub const NAME_BYTES: usize = 32;
/// Pages that the tables take.
pub const PAGES: usize = 18;

const NAMES: usize = 512;
/// Sequence, directory, node (0: there is none), length, bytes.
const NAME_WORDS: usize = 4 + NAME_BYTES / 8;
const NODES: usize = 256;
/// Sequence, then the words of a [`Status`].
const NODE_WORDS: usize = 16;
const LINKS: usize = 64;
/// Sequence, node, length, bytes.
const LINK_WORDS: usize = 16;
/// Bytes of the longest target of a symbolic link that is shown.
pub const TARGET_BYTES: usize = (LINK_WORDS - 3) * 8;
/// Words of the tables.
pub const WORDS: usize = NAMES * NAME_WORDS + NODES * NODE_WORDS + LINKS * LINK_WORDS;

const _: () = assert!(WORDS * 8 == PAGES * 4096 && Status::WORDS < NODE_WORDS);

/// A name, ready to be compared: its length, and its bytes with zeros behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    directory: NodeId,
    length: u64,
    bytes: [u64; NAME_BYTES / 8],
}

impl Key {
    #[inline]
    fn of(directory: NodeId, name: &[u8]) -> Option<Self> {
        if name.len() > NAME_BYTES {
            return None;
        }
        let mut bytes = [0; NAME_BYTES / 8];
        for (index, word) in bytes.iter_mut().enumerate() {
            *word = word_of(name.get(index * 8..).unwrap_or_default());
        }
        Some(Self { directory, length: name.len() as u64, bytes })
    }

    fn slot(&self) -> usize {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let folded = self
            .bytes
            .iter()
            .fold(self.directory ^ self.length << 56, |all, word| (all ^ word).wrapping_mul(SPREAD).rotate_left(29));
        (folded % NAMES as u64) as usize
    }

    const fn words(&self, node: NodeId) -> [u64; NAME_WORDS - 1] {
        let [a, b, c, d] = self.bytes;
        [self.directory, node, self.length, a, b, c, d]
    }
}

/// The first eight bytes as a word, with zeros behind fewer.
#[inline]
pub fn word_of(bytes: &[u8]) -> u64 {
    if let Some(all) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*all);
    }
    // Two pieces that may overlap are all of it.
    let shift = |piece: usize| (bytes.len() - piece) * 8;
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift(4);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        return u64::from(u16::from_le_bytes(*first)) | u64::from(u16::from_le_bytes(*last)) << shift(2);
    }
    bytes.first().map_or(0, |byte| u64::from(*byte))
}

/// The tables.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue<'a>(&'a [AtomicU64]);

impl<'a> Catalogue<'a> {
    /// In these words, at least [`WORDS`].
    pub fn new(words: &'a [AtomicU64]) -> Self {
        assert!(words.len() >= WORDS, "too few words for the catalogue");
        Self(words)
    }

    /// What a name in a directory leads to, if that is shown; `Some(0)`: nowhere.
    pub fn name(self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        let key = Key::of(directory, name)?;
        let (_, found): (_, [u64; NAME_WORDS - 1]) = read(self.name_entry(key.slot()))?;
        let wanted = key.words(found[1]);
        let differ = found.iter().zip(wanted).fold(0, |differ, (found, wanted)| differ | (found ^ wanted));
        (differ == 0).then_some(found[1])
    }

    /// What a path from a node leads to, where all of the way is shown and `may` search each directory on it; `ENOENT` where
    /// it is shown that there is nothing. Of the last name a symbolic link is what was asked for without `follow`.
    pub fn find(
        self,
        from: NodeId,
        path: &[u8],
        follow: bool,
        may: impl Fn(&Status) -> bool,
    ) -> Option<Result<Status, Errno>> {
        self.find_through(from, path, follow, &may, 0)
    }

    fn find_through(
        self,
        from: NodeId,
        path: &[u8],
        follow: bool,
        may: &impl Fn(&Status) -> bool,
        links: u32,
    ) -> Option<Result<Status, Errno>> {
        let (start, rest) = path.strip_prefix(b"/").map_or((from, path), |rest| (ROOT, rest));
        let mut at = self.node(start)?;
        let mut names = rest.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            if at.kind() != S_IFDIR || !may(&at) || matches!(name, b"" | b"..") {
                return None;
            }
            let found = match self.name(at.node, name) {
                _ if name == b"." => at,
                Some(0) => return Some(Err(Errno::ENOENT)),
                found => self.node(found?)?,
            };
            if found.kind() == S_IFLNK && (follow || names.peek().is_some()) {
                let (target, length) = self.target(found.node).filter(|_| links < MOST_LINKS)?;
                match self.find_through(at.node, &target[..length], true, may, links + 1)? {
                    Ok(end) => at = end,
                    Err(error) => return Some(Err(error)),
                }
            } else {
                at = found;
            }
        }
        Some(Ok(at))
    }

    /// Where a symbolic link leads, if that is shown: bytes, and how many they are.
    pub fn target(self, id: NodeId) -> Option<([u8; TARGET_BYTES], usize)> {
        let (_, [node, length, words @ ..]): (_, [u64; LINK_WORDS - 1]) = read(self.link_entry(id))?;
        let mut bytes = [0; TARGET_BYTES];
        for (some, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *some = word.to_le_bytes();
        }
        (node == id && id != 0).then_some((bytes, (length as usize).min(TARGET_BYTES)))
    }

    /// Shows where a symbolic link leads, if that is short enough.
    pub fn show_target(self, id: NodeId, target: &[u8]) {
        if target.len() > TARGET_BYTES {
            return;
        }
        let mut words = [0; LINK_WORDS - 1];
        (words[0], words[1]) = (id, target.len() as u64);
        for (word, some) in words[2..].iter_mut().zip(target.chunks(8)) {
            *word = word_of(some);
        }
        write(self.link_entry(id), &words);
    }

    /// What `stat` tells of a node, if that is shown.
    pub fn node(self, id: NodeId) -> Option<Status> {
        self.stamped(id).map(|(_, status)| status)
    }

    /// The same, with a number that is another one as soon as any of it has changed.
    pub fn stamped(self, id: NodeId) -> Option<(u64, Status)> {
        let (sequence, words) = read(self.node_entry(id))?;
        let status = Status::from_words(words);
        (status.node == id && id != 0).then_some((sequence, status))
    }

    /// What kind of node it is, if it is shown what `stat` tells of it.
    pub fn kind(self, id: NodeId) -> Option<u32> {
        let (_, [node, mode_links]) = read(self.node_entry(id))?;
        (node == id).then_some(mode_links as u32 & S_IFMT)
    }

    /// Shows where a name leads; 0: nowhere.
    pub fn show_name(self, directory: NodeId, name: &[u8], node: NodeId) {
        if let Some(key) = Key::of(directory, name) {
            write(self.name_entry(key.slot()), &key.words(node));
        }
    }

    /// Shows what a node is.
    pub fn show_node(self, status: &Status) {
        write(self.node_entry(status.node), &status.to_words());
    }

    /// Shows when a node was read last, if it is shown.
    pub fn show_accessed(self, id: NodeId, accessed: u64) {
        let entry = self.node_entry(id);
        if entry[1].load(Relaxed) == id {
            let before = entry[0].load(Relaxed);
            entry[0].store(before | 1, Relaxed);
            fence(Release);
            entry[1 + Status::ACCESSED].store(accessed, Relaxed);
            entry[0].store((before | 1).wrapping_add(1), Release);
        }
    }

    /// Shows nothing of a node.
    pub fn hide_node(self, id: NodeId) {
        let entry = self.node_entry(id);
        if entry[1].load(Relaxed) == id {
            hide(entry);
        }
    }

    /// Shows nothing at all.
    fn hide_all(self) {
        (0..NAMES).for_each(|slot| hide(self.name_entry(slot)));
        (0..NODES as u64).for_each(|slot| hide(self.node_entry(slot)));
        (0..LINKS as u64).for_each(|slot| hide(self.link_entry(slot)));
    }

    fn name_entry(self, slot: usize) -> &'a [AtomicU64] {
        &self.0[slot * NAME_WORDS..][..NAME_WORDS]
    }

    fn node_entry(self, id: NodeId) -> &'a [AtomicU64] {
        let slot = (id % NODES as u64) as usize;
        &self.0[NAMES * NAME_WORDS + slot * NODE_WORDS..][..NODE_WORDS]
    }

    fn link_entry(self, id: NodeId) -> &'a [AtomicU64] {
        let slot = (id % LINKS as u64) as usize;
        &self.0[NAMES * NAME_WORDS + NODES * NODE_WORDS + slot * LINK_WORDS..][..LINK_WORDS]
    }
}

/// Symbolic links that are followed one within the other: who meets more asks.
const MOST_LINKS: u32 = 4;

/// The sequence number and the words of an entry, unless it is being written.
#[inline]
fn read<const COUNT: usize>(entry: &[AtomicU64]) -> Option<(u64, [u64; COUNT])> {
    let before = entry[0].load(Acquire);
    let mut words = [0; COUNT];
    for (word, from) in words.iter_mut().zip(&entry[1..]) {
        *word = from.load(Relaxed);
    }
    fence(Acquire);
    (before % 2 == 0 && entry[0].load(Relaxed) == before).then_some((before, words))
}

fn write(entry: &[AtomicU64], words: &[u64]) {
    let before = entry[0].load(Relaxed);
    entry[0].store(before | 1, Relaxed);
    fence(Release);
    for (to, word) in entry[1..].iter().zip(words) {
        to.store(*word, Relaxed);
    }
    entry[0].store((before | 1).wrapping_add(1), Release);
}

/// No directory and no node bears the number 0.
fn hide(entry: &[AtomicU64]) {
    write(entry, &[0]);
}

/// What a message changed of what may be shown: gathered while it is served, and taken out of the catalogue before it is
/// answered.
#[derive(Debug, Default)]
pub struct Changes {
    nodes: Few,
    /// Nodes whose contents changed, and nothing that decides who may see them.
    contents: Few,
    /// Nodes that were read.
    read: Few,
    /// Places of names.
    names: Few,
    everything: bool,
}

/// A few different numbers.
#[derive(Debug, Default)]
struct Few {
    numbers: [u64; Self::MOST],
    count: usize,
}

impl Few {
    /// More than a message usually changes.
    const MOST: usize = 8;

    fn all(&self) -> &[u64] {
        &self.numbers[..self.count]
    }

    /// Adds one; says whether there was room.
    fn add(&mut self, number: u64) -> bool {
        if self.all().contains(&number) {
            return true;
        }
        let Some(place) = self.numbers.get_mut(self.count) else { return false };
        *place = number;
        self.count += 1;
        true
    }
}

impl Changes {
    /// A node changed.
    pub fn note(&mut self, id: NodeId) {
        self.everything |= !self.nodes.add(id);
    }

    /// The contents of a node changed, its size and its times.
    pub fn note_contents(&mut self, id: NodeId) {
        self.everything |= !self.contents.add(id);
    }

    /// A node was read.
    pub fn note_read(&mut self, id: NodeId) {
        self.everything |= !self.read.add(id);
    }

    /// Nodes of which the contents changed.
    pub fn contents(&self) -> &[NodeId] {
        self.contents.all()
    }

    /// Nodes that were read.
    pub fn read(&self) -> &[NodeId] {
        self.read.all()
    }

    /// A name in a directory leads elsewhere than before.
    pub fn note_name(&mut self, directory: NodeId, name: &[u8]) {
        let slot = Key::of(directory, name).map(|key| key.slot() as u64);
        self.everything |= slot.is_some_and(|slot| !self.names.add(slot));
    }

    /// What may be shown changed in a way that concerns many.
    pub const fn note_everything(&mut self) {
        self.everything = true;
    }

    /// Whether nothing changed.
    pub const fn is_empty(&self) -> bool {
        let noted = self.nodes.count | self.contents.count | self.read.count | self.names.count;
        noted == 0 && !self.everything
    }

    /// Takes out of a catalogue what is to be seen no more, and begins again. What only changed its contents is the tree's to
    /// show first.
    pub fn carry_out(&mut self, catalogue: Catalogue<'_>) {
        if self.everything {
            catalogue.hide_all();
        } else {
            self.nodes.all().iter().for_each(|id| catalogue.hide_node(*id));
            self.names.all().iter().for_each(|slot| hide(catalogue.name_entry(*slot as usize)));
        }
        (self.nodes.count, self.names.count, self.everything) = (0, 0, false);
        (self.contents.count, self.read.count) = (0, 0);
    }
}
