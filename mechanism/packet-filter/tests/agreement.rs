//! The merged structure gives every packet to the same owner as the naive model.

mod support;

use packet_filter::Sizes;
use support::{Driver, Memory, Random, cases, seed, small_filter, small_packet, tcp_filter, tcp_packet};

fn sizes() -> Sizes {
    Sizes::for_filters(4, 64)
}

#[test]
fn random_filters_and_packets() {
    let mut random = Random(seed(1));
    for _ in 0..cases(150, 20_000) {
        let mut memory = Memory::new(sizes());
        let mut driver = Driver::new(&mut memory, random.next());
        for _ in 0..random.below(40) {
            let atoms = small_filter(&mut random);
            let _ = driver.insert(random.below(4) as u32, &atoms, true);
        }
        for _ in 0..60 {
            driver.check(&small_packet(&mut random));
        }
    }
}

#[test]
fn insertion_and_removal_in_any_order() {
    let mut random = Random(seed(2));
    for _ in 0..cases(40, 4_000) {
        let mut memory = Memory::new(sizes());
        let mut driver = Driver::new(&mut memory, random.next());
        for _ in 0..120 {
            if random.chance(45) && !driver.installed.is_empty() {
                let index = random.below(driver.installed.len() as u64) as usize;
                driver.remove(driver.installed[index].0);
            } else {
                let _ = driver.insert(random.below(4) as u32, &small_filter(&mut random), true);
            }
            for _ in 0..4 {
                driver.check(&small_packet(&mut random));
            }
        }
        while let Some((id, _, _)) = driver.installed.last() {
            driver.remove(*id);
        }
        assert!(driver.classifier.is_clean(), "something was left behind");
    }
}

/// Many constants at one place: tables grow, lose keys, shrink; addresses and ports are drawn from few, so
/// that prefixes are shared in every way. Each filter that is left finds its packets afterwards.
#[test]
fn tables_that_grow_and_shrink() {
    let mut random = Random(seed(3));
    for round in 0..cases(6, 600) {
        let mut memory = Memory::new(Sizes::for_filters(1, 400));
        let mut driver = Driver::new(&mut memory, random.next());
        let (addresses, ports) = [(1, 300), (300, 2), (20, 20)][(round % 3) as usize];
        // Addresses lie scattered: what follows each other, a multiplier spreads too evenly for keys to meet in a
        // table.
        let address = |number: u64| Random(number + 1).next() as u32;
        let draw = |random: &mut Random| (address(random.below(addresses)), random.below(ports) as u16);
        let mut places = Vec::new();
        for phase in 0..4 {
            for _ in 0..120 {
                let (address, port) = draw(&mut random);
                if phase % 2 == 0 {
                    if driver.insert(0, &tcp_filter(address, port), false).is_ok() {
                        places.push((address, port));
                    }
                } else if !driver.installed.is_empty() {
                    let index = random.below(driver.installed.len() as u64) as usize;
                    driver.remove(driver.installed[index].0);
                    places.remove(index);
                }
                let (address, port) = draw(&mut random);
                driver.check(&tcp_packet(address, port, 5 + random.below(3) as u8));
            }
            for (address, port) in &places {
                assert!(driver.check(&tcp_packet(*address, *port, 5)).is_some(), "{address:x} {port} was lost");
            }
        }
        while let Some((id, _, _)) = driver.installed.first() {
            driver.remove(*id);
        }
        assert!(driver.classifier.is_clean(), "something was left behind");
    }
}

#[test]
fn of_equals_the_older_wins() {
    let mut memory = Memory::new(sizes());
    let mut driver = Driver::new(&mut memory, 1);
    let first = driver.insert(0, &tcp_filter(1, 80), false).expect("there is room");
    driver.insert(1, &tcp_filter(1, 80), true).expect("with a key");
    let found = driver.check(&tcp_packet(1, 80, 5));
    assert_eq!(found.map(|found| found.filter), Some(first));
}
