//! A descriptor of a POSIX message queue (mq_overview(7)): the server keeps the queue, by its number.

use crate::descriptor::file_ops::FileOps;
use crate::descriptor::poll_event::Event;
use crate::server::client;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::Result;
use runtime::predicate::{Operator, Term, word};
use unix_core::server::protocol::Request;

/// The queue.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// Its number.
    pub number: u64,
}

impl Queue {
    /// Messages and bytes of each that it may have; messages in it, bytes in it.
    pub fn status(&self) -> Result<[u64; 4]> {
        let answer = client::files().lock().on_object(Request::QueueStatus, [self.number, 0, 0, 0, 0])?;
        Ok([answer[0], answer[1], answer[2], answer[3]])
    }
}

impl FileOps for Queue {
    fn is_ready(&self, event: Event) -> bool {
        Queue::status(self).is_ok_and(|[most, _, there, _]| match event {
            Event::Readable => there > 0,
            Event::Writable => there < most,
        })
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        let changes = client::changes();
        let seen = changes.load(Acquire);
        // What came before the count was read is not to be missed.
        let seen = if self.is_ready(event) { seen.wrapping_sub(1) } else { seen };
        Vec::from([word(changes, Operator::NotEqual, seen)])
    }

    /// A process that closes a queue wants no notice of it any more.
    fn closed(&self, ended: bool) {
        let _ = client::files().lock().on_object(Request::QueueNotify, [self.number, 0, 0, 0, 0]);
        if ended {
            let _ = client::files().lock().on_object(Request::QueueClose, [self.number, 0, 0, 0, 0]);
        }
    }

    fn status(&self) -> (u32, u64) {
        (0o600, self.number)
    }

    fn name(&self) -> String {
        String::from("/mqueue")
    }
}
