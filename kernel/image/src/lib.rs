//! The linked kernel binary.

#![no_std]
#![forbid(unsafe_code)]
