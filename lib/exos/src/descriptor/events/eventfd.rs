//! `eventfd`: a counter that is read as a whole, or by ones (eventfd(2)).

use super::shared_counter::{BYTES, SharedCounter, read_number};
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::usercopy;
use crate::wait::{self, bells};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use internet::page::watch;
use linux_abi::errno::{Errno, Result};
use runtime::exposed::PageStamp;
use runtime::predicate::{Operator, Term, word};
use runtime::{PageNumber, clock};

/// Words of the cell: the count; how often it was added to; how often it was read; when it became one to read; the
/// bells that sleepers ask for.
const COUNT: usize = 0;
const ADDED: usize = 1;
const TAKEN: usize = 2;
const FILLED_AT: usize = 3;
const WATCH: usize = 4;
/// The highest count.
const HIGHEST: u64 = u64::MAX - 1;

/// The counter.
#[derive(Debug)]
pub struct EventCounter {
    cell: SharedCounter,
    /// Whether a read takes one, and not all.
    pub(crate) by_ones: bool,
}

impl EventCounter {
    /// One that begins at `count`.
    pub fn create(count: u64, by_ones: bool) -> Result<Self> {
        let cell = SharedCounter::create()?;
        cell.word(COUNT).store(count, SeqCst);
        Ok(Self { cell, by_ones })
    }

    /// One that lies in a page.
    pub(crate) fn open(page: PageStamp, by_ones: bool) -> Result<Self> {
        Ok(Self { cell: SharedCounter::open(page)?, by_ones })
    }

    /// The page that it lies in.
    pub(crate) fn page(&self) -> PageStamp {
        PageStamp::of(PageNumber(self.cell.number()))
    }

    fn take(&self) -> Option<u64> {
        let taken = |count: u64| if self.by_ones { count.min(1) } else { count };
        let change = |count: u64| (count > 0).then(|| count - taken(count));
        let before = self.cell.word(COUNT).fetch_update(SeqCst, Acquire, change).ok()?;
        self.changed(TAKEN);
        Some(taken(before))
    }

    fn add(&self, more: u64) -> bool {
        let change = |count: u64| count.checked_add(more).filter(|sum| *sum <= HIGHEST);
        if self.cell.word(COUNT).load(Relaxed) == 0 {
            self.cell.word(FILLED_AT).store(clock::ticks(), Relaxed);
        }
        let added = self.cell.word(COUNT).fetch_update(SeqCst, Acquire, change).is_ok();
        if added {
            self.changed(ADDED);
        }
        added
    }

    fn changed(&self, stamp: usize) {
        self.cell.word(stamp).fetch_add(1, SeqCst);
        bells::tell(self.cell.word(WATCH));
        wait::kick_idle();
    }

    fn write_number(&self, description: &OpenFile, more: u64) -> Result<u64> {
        if more > HIGHEST {
            return Err(Errno::EINVAL);
        }
        while !self.add(more) {
            if description.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            wait::wait(&[at_most(&self.cell, HIGHEST - more)], None)?;
        }
        Ok(BYTES)
    }
}

impl FileOps for EventCounter {
    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        read_number(self, description, (to, count), || self.take())
    }

    fn write(&self, description: &OpenFile, from: u64, count: u64) -> Result<u64> {
        if count < BYTES {
            return Err(Errno::EINVAL);
        }
        self.write_number(description, usercopy::read_word(from)?)
    }

    fn write_bytes(&self, description: &OpenFile, bytes: &[u8]) -> Result<u64> {
        let word = bytes.first_chunk().ok_or(Errno::EINVAL)?;
        self.write_number(description, u64::from_le_bytes(*word))
    }

    fn is_ready(&self, event: Event) -> bool {
        let count = self.cell.word(COUNT).load(Acquire);
        match event {
            Event::Readable => count > 0,
            Event::Writable => count < HIGHEST,
        }
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        Vec::from([match event {
            Event::Readable => word(self.cell.word(COUNT), Operator::NotEqual, 0),
            Event::Writable => at_most(&self.cell, HIGHEST - 1),
        }])
    }

    fn filled_at(&self) -> u64 {
        self.cell.word(FILLED_AT).load(Relaxed)
    }

    fn counts_events(&self) -> bool {
        true
    }

    fn event_sequence(&self, event: Event) -> u64 {
        self.cell.word(stamp_of(event)).load(Acquire)
    }

    fn edge_terms(&self, event: Event) -> Vec<Term> {
        let word_of = self.cell.word(stamp_of(event));
        Vec::from([word(word_of, Operator::NotEqual, word_of.load(Acquire))])
    }

    fn ask_for_bell(&self, asked: u64, bell: u32, each: bool) -> Option<u64> {
        let can_ring = !each && asked & watch::SENT != 0;
        can_ring.then(|| bells::ask(self.cell.word(WATCH), bell)).map(|()| 0)
    }

    fn gone(&self) {
        self.cell.discard();
    }

    fn pages(&self) -> Vec<PageNumber> {
        Vec::from([PageNumber(self.cell.number())])
    }

    fn status(&self) -> (u32, u64) {
        (0o600, self.cell.number())
    }

    fn name(&self) -> String {
        String::from("anon_inode:[eventfd]")
    }
}

const fn stamp_of(event: Event) -> usize {
    match event {
        Event::Readable => ADDED,
        Event::Writable => TAKEN,
    }
}

fn at_most(cell: &SharedCounter, count: u64) -> Term {
    word(cell.word(COUNT), Operator::LessOrEqual, count)
}
