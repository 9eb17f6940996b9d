//! Disks: block devices of programs, and the file system of C-FFS that lives on one.
//!
//! `block_cache` decides what a request for raw bytes needs, `raw` answers programs in the server, `block_device` is
//! the side of a process. `hw::disk` submits transfers.

pub mod adapter;
pub mod block_device;
mod keep;
pub mod keeper;
pub mod kernel_volume;
pub mod medium;
pub mod raw;
