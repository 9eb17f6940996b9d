//! `signalfd`: signals that are read like bytes (signalfd(2)).
//!
//! It is a set of signals and nothing more: a reader gets what is pending for it and its process, even if another
//! process made the descriptor.

use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::usercopy;
use crate::signal;
use crate::signal::{signal_state, thread_signals};
use crate::wait;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{Operator, Term, word_masked};
use unix_core::signal::frame;

/// The signals.
#[derive(Debug)]
pub struct Signals {
    set: AtomicU64,
}

impl Signals {
    /// A descriptor of these.
    pub const fn new(set: u64) -> Self {
        Self { set: AtomicU64::new(set) }
    }

    /// Of others from now on.
    pub fn change(&self, set: u64) {
        self.set.store(set, SeqCst);
    }

    fn waiting(&self) -> u64 {
        signal::waiting() & self.set.load(Acquire)
    }
}

impl FileOps for Signals {
    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        let room = count / frame::DESCRIPTOR_BYTES;
        if room == 0 {
            return Err(Errno::EINVAL);
        }
        usercopy::prepare(to, room.min(unix_core::signal::set::COUNT.into()) * frame::DESCRIPTOR_BYTES, true)?;
        let mut done = 0;
        while done < room {
            match signal::take_wanted(self.set.load(Acquire)) {
                Some(information) => {
                    usercopy::write(
                        to.saturating_add(done * frame::DESCRIPTOR_BYTES),
                        &frame::descriptor_bytes(&information),
                    )?;
                    done += 1;
                }
                None if done > 0 => break,
                None if description.is_nonblocking() => return Err(Errno::EAGAIN),
                None => {
                    wait::wait(&self.wait_terms(Event::Readable), None)?;
                }
            }
        }
        Ok(done * frame::DESCRIPTOR_BYTES)
    }

    fn is_ready(&self, event: Event) -> bool {
        event == Event::Readable && self.waiting() != 0
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        self.differs(event, 0)
    }

    fn event_sequence(&self, event: Event) -> u64 {
        if event == Event::Readable { self.waiting() } else { 0 }
    }

    fn edge_terms(&self, event: Event) -> Vec<Term> {
        self.differs(event, self.waiting())
    }

    fn status(&self) -> (u32, u64) {
        (0o600, 0)
    }

    fn name(&self) -> String {
        String::from("anon_inode:[signalfd]")
    }
}

impl Signals {
    /// True when what waits is no longer this.
    fn differs(&self, event: Event, now: u64) -> Vec<Term> {
        if event != Event::Readable {
            return Vec::new();
        }
        let set = self.set.load(Acquire);
        let words = [signal_state().page.signals(), thread_signals().pending()];
        words
            .into_iter()
            .map(|word| word_masked(word, set, Operator::NotEqual, word.load(Acquire) & set & now))
            .collect()
    }
}
