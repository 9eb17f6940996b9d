//! Descriptors: the table of numbers, the open descriptions behind them, and what these are open on.

pub mod table;

#[cfg(target_os = "none")]
pub mod description;
#[cfg(target_os = "none")]
pub mod object;
#[cfg(target_os = "none")]
pub mod operations;
