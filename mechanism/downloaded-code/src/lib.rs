//! Downloaded code: the BPF instruction set, verified, compiled, interpreted.

#![no_std]
#![forbid(unsafe_code)]
