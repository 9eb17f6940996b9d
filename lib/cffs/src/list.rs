//! Listing of directories with stable cookies.
//!
//! A cookie is a place: prefix of the node (48 bits), its level (5), sector (3), and offset of the next entry in units
//! of four bytes (7). Entries never move, so a cookie stays good while entries come and go. The order is that of the
//! nodes: each before its children.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::hash::{MAX_LEVEL, child};
use crate::layout::node::{self, State};
use crate::layout::{BLOCK_BITS, Number};
use alloc::vec::Vec;
use xn::format::SECTORS;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name.
    pub name: Vec<u8>,
    /// Inode.
    pub number: Number,
    /// Kind: the top four bits of the mode.
    pub kind: u8,
    /// Where the listing continues behind this entry.
    pub cookie: u64,
}

/// A place in the trie.
#[derive(Clone, Copy)]
struct Place {
    prefix: u64,
    level: usize,
    sector: usize,
    offset: usize,
}

impl Place {
    fn decode(cookie: u64) -> Self {
        let (level, sector) = ((cookie >> 10 & 31) as usize, (cookie >> 7 & 7) as usize);
        Self { prefix: cookie >> 15 << 16, level, sector, offset: (cookie & 127) as usize * 4 }
    }

    fn encode(&self) -> u64 {
        self.prefix >> 16 << 15 | (self.level as u64) << 10 | (self.sector as u64) << 7 | self.offset as u64 / 4
    }
}

impl<D: Device> FileSystem<'_, D> {
    /// The entries from `cookie` on (0: from the beginning), at most `limit`; without `.` and `..`.
    pub fn list(&mut self, directory: Number, cookie: u64, limit: usize) -> Result<Vec<Listed>> {
        self.step();
        let inode = self.inode(directory)?;
        if !inode.is_directory() {
            return Err(Error::NotDirectory);
        }
        let mut place = Place::decode(cookie);
        if place.level > MAX_LEVEL {
            return Err(Error::Invalid);
        }
        let mut listed = Vec::new();
        while listed.len() < limit {
            self.step();
            let path = self.path_to(directory, &place)?;
            if let Some(page) = path.get(place.level).copied() {
                self.list_node(page, place, limit, &mut listed)?;
                if listed.len() >= limit {
                    break;
                }
            }
            match self.next_place(&path, &place) {
                Some(next) => place = next,
                None => break,
            }
        }
        if !self.read_only && !listed.is_empty() {
            self.renew_access_time(directory, &inode)?;
        }
        Ok(listed)
    }

    /// The nodes on the way to a place, as far as there are.
    fn path_to(&mut self, directory: Number, place: &Place) -> Result<Vec<usize>> {
        let mut path = Vec::new();
        let mut next = self.root_node(directory)?;
        while let Some(page) = next {
            let level = path.len();
            path.push(page);
            let more = level < place.level;
            next = if more { self.child_node(page, child(place.prefix, level), directory)? } else { None };
        }
        Ok(path)
    }

    fn list_node(&mut self, page: usize, place: Place, limit: usize, listed: &mut Vec<Listed>) -> Result<()> {
        self.counts.nodes += 1;
        let damaged = Error::Damaged(self.xn.info(page)?.block());
        for sector in place.sector..SECTORS {
            let content = self.sector(page, sector);
            let from = if sector == place.sector { place.offset } else { 0 };
            for placed in node::entries(content).ok_or(damaged)? {
                if placed.entry.state != State::Live || placed.offset < from {
                    continue;
                }
                if listed.len() >= limit {
                    return Ok(());
                }
                let cookie = Place { sector, offset: placed.offset + 4, ..place }.encode();
                let name = node::name(content, &placed).to_vec();
                listed.push(Listed { name, number: placed.entry.number, kind: placed.entry.kind, cookie });
            }
        }
        Ok(())
    }

    /// The beginning of the node after `place` in the order of nodes.
    fn next_place(&self, path: &[usize], place: &Place) -> Option<Place> {
        let has = |level: usize, index: usize| {
            let block = path.get(level).map_or(0, |page| node::child(self.sector(*page, 0), index));
            block & BLOCK_BITS != 0
        };
        let at = |prefix: u64, level: usize, index: usize| {
            let (kept, shift) = (if level == 0 { 0 } else { prefix & u64::MAX << (64 - 2 * level) }, 62 - 2 * level);
            Place { prefix: kept | (index as u64) << shift, level: level + 1, sector: 0, offset: 0 }
        };
        if place.level < MAX_LEVEL
            && path.len() > place.level
            && let Some(index) = (0..4).find(|index| has(place.level, *index))
        {
            return Some(at(place.prefix, place.level, index));
        }
        (0..place.level).rev().find_map(|level| {
            let taken = child(place.prefix, level);
            (taken + 1..4).find(|index| has(level, *index)).map(|index| at(place.prefix, level, index))
        })
    }
}
