//! The caller's words, cut into the verifier's tables.
//!
//! For `n` slots, `f` functions and `j` places where paths meet: `n` annotations, `n` words of structure, `n`
//! weights, and `f` function records. Each meeting place takes a bit and one packed state. Only the annotations, the
//! structure and the function records matter after the verifier is done.

use super::annotation::Annotation;
use super::state::{NO_SLOT, STATE_WORDS};
use super::value::{VALUE_WORDS, Value};

/// Words of a function's record: start, frames, cost, status, summary of its result.
pub(crate) const FUNCTION_WORDS: usize = 4 + VALUE_WORDS;
const START: usize = 0;
const FRAMES: usize = 1;
const COST: usize = 2;
const STATUS: usize = 3;
const SUMMARY: usize = 4;
const RETURNS: u64 = 1;
const CHANGED: u64 = 2;
const MERGES: u64 = 4;

/// How many of each there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) slots: usize,
    pub(crate) functions: usize,
    pub(crate) joins: usize,
}

impl Layout {
    /// Words needed in all.
    pub(crate) const fn needed(&self) -> usize {
        self.slots * 3 + self.functions * FUNCTION_WORDS + self.joins.div_ceil(64) + self.joins * STATE_WORDS
    }
}

/// Number of the function that a slot belongs to, from the words of a finished verification.
pub(crate) fn function_of(words: &[u64], layout: &Layout, index: usize) -> usize {
    words.get(layout.slots + index).map_or(0, |word| *word as u32 as usize)
}

/// First slot of a function, from the words of a finished verification; the program's end for the one after the last.
pub(crate) fn function_start(words: &[u64], layout: &Layout, function: usize) -> usize {
    if function >= layout.functions {
        return layout.slots;
    }
    words.get(layout.slots * 3 + function * FUNCTION_WORDS + START).map_or(layout.slots, |word| *word as usize)
}

/// The tables.
pub(crate) struct Storage<'a> {
    pub(crate) annotations: &'a mut [u64],
    structure: &'a mut [u64],
    pub(crate) weights: &'a mut [u64],
    functions: &'a mut [[u64; FUNCTION_WORDS]],
    dirty: &'a mut [u64],
    states: &'a mut [[u64; STATE_WORDS]],
}

impl<'a> Storage<'a> {
    /// Cuts the words; `None` when there are too few.
    pub(crate) fn new(words: &'a mut [u64], layout: &Layout) -> Option<Self> {
        let (annotations, rest) = words.split_at_mut_checked(layout.slots)?;
        let (structure, rest) = rest.split_at_mut_checked(layout.slots)?;
        let (weights, rest) = rest.split_at_mut_checked(layout.slots)?;
        let (functions, rest) = rest.split_at_mut_checked(layout.functions * FUNCTION_WORDS)?;
        let (dirty, rest) = rest.split_at_mut_checked(layout.joins.div_ceil(64))?;
        let states = rest.get_mut(..layout.joins * STATE_WORDS)?;
        let functions = functions.as_chunks_mut().0;
        Some(Self { annotations, structure, weights, functions, dirty, states: states.as_chunks_mut().0 })
    }

    pub(crate) fn annotation(&self, index: usize) -> Annotation {
        Annotation(self.annotations.get(index).copied().unwrap_or(0))
    }

    pub(crate) fn annotate(&mut self, index: usize, annotation: Annotation) {
        if let Some(word) = self.annotations.get_mut(index) {
            *word = annotation.0;
        }
    }

    pub(crate) fn mark(&mut self, index: usize, flag: u64) {
        if let Some(word) = self.annotations.get_mut(index) {
            *word |= flag;
        }
    }

    /// Notes which function a slot belongs to, and its meeting place.
    pub(crate) fn set_structure(&mut self, index: usize, function: usize, join: Option<usize>) {
        self.structure[index] = function as u64 | join.map_or(0, |join| join as u64 + 1) << 32;
    }

    /// Number of the function that a slot belongs to.
    pub(crate) fn function_of(&self, index: usize) -> usize {
        self.structure.get(index).map_or(0, |word| *word as u32 as usize)
    }

    /// Number of the meeting place before an instruction.
    pub(crate) fn join_at(&self, index: usize) -> Option<usize> {
        let number = self.structure.get(index)? >> 32;
        (number as usize).checked_sub(1)
    }

    pub(crate) fn start_function(&mut self, function: usize, start: usize) {
        if let Some(record) = self.functions.get_mut(function) {
            *record = [0; FUNCTION_WORDS];
            record[START] = start as u64;
            record[FRAMES] = 1;
        }
    }

    pub(crate) fn function_count(&self) -> usize {
        self.functions.len()
    }

    pub(crate) fn function_start(&self, function: usize) -> usize {
        self.functions.get(function).map_or(self.annotations.len(), |record| record[START] as usize)
    }

    /// Most frames active at once while the function runs, its own included.
    pub(crate) fn frames(&self, function: usize) -> u64 {
        self.functions.get(function).map_or(0, |record| record[FRAMES])
    }

    pub(crate) fn set_frames(&mut self, function: usize, frames: u64) {
        self.functions[function][FRAMES] = frames;
    }

    /// Most instructions that a call of the function executes.
    pub(crate) fn cost(&self, function: usize) -> u64 {
        self.functions.get(function).map_or(0, |record| record[COST])
    }

    pub(crate) fn add_cost(&mut self, function: usize, cost: u64) {
        self.functions[function][COST] = self.functions[function][COST].saturating_add(cost);
    }

    /// What is known of the function's result, once it is known to return.
    pub(crate) fn summary(&self, function: usize) -> Option<Value> {
        let record = self.functions.get(function)?;
        let (value, _) = Value::unpack(record[SUMMARY..].first_chunk()?);
        (record[STATUS] & RETURNS != 0).then_some(value)
    }

    /// How often the summary was changed.
    pub(crate) fn summary_merges(&self, function: usize) -> u64 {
        self.functions.get(function).map_or(0, |record| record[STATUS] / MERGES)
    }

    pub(crate) fn set_summary(&mut self, function: usize, value: &Value) {
        let record = &mut self.functions[function];
        record[SUMMARY..].copy_from_slice(&value.pack(NO_SLOT));
        record[STATUS] = (record[STATUS] + MERGES) | RETURNS | CHANGED;
    }

    pub(crate) fn summary_changed(&self, function: usize) -> bool {
        self.functions.get(function).is_some_and(|record| record[STATUS] & CHANGED != 0)
    }

    pub(crate) fn forget_change(&mut self, function: usize) {
        self.functions[function][STATUS] &= !CHANGED;
    }

    pub(crate) fn packed_state(&mut self, join: usize) -> Option<&mut [u64; STATE_WORDS]> {
        self.states.get_mut(join)
    }

    /// Resets a meeting place; its instruction is kept in the first word of its state. Places are reset in order: what
    /// the words held before at later ones, and behind the last, goes with it.
    pub(crate) fn start_join(&mut self, join: usize, index: usize) {
        if let Some(words) = self.states.get_mut(join) {
            words[0] = (index as u64) << 32;
        }
        if let Some(word) = self.dirty.get_mut(join / 64) {
            *word &= (1 << (join % 64)) - 1;
        }
    }

    pub(crate) fn join_count(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn join_index(&self, join: usize) -> usize {
        self.states.get(join).map_or(0, |words| (words[0] >> 32) as usize)
    }

    /// How often a state reached this place.
    pub(crate) fn join_visits(&self, join: usize) -> u32 {
        self.states.get(join).map_or(0, |words| words[0] as u32)
    }

    pub(crate) fn count_visit(&mut self, join: usize) {
        if let Some(words) = self.states.get_mut(join) {
            words[0] = words[0] & !u64::from(u32::MAX) | u64::from((words[0] as u32).saturating_add(1));
        }
    }

    pub(crate) fn set_dirty(&mut self, join: usize) {
        if let Some(word) = self.dirty.get_mut(join / 64) {
            *word |= 1 << (join % 64);
        }
    }

    /// Takes the first place whose state changed since it was last looked at.
    pub(crate) fn take_dirty(&mut self) -> Option<usize> {
        let (index, word) = self.dirty.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(index * 64 + bit)
    }
}
