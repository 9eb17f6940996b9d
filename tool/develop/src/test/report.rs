//! What the user sees of a test run: progress, each failure with the end of
//! its transcript, and the counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chitin::progress::Progress;

use super::pool::{self, Outcome};
use super::times::Times;
use chitin::failure::Result;

/// Lines of a failed test's transcript that are shown.
const SHOWN: usize = 40;
/// How many of the longest tests are named at the end.
const SLOWEST: usize = 20;
/// Events that the report leaves out.
const SHORT: Duration = Duration::from_secs(5);
/// Pause between two lines of progress where there is no terminal.
const PLAIN_PAUSE: Duration = Duration::from_secs(10);

pub struct Report {
    results: PathBuf,
    total: usize,
    done: usize,
    passed: usize,
    failed: usize,
    /// How many tests were skipped for each reason.
    skipped: BTreeMap<String, usize>,
    times: Times,
    progress: Progress,
    last_line: Instant,
}

impl Report {
    /// `total` tests will run, and so many have passed before.
    pub fn new(results: &Path, total: usize, passed: usize) -> Self {
        let mut progress = Progress::items("testing", total as u64);
        progress.busy_with("");
        let (results, last_line) = (results.to_owned(), Instant::now());
        Self {
            times: Times::default(),
            results,
            total,
            done: 0,
            passed,
            failed: 0,
            skipped: BTreeMap::new(),
            progress,
            last_line,
        }
    }

    pub fn failed(&self) -> usize {
        self.failed
    }

    pub fn skipped(&self) -> usize {
        self.skipped.values().sum()
    }

    /// `N passed, N failed`, and how many were skipped if any were.
    pub fn counts(&self) -> String {
        let counts = format!("{} passed, {} failed", self.passed, self.failed);
        if self.skipped.is_empty() { counts } else { format!("{counts}, {} skipped", self.skipped()) }
    }

    /// Counts a test and shows it if it failed.
    pub fn add(&mut self, outcome: &Outcome) {
        let name = outcome.case.name();
        self.done += 1;
        self.times.add(name, outcome.took);
        match (&outcome.verdict, outcome.case.skip_reason()) {
            (_, Some(reason)) => *self.skipped.entry(reason.to_owned()).or_default() += 1,
            (Ok(()), None) => self.passed += 1,
            (Err(reason), None) => {
                self.failed += 1;
                self.progress.line(&self.failure(name, reason));
            }
        }
        self.progress.busy_with(name);
        self.progress.advance();
        if self.progress.is_plain() && self.last_line.elapsed() > PLAIN_PAUSE {
            self.last_line = Instant::now();
            chitin::answer::remark(format_args!(
                "chitin: {} of {} tests, {} failed\n",
                self.done, self.total, self.failed
            ));
        }
    }

    /// Ends the progress, says why tests were skipped, names the longest tests, and says what each kind of test took.
    /// The times of a run of many tests are written to `times.txt` among the results.
    ///
    /// # Errors
    /// When that file cannot be written.
    pub fn finish(self) -> Result<()> {
        for (reason, count) in &self.skipped {
            self.progress.line(&format!("chitin: {count} skipped: {reason}"));
        }
        for (took, name) in self.times.longest_first().iter().take(SLOWEST).filter(|(took, _)| *took > SHORT) {
            self.progress.line(&format!("chitin: {name} took {} s", took.as_secs()));
        }
        if self.done <= SLOWEST {
            return Ok(());
        }
        self.progress.line(&format!("chitin: {}", self.times.by_kind()));
        self.times.write(&self.results)
    }

    fn failure(&self, name: &str, reason: &str) -> String {
        let file = pool::transcript(&self.results, name);
        let transcript = std::fs::read(&file).unwrap_or_default();
        let text = String::from_utf8_lossy(&transcript);
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(SHOWN)..].join("\n    ");
        format!("FAILED {name}: {reason}\n    {end}\n    (all of it: {})", file.display())
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::*;

    #[test]
    fn what_is_skipped_is_counted_apart() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::new(folder.path(), 2, 0);
        let mut add = |case: &Case| report.add(&Outcome { case, verdict: Ok(()), took: Duration::ZERO });
        add(&Case::new("a".into(), Duration::ZERO, |_| Ok(())));
        assert_eq!(report.counts(), "1 passed, 0 failed");
        let mut add = |case: &Case| report.add(&Outcome { case, verdict: Ok(()), took: Duration::ZERO });
        add(&Case::skipped("b".into(), "no name space".into()));
        assert_eq!(report.counts(), "1 passed, 0 failed, 1 skipped");
    }
}
