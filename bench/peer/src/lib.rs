//! The Linux side of the benchmarks.

#![forbid(unsafe_code)]
