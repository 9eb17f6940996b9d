//! The memory file system: pure, kept by a server, tested on the host.
//!
//! `node` is what a file is, `entries` are the names in a directory, `path` finds a node, `tree` changes names, `contents` reads and writes bytes, which lie in `pages`,
//! `extended_attribute` is what programs keep beside them, `extent` is about holes, `seal` about seals, `lock` about record locks, `catalogue` is what all may read of names and nodes.
//! `mount_table` says what is found where, `mount` changes that, `volume` is what can be mounted. `number_map` finds things by
//! their numbers. `watch` is about inotify watches of nodes.

pub mod cpu_cache;
pub mod dcache;
pub mod directory;
pub mod extended_attribute;
pub mod file_data;
pub mod file_lock;
pub mod holes;
pub mod id_map;
pub mod initramfs;
pub mod inode;
pub mod inotify;
pub mod mount;
pub mod mount_table;
pub mod namespace;
pub mod network_card;
pub mod page_index;
pub mod path_walk;
pub mod persistent;
pub mod prefault_set;
pub mod seals;
pub mod superblock;
pub mod sysfs;
