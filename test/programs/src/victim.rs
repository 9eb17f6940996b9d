//! The victim: an environment that only computes, while the tests do everything else.
//!
//! It fills memory with a pattern, checks it over and over, and counts the rounds in its public page. It never makes a
//! kernel call but those at the end of its slices.

use crate::{Outcome, Test, check, child};
use abi::budget::Resource;
use alloc::format;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::window::Window;
use runtime::{EnvironmentId, Failure, clock, time_slice};

/// Status word: rounds done.
const ROUNDS: usize = 1;
/// Status word: wrong words found.
const DAMAGE: usize = 2;
/// Where its memory lies.
const MEMORY: u64 = 0x1000_0000;
const PAGES: u64 = 4;
/// How long it may take until a new round is seen, on a busy host.
const PATIENCE: u64 = 30_000_000_000;

/// The victim as the harness sees it.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    public: Window,
}

impl Victim {
    /// Starts it on CPU 0.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn start(image: &Image<'_>, tests: &'static [Test]) -> Result<Self, Failure> {
        let mut builder = Builder::new()?;
        builder.program(image)?.memory(MEMORY, PAGES)?.silent();
        builder.function(compute, tests.as_ptr() as u64).budget(Resource::Slice, 1);
        let child = builder.create()?;
        let public = child.public()?;
        child.run(0, time_slice::ANY_POSITION)?;
        Ok(Self { child, public })
    }

    /// Its number.
    pub const fn number(&self) -> EnvironmentId {
        self.child.number
    }

    /// Rounds that it has done.
    pub fn rounds(&self) -> u64 {
        self.word(ROUNDS)
    }

    /// It lives, is undamaged, and advances.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Outcome {
        check!(self.child.alive(), "the victim died: {}", child::death(&self.child));
        let (before, end) = (self.rounds(), clock::now() + PATIENCE);
        while self.rounds() == before && clock::now() < end {
            time_slice::yield_now();
        }
        check!(self.rounds() != before, "the victim makes no progress");
        check!(self.word(DAMAGE) == 0, "the victim found {} damaged words", self.word(DAMAGE));
        Ok(())
    }

    fn word(&self, index: usize) -> u64 {
        self.public.words()[abi::area::PUBLIC_STATUS as usize / 8 + index].load(Acquire)
    }
}

/// What it does.
extern "C" fn compute(_: u64) {
    let words = (PAGES * abi::limits::PAGE_SIZE / 8) as usize;
    // SAFETY: its creator mapped this memory for it alone.
    let memory = unsafe { core::slice::from_raw_parts_mut(MEMORY as *mut u64, words) };
    let (rounds, damage) = (Area::current().status(ROUNDS), Area::current().status(DAMAGE));
    for round in 1.. {
        for (index, word) in memory.iter_mut().enumerate() {
            *word = pattern(round, index);
        }
        let wrong = memory.iter().enumerate().filter(|(index, word)| **word != pattern(round, *index)).count();
        damage.store(damage.load(Relaxed) + wrong as u64, Relaxed);
        rounds.store(round, Release);
    }
}

fn pattern(round: u64, index: usize) -> u64 {
    round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64).wrapping_mul(0xff51_afd7_ed55_8ccd)
}

/// Keeps the reason of a failed check in one place.
pub(crate) fn describe(failure: Failure) -> alloc::string::String {
    format!("{} ({:?})", failure.error.text(), failure)
}
