//! The merged structure gives every packet to whom the naive model gives it.

mod support;

use packet_filter::Sizes;
use support::{Driver, Memory, Random, cases, seed, small_filter, small_packet};

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
