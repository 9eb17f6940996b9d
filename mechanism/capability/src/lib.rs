//! Hierarchical capability names, rights, dominance and access lists.

#![no_std]
#![forbid(unsafe_code)]
