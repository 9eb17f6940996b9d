//! Wakeup predicates: sums of products over 64-bit words, checked and evaluated.

#![no_std]
#![forbid(unsafe_code)]
