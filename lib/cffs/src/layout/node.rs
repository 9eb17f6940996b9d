//! Sector of a directory node: entries from the front, inodes from the back. Entries and inodes never move.
//!
//! | byte | header of a sector |
//! |---|---|
//! | 0 | 8 fingerprints in the order of the entries, 0 for a free one |
//! | 8 | number of entries, free ones included (u8) |
//! | 9 | inode slots in use (bits) |
//! | 10 | end of the entries (u16) |
//! | 12 | kind (u8): 1 in sector 0 of a node |
//! | 16, 22, 24, 32 | in sector 0: directory's inode (u48), level (u8), prefix of hashes (u64), 4 child nodes (u64) |
//!
//! | byte | entry |
//! |---|---|
//! | 0, 6 | inode number (u48), generation (u32) |
//! | 10 | length of the name (u8); of a free entry: its room / 4 |
//! | 11 | bits 0 to 3: kind as in the mode; 4, 5: state; 6, 7: unused room behind the name / 4 |
//! | 12, 15 | lineage (u24), sequence (u8) |
//! | 16 | name |
//!
//! Inode slot s begins at byte 508 - 128 x (s + 1).
//!
//! A *lineage* is one name of an inode through its renames. Each rename makes an entry with the next sequence number.
//! Of the entries of a lineage that a crash leaves, the youngest counts.

use super::hash::{MAX_LEVEL, fingerprint, of_name};
use super::inode::SIZE;
use super::{Content, Number, get, put};
use alloc::vec::Vec;
use xn::format::CONTENT;

/// Most entries of a sector.
pub const MAX_ENTRIES: usize = 8;
/// Inode slots of a sector.
pub const SLOTS: usize = 3;
/// Bytes before the name.
const HEADER: usize = 16;
/// First entry of sector 0 of a node, and of other sectors.
const FIRST: [usize; 2] = [64, 16];

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No name.
    Free = 0,
    /// A name.
    Live = 1,
    /// Renamed: no name, unless recovery finds no younger entry of its lineage.
    Leaving = 2,
}

/// An entry without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode.
    pub number: Number,
    /// Generation of the inode.
    pub generation: u32,
    /// Kind: the top four bits of the mode.
    pub kind: u8,
    /// Whether it counts.
    pub state: State,
    /// Which name of the inode it is.
    pub lineage: u32,
    /// How often that name was changed, modulo 256.
    pub sequence: u8,
}

/// An entry at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// First byte in the sector.
    pub offset: usize,
    /// Bytes for the name, padding included.
    pub room: usize,
    /// Bytes of the name.
    pub length: usize,
    /// The entry.
    pub entry: Entry,
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Whether the sector is the first of a node.
pub fn is_head(content: &Content) -> bool {
    content[12] == 1
}

/// Makes a sector the first one of a node.
pub fn set_head(content: &mut Content, directory: Number, level: usize, prefix: u64) {
    content[12] = 1;
    put(content, 10, 2, FIRST[0] as u64);
    put(content, 16, 6, directory);
    put(content, 22, 1, level as u64);
    put(content, 24, 8, prefix);
}

/// The directory, level and prefix that the first sector of a node names.
pub fn head(content: &Content) -> Option<(Number, usize, u64)> {
    let level = usize::from(content[22]);
    (is_head(content) && level <= MAX_LEVEL).then(|| (get(content, 16, 6), level, get(content, 24, 8)))
}

/// Child node `index` of a first sector; 0 for none.
pub fn child(content: &Content, index: usize) -> u64 {
    if is_head(content) { get(content, 32 + 8 * index, 8) } else { 0 }
}

/// Changes child node `index`.
pub fn set_child(content: &mut Content, index: usize, block: u64) {
    put(content, 32 + 8 * index, 8, block);
}

/// Where inode slot `slot` begins.
pub fn inode_place(slot: usize) -> usize {
    CONTENT - SIZE * (slot + 1)
}

/// Whether an inode slot is in use.
pub fn has_inode(content: &Content, slot: usize) -> bool {
    slot < SLOTS && content[9] >> slot & 1 == 1
}

/// Takes or frees an inode slot.
pub fn set_inode(content: &mut Content, slot: usize, used: bool) {
    content[9] = content[9] & !(1 << slot) | u8::from(used) << slot;
}

/// Whether a sector has neither entries nor inodes nor children.
pub fn is_empty(content: &Content) -> bool {
    content[8] == 0 && content[9] == 0 && (0..4).all(|index| child(content, index) == 0)
}

fn first(content: &Content) -> usize {
    FIRST[usize::from(!is_head(content))]
}

fn end(content: &Content) -> usize {
    (get(content, 10, 2) as usize).max(first(content))
}

fn read_entry(content: &Content, offset: usize) -> Option<Placed> {
    let bytes = content.get(offset..offset + HEADER)?;
    let bits = bytes[11];
    let state = match bits >> 4 & 3 {
        0 => State::Free,
        1 => State::Live,
        2 => State::Leaving,
        _ => return None,
    };
    let entry = Entry {
        number: get(bytes, 0, 6),
        generation: get(bytes, 6, 4) as u32,
        kind: bits & 15,
        state,
        lineage: get(bytes, 12, 3) as u32,
        sequence: bytes[15],
    };
    let length = usize::from(bytes[10]);
    let room = if state == State::Free { 4 * length } else { padded(length) + 4 * usize::from(bits >> 6) };
    Some(Placed { offset, room, length, entry })
}

/// The entries of a sector, free ones included; `None` if they contradict the format.
pub fn entries(content: &Content) -> Option<impl Iterator<Item = Placed> + '_> {
    let (mut at, mut count) = (first(content), 0);
    let stop = end(content);
    while at < stop && count < usize::from(content[8]) {
        let placed = read_entry(content, at)?;
        let bad_name = placed.entry.state != State::Free && placed.length == 0;
        at = placed.offset + HEADER + placed.room;
        count += 1;
        if bad_name || at > stop {
            return None;
        }
    }
    let fits = at == stop && count == usize::from(content[8]) && count <= MAX_ENTRIES;
    let lowest = (0..SLOTS).filter(|slot| has_inode(content, *slot)).map(inode_place).min().unwrap_or(CONTENT);
    if !fits || stop > lowest {
        return None;
    }
    let mut at = first(content);
    Some((0..count).map_while(move |_| {
        let placed = read_entry(content, at)?;
        at = placed.offset + HEADER + placed.room;
        Some(placed)
    }))
}

/// The name of an entry.
pub fn name<'a>(content: &'a Content, placed: &Placed) -> &'a [u8] {
    content.get(placed.offset + HEADER..placed.offset + HEADER + placed.length).unwrap_or_default()
}

/// The entry at `offset`, if one begins there.
pub fn entry_at(content: &Content, offset: usize) -> Option<Placed> {
    entries(content)?.find(|placed| placed.offset == offset && placed.entry.state != State::Free)
}

/// The entries with this name, in any state but free. The fingerprints exclude most sectors.
pub fn find<'a>(content: &'a Content, wanted: &'a [u8], hash: u64) -> Option<impl Iterator<Item = Placed> + 'a> {
    let fingerprint = fingerprint(hash);
    let count = usize::from(content[8]).min(MAX_ENTRIES);
    let likely = content[..count].contains(&fingerprint);
    let list = if likely { Some(entries(content)?) } else { None };
    Some(
        list.into_iter()
            .flatten()
            .filter(move |placed| placed.entry.state != State::Free && name(content, placed) == wanted),
    )
}

/// Writes the header of an entry and, for a new one, its name.
fn write_entry(content: &mut Content, offset: usize, room: usize, entry: &Entry, text: &[u8]) {
    let slack = (room - padded(text.len())) / 4;
    let bytes = &mut content[offset..offset + HEADER + room];
    put(bytes, 0, 6, entry.number);
    put(bytes, 6, 4, entry.generation.into());
    bytes[10] = text.len() as u8;
    bytes[11] = entry.kind | (entry.state as u8) << 4 | (slack as u8) << 6;
    put(bytes, 12, 3, entry.lineage.into());
    bytes[15] = entry.sequence;
    bytes[HEADER..HEADER + text.len()].copy_from_slice(text);
}

fn write_free(content: &mut Content, offset: usize, room: usize) {
    content[offset + 10] = (room / 4) as u8;
    content[offset + 11] = 0;
}

/// Replaces what an entry says, without its name.
pub fn replace(content: &mut Content, offset: usize, entry: &Entry) {
    if let Some(placed) = read_entry(content, offset) {
        let mut text = [0; 255];
        let length = placed.length;
        text[..length].copy_from_slice(name(content, &placed));
        write_entry(content, offset, placed.room, entry, &text[..length]);
    }
}

/// Recomputes count, end and fingerprints from the entries at `offsets`.
fn settle(content: &mut Content, offsets: &[usize], stop: usize) {
    content[8] = offsets.len() as u8;
    let end = if offsets.is_empty() && !is_head(content) { 0 } else { stop as u64 };
    put(content, 10, 2, end);
    for index in 0..MAX_ENTRIES {
        let placed = offsets.get(index).and_then(|offset| read_entry(content, *offset));
        let living = placed.filter(|placed| placed.entry.state != State::Free);
        content[index] = living.map_or(0, |placed| fingerprint(of_name(name(content, &placed))));
    }
}

/// Where a new entry goes: its offset, its room, whether it uses a free entry, and the inode slot.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    offset: usize,
    room: usize,
    reuses: bool,
    /// Slot of the new inode.
    pub slot: usize,
}

/// Looks for room for a name, and for an inode if `with_inode`.
pub fn room(content: &Content, length: usize, with_inode: bool) -> Option<Room> {
    let need = padded(length);
    let used = (0..SLOTS).filter(|slot| has_inode(content, *slot));
    let slot = if with_inode { (0..SLOTS).find(|slot| !has_inode(content, *slot))? } else { 0 };
    let lowest = used.chain(with_inode.then_some(slot)).map(inode_place).min().unwrap_or(CONTENT);
    let (stop, count) = (end(content), usize::from(content[8]));
    if stop > lowest {
        return None;
    }
    let fits = |placed: &Placed| {
        let rest = placed.room.wrapping_sub(need);
        placed.entry.state == State::Free && placed.room >= need && (rest < HEADER || count < MAX_ENTRIES)
    };
    if let Some(hole) = entries(content)?.find(fits) {
        return Some(Room { offset: hole.offset, room: hole.room, reuses: true, slot });
    }
    let appends = count < MAX_ENTRIES && stop + HEADER + need <= lowest;
    appends.then_some(Room { offset: stop, room: need, reuses: false, slot })
}

/// Adds an entry where [`room`] has found place.
pub fn insert(content: &mut Content, place: &Room, entry: &Entry, text: &[u8]) {
    let mut offsets: Vec<usize> = entries(content).into_iter().flatten().map(|placed| placed.offset).collect();
    let need = padded(text.len());
    let rest = place.room - need;
    let mut stop = end(content);
    if !place.reuses {
        offsets.push(place.offset);
        stop = place.offset + HEADER + need;
    }
    if rest >= HEADER {
        let behind = place.offset + HEADER + need;
        write_free(content, behind, rest - HEADER);
        let index = offsets.iter().position(|offset| *offset == place.offset).unwrap_or(0);
        offsets.insert(index + 1, behind);
    }
    let room = if rest >= HEADER { need } else { place.room };
    write_entry(content, place.offset, room, entry, text);
    settle(content, &offsets, stop);
}

/// Removes an entry. Free neighbours become one.
pub fn remove(content: &mut Content, offset: usize) {
    let Some(gone) = read_entry(content, offset) else { return };
    write_free(content, offset, gone.room);
    let list: Vec<Placed> = entries(content).into_iter().flatten().collect();
    let mut merged: Vec<Placed> = Vec::with_capacity(list.len());
    for placed in list {
        match merged.last_mut() {
            Some(last) if last.entry.state == State::Free && placed.entry.state == State::Free => {
                last.room += HEADER + placed.room;
            }
            _ => merged.push(placed),
        }
    }
    let mut stop = end(content);
    if merged.last().is_some_and(|last| last.entry.state == State::Free) {
        stop = merged.pop().map_or(stop, |last| last.offset);
    }
    for placed in merged.iter().filter(|placed| placed.entry.state == State::Free) {
        write_free(content, placed.offset, placed.room);
    }
    let offsets: Vec<usize> = merged.iter().map(|placed| placed.offset).collect();
    settle(content, &offsets, stop);
}
