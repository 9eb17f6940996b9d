//! Names of an examination: what entries and inodes say of each other, and the paths of inodes.

use super::What;
use super::walk::{Seen, Walk};
use crate::device::Device;
use crate::layout::inode::DYING;
use crate::layout::node::State;
use crate::layout::{Number, place};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use xn::format::BLOCK_SIZE;

/// What is wrong, where, and with which inode.
type Fault = (What, u64, Option<usize>, Number);

/// The faults of a closed volume.
pub(super) fn faults<D: Device>(walk: &Walk<'_, D>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let links = entry_faults(walk, &mut faults);
    same_names(walk, &mut faults);
    for (number, held) in &walk.inodes {
        let (block, sector, _) = place(*number);
        let mut fault = |what| faults.push((what, block, Some(sector), *number));
        let (inode, names) = (&held.inode, links.get(number).copied().unwrap_or(0));
        let is_root = *number == walk.root;
        let waits = inode.nlink == 0 && inode.is_directory();
        if inode.state == DYING || names == 0 && !is_root && !waits {
            fault(What::Nameless);
        } else if !is_root && names != u64::from(inode.nlink) {
            fault(What::Links(names));
        }
        if (inode.is_file() || inode.is_directory() || inode.has_long_link()) && inode.blocks != held.blocks {
            fault(What::Blocks(held.blocks));
        }
        if inode.is_directory() && inode.size != held.blocks * BLOCK_SIZE as u64 {
            fault(What::Size);
        }
    }
    cycles(walk, &mut faults);
    faults
}

/// Checks each entry against its inode; gives the number of names of each inode.
fn entry_faults<D: Device>(walk: &Walk<'_, D>, faults: &mut Vec<Fault>) -> BTreeMap<Number, u64> {
    let mut links: BTreeMap<Number, u64> = BTreeMap::new();
    for seen in &walk.entries {
        let number = seen.entry.number;
        let mut fault = |what| faults.push((what, seen.block, Some(seen.sector), number));
        if seen.entry.state == State::Leaving {
            fault(What::Leaving);
            continue;
        }
        let inode = walk.inodes.get(&number).map(|held| &held.inode);
        let right = |inode: &&crate::layout::inode::Inode| {
            inode.generation == seen.entry.generation && inode.mode >> 12 == seen.entry.kind.into()
        };
        match inode.filter(right) {
            None => fault(What::Entry),
            Some(inode) => {
                *links.entry(number).or_default() += 1;
                if inode.is_directory() && inode.parent != seen.directory {
                    fault(What::Parent);
                }
            }
        }
    }
    links
}

fn same_names<D: Device>(walk: &Walk<'_, D>, faults: &mut Vec<Fault>) {
    let mut order: Vec<&Seen> = walk.entries.iter().filter(|seen| seen.entry.state == State::Live).collect();
    order.sort_unstable_by(|one, other| (one.directory, &one.name).cmp(&(other.directory, &other.name)));
    for pair in order.windows(2) {
        if (pair[0].directory, &pair[0].name) == (pair[1].directory, &pair[1].name) {
            faults.push((What::SameName, pair[1].block, Some(pair[1].sector), pair[1].entry.number));
        }
    }
}

/// The first name of each inode: its directory, and the index of the entry.
fn first_names<D: Device>(walk: &Walk<'_, D>) -> BTreeMap<Number, (Number, usize)> {
    let mut first = BTreeMap::new();
    for (index, seen) in walk.entries.iter().enumerate().filter(|(_, seen)| seen.entry.state == State::Live) {
        first.entry(seen.entry.number).or_insert((seen.directory, index));
    }
    first
}

/// Directories from which no way leads up to the root, or to a removed directory.
fn cycles<D: Device>(walk: &Walk<'_, D>, faults: &mut Vec<Fault>) {
    let first = first_names(walk);
    let mut good: BTreeSet<Number> = BTreeSet::from([walk.root]);
    for number in walk.inodes.iter().filter(|(_, held)| held.inode.is_directory()).map(|(number, _)| *number) {
        let (mut at, mut way) = (number, BTreeSet::new());
        while !good.contains(&at) && way.insert(at) {
            match first.get(&at) {
                Some((directory, _)) => at = *directory,
                None => _ = good.insert(at),
            }
        }
        if good.contains(&at) {
            good.append(&mut way);
        } else {
            let (block, sector, _) = place(number);
            faults.push((What::Cycle, block, Some(sector), number));
        }
    }
}

/// The paths of some inodes.
pub(super) fn paths<D: Device>(walk: &Walk<'_, D>, wanted: &BTreeSet<Number>) -> BTreeMap<Number, Vec<u8>> {
    let first = if wanted.is_empty() { BTreeMap::new() } else { first_names(walk) };
    let path = |number: &Number| {
        let (mut at, mut names, mut passed) = (*number, Vec::new(), BTreeSet::new());
        while at != walk.root {
            let (directory, index) = first.get(&at).filter(|_| passed.insert(at))?;
            names.push(walk.entries[*index].name.as_slice());
            at = *directory;
        }
        names.reverse();
        Some((*number, names.join(&b'/')))
    };
    wanted.iter().filter_map(path).collect()
}
