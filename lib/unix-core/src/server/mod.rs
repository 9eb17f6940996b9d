//! What processes and the server of files tell each other (`protocol`), what a client remembers of handles
//! (`handle_cache`), and which processes the server ends (`condemned`).

pub mod condemned;
pub mod handle_cache;
pub mod protocol;
