//! Blocking without a process: no signal ends it.

use abi::limits::PREDICATE_TERMS;
use runtime::predicate::{Term, wait_for};
use runtime::time_slice;

/// Waits without a process, until one of these terms is true: the session. The kernel takes so many of them.
pub fn wait_plainly(terms: &mut [Term]) {
    let count = terms.len().min(PREDICATE_TERMS);
    if wait_for(&mut terms[..count]).is_err() {
        time_slice::yield_now();
    }
}
