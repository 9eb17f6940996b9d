//! Pipes: a ring of pages that relatives share, who can only hurt each other (DESIGN.md §5, home b).
//!
//! The first page holds the words below, the others the bytes. A thread that changes a count holds the lock in word 0,
//! which is taken over from the dead. A waiter sleeps on a wakeup predicate over the other side's count.

pub(crate) mod bells;
pub mod message_frames;
mod pipe_end;
mod resize;
pub mod splice;
mod unaccepted;
pub use pipe_end::*;
pub(crate) use resize::answer_grown;

/// Words of the settings of a socket, which lie in the first page of the pipe that it reads from.
pub const SETTINGS_WORDS: usize = 10;
