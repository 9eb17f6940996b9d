//! Wakeup predicates in the kernel (xok-exos-sosp97 §5.1): accepting one, and asking whether a sleeper wakes.
//!
//! The words that a predicate watches are found once, when it is accepted. That holds no page: an environment that
//! gives up a watched page is rid of it, and the page may be another one's the next moment. The sleeper knows by its
//! generation that it is gone, before it looks at the word; a flag of the page says that idle CPUs must look then.

use crate::budget;
use crate::cost;
use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, copied, lock, refuse};
use crate::key::Secrets;
use crate::scheduler;
use abi::area::{FIRED_GONE, FIRED_UPCALL, READY_ASLEEP};
use abi::budget::Resource;
use abi::limits::{PAGE_SIZE, PREDICATE_TERMS};
use abi::memory_map::in_user_half;
use abi::page::{ORPHAN, PageInfo};
use abi::predicate::Term;
use abi::{Error, PageNumber, UserAddress};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use machine::context::Context;
use machine::entry::SyscallFrame;
use machine::exposed::add;
use machine::memory::{self, Generation, Memory};
use machine::page_table::{page_of, translate};
use machine::{clock, exposed, user};
use wakeup_predicate::{Outcome as Evaluation, Words};

/// When an environment can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Now.
    Now,
    /// Not before this time, unless a word changes.
    At(u64),
    /// Not before a word changes.
    Never,
}

/// Where the words of a predicate lie, and of which generation their pages were when it was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// Physical address of the word of each term.
    words: [u64; PREDICATE_TERMS],
    generations: [Generation; PREDICATE_TERMS],
    era: u64,
    /// How many watched pages were lost in all, anywhere, when none of these was.
    lost: Cell<u64>,
}

impl Watched {
    /// The clock alone.
    pub(crate) const NOTHING: Self =
        Self { words: [CLOCK; _], generations: [Generation::FIRST; _], era: 0, lost: Cell::new(0) };

    /// Begins anew, with the clock for each of so many terms.
    fn begin(&mut self, count: usize) {
        self.words[..count].fill(CLOCK);
        self.era = memory::era();
        self.lost.set(u64::MAX);
    }

    /// Notes the word of a term.
    fn watch(&mut self, term: usize, physical: u64) {
        (self.words[term], self.generations[term]) = (physical, memory::generation(record(physical)));
    }

    /// Records of each page that an environment sleeps over it.
    fn mark(&self, count: usize) {
        let words = self.words[..count].iter().filter(|physical| **physical != CLOCK);
        words.for_each(|physical| memory::note_watched(record(*physical)));
    }

    /// The terms, of the first `count`, whose page was given up, as bits.
    fn gone(&self, count: usize) -> u16 {
        let lost = memory::watched_lost();
        if self.lost.get() == lost {
            return 0;
        }
        let gone = self.look_for_gone(count);
        if gone == 0 {
            self.lost.set(lost);
        }
        gone
    }

    #[inline(never)]
    fn look_for_gone(&self, count: usize) -> u16 {
        if self.era != memory::era() {
            return u16::MAX;
        }
        let mut bits = 0;
        let watched = self.words[..count].iter().zip(&self.generations).enumerate();
        for (term, (physical, generation)) in watched.filter(|(_, (physical, _))| **physical != CLOCK) {
            let info = record(*physical);
            if memory::generation(info) != *generation || memory::state(info).flags & ORPHAN != 0 {
                bits |= 1 << term;
            }
        }
        bits
    }
}

/// The record of the page that holds a watched word.
fn record(physical: u64) -> &'static PageInfo {
    memory::info(PageNumber(physical / PAGE_SIZE)).expect("a watched page has a record")
}

/// The words of a sleeper's predicate.
struct Seen<'a> {
    memory: &'a Memory,
    words: &'a [u64; PREDICATE_TERMS],
    gone: u16,
}

impl Words for Seen<'_> {
    fn gone(&self) -> u16 {
        self.gone
    }
    fn read(&self, term: usize) -> u64 {
        self.memory.read_word(self.words[term])
    }
}

/// Waits (see `abi::syscall`). Returns only after a refusal.
#[inline(never)]
pub(crate) fn wait(frame: &mut SyscallFrame) -> Outcome<()> {
    let mut kernel = lock();
    let [terms, count, ..] = frame.arguments;
    let terms = UserAddress(terms);
    let caller = kernel.caller();
    kernel.accept(caller, terms, count)?;
    kernel.callers_context().set_waiting(true);
    kernel.leave_caller(frame);
    scheduler::schedule_with(kernel)
}

impl Kernel {
    /// Checks a predicate, finds the words that it watches, and keeps both with the caller's secrets, where they are
    /// made: a refused one leaves none.
    fn accept(&mut self, caller: Environment, terms: UserAddress, count: u64) -> Outcome<()> {
        if count > PREDICATE_TERMS as u64 {
            return refuse(Error::TooMany, PREDICATE_TERMS as u64);
        }
        let mut copy = [const { MaybeUninit::uninit() }; PREDICATE_TERMS];
        let copy: &[Term] = copied(user::copy_rows_in(&mut copy[..count as usize], terms), terms)?;
        let root = self.context_of(caller).root();
        let secrets = self.secrets_mut(caller);
        let outcome = set(secrets, root, copy).and_then(|watched| {
            budget::check(caller, Resource::Predicate, watched)?;
            budget::charge(caller, Resource::Predicate, watched);
            Ok(())
        });
        match outcome {
            Ok(()) => secrets.watched.mark(copy.len()),
            Err(_) => secrets.predicate.clear(),
        }
        outcome
    }

    /// When an environment can run. If it wakes now, its predicate is dropped and what fired is told.
    #[inline(always)]
    pub(crate) fn wakeup(&mut self, environment: Environment, context: &Context) -> Wakeup {
        if context.is_waiting() {
            self.evaluate(environment, context)
        } else if is_asleep(context) {
            Wakeup::Never
        } else {
            Wakeup::Now
        }
    }

    #[inline(never)]
    fn evaluate(&mut self, environment: Environment, context: &Context) -> Wakeup {
        let secrets = self.secrets(environment);
        let (predicate, watched) = (&secrets.predicate, &secrets.watched);
        let count = predicate.terms().len();
        assert_ne!(count, 0, "who waits has a predicate");
        let words = Seen { memory: &self.memory, words: &watched.words, gone: watched.gone(count) };
        let now = clock::now();
        add(&environment.info().predicate_terms, count as u64);
        self.spend(cost::PREDICATE + count as u32 * cost::PREDICATE_TERM);
        let fired = match predicate.evaluate(now, &words) {
            Evaluation::Fired { product, .. } => product as u64,
            Evaluation::Gone { .. } => FIRED_GONE,
            Evaluation::False if self.is_waited_for(environment) => FIRED_UPCALL,
            Evaluation::False => return predicate.earliest_clock(now).map_or(Wakeup::Never, Wakeup::At),
        };
        context.private_words().fired.store(fired, Ordering::Relaxed);
        self.drop_predicate(environment);
        Wakeup::Now
    }

    /// Ends what an environment waits for.
    pub(crate) fn drop_predicate(&mut self, environment: Environment) {
        let predicate = &mut self.secrets_mut(environment).predicate;
        if predicate.terms().is_empty() {
            return;
        }
        let watched = predicate.watched().count() as u64;
        predicate.clear();
        self.context_of(environment).set_waiting(false);
        budget::discharge(environment, Resource::Predicate, watched);
    }
}

/// Whether an environment has said that it waits for transfers alone, and has nothing pending.
fn is_asleep(context: &Context) -> bool {
    let words = context.private_words();
    words.ready.load(Ordering::Acquire) == READY_ASLEEP
        && words.pending.load(Ordering::Acquire) == 0
        && context.is_voluntary()
}

/// Makes the predicate that is kept one of these terms, and finds the words that it watches under a root: how many.
fn set(secrets: &mut Secrets, root: PageNumber, terms: &[Term]) -> Outcome<u64> {
    let Secrets { predicate, watched, .. } = secrets;
    if let Err(refusal) = predicate.set(terms) {
        return refuse(Error::BadArgument, refusal.detail());
    }
    watched.begin(terms.len());
    let (mut count, mut last) = (0, (u64::MAX, 0));
    for (term, address) in predicate.watched() {
        let page = address / PAGE_SIZE;
        // Words of one predicate often lie in one page.
        if page != last.0 {
            last = (page, find_word(root, address)? & !(PAGE_SIZE - 1));
        }
        watched.watch(term, last.1 | address % PAGE_SIZE);
        count += 1;
    }
    Ok(count)
}

/// The physical address of a word that may be read at an address under a root.
fn find_word(root: PageNumber, address: u64) -> Outcome<u64> {
    if let Some(physical) = exposed::physical(address) {
        return Ok(physical);
    }
    if !in_user_half(address, 8) {
        return refuse(Error::BadAddress, address);
    }
    let Some((entry, span)) = translate(root, address) else {
        return Err(crate::kernel::Stop::Fault(user::UserFault { address, error: 4 }));
    };
    Ok(page_of(entry).address() + (address & (span - 1)))
}

/// Stands for the clock among the addresses of words: no word that can be watched lies there.
const CLOCK: u64 = 0;
