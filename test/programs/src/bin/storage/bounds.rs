//! Bounds of storage: the memory that the kernel has for blocks, and the steps of a recovery.

use crate::program::{DATA, DIRECTORY, ENTRIES};
use crate::volume::{KEY, WORST, add, info, on_a_volume, once, persist, person, run, settled, tree, visit};
use abi::storage::{ROOT, state, step};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime::{KeyIndex, channel, exposed, syscall};
use test_programs::{Outcome, World, check, granted};

/// Bytes that the kernel has without a disk, but for a fiftieth of memory: as in the guest `page`.
const KERNEL_BYTES: u64 = 8 << 20;
/// Bytes of a frame, its record, and its two slots in the registry's hash, which has a power of two of them.
const FRAME_BYTES: u64 = 4096 + 64 + 2 * 2 * 4;
/// Instructions that one entry of the kernel may take.
const ENTRY: u64 = 20_000;

pub(crate) fn the_kernel_has_little_memory_for_blocks(world: &World) -> Outcome {
    let frames = exposed::kernel().frames.load(Relaxed);
    let (kept, all) = (exposed::kernel().kernel_pages.load(Relaxed) * 4096, world.all_pages * 4096);
    channel::measurement("frames", frames, "frames");
    channel::measurement("kept by the kernel", kept, "bytes");
    check!(frames * FRAME_BYTES <= all / 50, "{frames} frames in {all} bytes");
    check!(kept <= KERNEL_BYTES + 2 * (all / 50), "the kernel has {kept} of {all} bytes");
    Ok(())
}

/// Metadata blocks of the volume that is recovered: a root, its children, and theirs.
const BLOCKS: u64 = (1 + ENTRIES + ENTRIES * ENTRIES) as u64;
/// Calls that visit one block: one for each of its sectors.
const CALLS: u64 = 8;

/// Makes block `first + index` a child of the block in `frame`, for each entry; frames follow blocks.
fn children(alice: KeyIndex, frame: u64, first: u64, template: u8) -> Outcome {
    for index in 0..ENTRIES as u64 {
        granted!(add(alice, frame, index as usize, first + index, template));
        granted!(syscall::block_bind(alice, frame, 0, first + index, frame_of(first + index)));
    }
    Ok(())
}

/// Binds the blocks below `frame` in the order of the disk, and visits each.
fn recover(alice: KeyIndex) -> Result<u64, alloc::string::String> {
    let tree = granted!(once(KEY, step::MOUNT, 0, 0));
    granted!(syscall::block_bind(alice, ROOT | tree, 0, 0, 1));
    check!(settled(1), "the root does not come");
    let mut calls = visit(1)?;
    let mut below: Vec<(u64, u64)> = (0..ENTRIES as u64).map(|index| (1, 301 + index)).collect();
    while let Some((parent, block)) = below.pop() {
        let frame = frame_of(block);
        granted!(syscall::block_bind(alice, parent, 0, block, frame));
        check!(settled(frame), "block {block} does not come");
        calls += visit(frame)?;
        if block <= 300 + ENTRIES as u64 {
            let first = first_below(block);
            below.extend((0..ENTRIES as u64).map(|index| (frame, first + index)));
        }
    }
    Ok(calls)
}

/// Frame of a block of the tree.
fn frame_of(block: u64) -> u64 {
    block - 299
}

/// First block below one of the root's children.
fn first_below(block: u64) -> u64 {
    301 + ENTRIES as u64 * (block - 300)
}

pub(crate) fn a_recovery_takes_few_steps_for_each_block(world: &World) -> Outcome {
    on_a_volume(|_| {
        let (alice, name) = person()?;
        let own = tree(alice, name, 300, 1)?;
        children(alice, 1, 301, DIRECTORY)?;
        for child in 301..301 + ENTRIES as u64 {
            children(alice, frame_of(child), first_below(child), DIRECTORY)?;
        }
        for block in (300..300 + BLOCKS).rev() {
            persist(frame_of(block))?;
        }
        granted!(once(KEY, step::ENTER, own << 8, [9_u8; 48].as_ptr() as u64));
        persist(0)?;
        granted!(run(step::CLOSE, 0, 0));
        granted!(run(step::OPEN, 0, 0));
        for slot in [DIRECTORY, DATA] {
            granted!(run(step::TEMPLATE, slot.into(), 0));
        }
        granted!(run(step::MAP, 0, 0));
        granted!(once(KEY, step::RECOVER, 0, 0));
        let calls = recover(alice)?;
        channel::measurement("visits of a recovery", calls, "calls");
        check!(calls <= CALLS * BLOCKS, "{calls} calls for {BLOCKS} blocks");
        granted!(once(KEY, step::RECOVERED, 0, 0));
        granted!(run(step::START, 0, 0));
        check!(info(1).state.load(Acquire) & state::RESIDENT != 0, "the root is gone");
        Ok(granted!(runtime::key::discard(alice)))
    })?;
    let worst = WORST[step::CHECK as usize].load(Acquire);
    check!(!world.counting || worst <= ENTRY, "one visit took {worst} instructions");
    Ok(())
}
