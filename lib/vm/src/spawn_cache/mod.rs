//! Entry of the spawn cache: what the parts of a dead child are worth for the next child of the same process.
//!
//! Pure. An entry is a recycled environment, the memory retained in it, and the pages that its program was given. It is
//! in one of five states: see [`State`]. The caller reads what the kernel exposes and acts; this module decides.
//!
//! Invariants:
//! - The next child finds nothing of the last one: an entry becomes ready only if it is exactly as expected.
//! - An entry that is not as expected is discarded. Only entries of leaf tables are cleared, which every child changes.
//! - A discarded entry never becomes ready again.

mod retained_space;
#[cfg(test)]
mod tests;

pub use retained_space::{ChildSpace, ProgramTables, RetainedSpace, SharedMappings};

use abi::PageNumber;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// State of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There is no environment.
    #[default]
    Empty,
    /// No program has begun in its environment; the parent maps what the child will find.
    Ready,
    /// A child has it.
    Running,
    /// The child has ended, and its parent has not inspected what it left.
    Dirty,
    /// It was not as expected, or it goes with its child: what is left of it is destroyed.
    Discarded,
}

/// What of a dead child's memory may serve the next child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// All that its parent mapped: the child changed leaf tables only.
    Memory,
    /// The leaf table that maps the environment area, and nothing else.
    Area,
}

/// What an environment is made of, as far as an outsider can change it: as expected, or as observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Makeup {
    /// Edit counters of its access list. A principal on the list of the last child, such as the user that this child
    /// changed to, would be on that of the next (doc/decision/0022).
    pub list_edits: (u64, u64),
    /// Pages under that list.
    pub pages: u64,
    /// How often its public page is mapped.
    pub public: u64,
    /// How often its mailbox is mapped.
    pub mailbox: u64,
    /// Whether the mailbox is its parent's page.
    pub owns_mailbox: bool,
    /// Whether each private page is mapped at its place and nowhere else.
    pub private_as_made: bool,
}

/// Pages under the list of an environment that its program was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// For tables.
    Tables,
    /// Copies of pages of the parent's program.
    Copies,
    /// What the program of the child begins with.
    Program,
}

/// An entry. `T` is the record of a program's tables.
#[derive(Clone, Debug, Default)]
pub struct Entry<T> {
    state: State,
    list_edits: (u64, u64),
    /// Pages under its list when it was made.
    pages: u64,
    /// How many children it served.
    served: u64,
    /// What is mapped in its address space.
    pub space: RetainedSpace<T>,
    given: [Vec<PageNumber>; 3],
    spare: [Vec<PageNumber>; 3],
}

impl<T: ProgramTables> Entry<T> {
    /// An environment that was just made, with so many pages under its list.
    #[must_use]
    pub fn made(list_edits: (u64, u64), pages: u64, space: RetainedSpace<T>) -> Self {
        Self { state: State::Ready, list_edits, pages, space, ..Self::default() }
    }

    /// One that goes with its child.
    #[must_use]
    pub fn discarded() -> Self {
        Self { state: State::Discarded, ..Self::default() }
    }

    /// Its state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether a child before the last one had it.
    pub const fn has_served(&self) -> bool {
        self.served > 0
    }

    /// Discards it: all that is recorded of it goes.
    pub fn discard(&mut self) {
        *self = Self::discarded();
    }

    /// A child begins. An entry that is not ready is discarded, and goes with this child.
    pub fn begin(&mut self, space: &impl ChildSpace<Tables = T>) {
        match self.state {
            State::Ready => {
                self.space.note(space);
                self.state = State::Running;
            }
            _ => self.discard(),
        }
    }

    /// The child has ended.
    pub fn end(&mut self) {
        match self.state {
            State::Running => self.state = State::Dirty,
            State::Dirty => {}
            _ => self.discard(),
        }
    }

    /// What of its memory may stay, if the child has `executed` a program.
    ///
    /// # Errors
    /// `EBUSY` where its child has not ended, or it is discarded.
    pub fn inspect(&self, space: &impl ChildSpace<Tables = T>, executed: bool) -> Result<Reuse> {
        if self.state != State::Dirty {
            return Err(Errno::EBUSY);
        }
        // Of a program that the child mapped itself nothing is expected.
        let is_own_program = executed && !self.is_prepared();
        Ok(if is_own_program || !self.space.has_expected_tables(space) { Reuse::Area } else { Reuse::Memory })
    }

    /// The environment has another number and key. The new name stands on its list, in the place of the old one.
    pub const fn renew(&mut self) {
        self.served += 1;
        self.list_edits.1 += 1;
    }

    /// Clears what the child left in its memory, once the environment is another one.
    ///
    /// # Errors
    /// The kernel's refusals, and `EFAULT` where more changed than [`Self::inspect`] saw: then it is discarded.
    pub fn clear(&mut self, space: &mut impl ChildSpace<Tables = T>, reuse: Reuse) -> Result<Cleared> {
        if self.state != State::Dirty {
            return Err(Errno::EBUSY);
        }
        let cleared = match reuse {
            Reuse::Memory => self.space.clear_leaves(space).map(|unmapped| Cleared { unmapped: Some(unmapped) }),
            Reuse::Area => self.space.drop_all(space).map(|tables| {
                self.given[Given::Tables as usize].extend(tables);
                Cleared { unmapped: None }
            }),
        };
        cleared.inspect_err(|_| self.discard())
    }

    /// Of the pages that its program was given, those are for the next one that `is_free`, which is also told whether
    /// the page is still mapped in the environment.
    pub fn reclaim(&mut self, kind: Given, cleared: &Cleared, is_free: impl Fn(PageNumber, bool) -> bool) {
        let is_mapped = |page: &PageNumber| cleared.unmapped.as_ref().is_some_and(|gone| !gone.contains(page));
        let (spare, given) = (&mut self.spare[kind as usize], &mut self.given[kind as usize]);
        spare.reserve(given.len());
        spare.extend(given.drain(..).filter(|page| is_free(*page, is_mapped(page))));
    }

    /// What it must be made of to be ready. `mailbox` is the page of its mailbox.
    pub fn expected(&mut self, mailbox: PageNumber) -> Makeup {
        let spare: usize = self.spare.iter().map(Vec::len).sum();
        Makeup {
            list_edits: self.list_edits,
            pages: self.pages + (self.space.tables() + spare) as u64,
            public: 2,
            mailbox: 1 + self.space.maps(mailbox),
            owns_mailbox: true,
            private_as_made: true,
        }
    }

    /// A dirty entry becomes ready if it is made of what is expected, and is discarded else. Whether it is ready.
    pub fn accept(&mut self, observed: &Makeup, mailbox: PageNumber) -> bool {
        if self.state == State::Dirty && *observed == self.expected(mailbox) {
            self.state = State::Ready;
            return true;
        }
        self.discard();
        false
    }

    /// Whether its child was given the program that it executes.
    pub const fn is_prepared(&self) -> bool {
        !self.given[Given::Program as usize].is_empty()
    }

    /// The pages that its program was given.
    pub const fn given(&self, kind: Given) -> &Vec<PageNumber> {
        &self.given[kind as usize]
    }

    /// Records pages that its program is given.
    pub fn give(&mut self, kind: Given, pages: &[PageNumber]) {
        pages.clone_into(&mut self.given[kind as usize]);
    }

    /// The same of the pages that the one before had.
    pub fn give_again(&mut self, kind: Given) {
        self.given[kind as usize] = core::mem::take(&mut self.spare[kind as usize]);
    }

    /// The pages for its program that the one before had.
    pub const fn spare(&mut self, kind: Given) -> &mut Vec<PageNumber> {
        &mut self.spare[kind as usize]
    }

    /// Its memory, and the pages for further tables.
    pub const fn space_and_spare(&mut self) -> (&mut RetainedSpace<T>, &mut Vec<PageNumber>) {
        (&mut self.space, &mut self.spare[Given::Tables as usize])
    }

    /// The program is not there: its pages are spare again.
    pub fn take_back_program(&mut self) {
        let [.., given] = &mut self.given;
        self.spare[Given::Program as usize].append(given);
    }

    /// Pages that are spare, which it has no more.
    pub fn take_spare(&mut self) -> [Vec<PageNumber>; 3] {
        core::mem::take(&mut self.spare)
    }
}

/// What is no more mapped in memory that was cleared.
#[derive(Debug)]
pub struct Cleared {
    /// Pages of the program that are not mapped; nothing where none is.
    unmapped: Option<Vec<PageNumber>>,
}

impl Given {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tables, Self::Copies, Self::Program];
}
