//! Descriptors: the table of numbers, the open descriptions behind them, and what these are open on.

mod credentials;
mod datagram;
pub mod epoll;
pub mod eventfd;
pub mod fd_pins;
pub mod file_ops;
pub mod inotify_fd;
pub mod internet_datagram;
pub mod internet_socket;
pub mod internet_stream;
mod listen_queue;
pub mod mq_fd;
pub mod netlink;
pub mod object;
pub mod open_file;
pub mod pidfd;
pub mod scm_rights;
mod shared_counter;
pub mod signalfd;
pub mod socket;
pub mod socket_shared;
pub mod timerfd;
