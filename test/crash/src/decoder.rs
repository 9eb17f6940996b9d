//! Oracle: an independent decoder, written from the description of the format in `xn::format` and from
//! [`crate::templates`], which uses no code of XN.
//!
//! It marks from the roots. No block is reached twice, none is fixed, each has the ghost tag that its parent expects,
//! and all reachable metadata is intact. If the superblock says *clean*, the free maps are exactly the marks.

use crate::disk::Cell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Checks of the checksums of one cell are remembered, because states share cells.
#[derive(Default)]
pub struct Decoder {
    intact: HashMap<(*const u8, usize), (Cell, bool)>,
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(u32::MAX, |mut state, byte| {
        state ^= u32::from(byte);
        for _ in 0..8 {
            state = state >> 1 ^ if state & 1 == 1 { 0x82F6_3B78 } else { 0 };
        }
        state
    })
}

pub(crate) fn sector_is_intact(volume: &[u8], block: usize, sector: usize, bytes: &[u8]) -> bool {
    let place = ((block * 8 + sector) as u64).to_le_bytes();
    let all = volume.iter().chain(&place).chain(&bytes[..508]).copied();
    crc32c(all) == u32::from_le_bytes(bytes[508..512].try_into().expect("four bytes"))
}

impl Decoder {
    pub(crate) fn is_intact(&mut self, volume: &[u8], block: usize, cell: &Cell) -> bool {
        let key = (Rc::as_ptr(cell).cast::<u8>(), block);
        if let Some((_, known)) = self.intact.get(&key) {
            return *known;
        }
        let intact = cell.chunks_exact(512).enumerate().all(|(at, bytes)| sector_is_intact(volume, block, at, bytes));
        self.intact.insert(key, (Rc::clone(cell), intact));
        intact
    }

    /// The blocks that the roots reach, or what is wrong.
    pub fn marks(&mut self, cells: &[Cell]) -> Result<BTreeSet<u64>, String> {
        let volume = &cells[0][24..40];
        if &cells[0][..8] != b"ChitinXN" || !sector_is_intact(volume, 0, 0, &cells[0][..512]) {
            return Err("the superblock is damaged".into());
        }
        let mut marks = BTreeSet::new();
        let mut pending = Vec::new();
        if !self.is_intact(volume, 1, &cells[1]) {
            return Err("the root catalogue is damaged".into());
        }
        for slot in 0..32 {
            let entry = slot / 4 * 512 + slot % 4 * 96;
            let block = word(&cells[1][..], entry + 48);
            if block != 0 {
                mark(&mut marks, block, cells.len())?;
                let tag = word(&cells[1][..], entry);
                pending.push((block as usize, cells[1][entry + 64], tag));
            }
        }
        while let Some((block, template, tag)) = pending.pop() {
            self.visit(cells, (block, template, tag), &mut marks, &mut pending)?;
        }
        if cells[0][12] == 1 {
            map_is_exact(cells, &marks)?;
        }
        Ok(marks)
    }

    fn visit(
        &mut self,
        cells: &[Cell],
        (block, template, tag): (usize, u8, u64),
        marks: &mut BTreeSet<u64>,
        pending: &mut Vec<(usize, u8, u64)>,
    ) -> Result<(), String> {
        let cell = &cells[block];
        if template == 3 {
            let foreign = cell.chunks_exact(512).map(|sector| word(sector, 0)).find(|found| *found != tag);
            return foreign.map_or(Ok(()), |found| Err(format!("leaf {block} has tag {found:x}, not {tag:x}")));
        }
        if !self.is_intact(&cells[0][24..40], block, cell) {
            return Err(format!("metadata block {block} is damaged or uninitialised"));
        }
        if word(&cell[..], 0) != tag {
            return Err(format!("metadata block {block} has tag {:x}, not {tag:x}", word(&cell[..], 0)));
        }
        let entries = [6, 2, 28][usize::from(template)];
        for (sector, index) in (0..8).flat_map(|sector| (0..entries).map(move |index| (sector, index))) {
            let at = sector * 512 + 16 + index * 16;
            let (place, child_tag) = (word(&cell[..], at), word(&cell[..], at + 8));
            let (first, count, kind) = (place & 0xFF_FFFF_FFFF, place >> 40 & 0xFFFF, place >> 56);
            for child in (0..count).filter(|_| kind != 0) {
                mark(marks, first + child, cells.len())?;
                if kind != 255 {
                    pending.push(((first + child) as usize, (kind - 1) as u8, child_tag + child));
                }
            }
        }
        Ok(())
    }
}

/// Superblock, catalogues, region table and the free map of region 0 are fixed, and so is the last block.
pub(crate) fn mark(marks: &mut BTreeSet<u64>, block: u64, blocks: usize) -> Result<(), String> {
    if block <= 259 || block + 1 >= blocks as u64 {
        return Err(format!("fixed block {block} is owned"));
    }
    if marks.insert(block) { Ok(()) } else { Err(format!("block {block} is owned twice")) }
}

pub(crate) fn map_is_exact(cells: &[Cell], marks: &BTreeSet<u64>) -> Result<(), String> {
    let last = cells.len() as u64 - 1;
    for block in 0..last + 1 {
        let byte = block / 2048 * 512 + block % 2048 / 8;
        let used = cells[259][byte as usize] >> (block % 8) & 1 == 1;
        if used != (block <= 259 || block == last || marks.contains(&block)) {
            return Err(format!("the clean free map says {used} of block {block}"));
        }
    }
    Ok(())
}
