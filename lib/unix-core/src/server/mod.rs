//! What processes and the server of files tell each other (`protocol`, `ipc_protocol`), what a client remembers of
//! handles (`handle_cache`), which processes the server ends (`condemned`), and kinds of sockets (`socket_kind`).

pub mod condemned;
pub mod handle_cache;
pub mod ipc_protocol;
pub mod protocol;
pub mod socket_kind;
