//! The user's side of a run: what the program writes goes out unchanged and at once.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::answer;
use crate::channel::FrameWriter;
use crate::channel::session::Listener;
use crate::failure::{Failure, Result};

use super::back_trace::Crashes;
use super::share::Shares;
use super::stats::Stats;

/// How long a program may write to a stream that was closed from the beginning. Then it learns that there is no reader.
const PATIENCE: Duration = Duration::from_secs(2);
/// Streams that were closed when the front door was entered, by number: the script sets it.
const CLOSED: &str = "CHITIN_CLOSED";

/// What has become of a stream of this command.
enum Stream {
    Open,
    /// It was closed when this command started.
    Closed(Instant),
    /// Why it takes no more.
    Ended(io::Error),
}

pub struct Console {
    trace: bool,
    writer: Arc<FrameWriter>,
    /// Standard output, standard error.
    streams: [Stream; 2],
    /// What stands behind the program's output.
    pub shares: Shares,
    /// What the run cost, as far as the machine has told.
    pub stats: Stats,
    crashes: Crashes,
}

impl Console {
    pub fn new(trace: bool, writer: Arc<FrameWriter>, shares: Shares, crashes: Crashes) -> Self {
        let closed = std::env::var(CLOSED).unwrap_or_default();
        let streams = ["1", "2"].map(|stream| {
            let is_closed = closed.split(' ').any(|number| number == stream);
            if is_closed { Stream::Closed(Instant::now()) } else { Stream::Open }
        });
        Self { trace, writer, streams, shares, stats: Stats::default(), crashes }
    }

    fn write(&mut self, which: usize, mut stream: impl Write, bytes: &[u8]) {
        let error = match &self.streams[which] {
            Stream::Open => match stream.write_all(bytes).and_then(|()| stream.flush()) {
                Ok(()) => return,
                Err(error) => error,
            },
            // Linux would let each write fail at once. Programs that print little and check nothing end well there.
            Stream::Closed(since) if since.elapsed() > PATIENCE => ErrorKind::BrokenPipe.into(),
            Stream::Closed(_) | Stream::Ended(_) => return,
        };
        // The program gets what the writer of a pipe without readers gets.
        let _ = self.writer.send_signal(Signal::PIPE.as_raw().unsigned_abs());
        self.streams[which] = Stream::Ended(error);
    }

    /// Writes what was held back.
    pub fn finish(&mut self) {
        let rest = self.shares.rest();
        if !rest.is_empty() {
            self.write(0, io::stdout().lock(), &rest);
        }
    }

    /// Fails if what the program wrote is lost. A reader that left wants no more.
    ///
    /// # Errors
    /// Why standard output or standard error took no more.
    pub fn check(&self) -> Result<()> {
        for (stream, name) in self.streams.iter().zip(["output", "error"]) {
            match stream {
                Stream::Ended(error) if error.kind() != ErrorKind::BrokenPipe => {
                    return Err(Failure::new(format!("cannot write to standard {name}: {error}")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Listener for Console {
    fn output(&mut self, bytes: &[u8]) {
        let own = self.shares.filter(bytes);
        if !own.is_empty() {
            self.write(0, io::stdout().lock(), &own);
        }
    }

    fn error(&mut self, bytes: &[u8]) {
        self.write(1, io::stderr().lock(), bytes);
    }

    fn log(&mut self, line: &str) {
        if self.trace {
            for line in self.crashes.shown(line.trim_end()) {
                answer::remark(format_args!("[log] {line}\r\n"));
            }
        }
    }

    fn test_result(&mut self, passed: bool, name: &str, detail: &str) {
        self.log(&format!("test {name}: {} {detail}", if passed { "passed" } else { "failed" }));
    }

    fn cost(&mut self, payload: &[u8]) {
        self.stats.add(payload);
    }

    fn measurement(&mut self, name: &str, value: &str, unit: &str) {
        if self.stats.measure(name, value) {
            return;
        }
        self.log(&format!("{name} = {value} {unit}"));
    }
}
