//! The only kernel crate with unsafe code and assembly.

#![no_std]
