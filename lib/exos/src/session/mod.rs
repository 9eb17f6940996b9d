//! The session: what the machine was started for, from the boot archive to the final record.
//!
//! `archive` and `command` read what the host sent, `start` makes the guardian and the first process, `pump` feeds its
//! standard input or its terminal, passes signals on and waits for its end. `load` averages how much there is to do, `set_id` makes environments for
//! who executes a set-id program, and `succession` tells everybody of them.

pub mod archive;
pub mod birth;
pub mod board;
pub mod command;
#[cfg(target_os = "none")]
mod enforcer;
#[cfg(target_os = "none")]
mod keyboard;
pub mod load;
#[cfg(target_os = "none")]
mod orphans;
#[cfg(target_os = "none")]
pub mod pump;
#[cfg(target_os = "none")]
mod set_id;
#[cfg(target_os = "none")]
pub mod start;
pub mod succession;

/// The first word of the ExOS image.
pub const IMAGE_MAGIC: u64 = 0x0053_4f78_4e69_7443;
