//! The overlap check against every packet of a small world, and in it the rule that decides the winner.

mod support;

use packet_filter::{Atom, Builder, Compare, Rank, Reason, Refusal, Size, Sizes, conjunctions, reference};
use support::{Driver, Memory, Random, cases, seed, small_filter, tcp_filter, tiny_filter, tiny_packets};

fn sizes() -> Sizes {
    Sizes::for_filters(4, 16)
}

/// Installs the first for one owner, then offers the second for another without a key.
fn offer(driver: &mut Driver<'_, Vec<u8>>, first: &[Atom], second: &[Atom]) -> Option<Result<(), Refusal>> {
    driver.insert(0, first, false).ok()?;
    Some(driver.insert(1, second, false).map(|_| ()))
}

#[test]
fn fixed_places_are_decided_exactly() {
    let mut random = Random(seed(21));
    let (mut met, mut apart) = (0, 0);
    for _ in 0..cases(250, 10_000) {
        let (first, second) = (tiny_filter(&mut random, false), tiny_filter(&mut random, false));
        let mut memory = Memory::new(sizes());
        let mut driver = Driver::new(&mut memory, random.next());
        let Some(outcome) = offer(&mut driver, &first, &second) else { continue };
        let both = tiny_packets().find(|packet| {
            reference::accepts(&first, packet).is_some() && reference::accepts(&second, packet).is_some()
        });
        match outcome.map_err(|refusal| refusal.reason) {
            Ok(()) => {
                apart += 1;
                assert_eq!(both, None, "an overlap was missed: {first:?} {second:?}");
            }
            Err(Reason::Overlap { exact, .. }) => {
                met += 1;
                assert!(exact && both.is_some(), "no packet matches both: {first:?} {second:?}");
                check_witness(&driver, &first, &second);
            }
            Err(_) => {}
        }
    }
    println!("{met} pairs meet, {apart} do not");
    assert!(met > 50 && apart > 20, "the cases say something");
}

fn check_witness(driver: &Driver<'_, Vec<u8>>, first: &[Atom], second: &[Atom]) {
    let mut buffer = [0xa5; 4096];
    let packet = driver.classifier.witness().write(&mut buffer).expect("small packets");
    assert!(
        reference::accepts(first, packet).is_some(),
        "the installed filter rejects {packet:?}: {first:?} {second:?}"
    );
    assert!(reference::accepts(second, packet).is_some(), "the new filter rejects {packet:?}: {first:?} {second:?}");
}

#[test]
fn through_header_lengths_no_overlap_is_missed_and_every_witness_is_true() {
    let mut random = Random(seed(22));
    let (mut met, mut apart) = (0, 0);
    for _ in 0..cases(250, 10_000) {
        let (first, second) = (tiny_filter(&mut random, true), tiny_filter(&mut random, true));
        let mut memory = Memory::new(sizes());
        let mut driver = Driver::new(&mut memory, random.next());
        match offer(&mut driver, &first, &second) {
            Some(Ok(())) => {
                apart += 1;
                let both = |packet: &Vec<u8>| {
                    reference::accepts(&first, packet).is_some() && reference::accepts(&second, packet).is_some()
                };
                assert_eq!(tiny_packets().find(both), None, "an overlap was missed: {first:?} {second:?}");
            }
            Some(Err(Refusal { reason: Reason::Overlap { exact: true, .. }, .. })) => {
                met += 1;
                check_witness(&driver, &first, &second);
            }
            Some(Err(Refusal { reason: Reason::Overlap { exact: false, .. }, .. })) => {
                panic!("one-bit shifts are decided")
            }
            _ => {}
        }
    }
    assert!(met > 50 && apart > 20, "the cases say something: {met} {apart}");
}

#[test]
fn many_filters_meet_as_pairs_do() {
    let mut random = Random(seed(23));
    for _ in 0..cases(60, 5_000) {
        let filters: Vec<_> = (0..12).map(|_| small_filter(&mut random)).collect();
        let mut memory = Memory::new(sizes());
        let mut driver = Driver::new(&mut memory, random.next());
        for filter in &filters {
            let owner = 1 + driver.installed.len() as u32 % 3;
            let foreign = driver
                .installed
                .iter()
                .any(|(_, other_owner, other)| *other_owner != owner && pair_meets(other, filter));
            let before = driver.installed.len();
            let outcome = driver.insert(owner, filter, false);
            match outcome.map_err(|refusal| refusal.reason) {
                Ok(_) => assert!(!foreign, "{filter:?} meets another owner's filter"),
                Err(Reason::Overlap { .. }) => assert!(foreign, "{filter:?} meets none"),
                Err(_) => assert_eq!(driver.installed.len(), before),
            }
        }
    }
}

/// Whether two filters meet when they are alone.
fn pair_meets(first: &[Atom], second: &[Atom]) -> bool {
    let mut memory = Memory::new(Sizes::for_filters(2, 2));
    let mut driver = Driver::new(&mut memory, 5);
    matches!(offer(&mut driver, first, second), Some(Err(Refusal { reason: Reason::Overlap { .. }, .. })))
}

#[test]
fn fault_50_one_owner_cannot_take_another_owners_port() {
    let mut memory = Memory::new(sizes());
    let mut driver = Driver::new(&mut memory, 1);
    let victim = driver.insert(0, &tcp_filter(0x0a00_0001, 80), false).expect("the first is free to");
    let same = driver.insert(1, &tcp_filter(0x0a00_0001, 80), false).expect_err("the port is taken");
    assert_eq!(same.reason, Reason::Overlap { filter: victim, exact: true });
    check_witness(&driver, &tcp_filter(0x0a00_0001, 80), &tcp_filter(0x0a00_0001, 80));
    driver.insert(1, &tcp_filter(0x0a00_0001, 81), false).expect("another port is free");
    driver.insert(0, &tcp_filter(0x0a00_0001, 80), false).expect("one may repeat oneself");
    assert!(same.to_string().contains("key"), "{same}");
}

#[test]
fn fault_50_a_wildcard_is_refused_without_keys_and_loses_with_them() {
    let mut memory = Memory::new(sizes());
    let mut driver = Driver::new(&mut memory, 1);
    let specific = driver.insert(0, &tcp_filter(0x0a00_0001, 80), false).expect("the first is free to");
    let mut atoms = [Atom::default(); 2];
    let everything = Builder::new(&mut atoms).reaches(1).finish().expect("two are enough");
    assert!(driver.insert(1, everything, false).is_err(), "a filter for all packets takes another's");
    let wildcard = driver.insert(1, everything, true).expect("its owner holds a key now");
    let packet = support::tcp_packet(0x0a00_0001, 80, 5);
    assert_eq!(driver.check(&packet).map(|found| found.filter), Some(specific));
    assert_eq!(driver.check(&packet[..20]).map(|found| found.filter), Some(wildcard));
}

#[test]
fn fault_50_the_key_is_asked_for_each_filter_that_is_met() {
    let mut memory = Memory::new(sizes());
    let mut driver = Driver::new(&mut memory, 1);
    let first = driver.insert(0, &tcp_filter(0x0a00_0001, 80), false).expect("free");
    let second = driver.insert(2, &tcp_filter(0x0a00_0001, 81), false).expect("free");
    let mut atoms = [Atom::default(); 2];
    let tcp = Builder::new(&mut atoms).equal(Size::One, 23, 6).finish().expect("two are enough");
    driver.classifier.insert(1, tcp).expect("nothing is under way");
    let mut asked = Vec::new();
    driver.run(&mut |filter, owner| {
        asked.push((filter, owner));
        true
    });
    asked.sort_by_key(|(filter, _)| filter.serial());
    assert_eq!(asked, [(first, 0), (second, 2)]);
}

#[test]
fn header_lengths_with_too_many_values_may_overlap() {
    let mut memory = Memory::new(sizes());
    let mut driver = Driver::new(&mut memory, 1);
    let wide = |value| {
        let mut atoms = [Atom::default(); 3];
        let builder = Builder::new(&mut atoms).shift(Size::Two, 0, 0xfff8, 0).shift(Size::Two, 2, 0x0fff, 0);
        builder.equal(Size::One, 9, value).finish().expect("three are enough").to_vec()
    };
    driver.insert(0, &wide(1), false).expect("free");
    driver.insert(1, &wide(2), false).expect("the same bases, different values: apart whatever the lengths");
    let mut atoms = [Atom::default(); 1];
    let fixed = Builder::new(&mut atoms).equal(Size::One, 40, 7).finish().expect("one is enough");
    let refusal = driver.insert(1, fixed, false).expect_err("not decided counts as an overlap");
    assert!(matches!(refusal.reason, Reason::Overlap { exact: false, .. }), "{refusal}");
}

#[test]
fn fault_50_equal_tests_from_different_bases_are_not_taken_for_one() {
    let from = |mask, value| {
        let mut atoms = [Atom::default(); 2];
        let builder = Builder::new(&mut atoms).shift(Size::One, 0, mask, 0);
        builder.equal(Size::One, 1, value).finish().expect("two are enough").to_vec()
    };
    let mut memory = Memory::new(sizes());
    let mut driver = Driver::new(&mut memory, 1);
    for value in [7, 8] {
        driver.insert(0, &from(1, value), false).expect("free");
    }
    assert!(driver.naive(&[1, 9, 7]).is_some() && reference::accepts(&from(2, 9), &[1, 9, 7]).is_some());
    let refusal = driver.insert(1, &from(2, 9), false).expect_err("packets such as [1, 9, 7] match both");
    assert!(matches!(refusal.reason, Reason::Overlap { exact: true, .. }), "{refusal}");
}

#[test]
fn the_rule_is_a_strict_total_order() {
    let mut random = Random(seed(24));
    for _ in 0..cases(300, 30_000) {
        let mut ranks = Vec::new();
        for serial in 1..=6 {
            for (number, conjunction) in conjunctions(&small_filter(&mut random)).enumerate() {
                ranks.extend(Rank::of(conjunction, serial, number as u8).ok());
            }
        }
        for (index, a) in ranks.iter().enumerate() {
            for (other, b) in ranks.iter().enumerate() {
                assert_eq!(a == b, index == other, "no two are equal");
                assert!((a < b) != (b < a) || index == other);
                assert!(ranks.iter().all(|c| !(a < b && b < c) || a < c));
            }
        }
    }
}

#[test]
fn what_asks_for_more_wins_whatever_its_age() {
    let mut random = Random(seed(25));
    let (mut compared, mut narrower) = (0, 0);
    for _ in 0..cases(3_000, 300_000) {
        let filter = small_filter(&mut random);
        let Some(conjunction) = conjunctions(&filter).next() else { continue };
        let Ok(rank) = Rank::of(conjunction, 1, 0) else { continue };
        let mut more =
            vec![Atom { size: 2, offset: 60, mask: 0xffff, low: random.below(65_535) as u32, ..Atom::default() }];
        more.extend_from_slice(conjunction);
        let refined = Rank::of(&more, 2, 0).expect("one more atom elsewhere");
        assert!(refined > rank, "{more:?} asks for more than {conjunction:?}");
        compared += 1;
        let low = random.next() as u32 >> random.below(24);
        let Some(high) =
            low.checked_add(1 + (random.next() as u32 >> random.below(31))).filter(|high| *high < u32::MAX)
        else {
            continue;
        };
        let range = |low, high| Atom {
            compare: Compare::Within as u8,
            size: 4,
            offset: 2,
            mask: u32::MAX,
            low,
            high,
            ..Atom::default()
        };
        let (wide, narrow) = (Rank::of(&[range(low, high + 1)], 1, 0), Rank::of(&[range(low, high)], 2, 0));
        assert!(narrow.expect("sound") > wide.expect("sound"), "{low}..={high} is narrower");
        narrower += 1;
    }
    assert!(compared > 1_000 && narrower > 1_000, "the cases say something: {compared} {narrower}");
}

#[test]
fn saying_a_thing_twice_gains_nothing() {
    let equal =
        |size, offset, low| Atom { size, offset, mask: u32::MAX >> (32 - 8 * u32::from(size)), low, ..Atom::default() };
    let plain = Rank::of(&[equal(2, 0, 0x1234), equal(1, 4, 0)], 1, 0).expect("sound");
    let twice =
        Rank::of(&[equal(2, 0, 0x1234), equal(1, 0, 0x12), equal(1, 1, 0x34), equal(1, 4, 0)], 1, 0).expect("sound");
    assert_eq!(plain, twice);
}
