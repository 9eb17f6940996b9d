//! What happens when this command itself gets a signal. While a program runs inside the machine the first signal of a
//! kind goes to it. The same signal again means this command, and a request to terminate waits only so long. Then
//! everything that was started is killed, the terminal is put back, and the command ends as if killed by that signal.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Context, Result};
use crate::{children, scratch, terminal};

/// How long a program may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// Passes a signal's number on to the program.
type Receiver = Arc<dyn Fn(i32) + Send + Sync>;

static RECEIVER: Mutex<Option<Receiver>> = Mutex::new(None);

/// Starts watching.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn watch() -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).context("cannot watch for signals")?;
    thread::spawn(move || {
        let mut passed = BTreeSet::new();
        for signal in &mut signals {
            let receiver = RECEIVER.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match receiver {
                Some(receiver) if passed.insert(signal) => pass_on(signal, receiver),
                _ => end(signal),
            }
        }
    });
    Ok(())
}

/// From now on the first signal of a kind goes to `receiver`.
pub fn redirect(receiver: Receiver) {
    *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
}

/// What a command that has something to tell already knows of being interrupted.
#[derive(Clone, Debug, Default)]
pub struct Interruption(Arc<AtomicI32>);

impl Interruption {
    /// From now on the first signal of a kind kills what runs, and the command, which learns of it here, ends by
    /// itself.
    pub fn watch() -> Self {
        let interruption = Self::default();
        let told = interruption.clone();
        redirect(Arc::new(move |signal| {
            told.0.store(signal, Relaxed);
            children::kill_running();
        }));
        interruption
    }

    /// The signal that came.
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.load(Relaxed)).filter(|signal| *signal != 0)
    }
}

/// On a thread of its own: a machine that does not listen holds nothing up.
fn pass_on(signal: i32, receiver: Receiver) {
    thread::spawn(move || receiver(signal));
    if signal == SIGTERM || signal == SIGHUP {
        thread::spawn(move || {
            thread::sleep(PATIENCE);
            end(signal)
        });
    }
}

fn end(signal: i32) -> ! {
    children::kill_all();
    terminal::restore();
    scratch::remove_all();
    std::process::exit(128 + signal)
}
