//! Texts below `/proc` that need no process: mounts in their older form, counters and settings of the network.

pub mod mounts;
pub mod net_counters;
pub mod net_settings;
