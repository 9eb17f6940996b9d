//! XCP, the zero-touch file copy. Comes with the disk issue.

#![no_std]
#![forbid(unsafe_code)]
