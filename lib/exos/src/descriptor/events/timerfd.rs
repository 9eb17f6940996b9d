//! `timerfd`: a descriptor that tells how often a time has come (timerfd_create(2)).
//!
//! Nothing runs when it expires: who reads counts the periods that have passed, and who waits has a term over the
//! clock.

use super::shared_counter::{SharedCounter, read_number};
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::wait;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::Result;
use runtime::exposed::PageStamp;
use runtime::predicate::{Operator, Term, word};
use runtime::{PageNumber, clock};

/// Words of the cell: the next time, nanoseconds since boot, or 0; the period, or 0; how often it was set.
const NEXT: usize = 0;
const PERIOD: usize = 1;
const SETTINGS: usize = 2;

/// The timer.
#[derive(Debug)]
pub struct Timer {
    cell: SharedCounter,
    /// Its clock, as in `clock_gettime`.
    pub clock: u64,
}

/// When a timer expires: nanoseconds from now, and between times; 0: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// From now to the next time.
    pub next: u64,
    /// Between two times.
    pub period: u64,
}

impl Timer {
    /// One that is not set.
    pub fn create(clock: u64) -> Result<Self> {
        Ok(Self { cell: SharedCounter::create()?, clock })
    }

    /// One that lies in a page.
    pub(crate) fn open(page: PageStamp, clock: u64) -> Result<Self> {
        Ok(Self { cell: SharedCounter::open(page)?, clock })
    }

    /// The page that it lies in.
    pub(crate) fn page(&self) -> PageStamp {
        PageStamp::of(PageNumber(self.cell.number()))
    }

    /// What is set.
    pub fn setting(&self) -> Setting {
        let (next, period) = (self.cell.word(NEXT).load(Acquire), self.cell.word(PERIOD).load(Acquire));
        let now = clock::now();
        let next = match next {
            0 => 0,
            next if next > now => next - now,
            next if period > 0 => period - (now - next) % period,
            _ => 0,
        };
        Setting { next, period }
    }

    /// Sets it: `next` is nanoseconds since boot; 0: never.
    pub fn set(&self, next: u64, period: u64) {
        self.cell.word(PERIOD).store(period, SeqCst);
        self.cell.word(NEXT).store(next, SeqCst);
        self.cell.word(SETTINGS).fetch_add(1, SeqCst);
        wait::kick_idle();
    }

    /// How often it has expired since it was asked last.
    fn take(&self) -> Option<u64> {
        let (now, period) = (clock::now(), self.cell.word(PERIOD).load(Acquire));
        let times = |next: u64| (now - next).checked_div(period).unwrap_or(0) + 1;
        let after = |next: u64| if period > 0 { next + times(next) * period } else { 0 };
        let change = |next: u64| (next != 0 && next <= now).then(|| after(next));
        let before = self.cell.word(NEXT).fetch_update(SeqCst, Acquire, change).ok()?;
        Some(times(before))
    }
}

impl FileOps for Timer {
    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        read_number(self, description, (to, count), || self.take())
    }

    fn is_ready(&self, event: Event) -> bool {
        let next = self.cell.word(NEXT).load(Acquire);
        event == Event::Readable && next != 0 && next <= clock::now()
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        if event == Event::Writable {
            return Vec::new();
        }
        let settings = self.cell.word(SETTINGS);
        let mut terms = Vec::from([word(settings, Operator::NotEqual, settings.load(Acquire))]);
        let next = self.cell.word(NEXT).load(Acquire);
        terms.extend((next != 0).then(|| runtime::predicate::clock(next)));
        terms
    }

    fn filled_at(&self) -> u64 {
        clock::ticks_at(self.cell.word(NEXT).load(Acquire))
    }

    /// Expirations that come before a read are no news.
    fn event_sequence(&self, event: Event) -> u64 {
        if event == Event::Readable { self.cell.word(NEXT).load(Acquire) } else { 0 }
    }

    fn edge_terms(&self, _: Event) -> Vec<Term> {
        let next = self.cell.word(NEXT).load(Acquire);
        let words = [SETTINGS, NEXT].map(|at| self.cell.word(at));
        let mut terms = Vec::from(words.map(|at| word(at, Operator::NotEqual, at.load(Acquire))));
        terms.extend((next > clock::now()).then(|| runtime::predicate::clock(next)));
        terms
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
        String::from("anon_inode:[timerfd]")
    }
}
