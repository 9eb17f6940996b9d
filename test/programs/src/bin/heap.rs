//! The heap of the runtime: what is freed goes back to the kernel, also between blocks that stay, and comes again. The
//! tests share a heap: it lies in parts from the second one on.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::{area, exposed, heap};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, guest};

guest! {
    Here the_end_of_a_heap_goes_back;
    Here in_parts_what_lies_between_goes_back;
    Here in_parts_large_blocks_go_back_at_once;
    Here in_parts_random_blocks_keep_their_bytes;
    Here in_parts_no_block_is_had_that_nobody_provides_for;
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Pages that are charged to this environment.
fn used() -> u64 {
    exposed::environment(area::number()).map_or(0, |own| own.budget[Resource::Page as usize].used.load(Relaxed))
}

/// So many small blocks of mixed sizes.
fn small_blocks(count: usize) -> Vec<Box<[u8]>> {
    (0..count).map(|index| filled(200 + index % 400, index)).collect()
}

fn filled(bytes: usize, value: usize) -> Box<[u8]> {
    alloc::vec![value as u8; bytes].into_boxed_slice()
}

fn the_end_of_a_heap_goes_back(_: &World) -> Outcome {
    drop(small_blocks(10));
    let before = used();
    let blocks = small_blocks(8_000);
    check!(used() > before + 500, "the blocks lie in no pages");
    drop(blocks);
    heap::release_end();
    check!(used() < before + 40, "the end of the heap stays");
    Ok(())
}

/// A block in a hundred stays, also the last one. The others give back most of their pages.
fn in_parts_what_lies_between_goes_back(_: &World) -> Outcome {
    heap::in_parts();
    let before = used();
    let mut peaks = Vec::new();
    for _ in 0..5 {
        let blocks = small_blocks(16_000);
        let peak = used();
        let stay: Vec<_> = blocks.into_iter().enumerate().filter(|(index, _)| index % 1000 == 999).collect();
        check!(stay.iter().all(|(index, block)| block.iter().all(|byte| *byte == *index as u8)), "bytes changed");
        let left = used();
        check!(left - before < (peak - before) / 2, "half of the pages stay for a block in a thousand");
        drop(stay);
        peaks.push(peak);
    }
    heap::release_end();
    check!(used() < before + 60, "pages stay without a block");
    check!(peaks.iter().all(|peak| *peak <= peaks[0] + 60), "further rounds take more pages");
    Ok(())
}

fn in_parts_large_blocks_go_back_at_once(_: &World) -> Outcome {
    heap::in_parts();
    // Tables for the places, and pages of the stack, come with the first two rounds.
    let mut before = 0;
    for round in 0..200 {
        let (first, second) = (filled(257 * KIB + round, round), filled(MIB - round, round + 1));
        check!(used() >= before + 64 + 255, "large blocks lie in no pages of their own");
        drop(first);
        check!(second.iter().all(|byte| *byte == (round + 1) as u8), "bytes of the block that stays changed");
        drop(second);
        check!(round < 2 || used() == before, "round {round}: freed blocks keep {} pages", used() - before);
        before = used();
    }
    // More of a size than there are places: the rest lies elsewhere, and comes back as well.
    let many: Vec<_> = (0..100).map(|value| filled(40 * KIB, value)).collect();
    check!(
        many.iter().enumerate().all(|(value, block)| block.iter().all(|byte| *byte == value as u8)),
        "bytes changed"
    );
    drop(many);
    heap::release_end();
    check!(used() < before + 60, "blocks beyond the places keep pages");
    Ok(())
}

fn in_parts_random_blocks_keep_their_bytes(_: &World) -> Outcome {
    heap::in_parts();
    let before = used();
    let mut random = Random(31);
    let mut blocks: Vec<(usize, Box<[u8]>)> = Vec::new();
    for value in 0..20_000 {
        if blocks.len() > 300 || (random.below(2) == 0 && !blocks.is_empty()) {
            let (value, block) = blocks.swap_remove(random.below(blocks.len() as u64) as usize);
            check!(block.iter().all(|byte| *byte == value as u8), "bytes of a block changed");
        } else {
            let bytes = 1 << random.below(19);
            blocks.push((value, filled(bytes + random.below(bytes as u64) as usize, value)));
        }
    }
    blocks.clear();
    blocks.shrink_to_fit();
    heap::release_end();
    check!(used() < before + 60, "pages stay without a block");
    Ok(())
}

/// Pages that are still provided.
static PROVIDED: AtomicU64 = AtomicU64::new(u64::MAX);

fn in_parts_no_block_is_had_that_nobody_provides_for(_: &World) -> Outcome {
    heap::in_parts();
    heap::provide_by(|pages| PROVIDED.load(Relaxed) >= pages);
    let before = used();
    PROVIDED.store(0, Relaxed);
    let mut block = Vec::<u8>::new();
    let refused = block.try_reserve_exact(MIB).is_err();
    PROVIDED.store(u64::MAX, Relaxed);
    check!(refused && used() == before, "pages came that nobody provided");
    check!(block.try_reserve_exact(MIB).is_ok(), "no pages came although they are provided again");
    drop(block);
    check!(used() <= before + 2, "the refused block keeps pages or its place");
    Ok(())
}
