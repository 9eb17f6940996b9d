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

use alloc::format;
use alloc::string::String;

/// The most bytes that a segment of shared memory could have, as Linux tells it: no limit of its own.
pub const LARGEST_SEGMENT: u64 = u64::MAX - (1 << 24);

/// A limit of System V objects, as a file below `/proc/sys/kernel` tells it.
pub fn limit_text(name: &str) -> Option<String> {
    const OBJECTS: usize = id_table::MOST;
    Some(match name {
        "msgmax" => format!("{}\n", sysv_msg::MOST_BYTES),
        "msgmnb" => format!("{}\n", sysv_msg::QUEUE_BYTES),
        "msgmni" | "shmmni" => format!("{OBJECTS}\n"),
        "sem" => {
            let [each, changes] = [sysv_sem::MOST, sysv_sem::MOST_CHANGES];
            format!("{each}\t{}\t{changes}\t{OBJECTS}\n", each * OBJECTS)
        }
        "shmall" | "shmmax" => format!("{LARGEST_SEGMENT}\n"),
        _ => return None,
    })
}
