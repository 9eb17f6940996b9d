//! Runs code that the compilers emitted, under guard pages.

pub mod packet_filter;
pub mod wakeup_predicate;
