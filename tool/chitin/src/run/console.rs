//! The user's side of a run: what the program writes goes out unchanged and at once.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::channel::FrameWriter;
use crate::channel::session::Listener;
use crate::failure::{Failure, Result};
use crate::{answer, children};

/// How long a program may write on where it cannot be read any more, before it is ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// Streams that were closed when the front door was entered, by number: the script sets it.
const CLOSED: &str = "CHITIN_CLOSED";

/// Why a stream takes no more, and since when.
struct Ended {
    since: Instant,
    error: io::Error,
}

pub struct Console {
    trace: bool,
    writer: Arc<FrameWriter>,
    /// Standard output, standard error.
    ended: [Option<Ended>; 2],
    /// Whether the program was ended because it wrote on for nothing.
    pub ended_by_force: bool,
}

impl Console {
    pub fn new(trace: bool, writer: Arc<FrameWriter>) -> Self {
        let closed = std::env::var(CLOSED).unwrap_or_default();
        let ended = ["1", "2"].map(|stream| {
            let is_closed = closed.split(' ').any(|number| number == stream);
            is_closed.then(|| Ended { since: Instant::now(), error: ErrorKind::BrokenPipe.into() })
        });
        Self { trace, writer, ended, ended_by_force: false }
    }

    fn write(&mut self, which: usize, mut stream: impl Write, bytes: &[u8]) {
        if let Some(ended) = &mut self.ended[which] {
            // A program that ignores SIGPIPE would learn of it from write(2); here it never does.
            if ended.since.elapsed() > PATIENCE && !self.ended_by_force {
                self.ended_by_force = true;
                children::kill_running();
            }
            return;
        }
        if let Err(error) = stream.write_all(bytes).and_then(|()| stream.flush()) {
            // The program gets what the writer of a pipe without readers gets.
            let _ = self.writer.send_signal(Signal::PIPE.as_raw().unsigned_abs());
            self.ended[which] = Some(Ended { since: Instant::now(), error });
        }
    }

    /// Fails if what the program wrote is lost. A reader that left wants no more.
    ///
    /// # Errors
    /// Why standard output or standard error took no more.
    pub fn check(&self) -> Result<()> {
        for (ended, name) in self.ended.iter().zip(["output", "error"]) {
            if let Some(ended) = ended.as_ref().filter(|ended| ended.error.kind() != ErrorKind::BrokenPipe) {
                return Err(Failure::new(format!("cannot write to standard {name}: {}", ended.error)));
            }
        }
        Ok(())
    }
}

impl Listener for Console {
    fn output(&mut self, bytes: &[u8]) {
        self.write(0, io::stdout().lock(), bytes);
    }

    fn error(&mut self, bytes: &[u8]) {
        self.write(1, io::stderr().lock(), bytes);
    }

    fn log(&mut self, line: &str) {
        if self.trace {
            answer::remark(format_args!("[log] {}\r\n", line.trim_end()));
        }
    }

    fn test_result(&mut self, passed: bool, name: &str, detail: &str) {
        self.log(&format!("test {name}: {} {detail}", if passed { "passed" } else { "failed" }));
    }

    fn measurement(&mut self, name: &str, value: &str, unit: &str) {
        self.log(&format!("{name} = {value} {unit}"));
    }
}
