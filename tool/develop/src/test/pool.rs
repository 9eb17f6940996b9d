//! Runs tests on all CPUs of this host at once.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::case::{Case, Verdict};

/// How one test came out.
pub struct Outcome<'a> {
    pub case: &'a Case,
    pub verdict: Verdict,
    pub took: Duration,
}

/// Runs every case once and reports each as it ends.
pub fn run(cases: &[Case], results: &Path, mut report: impl FnMut(&Outcome)) {
    let mut order: Vec<&Case> = cases.iter().collect();
    order.sort_by_key(|case| std::cmp::Reverse(case.weight()));
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (sender, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, order, next) = (sender.clone(), &order, &next);
            scope.spawn(move || {
                while let Some(case) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver lives as long as this scope.
                    let _ = sender.send(run_one(case, results));
                }
            });
        }
        drop(sender);
        for outcome in outcomes {
            report(&outcome);
        }
    });
}

fn run_one<'a>(case: &'a Case, results: &Path) -> Outcome<'a> {
    let start = Instant::now();
    let verdict = case.run(&transcript(results, case.name()));
    Outcome { case, verdict, took: start.elapsed() }
}

/// Where the transcript of a test is kept.
pub fn transcript(results: &Path, name: &str) -> std::path::PathBuf {
    let file: String = name
        .chars()
        .map(|letter| if letter.is_alphanumeric() || "-_.:".contains(letter) { letter } else { '_' })
        .collect();
    results.join(format!("{file}.txt"))
}
