//! Descriptors: the table of numbers, the open descriptions behind them, and what these are open on.

pub use unix_core::fd_table;

#[cfg(target_os = "none")]
mod credentials;
#[cfg(target_os = "none")]
mod datagram;
#[cfg(target_os = "none")]
pub mod epoll;
#[cfg(target_os = "none")]
pub mod eventfd;
#[cfg(target_os = "none")]
pub mod fd_pins;
#[cfg(target_os = "none")]
pub mod file_ops;
#[cfg(target_os = "none")]
pub mod inotify_fd;
#[cfg(target_os = "none")]
pub mod internet_datagram;
#[cfg(target_os = "none")]
pub mod internet_socket;
#[cfg(target_os = "none")]
pub mod internet_stream;
#[cfg(target_os = "none")]
mod listen_queue;
#[cfg(target_os = "none")]
pub mod mq_fd;
#[cfg(target_os = "none")]
pub mod netlink;
#[cfg(target_os = "none")]
pub mod object;
#[cfg(target_os = "none")]
pub mod open_file;
#[cfg(target_os = "none")]
pub mod pidfd;
#[cfg(target_os = "none")]
pub mod scm_rights;
#[cfg(target_os = "none")]
mod shared_counter;
#[cfg(target_os = "none")]
pub mod signalfd;
#[cfg(target_os = "none")]
pub mod socket;
#[cfg(target_os = "none")]
pub mod socket_shared;
#[cfg(target_os = "none")]
pub mod timerfd;
