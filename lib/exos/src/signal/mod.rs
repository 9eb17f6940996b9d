//! Signals: what is pending, what is blocked, and what comes of each.
//!
//! A process's mailbox is a page that relatives may write: who can map it may signal (DESIGN.md §5: the kernel's check
//! of the capability is the check). The receiver's library reads it defensively: a set of bits, and for each the number
//! of a process that claims to have sent it. What is sent to one thread lies in that thread's record.

mod deliver;
mod handler;
pub(crate) mod process_clock;
pub(crate) mod remote_call;
mod second_queue;
mod signal_page;
mod signal_state;
mod stop;
mod thread_signals;
mod timer_expiry;
pub use unix_core::signal::actions::*;
pub use {
    deliver::*, handler::*, second_queue::*, signal_page::*, signal_state::*, stop::*, thread_signals::*,
    timer_expiry::*,
};
