//! How a Linux call reaches ExOS: by the gate, or by a jump that took its place (DESIGN.md §5).

pub(crate) mod crash;
pub mod gate;
mod legacy_calls;
pub mod patch;
