//! The memory file system: pure, kept by a guardian, tested on the host.
//!
//! `node` is what a file is, `entries` are the names in a directory, `path` finds a node, `tree` changes names, `contents` reads and writes bytes, which lie in `pages`,
//! `extended_attribute` is what programs keep beside them, `extent` is about holes, `seal` about seals, `lock` about record locks, `catalogue` is what all may read of names and nodes.
//! `mount_table` says what is found where, `mount` changes that, `volume` is what can be mounted. `number_map` finds things by
//! their numbers. `watch` is about who waits for events of nodes.

pub mod catalogue;
pub mod contents;
pub mod entries;
pub mod extended_attribute;
pub mod extent;
pub mod lock;
pub mod machine;
pub mod mount;
pub mod mount_table;
pub mod node;
pub mod number_map;
pub mod pages;
pub mod path;
pub mod populate;
pub mod seal;
pub mod tree;
pub mod volume;
pub mod watch;
pub mod working_set;
