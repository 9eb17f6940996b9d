//! ExOS, the Unix personality: runs unmodified Linux x86-64 programs.

#![no_std]
