//! No step of the classifier executes more instructions than the kernel allows one call, whatever the filters.

#[path = "../../../mechanism/packet-filter/tests/support/mod.rs"]
mod support;

use native::packet_filter_count::instructions;
use packet_filter::{Atom, Compare, Progress, Refusal, Sizes, limit};
use support::{Differ, Driver, Memory, Random, cases, endpoint, seed, small_filter, tcp_filter};

/// `abi::limits::ENTRY_INSTRUCTIONS`, less what the call around a step needs. That is for a release build, as the
/// kernel is; code compiled for debugging may take twice as many.
const BOUND: u64 = if cfg!(debug_assertions) { 36_000 } else { 18_000 };

/// Whether to count a step: single-stepping is slow, and long insertions repeat themselves.
fn is_sample(step: u64) -> bool {
    step < 40 || step.is_multiple_of(997)
}

/// Installs a filter, counting each step; returns the longest with what was done in it.
fn longest_step(driver: &mut Driver<'_, Vec<u8>>, owner: u32, atoms: &[Atom], key: bool) -> (u64, Result<(), Refusal>) {
    let (begun, mut longest) = instructions(|| driver.classifier.insert(owner, atoms));
    if let Err(refusal) = begun {
        return (longest, Err(refusal));
    }
    for step in 0.. {
        let mut advance = || driver.classifier.step(&mut |_, _| key);
        let (progress, count) = if is_sample(step) { instructions(advance) } else { (advance(), 0) };
        longest = longest.max(count);
        match progress {
            Progress::Refused(refusal) => return (longest, Err(refusal)),
            Progress::Installed(_) => return (longest, Ok(())),
            _ => {}
        }
    }
    unreachable!("steps end")
}

/// The largest conjunctions there can be, in a few unpleasant kinds.
fn hostile(kind: u32, variant: u32) -> Vec<Atom> {
    let atom = |place: u32, conjunction: u8| {
        let spread = place * 4;
        let base = Atom { conjunction, size: 4, offset: spread, mask: u32::MAX, ..Atom::default() };
        match kind {
            0 => Atom { low: variant ^ place, ..base },
            1 => Atom { compare: Compare::Within as u8, low: 1 + variant, high: 1 << 31 | place, ..base },
            2 => Atom {
                compare: Compare::Outside as u8,
                offset: place % 5,
                low: 5 + place,
                high: 1 << 30 | variant,
                ..base
            },
            3 => Atom { mask: 1 << place, offset: 0, ..base },
            4 if place % 5 == 4 => Atom { compare: Compare::Shift as u8, size: 1, mask: 7, ..base },
            4 => Atom { low: variant, ..base },
            _ => {
                Atom { compare: Compare::Within as u8, offset: 0, low: place + variant, high: u32::MAX - place, ..base }
            }
        }
    };
    (0..2u8)
        .flat_map(|conjunction| (0..limit::ATOMS as u32).map(move |place| (place, conjunction)))
        .map(|(place, conjunction)| {
            let mut atom = atom(place, conjunction);
            if place == 0 && kind == 0 {
                atom.low = u32::from(conjunction);
            }
            atom
        })
        .collect()
}

#[test]
fn fault_51_every_step_is_bounded_for_hostile_filters() {
    let mut worst = 0;
    // The default run does the kinds with the longest steps.
    for kind in (0..6).filter(|kind| cases(0, 1) == 1 || matches!(kind, 1 | 4)) {
        let mut memory = Memory::new(Sizes::for_filters(2, 64));
        let mut driver = Driver::new(&mut memory, 3);
        for variant in 0..cases(1, 3) as u32 {
            let (count, outcome) = longest_step(&mut driver, variant % 2, &hostile(kind, variant), variant != 0);
            println!(
                "kind {kind} variant {variant}: {count} instructions, {:?}",
                outcome.map_err(|refusal| refusal.to_string())
            );
            worst = worst.max(count);
        }
    }
    println!("longest step: {worst} instructions");
    assert!(worst <= BOUND, "a step of {worst} instructions");
}

#[test]
fn fault_51_every_step_is_bounded_for_random_filters() {
    let mut random = Random(seed(31));
    let mut memory = Memory::new(Sizes::for_filters(4, 64));
    let mut driver = Driver::new(&mut memory, random.next());
    for _ in 0..cases(4, 100) {
        let (count, _) = longest_step(&mut driver, random.below(4) as u32, &small_filter(&mut random), true);
        assert!(count <= BOUND, "a step of {count} instructions");
    }
}

/// Inserting the 3,000th filter takes no more than the 300th did, but for the step in which a table grows.
#[test]
fn fault_51_insertion_does_not_slow_down() {
    for differ in [Differ::Port, Differ::Both] {
        let mut memory = Memory::new(Sizes::for_filters(2, 3_002));
        let mut driver = Driver::new(&mut memory, 3);
        let mut steps = [0; 2];
        for index in 0..3_000 {
            let before = driver.steps;
            let (address, port) = endpoint(differ, index);
            driver.insert(index % 2, &tcp_filter(address, port), false).expect("there is room");
            match index {
                300..310 => steps[0] += driver.steps - before,
                2_990.. => steps[1] += driver.steps - before,
                _ => {}
            }
        }
        assert!(steps[1] <= steps[0] + 10, "{steps:?} steps for ten insertions, early and late");
    }
}
