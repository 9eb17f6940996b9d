//! What is under way, one bounded step at a time.
//!
//! Installing: check and intern each conjunction, compare it with the parent, search for overlaps. Then for each
//! conjunction find its place, grow a table if it needs one, build, attach, emit code, publish. Removing: for each
//! conjunction find it, cut it out, emit code, publish, release. A refused installation continues as the removal of
//! what was done. Code that runs never changes under it: new pieces are committed first, then the words that lead to
//! them are set, then old pieces are given back.

use crate::classifier::{Classifier, FilterId, Progress, Stage};
use crate::condition::Condition;
use crate::edges::{Edges, Growth};
use crate::find::{Cursor, Fuel, Place};
use crate::link::Attachment;
use crate::overlap::Witness;
use crate::overlap::pair::Pair;
use crate::overlap::search::Search;
use crate::publish::Emission;
use crate::refusal::Refusal;
use crate::unlink::Severed;

/// Units of work in one step; each is at most some tens of instructions.
const STEP: u32 = 160;
/// Units that an insertion may spend on looking for overlaps.
const SEARCH_BUDGET: u32 = 1 << 22;

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is under way.
    Idle,
    /// The entry code waits to be committed.
    Boot,
    /// Check the next conjunction of the incoming filter.
    Check,
    /// Intern the shape of the one just checked.
    Intern,
    /// Compute its rank.
    Rate,
    /// Look for what the next conjunction is contained in.
    Contain,
    /// Look for a conjunction of another owner that might overlap.
    Search,
    /// Decide about the pair found.
    Compare,
    /// Find the place of the next conjunction.
    Find,
    /// Build what its place lacks.
    Build(Place),
    /// Fill a larger table.
    Grow,
    /// Emit the pieces that changed, then publish.
    Emit,
    /// Find the next conjunction to remove.
    Locate,
    /// Fill a smaller table after a removal.
    Shrink,
    /// Give back what a conjunction used.
    Release,
}

/// What each conjunction must be contained in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    Nothing,
    Condition(Condition),
    /// One of the conjunctions of a filter, from this one on.
    Conjunctions(u32),
}

/// A table being replaced, and the one it replaces until that is published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regrowth {
    pub(crate) branch: u32,
    pub(crate) growth: Growth,
    pub(crate) old: Option<Edges>,
}

/// The work under way. Large, so it lies in the storage.
#[derive(Debug)]
pub struct Job {
    pub(crate) phase: Phase,
    pub(crate) filter: u32,
    pub(crate) conjunction: u32,
    /// The number and the first incoming atom of the conjunction to check.
    pub(crate) number: usize,
    pub(crate) atom: usize,
    /// The condition to intern next.
    pub(crate) cell: u32,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) attachment: Option<Attachment>,
    /// Whether the attachment waits until its code is published.
    pub(crate) deferred: bool,
    pub(crate) regrowth: Option<Regrowth>,
    pub(crate) severed: Severed,
    pub(crate) emission: Emission,
    pub(crate) pair: Pair,
    pub(crate) search: Search,
    pub(crate) searching: bool,
    /// Units left for looking for overlaps.
    pub(crate) budget: u32,
    pub(crate) against: u32,
    pub(crate) bound: Bound,
    pub(crate) witness: Witness,
    pub(crate) refusal: Option<Refusal>,
}

impl Job {
    /// Nothing.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "large: to be made where it stays")]
    pub fn new() -> Self {
        Self {
            phase: Phase::Idle,
            filter: 0,
            conjunction: 0,
            number: 0,
            atom: 0,
            cell: 0,
            cursor: None,
            attachment: None,
            deferred: false,
            regrowth: None,
            severed: Severed::Nothing,
            emission: Emission::EMPTY,
            pair: Pair::EMPTY,
            search: Search::EMPTY,
            searching: false,
            budget: 0,
            against: 0,
            bound: Bound::Nothing,
            witness: Witness::EMPTY,
            refusal: None,
        }
    }

    /// Begins with a filter. What the fields held before does not matter any more.
    pub(crate) fn begin(&mut self, filter: u32, phase: Phase) {
        self.phase = phase;
        self.filter = filter;
        (self.conjunction, self.number, self.atom, self.cell) = (0, 0, 0, 0);
        (self.cursor, self.attachment, self.regrowth, self.refusal) = (None, None, None, None);
        (self.severed, self.searching, self.deferred) = (Severed::Nothing, false, false);
        self.budget = SEARCH_BUDGET;
        self.emission.clear();
    }
}

impl Classifier<'_> {
    /// Does one bounded piece of what is under way. `holds_key` says whether the owner of the
    /// incoming filter holds a key for a filter that it overlaps, given with its owner.
    pub fn step(&mut self, holds_key: &mut dyn FnMut(FilterId, u32) -> bool) -> Progress {
        let mut fuel = Fuel(STEP);
        let outcome = match self.job.phase {
            Phase::Idle => return Progress::Idle,
            Phase::Boot => return self.finish_boot(),
            Phase::Check => self.check_next(),
            Phase::Intern => self.intern(&mut fuel),
            Phase::Rate => self.rate(),
            Phase::Contain => self.contain(&mut fuel),
            Phase::Search => self.search(&mut fuel),
            Phase::Compare => self.compare(&mut fuel, holds_key),
            Phase::Find => self.find(&mut fuel),
            Phase::Build(place) => self.build(place),
            Phase::Grow => self.grow(&mut fuel),
            Phase::Emit => self.emit(),
            Phase::Locate => self.locate(&mut fuel),
            Phase::Shrink => self.shrink(&mut fuel),
            Phase::Release => self.release(&mut fuel),
        };
        outcome.unwrap_or_else(|refusal| self.give_up(refusal))
    }

    /// The packet that the last refusal for an exact overlap is about.
    #[must_use]
    pub fn witness(&self) -> &Witness {
        &self.job.witness
    }

    /// Turns a refused installation into a removal.
    fn give_up(&mut self, refusal: Refusal) -> Progress {
        debug_assert!(self.job.refusal.is_none());
        self.job.refusal = Some(refusal);
        self.filters[self.job.filter].stage = Stage::Removing;
        self.job.cursor = None;
        self.job.phase = Phase::Locate;
        Progress::Again
    }
}
