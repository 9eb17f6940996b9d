//! The children of a process: what it keeps of each until it was waited for.

use super::environment::{EnvironmentRef, was_killed_by_session};
use super::spawn_cache::spare_environment::{EnvironmentParts, SpareEnvironment};
use crate::hw::mapping::{Mapping, PAGE_WORDS};
use crate::process::current::process;
use crate::upcalls::ChildInfo;
use abi::area::PUBLIC_STATUS;
use abi::environment::State;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use linux_raw_sys::general as linux;
use runtime::PageNumber;
use runtime::predicate::{Operator, Term, word};
use unix_core::process::exit_status::{Change, DESTROYED, Status};
use unix_core::process::public_page::{self as public, STATUS_WORD};
use unix_core::process::rusage::Rusage;
use unix_core::signal::pending::PendingSignals;
use unix_core::signal::set::bit;

/// A child.
#[derive(Clone, Debug)]
pub struct Child {
    /// Its environment.
    pub made: EnvironmentRef,
    /// Its public page and its mailbox, mapped here.
    pub public: Mapping,
    /// What else it was made of. Nothing where no other child is made of that: all this is copied for each further
    /// child.
    pub parts: Option<Box<EnvironmentParts>>,
    /// Pages of this process that hold ExOS's data for it.
    pub heap_pages: Vec<PageNumber>,
    /// Its change that was told last.
    pub last_reported: u64,
    /// Whether another process made it, which has ended: the session takes back what it was made of.
    pub is_adopted: bool,
    /// Whether it has ended and only what it is asked about is left of it: see `remnant`.
    pub is_remnant: bool,
}

/// All children that were not waited for.
#[derive(Clone, Debug, Default)]
pub struct Children {
    /// In the order of their making.
    pub all: Vec<Child>,
    /// What those used that were waited for.
    pub usage: Rusage,
}

impl Child {
    /// Its number.
    pub const fn number(&self) -> u64 {
        self.made.number.0
    }

    /// What lies in its mailbox.
    fn letters(&self) -> &'static [AtomicU64] {
        &self.public.words()[PAGE_WORDS..]
    }

    /// Its process group: the word in its mailbox that it and its parent write.
    pub fn group(&self) -> u64 {
        self.letters()[crate::signal::GROUP].load(Acquire)
    }

    /// Puts it into a process group. One that had ended when it was adopted stays where it was.
    pub fn set_group(&self, group: u64) {
        if self.public.is_writable() {
            self.letters()[crate::signal::GROUP].store(group, Release);
        }
    }

    /// Its session, as it says.
    pub fn session(&self) -> u64 {
        self.public.words()[public::SESSION].load(Acquire)
    }

    /// Whether it runs another program than its parent's.
    pub fn has_executed(&self) -> bool {
        self.public.words()[public::EXECUTED].load(Acquire) != 0
    }

    /// The change that came last, if there was one.
    pub fn last_change(&self) -> Option<Change> {
        Change::from_word(self.public.words()[public::CHANGE].load(Acquire) as u32)
    }

    /// A change that is no end and was not told yet, as its word. A process that is being killed reports no stop any
    /// more.
    pub fn change(&self) -> Option<(u64, Change)> {
        let word = self.public.words()[public::CHANGE].load(Acquire);
        let change = Change::from_word(word as u32)?;
        let is_news = word != self.last_reported && !(matches!(change, Change::Stopped(_)) && self.is_being_killed());
        is_news.then_some((word, change))
    }

    fn is_being_killed(&self) -> bool {
        PendingSignals::new(self.letters()).pending().load(Acquire) & bit(linux::SIGKILL) != 0
    }

    /// How it ended, if it did. Its words are read when it can say nothing more: one that said how it ends and died
    /// between two looks would seem to have been destroyed.
    pub fn status(&self) -> Option<Status> {
        if !self.made.is_over() {
            return None;
        }
        if was_killed_by_session(self.made.number) {
            return Some(DESTROYED);
        }
        let by_runtime = self.public.words()[(PUBLIC_STATUS / 8) as usize].load(Acquire);
        Some(match Status::from_word(self.public.words()[STATUS_WORD].load(Acquire)) {
            Some(status) => status,
            None if by_runtime != 0 => Status::Exited((by_runtime - 1) as u8),
            None => DESTROYED,
        })
    }

    /// Whether it ended while this process ignored SIGCHLD: then it is gone without being waited for.
    pub fn is_unawaited(&self) -> bool {
        Status::is_unawaited(self.public.words()[STATUS_WORD].load(Acquire)) && self.made.is_over()
    }

    /// What becomes true when it is gone, while it has said how it ends and has only to die.
    pub fn death(&self) -> Option<Term> {
        Status::from_word(self.public.words()[STATUS_WORD].load(Acquire))?;
        let info = runtime::exposed::environment(self.made.number).filter(|info| info.alive())?;
        Some(word(info.state_word(), Operator::NotEqual, State::Alive as u64))
    }

    /// What becomes true when it needs nothing of its parent any more, while it does.
    pub fn dependence(&self) -> Option<[Term; 2]> {
        let begun = &self.public.words()[public::BEGUN];
        let info = runtime::exposed::environment(self.made.number).filter(|info| info.alive())?;
        let over = word(info.state_word(), Operator::NotEqual, State::Alive as u64);
        (begun.load(Acquire) == 0).then(|| [over, word(begun, Operator::NotEqual, 0)])
    }

    /// What it and its own children used.
    pub fn usage(&self) -> Rusage {
        let own = runtime::exposed::environment(self.made.number).map_or(0, |info| info.time.load(Acquire));
        let word = |index: usize| self.public.words()[public::USAGE + index].load(Acquire);
        Rusage::from_words(core::array::from_fn(word)).with(Rusage { time: own, ..Rusage::default() })
    }

    /// Tells it that its parent ends, if it wants to know.
    pub fn tell_of_parents_end(&self) {
        let session = crate::process::current::process().session_key;
        let signal = self.public.words()[public::DEATH_SIGNAL].load(Acquire) as u32;
        let information =
            unix_core::signal::pending::from_user(signal, crate::process::current::process().attributes.sender());
        if signal != 0 {
            let _ = crate::signal::send(session, self.made.number, self.public.pages()[1], &information);
        }
        if signal == linux::SIGKILL {
            let server = crate::process::current::process().server;
            let _ = crate::server::client::signal(server, self.number(), &information);
        }
    }

    /// Takes back what it was made of, and notes which pages it wrote and touched: the next child will do so, too.
    pub fn reap(self) {
        let process = crate::process::current::process();
        if self.is_adopted {
            return process.mappings.lock().close(&self.public);
        }
        let told = |first: usize, words: usize| {
            let words = &self.public.words()[first..first + words];
            words.iter().rev().map(|word| word.load(Acquire)).filter(|address| *address != 0)
        };
        {
            let space = &mut process.memory.lock().space;
            told(public::WRITTEN, public::WRITTEN_WORDS).for_each(|address| space.note_written(address));
            told(public::TOUCHED, public::TOUCHED_WORDS).for_each(|address| space.note_touched(address));
        }
        if process.can_wait(&self) { process.defer_first(self) } else { self.recycle() }
    }

    /// Its parts, once no thread runs there any more.
    pub(super) fn into_ready(self) -> SpareEnvironment {
        let mut parts = self.parts.unwrap_or_else(EnvironmentParts::discarded);
        parts.entry.end();
        SpareEnvironment { made: self.made, public: self.public, parts }
    }

    /// Takes back what it was made of.
    pub fn recycle(mut self) {
        let process = crate::process::current::process();
        let copies = core::mem::take(&mut self.heap_pages);
        process.retain_parts(self, &copies);
        process.keep_copies(&copies);
        crate::budget::give_back();
    }
}

/// A child of the running process, by its number.
pub fn find(number: u64) -> Option<ChildInfo> {
    let children = process().children.lock();
    let child = children.all.iter().find(|child| child.number() == number)?;
    Some(ChildInfo { is_unawaited: child.is_unawaited(), dependence: child.dependence() })
}
