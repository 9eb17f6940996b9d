//! Whatever the verifier accepts, compiled and run on random inputs under guard pages, stays inside its memory, ends
//! within its budget, and does what the interpreter does.
//!
//! `CHITIN_SEED` repeats a run, `CHITIN_CASES` sets the number of cases, `CHITIN_FULL=1` makes it ten
//! million; `CHITIN_SHOW` prints each program before it runs, `CHITIN_CODE` names a file for its machine code.

use downloaded_code::context::Speculation;
use native::downloaded_code::generator;
use native::downloaded_code::helpers::{addresses, context};
use native::downloaded_code::memory::catch_faults;
use native::downloaded_code::random::Random;
use native::downloaded_code::run::{Bench, listing};

fn cases(usual: u64) -> u64 {
    let given = std::env::var("CHITIN_CASES").ok().and_then(|text| text.parse().ok());
    let full = std::env::var("CHITIN_FULL").is_ok_and(|value| value == "1");
    given.unwrap_or(if full { 10_000_000 } else { usual })
}

#[derive(Default, Debug)]
struct Totals {
    programs: u64,
    accepted: u64,
    bounded: u64,
    accesses: u64,
    masked: u64,
    checked: u64,
    finished: u64,
    stopped: u64,
    spent: u64,
}

#[test]
fn fault_58_accepted_programs_stay_inside_and_agree_with_the_interpreter() {
    catch_faults();
    let (first, count) = (Random::seed(), cases(30_000));
    println!("seed {first}, {count} cases");
    let mut bench = Bench::new();
    let mut totals = Totals::default();
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let size = 5 + random.below(60) as usize;
        let program = generator::program(&mut random, size);
        let speculation = random.choose(&[Speculation::Masked, Speculation::Trusted]);
        let context = context(random.choose(&[300, 2_000, 20_000]), speculation, random.once_in(8));
        totals.programs += 1;
        if std::env::var_os("CHITIN_SHOW").is_some() {
            eprintln!("seed {seed}, {context:?}\n{}", listing(&program));
        }
        match bench.case(&program, &context, &addresses(), seed, 3) {
            Ok(None) => {}
            Ok(Some(counts)) => {
                totals.accepted += 1;
                totals.bounded += u64::from(counts.verdict.worst_case.is_some());
                totals.accesses += u64::from(counts.verdict.accesses);
                totals.masked += u64::from(counts.verdict.masked);
                totals.checked += u64::from(counts.verdict.checked);
                totals.finished += counts.finished;
                totals.stopped += counts.stopped;
                totals.spent += counts.spent;
            }
            Err(problem) => panic!("seed {seed} ({speculation:?}): {problem}\n{}", listing(&program)),
        }
    }
    println!("{totals:?}");
    assert!(totals.accepted * 10 > totals.programs * 3, "too few programs are accepted: {totals:?}");
    assert!(totals.finished > 0 && totals.stopped > 0 && totals.spent > 0, "a kind of ending is missing: {totals:?}");
}
