//! Calls on objects that processes share by keys and names: System V objects and POSIX message queues.

pub(super) mod ipc;
pub(super) mod mqueue;
pub(super) mod semaphore;
pub(super) mod shared_memory;
pub(super) mod sysv_msg;
