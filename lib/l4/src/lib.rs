//! The L4 personality. Comes with the L4 issue.

#![no_std]
#![forbid(unsafe_code)]
