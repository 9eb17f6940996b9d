//! Operations table of an open file that is no file, pipe, terminal or device. Eventfd, timerfd, epoll and sockets are
//! made of it, and a native program can add kinds.
//!
//! Blocking is the description's affair: an operation that would have to wait does so by [`crate::wait::wait`] on its
//! own terms, unless the description is nonblocking.
//!
//! Invariant: no wake-up is lost between a look and the sleep after it. A term over a level (`GreaterOrEqual` over a
//! count) may be made at any time. A term over a change (`NotEqual` to what was read) is made before the look that
//! finds nothing, and not after it.

use super::open_file::OpenFile;
use super::poll_event::Event;
use crate::hw::usercopy;
use crate::pipe::{Pipe, Side};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::PageNumber;
use runtime::lock::OwnerLock;
use runtime::predicate::Term;

/// What can be done with it. A call that a kind does not have is refused as Linux refuses it.
pub trait FileOps: Any + Debug + Send + Sync {
    /// Reads into the program's memory.
    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        let _ = (description, to, count);
        Err(Errno::EINVAL)
    }

    /// Writes from the program's memory.
    fn write(&self, description: &OpenFile, from: u64, count: u64) -> Result<u64> {
        let bytes = usercopy::read_vec(from, count.min(1 << 16) as usize)?;
        self.write_bytes(description, &bytes)
    }

    /// Writes bytes of ExOS.
    fn write_bytes(&self, description: &OpenFile, bytes: &[u8]) -> Result<u64> {
        let _ = (description, bytes);
        Err(Errno::EINVAL)
    }

    /// Writes bytes of ExOS as far as that takes no waiting: `EAGAIN` where nothing of them can be written now.
    fn write_now(&self, bytes: &[u8]) -> Result<u64> {
        let _ = bytes;
        Err(Errno::EINVAL)
    }

    /// Waits until so many bytes may be written, if they have to be written as one, or some.
    fn wait_to_write(&self, bytes: u64) -> Result<()> {
        let _ = bytes;
        Err(Errno::EINVAL)
    }

    /// Whether an event has come.
    fn is_ready(&self, event: Event) -> bool;

    /// Whether it is known at once that `poll` has nothing to report of it but room to write: most sockets of a server
    /// are idle.
    fn is_quiet(&self) -> bool {
        false
    }

    /// What becomes true when an event comes that has not come yet.
    fn wait_terms(&self, event: Event) -> Vec<Term>;

    /// The running thread is about to wait for an event: the thread that causes it may know (`wait::set_yield_target`).
    fn note_waiter(&self, event: Event) {
        let _ = event;
    }

    /// When the first came of what can be read now, in ticks. 0: that is not known. A number from before it could be
    /// read says nothing.
    fn filled_at(&self) -> u64 {
        0
    }

    /// A number that is another one after each new event of a kind, for edge-triggered waiting.
    fn event_sequence(&self, event: Event) -> u64 {
        u64::from(self.is_ready(event))
    }

    /// Whether that number counts events, and is never one that it was before.
    fn counts_events(&self) -> bool {
        false
    }

    /// What becomes true when the stamp of an event changes.
    fn edge_terms(&self, event: Event) -> Vec<Term> {
        self.wait_terms(event)
    }

    /// Has the server ring a bell when what these bits of `internet::page::watch` say changes; `each` time, or at least
    /// once for all descriptions. The result is the name that is recorded then. `None`: it cannot, and a waiter needs
    /// the terms.
    fn ask_for_bell(&self, _watch: u64, _bell: u32, _each: bool) -> Option<u64> {
        None
    }

    /// What becomes true when a process ends at the other side, which then rings no bell.
    fn death_terms(&self) -> Vec<Term> {
        Vec::new()
    }

    /// The name under which bells are rung for it.
    fn bell_name(&self) -> Option<u64> {
        None
    }

    /// What becomes true when the other side is gone, or an error comes: that is told to those that ask for nothing.
    fn end_terms(&self) -> Vec<Term> {
        Vec::new()
    }

    /// Whether the other side is gone.
    fn is_hung_up(&self) -> bool {
        false
    }

    /// Whether the other side writes no more.
    fn is_half_closed(&self) -> bool {
        false
    }

    /// The last descriptor of this process was closed; `ended`: the last one in any process. Threads may still sleep
    /// over it.
    fn closed(&self, ended: bool) {
        let _ = ended;
    }

    /// After that no thread works with it or sleeps over it: unmaps and frees what it has in this process.
    fn gone(&self) {}

    /// Does something to the pipes that are behind it, each with the side that it has of it.
    fn each_pipe(&self, action: &mut dyn FnMut(&Pipe, Side)) {
        let _ = action;
    }

    /// The locks over what it keeps in this process: fork holds them while it copies that.
    fn locks(&self) -> [Option<&OwnerLock>; 2] {
        [None; 2]
    }

    /// Type and permissions, and number, as `fstat` tells them.
    fn status(&self) -> (u32, u64);

    /// Whether `lseek` does nothing with it, and is right all the same.
    fn stays_where_it_is(&self) -> bool {
        self.status().0 & linux::S_IFMT == 0
    }

    /// What `/proc/self/fd` shows.
    fn name(&self) -> String;

    /// What `/proc/self/fdinfo` reports of it in addition to what it reports of all.
    fn more_information(&self) -> String {
        String::new()
    }

    /// The server's node that each descriptor of it holds, if it has one.
    fn node(&self) -> Option<u64> {
        None
    }

    /// Pages that the processes which have it share.
    fn pages(&self) -> Vec<PageNumber> {
        Vec::new()
    }

    /// `ioctl`.
    fn ioctl(&self, request: u32, argument: u64) -> Result<u64> {
        let _ = (request, argument);
        Err(Errno::ENOTTY)
    }

    /// Bytes that can be read now, for FIONREAD.
    fn waiting(&self) -> Result<u64> {
        Err(Errno::ENOTTY)
    }
}
