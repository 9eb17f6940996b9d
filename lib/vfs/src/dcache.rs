//! Dentry cache: names and attributes of nodes, in pages that every process may read (exposed structure,
//! xok-exos-sosp97 §3). With it a process finds a file and its attributes without an RPC.
//!
//! Pure, over words. Three hash tables of entries: what a name in a directory leads to, or that it leads nowhere; what
//! `stat` tells of a node; and where a symbolic link leads. The last never changes. Names lead from place to place: a
//! place is a word of node and mount ([`crate::handle::place_of`]), so that mounts are crossed. Only what all users
//! may see is shown: names in directories that all may read and search, as are all directories above them. The server
//! takes an entry out before it answers the process that changed what the entry tells; a process asks the server for
//! what is not there. The tables of names and nodes are two-way set-associative: a set has two entries, and the writer
//! overwrites them in turn. There is one writer. An entry begins with a sequence number, odd while it is written: a
//! reader that meets a change finds nothing. A reader trusts only the server, whose pages no process else can write.

use crate::handle::{Handle, node_of};
use crate::inode::{Inode, NodeId, OwnerAndMode, Status};
use crate::namespace::ROOT;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};
use linux_abi::errno::Errno;
use linux_raw_sys::general::{S_IFDIR, S_IFLNK, S_IFMT};

/// Bytes of the longest name that is shown.
pub const NAME_BYTES: usize = 32;
/// Pages that the tables take.
pub const PAGES: usize = 18;

/// Entries of a set.
const WAYS: usize = 2;
const NAMES: usize = 512;
/// Sequence, directory, place (0: there is none), tag, bytes. The tag: the length (0..8), the node's type as
/// `getdents64` tells it (8..16), the upper bits of the hash (16..).
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
struct Name {
    length: u64,
    bytes: [u64; NAME_BYTES / 8],
}

impl Name {
    /// The name that begins at a place of a path, up to a slash or the end; nothing where it is too long to be shown.
    #[inline]
    fn at(path: &[u8], place: usize) -> Option<Self> {
        let some = word_at(path, place);
        let length = first_slash(some).min(path.len() - place);
        let bytes = match length {
            0..8 => some & ((1 << (length * 8)) - 1),
            // Most names are not longer.
            _ if matches!(path.get(place + 8), None | Some(b'/')) => some,
            _ => return Self::longer_at(path, place, some),
        };
        Some(Self { length: length as u64, bytes: [bytes, 0, 0, 0] })
    }

    /// The same, where it is longer than these first eight bytes.
    fn longer_at(path: &[u8], place: usize, first: u64) -> Option<Self> {
        let next = word_at(path, place + 8);
        let more = first_slash(next).min(path.len() - place - 8);
        let next = match more {
            0..8 => next & ((1 << (more * 8)) - 1),
            _ if matches!(path.get(place + 16), None | Some(b'/')) => next,
            _ => return Self::first_of(&path[place..]),
        };
        Some(Self { length: (8 + more) as u64, bytes: [first, next, 0, 0] })
    }

    /// The first name of a path.
    #[inline(never)]
    fn first_of(path: &[u8]) -> Option<Self> {
        let mut name = Self { length: 0, bytes: [0; NAME_BYTES / 8] };
        for (index, word) in name.bytes.iter_mut().enumerate() {
            let rest = path.get(index * 8..).unwrap_or_default();
            let some = word_of(rest);
            let slash = first_slash(some);
            let here = slash.min(rest.len());
            *word = if here < 8 { some & ((1 << (here * 8)) - 1) } else { some };
            name.length += here as u64;
            if here < 8 {
                return Some(name);
            }
        }
        matches!(path.get(NAME_BYTES), None | Some(b'/')).then_some(name)
    }

    /// All of these bytes, which are one name.
    fn of(name: &[u8]) -> Option<Self> {
        Self::first_of(name).filter(|found| found.length == name.len() as u64)
    }

    /// The hash, the same for a directory through all mounts, so that a change of a name finds all its entries.
    #[inline]
    fn hash(&self, directory: u64) -> u64 {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let [a, b, c, d] = self.bytes;
        let mix = |all: u64, word: u64| (all ^ word).wrapping_mul(SPREAD).rotate_left(29);
        let mut all = mix(node_of(directory) ^ self.length << 56, a);
        if self.length > 8 {
            all = mix(mix(mix(all, b), c), d);
        }
        all
    }

    /// What an entry says that this name in a directory leads to, if it is of this name.
    #[inline]
    fn in_entry(&self, entry: &[AtomicU64; NAME_WORDS], directory: u64) -> Option<Named> {
        let before = entry[0].load(Acquire);
        let [of, place, tag, a] = core::array::from_fn(|index| entry[index + 1].load(Relaxed));
        let [wanted_a, rest @ ..] = self.bytes;
        let mut differ = of ^ directory | tag & 0xff ^ self.length | a ^ wanted_a;
        // Of names as short as this one the other words are zero.
        if self.length > 8 {
            differ |= (0..3).fold(0, |all, index| all | entry[index + 5].load(Relaxed) ^ rest[index]);
        }
        fence(Acquire);
        let changed = before & 1 | entry[0].load(Relaxed) ^ before;
        (differ | changed == 0).then_some(Named { place, kind: (tag >> 8) as u8 })
    }
}

/// Which of the eight bytes of a word is the first slash; 8 where none is.
#[inline]
const fn first_slash(word: u64) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let zero = word ^ LOW * b'/' as u64;
    // The lowest marked byte is a zero; those above it may be marked because of the borrow.
    let marked = zero.wrapping_sub(LOW) & !zero & LOW << 7;
    marked.trailing_zeros() as usize / 8
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The place of the node; 0: the name leads nowhere.
    pub place: u64,
    /// Its type as `getdents64` tells it.
    pub kind: u8,
}

/// The type of a node from its mode.
const fn kind_of(mode: u32) -> u8 {
    (mode >> 12 & 15) as u8
}
const DIRECTORY: u8 = kind_of(S_IFDIR);
const LINK: u8 = kind_of(S_IFLNK);

/// Eight bytes from a place on as a word, with zeros behind fewer.
#[inline]
fn word_at(bytes: &[u8], place: usize) -> u64 {
    let rest = bytes.get(place..).unwrap_or_default();
    match (rest.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(all), _) => u64::from_le_bytes(*all),
        // The end of the last eight.
        (None, Some(last)) if !rest.is_empty() => u64::from_le_bytes(*last) >> (64 - rest.len() * 8),
        _ => word_of(rest),
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
pub struct Dcache<'a> {
    names: &'a [[[AtomicU64; NAME_WORDS]; WAYS]; NAMES / WAYS],
    nodes: &'a [[[AtomicU64; NODE_WORDS]; WAYS]; NODES / WAYS],
    links: &'a [[AtomicU64; LINK_WORDS]; LINKS],
}

impl<'a> Dcache<'a> {
    /// In these words, at least [`WORDS`].
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        assert!(words.len() >= WORDS, "too few words for the catalogue");
        let (names, rest) = words.split_at(NAMES * NAME_WORDS);
        let (nodes, rest) = rest.split_at(NODES * NODE_WORDS);
        Self { names: sets(names), nodes: sets(nodes), links: table(rest) }
    }

    /// What a name in a directory leads to, if the cache has it: then all users may search the directory.
    pub fn name(self, directory: u64, name: &[u8]) -> Option<Named> {
        self.look_up(directory, &Name::of(name)?)
    }

    #[inline(always)]
    fn look_up(self, directory: u64, name: &Name) -> Option<Named> {
        let [first, second] = self.name_set(name.hash(directory));
        name.in_entry(first, directory).or_else(|| name.in_entry(second, directory))
    }

    /// What a path from a place leads to, where all of the way is shown; `ENOENT` where it is shown that there is
    /// nothing. Of the last name a symbolic link is what was asked for without `follow`. It checks no rights: a
    /// process that finds a name finds it in a directory that all users may search.
    #[inline(always)]
    pub fn find(self, from: u64, path: &[u8], follow: bool) -> Option<Result<Status, Errno>> {
        match self.lead(from, path, follow, &mut 0)? {
            Named { place: 0, .. } => Some(Err(Errno::ENOENT)),
            found => self.at(found.place).map(Ok),
        }
    }

    /// What `stat` tells of a place, if that is shown.
    #[inline(always)]
    pub fn at(self, place: u64) -> Option<Status> {
        Some(self.node(node_of(place))?.through(Handle::from_word(place).at.mount))
    }

    /// The same, but of the status no more than whose the node is, with the place.
    #[inline(always)]
    pub fn find_owned(self, from: u64, path: &[u8], follow: bool) -> Option<Result<OwnerAndMode, Errno>> {
        let place = match self.lead(from, path, follow, &mut 0)? {
            Named { place: 0, .. } => return Some(Err(Errno::ENOENT)),
            found => found.place,
        };
        let (_, [_, mode_links, owner]) = self.read_node(node_of(place))?;
        Some(Ok(OwnerAndMode { place, mode_links, owner }))
    }

    /// The same, but for what `stat` tells; place 0 where it is shown that there is nothing.
    fn lead(self, from: u64, path: &[u8], follow: bool, links: &mut u32) -> Option<Named> {
        const HERE: u64 = b'.' as u64;
        const ABOVE: u64 = HERE << 8 | HERE;
        let (mut at, mut done) = match path {
            [b'/'] => return Some(Named { place: ROOT, kind: DIRECTORY }),
            [b'/', ..] => (ROOT, 1),
            _ => (from, 0),
        };
        loop {
            let name = Name::at(path, done)?;
            done += name.length as usize;
            let mut found = match name.bytes[0] {
                0 | ABOVE => return None,
                HERE => self.dot(at)?,
                _ => self.look_up(at, &name)?,
            };
            let is_last = done == path.len();
            if found.kind == LINK && (follow || !is_last) {
                found = self.lead_through(at, node_of(found.place), links)?;
            }
            if is_last || found.place == 0 {
                return Some(found);
            }
            (at, done) = (found.place, done + 1);
        }
    }

    /// What a symbolic link in a directory leads to.
    #[inline(never)]
    fn lead_through(self, directory: u64, link: NodeId, links: &mut u32) -> Option<Named> {
        let (target, length) = self.target(link).filter(|_| *links < MOST_LINKS)?;
        *links += 1;
        self.lead(directory, &target[..length], true, links)
    }

    /// The directory itself, for the name `.`, where all users may search it.
    fn dot(self, at: u64) -> Option<Named> {
        const ALL_SEARCH: u32 = 0o111;
        let status = self.node(node_of(at))?;
        let is_open = status.kind() == S_IFDIR && status.mode() & ALL_SEARCH == ALL_SEARCH;
        is_open.then_some(Named { place: at, kind: DIRECTORY })
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
    #[inline(always)]
    pub fn node(self, id: NodeId) -> Option<Status> {
        self.stamped(id).map(|(_, status)| status)
    }

    /// The same, with a number that is another one as soon as any of it has changed.
    #[inline(always)]
    pub fn stamped(self, id: NodeId) -> Option<(u64, Status)> {
        let (stamp, words) = self.read_node(id)?;
        Some((stamp, Status::from_words(words)))
    }

    /// The first words of the status of a node, with a number that no other state of any entry of its set has.
    #[inline(always)]
    fn read_node<const COUNT: usize>(self, id: NodeId) -> Option<(u64, [u64; COUNT])> {
        let [first, second] = self.node_set(id);
        let of_way = |(sequence, words): (u64, [u64; COUNT]), way| (words[0] == id).then_some((sequence | way, words));
        let found = read(first).and_then(|found| of_way(found, 0));
        // Sequence numbers of entries that are not being written are even.
        found.or_else(|| read(second).and_then(|found| of_way(found, 1))).filter(|_| id != 0)
    }

    /// What kind of node it is, if it is shown what `stat` tells of it.
    pub fn kind(self, id: NodeId) -> Option<u32> {
        let (_, [_, mode_links]) = self.read_node(id)?;
        Some(mode_links as u32 & S_IFMT)
    }

    /// Shows what a name leads to.
    pub fn show_name(self, directory: u64, name: &[u8], found: Named) {
        if let Some(name) = Name::of(name) {
            let [a, b, c, d] = name.bytes;
            let hash = name.hash(directory);
            let tag = name.length | u64::from(found.kind) << 8 | hash & HASH_TAG;
            let set = self.name_set(hash);
            let way = set.iter().find(|entry| name.in_entry(entry, directory).is_some());
            show(way.unwrap_or_else(|| next_way(set)), &[directory, found.place, tag, a, b, c, d]);
        }
    }

    /// Shows what a node is. An entry that says so already stays as it is, and so does its number.
    pub fn show_node(self, status: &Status) {
        let way = self.node_way(status.node).unwrap_or_else(|| next_way(self.node_set(status.node)));
        show(way, &status.to_words());
    }

    /// Shows when a node was read last, if it is shown.
    pub fn show_accessed(self, id: NodeId, accessed: u64) {
        self.change_node(id, &[(Status::ACCESSED, accessed)]);
    }

    /// Shows what a change of its contents changed, if it is shown.
    pub fn show_contents(self, id: NodeId, node: &Inode) {
        self.change_node(
            id,
            &[
                (Status::MODE_LINKS, node.mode_links()),
                (Status::SIZE, node.stated_size()),
                (Status::ALLOCATED, node.allocated()),
                (Status::MODIFIED, node.modified),
                (Status::CHANGED, node.changed),
            ],
        );
    }

    #[inline]
    fn change_node(self, id: NodeId, words: &[(usize, u64)]) {
        if let Some(entry) = self.node_way(id) {
            let before = entry[0].load(Relaxed);
            entry[0].store(before | 1, Relaxed);
            fence(Release);
            words.iter().for_each(|(word, value)| entry[1 + word].store(*value, Relaxed));
            entry[0].store((before | 1).wrapping_add(1), Release);
        }
    }

    /// Shows nothing of a node.
    pub fn hide_node(self, id: NodeId) {
        if let Some(entry) = self.node_way(id) {
            invalidate(entry);
        }
    }

    /// Shows nothing of names with this hash.
    fn hide_name(self, hash: u64) {
        let has_it = |entry: &&[AtomicU64; NAME_WORDS]| (entry[3].load(Relaxed) ^ hash) & HASH_TAG == 0;
        self.name_set(hash).iter().filter(has_it).for_each(|entry| invalidate(entry));
    }

    /// Shows nothing at all.
    fn hide_all(self) {
        self.names.as_flattened().iter().for_each(|entry| invalidate(entry));
        self.nodes.as_flattened().iter().for_each(|entry| invalidate(entry));
        self.links.iter().for_each(|entry| invalidate(entry));
    }

    #[inline]
    fn name_set(self, hash: u64) -> &'a [[AtomicU64; NAME_WORDS]; WAYS] {
        &self.names[(hash % (NAMES / WAYS) as u64) as usize]
    }

    #[inline]
    fn node_set(self, id: NodeId) -> &'a [[AtomicU64; NODE_WORDS]; WAYS] {
        &self.nodes[(id % (NODES / WAYS) as u64) as usize]
    }

    /// The entry that shows a node, for the writer.
    #[inline]
    fn node_way(self, id: NodeId) -> Option<&'a [AtomicU64; NODE_WORDS]> {
        self.node_set(id).iter().find(|entry| entry[1].load(Relaxed) == id)
    }

    #[inline]
    fn link_entry(self, id: NodeId) -> &'a [AtomicU64; LINK_WORDS] {
        &self.links[(id % LINKS as u64) as usize]
    }
}

/// The first words as a table.
#[inline]
fn table<const WORDS: usize, const ENTRIES: usize>(words: &[AtomicU64]) -> &[[AtomicU64; WORDS]; ENTRIES] {
    words.as_chunks().0.first_chunk().expect("there are words enough for the catalogue")
}

/// The same in sets.
#[inline]
fn sets<const WORDS: usize, const SETS: usize>(words: &[AtomicU64]) -> &[[[AtomicU64; WORDS]; WAYS]; SETS] {
    words.as_chunks().0.as_chunks().0.first_chunk().expect("there are words enough for the catalogue")
}

/// The bits of a name's hash that its tag has.
const HASH_TAG: u64 = !0xffff;

/// Symbolic links that are followed in one walk: a process that meets more asks the server.
const MOST_LINKS: u32 = 4;

/// The sequence number and the words of an entry, unless it is being written.
#[inline(always)]
fn read<const WORDS: usize, const COUNT: usize>(entry: &[AtomicU64; WORDS]) -> Option<(u64, [u64; COUNT])> {
    let before = entry[0].load(Acquire);
    let words = core::array::from_fn(|index| entry[index + 1].load(Relaxed));
    fence(Acquire);
    (before % 2 == 0 && entry[0].load(Relaxed) == before).then_some((before, words))
}

/// The entry of a set that the writer overwrites: one that shows nothing, else the ways in turn, for each change of an
/// entry adds two to its sequence number.
fn next_way<const WORDS: usize>(set: &[[AtomicU64; WORDS]; WAYS]) -> &[AtomicU64; WORDS] {
    let changes = set.iter().fold(0, |all: u64, entry| all.wrapping_add(entry[0].load(Relaxed) / 2));
    let empty = set.iter().find(|entry| entry[1].load(Relaxed) == 0);
    empty.unwrap_or(&set[(changes % WAYS as u64) as usize])
}

/// Writes an entry that says something else.
fn show(entry: &[AtomicU64], words: &[u64]) {
    if entry[1..].iter().zip(words).any(|(word, wanted)| word.load(Relaxed) != *wanted) {
        write(entry, words);
    }
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
fn invalidate(entry: &[AtomicU64]) {
    write(entry, &[0]);
}

/// What a message changed of what may be exposed: gathered while the server serves it, and taken out of the cache
/// before the answer.
#[derive(Debug, Default)]
pub struct Changes {
    nodes: Few,
    /// Nodes whose contents changed, and no permissions.
    contents: Few,
    /// Nodes that were read.
    read: Few,
    /// Hashes of names.
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

    /// Nodes that changed; nothing where that may be all of them.
    pub fn nodes(&self) -> Option<&[NodeId]> {
        Some(self.nodes.all()).filter(|_| !self.everything)
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
        let hash = Name::of(name).map(|name| name.hash(directory));
        self.everything |= hash.is_some_and(|hash| !self.names.add(hash));
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

    /// Takes out of the cache what must not be seen any more, and begins again. What only changed its contents is the
    /// tree's to show first.
    pub fn carry_out(&mut self, catalogue: Dcache<'_>) {
        if self.everything {
            catalogue.hide_all();
        } else {
            self.nodes.all().iter().for_each(|id| catalogue.hide_node(*id));
            self.names.all().iter().for_each(|hash| catalogue.hide_name(*hash));
        }
        (self.nodes.count, self.names.count, self.everything) = (0, 0, false);
        (self.contents.count, self.read.count) = (0, 0);
    }
}
