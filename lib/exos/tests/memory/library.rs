//! Libraries whose text comes with a table that others have, too.

use crate::machine::{LARGE_FILE, LARGE_FILE_PAGES, Process, alone};
use exos::address_map::PAGE_SIZE;
use exos::vm::address_space::{AddressSpace, FaultError};
use exos::vm::shared_text::Part;
use exos::vm::table_scan::SPAN;
use exos::vm::vma::{Backing, Protection, Vma};

/// Where the span begins that has the text, and the pages of the library: constants, text, constants, data.
const TEXT: u64 = 1 << 30;
const SPAN_PAGES: u64 = SPAN / PAGE_SIZE;
const PARTS: [(u64, Protection); 4] =
    [(40, Protection::READ), (300, EXECUTE), (100, Protection::READ), (20, Protection::READ_WRITE)];
const EXECUTE: Protection = Protection(5);

/// A page as a program sees it: what may be done, and the first byte. Nothing: no page is there.
type Seen = Option<(Protection, u8)>;

/// Maps the library as a linker does, so that its data begins where the next span does.
fn map_library(process: &mut Process, space: &mut AddressSpace) -> (u64, Vec<Seen>) {
    let first = TEXT + (SPAN_PAGES - 440) * PAGE_SIZE;
    let (mut index, mut seen) = (0, Vec::new());
    for (count, protection) in PARTS {
        let backing = Backing::File { node: LARGE_FILE, offset: index * PAGE_SIZE, writable: false };
        let (start, end) = (first + index * PAGE_SIZE, first + (index + count) * PAGE_SIZE);
        space.map(process, Vma { backing, ..Vma::anonymous(start, end, protection) }).expect("it maps");
        seen.extend((index..index + count).map(|index| Some((protection, index as u8))));
        index += count;
    }
    (first, seen)
}

fn shared(space: &AddressSpace) -> u64 {
    space.shared_text(0, u64::MAX >> 1).map(|(_, pages)| pages).sum()
}

#[test]
fn the_text_of_a_library_comes_with_one_table() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    let (first, seen) = map_library(&mut process, &mut space);
    assert_eq!(shared(&space), 0);
    assert_eq!(process.read(&mut space, first + 450 * PAGE_SIZE), Ok(450_u64 as u8), "its data is touched first");
    assert_eq!((process.libraries.len(), shared(&space)), (1, 440));
    assert_eq!(process.libraries[&TEXT].len(), 440);
    assert!(!space.frames.has_any(TEXT, TEXT + SPAN), "the record has nothing of it");
    let before = process.table.len();
    for (page, seen) in (0..440).zip(&seen) {
        let expected = seen.map(|(_, byte)| byte).ok_or(FaultError::NotMapped);
        assert_eq!(process.read(&mut space, first + page * PAGE_SIZE), expected);
    }
    assert_eq!(process.table.len(), before, "no page took a fault");
    assert_eq!(process.write(&mut space, first, 1), Err(FaultError::NotAllowed));
    assert_eq!(process.libraries.len(), 1, "what is refused changes nothing");
}

#[test]
fn where_something_else_lies_beside_the_text_each_page_has_an_entry() {
    for beside in [TEXT, TEXT + (SPAN_PAGES - 441) * PAGE_SIZE] {
        let (mut process, mut space) = (alone(), AddressSpace::default());
        let other = Vma::anonymous(beside, beside + PAGE_SIZE, Protection::READ_WRITE);
        space.map(&mut process, other).expect("it maps");
        let (first, _) = map_library(&mut process, &mut space);
        assert_eq!(process.read(&mut space, first), Ok(0));
        assert!(process.libraries.is_empty() && process.table.len() > 80);
    }
}

/// However many parts of a file are mapped.
#[test]
fn what_is_not_executed_is_no_library() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    for (first, count) in [(0, 200), (200, 200)] {
        let backing = Backing::File { node: LARGE_FILE, offset: first * PAGE_SIZE, writable: first != 0 };
        let (start, end) = (TEXT + first * PAGE_SIZE, TEXT + (first + count) * PAGE_SIZE);
        space.map(&mut process, Vma { backing, ..Vma::anonymous(start, end, Protection::READ) }).expect("it maps");
    }
    assert_eq!(process.read(&mut space, TEXT), Ok(0));
    assert!(process.libraries.is_empty() && !process.table.is_empty());
}

/// Whatever a program does to it, it sees what it would without such a table; and that table is changed nowhere (`machine`).
#[test]
fn a_shared_table_is_never_seen_but_in_what_it_saves() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut process, mut space) = (alone(), AddressSpace::default());
        let (first, mut seen) = map_library(&mut process, &mut space);
        for step in 0..40 {
            let (page, count) = (random.u64(..460), random.u64(1..60));
            let (start, end) = (first + page * PAGE_SIZE, first + (page + count).min(460) * PAGE_SIZE);
            let range = page as usize..(page + count).min(460) as usize;
            match random.u64(..60) {
                0 => {
                    space.unmap(&mut process, start, end).expect("it may");
                    seen[range].fill(None);
                }
                1 => {
                    let area = Vma::anonymous(start, end, Protection::READ_WRITE);
                    space.map(&mut process, area).expect("it maps");
                    seen[range].fill(Some((Protection::READ_WRITE, 0)));
                }
                2..5 if seen[range.clone()].iter().all(Option::is_some) => {
                    let protection = [Protection::READ_WRITE, Protection::READ][random.usize(..2)];
                    space.protect(&mut process, start, end, protection).expect("it may");
                    seen[range].iter_mut().flatten().for_each(|page| page.0 = protection);
                }
                5 if seen[range.start].is_some() => {
                    let byte = random.u8(..);
                    space.replace_page(&mut process, start, &[byte; 4096]).expect("it may");
                    seen[range.start].iter_mut().for_each(|page| page.1 = byte);
                }
                6 => space.let_go_of_files(&mut process).expect("it may"),
                7 => {
                    space.cut_file(&mut process, LARGE_FILE, (0, LARGE_FILE_PAGES * PAGE_SIZE), false).expect("it may")
                }
                8..30 => {
                    let byte = random.u8(..);
                    let expected = match &mut seen[range.start] {
                        Some((protection, there)) if protection.allows(Protection::WRITE) => {
                            *there = byte;
                            Ok(())
                        }
                        Some(_) => Err(FaultError::NotAllowed),
                        None => Err(FaultError::NotMapped),
                    };
                    assert_eq!(process.write(&mut space, start, byte), expected, "seed {seed}, step {step}");
                }
                _ => {
                    let expected = seen[range.start].map(|(_, byte)| byte).ok_or(FaultError::NotMapped);
                    assert_eq!(process.read(&mut space, start), expected, "seed {seed}, step {step}");
                }
            }
            let linked: Vec<u64> = space.shared_text(0, u64::MAX >> 1).map(|(linked, _)| linked.base).collect();
            assert!(process.libraries.keys().all(|base| linked.contains(base)), "seed {seed}, step {step}");
            assert!(linked.iter().all(|base| !space.frames.has_any(*base, base + SPAN)), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn nothing_is_placed_beside_the_text() {
    let (mut process, mut space) = (alone(), AddressSpace::default());
    let bytes = 480 * PAGE_SIZE;
    let place = space.find_place_for_library(bytes, 440 * PAGE_SIZE).expect("there is room");
    assert_eq!((place + 440 * PAGE_SIZE) % SPAN, 0, "its data begins a span");
    assert!(space.areas.is_free(place & !(SPAN - 1), place + bytes));
    let small = space.find_place_for_library(100 * PAGE_SIZE, 90 * PAGE_SIZE).expect("there is room");
    assert_eq!(small, space.find_place(100 * PAGE_SIZE).expect("there is room"), "a small one goes anywhere");
    let (first, _) = map_library(&mut process, &mut space);
    process.read(&mut space, first).expect("it may be read");
    // All that is free above is taken.
    let top = space.find_place(PAGE_SIZE).expect("there is room") + PAGE_SIZE;
    space.map(&mut process, Vma::anonymous(first + 460 * PAGE_SIZE, top, Protection::READ)).expect("it maps");
    let next = space.find_place(PAGE_SIZE).expect("there is room");
    assert_eq!(next, TEXT - PAGE_SIZE, "below the span, in which there is room");
}

#[test]
fn a_part_is_a_word_and_lies_in_a_span() {
    let part = Part { place: 49, pages: 463, index: 0xffff_ffff, executable: true };
    assert_eq!(part.to_word().and_then(Part::from_word), Some(part));
    assert_eq!(Part { index: 1 << 32, ..part }.to_word(), None);
    let beyond = Part { pages: 464, ..part }.to_word().expect("it is a word");
    let none = Part { pages: 0, ..part }.to_word().expect("it is a word");
    assert!([beyond, none, u64::MAX].into_iter().all(|word| Part::from_word(word).is_none()));
}
