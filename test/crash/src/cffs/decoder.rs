//! Oracle for blocks: an independent decoder of C-FFS, written from the description of the format in `cffs::layout`. It
//! uses no code of the file system.
//!
//! It walks from the root catalogue. No block is reached twice, none is fixed, all metadata is intact. The free map of
//! a closed volume is exactly what was reached.

use crate::decoder::{Decoder, map_is_exact, mark, sector_is_intact, word};
use crate::disk::Cell;
use std::collections::BTreeSet;

const ROOT: u8 = 0;
const NODE: u8 = 1;
const INDIRECT: u8 = 2;
const DATA: u8 = 3;

/// The blocks that the file system reaches, or what is wrong.
pub fn marks(decoder: &mut Decoder, cells: &[Cell]) -> Result<BTreeSet<u64>, String> {
    let volume = &cells[0][24..40];
    if &cells[0][..8] != b"ChitinXN" || !sector_is_intact(volume, 0, 0, &cells[0][..512]) {
        return Err("the superblock is damaged".into());
    }
    if !decoder.is_intact(volume, 1, &cells[1]) {
        return Err("the root catalogue is damaged".into());
    }
    let root = word(&cells[1][..], 48);
    let (mut marks, mut pending) = (BTreeSet::new(), vec![(root, ROOT)]);
    while let Some((block, template)) = pending.pop() {
        mark(&mut marks, block, cells.len())?;
        if template == DATA {
            continue;
        }
        let cell = &cells[block as usize];
        if !decoder.is_intact(volume, block as usize, cell) {
            return Err(format!("metadata block {block} is damaged or uninitialised"));
        }
        for sector in cell.chunks_exact(512) {
            pointers(sector, template, &mut pending);
        }
    }
    if cells[0][12] == 1 {
        map_is_exact(cells, &marks)?;
    }
    Ok(marks)
}

fn pointers(sector: &[u8], template: u8, pending: &mut Vec<(u64, u8)>) {
    let mut push = |at: usize, template: u8| {
        let block = word(sector, at) & 0xFF_FFFF_FFFF;
        if block != 0 {
            pending.push((block, template));
        }
    };
    if template == INDIRECT {
        let kind = if sector[502] == 1 { DATA } else { INDIRECT };
        (0..62).filter(|_| sector[502] != 0).for_each(|index| push(8 * index, kind));
        return;
    }
    if template == NODE && sector[12] == 1 {
        (0..4).for_each(|index| push(32 + 8 * index, NODE));
    }
    for slot in (0..3).filter(|slot| sector[9] >> slot & 1 == 1) {
        let inode = 508 - 128 * (slot + 1);
        match sector[inode + 1] >> 4 {
            4 => push(inode + 72, NODE),
            8 => {
                (0..4).for_each(|index| push(inode + 72 + 8 * index, DATA));
                (4..7).for_each(|index| push(inode + 72 + 8 * index, INDIRECT));
            }
            10 if word(sector, inode + 16) > 56 => push(inode + 72, DATA),
            _ => (),
        }
    }
}
