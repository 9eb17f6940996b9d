//! Connections whose maker has closed its socket, or ended, before they were accepted. The pages of their pipes go with
//! the maker, so the sent bytes wait here until a process accepts the connection (unix(7)). It goes with the statement
//! of who connected (`identity_tokens`), whose number is known to the two sides only.

use crate::main_loop::Server;
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use runtime::transfer::Message;
use unix_core::pipe::ring;
use unix_core::server::protocol::WINDOW_BYTES;

/// Bytes that one principal may leave behind at most, with some for each connection.
const MOST: usize = 1 << 20;
const EACH: usize = 256;

/// What was left in a pipe.
#[derive(Clone, Debug)]
pub(crate) struct PendingData {
    /// Bytes that had been read of it.
    read: u64,
    /// Bytes that are to be here once all have come.
    total: usize,
    bytes: Vec<u8>,
}

impl PendingData {
    /// What it counts as.
    pub(crate) const fn weight(&self) -> usize {
        self.total + EACH
    }
}

impl Server {
    /// See `Request::StorePending`.
    pub(crate) fn leave_behind(&mut self, caller: u64, message: &Message) -> Result<()> {
        let [_, number, read, total, place, bytes] = *message;
        let principal = self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials.principal();
        if total > ring::MOST || bytes > WINDOW_BYTES || place.saturating_add(bytes) > total {
            return Err(Errno::EINVAL);
        }
        let mut some = vec![0; bytes as usize];
        self.server.window(caller)?.read(0, &mut some)?;
        let room = if place == 0 { MOST.saturating_sub(self.tokens.left_by(principal)) } else { 0 };
        let left = self.tokens.left(number, principal).ok_or(Errno::EPERM)?;
        if place == 0 {
            let begun = PendingData { read, total: total as usize, bytes: Vec::new() };
            if begun.weight() > room {
                return Err(Errno::ENOSPC);
            }
            *left = Some(begun);
        }
        let left = left.as_mut().filter(|left| left.bytes.len() as u64 == place && left.total as u64 == total);
        left.ok_or(Errno::EINVAL)?.bytes.extend_from_slice(&some);
        Ok(())
    }

    /// See `Request::TakePending`.
    pub(crate) fn take_left(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let [_, number, place, ..] = *message;
        let left = self.tokens.left_of(number).filter(|left| left.bytes.len() == left.total);
        message[1..].fill(0);
        let Some(left) = left else { return Ok(()) };
        let rest = left.bytes.get(place as usize..).unwrap_or_default();
        let some = &rest[..rest.len().min(WINDOW_BYTES as usize)];
        message[1..5].copy_from_slice(&[1, left.read, left.total as u64, self.server.put(caller, some)?]);
        Ok(())
    }
}
