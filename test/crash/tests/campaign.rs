//! Crash campaigns over XN. Any failure prints its seed.

use crash::campaign::{Size, run};

#[test]
fn no_crash_state_breaks_a_volume() {
    let report = run(1, Size { workloads: 48, operations: 400, moments: 40, states: 8 });
    assert!(report.states >= 5_000 && report.again > 100, "{report:?}");
    assert!(report.accepted > 1_000 && report.refused > 200, "{report:?}");
}

#[test]
#[ignore = "full: about an hour"]
fn a_million_crash_states() {
    let mut states = 0;
    let mut seed = 1_000;
    while states < 1_000_000 {
        states += run(seed, Size { workloads: 64, operations: 600, moments: 120, states: 64 }).states;
        seed += 64;
    }
}
