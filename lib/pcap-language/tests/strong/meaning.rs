//! What holds without libpcap: the sum of products means what the formula means, and
//! packets too short for a test never match by it.

use fastrand::Rng;
use packet_filter::Sizes;
use pcap_language::meaning::{Formula, formula};

use crate::{accepts, cases, generate, packet_filter_support, seed};

/// The formula's value, where a test of missing bytes has none: a part that does not
/// depend on it still has one.
fn value(formula: &Formula, packet: &[u8]) -> Option<bool> {
    match formula {
        Formula::Constant(value) => Some(*value),
        Formula::Test(test) => test.holds(packet),
        Formula::Not(inner) => value(inner, packet).map(|value| !value),
        Formula::All(parts) => joined(parts, packet, false),
        Formula::Any(parts) => joined(parts, packet, true),
    }
}

/// `decisive` as soon as one part has that value; unknown if any part is unknown.
fn joined(parts: &[Formula], packet: &[u8], decisive: bool) -> Option<bool> {
    let values: Vec<_> = parts.iter().map(|part| value(part, packet)).collect();
    if values.contains(&Some(decisive)) {
        return Some(decisive);
    }
    if values.contains(&None) { None } else { Some(!decisive) }
}

#[test]
fn filters_mean_what_their_formula_means_on_packets_of_any_length() {
    let mut rng = Rng::with_seed(seed());
    for _ in 0..cases(3_000, 300_000) {
        let size = rng.usize(1..6);
        let text = generate::expression(&mut rng, size);
        let Ok(atoms) = pcap_language::compile(&text) else { continue };
        let expression = pcap_language::parse(&text).expect("what compiles parses");
        let formula = formula(&expression);
        for _ in 0..40 {
            let packet = generate::packet(&mut rng);
            let expected = value(&formula, &packet) == Some(true);
            assert_eq!(accepts(&atoms, &packet), expected, "{text:?} on {packet:02x?}");
        }
    }
}

#[test]
fn fault_52_no_filter_accepts_an_empty_packet_that_it_would_have_to_read() {
    for text in ["ip", "not ip", "tcp port 80", "not tcp port 80", "ether[0] = 0", "not ether[0] = 0"] {
        let atoms = pcap_language::compile(text).expect("translated");
        assert!(!accepts(&atoms, &[]), "{text}");
    }
}

/// What we translate, packet-filter installs, and its merged structure gives the packets
/// to it that the atoms accept.
#[test]
fn fault_52_the_classifier_takes_every_translation_and_agrees() {
    let mut rng = Rng::with_seed(seed());
    for _ in 0..cases(300, 30_000) {
        let size = rng.usize(1..6);
        let text = generate::expression(&mut rng, size);
        let Ok(atoms) = pcap_language::compile(&text) else { continue };
        let mut memory = packet_filter_support::Memory::new(Sizes::for_filters(1, 64));
        let mut driver = packet_filter_support::Driver::new(&mut memory, 1);
        driver.insert(0, &atoms, false).unwrap_or_else(|refusal| panic!("{text:?}: {refusal}"));
        for _ in 0..20 {
            let packet = generate::packet(&mut rng);
            let taken = driver.classifier.classify(&packet).is_some();
            assert_eq!(taken, accepts(&atoms, &packet), "{text:?} on {packet:02x?}");
        }
    }
}
