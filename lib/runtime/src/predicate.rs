//! Blocking: wakeup predicates, and the small event loop over them (xok-exos-sosp97 §5.1).
//!
//! The kernel can wait for a sum of at most sixteen terms. A [`Predicate`] is built product by product, each from
//! [`Term`]s over words ([`word`]) and the clock ([`clock`]). [`wait_any`] joins the conditions of several sources and
//! says which came true; [`EventLoop`] calls a function for each.

extern crate alloc;

use crate::area::Area;
use crate::syscall::number;
use abi::area::{FIRED_GONE, FIRED_UPCALL};
use abi::limits::PREDICATE_TERMS;
use abi::predicate::{CLOCK, END_OF_PRODUCT};
pub use abi::predicate::{Operator, Term};
use abi::{Error, Failure};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Acquire};

/// True when `(word & mask) OPERATOR value`.
pub fn word_masked(word: &AtomicU64, mask: u64, operator: Operator, value: u64) -> Term {
    Term { source: core::ptr::from_ref(word) as u64, operation: operator as u64, mask, value }
}

/// True when `word OPERATOR value`, unsigned.
pub fn word(word: &AtomicU64, operator: Operator, value: u64) -> Term {
    word_masked(word, u64::MAX, operator, value)
}

/// True from `time` on, in nanoseconds since boot.
pub const fn clock(time: u64) -> Term {
    Term { source: CLOCK, operation: Operator::GreaterOrEqual as u64, mask: u64::MAX, value: time }
}

/// A sum of products. Empty it is false for ever.
#[derive(Clone, Debug, Default)]
pub struct Predicate {
    terms: [Term; PREDICATE_TERMS],
    count: usize,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// This product, counted from 0, was true.
    Product(usize),
    /// A page that was watched was freed or taken.
    Gone,
    /// An upcall was waiting, and its handler has run.
    Upcall,
}

impl Predicate {
    /// The empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a product: it is true when all its terms are. An empty product adds nothing.
    ///
    /// # Errors
    /// `TooMany` where the terms do not fit.
    pub fn or(mut self, product: &[Term]) -> Result<Self, Failure> {
        self.add(product)?;
        Ok(self)
    }

    /// The same, in place: a predicate is large enough that moving it costs.
    ///
    /// # Errors
    /// As for [`Self::or`].
    pub fn add(&mut self, product: &[Term]) -> Result<(), Failure> {
        let room = self.terms.get_mut(self.count..self.count + product.len());
        let Some(room) = room else { return Err(Error::TooMany.about(PREDICATE_TERMS as u64)) };
        room.copy_from_slice(product);
        if let Some(last) = room.last_mut() {
            last.operation |= END_OF_PRODUCT;
        }
        self.count += product.len();
        Ok(())
    }

    /// The terms, as the kernel reads them.
    pub fn terms(&self) -> &[Term] {
        &self.terms[..self.count]
    }

    /// Gives the CPU away until the predicate is true. Upcalls are served meanwhile.
    ///
    /// # Errors
    /// The kernel's refusals of `predicate_wait`: then nothing was waited for.
    pub fn wait(&self) -> Result<Fired, Failure> {
        wait(self.terms())
    }

    /// Gives the CPU away until the predicate is true or an upcall was served.
    ///
    /// # Errors
    /// As for [`Self::wait`].
    pub fn wait_once(&self) -> Result<Fired, Failure> {
        wait_once(self.terms())
    }
}

/// Gives the CPU away until one of these terms is true. Upcalls are served meanwhile. It makes no [`Predicate`], which
/// has room for more terms than most waits have.
///
/// # Errors
/// As for [`Predicate::wait`].
pub fn wait_for(terms: &mut [Term]) -> Result<Fired, Failure> {
    terms.iter_mut().for_each(|term| term.operation |= END_OF_PRODUCT);
    wait(terms)
}

fn wait(terms: &[Term]) -> Result<Fired, Failure> {
    loop {
        match wait_once(terms)? {
            Fired::Upcall => {}
            fired => return Ok(fired),
        }
    }
}

fn wait_once(terms: &[Term]) -> Result<Fired, Failure> {
    // SAFETY: the kernel reads so many terms of this array, and reads the words they name with our rights.
    unsafe {
        crate::time_slice::give_up(number::predicate_wait, terms.as_ptr() as u64, terms.len() as u64)?;
    }
    Ok(match Area::current().private().fired.load(Acquire) {
        FIRED_GONE => Fired::Gone,
        FIRED_UPCALL => Fired::Upcall,
        product => Fired::Product(product as usize),
    })
}

/// What became of [`wait_any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The condition with this index came true.
    Source(usize),
    /// The time came first.
    TimedOut,
    /// A page that was watched is gone.
    Gone,
}

/// Waits until one of several conditions, each a product of terms, is true, or the time has come.
///
/// # Errors
/// As for [`Predicate::or`] and [`Predicate::wait`]; `BadArgument` where there is nothing to wait for.
pub fn wait_any(conditions: &[&[Term]], deadline: Option<u64>) -> Result<Event, Failure> {
    let mut predicate = Predicate::new();
    let mut sources = [0; PREDICATE_TERMS];
    let mut products = 0;
    for (index, condition) in conditions.iter().enumerate().filter(|(_, condition)| !condition.is_empty()) {
        predicate = predicate.or(condition)?;
        sources[products] = index;
        products += 1;
    }
    if let Some(deadline) = deadline {
        predicate = predicate.or(&[clock(deadline)])?;
    } else if products == 0 {
        return Err(Error::BadArgument.about(0));
    }
    Ok(match predicate.wait()? {
        Fired::Gone => Event::Gone,
        Fired::Product(product) if product < products => Event::Source(sources[product]),
        Fired::Product(_) | Fired::Upcall => Event::TimedOut,
    })
}

/// Waits until a time, in nanoseconds since boot; gives the CPU away where the environment has no predicate left.
pub fn sleep_until(time: u64) {
    while crate::clock::now() < time {
        if wait_any(&[], Some(time)).is_err() {
            crate::time_slice::yield_now();
        }
    }
}

/// What a source of events wants after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Further events.
    Stay,
    /// To be forgotten.
    Leave,
}

/// A source of events: the condition it waits for now, and what to do then.
pub trait Source {
    /// The terms that must all be true; asked anew before each wait.
    fn condition(&self) -> Vec<Term>;
    /// The condition was true.
    fn serve(&mut self) -> Next;
}

/// Waits for many sources and serves them as they become ready, in turn, so that none starves.
#[derive(Default)]
pub struct EventLoop {
    sources: Vec<Box<dyn Source>>,
}

impl EventLoop {
    /// One without sources.
    pub const fn new() -> Self {
        Self { sources: Vec::new() }
    }

    /// Adds a source.
    pub fn add(&mut self, source: impl Source + 'static) {
        self.sources.push(Box::new(source));
    }

    /// Serves until no source is left, the deadline has come, or what was watched is gone.
    ///
    /// # Errors
    /// As for [`wait_any`].
    pub fn run(&mut self, deadline: Option<u64>) -> Result<(), Failure> {
        while !self.sources.is_empty() {
            let conditions: Vec<_> = self.sources.iter().map(|source| source.condition()).collect();
            let conditions: Vec<&[Term]> = conditions.iter().map(Vec::as_slice).collect();
            let Event::Source(index) = wait_any(&conditions, deadline)? else { return Ok(()) };
            let mut source = self.sources.remove(index);
            if source.serve() == Next::Stay {
                self.sources.push(source);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_end_where_they_should_and_sixteen_terms_fit() {
        let watched = AtomicU64::new(0);
        let term = word(&watched, Operator::Equal, 1);
        let predicate = Predicate::new().or(&[term, clock(5)]).and_then(|p| p.or(&[clock(9)])).expect("three terms");
        let ends: Vec<bool> = predicate.terms().iter().map(|term| term.operation & END_OF_PRODUCT != 0).collect();
        assert_eq!(ends, [false, true, true]);
        let full = Predicate::new().or(&[term; 16]).expect("sixteen fit");
        assert_eq!(full.or(&[term]).map(|_| ()), Err(Error::TooMany.about(16)));
    }
}
