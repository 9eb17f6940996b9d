//! Non-maskable interrupts for a guest under test, one a millisecond, through the monitor of its machine.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// So few would show nothing.
pub const FEWEST: usize = 50;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(1);

/// Sends them from the time on that the machine has spoken (before that the kernel may have no handlers, as every
/// machine) until it is gone. The thread tells how many were accepted.
pub fn inject(monitor: PathBuf, spoken: Arc<AtomicBool>, over: Arc<AtomicBool>) -> JoinHandle<usize> {
    thread::spawn(move || {
        while !spoken.load(Ordering::Acquire) {
            if over.load(Ordering::Acquire) {
                return 0;
            }
            thread::sleep(PAUSE);
        }
        UnixStream::connect(monitor).map_or(0, |stream| inject_by(&stream))
    })
}

/// QEMU says hello, wants to be asked what it can, and answers each command with a line; events come in between.
fn inject_by(stream: &UnixStream) -> usize {
    let mut to = stream;
    let mut ask = |command: &str| to.write_all(format!("{{\"execute\":\"{command}\"}}\n").as_bytes()).is_ok();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    if lines.next().is_none() || !ask("qmp_capabilities") {
        return 0;
    }
    let mut answers = 0usize;
    for _ in lines.filter(|line| line.contains("\"return\"")) {
        answers += 1;
        thread::sleep(PAUSE);
        if !ask("inject-nmi") {
            break;
        }
    }
    // The first answer is the one to the question.
    answers.saturating_sub(1)
}
