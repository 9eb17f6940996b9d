//! Descriptors: the table of numbers, the open descriptions behind them, and what these are open on.

pub mod table;

#[cfg(target_os = "none")]
mod cell;
#[cfg(target_os = "none")]
pub mod counter;
#[cfg(target_os = "none")]
mod credentials;
#[cfg(target_os = "none")]
mod datagram;
#[cfg(target_os = "none")]
pub mod description;
#[cfg(target_os = "none")]
pub mod epoll;
#[cfg(target_os = "none")]
pub mod in_use;
#[cfg(target_os = "none")]
mod listening;
#[cfg(target_os = "none")]
pub mod object;
#[cfg(target_os = "none")]
pub mod operations;
#[cfg(target_os = "none")]
pub mod passing;
#[cfg(target_os = "none")]
pub mod process;
#[cfg(target_os = "none")]
pub mod queue;
#[cfg(target_os = "none")]
pub mod signals;
#[cfg(target_os = "none")]
pub mod socket;
#[cfg(target_os = "none")]
pub mod socket_common;
#[cfg(target_os = "none")]
pub mod timer;
#[cfg(target_os = "none")]
pub mod watcher;
