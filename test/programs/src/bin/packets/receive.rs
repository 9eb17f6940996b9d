//! Receiving: what comes out of a ring is what was sent, and what cannot get in is counted.

use crate::others::{NETWORK, say, user};
use crate::wire::{
    KEY, KIND, Ring, equal, filter_in, filter_to, header, insert, loopback, remove, root, sender, within,
};
use abi::interface::LOOPBACK;
use abi::limits::PAGE_SIZE;
use abi::packet_filter::{FilterSpecification, ROOT};
use abi::packet_ring::{DROPPED_FULL, DROPPED_LONG, RECEIVED, SENT, SendSlot, owner};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use runtime::predicate::{self, Operator};
use runtime::{PageNumber, clock, exposed, syscall};
use test_programs::child::{LIMIT, eventually};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, granted, refused};

pub(crate) fn open() -> Outcome {
    granted!(syscall::network_open(KEY, LOOPBACK, 1));
    Ok(())
}

/// Counts of the interface: received, unclaimed, without a ring, full, long, sent.
pub(crate) fn counts() -> [u64; 6] {
    let info = &exposed::interfaces()[LOOPBACK as usize];
    [&info.received, &info.unclaimed, &info.dropped_no_ring, &info.dropped_full, &info.dropped_long, &info.sent]
        .map(|count| count.load(Acquire))
}

/// By how much they grew.
pub(crate) fn grown(before: [u64; 6]) -> [u64; 6] {
    let now = counts();
    core::array::from_fn(|index| now[index] - before[index])
}

pub(crate) fn a_frame_reaches_its_ring(_: &World) -> Outcome {
    refused!(syscall::network_open(KEY, LOOPBACK + 7, 1), Absent);
    open()?;
    let (mut ring, root, sender) = (Ring::new(8, 8)?, granted!(root()), granted!(sender()));
    let wanted = [loopback(), equal(2, 12, u32::from(KIND)), equal(4, 14, 7)];
    let wanted = FilterSpecification { tag: 0xabcd, ..filter_to(&ring, root, &wanted) };
    let filter = granted!(insert(KEY, &wanted));
    let before = counts();
    for round in 0..20 {
        let start = clock::now();
        check!(granted!(ring.send(sender, &header(KIND, 7), &[])) == 1, "the frame was not sent");
        let frame = ring.take().ok_or("nothing arrived")?;
        check!(frame.bytes == header(KIND, 7), "what arrived is {:x?}", frame.bytes);
        check!(
            frame.tag() == 0xabcd && frame.word >> owner::INTERFACE_SHIFT == LOOPBACK,
            "owner word {:#x}",
            frame.word
        );
        check!((start..=clock::now()).contains(&frame.when), "it arrived at {}", frame.when);
        let words = [RECEIVED, SENT].map(|word| ring.control(word));
        check!(words == [round + 1; 2], "received and sent are {words:?}");
        check!(ring.window.words()[ring.send_word(0)].load(Acquire) == 0, "the send slot is not free again");
    }
    check!(grown(before) == [20, 0, 0, 0, 0, 20], "the interface counts {:?}", grown(before));
    let info = &exposed::filters()[filter as usize & 0xffff];
    let facts = [&info.number, &info.packets, &info.bytes, &info.drops, &info.parent].map(|word| word.load(Acquire));
    check!(facts == [filter, 20, 360, 0, root], "the filter's record is {facts:x?}");
    for filter in [root, filter, sender] {
        granted!(remove(filter));
        refused!(syscall::filter_remove(KEY, filter), Gone);
    }
    check!(exposed::filters().iter().all(|info| info.number.load(Acquire) == 0), "a filter is left");
    ring.free()
}

/// A child with a slice of its own sends while this environment sleeps over the count of its ring.
pub(crate) fn an_idle_cpu_wakes_by_a_frame(world: &World) -> Outcome {
    let (mut ring, root) = (Ring::new(8, 8)?, granted!(root()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let child = user(world, send_some, 3, (true, None))?;
    for round in 0..3 {
        let arrived = predicate::word(ring.word(RECEIVED), Operator::Greater, round);
        granted!(predicate::wait_any(&[&[arrived]], Some(clock::now() + LIMIT)));
        let frame = ring.take().ok_or("woken without a frame")?;
        check!(frame.bytes == header(KIND, round as u32), "frame {round} is {:x?}", frame.bytes);
    }
    granted!(child.destroy());
    granted!(remove(root));
    ring.free()
}

/// In the child: a frame each few slices.
extern "C" fn send_some(count: u64) {
    let outcome = || -> Outcome {
        let (ring, sender) = (Ring::new(8, 8)?, granted!(insert(NETWORK, &filter_in(ROOT, &[]))));
        for round in 0..count {
            predicate::sleep_until(clock::now() + 3_000_000);
            granted!(ring.send(sender, &header(KIND, round as u32), &[]));
        }
        core::mem::forget(ring);
        Ok(())
    };
    say(outcome());
}

/// Frames of many lengths, round the end of the ring, from several pages.
pub(crate) fn long_frames_go_on_in_the_next_slots(_: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(24, 8)?, granted!(root()), granted!(sender()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let source = Ring::new(8, 0)?;
    let payload: Vec<PageNumber> = source.pages[1..5].to_vec();
    let mut random = Random(5);
    for (index, word) in source.window.words()[512..512 * 5].iter().enumerate() {
        word.store((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), SeqCst);
    }
    for round in 0..200u32 {
        let count = random.below(11) as usize;
        let mut expected = header(KIND, round).to_vec();
        let mut segments = Vec::new();
        for _ in 0..count {
            let (page, offset) = (random.below(4), random.below(PAGE_SIZE));
            let bytes = 1 + random.below((PAGE_SIZE - offset).min(if round % 3 == 0 { 40 } else { PAGE_SIZE }));
            segments.push(SendSlot::segment(payload[page as usize], offset, bytes));
            let mut part = alloc::vec![0; bytes as usize];
            source.window.read(((1 + page) * PAGE_SIZE + offset) as usize, &mut part);
            expected.extend(part);
        }
        check!(granted!(ring.send(sender, &header(KIND, round), &segments)) == 1, "frame {round} was not sent");
        let frame = ring.take().ok_or("nothing arrived")?;
        check!(
            frame.bytes == expected,
            "frame {round} of {} bytes arrived as {} others",
            expected.len(),
            frame.bytes.len()
        );
    }
    granted!(remove(root));
    granted!(remove(sender));
    source.free()?;
    ring.free()
}

pub(crate) fn the_more_specific_filter_wins(_: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(16, 8)?, granted!(root()), granted!(sender()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let kind = [loopback(), equal(2, 12, u32::from(KIND))];
    let wide = [kind[0], kind[1], within(4, 14, 0, 0xffff)];
    let narrow = [kind[0], kind[1], equal(4, 14, 80)];
    let [wide, narrow] = [(1, &wide), (2, &narrow)].map(|(tag, atoms)| {
        let wanted = FilterSpecification { tag, ..filter_to(&ring, root, atoms) };
        insert(KEY, &wanted)
    });
    let (wide, narrow) = (granted!(wide), granted!(narrow));
    for (word, tag) in [(80, 2), (81, 1), (0x1_0000, 0), (80, 2)] {
        granted!(ring.send(sender, &header(KIND, word), &[]));
        let frame = ring.take().ok_or("nothing arrived")?;
        check!(frame.tag() == tag, "{word} went to filter {}", frame.tag());
    }
    granted!(remove(narrow));
    granted!(ring.send(sender, &header(KIND, 80), &[]));
    let frame = ring.take().ok_or("nothing arrived")?;
    check!(frame.tag() == 1, "after the removal it went to filter {}", frame.tag());
    for filter in [wide, root, sender] {
        granted!(remove(filter));
    }
    ring.free()
}

pub(crate) fn drops_are_counted_by_reason(_: &World) -> Outcome {
    let (ring, root, sender) = (Ring::new(8, 8)?, granted!(root()), granted!(sender()));
    let before = counts();
    granted!(ring.send(sender, &header(1, 0), &[]));
    check!(grown(before) == [1, 1, 0, 0, 0, 1], "unclaimed: {:?}", grown(before));
    granted!(ring.send(sender, &header(KIND, 0), &[]));
    check!(grown(before) == [2, 1, 1, 0, 0, 2], "without a ring: {:?}", grown(before));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let page = SendSlot::segment(ring.pages[1], 0, PAGE_SIZE);
    granted!(ring.send(sender, &header(KIND, 0), &[page; 5]));
    check!(grown(before) == [3, 1, 1, 0, 1, 3], "too long: {:?}", grown(before));
    check!(ring.control(DROPPED_LONG) == 1, "the ring counts {} long ones", ring.control(DROPPED_LONG));
    // So many bytes as the interface takes and no more.
    refused!(ring.send(sender, &header(KIND, 0), &[page; 16]), BadArgument);
    check!(grown(before)[0] == 3, "a frame that is too long for the interface went out");
    granted!(remove(root));
    granted!(ring.send(sender, &header(KIND, 0), &[]));
    check!(grown(before) == [4, 2, 1, 0, 1, 4], "after the removal: {:?}", grown(before));
    granted!(syscall::network_open(KEY, LOOPBACK, 0));
    refused!(ring.send(sender, &header(KIND, 0), &[]), Absent);
    open()?;
    granted!(remove(sender));
    ring.free()
}

/// Where the machine has a card: frames leave by it, their pages pinned until they are sent.
pub(crate) fn frames_leave_by_a_card(_: &World) -> Outcome {
    let has_card = exposed::interfaces().get(1).is_some_and(|info| info.frame_bytes.load(Acquire) != 0);
    if !has_card {
        return Ok(());
    }
    let ring = Ring::new(8, 8)?;
    let wanted = FilterSpecification { interface: 1, ..filter_in(ROOT, &[]) };
    let sender = granted!(insert(KEY, &wanted));
    refused!(ring.send(sender, &header(KIND, 1), &[]), Absent);
    granted!(syscall::network_open(KEY, 1, 1));
    let payload = ring.pages[1];
    let pins = || exposed::page(payload).map_or(0, |page| page.device_pins());
    for round in 1..=40 {
        let segments = [SendSlot::segment(payload, 0, 40); 3];
        let sent = granted!(ring.send(sender, &header(KIND, round), &segments));
        check!(sent == 1, "{sent} frames were sent");
        check!(eventually(|| ring.control(SENT) == u64::from(round)), "frame {round} is not reported as sent");
        check!(pins() == 1, "the page has {} device pins after frame {round}", pins());
    }
    // Longer than the card takes, and cut where the card cannot.
    let page = SendSlot::segment(payload, 0, PAGE_SIZE);
    refused!(ring.send(sender, &header(KIND, 0), &[page; 17]), BadArgument);
    granted!(syscall::network_open(KEY, 1, 0));
    granted!(remove(sender));
    ring.free()
}

/// No byte of a slot that is not free changes.
pub(crate) fn a_full_ring_is_not_written(_: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(8, 8)?, granted!(root()), granted!(sender()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    for word in 0..8 {
        granted!(ring.send(sender, &header(KIND, word), &[]));
    }
    let contents =
        |ring: &Ring| ring.window.words()[512..512 * 5].iter().map(|word| word.load(Acquire)).collect::<Vec<_>>();
    let (full, before) = (contents(&ring), counts());
    for word in 8..20 {
        granted!(ring.send(sender, &header(KIND, word), &[]));
    }
    check!(contents(&ring) == full, "a full ring was written");
    check!(grown(before) == [12, 0, 0, 12, 0, 12], "the interface counts {:?}", grown(before));
    check!(ring.control(DROPPED_FULL) == 12, "the ring counts {}", ring.control(DROPPED_FULL));
    let filter = &exposed::filters()[root as usize & 0xffff];
    check!(filter.drops.load(Acquire) == 12, "the filter counts {}", filter.drops.load(Acquire));
    // One slot free: one frame gets in, in its place.
    let first = ring.take().map(|frame| frame.bytes);
    check!(first == Some(header(KIND, 0).to_vec()), "the first is {first:?}");
    for word in 20..22 {
        granted!(ring.send(sender, &header(KIND, word), &[]));
    }
    for word in (1..8).chain([20]) {
        let frame = ring.take().map(|frame| frame.bytes);
        check!(frame == Some(header(KIND, word).to_vec()), "frame {word} is {frame:?}");
    }
    check!(ring.take().is_none(), "there is one too many");
    granted!(remove(root));
    granted!(remove(sender));
    ring.free()
}
