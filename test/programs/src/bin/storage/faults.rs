//! What disks and template programs do wrong: rows 63, 66 and 69 of the matrix.

use crate::program::{CLAIMING, DATA, DIRECTORY, FIRST_ENTRY, LARGE, LONG, SLOW};
use crate::volume::{
    KEY, Raw, add, info, modify, on_a_volume, once, open, persist, person, read, run, settled, transaction, tree,
};
use abi::storage::{PROGRAM, ROOT, action, state, step, usage};
use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering::Acquire;
use runtime::{Error, KeyIndex, key, syscall};
use test_programs::{Outcome, World, check, granted, refused};
use xn::format::{BLOCK_SIZE, Block, SECTOR_SIZE};

/// Programs that explode on what a sector holds are stopped by their budget, and the sector keeps its bytes.
pub(crate) fn fault_63_programs_that_explode_are_stopped(_: &World) -> Outcome {
    on_a_volume(|_| {
        check!(run(step::TEMPLATE, LONG.into(), 0).is_err(), "a program of 600 instructions was taken");
        refused!(once(KEY, step::CREATE, 300, LONG.into()), BadArgument);
        for (index, slot) in [SLOW, CLAIMING, LARGE].into_iter().enumerate() {
            // Sectors of zeros are quick: the kernel takes the template.
            granted!(run(step::TEMPLATE, slot.into(), 0));
            let frame = 1 + index as u64;
            let tree = granted!(once(KEY, step::CREATE, 300 + frame, slot.into()));
            granted!(syscall::block_bind(KEY, ROOT | tree, 0, 0, frame));
            let version = info(frame).version.load(Acquire);
            let change = transaction(frame, FIRST_ENTRY, &u64::MAX.to_le_bytes(), &[]);
            let refusal = modify(KEY, &change).map_err(|failure| (failure.error, failure.detail & PROGRAM));
            check!(refusal == Err((Error::BadArgument, PROGRAM)), "template {slot} gave {refusal:?}");
            let mut bytes = [1; BLOCK_SIZE];
            granted!(read(KEY, frame, &mut bytes));
            check!(bytes[..508].iter().all(|byte| *byte == 0), "template {slot}: the refused change is there");
            check!(info(frame).version.load(Acquire) % 2 == version % 2, "template {slot}: the version stays odd");
            // A change that the program can judge is made.
            granted!(modify(KEY, &transaction(frame, FIRST_ENTRY + 16, &[7], &[])));
        }
        Ok(())
    })
}

/// Trees that would own each other are refused, and of a chain of dirty blocks the last can always be written.
pub(crate) fn fault_66_no_cycle_of_writes_can_be_made(_: &World) -> Outcome {
    const DEPTH: u64 = 6;
    on_a_volume(|_| {
        let (alice, name) = person()?;
        // Of a tree with a root in the catalogue: others may be written in any order.
        let own = tree(alice, name, 300, 1)?;
        persist(1)?;
        granted!(once(KEY, step::ENTER, own << 8, [1_u8; 48].as_ptr() as u64));
        persist(0)?;
        for depth in 0..DEPTH {
            let (frame, block) = (1 + depth, 301 + depth);
            granted!(add(alice, frame, 0, block, DIRECTORY));
            granted!(syscall::block_bind(alice, frame, 0, block, frame + 1));
        }
        let last = 1 + DEPTH;
        let close = |frame, block: u64| {
            let entry = (block | u64::from(DIRECTORY) << 56).to_le_bytes();
            modify(alice, &transaction(frame, FIRST_ENTRY, &entry, &[(block, action::ATTACH, DIRECTORY)]))
        };
        check!(close(last, 300).is_err(), "the last block owns the first");
        check!(close(last, 300 + DEPTH).is_err(), "a block owns itself");
        // Two trees: one becomes part of the other, and then not the other way round.
        let (bob, his) = person()?;
        tree(bob, his, 320, 20)?;
        granted!(close(last, 320));
        check!(close(20, 300).is_err(), "a child owns the root of its tree");
        persist(20)?;
        for frame in (1..=last).rev() {
            for parent in 1..frame {
                let refusal = syscall::block_submit(KEY, parent).map_err(|failure| failure.error);
                check!(refusal == Err(Error::Unready), "parent {parent} before {frame} gave {refusal:?}");
            }
            persist(frame)?;
        }
        granted!(key::discard(alice));
        Ok(granted!(key::discard(bob)))
    })
}

/// What a disk may have made of the last write of block 300.
struct Written {
    before: Block,
    after: Block,
    child: Block,
}

/// A clean volume: root 300 of directories, leaf 301, and directory 302. Block 300 was written twice: sector 0 names
/// 301 and 302, then sectors 1 and 5 get a byte.
fn written(raw: &Raw, alice: KeyIndex, name: u64) -> Result<Written, String> {
    let own = tree(alice, name, 300, 1)?;
    granted!(add(alice, 1, 0, 301, DATA));
    granted!(add(alice, 1, 1, 302, DIRECTORY));
    granted!(syscall::block_bind(alice, 1, 0, 301, 2));
    granted!(syscall::block_bind(alice, 1, 0, 302, 3));
    for frame in [2, 3, 1] {
        persist(frame)?;
    }
    granted!(once(KEY, step::ENTER, own << 8, [9_u8; 48].as_ptr() as u64));
    persist(0)?;
    let before = raw.read(300)?;
    for sector in [1, 5] {
        granted!(modify(alice, &transaction(1, sector * SECTOR_SIZE + 400, &[sector as u8], &[])));
    }
    persist(1)?;
    granted!(run(step::STOP, 0, 0));
    granted!(run(step::CLOSE, 0, 0));
    Ok(Written { before, after: raw.read(300)?, child: raw.read(302)? })
}

/// Opens the volume to read, and binds its root block. `None`: the kernel found damage. Else bytes 400 of sectors 1
/// and 5.
fn bound(alice: KeyIndex) -> Result<Option<[u8; 2]>, String> {
    granted!(run(step::OPEN, 0, 0));
    for slot in [DIRECTORY, DATA] {
        granted!(run(step::TEMPLATE, slot.into(), 0));
    }
    granted!(run(step::MAP, 0, 0));
    let tree = granted!(once(KEY, step::MOUNT, 0, 0));
    granted!(syscall::block_bind(alice, ROOT | tree, 0, 0, 1));
    let found = if settled(1) {
        let mut bytes = [0; BLOCK_SIZE];
        granted!(read(alice, 1, &mut bytes));
        let uses = granted!(once(KEY, step::MAP_READ, 300, 0));
        let used = (300..303_u64).all(|block| uses >> (block % 32 * 2) & 3 == usage::USED);
        check!(used, "the map of a clean volume has {uses:x}");
        Some([1, 5].map(|sector| bytes[sector * SECTOR_SIZE + 400]))
    } else {
        check!(info(1).state.load(Acquire) & state::RESIDENT == 0, "a damaged block is resident");
        None
    };
    granted!(run(step::CLOSE, 0, 0));
    Ok(found)
}

/// Torn, lost and repeated writes leave an old or a new version of each sector. Misdirected ones are found.
pub(crate) fn fault_69_a_disk_that_writes_wrongly_is_found_or_harmless(_: &World) -> Outcome {
    on_a_volume(|raw| {
        let (alice, name) = person()?;
        let written = written(raw, alice, name)?;
        let expect = |block: &Block, wanted: Option<[u8; 2]>, what: &str| {
            raw.write(300, block)?;
            let found = bound(alice)?;
            check!(found == wanted, "{what}: {found:?}, not {wanted:?}");
            Ok(())
        };
        let sectors = |from: &Block, to: &Block, first: usize, behind: usize| {
            let mut mixed = *to;
            mixed[first * SECTOR_SIZE..behind * SECTOR_SIZE]
                .copy_from_slice(&from[first * SECTOR_SIZE..behind * SECTOR_SIZE]);
            mixed
        };
        let Written { before, after, child } = &written;
        expect(after, Some([1, 5]), "the last write, again")?;
        expect(before, Some([0, 0]), "a lost write")?;
        for behind in 1..8 {
            let torn = sectors(after, before, 0, behind);
            let new = |sector: usize| if sector < behind { sector as u8 } else { 0 };
            expect(&torn, Some([1, 5].map(new)), &format!("a write torn behind sector {behind}"))?;
        }
        expect(child, None, "block 302 at 300")?;
        expect(&raw.read(1)?, None, "the root catalogue at 300")?;
        expect(&sectors(child, after, 3, 4), None, "a sector of block 302")?;
        let mut shifted = *after;
        shifted.copy_within(SECTOR_SIZE..2 * SECTOR_SIZE, 2 * SECTOR_SIZE);
        expect(&shifted, None, "a sector at the place of its neighbour")?;
        let mut cut = *after;
        cut[5 * SECTOR_SIZE + 300..5 * SECTOR_SIZE + 450].fill(0);
        expect(&cut, None, "a sector that was written in part")?;
        expect(after, Some([1, 5]), "the last write")?;
        open()?;
        Ok(granted!(key::discard(alice)))
    })
}
