//! The session's side of disks: the first process begins when they are mounted, the machine stops when they are
//! written.

use crate::boot::Session;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::disk;
use exos::wait;
use runtime::predicate::{Operator, clock, word};
use unix_core::server::protocol::{DISK_DONE, DISK_WORK};

/// Nanoseconds after which the session looks whether the keeper lives.
const AGAIN: u64 = 1_000_000_000;

impl Session {
    /// Waits until the keeper has looked at every disk, and says what it left alone; false where the root is missing.
    pub(crate) fn wait_for_disks(&self) -> bool {
        if disk::find(0).is_none() {
            return true;
        }
        self.wait_for_keeper(|session| session.state.lock().server.keeper.has_begun);
        let (complaints, warnings) = {
            let keeper = &mut self.state.lock().server.keeper;
            (core::mem::take(&mut keeper.complaints), core::mem::take(&mut keeper.warnings))
        };
        complaints.iter().chain(&warnings).for_each(|line| runtime::error_line!("chitin: {line}"));
        complaints.is_empty() || !self.state.lock().server.keeper.contents.starts_with(b"r")
    }

    /// Writes everything back and closes the volumes; whether that could be done.
    pub(crate) fn end_disks(&self) -> bool {
        if disk::find(0).is_none() {
            return true;
        }
        let (words, failures) = {
            let mut server = self.state.lock();
            server.server.keeper.ends = true;
            (server.notice_words(), server.server.keeper.failed.len())
        };
        words[DISK_WORK].fetch_add(1, SeqCst);
        wait::kick_idle();
        self.wait_for_keeper(|session| !session.state.lock().server.keeper.ends);
        let keeper = &self.state.lock().server.keeper;
        keeper.failed.len() == failures && !keeper.is_dead()
    }

    fn wait_for_keeper(&self, is_done: impl Fn(&Self) -> bool) {
        let words = self.state.lock().notice_words();
        loop {
            let seen = words[DISK_DONE].load(Acquire);
            if is_done(self) || self.state.lock().server.keeper.is_dead() {
                return;
            }
            let done = word(&words[DISK_DONE], Operator::NotEqual, seen);
            wait::wait_plainly(&mut [done, clock(runtime::clock::now() + AGAIN)]);
        }
    }
}
