//! The record of an edge: what compiled code and interpreter read once they have found it.
//!
//! In words: the edge's constant; the offset of the code that continues from there; its [`Target`]. If it leads to a
//! tail, the constants follow that the tail compares with. An edge is known by the word offset of its record, 0 for
//! none.
//!
//! A hash table repeats the heads of its records, adjacent in its slots. So compiled code finds an edge and all that
//! it needs of it in one line of the cache. With a long tail the slot says where the record is instead.

use crate::target::Target;
use crate::words::Words;

/// The constant.
pub(crate) const KEY: u32 = 0;
/// The code offset.
pub(crate) const CODE: u32 = 1;
/// The target.
pub(crate) const TARGET: u32 = 2;
/// Words before the constants of a tail.
pub(crate) const CONSTANTS: u32 = 3;
/// Words that a table shows of each record.
pub(crate) const HEAD: u32 = 4;

impl Words<'_> {
    /// The constant of an edge.
    pub(crate) fn key(&self, record: u32) -> u32 {
        self.get(record + KEY)
    }

    /// Where an edge leads; nowhere if there is none.
    pub(crate) fn target(&self, record: u32) -> Target {
        if record == 0 { Target::None } else { Target::from_word(self.get(record + TARGET)) }
    }

    /// Shows the head of a record in a table; of no record, code that returns.
    pub(crate) fn show(&mut self, at: u32, record: u32) {
        let target = self.target(record);
        match target {
            Target::None => self.set_record(at, 0, self.stubs.done, target),
            Target::Tail { long: true, .. } => {
                self.set_record(at, self.key(record), self.stubs.far, target);
                self.set(at + CONSTANTS, record);
            }
            _ => (0..HEAD).for_each(|word| self.set(at + word, self.get(record + word))),
        }
    }

    /// Writes all of a record but the constants of a tail.
    pub(crate) fn set_record(&mut self, record: u32, key: u32, code: u32, target: Target) {
        self.set(record + KEY, key);
        self.set(record + CODE, code);
        self.set(record + TARGET, target.word());
    }
}
