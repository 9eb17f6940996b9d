//! The memory file system: pure, kept by a guardian, tested on the host.
//!
//! `node` is what a file is, `path` finds one, `tree` changes names, `contents` reads and writes bytes.

pub mod contents;
pub mod node;
pub mod path;
pub mod populate;
pub mod tree;
