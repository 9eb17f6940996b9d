//! FAULTS row 90: of what a program could load from outside its memory, because a jump went the wrong way, nothing
//! can be used, and nothing is written outside. `src/downloaded_code/misprediction.rs` runs the compiled code that way.
//!
//! `CHITIN_SEED` repeats a run, a tenth of `CHITIN_CASES` is the number of programs, since each is stepped through;
//! with `CHITIN_FULL=1` it is thirty thousand. `CHITIN_SHOW` prints each program before it runs.

use downloaded_code::context::Speculation;
use native::downloaded_code::generator;
use native::downloaded_code::helpers::{addresses, context};
use native::downloaded_code::random::Random;
use native::downloaded_code::run::{Bench, listing};

fn cases(usual: u64) -> u64 {
    let given = std::env::var("CHITIN_CASES").ok().and_then(|text| text.parse().ok());
    let full = std::env::var("CHITIN_FULL").is_ok_and(|value| value == "1");
    given.map_or(if full { 30_000 } else { usual }, |cases: u64| cases / 10)
}

#[test]
fn fault_90_mispredicted_jumps_show_nothing_of_memory_outside() {
    let (first, count) = (Random::seed(), cases(4_000));
    println!("seed {first}, {count} programs");
    let mut bench = Bench::new();
    let (mut masked, mut mispredicted, mut outside) = (0, 0, 0);
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let size = 5 + random.below(60) as usize;
        let program = generator::program(&mut random, size);
        let context = context(random.choose(&[100, 300, 2_000]), Speculation::Masked, random.once_in(8));
        if std::env::var_os("CHITIN_SHOW").is_some() {
            eprintln!("seed {seed}, {context:?}\n{}", listing(&program));
        }
        match bench.mispredict(&program, &context, &addresses(), seed, 4) {
            Ok(None) => {}
            Ok(Some((verdict, report))) => {
                masked += u64::from(verdict.masked);
                mispredicted += u64::from(report.mispredicted);
                outside += u64::from(report.outside);
            }
            Err(problem) => panic!("seed {seed}: {problem}\n{}", listing(&program)),
        }
    }
    println!("{masked} accesses masked, {mispredicted} jumps mispredicted, {outside} loads from outside made zero");
    assert!(masked > count / 20 && mispredicted > count && outside > count / 100, "too little was tried");
}

/// The harness must see what is wrong without masks.
#[test]
fn fault_90_without_masks_memory_outside_is_seen() {
    let context = context(2_000, Speculation::Trusted, false);
    let mut bench = Bench::new();
    let seen = (0..500).filter(|seed| {
        let program = generator::program(&mut Random::new(*seed), 30);
        bench.mispredict(&program, &context, &addresses(), *seed, 4).is_err()
    });
    assert!(seen.count() > 12);
}
