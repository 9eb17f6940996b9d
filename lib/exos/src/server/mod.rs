//! The server of the memory file system, as a process sees it: `client` runs in each process, `lib/exos-server` is the
//! server itself, and `unix_core::server::protocol` is what travels between them.

pub mod client;
