//! The memory file system of ExOS. Its server keeps one, and tests on the host keep others.
//!
//! Pure: nothing here knows where the bytes of a page lie. [`file_data::PageStorage`] is what the keeper provides.
//!
//! - nodes: `inode` is a node, `directory` the names in one, `namespace` changes names, `path_walk` finds a node.
//!   `handle` is what a client holds, `supplementary_groups` a part of who it is;
//! - contents: `file_data` reads and writes bytes, `page_index` finds their pages, `prefault_set` knows the pages
//!   that programs touch. `holes` and `seals` are those of a file, `extended_attribute` what programs attach to it;
//! - mounts: `mount_table` says what is found where, `mount` changes that, `superblock` is what can be mounted,
//!   `persistent` a volume that a disk keeps, `on_disk` the extents of its files, `initramfs` the tree at boot, `cpio`
//!   its archive;
//! - shared: `dcache` is the dentry cache, `file_lock` locks, `inotify` watches, `id_map` a map by numbers;
//! - the machine: `sysfs`, `cpu_cache`, `network_card`, `disk_number`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod dcache;
pub mod directory;
pub mod extended_attribute;
pub mod file_data;
pub mod file_lock;
pub mod handle;
pub mod holes;
pub mod id_map;
pub mod inode;
pub mod inotify;
mod machine;
mod mounts;
pub mod namespace;
pub mod page_index;
pub mod path_walk;
pub mod prefault_set;
pub mod seals;
pub mod supplementary_groups;

pub use machine::{cpu_cache, disk_number, network_card, sysfs};
pub use mounts::{cpio, initramfs, mount, mount_table, on_disk, persistent, superblock};
