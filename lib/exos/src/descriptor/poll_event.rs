//! Events of poll(2): what a thread can wait for at an open file.
//!
//! Pipes, terminals and sockets know these events without knowing open files: this file imports nothing.

/// What `poll` can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read would not wait.
    Readable,
    /// A write would not wait.
    Writable,
}
