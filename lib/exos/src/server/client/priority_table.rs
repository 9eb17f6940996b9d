//! Table of the processes that user 0 lets run before others, as the server exposes it on its notice page.

use crate::hw::library_image;
use core::sync::atomic::AtomicU64;
use unix_core::process::priority_table::PriorityTable;
use unix_core::server::protocol::PRECEDENCES;

/// The table that every process reads.
pub fn priorities() -> PriorityTable<'static> {
    priorities_in(library_image::shown().0)
}

/// The table on a notice page.
pub fn priorities_in(notice: &[AtomicU64]) -> PriorityTable<'_> {
    PriorityTable::new(notice[PRECEDENCES..].first_chunk().expect("the notice page has room for the table"))
}
