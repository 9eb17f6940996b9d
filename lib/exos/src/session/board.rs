//! What the session tells every process of the host: words of a page that only the session writes.

/// Not 0 once nobody on the host reads what programs print.
pub const OUTPUT_GONE: usize = 0;
