//! On-disk format of a volume, version 1.
//!
//! All numbers are little-endian. A block has 4,096 bytes; a metadata block is eight sectors of 508 bytes of content
//! and 4 bytes of checksum ([`crate::checksum::of_sector`]). The fixed blocks are metadata too.
//!
//! | block | content |
//! |---|---|
//! | 0, and a copy in the last block | superblock, in sector 0 |
//! | 1 | root catalogue: four entries of 96 bytes a sector, 32 in all |
//! | 2 to 257 | template catalogue: 64 slots of 4 blocks |
//! | 258 on | region table: 2,048 bits a sector, bit = region *open* |
//! | first block of a region of 16,384 blocks (region 0: after the region table) | free map: bit = used |
//!
//! Superblock: magic 0, version 8 (u32), state 12 (u32: 0 dirty, 1 clean), blocks 16, volume id 24 (16 bytes), mounts
//! 40, time of creation 48. Root entry: name 0 (48 bytes), block 48 (0: no root), quota 56, template 64 (u8), flags
//! 65. Template slot: sector 0 has name 0 (64 bytes), kind 64 (u8: 0 none, 1 leaf, 2 metadata), number of children 65,
//! child slots 66 (8 bytes). Then length of owns 76 and of access 80 (u32, bytes). Sectors 1 to 31 hold owns, then
//! access, without gap.

use crate::checksum::{Crc, crc32c, of_sector};
use crate::error::{Error, Result};
use crate::template::{Kind, Template};
use core::ops::Range;

/// Bytes of a block.
pub const BLOCK_SIZE: usize = 4096;
/// Bytes of a sector.
pub const SECTOR_SIZE: usize = 512;
/// Sectors of a block.
pub const SECTORS: usize = 8;
/// Bytes of content of a metadata sector.
pub const CONTENT: usize = 508;
/// First eight bytes of a superblock.
pub const MAGIC: [u8; 8] = *b"ChitinXN";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Block of the root catalogue.
pub const ROOTS: u64 = 1;
/// Number of roots.
pub const MAX_ROOTS: usize = 32;
/// Root entries in a sector.
const ROOTS_A_SECTOR: usize = 4;
/// Bytes of a root entry.
const ROOT_SIZE: usize = 96;
/// First block of the template catalogue.
pub const TEMPLATES: u64 = 2;
/// Number of template slots.
pub const MAX_TEMPLATES: usize = 64;
/// Blocks of a template slot.
pub const TEMPLATE_BLOCKS: u64 = 4;
/// First block of the region table.
pub const REGION_TABLE: u64 = TEMPLATES + MAX_TEMPLATES as u64 * TEMPLATE_BLOCKS;
/// Blocks of a region.
pub const REGION_BLOCKS: u64 = 16384;
/// Bits in a sector of a map or table.
pub const BITS_A_SECTOR: u64 = 2048;
/// Largest number of blocks of a volume: 48 bits of block + 1 in the registry, and one region table block is 1 TiB.
pub const MAX_BLOCKS: u64 = 1 << 40;
/// Least number of blocks: the fixed area, its map, the superblock's copy and something to use.
pub const MIN_BLOCKS: u64 = REGION_TABLE + 8;

/// A block of bytes.
pub type Block = [u8; BLOCK_SIZE];

/// State of a volume, as its superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Free maps on disk are not current: recovery must traverse.
    Dirty = 0,
    /// Free maps on disk are current.
    Clean = 1,
}

/// The superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Whether the free maps can be trusted.
    pub state: State,
    /// Blocks of the volume, the superblock's copy included.
    pub blocks: u64,
    /// 16 random bytes.
    pub volume: [u8; 16],
    /// How often it was opened for writing.
    pub mounts: u64,
}

/// One entry of the root catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Name, padded with zeros.
    pub name: [u8; 48],
    /// Root block of the tree.
    pub block: u64,
    /// Most blocks that the tree may own; 0 for no limit.
    pub quota: u64,
    /// Template of the root block.
    pub template: u8,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.first_chunk::<8>()).map_or(0, |part| u64::from_le_bytes(*part))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.first_chunk::<4>()).map_or(0, |part| u32::from_le_bytes(*part))
}

/// Writes the checksum of each sector of a metadata block.
pub fn seal(volume: &[u8; 16], block: u64, bytes: &mut Block) {
    seal_sectors(crc32c, volume, block, 0..SECTORS, bytes);
}

/// The same for some sectors: a kernel has no time for all in one entry.
pub fn seal_sectors(crc: Crc, volume: &[u8; 16], block: u64, sectors: Range<usize>, bytes: &mut Block) {
    for (index, sector) in bytes.chunks_exact_mut(SECTOR_SIZE).enumerate().take(sectors.end).skip(sectors.start) {
        let sum = of_sector(crc, volume, block, index, &sector[..CONTENT]);
        sector[CONTENT..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Checks the checksum of one sector.
pub fn verify_sector(volume: &[u8; 16], block: u64, index: usize, sector: &[u8]) -> Result<()> {
    compare(crc32c, volume, block, index, sector)
}

fn compare(crc: Crc, volume: &[u8; 16], block: u64, index: usize, sector: &[u8]) -> Result<()> {
    let sum = of_sector(crc, volume, block, index, &sector[..CONTENT]);
    if half(sector, CONTENT) == sum { Ok(()) } else { Err(Error::Damaged(block)) }
}

/// Checks the checksums of all sectors of a metadata block.
pub fn verify(volume: &[u8; 16], block: u64, bytes: &Block) -> Result<()> {
    verify_sectors(crc32c, volume, block, 0..SECTORS, bytes)
}

/// The same for some sectors.
pub fn verify_sectors(crc: Crc, volume: &[u8; 16], block: u64, sectors: Range<usize>, bytes: &Block) -> Result<()> {
    bytes
        .chunks_exact(SECTOR_SIZE)
        .enumerate()
        .take(sectors.end)
        .skip(sectors.start)
        .try_for_each(|(index, sector)| compare(crc, volume, block, index, sector))
}

impl Superblock {
    /// Reads and checks the superblock in `bytes`, which were read from `block`.
    pub fn decode(bytes: &Block, block: u64) -> Result<Self> {
        let mut volume = [0; 16];
        volume.copy_from_slice(&bytes[24..40]);
        let blocks = word(bytes, 16);
        verify_sector(&volume, block, 0, &bytes[..SECTOR_SIZE])?;
        let known = bytes.starts_with(&MAGIC) && half(bytes, 8) == VERSION;
        let state = match half(bytes, 12) {
            0 => State::Dirty,
            1 => State::Clean,
            _ => return Err(Error::Damaged(block)),
        };
        if known && (MIN_BLOCKS..=MAX_BLOCKS).contains(&blocks) {
            Ok(Self { state, blocks, volume, mounts: word(bytes, 40) })
        } else {
            Err(Error::Damaged(block))
        }
    }

    /// The sealed superblock as `block` holds it.
    pub fn encode(&self, block: u64, bytes: &mut Block) {
        self.put(bytes);
        seal(&self.volume, block, bytes);
    }

    /// The superblock without checksums.
    pub fn put(&self, bytes: &mut Block) {
        bytes.fill(0);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.state as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.volume);
        bytes[40..48].copy_from_slice(&self.mounts.to_le_bytes());
    }

    /// Number of regions.
    pub fn regions(&self) -> u64 {
        self.blocks.div_ceil(REGION_BLOCKS)
    }

    /// Blocks of the region table.
    pub fn region_table_blocks(&self) -> u64 {
        self.regions().div_ceil(BITS_A_SECTOR * SECTORS as u64)
    }

    /// The block with the free map of `region`.
    pub fn map_block(&self, region: u64) -> u64 {
        if region == 0 { REGION_TABLE + self.region_table_blocks() } else { region * REGION_BLOCKS }
    }

    /// Whether `block` belongs to no tree: superblock and copy, catalogues, region table, free maps.
    pub fn is_fixed(&self, block: u64) -> bool {
        let map = self.map_block(block / REGION_BLOCKS);
        block <= self.map_block(0) || block == map || block + 1 >= self.blocks
    }

    /// Whether the volume has room for its fixed areas.
    pub fn is_sound(&self) -> bool {
        self.map_block(0) + 2 < self.blocks && self.map_block(0) < REGION_BLOCKS
    }
}

impl Root {
    /// Byte in the root catalogue at which `slot` starts.
    fn place(slot: usize) -> usize {
        slot / ROOTS_A_SECTOR * SECTOR_SIZE + slot % ROOTS_A_SECTOR * ROOT_SIZE
    }

    /// The root in `slot` of the verified root catalogue, if there is one.
    pub fn decode(catalogue: &Block, slot: usize) -> Option<Self> {
        let entry = catalogue.get(Self::place(slot)..)?.first_chunk::<ROOT_SIZE>()?;
        let block = word(entry, 48);
        let mut name = [0; 48];
        name.copy_from_slice(&entry[..48]);
        (block != 0).then(|| Self { name, block, quota: word(entry, 56), template: entry[64] })
    }

    /// Writes `root`, or an empty entry, to `slot` of the root catalogue.
    pub fn encode(root: Option<&Self>, catalogue: &mut Block, slot: usize) {
        let start = Self::place(slot);
        let entry = &mut catalogue[start..start + ROOT_SIZE];
        entry.fill(0);
        if let Some(root) = root {
            entry[..48].copy_from_slice(&root.name);
            entry[48..56].copy_from_slice(&root.block.to_le_bytes());
            entry[56..64].copy_from_slice(&root.quota.to_le_bytes());
            entry[64] = root.template;
        }
    }
}

/// Reads the header of a template slot from the verified first block of the slot.
pub fn decode_template(block: u64, bytes: &Block) -> Result<Template> {
    let (owns, access) = (half(bytes, 76), half(bytes, 80));
    let kind = match bytes[64] {
        0 => Kind::None,
        1 => Kind::Leaf,
        2 => Kind::Metadata,
        _ => return Err(Error::Damaged(block)),
    };
    let children = usize::from(bytes[65]);
    if children > 8 || owns as usize > crate::template::MAX_OWNS || access as usize > crate::template::MAX_ACCESS {
        return Err(Error::Damaged(block));
    }
    let mut template = Template { kind, owns_size: owns, access_size: access, ..Template::NONE };
    template.children[..children].copy_from_slice(&bytes[66..66 + children]);
    template.child_count = bytes[65];
    Ok(template)
}

/// Writes block `index` (0 to 3) of a template slot; the caller seals it.
pub fn encode_template(name: &[u8], template: &Template, programs: [&[u8]; 2], index: usize, bytes: &mut Block) {
    bytes.fill(0);
    if index == 0 {
        let length = name.len().min(64);
        bytes[..length].copy_from_slice(&name[..length]);
        bytes[64] = template.kind as u8;
        bytes[65] = template.child_count;
        bytes[66..74].copy_from_slice(&template.children);
        bytes[76..80].copy_from_slice(&(programs[0].len() as u32).to_le_bytes());
        bytes[80..84].copy_from_slice(&(programs[1].len() as u32).to_le_bytes());
    }
    for sector in usize::from(index == 0)..SECTORS {
        let start = (index * SECTORS + sector - 1) * CONTENT;
        for at in 0..CONTENT {
            let place = start + at;
            let byte = programs[0].get(place).or_else(|| programs[1].get(place.wrapping_sub(programs[0].len())));
            bytes[sector * SECTOR_SIZE + at] = byte.copied().unwrap_or(0);
        }
    }
}

/// Writes what a new volume holds at `block`; false for blocks that need not be written. Template slots start empty.
pub fn initial_block(superblock: &Superblock, block: u64, bytes: &mut Block) -> bool {
    bytes.fill(0);
    if block == 0 || block + 1 == superblock.blocks {
        superblock.encode(block, bytes);
        return true;
    }
    let region = block / REGION_BLOCKS;
    if block == superblock.map_block(region) {
        for index in 0..REGION_BLOCKS {
            let number = region * REGION_BLOCKS + index;
            if number >= superblock.blocks || superblock.is_fixed(number) {
                set_bit(bytes, index);
            }
        }
    }
    let fixed = superblock.is_fixed(block);
    if fixed {
        seal(&superblock.volume, block, bytes);
    }
    fixed
}

/// Byte and bit of entry `index` of a map or table block.
fn bit_place(index: u64) -> (usize, u8) {
    let (sector, bit) = ((index / BITS_A_SECTOR) as usize, index % BITS_A_SECTOR);
    (sector * SECTOR_SIZE + (bit / 8) as usize, 1 << (bit % 8))
}

/// Sets bit `index` of a map or table block.
pub fn set_bit(bytes: &mut Block, index: u64) {
    let (place, mask) = bit_place(index);
    bytes[place] |= mask;
}

/// Bit `index` of a map or table block.
pub fn bit(bytes: &Block, index: u64) -> bool {
    let (place, mask) = bit_place(index);
    bytes[place] & mask != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock { state: State::Clean, blocks: 40_000, volume: [9; 16], mounts: 3 }
    }

    #[test]
    fn a_superblock_survives_and_each_flipped_bit_is_found() {
        let mut bytes = [0; BLOCK_SIZE];
        superblock().encode(0, &mut bytes);
        assert_eq!(Superblock::decode(&bytes, 0), Ok(superblock()));
        for at in 0..SECTOR_SIZE * 8 {
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(Superblock::decode(&bytes, 0).is_err(), "bit {at}");
            bytes[at / 8] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn roots_and_maps_use_the_content_of_sectors_only() {
        let mut bytes = [0; BLOCK_SIZE];
        let root = Root { name: [7; 48], block: 5, quota: 6, template: 8 };
        for slot in 0..MAX_ROOTS {
            Root::encode(Some(&root), &mut bytes, slot);
        }
        assert!((0..MAX_ROOTS).all(|slot| Root::decode(&bytes, slot) == Some(root)));
        Root::encode(None, &mut bytes, 3);
        assert_eq!(Root::decode(&bytes, 3), None);
        (0..REGION_BLOCKS).for_each(|index| set_bit(&mut bytes, index));
        seal(&[1; 16], 4, &mut bytes);
        assert!((0..REGION_BLOCKS).all(|index| bit(&bytes, index)));
        assert_eq!(verify(&[1; 16], 4, &bytes), Ok(()));
    }

    #[test]
    fn fixed_blocks_of_every_region() {
        let superblock = superblock();
        let fixed: std::vec::Vec<u64> = (REGION_TABLE..40_000).filter(|block| superblock.is_fixed(*block)).collect();
        assert_eq!(fixed, [258, 259, 16_384, 32_768, 39_999]);
    }
}
