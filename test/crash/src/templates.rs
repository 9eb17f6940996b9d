//! The three templates of the adversary, and its leaves.
//!
//! Every metadata block: bytes 0 to 7 of sector 0 are its ghost tag. In each sector entries of 16 bytes start at byte
//! 16. Word 0 has the block (40 bits), the count (16 bits) and template + 1 (8 bits, 0: no entry). Word 1 is the ghost
//! tag of the first block. The next blocks have the tags that follow. A tree has 6 entries a sector, a list 2, a table
//! 28. A leaf has its tag at the start of each sector.

use xn::claim::Claims;
use xn::error::Result;
use xn::format::CONTENT;
use xn::template::{AccessStep, Kind, Programs, RESERVED, Template};

pub const TREE: u8 = 0;
pub const LIST: u8 = 1;
pub const TABLE: u8 = 2;
pub const LEAF: u8 = 3;

/// Entries of a sector by template.
pub const ENTRIES: [usize; 3] = [6, 2, 28];
/// First byte of the entries of a sector.
pub const FIRST_ENTRY: usize = 16;
/// A caller with this credential is refused by the access program.
pub const STRANGER: u64 = 666;

/// An entry of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub block: u64,
    pub count: u64,
    pub template: u8,
    pub tag: u64,
}

impl Entry {
    /// The entry in 16 bytes, if they hold one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let tag = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        let template = ((word >> 56) as u8).checked_sub(1)?;
        Some(Self { block: word & (1 << 40) - 1, count: word >> 40 & 0xFFFF, template, tag })
    }

    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let word = self.block | self.count << 40 | (u64::from(self.template) + 1) << 56;
        bytes[..8].copy_from_slice(&word.to_le_bytes());
        bytes[8..].copy_from_slice(&self.tag.to_le_bytes());
        bytes
    }
}

/// The programs as native Rust.
#[derive(Clone, Copy, Default)]
pub struct Native;

impl Programs for Native {
    fn owns(&self, template: u8, content: &[u8; CONTENT], claims: &mut Claims) -> Result<()> {
        let entries = content[FIRST_ENTRY..].chunks_exact(16).take(ENTRIES[usize::from(template)]);
        for entry in entries.filter_map(Entry::decode) {
            claims.own(entry.block, entry.count, if entry.template == 254 { RESERVED } else { entry.template })?;
        }
        Ok(())
    }

    fn access(&self, _: u8, step: &AccessStep<'_>, _: &mut [u8; 512]) -> bool {
        step.request[4] != STRANGER
    }
}

/// The template records by slot.
pub fn records() -> [Template; 4] {
    let metadata = |children: &[u8]| {
        let mut template = Template { kind: Kind::Metadata, child_count: children.len() as u8, ..Template::NONE };
        template.children[..children.len()].copy_from_slice(children);
        template
    };
    let leaf = Template { kind: Kind::Leaf, ..Template::NONE };
    [metadata(&[TREE, LIST, TABLE, LEAF]), metadata(&[LIST, LEAF, RESERVED]), metadata(&[LEAF]), leaf]
}
