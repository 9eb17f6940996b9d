//! The end of a process that needs memory where there is none: as by SIGKILL, which is what Linux sends then.
//!
//! Whatever ExOS does may take memory of its own heap, in the middle of a call, and cannot be taken back there. So a
//! process whose heap cannot grow is sent SIGKILL and gets some of the pages that the bank keeps for ends. It comes to
//! the end of its call, handles the signal there, and closes its open files. Where nothing is left of those it ends on
//! the spot, and what it had is seen to as when the kernel destroys it.

use crate::budget;
use crate::process::current::process;
use crate::process::exit;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_raw_sys::general as linux;
use unix_core::process::exit_status::Status;
use unix_core::process::public_page as public;
use unix_core::signal::pending::from_system;

/// Sees that the heap, which is locked, can take so many pages. Where it cannot, this does not come back.
pub fn provide(pages: u64) -> bool {
    if budget::reserve_or_fail(pages).is_err() {
        provide_for_end(pages);
    }
    true
}

#[cold]
fn provide_for_end(pages: u64) {
    kill();
    if budget::draw_for_end(pages).is_err() {
        exit::end_on_the_spot();
    }
}

/// Sends SIGKILL to the running process, with a line for the host.
#[cold]
pub fn kill() {
    let process = process();
    // However it comes to its end, it is this one.
    let end = Status::Killed(linux::SIGKILL).to_word();
    if process.ending.compare_exchange(0, end, SeqCst, Acquire).is_err() {
        return;
    }
    // The name as everybody sees it: its lock may be held here.
    let name = [public::NAME, public::NAME + 1].map(|word| process.public_word(word).load(Acquire).to_le_bytes());
    let name = name.as_flattened().split(|byte| *byte == 0).next().unwrap_or_default();
    let name = core::str::from_utf8(name).unwrap_or("?");
    runtime::error_line!("out of memory: process {} ({name}) is killed", process.number());
    // It is no signal that queues, for which there might be no room.
    let _ = process.signal.inbox().put(&from_system(linux::SIGKILL));
}
