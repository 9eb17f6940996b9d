//! What packets cost, in instructions, and that no row takes longer than an entry may (NETWORK: 250 filters as 1).

use crate::wire::{
    KEY, KIND, Ring, become_ring, equal, filter_in, free_ring, header, insert, loopback, remove, root, sender,
};
use abi::limits::{BATCH_ROWS, FILTERS_PER_CODE_PAGE, PAGE_SIZE, SEND_ROWS};
use abi::packet_filter::{Atom, FilterSpecification};
use abi::packet_ring::SendSlot;
use abi::syscall::{BatchRow, number};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use runtime::page::Allocator;
use runtime::{PageNumber, UserAddress, channel, clock, exposed, syscall};
use test_programs::{Outcome, World, check, granted};

/// Instructions of sending `count` frames with so much payload, the least of some calls.
fn cost(ring: &mut Ring, filter: u64, kind: u16, payload: u64, count: u64) -> Result<u64, String> {
    let mut least = u64::MAX;
    let page = SendSlot::segment(ring.pages[1], 0, payload.max(1));
    let segments: &[u64] = if payload == 0 { &[] } else { &[page] };
    let mut bytes = [0; 60];
    bytes[..18].copy_from_slice(&header(kind, 5));
    let header = if payload == 0 { &bytes[..] } else { &bytes[..54] };
    for _ in 0..8 {
        for slot in 0..count {
            ring.fill(slot as usize, filter, header, segments, 0);
        }
        let before = clock::ticks();
        let sent = syscall::packet_send(KEY, ring.object, 0, count);
        least = least.min(clock::ticks() - before);
        check!(granted!(sent) == count, "{sent:?} frames of {count} were sent");
        while ring.take().is_some() {}
    }
    Ok(least)
}

/// Costs of one frame of 60 and of 1,460 bytes, into a ring and unclaimed, and of a further one in a call. They are
/// nanoseconds of any length where the clock does not count instructions.
fn costs(ring: &mut Ring, filter: u64) -> Result<[u64; 6], String> {
    let mut one = |kind, payload, count| cost(ring, filter, kind, payload, count);
    let (small, large) = (one(KIND, 0, 1)?, one(KIND, 1406, 1)?);
    let (unclaimed, large_unclaimed) = (one(1, 0, 1)?, one(1, 1406, 1)?);
    let further = one(KIND, 0, 8)?.saturating_sub(small) / 7;
    let further_unclaimed = one(1, 0, 8)?.saturating_sub(unclaimed) / 7;
    Ok([small, large, unclaimed, large_unclaimed, further, further_unclaimed])
}

/// The same with 10,000 filters in the root.
fn of_10_000(ring: &mut Ring, root: u64, sender: u64, others: &mut Vec<u64>) -> Result<[u64; 6], String> {
    for word in others.len() as u32..10_000 {
        let atoms = [loopback(), equal(2, 12, u32::from(KIND)), equal(4, 14, 1000 + word)];
        others.push(granted!(insert(KEY, &filter_in(root, &atoms))));
    }
    costs(ring, sender)
}

pub(crate) fn what_a_packet_costs(world: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(16, 8)?, granted!(root()), granted!(sender()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let few = costs(&mut ring, sender)?;
    let mut others = Vec::new();
    for word in 0..250 {
        let atoms = [loopback(), equal(2, 12, u32::from(KIND)), equal(4, 14, 1000 + word)];
        others.push(granted!(insert(KEY, &filter_in(root, &atoms))));
    }
    let many = costs(&mut ring, sender)?;
    let room = exposed::kernel().code_arena_pages.load(Ordering::Relaxed) * FILTERS_PER_CODE_PAGE;
    let most = if room > 10_300 { Some(of_10_000(&mut ring, root, sender, &mut others)?) } else { None };
    let names = [
        "60 B into a ring",
        "1460 B into a ring",
        "60 B unclaimed",
        "1460 B unclaimed",
        "each further, 60 B into a ring",
        "each further, 60 B unclaimed",
    ];
    for ((name, few), many) in names.iter().zip(few).zip(many) {
        channel::measurement(&format!("send {name}, 2 filters"), few, "instructions");
        channel::measurement(&format!("send {name}, 252 filters"), many, "instructions");
    }
    for (name, most) in names.iter().zip(most.into_iter().flatten()) {
        channel::measurement(&format!("send {name}, 10,002 filters"), most, "instructions");
    }
    if world.counting {
        let [small, large, unclaimed, large_unclaimed, ..] = few;
        for more in [Some(many), most].into_iter().flatten() {
            let is_near = more.iter().zip(few).all(|(more, few)| more * 10 <= few * 11 + 400);
            check!(is_near, "{more:?} with more filters, {few:?} without");
        }
        check!(
            small - unclaimed <= 420 && large - large_unclaimed <= 600,
            "into a ring: {} and {}",
            small - unclaimed,
            large - large_unclaimed
        );
        check!(unclaimed <= 500 && few[5] <= 250, "sending: {unclaimed}, each further {}", few[5]);
    }
    for filter in others.into_iter().chain([root, sender]) {
        granted!(remove(filter));
    }
    ring.free()
}

fn row(number: u64, arguments: &[u64]) -> BatchRow {
    let mut row = BatchRow { number, ..BatchRow::default() };
    row.arguments[..arguments.len()].copy_from_slice(arguments);
    row
}

/// Runs a batch and gives what it took.
fn batch(rows: &[BatchRow]) -> u64 {
    let mut rows: Vec<BatchRow> = rows.to_vec();
    let before = clock::ticks();
    // SAFETY: the kernel reads specifications and slots, and writes rings that are windows of atomic words.
    let _ = unsafe { syscall::batch(UserAddress(rows.as_mut_ptr() as u64), rows.len() as u64) };
    clock::ticks() - before
}

/// Each row at its worst, alone and 64 to a batch. The harness holds the longest entry to its bound afterwards.
pub(crate) fn fault_153_rows_of_packets_64_to_a_batch(_: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(96, 64)?, granted!(root()), granted!(sender()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let page = SendSlot::segment(ring.pages[1], 0, PAGE_SIZE);
    for slot in 0..64 {
        ring.fill(slot, sender, &header(KIND, 1), &[page; 11], 0);
    }
    let atoms: Vec<Atom> = (0..20)
        .flat_map(|n| {
            [loopback(), equal(2, 12, u32::from(KIND)), equal(4, 14, n)].map(|a| Atom { conjunction: n as u8, ..a })
        })
        .collect();
    let wanted = FilterSpecification { ring: PageNumber::NONE.0, ..filter_in(root, &atoms) };
    let at = (&raw const wanted) as u64;
    for (name, row) in [
        ("packet_send", row(number::packet_send, &[KEY.0, ring.object.0, 0, SEND_ROWS])),
        ("filter_insert", row(number::filter_insert, &[KEY.0, at])),
        ("filter_remove", row(number::filter_remove, &[KEY.0, root])),
        ("filter_direct", row(number::filter_direct, &[KEY.0, sender, KEY.0, ring.object.0])),
        ("network_open", row(number::network_open, &[KEY.0, 0, 1])),
        ("page_become", row(number::page_become, &[KEY.0, ring.object.0, 13, at])),
    ] {
        for count in [1, BATCH_ROWS] {
            for _ in 0..40 {
                let took = batch(&alloc::vec![row; count]);
                if count == 1 {
                    channel::measurement(&format!("{name}, alone"), took, "instructions");
                    break;
                }
            }
        }
        for slot in 0..64 {
            ring.fill(slot, sender, &header(KIND, 1), &[page; 11], 0);
        }
        while ring.take().is_some() {}
    }
    // The largest ring there is, whose pages are mapped nowhere.
    let mut pages = alloc::vec![PageNumber::NONE; 90];
    granted!(Allocator::own().allocate_many(&mut pages));
    let numbers: Vec<u64> = pages[1..].iter().map(|page| page.0).collect();
    granted!(become_ring(KEY, pages[0], (160, 64), &numbers));
    granted!(free_ring(pages[0]));
    for page in &pages[1..] {
        granted!(syscall::page_free(KEY, *page));
    }
    // What was inserted goes with its parent's removal from the table, one after the other.
    let own = |info: &abi::packet_filter::FilterInfo| info.number.load(core::sync::atomic::Ordering::Acquire);
    while let Some(number) = runtime::exposed::filters().iter().map(own).find(|number| *number != 0) {
        granted!(remove(number));
    }
    ring.free()
}
