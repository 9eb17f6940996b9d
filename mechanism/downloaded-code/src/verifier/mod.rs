//! The verifier: decides whether a program may run in a context, and what the compiler must check for it.
//!
//! It is an abstract interpreter by the method of PREVAIL. It merges states where paths meet and widens loops, so
//! that its work grows with the program's length and not with its number of paths. What it guarantees of a program
//! that it accepts, for every run with a record that agrees with the context:
//!
//! - every access lies inside its region, the program's frame, or an object that a caller passed. Otherwise a check
//!   that the compiler emits stops it. Read-only regions are not written;
//! - only values that were written are used; copying a register that holds none is no use. An array in the frame that
//!   is written or read at unknown places starts as zeros, and so does a register that only some paths write. No
//!   address becomes a number, is stored outside the own stack, or decides a comparison, so that runs do not depend
//!   on where anything lies;
//! - it ends within the context's budget, because that is proven or because the compiler has it counted;
//! - helpers get arguments of their types.
//!
//! It runs in steps of bounded work over words that the caller gives, and keeps no reference between steps: the caller
//! passes the same program, context and words each time. Whatever the bytes, it ends after at most two million steps,
//! without a panic.

mod analysis;
mod annotation;
mod arithmetic;
mod guarded;
mod loops;
mod merge;
mod refine;
mod room;
mod scalar;
mod state;
mod storage;
mod structure;
mod tie;
mod tnum;
mod transfer;
mod truncation;
mod value;

use analysis::{Analysis, Subject};
use loops::Loops;
use storage::{Layout, Storage};

pub(crate) use annotation::Annotation;
pub use annotation::{Protection, Space};

use crate::context::Context;
use crate::instruction::Instruction;
use crate::invocation::FRAME_SIZE;
use crate::program::Program;
use crate::refusal::{Reason, Refusal};

/// Work of one step, in points.
const STEP: u32 = 32;
/// Points of a look at the encoding of one instruction.
const LIGHT: u32 = 2;
/// Points of one unit of analysis: an instruction, or the meeting of two states.
const HEAVY: u32 = 32;

/// Words of storage that are enough for any program of `slots` slots. Most need far fewer: give what there is, and
/// [`Reason::StorageTooSmall`] says how many it must be.
pub const fn storage_bound(slots: usize) -> usize {
    Layout { slots, functions: slots, joins: slots }.needed()
}

/// What is known of an accepted program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    layout: Layout,
    /// Bytes of stack that a run needs, a multiple of 512.
    pub stack: u32,
    /// Instructions that a run executes at most, when that is proven and within the budget. Then nothing is charged.
    pub worst_case: Option<u64>,
    /// Accesses to memory in the reachable part of the program.
    pub accesses: u32,
    /// Of these, those that are masked against speculation.
    pub masked: u32,
    /// Of these, those that are checked at run time.
    pub checked: u32,
    /// Arguments of helpers that are checked at run time.
    pub checked_arguments: u32,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    Again,
    /// The program may run.
    Accepted(Verdict),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Clear,
    Scan,
    Number,
    Check,
    Nest { grew: bool },
    Ascend,
    Revisit,
    Forget,
    Annotate { inside: bool },
    Loops,
    Cost { level: u64 },
    Count,
    Done,
}

/// A verification under way.
#[derive(Clone, Debug)]
pub struct Verifier {
    phase: Phase,
    cursor: usize,
    layout: Layout,
    analysis: Analysis,
    loops: Loops,
    verdict: Verdict,
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Verifier {
    /// At the beginning.
    pub const fn new() -> Self {
        Self {
            phase: Phase::Clear,
            cursor: 0,
            layout: Layout { slots: 0, functions: 0, joins: 0 },
            analysis: Analysis::new(),
            loops: Loops::new(),
            verdict: Verdict {
                layout: Layout { slots: 0, functions: 0, joins: 0 },
                stack: 0,
                worst_case: None,
                accesses: 0,
                masked: 0,
                checked: 0,
                checked_arguments: 0,
            },
        }
    }

    /// Does one step of bounded work. After [`Progress::Accepted`] the words hold what the compiler needs.
    pub fn step(
        &mut self,
        program: Program<'_>,
        context: &Context<'_>,
        words: &mut [u64],
    ) -> Result<Progress, Refusal> {
        if self.phase == Phase::Clear {
            context.check()?;
            self.layout.slots = program.slots();
        }
        let available = words.len();
        let Some(mut storage) = Storage::new(words, &self.layout) else {
            return Err(Refusal::at(0, Reason::StorageTooSmall { needed: self.layout.needed().max(available + 1) }));
        };
        let mut subject = Subject { program, context, storage: &mut storage };
        let mut points = STEP;
        while points > 0 {
            let spent = self.unit(&mut subject)?;
            if self.phase == Phase::Done {
                return Ok(Progress::Accepted(self.verdict));
            }
            if spent == 0 {
                break;
            }
            points = points.saturating_sub(spent);
        }
        Ok(Progress::Again)
    }

    /// Runs all steps: for callers that need not interrupt it.
    pub fn run(program: Program<'_>, context: &Context<'_>, words: &mut [u64]) -> Result<Verdict, Refusal> {
        let mut verifier = Self::new();
        loop {
            if let Progress::Accepted(verdict) = verifier.step(program, context, words)? {
                return Ok(verdict);
            }
        }
    }

    /// One unit of work; returns its weight, or zero to end the step.
    fn unit(&mut self, subject: &mut Subject<'_, '_>) -> Result<u32, Refusal> {
        match self.phase {
            Phase::Clear | Phase::Scan | Phase::Number | Phase::Check | Phase::Nest { .. } => self.shape(subject),
            Phase::Ascend => {
                if !self.analysis.ascend(subject)? {
                    let changed = self.analysis.take_summaries_changed();
                    self.go(if changed { Phase::Revisit } else { Phase::Annotate { inside: false } });
                }
                Ok(HEAVY)
            }
            Phase::Revisit | Phase::Forget => self.revisit(subject),
            Phase::Annotate { inside } => self.annotate(subject, inside),
            Phase::Loops | Phase::Cost { .. } | Phase::Count => self.finish(subject),
            Phase::Done => Ok(0),
        }
    }

    fn go(&mut self, phase: Phase) {
        self.phase = phase;
        self.cursor = 0;
    }

    /// The passes over the program's encoding.
    fn shape(&mut self, subject: &mut Subject<'_, '_>) -> Result<u32, Refusal> {
        let index = self.cursor;
        let program = subject.program;
        if index >= program.slots() {
            return self.shape_done(subject);
        }
        self.cursor += 1;
        match self.phase {
            Phase::Clear => subject.storage.annotate(index, Annotation::default()),
            Phase::Scan => {
                let slots = structure::scan(program, index, subject.storage, &mut self.analysis.thresholds)?;
                self.cursor = index + slots;
            }
            Phase::Number => structure::number(program, index, subject.storage, &mut self.layout)?,
            Phase::Check => structure::check(program, subject.context, index, subject.storage)?,
            _ => {
                if structure::nest(program, index, subject.storage)? {
                    self.phase = Phase::Nest { grew: true };
                }
            }
        }
        Ok(LIGHT)
    }

    fn shape_done(&mut self, subject: &mut Subject<'_, '_>) -> Result<u32, Refusal> {
        match self.phase {
            Phase::Clear => self.go(Phase::Scan),
            Phase::Scan => self.go(Phase::Number),
            Phase::Number => {
                self.go(Phase::Check);
                // The tables grow now: the next step cuts them anew.
                return Ok(0);
            }
            Phase::Check | Phase::Nest { grew: true } => self.go(Phase::Nest { grew: false }),
            _ => {
                self.analysis.start(subject);
                self.go(Phase::Ascend);
            }
        }
        Ok(HEAVY)
    }

    /// Callers of functions whose results changed are looked at again.
    fn revisit(&mut self, subject: &mut Subject<'_, '_>) -> Result<u32, Refusal> {
        let index = self.cursor;
        self.cursor += 1;
        if self.phase == Phase::Revisit {
            if index < subject.program.slots() {
                self.analysis.revisit_call(subject, index)?;
            } else {
                self.go(Phase::Forget);
            }
        } else if index < subject.storage.function_count() {
            subject.storage.forget_change(index);
        } else {
            self.go(Phase::Ascend);
        }
        Ok(LIGHT)
    }

    fn annotate(&mut self, subject: &mut Subject<'_, '_>, inside: bool) -> Result<u32, Refusal> {
        if inside {
            let more = self.analysis.annotate(subject)?;
            self.phase = Phase::Annotate { inside: more };
        } else if self.cursor < subject.storage.join_count() {
            let reached = self.analysis.start_annotating(subject, self.cursor);
            self.cursor += 1;
            self.phase = Phase::Annotate { inside: reached };
        } else {
            self.go(Phase::Loops);
            subject.storage.weights.fill(1);
        }
        Ok(HEAVY)
    }

    fn finish(&mut self, subject: &mut Subject<'_, '_>) -> Result<u32, Refusal> {
        match self.phase {
            Phase::Loops => {
                if !self.loops.advance(subject)? {
                    let bounded = self.loops.unbounded.is_none();
                    self.go(if bounded { Phase::Cost { level: 1 } } else { Phase::Count });
                }
            }
            Phase::Cost { level } => {
                if self.cursor < subject.program.slots() {
                    loops::add_cost(subject, self.cursor, level)?;
                    self.cursor += 1;
                } else {
                    let deepest = level >= subject.storage.frames(0);
                    self.go(if deepest { Phase::Count } else { Phase::Cost { level: level + 1 } });
                }
            }
            _ if self.cursor < subject.program.slots() => self.count(subject)?,
            _ => self.conclude(subject)?,
        }
        Ok(LIGHT)
    }

    /// Counts what remains to be checked.
    fn count(&mut self, subject: &Subject<'_, '_>) -> Result<(), Refusal> {
        let index = self.cursor;
        self.cursor += 1;
        let note = subject.storage.annotation(index);
        if !note.has(Annotation::REACHED) {
            return Ok(());
        }
        self.verdict.checked_arguments += note.argument_checks();
        let instruction = structure::decode(subject.program, index)?;
        if let Instruction::Load { .. } | Instruction::Store { .. } | Instruction::Atomic { .. } = instruction {
            self.verdict.accesses += 1;
            match note.protection() {
                Protection::Proven => {}
                Protection::Masked => self.verdict.masked += 1,
                Protection::Checked => self.verdict.checked += 1,
            }
        }
        Ok(())
    }

    fn conclude(&mut self, subject: &Subject<'_, '_>) -> Result<(), Refusal> {
        let cost = subject.storage.cost(0);
        let within = self.loops.unbounded.is_none() && cost <= subject.context.budget;
        if subject.context.strict && !within {
            return Err(Refusal::at(self.loops.unbounded.unwrap_or(0), Reason::LoopNotProven));
        }
        self.verdict.layout = self.layout;
        self.verdict.stack = subject.storage.frames(0) as u32 * FRAME_SIZE;
        self.verdict.worst_case = within.then_some(cost);
        self.phase = Phase::Done;
        Ok(())
    }
}

/// An accepted program with what was found out about it: input of the compiler, and of tools that list its checks.
#[derive(Clone, Copy)]
pub struct Verified<'a> {
    pub(crate) program: Program<'a>,
    pub(crate) context: &'a Context<'a>,
    words: &'a [u64],
    /// The verdict.
    pub verdict: Verdict,
}

impl<'a> Verified<'a> {
    /// Puts together the program, context and words of a verification and the verdict it came to. `None` if they
    /// cannot belong together.
    pub fn new(program: Program<'a>, context: &'a Context<'a>, words: &'a [u64], verdict: Verdict) -> Option<Self> {
        let fits = program.slots() == verdict.layout.slots && words.len() >= verdict.layout.needed();
        fits.then_some(Self { program, context, words, verdict })
    }

    pub(crate) fn annotation(&self, index: usize) -> Annotation {
        Annotation(self.words[..self.slots()].get(index).copied().unwrap_or(0))
    }

    /// Slots of the program.
    pub fn slots(&self) -> usize {
        self.verdict.layout.slots
    }

    /// Whether any run can execute the instruction at `index`.
    pub fn is_reached(&self, index: usize) -> bool {
        self.annotation(index).has(Annotation::REACHED)
    }

    /// For a reachable load, store or atomic operation: what memory it touches and what keeps it inside.
    pub fn access(&self, index: usize) -> Option<(Space, Protection)> {
        let note = self.annotation(index);
        if !note.has(Annotation::REACHED) || note.has(Annotation::SECOND_HALF) {
            return None;
        }
        match Instruction::decode(self.program, index).ok()? {
            Instruction::Load { .. } | Instruction::Store { .. } | Instruction::Atomic { .. } => {
                Some((note.space(), note.protection()))
            }
            _ => None,
        }
    }

    /// How many arguments of the helper call at `index` are checked at run time.
    pub fn checked_arguments(&self, index: usize) -> u32 {
        let note = self.annotation(index);
        if note.has(Annotation::REACHED) { note.argument_checks() } else { 0 }
    }

    /// Number of the function that a slot belongs to; 0 is the first.
    pub(crate) fn function_of(&self, index: usize) -> usize {
        storage::function_of(self.words, &self.verdict.layout, index)
    }

    /// Slots of the function that a slot belongs to.
    pub(crate) fn function_length(&self, index: usize) -> usize {
        let function = self.function_of(index);
        let start = |function| storage::function_start(self.words, &self.verdict.layout, function);
        start(function + 1) - start(function)
    }

    /// Whether the budget is counted at run time.
    pub fn counts_budget(&self) -> bool {
        self.verdict.worst_case.is_none()
    }
}
