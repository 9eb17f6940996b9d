//! Pipes: a ring of pages that relatives share, who can only hurt each other (DESIGN.md §5, home b).
//!
//! The first page holds the words below, the others the bytes. Who changes a count holds the lock in word 0, which is
//! taken over from the dead. Who waits sleeps on a wakeup predicate over the other side's count.

pub mod holders;
pub mod packets;
pub mod ring;

#[cfg(target_os = "none")]
mod end;
#[cfg(target_os = "none")]
pub mod frames;
#[cfg(target_os = "none")]
mod growth;
#[cfg(target_os = "none")]
mod left_behind;
#[cfg(target_os = "none")]
pub mod passing;
#[cfg(target_os = "none")]
pub use end::*;
#[cfg(target_os = "none")]
pub(crate) use growth::answer_grown;
