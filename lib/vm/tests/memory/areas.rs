//! Areas: what they say of each page, and where there is room.

use crate::machine::BASE;
use linux_abi::address_map::{CHOSEN_END, LEAST_ADDRESS, MMAP_TOP, PAGE_SIZE, PROGRAM_END};
use linux_abi::errno::Errno;
use vm::vma::{Backing, Protection, Vma, VmaList};

/// Of each page its protection and, if it is a file's, its number there; few ranges are long, so that there are many
/// areas.
#[test]
fn areas_agree_with_a_page_by_page_model() {
    const SPAN: u64 = 150;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut areas = VmaList::default();
        let mut model = [None; SPAN as usize];
        for step in 0..200 {
            let start = random.u64(..SPAN);
            let end = (start + if random.u8(..8) == 0 { random.u64(1..SPAN) } else { random.u64(1..4) }).min(SPAN);
            let (from, to) = (BASE + start * PAGE_SIZE, BASE + end * PAGE_SIZE);
            let protection = Protection(random.u8(..4));
            let range = start as usize..end as usize;
            match random.u8(..4) {
                0 | 1 => {
                    // Parts of one file join where they go on.
                    let offset = random.bool().then(|| random.u64(..2) * 10 * PAGE_SIZE + from);
                    let file = |offset| Backing::File { node: 7, offset, writable: true };
                    let backing = offset.map_or(Backing::Anonymous, file);
                    areas.insert(Vma { backing, ..Vma::anonymous(from, to, protection) });
                    let pages = model[range].iter_mut().zip((0..).step_by(PAGE_SIZE as usize));
                    pages.for_each(|(page, at)| *page = Some((protection, offset.map(|offset| offset + at))));
                }
                2 => {
                    areas.remove(from, to);
                    model[range].fill(None);
                }
                _ => {
                    let hole = model[range.clone()].iter().position(Option::is_none);
                    let covered = hole.unwrap_or(range.len());
                    let mut seen = from;
                    let changed = areas.change(from, to, |area| {
                        assert_eq!((area.start, area.end <= to), (seen, true), "seed {seed}, step {step}");
                        seen = area.end;
                        area.protection = protection;
                        Ok(())
                    });
                    assert_eq!(changed.is_err(), hole.is_some());
                    let pages = model[range.start..range.start + covered].iter_mut().flatten();
                    pages.for_each(|(before, _)| *before = protection);
                }
            }
            areas_are(&areas, &model, &format!("seed {seed}, step {step}"));
            let inside = areas.within(from, to);
            assert_eq!(inside.iter().map(Vma::bytes).sum::<u64>(), bytes_of(&model[start as usize..end as usize]));
            assert!(inside.iter().all(|area| from <= area.start && area.end <= to));
            assert_eq!(areas.is_free(from, to), inside.is_empty());
        }
    }
}

fn bytes_of<T>(pages: &[Option<T>]) -> u64 {
    pages.iter().flatten().count() as u64 * PAGE_SIZE
}

type Meaning = (Protection, Option<u64>);

/// Every page means what the model says, and no two areas could be one.
fn areas_are(areas: &VmaList, model: &[Option<Meaning>], when: &str) {
    let meaning = |area: &Vma, address: u64| {
        let offset = match area.backing {
            Backing::File { offset, .. } => Some(offset + (address - area.start)),
            _ => None,
        };
        (area.protection, offset)
    };
    for (expected, address) in model.iter().zip((BASE..).step_by(PAGE_SIZE as usize)) {
        let found = areas.find(address + 7).map(|area| meaning(area, address));
        assert_eq!(found, *expected, "{when}, {address:#x}");
    }
    let all: Vec<&Vma> = areas.iter().collect();
    assert_eq!((all.len(), areas.bytes()), (areas.count(), bytes_of(model)), "{when}");
    for two in all.windows(2) {
        let touch = two[0].end == two[1].start;
        let goes_on = meaning(two[0], two[1].start) == meaning(two[1], two[1].start);
        assert!(two[0].end <= two[1].start && !(touch && goes_on), "{when}");
    }
}

#[test]
fn places_are_found_from_above_and_never_overlap() {
    let mut areas = VmaList::default();
    for count in 1..200 {
        let place = areas.find_place(count * PAGE_SIZE).expect("there is room");
        assert!(areas.is_free(place, place + count * PAGE_SIZE) && place + count * PAGE_SIZE <= MMAP_TOP);
        areas.insert(Vma::anonymous(place, place + count * PAGE_SIZE, Protection::READ));
    }
    assert_eq!(areas.find_place_below(MMAP_TOP, MMAP_TOP), Err(Errno::ENOMEM));
    areas.insert(Vma::anonymous(LEAST_ADDRESS, MMAP_TOP, Protection::READ));
    assert_eq!(areas.find_place_below(MMAP_TOP, PAGE_SIZE), Err(Errno::ENOMEM));
}

#[test]
fn what_has_no_place_below_the_stack_gets_one_above_it() {
    let mut areas = VmaList::default();
    assert_eq!(areas.find_place(CHOSEN_END), Ok(PROGRAM_END - CHOSEN_END));
    areas.insert(Vma::anonymous(LEAST_ADDRESS, MMAP_TOP, Protection::READ));
    assert_eq!(areas.find_place(PAGE_SIZE), Ok(PROGRAM_END - PAGE_SIZE));
    assert_eq!(areas.find_place(PROGRAM_END - CHOSEN_END), Ok(CHOSEN_END));
    assert_eq!(areas.find_place(PROGRAM_END - CHOSEN_END + PAGE_SIZE), Err(Errno::ENOMEM));
    areas.insert(Vma::anonymous(CHOSEN_END, PROGRAM_END, Protection::READ));
    assert_eq!(areas.find_place(PAGE_SIZE), Err(Errno::ENOMEM));
}
