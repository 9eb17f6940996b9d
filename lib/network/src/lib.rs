//! User-level TCP/IP. Comes with the network issue.

#![no_std]
#![forbid(unsafe_code)]
