//! Disks: block devices of programs, and the file system of C-FFS that lives on one.
//!
//! `block_cache` decides what a request for raw bytes needs, `raw` answers programs in the server, `block_device` is
//! the side of a process. `hw::disk` submits transfers.

#[cfg(target_os = "none")]
pub mod adapter;
#[cfg(target_os = "none")]
pub mod block_device;
#[cfg(target_os = "none")]
mod keep;
#[cfg(target_os = "none")]
pub mod keeper;
#[cfg(target_os = "none")]
pub mod kernel_volume;
#[cfg(target_os = "none")]
pub mod medium;
#[cfg(target_os = "none")]
pub mod raw;

pub use unix_core::block_cache;
pub use vfs::disk_number::{MAJOR, MINORS, MOST, SECTOR, letter, number_of};
