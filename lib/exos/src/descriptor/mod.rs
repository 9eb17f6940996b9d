//! Descriptors: the table of numbers, the open descriptions behind them, and what these are open on.

mod credentials;
mod datagram;
mod device_request;
pub mod epoll;
pub mod eventfd;
pub mod fd_pins;
pub mod file_ops;
pub(crate) mod file_room;
pub mod inotify_fd;
pub mod internet_datagram;
pub mod internet_socket;
pub mod internet_stream;
mod listen_queue;
pub mod mq_fd;
pub mod netlink;
pub mod object;
pub mod open_file;
pub(crate) mod open_node;
pub mod pidfd;
pub(crate) mod readiness;
pub mod scm_rights;
mod shared_counter;
pub mod signalfd;
pub mod socket;
pub mod socket_shared;
pub mod timerfd;
