//! How a Linux call reaches ExOS: by the gate, or by a jump that took its place (DESIGN.md §5).

pub use program::{hot_sites, patch_site};

#[cfg(target_os = "none")]
mod crash;
#[cfg(target_os = "none")]
pub mod gate;
#[cfg(target_os = "none")]
mod legacy_calls;
#[cfg(target_os = "none")]
pub mod patch;
