//! Signals: what is pending, what is blocked, and what comes of each.
//!
//! A process's mailbox is a page that relatives may write: who can map it may signal (DESIGN.md §5: the kernel's check
//! of the capability is the check). The receiver's library reads it defensively: a set of bits, and for each the number
//! of a process that claims to have sent it. What is sent to one thread lies in that thread's record.

pub use unix_core::signal::{actions, frame, pending, set, timer};

#[cfg(target_os = "none")]
mod async_io;
#[cfg(target_os = "none")]
mod deliver;
#[cfg(target_os = "none")]
mod handler;
#[cfg(target_os = "none")]
mod signal_page;
#[cfg(target_os = "none")]
mod stop;
#[cfg(target_os = "none")]
mod timer_expiry;
#[cfg(target_os = "none")]
pub use {actions::*, async_io::*, deliver::*, handler::*, signal_page::*, stop::*, timer_expiry::*};
