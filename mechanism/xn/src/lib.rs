//! XN: protected stable storage. Comes with the disk issue; nothing here yet.

#![no_std]
#![forbid(unsafe_code)]
