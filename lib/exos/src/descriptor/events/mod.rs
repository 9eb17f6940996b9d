//! Descriptors that one waits on: `epoll` sets, counters, timers, signals, watches, processes and queues.

pub mod epoll;
pub mod eventfd;
pub mod inotify_fd;
mod interest;
mod interests;
pub mod mq_fd;
pub mod pidfd;
pub(super) mod shared_counter;
pub mod signalfd;
pub mod timerfd;
