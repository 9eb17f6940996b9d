//! Disks: block devices of programs, and the file system of C-FFS that lives on one.
//!
//! - Raw bytes: `unix_core::block_cache` decides what a request needs, `raw` answers programs in the server,
//!   `block_device` is the side of a process, `hw::disk` submits transfers.
//! - Files: `keeper` mounts C-FFS and writes back what changed, `load` reads ahead, `keep` is how the server asks them.
//!   `medium` is what C-FFS lies on: the kernel's XN (`kernel_volume`) or the raw disk (`adapter`).

pub mod adapter;
mod keep;
pub mod keeper;
pub mod kernel_volume;
mod load;
pub mod medium;
pub mod raw;
