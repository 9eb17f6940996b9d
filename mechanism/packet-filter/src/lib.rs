//! DPF: declarative packet filters, merged, checked for overlap and compiled.
//!
//! It owns the question "whose packet is this?". Filters are declarative ([`Atom`]). So they can be merged into one
//! decision structure, checked against each other, and burned into machine code (dynamic packet filter; SOSP 1995,
//! sections 3.2 and 5.6). Invariants: a packet is read only within its length. Its classification takes at most one
//! test for each shape ([`Classifier::shape_count`]), however many filters there are. Of several that match, the more
//! specific wins ([`Rank`]). No filter takes another owner's packets without a key. All memory is given once
//! ([`Storage`]); all longer work is done in bounded steps.
//!
//! Where things are: the language in `atom`, `builder`, `condition`, `conjunction`; its meaning in [`reference`]. The
//! merged structure is in `structure`, `edges`, `record`, `shape`, `find`, `link`, `unlink`, `walk`. Overlaps are in
//! `overlap`, `specificity`; filters in filters in `containment`, [`Tree`], [`Template`]; machine code in `generate`,
//! `publish`; the order of work in `job`, `install`, `removal`.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod account;
mod atom;
mod buddy;
mod builder;
mod classifier;
mod condition;
mod conjunction;
mod containment;
mod edges;
mod find;
mod generate;
mod install;
mod job;
pub mod limit;
mod link;
mod overlap;
mod pool;
mod publish;
mod random;
mod record;
pub mod reference;
mod refusal;
mod removal;
mod shape;
mod specificity;
mod storage;
mod structure;
mod target;
mod template;
mod tree;
mod unlink;
mod walk;
mod words;

pub use account::{Account, Quota};
pub use atom::{Atom, Compare, conjunctions};
pub use builder::{Builder, Size, TooSmall};
pub use classifier::{Classifier, Filter, FilterId, Match, Parent, Patch, Progress};
pub use job::Job;
pub use overlap::Witness;
pub use refusal::{Reason, Refusal, Resource};
pub use shape::Shape;
pub use specificity::Rank;
pub use storage::{Sizes, Storage};
pub use structure::{Branch, Cell, Installed, State, Tail};
pub use template::{FIXED_WORDS, Template, first_byte};
pub use tree::{ABOUT_ATOMS, Keeper, Node, Request, Step, Tree};
