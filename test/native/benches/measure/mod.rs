//! What the benchmarks share: criterion runs them, the fastest pass of each is kept and written as a line of JSON.
//!
//! Others on the machine only ever add time, so that the fastest of many short passes says most. The clock is the
//! wall's: that of a thread leaves out time that the host is thought to have taken, and can run too slowly.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};

/// How often everything is measured: contenders meet the same good and bad moments of the machine.
pub(crate) const ROUNDS: usize = 3;

/// One line of results.
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) contender: String,
    pub(crate) parameter: usize,
    pub(crate) nanoseconds: f64,
}

/// A run of a benchmark and what it has measured so far.
pub(crate) struct Bench {
    criterion: Criterion,
    pub(crate) rows: Vec<Row>,
    /// Lines of results that are no times.
    pub(crate) others: Vec<String>,
}

impl Bench {
    pub(crate) fn new(samples: usize, warm_up: u64, measurement: u64) -> Self {
        let criterion = Criterion::default()
            .sample_size(samples)
            .warm_up_time(Duration::from_millis(warm_up))
            .measurement_time(Duration::from_millis(measurement));
        Self { criterion: criterion.configure_from_args(), rows: Vec::new(), others: Vec::new() }
    }

    /// Measures one contender: `pass` does `times` units of work, and the fastest pass counts, for one unit.
    pub(crate) fn measure(
        &mut self,
        case: &str,
        contender: &str,
        parameter: usize,
        times: usize,
        mut pass: impl FnMut(),
    ) {
        let mut fastest = Duration::MAX;
        let mut group = self.criterion.benchmark_group(case);
        group.bench_function(BenchmarkId::new(contender, parameter), |bencher| {
            bencher.iter_custom(|passes| {
                let mut total = Duration::ZERO;
                for _ in 0..passes {
                    let start = Instant::now();
                    pass();
                    let time = start.elapsed();
                    (total, fastest) = (total + time, fastest.min(time));
                }
                total
            });
        });
        group.finish();
        if fastest < Duration::MAX {
            let nanoseconds = fastest.as_nanos() as f64 / times as f64;
            self.keep(Row { case: case.into(), contender: contender.into(), parameter, nanoseconds });
        }
    }

    /// Of several rounds the fastest counts.
    fn keep(&mut self, row: Row) {
        let same =
            |old: &&mut Row| (&old.case, &old.contender, old.parameter) == (&row.case, &row.contender, row.parameter);
        match self.rows.iter_mut().find(same) {
            Some(old) => old.nanoseconds = old.nanoseconds.min(row.nanoseconds),
            None => self.rows.push(row),
        }
    }

    /// Ends the run; with `CHITIN_BENCH_OUT=FILE`, writes the rows below a first line that says what they are.
    pub(crate) fn finish(&mut self, name: &str, parameter: &str, about: &str) {
        self.criterion.final_summary();
        let Ok(path) = std::env::var("CHITIN_BENCH_OUT") else { return };
        let mut text = format!(
            "{{\"bench\":\"{name}\",\"command\":\"CHITIN_BENCH_OUT=FILE cargo bench -p native --bench {name}\",\
             \"clock\":\"CLOCK_MONOTONIC\",\"statistic\":\"fastest pass of three rounds\",\"{parameter}\":\"{about}\"}}\n"
        );
        for Row { case, contender, parameter: value, nanoseconds } in &self.rows {
            let _ = writeln!(
                text,
                "{{\"bench\":\"{name}\",\"case\":\"{case}\",\"contender\":\"{contender}\",\"{parameter}\":{value},\
                 \"nanoseconds\":{nanoseconds:.2}}}"
            );
        }
        text.extend(self.others.iter().map(|line| format!("{line}\n")));
        std::fs::write(path, text).expect("a file for the results");
    }
}
