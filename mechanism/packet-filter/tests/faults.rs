//! Rows 51 to 57 of the fault matrix, as far as they concern filters.

mod support;

use packet_filter::{Atom, Classifier, Compare, Progress, Quota, Reason, Refusal, Resource, Sizes, limit};
use support::{Differ, Driver, Memory, PLENTY, Random, cases, endpoint, seed, small_filter, tcp_filter, tcp_packet};

fn reason<T>(outcome: Result<T, Refusal>) -> Option<Reason> {
    outcome.err().map(|refusal| refusal.reason)
}

/// A filter of one conjunction that makes so many tests at places of its own.
fn tests_at(first: u32, count: u32) -> Vec<Atom> {
    (0..count).map(|index| Atom { size: 1, offset: first + index, mask: 0xff, low: 1, ..Atom::default() }).collect()
}

#[test]
fn fault_51_each_quota_is_kept_and_a_refusal_changes_nothing() {
    let quotas = [
        (Resource::Filters, Quota { filters: 2, ..PLENTY }),
        (Resource::Conjunctions, Quota { conjunctions: 2, ..PLENTY }),
        (Resource::Atoms, Quota { atoms: 10, ..PLENTY }),
        (Resource::Shapes, Quota { shapes: 10, ..PLENTY }),
    ];
    for (what, quota) in quotas {
        let mut memory = Memory::new(Sizes::for_filters(2, 16));
        let mut driver = Driver::new(&mut memory, 1);
        driver.classifier.set_quota(0, quota).expect("owner 0 exists");
        driver.insert(0, &tests_at(0, 5), false).expect("within the quota");
        driver.insert(0, &tests_at(100, 5), true).expect("within the quota");
        let used = driver.classifier.account(0);
        let third = driver.insert(0, &tests_at(200, 5), true);
        assert_eq!(reason(third), Some(Reason::Quota(what)));
        assert_eq!(driver.classifier.account(0), used, "a refusal charges nothing");
        driver.insert(1, &tests_at(200, 5), true).expect("another owner's quota is its own");
        while let Some((id, _, _)) = driver.installed.last() {
            driver.remove(*id);
        }
        assert!(driver.classifier.is_clean());
    }
}

#[test]
fn fault_51_deep_filters_with_one_prefix_share_it() {
    let mut memory = Memory::new(Sizes { cells: 30_000, ..Sizes::for_filters(1, 1_000) });
    let mut driver = Driver::new(&mut memory, 1);
    for value in 0..1_000u32 {
        let mut atoms = tests_at(0, limit::ATOMS as u32 - 1);
        atoms.push(Atom { size: 4, offset: 100, mask: u32::MAX, low: value << 16, ..Atom::default() });
        driver.insert(0, &atoms, false).expect("there is room");
    }
    assert_eq!(driver.classifier.shape_count(), limit::ATOMS, "time does not grow with filters");
    let mut packet = vec![1; 104];
    packet[100..].copy_from_slice(&(700u32 << 16).to_be_bytes());
    let found = driver.classifier.classify(&packet).expect("filter 700 takes it");
    assert_eq!(found.filter, driver.installed[700].0);
}

#[test]
fn fault_51_shapes_bound_the_time_of_classification() {
    let mut memory = Memory::new(Sizes::for_filters(1, 4_500));
    let mut driver = Driver::new(&mut memory, 1);
    for index in 0..3_000 {
        let (address, port) = endpoint(Differ::Both, index);
        driver.insert(0, &tcp_filter(address, port), false).expect("there is room");
    }
    assert_eq!(driver.classifier.shape_count(), 5, "five tests for three thousand filters");
    let mut refused = None;
    for index in 0..limit::SHAPES as u32 {
        refused = refused.or(reason(driver.insert(0, &tests_at(1_000 + index, 1), false)));
    }
    assert_eq!(refused, Some(Reason::Full(Resource::Shapes)), "tests at a thousand places are too many");
}

#[test]
fn fault_51_constants_that_agree_in_many_bits_hash_well() {
    for stride in [1u32, 1 << 8, 1 << 16, 1 << 22, 0x0101_0101] {
        let mut memory = Memory::new(Sizes::for_filters(1, 600));
        let mut driver = Driver::new(&mut memory, 77);
        let filter = |index: u32| {
            vec![Atom { size: 4, offset: 0, mask: u32::MAX, low: index.wrapping_mul(stride), ..Atom::default() }]
        };
        for index in 0..600 {
            driver.insert(0, &filter(index), false).expect("there is room");
        }
        assert!(driver.steps < 600 * 12, "{} steps for stride {stride:#x}", driver.steps);
        for index in (0..600u32).step_by(7) {
            assert!(driver.classifier.classify(&index.wrapping_mul(stride).to_be_bytes()).is_some());
        }
    }
}

/// Whatever runs out, the refusal says what, and what is installed works as before.
#[test]
fn fault_51_fault_54_exhaustion_of_anything_is_a_refusal() {
    let mut random = Random(seed(41));
    let plenty = Sizes::for_filters(2, 64);
    let shortages = [
        Sizes { filters: 6, ..plenty },
        Sizes { conjunctions: 10, ..plenty },
        Sizes { cells: 40, ..plenty },
        Sizes { shapes: 30, ..plenty },
        Sizes { states: 32, ..plenty },
        Sizes { branches: 40, ..plenty },
        Sizes { tails: 8, ..plenty },
        Sizes { heap_words: 256, ..plenty },
        Sizes { code: limit::PIECE, ..plenty },
    ];
    for sizes in shortages {
        for _ in 0..cases(4, 400) {
            let mut memory = Memory::new(sizes);
            let mut driver = Driver::new(&mut memory, random.next());
            let mut full = 0;
            for round in 0..150 {
                let outcome = driver.insert(random.below(2) as u32, &small_filter(&mut random), true);
                full += u32::from(matches!(reason(outcome), Some(Reason::Full(_))));
                driver.check(&support::small_packet(&mut random));
                if round % 10 == 9 && !driver.installed.is_empty() {
                    let index = random.below(driver.installed.len() as u64) as usize;
                    driver.remove(driver.installed[index].0);
                }
            }
            assert!(full > 0, "nothing ran out of {sizes:?}");
            while let Some((id, _, _)) = driver.installed.last() {
                driver.remove(*id);
            }
            assert!(driver.classifier.is_clean(), "something was left behind");
        }
    }
}

#[test]
fn fault_52_malformed_atoms_are_named() {
    let sound = Atom { size: 2, offset: 12, mask: 0xffff, low: 0x0800, ..Atom::default() };
    let shift = Atom { compare: Compare::Shift as u8, size: 1, mask: 15, shift: 2, ..Atom::default() };
    let range = Atom { compare: Compare::Within as u8, high: 0xffff, ..sound };
    let wrong = [
        (Atom { compare: 5, ..sound }, Reason::UnknownCompare(5)),
        (Atom { compare: 255, ..sound }, Reason::UnknownCompare(255)),
        (Atom { size: 0, ..sound }, Reason::Size(0)),
        (Atom { size: 3, ..sound }, Reason::Size(3)),
        (Atom { size: 8, ..sound }, Reason::Size(8)),
        (Atom { offset: u32::MAX, ..sound }, Reason::Offset(u32::MAX)),
        (Atom { offset: limit::OFFSET + 1, ..sound }, Reason::Offset(limit::OFFSET + 1)),
        (Atom { mask: 0x1_0000, low: 0, ..sound }, Reason::MaskTooWide(0x1_0000)),
        (Atom { mask: 0xff00, low: 0x0801, ..sound }, Reason::ValueOutsideMask(0x0801)),
        (Atom { high: 1, ..sound }, Reason::UnusedField),
        (Atom { shift: 1, ..sound }, Reason::UnusedField),
        (Atom { low: 9, high: 8, ..range }, Reason::EmptyRange),
        (Atom { low: 0, high: u32::MAX, compare: Compare::Outside as u8, ..range }, Reason::EmptyRange),
        (Atom { shift: 32, ..shift }, Reason::ShiftBits(32)),
        (Atom { shift: -128, ..shift }, Reason::ShiftBits(-128)),
        (Atom { shift: 31, ..shift }, Reason::ShiftDistance),
        (Atom { size: 4, mask: u32::MAX, shift: 0, ..shift }, Reason::ShiftDistance),
        (Atom { low: 1, ..shift }, Reason::UnusedField),
        (Atom { low: 0x0806, ..sound }, Reason::NeverHolds),
    ];
    let mut memory = Memory::new(Sizes::for_filters(1, 4));
    let mut driver = Driver::new(&mut memory, 1);
    for (atom, expected) in wrong {
        let atoms = [sound, Atom { conjunction: 1, ..sound }, Atom { conjunction: 1, ..atom }];
        let refusal = driver.insert(0, &atoms, false).expect_err("it is malformed");
        assert_eq!((refusal.conjunction, refusal.atom, refusal.reason), (Some(1), Some(1), expected));
        assert!(refusal.to_string().starts_with("conjunction 1, atom 1: "), "{refusal}");
        assert!(driver.classifier.is_clean());
    }
}

#[test]
fn fault_52_malformed_outlines_are_named() {
    let mut memory = Memory::new(Sizes::for_filters(1, 4));
    let mut driver = Driver::new(&mut memory, 1);
    let atom = |conjunction| Atom { conjunction, size: 1, ..Atom::default() };
    assert_eq!(reason(driver.insert(0, &[], false)), Some(Reason::NoAtoms));
    assert_eq!(reason(driver.insert(9, &[atom(0)], false)), Some(Reason::NoSuchOwner));
    for order in [vec![atom(1)], vec![atom(0), atom(2)], vec![atom(0), atom(1), atom(0)]] {
        assert_eq!(reason(driver.insert(0, &order, false)), Some(Reason::ConjunctionOrder));
    }
    let many: Vec<_> = (0..=limit::CONJUNCTIONS as u8).map(atom).collect();
    assert_eq!(reason(driver.insert(0, &many, false)), Some(Reason::TooManyConjunctions));
    assert_eq!(reason(driver.insert(0, &vec![atom(0); limit::FILTER_ATOMS + 1], false)), Some(Reason::TooManyAtoms));
    let long = driver.insert(0, &vec![atom(0); limit::ATOMS + 1], false).expect_err("too long");
    assert_eq!((long.reason, long.atom), (Reason::TooManyAtoms, Some(limit::ATOMS as u8)));
    let shift = Atom { compare: Compare::Shift as u8, ..atom(0) };
    assert_eq!(reason(driver.insert(0, &[shift; 5], false)), Some(Reason::TooManyShifts));
    assert!(driver.classifier.is_clean());
}

#[test]
fn fault_52_random_bytes_are_refused_or_sound() {
    let mut random = Random(seed(42));
    let mut memory = Memory::new(Sizes::for_filters(2, 32));
    let mut driver = Driver::new(&mut memory, 1);
    for _ in 0..cases(4_000, 10_000_000) {
        let count = random.below(6);
        let atoms: Vec<_> = (0..count).map(|_| wild_atom(&mut random)).collect();
        let _ = driver.insert(random.below(2) as u32, &atoms, random.chance(50));
        let packet: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        driver.check(&packet);
        if driver.installed.len() > 20 {
            driver.remove(driver.installed[random.below(20) as usize].0);
        }
    }
}

/// Any bits at all, with a bias towards those that get far.
fn wild_atom(random: &mut Random) -> Atom {
    let mut wild = |sensible: u64| if random.chance(80) { random.below(sensible) } else { random.next() };
    Atom {
        conjunction: wild(1) as u8,
        compare: wild(5) as u8,
        size: 1 << (wild(3) as u8 & 7),
        shift: wild(2) as i8,
        offset: wild(30) as u32,
        mask: wild(256) as u32,
        low: wild(2) as u32,
        high: wild(2) as u32,
    }
}

#[test]
fn fault_53_a_packet_in_flight_meets_no_dead_filter() {
    let mut memory = Memory::new(Sizes::for_filters(2, 16));
    let mut driver = Driver::new(&mut memory, 1);
    let id = driver.insert(0, &tcp_filter(0x0a00_0001, 80), false).expect("free");
    let packet = tcp_packet(0x0a00_0001, 80, 5);
    let answers: Vec<u32> = (0..64).filter(|answer| driver.classifier.resolve(*answer).is_some()).collect();
    assert_eq!(answers.len(), 1, "one conjunction is installed");
    driver.classifier.remove(id).expect("installed");
    assert_eq!(driver.classifier.resolve(answers[0]), None, "the answer was on its way");
    loop {
        assert_eq!(driver.classifier.classify(&packet), None);
        match driver.classifier.step(&mut |_, _| false) {
            Progress::Removed(_) => break,
            Progress::Commit => support::CodeMemory::commit(&mut driver.code, driver.classifier.patch()),
            _ => {}
        }
    }
    driver.installed.clear();
    driver.insert(1, &tcp_filter(0x0a00_0001, 80), false).expect("the port is free again");
    assert_eq!(reason(driver.classifier.remove(id)), Some(Reason::NoSuchFilter), "names are not used again");
}

#[test]
fn fault_53_all_of_a_dead_owner_goes() {
    let mut memory = Memory::new(Sizes::for_filters(3, 64));
    let mut driver = Driver::new(&mut memory, 1);
    let mut of_dead = vec![];
    for index in 0..30 {
        let (address, port) = endpoint(Differ::Both, index);
        let id = driver.insert(index % 3, &tcp_filter(address, port), false).expect("free");
        if index % 3 == 1 {
            of_dead.push(id);
        }
    }
    of_dead.into_iter().for_each(|id| driver.remove(id));
    assert_eq!(driver.classifier.filter_count(), 20);
    assert_eq!(driver.classifier.account(1).map(|(_, used)| used.filters), Some(0));
    for index in 0..30 {
        let (address, port) = endpoint(Differ::Both, index);
        driver.check(&tcp_packet(address, port, 5));
    }
}

#[test]
fn fault_53_who_waits_can_finish_what_another_began() {
    let mut memory = Memory::new(Sizes::for_filters(2, 16));
    let mut driver = Driver::new(&mut memory, 1);
    driver.classifier.insert(0, &tcp_filter(0x0a00_0001, 80)).expect("nothing is under way");
    assert_eq!(reason(driver.classifier.insert(1, &tcp_filter(0x0a00_0001, 81))), Some(Reason::Busy));
    assert!(matches!(driver.run(&mut |_, _| false), Some(Progress::Installed(_))));
    driver.insert(1, &tcp_filter(0x0a00_0001, 81), false).expect("now it is");
}

#[test]
fn fault_54_an_arena_beyond_displacements_is_refused() {
    let sizes = Sizes { code: 2 * limit::CODE, ..Sizes::for_filters(1, 4) };
    let mut memory = Memory::new(sizes);
    let refused = Classifier::new(memory.storage(), 1).err().map(|refusal| refusal.reason);
    assert_eq!(refused, Some(Reason::Storage(Resource::Code)));
}

/// 64 conjunctions of ranges against 64 others: work is bounded by a budget, not by their product.
#[test]
fn fault_57_comparing_bombs_end_within_their_budget() {
    let ranges = |conjunction: u8, low: u32| {
        (0..8u32).map(move |place| Atom {
            conjunction,
            compare: Compare::Outside as u8,
            size: 4,
            offset: place,
            mask: 0x8421_8421,
            low: low + 1 + u32::from(conjunction),
            high: 0x8421_0000 - place,
            ..Atom::default()
        })
    };
    let bomb = |low| (0..64).flat_map(|conjunction| ranges(conjunction, low)).collect::<Vec<_>>();
    let mut memory = Memory::new(Sizes::for_filters(2, 200));
    let mut driver = Driver::new(&mut memory, 1);
    driver.insert(0, &bomb(0), false).expect("alone it meets no one");
    let before = driver.steps;
    let _ = driver.insert(1, &bomb(5), true);
    assert!(driver.steps - before < 60_000, "{} steps", driver.steps - before);
}
