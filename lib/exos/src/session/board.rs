//! What the session tells every process of the host, and of the machine as a whole: words of a page that only the session
//! writes.

/// Not 0 once nobody on the host reads what programs print.
pub const OUTPUT_GONE: usize = 0;
/// Load averages of the last minute, five and fifteen minutes, as [`super::load`] has them.
pub const LOADS: usize = 1;
