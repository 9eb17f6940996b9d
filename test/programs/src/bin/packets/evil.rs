//! Filters, headers and rings of ill will: refused, and nothing of them is left.

use crate::others::{FILTERS, GIVEN, NETWORK, said, say, show, shown, user};
use crate::receive::{counts, grown};
use crate::wire::{
    KEY, KIND, Ring, become_ring, equal, filter_in, filter_to, free_ring, header, insert, insert_step, loopback,
    remove, root, sender, within,
};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::limits::{FILTER_ATOMS, FILTER_DEPTH, PAGE_SIZE, SEND_ROWS};
use abi::packet_filter::{Atom, FilterSpecification, ROOT};
use abi::packet_ring::{ENDED, RECEIVED, SendSlot, owner};
use abi::page::PageKind;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use runtime::page::{self, Allocator};
use runtime::{Error, KeyIndex, PageNumber, UserAddress, area, exposed, key, syscall, time_slice};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, child, granted, refused};

fn base() -> [Atom; 2] {
    [loopback(), equal(2, 12, u32::from(KIND))]
}

/// Filters in the table.
fn filters() -> usize {
    exposed::filters().iter().filter(|info| info.number.load(Acquire) != 0).count()
}

/// A filter whose list opens to a key of its own, with the list and that key.
fn open_filter(wanted: &FilterSpecification, rights: Rights) -> Result<(u64, PageNumber, KeyIndex), String> {
    let opener = granted!(key::derive(KEY, Rights::ALL, 0));
    let list = granted!(Allocator::own().allocate());
    granted!(page::become_list(KEY, list, KEY));
    granted!(syscall::access_list_set(KEY, list, 1, opener, u64::from(rights.0)));
    let filter = granted!(insert(KEY, &FilterSpecification { list: list.0, ..*wanted }));
    Ok((filter, list, opener))
}

fn close_filter((filter, list, opener): (u64, PageNumber, KeyIndex)) -> Outcome {
    granted!(remove(filter));
    granted!(key::discard(opener));
    granted!(syscall::page_free(KEY, list));
    Ok(())
}

/// A child may insert in what it owns, and nothing that reaches beyond it or over another one's.
pub(crate) fn fault_161_filters_beyond_the_parent_or_over_others(world: &World) -> Outcome {
    let [interface, kind] = base();
    let parent = open_filter(&filter_in(ROOT, &[interface, kind, within(4, 14, 100, 199)]), Rights::ALL)?;
    let other = granted!(insert(KEY, &filter_in(parent.0, &[interface, kind, within(4, 14, 150, 159)])));
    let child = user(world, insert_around, parent.0, (false, Some(parent.2)))?;
    said(&child)?;
    granted!(child.destroy());
    check!(filters() == 2, "{} filters are left", filters());
    granted!(remove(other));
    close_filter(parent)
}

extern "C" fn insert_around(parent: u64) {
    let outcome = || -> Outcome {
        let [interface, kind] = base();
        let inside = [interface, kind, within(4, 14, 120, 129)];
        let filter = granted!(insert(GIVEN, &filter_in(parent, &inside)));
        let beyond = [
            [interface, kind, within(4, 14, 190, 200)],
            [interface, kind, within(4, 14, 99, 110)],
            [interface, equal(2, 12, 7), equal(4, 14, 110)],
            [kind, kind, equal(4, 14, 110)],
        ];
        for atoms in &beyond {
            let refusal = insert(GIVEN, &filter_in(parent, atoms)).err().map(|failure| (failure.error, failure.detail));
            check!(refusal == Some((Error::NotPermitted, 256)), "{atoms:x?} gave {refusal:?}");
        }
        // Over a filter that is not its own, whole or in part: named.
        for (low, high) in [(140, 155), (150, 159), (152, 153)] {
            let failure = insert(GIVEN, &filter_in(parent, &[interface, kind, within(4, 14, low, high)])).err();
            let named = failure.filter(|failure| failure.error == Error::Overlap).map(|failure| failure.detail);
            let of_creator = named.and_then(|number| exposed::filters().get(number as usize & 0xffff));
            check!(
                of_creator.is_some_and(|info| info.owner.load(Acquire) != area::number().0),
                "an overlap gave {failure:?}"
            );
        }
        // Without a right to the parent, or to the interface.
        for key in [KeyIndex::WELL_KNOWN, KEY] {
            refused!(insert(key, &filter_in(parent, &inside)), NotPermitted);
            refused!(insert(key, &filter_in(ROOT, &inside)), NotPermitted);
            refused!(syscall::filter_remove(key, parent), NotPermitted);
            refused!(syscall::filter_direct(key, parent, key, PageNumber::NONE), NotPermitted);
        }
        refused!(insert(GIVEN, &filter_in(ROOT, &inside)), NotPermitted);
        refused!(insert(GIVEN, &filter_in(filter + (1 << 16), &inside)), Gone);
        // A parent that only sends contains nothing that receives.
        let dumb = granted!(insert(GIVEN, &filter_in(parent, &[])));
        refused!(insert(KEY, &filter_in(dumb, &inside)), NotPermitted);
        // Levels end.
        let mut last = filter;
        for depth in 2.. {
            match insert(KEY, &filter_in(last, &inside)) {
                Ok(next) => last = next,
                Err(failure) => {
                    check!(failure.error == Error::TooMany && depth == FILTER_DEPTH, "level {depth} gave {failure:?}");
                    break;
                }
            }
        }
        Ok(())
    };
    say(outcome());
}

/// Every byte of a template, and templates that are laxer than the parent's.
pub(crate) fn fault_161_forged_headers(_: &World) -> Outcome {
    let (mut ring, root) = (Ring::new(8, 8)?, granted!(root()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let mut good = [0u8; 64];
    (0..).zip(&mut good).for_each(|(index, byte)| *byte = 0x40 + index);
    good[12..14].copy_from_slice(&KIND.to_be_bytes());
    let words: [u64; 8] =
        core::array::from_fn(|index| u64::from_le_bytes(core::array::from_fn(|byte| good[index * 8 + byte])));
    let fixed = FilterSpecification { send_mask: [u64::MAX; 8], send_value: words, ..filter_in(ROOT, &[]) };
    let filter = granted!(insert(KEY, &fixed));
    granted!(ring.send(filter, &good, &[]));
    check!(ring.take().is_some_and(|frame| frame.bytes == good), "a good frame did not arrive");
    let before = counts();
    for byte in 0..64 {
        for bit in 0..8 {
            let mut forged = good;
            forged[byte] ^= 1 << bit;
            let refusal = ring.send(filter, &forged, &[]).err().map(|failure| (failure.error, failure.detail));
            check!(
                refusal == Some((Error::NotPermitted, 256 + byte as u64)),
                "byte {byte}, bit {bit} gave {refusal:?}"
            );
        }
        // A header that ends before a fixed byte: the rest would be payload, which is not checked.
        if byte >= 14 {
            let payload = SendSlot::segment(ring.pages[1], 0, 64);
            let refusal = ring.send(filter, &good[..byte], &[payload]).err().map(|failure| failure.error);
            check!(refusal == Some(Error::NotPermitted), "a header of {byte} bytes gave {refusal:?}");
        }
    }
    check!(grown(before) == [0; 6], "something was sent: {:?}", grown(before));
    check!(ring.take().is_none(), "a forged frame arrived");
    for byte in 0..64usize {
        let (word, bits) = (byte / 8, 0xffu64 << (byte % 8 * 8));
        let mut lax = FilterSpecification { parent: filter, ..fixed };
        lax.send_mask[word] &= !bits;
        lax.send_value[word] &= !bits;
        let mut other = FilterSpecification { parent: filter, ..fixed };
        other.send_value[word] ^= bits & 0x0101_0101_0101_0101;
        for wanted in [lax, other] {
            let refusal = insert(KEY, &wanted).err().map(|failure| (failure.error, failure.detail));
            check!(refusal == Some((Error::NotPermitted, 512 + byte as u64)), "byte {byte} gave {refusal:?}");
        }
    }
    let odd = FilterSpecification { send_value: [1; 8], ..filter_in(ROOT, &[]) };
    refused!(insert(KEY, &odd), BadArgument);
    granted!(remove(filter));
    granted!(remove(root));
    ring.free()
}

/// Offloads that write a byte that is fixed, or one beyond the header.
pub(crate) fn fault_162_offloads_over_fixed_bytes(_: &World) -> Outcome {
    let (mut ring, root) = (Ring::new(8, 8)?, granted!(root()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    // Bytes 14 and 15 are fixed.
    let mut fixed = filter_in(ROOT, &[]);
    (fixed.send_mask[1], fixed.send_value[1]) = (0xffff << 48, 0);
    let filter = granted!(insert(KEY, &fixed));
    let header = header(KIND, 0x1234);
    for at in 0..20u64 {
        for start in [0, at / 2, at] {
            ring.fill(0, filter, &header, &[], start | (at - start) << 16 | 1 << 32);
            let sent = syscall::packet_send(KEY, ring.object, 0, 1).map_err(|failure| failure.error);
            let expected = match at {
                13..=15 => Err(Error::NotPermitted),
                17.. => Err(Error::BadArgument),
                _ => Ok(1),
            };
            check!(sent == expected, "a checksum at {at} gave {sent:?}");
            let arrived = ring.take();
            check!(arrived.is_some() == sent.is_ok(), "a checksum at {at}: {arrived:?}");
            let is_marked = arrived.is_none_or(|frame| frame.word & owner::CHECKSUM_PARTIAL != 0);
            check!(is_marked, "the receiver does not learn of the checksum at {at}");
        }
    }
    for offload in [
        1,
        1 << 40 | 1 << 48,
        2 << 32,
        1 << 32 | 2 << 40 | 1 << 48,
        1 << 32 | 1 << 40,
        1 << 32 | 1 << 48,
        0xffff_ffff | 1 << 32,
    ] {
        ring.fill(0, filter, &header, &[], offload);
        refused!(syscall::packet_send(KEY, ring.object, 0, 1), BadArgument);
    }
    granted!(remove(filter));
    granted!(remove(root));
    ring.free()
}

/// Another CPU writes the header all the while: what arrives is what the template allows.
pub(crate) fn fault_162_a_header_changed_during_the_call(world: &World) -> Outcome {
    if exposed::kernel().cpus.load(Acquire) < 2 {
        return Ok(());
    }
    let (mut ring, root) = (Ring::new(8, 8)?, granted!(root()));
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    let mut fixed = filter_in(ROOT, &[]);
    (fixed.send_mask[2], fixed.send_value[2]) = (0xff, 0x40);
    let filter = granted!(insert(KEY, &fixed));
    let place = ring.pages[1 + 8 / 2];
    let mut builder = child::prepare(world, flip, 0)?;
    granted!(builder.show(FLIPPED, &[place], runtime::address_space::Access::WRITE));
    let flipper = granted!(builder.create());
    granted!(flipper.run(1, time_slice::ANY_POSITION));
    let (mut sent, mut refused) = (0, 0);
    let mut bytes = [0x40; 24];
    bytes[12..14].copy_from_slice(&KIND.to_be_bytes());
    for round in 0..20_000 {
        if round % 64 == 0 {
            time_slice::yield_now();
        }
        match ring.send(filter, &bytes, &[]) {
            Ok(_) => {
                sent += 1;
                let frame = ring.take().ok_or("nothing arrived")?;
                check!(frame.bytes[16] == 0x40, "a frame arrived with {:#x}", frame.bytes[16]);
            }
            Err(failure) => {
                check!(failure.error == Error::NotPermitted, "sending gave {failure:?}");
                refused += 1;
            }
        }
    }
    granted!(flipper.destroy());
    check!(sent > 0, "{sent} were sent and {refused} refused");
    granted!(remove(filter));
    granted!(remove(root));
    ring.free()
}

const FLIPPED: u64 = 0x20_0000_0000;

/// In the child: changes byte 16 of the header in the first send slot.
extern "C" fn flip(_: u64) {
    let word = (FLIPPED + 32 + 16) as *const core::sync::atomic::AtomicU64;
    // SAFETY: the creator maps its page of send slots there; it is used as atomic words only.
    let word = unsafe { &*word };
    loop {
        word.fetch_xor(0x55, SeqCst);
    }
}

/// Bytes of any value as filters, slots and rings.
pub(crate) fn fault_52_garbage(_: &World) -> Outcome {
    let ring = Ring::new(8, 8)?;
    let mut random = Random(52);
    let before = filters();
    for _ in 0..400 {
        let mut atoms = [Atom::default(); 40];
        let count = 1 + random.below(40) as usize;
        for atom in &mut atoms[..count] {
            *atom = garbage(&mut random);
        }
        atoms[0] = loopback();
        let wanted = filter_to(&ring, ROOT, &atoms[..count]);
        if let Ok(filter) = insert(KEY, &wanted) {
            granted!(remove(filter));
        }
    }
    check!(filters() == before, "{} filters are left", filters());
    let good = base();
    refused!(
        insert(KEY, &FilterSpecification { atom_count: FILTER_ATOMS as u64 + 1, ..filter_in(ROOT, &good) }),
        TooMany
    );
    refused!(insert(KEY, &FilterSpecification { atom_count: u64::MAX, ..filter_in(ROOT, &good) }), TooMany);
    refused!(insert(KEY, &FilterSpecification { atoms: u64::MAX - 64, ..filter_in(ROOT, &good) }), BadAddress);
    refused!(insert(KEY, &FilterSpecification { interface: 7, ..filter_in(ROOT, &good) }), Absent);
    refused!(insert(KEY, &FilterSpecification { interface: u64::MAX, ..filter_in(ROOT, &good) }), Absent);
    refused!(insert(KEY, &FilterSpecification { tag: 1 << 16, ..filter_in(ROOT, &good) }), BadArgument);
    refused!(insert(KEY, &FilterSpecification { ring: ring.pages[0].0, ..filter_in(ROOT, &good) }), WrongKind);
    refused!(insert(KEY, &FilterSpecification { list: ring.pages[0].0, ..filter_in(ROOT, &good) }), WrongKind);
    refused!(insert(KEY, &FilterSpecification { list_key: 43, ..filter_in(ROOT, &good) }), NoSuchKey);
    for number in [0, 1, 7 << 16, u64::MAX] {
        refused!(syscall::filter_remove(KEY, number), Gone);
        refused!(syscall::filter_direct(KEY, number, KEY, ring.object), Gone);
        refused!(insert(KEY, &FilterSpecification { parent: number | 1, ..filter_in(ROOT, &good) }), Gone);
    }
    let sender = granted!(sender());
    for round in 0..3000 {
        let first = ring.send_word(0);
        for index in 0..64 {
            let word = if random.below(3) == 0 { random.number() } else { random.below(300) };
            ring.window.words()[first + index].store(word, SeqCst);
        }
        ring.window.words()[first].store(1, SeqCst);
        if round % 2 == 0 {
            ring.window.words()[first + 1].store(sender, SeqCst);
            ring.window.words()[first + 2].store(0, SeqCst);
        }
        let _ = syscall::packet_send(KEY, ring.object, 0, 1);
    }
    refused!(syscall::packet_send(KEY, ring.object, 8, 1), BadArgument);
    refused!(syscall::packet_send(KEY, ring.object, u64::MAX, 1), BadArgument);
    refused!(syscall::packet_send(KEY, ring.object, 0, 0), BadArgument);
    refused!(syscall::packet_send(KEY, ring.object, 0, SEND_ROWS + 1), TooMany);
    refused!(syscall::packet_send(KEY, ring.pages[0], 0, 1), WrongKind);
    refused!(syscall::packet_send(KeyIndex::WELL_KNOWN, ring.object, 0, 1), NotPermitted);
    granted!(remove(sender));
    ring.free()
}

fn garbage(random: &mut Random) -> Atom {
    let small = random.below(4) != 0;
    let value = |random: &mut Random, bound: u64| if small { random.below(bound) } else { random.number() };
    Atom {
        conjunction: value(random, 3) as u8,
        compare: value(random, 5) as u8,
        size: [1, 2, 4, value(random, 9) as u8][random.below(4) as usize],
        shift: if random.below(4) == 0 { value(random, 3) as i8 } else { 0 },
        offset: value(random, 64) as u32,
        mask: value(random, 0x1_0000) as u32,
        low: value(random, 0x100) as u32,
        high: value(random, 0x1000) as u32,
    }
}

/// Rings of pages that are none, not one's own, named twice, or in another ring.
pub(crate) fn rings_that_make_no_sense(_: &World) -> Outcome {
    let mut pages = [PageNumber::NONE; 8];
    granted!(Allocator::own().allocate_many(&mut pages));
    let numbers: Vec<u64> = pages[1..].iter().map(|page| page.0).collect();
    let object = pages[0];
    let with = |index: usize, page: PageNumber| {
        let mut numbers = numbers.clone();
        numbers[index] = page.0;
        become_ring(KEY, object, (8, 8), &numbers)
    };
    for slots in [(6, 8), (9, 8), (162, 8), (8, 4), (8, 72), (u64::MAX - 1, 8), (8, u64::MAX - 7)] {
        refused!(become_ring(KEY, object, slots, &numbers), BadArgument);
    }
    refused!(with(3, pages[1]), InUse);
    refused!(with(3, object), InUse);
    refused!(with(2, PageNumber(u64::MAX)), NoSuchPage);
    refused!(with(2, area::access_list()), WrongKind);
    refused!(become_ring(KeyIndex::WELL_KNOWN, object, (8, 8), &numbers), NotPermitted);
    refused!(become_ring(KeyIndex(43), object, (8, 8), &numbers), NoSuchKey);
    let at = 0x10;
    for kind in [PageKind::Ordinary as u64, PageKind::KeyRing as u64, 12, 99, u64::MAX] {
        // SAFETY: the kernel refuses the kind.
        refused!(unsafe { syscall::page_become(KEY, object, kind, at) }, BadArgument);
    }
    let blocks = || pages.iter().filter_map(|page| exposed::page(*page)).all(|info| info.block.load(Acquire) == 0);
    check!(blocks(), "a refused ring has marked a page");
    granted!(become_ring(KEY, object, (8, 8), &numbers));
    refused!(become_ring(KEY, object, (8, 8), &numbers), WrongKind);
    let second = granted!(Allocator::own().allocate());
    refused!(become_ring(KEY, second, (8, 8), &numbers), InUse);
    refused!(syscall::page_claim(KEY, object, KEY, area::access_list()), WrongKind);
    granted!(free_ring(object));
    check!(blocks(), "a ring that has ended has marked a page");
    for page in pages[1..].iter().chain([&second]) {
        granted!(syscall::page_free(KEY, *page));
    }
    Ok(())
}

/// Pages of a ring are given up, or taken by force; the object goes while a filter leads there.
pub(crate) fn ring_pages_freed_and_taken(world: &World) -> Outcome {
    let (root, sender, out) = (granted!(root()), granted!(sender()), Ring::new(8, 8)?);
    let ring = Ring::new(8, 8)?;
    granted!(syscall::filter_direct(KEY, root, KEY, ring.object));
    // Given up: an orphan that is still written, until the ring ends.
    let Ring { object, pages, window, .. } = ring;
    let word = |offset: u64| window.words()[offset as usize / 8].load(Acquire);
    granted!(syscall::page_free(KEY, pages[1]));
    let before = counts();
    granted!(out.send(sender, &header(KIND, 1), &[]));
    check!(word(RECEIVED) == 1, "a ring with a page that was given up received {} {:?}", word(RECEIVED), grown(before));
    // Taken by force: the ring has ended.
    let root_page = runtime::address_space::own().root;
    let end = UserAddress(abi::memory_map::USER_END & !0x1f_ffff);
    // SAFETY: only the pins end; the entries that map the page are looked for from the last address on.
    let _ = unsafe { syscall::page_unbind(KEY, pages[2], root_page, end) };
    check!(word(ENDED) == 1, "the ring does not say that it has ended");
    let before = counts();
    granted!(out.send(sender, &header(KIND, 2), &[]));
    check!(grown(before) == [1, 0, 1, 0, 0, 1] && word(RECEIVED) == 1, "the ended ring received: {:?}", grown(before));
    refused!(syscall::packet_send(KEY, object, 0, 1), Gone);
    granted!(free_ring(object));
    refused!(syscall::filter_direct(KEY, root, KEY, object), NotPermitted);
    granted!(out.send(sender, &header(KIND, 3), &[]));
    check!(grown(before) == [2, 0, 2, 0, 0, 2], "a ring that is gone received: {:?}", grown(before));
    drop(window);
    for page in pages.iter().filter(|page| **page != pages[1]) {
        granted!(syscall::page_free(KEY, *page));
    }
    check!(exposed::page(pages[1]).is_some_and(|page| page.kind() == PageKind::Free), "the orphan was not freed");
    granted!(remove(root));
    granted!(remove(sender));
    world.pages_add_up()?;
    out.free()
}

/// A revocation takes the pages of rings, too.
pub(crate) fn a_revocation_takes_rings(world: &World) -> Outcome {
    let free = exposed::kernel().free_pages.load(Acquire);
    let child = user(world, hold_rings, 0, (true, None))?;
    said(&child)?;
    let used = child.info().map_or(0, |info| info.budget[Resource::Page as usize].used.load(Acquire));
    granted!(syscall::revocation_request(KEY, child.number, Resource::Page as u64, used, runtime::clock::now()));
    let over =
        || !matches!(syscall::revocation_enforce(KEY, child.number), Err(failure) if failure.error == Error::Again);
    check!(child::eventually(over), "enforcing does not end");
    let left = child.info().map_or(0, |info| info.budget[Resource::Page as usize].used.load(Acquire));
    check!(left < 40, "{left} of {used} pages are left");
    world.pages_add_up()?;
    granted!(child.destroy());
    let now = exposed::kernel().free_pages.load(Acquire);
    check!(now + 2 >= free, "{now} pages are free, {free} before");
    Ok(())
}

extern "C" fn hold_rings(_: u64) {
    let outcome = || -> Outcome {
        for _ in 0..3 {
            core::mem::forget(Ring::new(24, 8)?);
        }
        Ok(())
    };
    say(outcome());
}

/// Filters end with their owner, whatever it was doing; children of its filters stay with theirs.
pub(crate) fn fault_53_the_owner_dies(world: &World) -> Outcome {
    let (mut ring, root, sender) = (Ring::new(8, 8)?, granted!(root()), granted!(sender()));
    for begun in 0..12 {
        let before = filters();
        let child = user(world, insert_and_wait, begun, (true, None))?;
        let parent = shown(&child)?;
        let [interface, kind] = base();
        let inner = [interface, Atom { low: 9, ..kind }, equal(4, 14, 5)];
        let own = granted!(insert(KEY, &filter_to(&ring, parent, &inner)));
        granted!(out(&ring, sender, 9, 5));
        check!(ring.take().is_some(), "nothing arrived while the owner of the parent lives");
        granted!(child.destroy());
        check!(filters() == before + 1, "{} filters are left of {before}", filters());
        let info = &exposed::filters()[own as usize & 0xffff];
        check!(info.parent.load(Acquire) == ROOT, "the parent is {:#x}", info.parent.load(Acquire));
        granted!(out(&ring, sender, 9, 5));
        check!(ring.take().is_some(), "nothing arrived after the death of the owner of the parent");
        granted!(out(&ring, sender, 9, 6));
        check!(ring.take().is_none(), "a frame of the dead one arrived");
        granted!(remove(own));
        world.pages_add_up()?;
    }
    granted!(remove(root));
    granted!(remove(sender));
    ring.free()
}

fn out(ring: &Ring, sender: u64, kind: u16, word: u32) -> Result<u64, runtime::Failure> {
    ring.send(sender, &header(kind, word), &[])
}

/// In the child: filters with rings, one that others use as a parent, and an insertion that is under way for so many
/// steps.
extern "C" fn insert_and_wait(steps: u64) {
    let outcome = || -> Outcome {
        let ring = Ring::new(8, 8)?;
        let opened = Atom { low: 9, ..base()[1] };
        let list = granted!(Allocator::own().allocate());
        granted!(page::become_list(KEY, list, KeyIndex::WELL_KNOWN));
        let wanted = FilterSpecification {
            list: list.0,
            list_key: KeyIndex::WELL_KNOWN.0,
            ..filter_to(&ring, ROOT, &[loopback(), opened])
        };
        let parent = granted!(insert(NETWORK, &wanted));
        for word in 0..3 {
            granted!(insert(
                NETWORK,
                &filter_to(&ring, ROOT, &[loopback(), Atom { low: 10, ..opened }, equal(4, 14, word)])
            ));
        }
        let more = [loopback(), Atom { low: 11, ..opened }, within(4, 14, 1, 7), equal(1, 30, 3)];
        for _ in 0..steps {
            let _ = insert_step(NETWORK, &filter_to(&ring, ROOT, &more));
        }
        core::mem::forget(ring);
        show(parent);
        Ok(())
    };
    say(outcome());
}

/// Filters and shapes end at an owner's quota, and others' filters go in all the same.
pub(crate) fn fault_51_quotas(world: &World) -> Outcome {
    let child = user(world, use_it_up, 0, (true, None))?;
    said(&child)?;
    let used = child.info().map_or(0, |info| info.budget[Resource::Filter as usize].used.load(Acquire));
    check!(used == FILTERS, "the child has {used} filters");
    let root = granted!(root());
    granted!(remove(root));
    granted!(child.destroy());
    check!(filters() == 0, "{} filters are left", filters());
    Ok(())
}

extern "C" fn use_it_up(_: u64) {
    let outcome = || -> Outcome {
        let mut shapes = 0;
        let mut inserted = Vec::new();
        let refusal = loop {
            let atoms = [loopback(), equal(2, 20 + 2 * shapes, 7)];
            match insert(NETWORK, &filter_in(ROOT, &atoms)) {
                Ok(filter) => inserted.push(filter),
                Err(failure) => break failure,
            }
            shapes += 1;
        };
        check!(refusal.error == Error::OverBudget && shapes == FILTERS as u32, "after {shapes}: {refusal:?}");
        for filter in inserted {
            granted!(remove(filter));
        }
        // In a parent of its own fewer shapes are allowed; a filter of many tests passes them at once.
        let many: Vec<Atom> =
            [loopback()].into_iter().chain((0..23).map(|index| equal(2, 20 + 2 * index, 7))).collect();
        let outcome = insert(NETWORK, &filter_in(ROOT, &many));
        check!(outcome.is_ok(), "24 shapes of a root gave {outcome:?}");
        for word in 0..FILTERS as u32 - 1 {
            granted!(insert(NETWORK, &filter_in(ROOT, &[loopback(), equal(4, 14, word)])));
        }
        refused!(insert(NETWORK, &filter_in(ROOT, &[loopback(), equal(4, 14, 99)])), OverBudget);
        Ok(())
    };
    say(outcome());
}

/// Without a key: nothing is received, sent, inserted or opened.
pub(crate) fn an_environment_without_a_key_gets_nothing() -> Outcome {
    let ring = Ring::new(8, 8)?;
    for key in (0..44).map(KeyIndex) {
        let outcomes = [
            insert_step(key, &filter_in(ROOT, &base())).map(|_| ()),
            insert_step(key, &filter_in(ROOT, &[])).map(|_| ()),
            syscall::network_open(key, 0, 1),
            syscall::network_open(key, 0, 0),
        ];
        for outcome in outcomes {
            let error = outcome.map_err(|failure| failure.error);
            check!(matches!(error, Err(Error::NoSuchKey | Error::NotPermitted)), "key {} gave {error:?}", key.0);
        }
    }
    ring.fill(0, 1 << 16, &header(KIND, 1), &[SendSlot::segment(PageNumber(1), 0, PAGE_SIZE)], 0);
    refused!(syscall::packet_send(KEY, ring.object, 0, 1), Gone);
    ring.free()
}
