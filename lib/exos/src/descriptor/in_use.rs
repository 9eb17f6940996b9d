//! Descriptions that one thread closes while a call of another still works with them, as `fget` and `fput` have it on
//! Linux: they are let go when the last such call has ended.
//!
//! A call notes what it works with under the lock of the descriptors, and only in a process that has threads. Who takes a
//! description out of the descriptors therefore sees every thread that found it there. In the same way who takes one out notes
//! that it is leaving, until it is let go: two threads that close the two ends of a pipe look through one window, which the
//! one of them closes that is done last.

use super::description::Description;
use crate::errno::{Errno, Result};
use crate::process::Process;
use crate::user_memory::current::thread;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as linux;

/// What the calls of a process work with.
#[derive(Debug, Default)]
pub struct Uses {
    /// Number of a thread, and of an open description.
    notes: Vec<(u64, u64)>,
    /// Descriptions that no descriptor refers to any more.
    left: Vec<Description>,
    /// Descriptions with a window that were taken out of the descriptors and are not let go yet, once for each descriptor.
    leaving: Vec<Description>,
}

impl Uses {
    fn others_use(&self, description: &Description) -> bool {
        let (own, number) = (thread().number(), description.number());
        self.notes.iter().any(|(user, used)| *user != own && *used == number)
    }
}

impl Process {
    /// The description behind a descriptor. It stays whole until the call ends.
    #[inline]
    pub fn description(&self, number: u64) -> Result<Description> {
        let descriptors = self.descriptors.lock();
        let description = descriptors.get(number)?.clone();
        if self.has_threads.load(Relaxed) {
            self.note_use(&description);
        }
        Ok(description)
    }

    #[inline(never)]
    fn note_use(&self, description: &Description) {
        self.uses.lock().notes.push((thread().number(), description.number()));
        thread().notes_uses.store(true, Relaxed);
    }

    /// The same for a call that needs more than a place: `EBADF` for what was opened with `O_PATH`.
    pub fn opened(&self, number: u64) -> Result<Description> {
        let description = self.description(number)?;
        if description.flags() & linux::O_PATH != 0 { Err(Errno::EBADF) } else { Ok(description) }
    }

    /// Takes a descriptor out, which is then to be closed.
    pub fn take_out(&self, number: u64) -> Result<Description> {
        let mut descriptors = self.descriptors.lock();
        let description = descriptors.remove(number)?;
        self.note_leaving(&description);
        Ok(description)
    }

    /// Puts a description in the place of another one, which is then to be closed.
    pub fn put_in_place(&self, number: u64, new: Description, close_on_exec: bool) -> Result<Option<Description>> {
        let mut descriptors = self.descriptors.lock();
        let before = descriptors.replace(number, new, close_on_exec)?;
        before.iter().for_each(|before| self.note_leaving(before));
        Ok(before)
    }

    #[inline]
    fn note_leaving(&self, description: &Description) {
        if self.has_threads.load(Relaxed) && description.object.has_window() {
            self.uses.lock().leaving.push(description.clone());
        }
    }

    /// A descriptor of a description with a window is done with it. Whether another one of this process looks through the same
    /// window: of two that ask, one is told that it was the last.
    pub(super) fn has_left(&self, description: &Description) -> bool {
        let descriptors = self.descriptors.lock();
        let mut uses = self.uses.lock();
        if let Some(at) = uses.leaving.iter().position(|leaving| leaving.is_same(description)) {
            uses.leaving.swap_remove(at);
        }
        let same = |other: &Description| description.object.shares_window(&other.object);
        let others = descriptors.iter().map(|(_, other)| other).chain(&uses.leaving).chain(&uses.left);
        others.into_iter().any(same)
    }

    /// Keeps what is to be closed, if a call of another thread works with it; else gives it back.
    #[inline]
    pub(super) fn leave_to_users(&self, description: Description) -> Option<Description> {
        if self.has_threads.load(Relaxed) { self.leave_to_threads(description) } else { Some(description) }
    }

    fn leave_to_threads(&self, description: Description) -> Option<Description> {
        let mut uses = self.uses.lock();
        if !uses.others_use(&description) {
            return Some(description);
        }
        uses.left.push(description);
        None
    }

    /// The call of the running thread has ended.
    #[inline]
    pub fn end_uses(&self) {
        if thread().notes_uses.load(Relaxed) {
            thread().notes_uses.store(false, Relaxed);
            let own = thread().number();
            self.close_unused(|(user, _)| *user != own);
        }
    }

    /// All calls have ended, but that of the running thread, which is the last one.
    pub fn end_all_uses(&self) {
        self.close_unused(|_| false);
    }

    fn close_unused(&self, goes_on: impl FnMut(&(u64, u64)) -> bool) {
        let mut uses = self.uses.lock();
        uses.notes.retain(goes_on);
        let left = core::mem::take(&mut uses.left);
        let (still, free): (Vec<_>, Vec<_>) = left.into_iter().partition(|description| uses.others_use(description));
        uses.left = still;
        drop(uses);
        free.into_iter().for_each(Description::close);
    }

    /// Whether a description that this test is true of is open, left to who uses it, or not let go yet.
    pub fn has_open(&self, test: impl Fn(&Description) -> bool) -> bool {
        let descriptors = self.descriptors.lock();
        let uses = self.uses.lock();
        descriptors.iter().any(|(_, description)| test(description)) || uses.left.iter().chain(&uses.leaving).any(test)
    }
}
