//! What the benchmarks share: criterion runs them, the fastest pass of each is kept and written as a line of JSON.
//!
//! Others on the machine only ever add time, so that the fastest of many short passes says most; the clock is the
//! thread's own.

use std::fmt::Write as _;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};

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
}

impl Bench {
    pub(crate) fn new(samples: usize, warm_up: u64, measurement: u64) -> Self {
        let criterion = Criterion::default()
            .sample_size(samples)
            .warm_up_time(Duration::from_millis(warm_up))
            .measurement_time(Duration::from_millis(measurement));
        Self { criterion: criterion.configure_from_args(), rows: Vec::new() }
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
                    let start = thread_time();
                    pass();
                    let time = thread_time() - start;
                    (total, fastest) = (total + time, fastest.min(time));
                }
                total
            });
        });
        group.finish();
        if fastest < Duration::MAX {
            let nanoseconds = fastest.as_nanos() as f64 / times as f64;
            self.rows.push(Row { case: case.into(), contender: contender.into(), parameter, nanoseconds });
        }
    }

    /// Ends the run; with `CHITIN_BENCH_OUT=FILE`, writes the rows below a first line that says what they are.
    pub(crate) fn finish(&mut self, name: &str, parameter: &str, about: &str) {
        self.criterion.final_summary();
        let Ok(path) = std::env::var("CHITIN_BENCH_OUT") else { return };
        let mut text = format!(
            "{{\"bench\":\"{name}\",\"command\":\"CHITIN_BENCH_OUT=FILE cargo bench -p native --bench {name}\",\
             \"clock\":\"CLOCK_THREAD_CPUTIME_ID\",\"statistic\":\"fastest pass\",\"{parameter}\":\"{about}\"}}\n"
        );
        for Row { case, contender, parameter: value, nanoseconds } in &self.rows {
            let _ = writeln!(
                text,
                "{{\"bench\":\"{name}\",\"case\":\"{case}\",\"contender\":\"{contender}\",\"{parameter}\":{value},\
                 \"nanoseconds\":{nanoseconds:.2}}}"
            );
        }
        std::fs::write(path, text).expect("a file for the results");
    }
}

/// Time that this thread has been running: what others do on the machine counts less than on a wall clock.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
