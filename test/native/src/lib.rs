//! Runs code that the compilers emitted, under guard pages.

pub mod wakeup_predicate;
