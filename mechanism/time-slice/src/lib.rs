//! The slice vector of one CPU: positions, round robin order, excess counts.

#![no_std]
#![forbid(unsafe_code)]
