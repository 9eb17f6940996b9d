//! Runs code that the compilers emitted, under guard pages.

pub mod downloaded_code;
pub mod packet_filter;
pub mod packet_filter_count;
pub mod wakeup_predicate;
