//! How a Linux call reaches ExOS: by the gate, or by a jump that took its place (DESIGN.md §5).

#[cfg(target_os = "none")]
pub mod gate;
#[cfg(target_os = "none")]
pub mod rewrite;
pub mod site;
pub mod trap_count;
