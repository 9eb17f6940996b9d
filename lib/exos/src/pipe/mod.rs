//! Pipes: a ring of pages that relatives share, who can only hurt each other (DESIGN.md §5, home b).
//!
//! The first page holds the words below, the others the bytes. A thread that changes a count holds the lock in word 0,
//! which is taken over from the dead. A waiter sleeps on a wakeup predicate over the other side's count.

pub use unix_core::pipe::{end_owners, packets, ring};

#[cfg(target_os = "none")]
pub mod message_frames;
#[cfg(target_os = "none")]
mod pipe_end;
#[cfg(target_os = "none")]
mod resize;
#[cfg(target_os = "none")]
pub mod splice;
#[cfg(target_os = "none")]
mod unaccepted;
#[cfg(target_os = "none")]
pub use pipe_end::*;
#[cfg(target_os = "none")]
pub(crate) use resize::answer_grown;
