//! How a Linux call reaches ExOS: by the gate, or by a jump that took its place (DESIGN.md §5).

#[cfg(target_os = "none")]
mod crash;
#[cfg(target_os = "none")]
pub mod gate;
pub mod hot_sites;
#[cfg(target_os = "none")]
mod legacy_calls;
#[cfg(target_os = "none")]
pub mod patch;
pub mod patch_site;
