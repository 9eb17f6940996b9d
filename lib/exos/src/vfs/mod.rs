//! The memory file system: pure, kept by a server, tested on the host.
//!
//! - nodes: `inode` is a node, `directory` the names in one, `namespace` changes names, `path_walk` finds a node;
//! - contents: `file_data` reads and writes bytes, `page_index` finds their pages, `prefault_set` knows the pages
//!   that programs touch. `holes` and `seals` are those of a file, `extended_attribute` what programs attach to it;
//! - mounts: `mount_table` says what is found where, `mount` changes that, `superblock` is what can be mounted,
//!   `persistent` a volume that a disk keeps, `initramfs` the tree at boot;
//! - shared: `dcache` is the dentry cache, `file_lock` locks, `inotify` watches, `id_map` a map by numbers;
//! - the machine in `/sys`: `sysfs`, `cpu_cache`, `network_card`.

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
