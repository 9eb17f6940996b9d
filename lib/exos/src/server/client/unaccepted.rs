//! Data of connections that were not accepted, left with the server by the process that connected, and taken by the one
//! that accepts.

use super::Client;
use alloc::vec::Vec;
use linux_abi::errno::Result;
use unix_core::server::protocol::{Request, WINDOW_BYTES};

impl Client {
    /// Leaves the unread bytes of the connection with this number with the server.
    pub fn leave_behind(&mut self, number: u64, read: u64, sent: &[u8]) -> Result<()> {
        let mut place = 0;
        loop {
            let some = &sent[place..sent.len().min(place + WINDOW_BYTES as usize)];
            let words = [number, read, sent.len() as u64, place as u64, some.len() as u64];
            self.on_object_with(Request::StorePending, words, some)?;
            place += some.len();
            if place == sent.len() {
                return Ok(());
            }
        }
    }

    /// What was left of a connection: bytes that had been read, and those that were sent since; none where it was not
    /// left.
    pub fn take_left(&mut self, number: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let mut all = Vec::new();
        self.window()?;
        loop {
            let [is_left, read, total, some, _] =
                self.on_object(Request::TakePending, [number, all.len() as u64, 0, 0, 0])?;
            if is_left == 0 {
                return Ok(None);
            }
            all.extend(self.left(some)?);
            if some == 0 || all.len() as u64 >= total {
                return Ok(Some((read, all)));
            }
        }
    }
}
