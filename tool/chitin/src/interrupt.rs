//! What happens when this command itself gets a signal: the program that runs
//! inside the machine gets it if there is one; otherwise everything that was
//! started is killed, the terminal is put back, and the command ends as if
//! killed by that signal.

use std::sync::{Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Context, Result};
use crate::{children, scratch, terminal};

/// Takes a signal's number; says whether it was passed on.
type Receiver = Box<dyn Fn(i32) -> bool + Send>;

static RECEIVER: Mutex<Option<Receiver>> = Mutex::new(None);

/// Starts watching.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn watch() -> Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).context("cannot watch for signals")?;
    thread::spawn(move || {
        for signal in &mut signals {
            if !pass_on(signal) {
                end(signal);
            }
        }
    });
    Ok(())
}

/// From now on signals go to `receiver`, until it refuses one.
pub fn redirect(receiver: Receiver) {
    *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
}

fn pass_on(signal: i32) -> bool {
    let receiver = RECEIVER.lock().unwrap_or_else(PoisonError::into_inner);
    receiver.as_ref().is_some_and(|receiver| receiver(signal))
}

fn end(signal: i32) -> ! {
    children::kill_all();
    terminal::restore();
    scratch::remove_all();
    std::process::exit(128 + signal)
}
