//! The words that the interpreter and compiled code both read: one slice, so that compiled code
//! needs one base register and no absolute address.
//!
//! Layout, in words: the code offset where each state begins; the code offset that follows each branch; four words of
//! rank for each conjunction. Then comes a heap of blocks (edge tables and records) in units of four words.

use crate::buddy::Buddy;
use crate::generate::Stubs;
use crate::limit;
use crate::refusal::{Reason, Refusal, Resource};
use crate::specificity::Rank;

/// Words in a unit of the heap, as a power of two.
const UNIT: u32 = 2;
/// Words of rank for each conjunction.
pub(crate) const RANK_WORDS: u32 = 4;

/// The words and where the fixed parts begin.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    words: &'a mut [u32],
    heap: Buddy<'a>,
    next: u32,
    ranks: u32,
    blocks: u32,
    /// The fixed parts of the compiled code, to which records lead.
    pub(crate) stubs: Stubs,
}

/// Words before the heap for so many records, rounded up to a unit.
pub(crate) const fn fixed_words(states: usize, branches: usize, conjunctions: usize) -> usize {
    (states + branches + RANK_WORDS as usize * conjunctions).next_multiple_of(1 << UNIT)
}

/// Bytes of map for a heap of so many words (a power of two).
pub(crate) const fn map_bytes(heap_words: usize) -> usize {
    (heap_words >> UNIT) * 2
}

impl<'a> Words<'a> {
    /// Checks the sizes against each other.
    pub(crate) fn new(words: &'a mut [u32], map: &'a mut [u8], sizes: [usize; 3]) -> Result<Self, Refusal> {
        let [states, branches, conjunctions] = sizes;
        let blocks = fixed_words(states, branches, conjunctions);
        let heap = Buddy::new(map).ok_or(Refusal::whole(Reason::Storage(Resource::Words)))?;
        if words.len() > limit::WORDS || words.len() < blocks + (heap.units() << UNIT) {
            return Err(Refusal::whole(Reason::Storage(Resource::Words)));
        }
        words[..blocks].fill(0);
        let (next, ranks) = (states as u32, (states + branches) as u32);
        Ok(Self { words, heap, next, ranks, blocks: blocks as u32, stubs: Stubs::default() })
    }

    /// All words, for compiled code.
    pub(crate) fn all(&self) -> &[u32] {
        self.words
    }

    /// The word at an offset.
    pub(crate) fn get(&self, at: u32) -> u32 {
        self.words[at as usize]
    }

    /// Sets the word at an offset.
    pub(crate) fn set(&mut self, at: u32, word: u32) {
        self.words[at as usize] = word;
    }

    /// Where the code offset of a state's first branch is kept.
    pub(crate) fn entry_of(state: u32) -> u32 {
        state
    }

    /// Where the code offset of what follows a branch is kept.
    pub(crate) fn next_of(&self, branch: u32) -> u32 {
        self.next + branch
    }

    /// Where the ranks begin.
    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Writes the rank of a conjunction.
    pub(crate) fn set_rank(&mut self, conjunction: u32, rank: Rank) {
        let at = (self.ranks + RANK_WORDS * conjunction) as usize;
        let halves = [rank.specificity, rank.seniority].map(|half| [half as u32, (half >> 32) as u32]);
        self.words[at..at + 2].copy_from_slice(&halves[0]);
        self.words[at + 2..at + 4].copy_from_slice(&halves[1]);
    }

    /// Takes a block of at least so many words; a power of two, at least a unit. Its words hold anything.
    pub(crate) fn take(&mut self, words: u32) -> Result<u32, Refusal> {
        let unit = self.heap.take(order(words)).ok_or(Refusal::whole(Reason::Full(Resource::Words)))?;
        Ok(self.blocks + (unit << UNIT))
    }

    /// Takes so many blocks of this size, one behind the other; each is given back by itself.
    pub(crate) fn take_run(&mut self, words: u32, count: u32) -> Result<u32, Refusal> {
        let unit = self.heap.take_run(order(words), count).ok_or(Refusal::whole(Reason::Full(Resource::Words)))?;
        Ok(self.blocks + (unit << UNIT))
    }

    /// Gives back a block taken with this size.
    pub(crate) fn give(&mut self, block: u32, words: u32) {
        self.heap.give((block - self.blocks) >> UNIT, order(words));
    }

    /// Whether the heap is all free.
    pub(crate) fn is_whole(&self) -> bool {
        self.heap.taken() == 0
    }
}

/// The order of the block for so many words.
fn order(words: u32) -> u32 {
    words.next_power_of_two().ilog2().saturating_sub(UNIT)
}
