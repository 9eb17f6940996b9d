//! What tests took: the longest ones, each kind, and a file of all.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use chitin::failure::{Context, Result};

/// The file of all times, among the results.
const FILE: &str = "times.txt";

/// What each test took.
#[derive(Default)]
pub struct Times(Vec<(Duration, String)>);

impl Times {
    pub fn add(&mut self, name: &str, took: Duration) {
        self.0.push((took, name.to_owned()));
    }

    /// All tests, the longest first.
    pub fn longest_first(&self) -> Vec<&(Duration, String)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by(|left, right| right.cmp(left));
        all
    }

    /// One line with the sum of each kind of test. A kind is the first part of a name.
    pub fn by_kind(&self) -> String {
        let mut kinds: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for (took, name) in &self.0 {
            let (count, sum) = kinds.entry(name.split("::").next().unwrap_or(name)).or_default();
            (*count, *sum) = (*count + 1, *sum + *took);
        }
        let kinds: Vec<String> = kinds
            .iter()
            .filter(|(_, (_, sum))| sum.as_secs() > 0)
            .map(|(kind, (count, sum))| format!("{kind} {} s ({count})", sum.as_secs()))
            .collect();
        format!("seconds by kind of test, two or more at a time: {}", kinds.join(", "))
    }

    /// Writes all times to their file.
    pub fn write(&self, results: &Path) -> Result<()> {
        let mut text = String::new();
        for (took, name) in self.longest_first() {
            let _ = writeln!(text, "{:8.1} {name}", took.as_secs_f64());
        }
        std::fs::write(results.join(FILE), text).context("cannot write the times of the tests")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sums() {
        let mut times = Times::default();
        times.add("guest::a", Duration::from_millis(1500));
        times.add("tidy::c", Duration::from_millis(10));
        times.add("guest::b", Duration::from_millis(2500));
        assert!(times.by_kind().ends_with(": guest 4 s (2)"), "{}", times.by_kind());
        assert_eq!(times.longest_first()[0].1, "guest::b");
    }
}
