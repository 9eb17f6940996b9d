//! What a classifier lives in: memory given once, never more.

use crate::account::Account;
use crate::atom::Atom;
use crate::classifier::Filter;
use crate::job::Job;
use crate::shape::Shape;
use crate::structure::{Branch, Cell, Installed, State, Tail};
use crate::{limit, words};

/// Bytes of code in a unit of the arena.
pub(crate) const CODE_UNIT: u32 = 64;

/// All storage of a classifier. Record 0 of each pool stays unused. The code arena itself is the
/// caller's: the classifier only says what bytes belong where in it.
#[derive(Debug)]
pub struct Storage<'a> {
    /// One for each owner.
    pub accounts: &'a mut [Account],
    /// Filters.
    pub filters: &'a mut [Filter],
    /// Conjunctions.
    pub conjunctions: &'a mut [Installed],
    /// Conditions of all conjunctions.
    pub cells: &'a mut [Cell],
    /// Shapes; at most [`limit::SHAPES`].
    pub shapes: &'a mut [Shape],
    /// States.
    pub states: &'a mut [State],
    /// Branches.
    pub branches: &'a mut [Branch],
    /// Compiled tails.
    pub tails: &'a mut [Tail],
    /// Words that interpreter and compiled code read; see [`Sizes::words`].
    pub words: &'a mut [u32],
    /// Map of their heap; see [`Sizes::word_map`].
    pub word_map: &'a mut [u8],
    /// Map of the code arena; see [`Sizes::code_map`].
    pub code_map: &'a mut [u8],
    /// Where a piece of code is put together: [`limit::PIECE`] bytes.
    pub staging: &'a mut [u8],
    /// Where an incoming filter is kept: [`limit::FILTER_ATOMS`] atoms.
    pub incoming: &'a mut [Atom],
    /// What is under way.
    pub job: &'a mut Job,
}

/// How much storage serves so many filters; a place to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Owners.
    pub owners: usize,
    /// Filters.
    pub filters: usize,
    /// Conjunctions.
    pub conjunctions: usize,
    /// Conditions.
    pub cells: usize,
    /// Shapes.
    pub shapes: usize,
    /// States.
    pub states: usize,
    /// Branches.
    pub branches: usize,
    /// Tails.
    pub tails: usize,
    /// Words of the heap of tables and records, a power of two.
    pub heap_words: usize,
    /// Bytes of the code arena, a power of two.
    pub code: usize,
}

impl Sizes {
    /// For filters of about two conjunctions of about eight atoms, with some room for sharing badly.
    #[must_use]
    pub const fn for_filters(owners: usize, filters: usize) -> Self {
        let conjunctions = 2 * filters + limit::CONJUNCTIONS;
        Self {
            owners,
            filters: filters + 2,
            conjunctions,
            cells: 8 * conjunctions + limit::FILTER_ATOMS,
            shapes: limit::SHAPES,
            states: 2 * conjunctions + 2 * limit::ATOMS,
            branches: 2 * conjunctions + 2 * limit::ATOMS + limit::SHAPES,
            tails: 2 * limit::SHAPES,
            heap_words: (64 * conjunctions).next_power_of_two(),
            code: (256 * conjunctions + (1 << 18)).next_power_of_two(),
        }
    }

    /// Words in all.
    #[must_use]
    pub const fn words(&self) -> usize {
        words::fixed_words(self.states, self.branches, self.conjunctions) + self.heap_words
    }

    /// Bytes of the map of the heap of words.
    #[must_use]
    pub const fn word_map(&self) -> usize {
        words::map_bytes(self.heap_words)
    }

    /// Bytes of the map of the code arena.
    #[must_use]
    pub const fn code_map(&self) -> usize {
        self.code / CODE_UNIT as usize * 2
    }
}
