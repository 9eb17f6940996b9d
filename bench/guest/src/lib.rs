//! The Chitin side of the benchmarks.

#![no_std]
