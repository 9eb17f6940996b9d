//! DPF: declarative packet filters, merged, checked for overlap and compiled.

#![no_std]
#![forbid(unsafe_code)]
