//! The user's terminal: its size, and raw mode with restoration on every way
//! out (the guard's drop, an interrupt, a panic).

use std::sync::{Mutex, PoisonError};

use rustix::stdio::{stdin, stdout};
use rustix::termios::{self, OptionalActions, Termios};

use crate::failure::{Context, Result};

/// The attributes to go back to while raw mode is on.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether a terminal stands on both sides: then the program gets one too.
pub fn on_both_sides() -> bool {
    termios::isatty(stdin()) && termios::isatty(stdout())
}

/// Columns and rows of the terminal on standard output.
pub fn window_size() -> Option<(u16, u16)> {
    let size = termios::tcgetwinsize(stdout()).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// Raw mode while this lives.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Every byte goes through as typed, ^C included.
    ///
    /// # Errors
    /// When standard input is no terminal.
    pub fn enter() -> Result<Self> {
        let before = termios::tcgetattr(stdin()).context("cannot read the terminal's mode")?;
        let mut raw = before.clone();
        raw.make_raw();
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        termios::tcsetattr(stdin(), OptionalActions::Drain, &raw).context("cannot set the terminal to raw mode")?;
        Ok(Self(()))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Leaves raw mode, if it is on.
pub fn restore() {
    if let Some(before) = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Nothing more can be done for a terminal that has gone away.
        let _ = termios::tcsetattr(stdin(), OptionalActions::Flush, &before);
    }
}
