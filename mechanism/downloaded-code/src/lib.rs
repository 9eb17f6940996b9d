//! Downloaded code: the BPF instruction set, verified, compiled, interpreted.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod x86_64;
