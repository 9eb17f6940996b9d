//! Filters as code: constants that look like instructions, and as many filters as there is room for.

use crate::wire::{KEY, KIND, Ring, equal, filter_to, header, insert, loopback, remove, root, sender};
use abi::packet_filter::FilterSpecification;
use alloc::string::String;
use alloc::vec::Vec;
use runtime::Error;
use test_programs::random::Random;
use test_programs::{Outcome, World, check, granted};

/// Instructions by which attackers leave compiled code: `syscall`, `int 0x80`, `sysret`, `iretq`, `wrmsr`, `mov cr3`,
/// jumps, calls and returns.
const GADGETS: [u32; 12] = [
    0x9090_050f,
    0x050f_9090,
    0x0f90_90cd,
    0x80cd_9090,
    0x070f_4890,
    0xcf48_9090,
    0x300f_9090,
    0xd822_0f90,
    0xfeeb_9090,
    0xe0ff_9090,
    0xd0ff_c3c3,
    0xc3c3_c3c3,
];
/// Filters that are in the table at once.
const TOGETHER: usize = 24;

/// A filter of frames with a word, whose tag says which it is.
fn tagged(ring: &Ring, root: u64, word: u32, tag: u16) -> Result<u64, String> {
    let atoms = [loopback(), equal(2, 12, u32::from(KIND)), equal(4, 14, word)];
    Ok(granted!(insert(KEY, &FilterSpecification { tag: tag.into(), ..filter_to(ring, root, &atoms) })))
}

/// Sends a frame with a word: the tag of the filter that took it.
fn takes(ring: &mut Ring, sender: u64, word: u32) -> Result<Option<u64>, String> {
    granted!(ring.send(sender, &header(KIND, word), &[]));
    Ok(ring.take().map(|frame| frame.tag()))
}

/// What a program chooses as a constant is compared whole, and never executed: the kernel hides it.
pub(crate) fn fault_55_constants_that_are_instructions(_: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(8, 8)?, granted!(root()), granted!(sender()));
    let mut random = Random(55);
    for round in 0..8 {
        let mut words: Vec<u32> = GADGETS.iter().map(|word| word.rotate_left(8 * (round % 4))).collect();
        while words.len() < TOGETHER {
            let word = random.number() as u32;
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.sort_unstable();
        words.dedup();
        let mut filters = Vec::new();
        for (tag, word) in (1..).zip(&words) {
            filters.push(tagged(&ring, root, *word, tag)?);
        }
        for (tag, word) in (1..).zip(&words) {
            let found = takes(&mut ring, sender, *word)?;
            check!(found == Some(tag), "{word:#x} was taken by {found:?}, not {tag}");
            for bit in 0..32 {
                let other = word ^ 1 << bit;
                let found = takes(&mut ring, sender, other)?;
                check!(words.contains(&other) == found.is_some(), "{other:#x} was taken by {found:?}");
            }
        }
        for filter in filters {
            granted!(remove(filter));
        }
    }
    for filter in [root, sender] {
        granted!(remove(filter));
    }
    ring.free()
}

/// The table fills up: what was inserted before the refusal still works, and there is room again afterwards.
pub(crate) fn fault_54_filters_until_there_is_no_room(_: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(8, 8)?, granted!(root()), granted!(sender()));
    for _ in 0..2 {
        let mut filters = Vec::new();
        let refusal = loop {
            let word = (filters.len() as u32).wrapping_mul(0x9e37_79b9);
            let atoms = [loopback(), equal(2, 12, u32::from(KIND)), equal(4, 14, word)];
            let wanted = FilterSpecification { tag: filters.len() as u64 + 1, ..filter_to(&ring, root, &atoms) };
            match insert(KEY, &wanted) {
                Ok(filter) => filters.push((word, filter)),
                Err(failure) => break failure,
            }
            check!(filters.len() < 1 << 14, "there is no end of filters");
        };
        check!(
            matches!(refusal.error, Error::OverBudget | Error::Exhausted | Error::TooMany),
            "the refusal is {refusal:?}"
        );
        check!(filters.len() > 100, "only {} filters", filters.len());
        for (tag, (word, _)) in (1..).zip(&filters) {
            let found = takes(&mut ring, sender, *word)?;
            check!(found == Some(tag), "{word:#x} was taken by {found:?}, not {tag}");
        }
        for (_, filter) in filters {
            granted!(remove(filter));
        }
    }
    for filter in [root, sender] {
        granted!(remove(filter));
    }
    ring.free()
}
