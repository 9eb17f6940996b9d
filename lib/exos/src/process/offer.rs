//! A program that a child is likely to execute, laid out by its parent where the child will find it.
//!
//! Who forks knows not yet what its child will do. But mostly it executes what the child before it did: so the tables of that program
//! (`prepared`) wait aside in the child's address space, at [`OFFER_ASIDE`], and `execve` has them change places with those of the
//! child's own program, which wait for the next child. Left to do is to fill the pages that the program may write. A child that executes
//! something else lets go of it, and one that sleeps again and again of whatever waits. Holds always: nothing of an offer is used unless the file says of itself
//! what it said when the offer was made, and has the same pages where programs touch it.

use super::children::public;
use super::exec::{Request, find};
use super::prepared::Prepared;
use super::record::Process;
use crate::errno::Result;
use crate::layout::{EXECUTOR_ASIDE, OFFER_ASIDE};
use crate::memory::space::Pages;
use crate::user_memory::current::process;
use crate::user_memory::tables::Tables;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How often a child sleeps before it lets go of what waits: one that does so more often is there for longer than a call.
const SLEEPS: u32 = 3;

/// What waits in the address space of a child.
#[derive(Debug, Default)]
pub struct Aside {
    /// What it may execute.
    offer: Option<Box<Offer>>,
    /// The tables of the program that it began with, which are empty.
    left: Tables,
    /// How often it has slept.
    sleeps: u32,
}

/// What a child may execute.
#[derive(Debug)]
pub struct Offer {
    prepared: Box<Prepared>,
    /// Its tables.
    tables: Tables,
}

impl Aside {
    /// A program that a child may execute, with these tables.
    pub fn offering(prepared: Box<Prepared>, tables: Tables) -> Self {
        Self { offer: Some(Box::new(Offer { prepared, tables })), ..Self::default() }
    }

    /// The address of its window.
    pub fn window_address(&self) -> Option<u64> {
        self.offer.as_ref().and_then(|offer| offer.prepared.window_address())
    }

    fn let_go(self, process: &Process) {
        let Self { offer, mut left, .. } = self;
        process.with_memory(|_, pages| {
            let editor = pages.editor();
            pages.release(&left.unlink_aside(&editor, EXECUTOR_ASIDE).unwrap_or_default());
        });
        offer.into_iter().for_each(|offer| offer.let_go(process));
    }
}

impl Offer {
    /// The program comes into its place, and begins as its file says.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn accept(self) -> Result<Box<Prepared>> {
        let Self { prepared, tables } = self;
        let process = process();
        let left = process.with_memory(|_, pages| {
            let editor = pages.editor();
            let left = core::mem::replace(pages.tables, tables);
            left.step_aside(&editor, EXECUTOR_ASIDE)?;
            pages.tables.step_forward(&editor, OFFER_ASIDE)?;
            Result::Ok(left)
        })?;
        process.aside.lock().left = left;
        prepared.fill_in_place();
        // It stays mapped until something else comes there: to take it out costs more than it is worth.
        forget(process, &prepared);
        Ok(prepared)
    }

    /// It is not wanted: its tables go, and its pages.
    fn let_go(mut self, process: &Process) {
        process.with_memory(|_, pages| {
            let editor = pages.editor();
            let mut free = self.tables.unlink_aside(&editor, OFFER_ASIDE).unwrap_or_default();
            free.extend(self.prepared.numbers());
            pages.release(&free);
        });
        self.prepared.look_away(&mut process.windows.lock());
    }
}

impl Process {
    /// What its parent has laid out, if that is what is to be executed. If not it goes.
    pub fn take_offer(&self, request: &Request) -> Option<Offer> {
        let offer = self.aside.lock().offer.take()?;
        let is_it = request.is_of(&offer.prepared) && self.memory.lock().tables.can_move();
        if is_it && request.is_current() {
            return Some(*offer);
        }
        offer.let_go(self);
        None
    }

    /// Lets go of whatever waits.
    pub fn clear_aside(&self) {
        let aside = core::mem::take(&mut *self.aside.lock());
        aside.let_go(self);
    }

    /// The same of who goes to sleep, if that was often.
    pub fn sleep_with_aside(&self) {
        let mut aside = self.aside.lock();
        if aside.offer.is_none() && aside.left.is_empty() {
            return;
        }
        aside.sleeps += 1;
        if aside.sleeps > SLEEPS {
            drop(aside);
            self.clear_aside();
        }
    }
}

/// What a child says of a program that it executed and that nobody had laid out: words of its public page.
#[derive(Debug, PartialEq, Eq)]
pub struct Hint {
    path: Vec<u8>,
    stack: u64,
}

impl Hint {
    /// What a child says, which can be anything.
    pub fn read(words: &[AtomicU64]) -> Option<Self> {
        let [length, stack] = [0, 1].map(|index| words[index].load(Acquire));
        let bytes = words[2..2 + public::PROGRAM_BYTES / 8].iter().flat_map(|word| word.load(Acquire).to_le_bytes());
        let path = bytes.take(usize::try_from(length).ok()?).collect::<Vec<u8>>();
        (path.starts_with(b"/") && path.len() as u64 == length).then_some(Self { path, stack })
    }

    /// Says it.
    pub fn write(path: &[u8], stack: u64) {
        if path.len() > public::PROGRAM_BYTES {
            return;
        }
        let process = process();
        for (index, bytes) in path.chunks(8).enumerate() {
            let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            process.public_word(public::PROGRAM + 2 + index).store(word, Relaxed);
        }
        process.public_word(public::PROGRAM + 1).store(stack, Relaxed);
        process.public_word(public::PROGRAM).store(path.len() as u64, Release);
    }

    /// That program, as a child is to find it. Nothing where it cannot be.
    pub fn prepare(&self) -> Option<Box<Prepared>> {
        let plan = find(&self.path)?;
        let prepared = Prepared::new(&plan, self.stack);
        plan.close();
        prepared.map(Box::new)
    }
}

/// The window of a program is not used any more.
fn forget(process: &Process, prepared: &Prepared) {
    let mut windows = process.windows.lock();
    prepared.window_address().iter().for_each(|address| windows.forget(*address));
}
