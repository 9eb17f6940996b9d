//! Blocking without a process: no signal ends it.

use runtime::predicate::{Predicate, Term};
use runtime::time_slice;

/// Waits without a process: the session.
pub fn wait_plainly(terms: &[Term]) {
    let mut predicate = Predicate::new();
    for term in terms {
        if predicate.add(&[*term]).is_err() {
            break;
        }
    }
    if predicate.wait().is_err() {
        time_slice::yield_now();
    }
}
