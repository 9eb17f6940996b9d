//! Wakeup predicates: what a sleeping environment waits for, as a sum of products
//! of comparisons over 64-bit words (Xok paper, section 5.1).
//!
//! An environment hands the kernel an array of [`abi::predicate::Term`].
//! [`Predicate::check`] turns a copy of it into a [`Predicate`] or names the first
//! term that is wrong and why. The kernel then pins the page of every word that [`Predicate::watched`] lists.
//! Whenever it is about to run the environment it asks [`Predicate::evaluate`], or runs what [`Predicate::compile`]
//! made of it: both answer the same. An idle CPU sets its timer to [`Predicate::earliest_clock`].
//!
//! What always holds:
//! - A predicate has 1 to [`TERMS_MAX`] terms and the last one ends a product.
//! - One evaluation reads the clock once and at most [`TERMS_MAX`] words, does at
//!   most [`TERMS_MAX`] comparisons, has no loop besides, and cannot fail.
//! - A predicate that watches a page which was freed has the outcome [`Outcome::Gone`], whatever its words say. Its
//!   sleeper is never left asleep on memory that means nothing any more.
//! - A checked predicate holds no pointer: reading a word is the caller's affair
//!   ([`Words`]), by the number of the term, never by the user's address.

#![no_std]
#![forbid(unsafe_code)]

mod check;
mod clock;
pub mod compile;
mod evaluate;
mod term;

pub use check::{Reason, Refusal};
pub use evaluate::{Outcome, Words};
pub use term::{Predicate, Source, TERMS_MAX, Term};
