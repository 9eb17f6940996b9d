//! Raw disks, one request at a time.

use super::Client;
use super::dcache::notice;
use core::sync::atomic::AtomicU64;
use linux_abi::errno::Result;
use unix_core::block_cache::LINES;
use unix_core::server::protocol::{DISK_LINES, DiskRequest, Request};

impl Client {
    /// A request about bytes of a disk, `(first byte, bytes)`, whose contents lie in the window. Nothing: it is done.
    /// Else the caller repeats it with the ticket when the line is idle.
    pub fn disk(
        &mut self,
        node: u64,
        request: DiskRequest,
        (offset, bytes): (u64, u64),
        ticket: u64,
    ) -> Result<Option<(u64, u64)>> {
        self.attached()?;
        let message = [Request::Disk as u64, node, request as u64, offset, bytes, ticket];
        self.exchange(message).map(|answer| waits(&answer))
    }

    /// A flush of a disk, with the same answer.
    pub fn sync_disk(&mut self, disk: u64, ticket: u64) -> Result<Option<(u64, u64)>> {
        self.attached()?;
        self.exchange([Request::SyncDisk as u64, disk, ticket, 0, 0, 0]).map(|answer| waits(&answer))
    }

    /// Makes a node that a disk keeps durable, or the whole volume on which it lies, or all files on disks for node 0.
    /// Nothing else of this process waits meanwhile but what needs the connection.
    pub fn sync_files(&self, node: u64, is_whole: bool) -> Result<()> {
        let mut ticket = 0;
        loop {
            let answer = self.exchange([Request::SyncFiles as u64, ticket, 0, node, is_whole.into(), 0])?;
            if answer[1] == 0 {
                return Ok(());
            }
            ticket = answer[3];
            if super::wait_for_round(ticket) {
                return Ok(());
            }
        }
    }

    /// Gives up the clean pages of a file.
    pub fn discard(&self, node: u64) -> Result<()> {
        self.exchange([Request::SyncFiles as u64, 0, node, 0, 0, 0]).map(|_| ())
    }

    /// Copies what the window holds into the program's memory.
    pub fn window_to_program(&mut self, to: u64, bytes: u64) -> Result<()> {
        self.attached()?.copy_to_user(0, to, bytes)
    }

    /// Copies from the program's memory into the window.
    pub fn window_from_program(&mut self, from: u64, bytes: u64) -> Result<()> {
        self.attached()?.copy_from_user(0, from, bytes)
    }
}

const fn waits(answer: &[u64; 6]) -> Option<(u64, u64)> {
    if answer[1] != 0 { Some((answer[2], answer[3])) } else { None }
}

/// The word of a line of the server's cache: 0 while a transfer is in flight.
pub fn disk_line(line: u64) -> &'static AtomicU64 {
    notice(DISK_LINES + line as usize % LINES)
}
