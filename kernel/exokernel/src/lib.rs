//! The kernel proper, one file per noun. Safe code only.

#![no_std]
#![forbid(unsafe_code)]
