//! A descriptor of events of files (inotify(7)): the server keeps the watches and the events, by a node that each
//! descriptor holds.

use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::usercopy;
use crate::server::client;
use crate::wait;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{Operator, Term, word};
use unix_core::server::protocol::Request;

/// The instance.
#[derive(Clone, Copy, Debug)]
pub struct Watcher {
    /// Its node.
    pub node: u64,
}

impl Watcher {
    /// One that watches nothing yet.
    pub fn create() -> Result<Self> {
        let mut files = client::files().lock();
        let [node, ..] = files.on_object(Request::MakeWatcher, [0; 5])?;
        Ok(Self { node })
    }

    /// Takes a watch away.
    pub fn remove(&self, number: u32) -> Result<()> {
        client::files().lock().on_object(Request::Unwatch, [self.node, u64::from(number), 0, 0, 0]).map(|_| ())
    }

    fn bytes_waiting(&self) -> Result<u64> {
        Ok(client::files().lock().on_object(Request::EventsWaiting, [self.node, 0, 0, 0, 0])?[0])
    }

    fn take(&self, room: u64) -> Result<Vec<u8>> {
        let mut files = client::files().lock();
        let [bytes, ..] = files.on_object_with(Request::TakeEvents, [self.node, room, 0, 0, 0], b"")?;
        files.left(bytes)
    }
}

impl FileOps for Watcher {
    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        loop {
            let changes = self.wait_terms(Event::Readable);
            let bytes = self.take(count)?;
            if !bytes.is_empty() {
                return usercopy::write(to, &bytes).map(|()| bytes.len() as u64);
            }
            if description.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            wait::wait(&changes, None)?;
        }
    }

    fn is_ready(&self, event: Event) -> bool {
        event == Event::Readable && self.bytes_waiting().is_ok_and(|bytes| bytes > 0)
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        let changes = client::changes();
        let seen = changes.load(Acquire);
        // What came before the count was read is not to be missed.
        let seen = if self.is_ready(event) { seen.wrapping_sub(1) } else { seen };
        Vec::from([word(changes, Operator::NotEqual, seen)])
    }

    fn event_sequence(&self, event: Event) -> u64 {
        if event == Event::Readable { self.bytes_waiting().unwrap_or_default() } else { 0 }
    }

    fn status(&self) -> (u32, u64) {
        (0o600, self.node)
    }

    fn name(&self) -> String {
        String::from("anon_inode:inotify")
    }

    fn node(&self) -> Option<u64> {
        Some(self.node)
    }

    fn waiting(&self) -> Result<u64> {
        self.bytes_waiting()
    }
}
