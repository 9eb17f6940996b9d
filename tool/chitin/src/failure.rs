//! What the host command says when it cannot go on: one line for the user and
//! the exit status that goes with it.

use std::fmt::{self, Display};

/// The exit status of a failure of the command itself, as opposed to one of
/// the program that it ran. The same value as other container front ends use.
pub const COMMAND_FAILED: u8 = 125;
/// A program was found but cannot be executed (POSIX shells use the same).
pub const CANNOT_EXECUTE: u8 = 126;
/// No such program (POSIX shells use the same).
pub const NOT_FOUND: u8 = 127;

/// One clear line and an exit status.
#[derive(Debug)]
pub struct Failure {
    message: String,
    pub status: u8,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_status(COMMAND_FAILED, message)
    }

    pub fn with_status(status: u8, message: impl Into<String>) -> Self {
        Self { message: message.into(), status }
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Says what was being done when a lower layer failed.
pub trait Context<T> {
    /// # Errors
    /// The original error behind `what`, on one line.
    fn context(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{what}: {error}").trim().replace('\n', " ")))
    }
}
