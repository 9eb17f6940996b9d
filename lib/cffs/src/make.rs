//! Making a volume with an empty file system.
//!
//! The superblock is written last: a device on which this was interrupted holds no volume.

use crate::arena::Arena;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::layout::inode::{DIRECTORY, Inode, LIVE, SIZE};
use crate::layout::node::inode_place;
use crate::layout::put;
use crate::template::{self, ROOT};
use xn::format::{BLOCK_SIZE, Block, MAX_BLOCKS, MIN_BLOCKS, State, Superblock, TEMPLATE_BLOCKS, initial_block};

/// What a new file system has.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// 16 random bytes.
    pub volume: [u8; 16],
    /// Time of creation, in nanoseconds since 1970.
    pub now: i64,
    /// Owner, group and permissions of the root directory.
    pub owner: (u32, u32, u16),
}

/// First bytes of the root block.
pub(crate) const MAGIC: [u8; 8] = *b"C-FFS v1";
/// Name in the root catalogue.
pub(crate) const ROOT_NAME: &[u8] = b"c-ffs";
/// Slot of the root catalogue.
pub const ROOT_SLOT: usize = 0;

/// The root block: its sector 0 has the magic and the inode of the root directory.
pub(crate) fn root_sector(block: u64, options: &Options) -> [u8; xn::format::CONTENT] {
    let mut content = [0; xn::format::CONTENT];
    content[..8].copy_from_slice(&MAGIC);
    content[9] = 1;
    // The magic overlaps the fingerprints only; the count of entries is 0.
    put(&mut content, 8, 1, 0);
    let (uid, gid, mode) = options.owner;
    let inode = Inode {
        mode: DIRECTORY | mode & 0o7777,
        nlink: 1,
        state: LIVE,
        next_lineage: 1,
        uid,
        gid,
        times: [options.now; 4],
        generation: 1,
        parent: block << 5,
        ..Inode::default()
    };
    inode.encode(&mut content[inode_place(0)..inode_place(0) + SIZE]);
    content
}

/// Makes a volume over the whole device, and a file system on it.
pub fn make<D: Device>(device: &mut D, arena: &mut Arena, options: &Options) -> Result<()> {
    let blocks = device.blocks().min(MAX_BLOCKS);
    let superblock = Superblock { state: State::Clean, blocks, volume: options.volume, mounts: 0 };
    if blocks < MIN_BLOCKS || !superblock.is_sound() {
        return Err(Error::TooSmall(MIN_BLOCKS));
    }
    let mut bytes: Block = [0; BLOCK_SIZE];
    let mut write = |block: u64, bytes: &Block| device.write(block, bytes).map_err(|_| Error::Io);
    write(0, &bytes)?;
    let fixed =
        (1..=superblock.map_block(0)).chain((1..superblock.regions()).map(|region| superblock.map_block(region)));
    for block in fixed {
        initial_block(&superblock, block, &mut bytes);
        write(block, &bytes)?;
    }
    for slot in 0..template::COUNT as u8 {
        for index in 0..TEMPLATE_BLOCKS as usize {
            let block = template::encode(&options.volume, slot, index, &mut bytes);
            write(block, &bytes)?;
        }
    }
    device.flush().map_err(|_| Error::Io)?;
    for block in [blocks - 1, 0] {
        initial_block(&superblock, block, &mut bytes);
        device.write(block, &bytes).map_err(|_| Error::Io)?;
    }
    device.flush().map_err(|_| Error::Io)?;
    arena.make_root(device, options)
}

const _: () = assert!(ROOT == 0);
