//! Calls on processes: making and ending them, credentials, limits, scheduling, and the machine.

pub(super) mod capability;
pub(super) mod identity;
pub(super) mod kcmp;
pub(super) mod limit;
pub(super) mod pidfd;
pub(super) mod prctl;
pub(super) mod process;
pub(super) mod schedule;
pub(super) mod system;
