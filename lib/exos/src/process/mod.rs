//! A Linux process: one environment, its memory, its descriptors, its relatives.
//!
//! `create` makes the environment, `fork` copies a process, `exec` changes its program, `exit` and `wait` end it and
//! tell its parent. Who executes a set-id program hands over to a fresh environment (`set_id`), which goes on for it
//! (`succeed`) with what it was left (`bundle`). All state is here, found through a pointer in the environment area.

#[cfg(target_os = "none")]
pub mod account;
#[cfg(target_os = "none")]
pub mod affinity;
pub mod attributes;
#[cfg(target_os = "none")]
pub mod begin;
#[cfg(target_os = "none")]
mod beside;
pub mod bundle;
pub mod capabilities;
#[cfg(target_os = "none")]
pub mod children;
#[cfg(target_os = "none")]
pub mod create;
#[cfg(target_os = "none")]
mod dowry;
#[cfg(target_os = "none")]
mod estate;
#[cfg(target_os = "none")]
pub mod exec;
#[cfg(target_os = "none")]
pub mod exit;
#[cfg(target_os = "none")]
pub mod fork;
#[cfg(target_os = "none")]
pub mod futex;
#[cfg(target_os = "none")]
pub mod grave;
pub mod groups;
pub mod habit;
#[cfg(target_os = "none")]
pub mod hold;
pub mod identity;
#[cfg(target_os = "none")]
mod kept;
#[cfg(target_os = "none")]
mod lent;
pub mod limits;
#[cfg(target_os = "none")]
pub mod nursery;
#[cfg(target_os = "none")]
pub mod out_of_memory;
pub mod peer;
pub mod place;
#[cfg(target_os = "none")]
pub mod precedence;
#[cfg(target_os = "none")]
pub mod preload;
#[cfg(target_os = "none")]
mod prepared;
#[cfg(target_os = "none")]
mod program;
#[cfg(target_os = "none")]
pub mod ready;
#[cfg(target_os = "none")]
pub mod reaper;
#[cfg(target_os = "none")]
mod record;
#[cfg(target_os = "none")]
mod remnant;
pub mod request;
#[cfg(target_os = "none")]
mod set_id;
#[cfg(target_os = "none")]
pub mod spawn;
pub mod status;
#[cfg(target_os = "none")]
mod succeed;
#[cfg(target_os = "none")]
pub mod thread;
pub mod turns;
#[cfg(target_os = "none")]
pub mod unborn;
pub mod usage;
#[cfg(target_os = "none")]
pub mod user;
#[cfg(target_os = "none")]
pub mod vfork;
#[cfg(target_os = "none")]
pub mod wait;

#[cfg(target_os = "none")]
pub use record::*;
