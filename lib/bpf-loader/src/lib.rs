//! Loader of BPF ELF objects made by clang and rustc, outside the trusted base.

#![forbid(unsafe_code)]
