//! Runs compiled BPF programs under guard pages and compares them with the interpreter.
//!
//! Every region, the stack and the code lie flush against pages that cannot be touched. What is left of a page around
//! them is filled with a pattern that is checked after each run. A fault in compiled code prints the seed of the case
//! and ends the process with a failure.

pub mod generator;
pub mod helpers;
pub mod memory;
pub mod misprediction;
pub mod prepared;
pub mod random;
pub mod run;
