//! The plain tests: one example of each thing. (The deliberate mutants pass them.)

mod support;

use packet_filter::{Atom, Builder, Reason, Size, Sizes};
use support::{Driver, Memory, tcp_filter, tcp_packet};

#[test]
fn a_filter_takes_its_packets_until_it_is_removed() {
    let mut memory = Memory::new(Sizes::for_filters(1, 8));
    let mut driver = Driver::new(&mut memory, 1);
    let id = driver.insert(0, &tcp_filter(0x0a00_0001, 80), false).expect("there is room");
    let packet = tcp_packet(0x0a00_0001, 80, 6);
    assert_eq!(driver.classifier.classify(&packet).map(|found| found.filter), Some(id));
    assert_eq!(driver.classifier.classify(&tcp_packet(0x0a00_0001, 81, 6)), None);
    assert_eq!(driver.classifier.classify(&packet[..40]), None);
    driver.remove(id);
    assert_eq!(driver.classifier.classify(&packet), None);
    assert!(driver.classifier.is_clean());
}

#[test]
fn several_filters_are_told_apart() {
    let mut memory = Memory::new(Sizes::for_filters(2, 8));
    let mut driver = Driver::new(&mut memory, 1);
    for port in 80..84 {
        driver.insert(u32::from(port % 2), &tcp_filter(0x0a00_0001, port), false).expect("there is room");
    }
    for port in 79..85 {
        driver.check(&tcp_packet(0x0a00_0001, port, 5));
    }
}

#[test]
fn the_same_filter_of_another_owner_is_refused() {
    let mut memory = Memory::new(Sizes::for_filters(2, 8));
    let mut driver = Driver::new(&mut memory, 1);
    driver.insert(0, &tcp_filter(0x0a00_0001, 80), false).expect("there is room");
    let refusal = driver.insert(1, &tcp_filter(0x0a00_0001, 80), false).expect_err("the port is taken");
    assert!(matches!(refusal.reason, Reason::Overlap { exact: true, .. }), "{refusal}");
}

#[test]
fn the_builder_makes_what_it_says() {
    let mut atoms = [Atom::default(); 9];
    let built = Builder::new(&mut atoms).less(Size::One, 0, 5).or().greater(Size::Two, 2, 9).finish().expect("two fit");
    let shown: Vec<_> =
        built.iter().map(|atom| (atom.conjunction, atom.size, atom.offset, atom.low, atom.high)).collect();
    assert_eq!(shown, [(0, 1, 0, 0, 4), (1, 2, 2, 10, 0xffff)]);
    let mut none: [Atom; 0] = [];
    assert_eq!(Builder::new(&mut none).reaches(4).finish().map_err(|error| error.0), Err(1));
}
