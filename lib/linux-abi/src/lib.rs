//! What a Linux program and ExOS agree on: error numbers (`errno`), and where things lie in memory (`address_map`).
//!
//! Pure. The lowest layer of ExOS.

#![no_std]
#![forbid(unsafe_code)]

pub mod address_map;
pub mod errno;
