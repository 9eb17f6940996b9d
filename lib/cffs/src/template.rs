//! The templates of C-FFS: what XN learns about its blocks.
//!
//! | slot | template | owns |
//! |---|---|---|
//! | 0 | root | the root directory's node |
//! | 1 | directory node | child nodes, data and indirect blocks of its inodes, nodes of its directories |
//! | 2 | indirect | data, or indirect blocks |
//! | 3 | data | leaf |
//!
//! The programs on disk are BPF, made from `owns/owns.c`. [`Native`] says the same in Rust; a mount uses it only if the
//! programs on disk are exactly these. The access program permits everything to a holder of *own* on all disks, and
//! nothing to others: the server holds the volume and decides for its clients. Volumes of before have an access program
//! that permits everything, so they are not opened in the kernel.

use crate::layout::indirect::{SECTOR_POINTERS, level};
use crate::layout::inode::Inode;
use crate::layout::node::{SLOTS, child, has_inode, inode_place};
use crate::layout::{BLOCK_BITS, Content, RESERVED_BIT, get};
use xn::claim::Claims;
use xn::error::Result;
use xn::format::{Block, CONTENT, SECTOR_SIZE, SECTORS, TEMPLATE_BLOCKS, TEMPLATES, encode_template, seal};
use xn::template::{AccessStep, Kind, Programs, RESERVED, Template};

/// Slot of the root template.
pub const ROOT: u8 = 0;
/// Slot of the template of directory nodes.
pub const NODE: u8 = 1;
/// Slot of the template of indirect blocks.
pub const INDIRECT: u8 = 2;
/// Slot of the template of data.
pub const DATA: u8 = 3;
/// Number of templates.
pub const COUNT: usize = 4;

/// r0 = 1; exit.
const PERMISSIVE: [u8; 16] = [0xB7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
/// Permits a key with *own* whose name is that of all disks, components 2 and 2, or a prefix of it. Word 4 of the
/// request is the length of the name, with the rights from bit 8 on. The components follow.
#[rustfmt::skip]
const ACCESS: [u8; 112] = [
    0x79, 0x12, 32, 0, 0, 0, 0, 0,  // r2 = request[4].
    0xB7, 0x00,  0, 0, 0, 0, 0, 0,  // r0 = 0.
    0x45, 0x02,  1, 0, 0, 4, 0, 0,  // if r2 & own << 8, skip 1.
    0x95, 0x00,  0, 0, 0, 0, 0, 0,  // exit.
    0x57, 0x02,  0, 0, 255, 0, 0, 0, // r2 &= 255.
    0x15, 0x02,  6, 0, 0, 0, 0, 0,  // if r2 == 0, permit.
    0x25, 0x02,  6, 0, 2, 0, 0, 0,  // if r2 > 2, refuse.
    0x79, 0x13, 40, 0, 0, 0, 0, 0,  // r3 = request[5].
    0x55, 0x03,  4, 0, 2, 0, 0, 0,  // if r3 != 2, refuse.
    0x15, 0x02,  2, 0, 1, 0, 0, 0,  // if r2 == 1, permit.
    0x79, 0x13, 48, 0, 0, 0, 0, 0,  // r3 = request[6].
    0x55, 0x03,  1, 0, 2, 0, 0, 0,  // if r3 != 2, refuse.
    0xB7, 0x00,  0, 0, 1, 0, 0, 0,  // permit: r0 = 1.
    0x95, 0x00,  0, 0, 0, 0, 0, 0,  // refuse: exit.
];
const NAMES: [&str; COUNT] = ["c-ffs root", "c-ffs directory node", "c-ffs indirect", "c-ffs data"];
const CHILDREN: [&[u8]; COUNT] = [&[NODE], &[NODE, INDIRECT, DATA, RESERVED], &[INDIRECT, DATA, RESERVED], &[]];

/// The owns program of a template, as BPF.
pub fn owns_program(slot: u8) -> &'static [u8] {
    match slot {
        ROOT => include_bytes!("../owns/root.bin"),
        NODE => include_bytes!("../owns/node.bin"),
        INDIRECT => include_bytes!("../owns/indirect.bin"),
        _ => &[],
    }
}

/// The environments that the access programs of a volume permit to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Every environment: the volume is of before, and must stay out of the kernel's XN.
    All,
    /// The holders of *own* on all disks alone.
    Own,
}

/// The access program of a template, as BPF.
pub fn access_program(slot: u8) -> &'static [u8] {
    guarding_program(slot, Guard::Own)
}

fn guarding_program(slot: u8, guard: Guard) -> &'static [u8] {
    match (slot, guard) {
        (DATA, _) => &[],
        (_, Guard::All) => &PERMISSIVE,
        (_, Guard::Own) => &ACCESS,
    }
}

/// The record of a template.
pub fn record(slot: u8) -> Template {
    guarded_record(slot, Guard::Own)
}

fn guarded_record(slot: u8, guard: Guard) -> Template {
    let listed = CHILDREN[usize::from(slot)];
    let mut children = [0; 8];
    children[..listed.len()].copy_from_slice(listed);
    Template {
        kind: if slot == DATA { Kind::Leaf } else { Kind::Metadata },
        children,
        child_count: listed.len() as u8,
        owns_size: owns_program(slot).len() as u32,
        access_size: guarding_program(slot, guard).len() as u32,
    }
}

/// Block `index` of template slot `slot`, sealed, and its number.
pub fn encode(volume: &[u8; 16], slot: u8, index: usize, bytes: &mut Block) -> u64 {
    encode_guarded(volume, slot, Guard::Own, index, bytes)
}

/// The same with the access programs of a guard.
pub fn encode_guarded(volume: &[u8; 16], slot: u8, guard: Guard, index: usize, bytes: &mut Block) -> u64 {
    let block = TEMPLATES + u64::from(slot) * TEMPLATE_BLOCKS + index as u64;
    let programs = [owns_program(slot), guarding_program(slot, guard)];
    encode_template(NAMES[usize::from(slot)].as_bytes(), &guarded_record(slot, guard), programs, index, bytes);
    seal(volume, block, bytes);
    block
}

/// The programs in Rust.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Programs for Native {
    fn owns(&self, template: u8, content: &[u8; CONTENT], claims: &mut Claims) -> Result<()> {
        match template {
            ROOT => own_inode(content, 0, claims),
            NODE => own_node(content, claims),
            INDIRECT => own_indirect(content, claims),
            _ => Ok(()),
        }
    }

    fn access(&self, _: u8, _: &AccessStep<'_>, _: &mut [u8; 512]) -> bool {
        true
    }

    fn reads(&self, _: u8) -> u32 {
        0
    }
}

fn own(pointer: u64, kind: u8, claims: &mut Claims) -> Result<()> {
    match pointer & BLOCK_BITS {
        0 => Ok(()),
        block => claims.own(block, 1, if pointer & RESERVED_BIT != 0 { RESERVED } else { kind }),
    }
}

fn own_node(content: &Content, claims: &mut Claims) -> Result<()> {
    (0..4).try_for_each(|index| own(child(content, index) & BLOCK_BITS, NODE, claims))?;
    (0..SLOTS).try_for_each(|slot| own_inode(content, slot, claims))
}

fn own_inode(content: &Content, slot: usize, claims: &mut Claims) -> Result<()> {
    if !has_inode(content, slot) {
        return Ok(());
    }
    let inode = Inode::decode(&content[inode_place(slot)..]);
    let block = |index: usize| inode.pointers[index] & BLOCK_BITS;
    if inode.is_directory() {
        own(block(0), NODE, claims)
    } else if inode.has_long_link() {
        own(block(0), DATA, claims)
    } else if inode.is_file() {
        inode.pointers[..4].iter().try_for_each(|pointer| own(*pointer, DATA, claims))?;
        (4..7).try_for_each(|index| own(block(index), INDIRECT, claims))
    } else {
        Ok(())
    }
}

fn own_indirect(content: &Content, claims: &mut Claims) -> Result<()> {
    let pointers = (0..SECTOR_POINTERS as usize).map(|index| get(content, 8 * index, 8));
    match level(content) {
        0 => Ok(()),
        1 => pointers.into_iter().try_for_each(|pointer| own(pointer, DATA, claims)),
        _ => pointers.into_iter().try_for_each(|pointer| own(pointer & BLOCK_BITS, INDIRECT, claims)),
    }
}

/// Whose the template catalogue says that the volume is; `None` if it holds other templates than these. `read` gives a
/// block of it. What lies behind the programs is not read.
pub fn guard_of<E>(
    volume: &[u8; 16],
    mut read: impl FnMut(u64, &mut Block) -> core::result::Result<(), E>,
) -> core::result::Result<Option<Guard>, E> {
    for guard in [Guard::Own, Guard::All] {
        if has_templates(volume, guard, &mut read)? {
            return Ok(Some(guard));
        }
    }
    Ok(None)
}

fn has_templates<E>(
    volume: &[u8; 16],
    guard: Guard,
    read: &mut impl FnMut(u64, &mut Block) -> core::result::Result<(), E>,
) -> core::result::Result<bool, E> {
    let (mut own, mut found) = ([0; SECTOR_SIZE * SECTORS], [0; SECTOR_SIZE * SECTORS]);
    for slot in 0..COUNT as u8 {
        let length = owns_program(slot).len() + guarding_program(slot, guard).len();
        let blocks = (1 + length.div_ceil(CONTENT)).div_ceil(SECTORS);
        for index in 0..blocks {
            let block = encode_guarded(volume, slot, guard, index, &mut own);
            read(block, &mut found)?;
            if own != found {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
