//! Objects that processes without kinship share by keys and names. These are System V semaphores, message queues and
//! shared memory (svipc(7)), POSIX message queues (mq_overview(7)), and waiters for words of shared memory
//! (futex(2)).
//!
//! Pure: what they are and what each operation does to them. The server keeps them (`server::ipc`).

pub mod attachments;
pub mod id_table;
pub mod posix_mq;
pub mod shared_futex;
pub mod sysv_msg;
pub mod sysv_sem;
