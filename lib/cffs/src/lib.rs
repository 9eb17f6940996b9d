//! C-FFS, the co-locating fast file system (Ganger and Kaashoek 1997), over XN and a block device.
//!
//! Inodes lie in the directory nodes that name them and never move. A directory is a hash trie of nodes. One source
//! serves host and guest. The crate decides nothing about permissions: its caller does.
//!
//! Invariants:
//! - each transaction leaves a consistent file system in core; write-back may happen between any two.
//! - a name that a crash leaves leads to an inode that recovery finds, or is removed.
//! - a renamed inode has one name in every state that a crash can leave.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod arena;
mod attribute;
mod cache;
pub mod device;
mod directory;
mod durability;
mod edit;
pub mod error;
pub mod examine;
pub mod extent;
pub mod file;
pub mod file_system;
pub mod guarded;
pub mod layout;
pub mod list;
pub mod make;
pub mod mount;
pub mod name;
mod orphan;
pub mod recovery;
pub mod rename;
mod shrink;
mod space;
pub mod template;
