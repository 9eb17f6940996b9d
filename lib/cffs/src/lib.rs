//! C-FFS, the co-locating file system, generic over a block device. Comes with the disk issue.

#![no_std]
#![forbid(unsafe_code)]
