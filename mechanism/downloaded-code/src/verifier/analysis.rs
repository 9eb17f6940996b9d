//! The fixed point: states flow along the program until they no longer change.
//!
//! Before each instruction where paths can meet (targets, function starts, calls of functions) the state that
//! covers all paths is kept. Work is always taken from the first place that changed, so that what is before a loop
//! settles before it. At loop heads growing ranges are widened; after [`PATIENCE`] units of work everything that
//! still changes is given up. So each place changes a bounded number of times and the whole work is bounded by the
//! program's length.

use core::cell::Cell;

use super::annotation::Annotation;
use super::merge::{Effort, Thresholds, merge_values};
use super::scalar::Scalar;
use super::state::{Merge, Part, STATE_WORDS, State};
use super::storage::Storage;
use super::structure::decode;
use super::transfer::Transfer;
use super::truncation::truncation;
use super::value::{Kind, Value};
use crate::context::{Argument, Context, MAX_REGIONS};
use crate::instruction::{Instruction, Operand};
use crate::invocation::NEAR;
use crate::program::Program;
use crate::refusal::{Reason, Refusal};

/// Where growing ranges may rest in every program. These are what fits into a size, and offsets of pointers that a
/// loop moves past a region's end while they can still be compared with it.
const THRESHOLDS: [u64; 7] =
    [0xff, 0xffff, NEAR / 2, i32::MAX as u64 - 1, i32::MAX as u64, u32::MAX as u64, i64::MAX as u64];
/// Units of work after which whatever changes is given up.
const PATIENCE: u32 = 400_000;
/// Units of work that no program reaches; a bound all the same.
const LIMIT: u32 = 1_900_000;
/// Visits of a loop head that keep all that is known.
const EXACT_VISITS: u32 = 4;
/// Visits of a loop head after which changes are given up.
const WIDENED_VISITS: u32 = 24;
/// Visits of any other place after which changes are given up.
const MERGED_VISITS: u32 = 256;

/// The program and context under analysis, with their tables.
pub(crate) struct Subject<'a, 's> {
    pub(crate) program: Program<'a>,
    pub(crate) context: &'a Context<'a>,
    pub(crate) storage: &'a mut Storage<'s>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Taking a place whose state changed.
    Choose,
    /// The instruction at an index, with the state in hand.
    Execute(usize),
    /// A part of the state in hand meets others at a target; then, if there is one, the instruction with the other
    /// state.
    Meet { target: usize, part: Part, then: Option<usize> },
}

/// Where the analysis is: the state in hand, and scratch for two more.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    state: State,
    other: State,
    next: Next,
    units: u32,
    summaries_changed: bool,
    /// The meeting in hand changed what is kept.
    changed: bool,
    /// States are final; annotations are being written.
    settled: bool,
    pub(crate) thresholds: Thresholds,
}

impl Analysis {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::EMPTY,
            other: State::EMPTY,
            next: Next::Choose,
            units: 0,
            summaries_changed: false,
            changed: false,
            settled: false,
            thresholds: Thresholds::new(),
        }
    }

    /// Puts the state that the context promises before the first instruction.
    pub(crate) fn start(&mut self, subject: &mut Subject<'_, '_>) {
        for threshold in THRESHOLDS {
            self.thresholds.add(threshold);
        }
        self.state = State::EMPTY;
        self.state.proven = minimum_lengths(subject.context);
        for (index, argument) in subject.context.arguments.iter().enumerate() {
            let value = initial_value(subject.context, argument);
            self.state.set_register(index as u8 + 1, value);
        }
        self.next = Next::Meet { target: 0, part: Part::Bonds, then: None };
    }

    /// One unit of the ascending phase. `false` when nothing is left to do.
    pub(crate) fn ascend(&mut self, subject: &mut Subject<'_, '_>) -> Result<bool, Refusal> {
        self.units += 1;
        match self.next {
            Next::Execute(index) if self.units > LIMIT => return Err(Refusal::at(index, Reason::TooComplex)),
            Next::Execute(index) => self.execute(subject, index)?,
            Next::Meet { target, part, then } => match self.meet(subject, target, part) {
                Some(part) => self.next = Next::Meet { target, part, then },
                None => self.go_on(subject, then),
            },
            Next::Choose => {
                let Some(join) = subject.storage.take_dirty() else { return Ok(false) };
                self.enter(subject, join);
            }
        }
        Ok(true)
    }

    /// Whether results of functions changed since their callers were last looked at.
    pub(crate) fn take_summaries_changed(&mut self) -> bool {
        core::mem::take(&mut self.summaries_changed)
    }

    /// Marks a call for another look when what it calls changed.
    pub(crate) fn revisit_call(&mut self, subject: &mut Subject<'_, '_>, index: usize) -> Result<(), Refusal> {
        let Some(join) = subject.storage.join_at(index) else { return Ok(()) };
        if subject.storage.join_visits(join) == 0 {
            return Ok(());
        }
        if let Instruction::CallFunction { target } = decode(subject.program, index)? {
            let callee = subject.storage.function_of(target as usize);
            if subject.storage.summary_changed(callee) {
                subject.storage.set_dirty(join);
            }
        }
        Ok(())
    }

    /// Starts the annotation of the instructions after a meeting place. `false` if no path leads there.
    pub(crate) fn start_annotating(&mut self, subject: &mut Subject<'_, '_>, join: usize) -> bool {
        self.settled = true;
        let reached = subject.storage.join_visits(join) > 0;
        if reached {
            self.enter(subject, join);
        }
        reached
    }

    /// Annotates one instruction. `false` when the next meeting place, or the end of a path, is reached.
    pub(crate) fn annotate(&mut self, subject: &mut Subject<'_, '_>) -> Result<bool, Refusal> {
        if let Next::Execute(index) = self.next {
            self.execute(subject, index)?;
        }
        Ok(matches!(self.next, Next::Execute(_)))
    }

    fn enter(&mut self, subject: &mut Subject<'_, '_>, join: usize) {
        if let Some(words) = subject.storage.packed_state(join) {
            self.state.load(words);
        }
        self.next = Next::Execute(subject.storage.join_index(join));
    }

    fn execute(&mut self, subject: &mut Subject<'_, '_>, index: usize) -> Result<(), Refusal> {
        let first = decode(subject.program, index)?;
        let together = truncation(subject, index, &first);
        let (instruction, last) = together.map_or((first, index), |both| (both, index + 1));
        let next = last + instruction.slots();
        let mut transfer = Transfer {
            context: subject.context,
            state: &mut self.state,
            index,
            note: Annotation(Annotation::REACHED),
            zeros: Cell::new(0),
            settled: self.settled,
        };
        match instruction {
            Instruction::Jump { target } => {
                let note = transfer.note;
                self.note(subject, index, note, 0);
                self.flow(subject, target as usize, None);
            }
            Instruction::Branch { comparison, wide, left, right, target } => {
                let outcome = transfer.branch(comparison, wide, left, right)?;
                let (note, zeros) = (outcome.note(), transfer.zeros.get());
                self.note(subject, index, note, zeros);
                self.branch(subject, index, (left, right), outcome, target as usize);
            }
            Instruction::CallFunction { target } => self.call_function(subject, index, target as usize)?,
            Instruction::Exit => self.exit(subject, index)?,
            _ => {
                transfer.apply(&instruction)?;
                let (note, zeros) = (transfer.note, transfer.zeros.get());
                if last > index {
                    self.note(subject, index, Annotation(Annotation::REACHED), 0);
                }
                self.note(subject, last, note, zeros);
                self.advance(subject, next);
            }
        }
        Ok(())
    }

    /// Writes an annotation, in the last phase, and which zeros its function must start with.
    fn note(&mut self, subject: &mut Subject<'_, '_>, index: usize, note: Annotation, zeros: u64) {
        if !self.settled {
            return;
        }
        let scanned = subject.storage.annotation(index).scanned();
        subject.storage.annotate(index, Annotation(scanned.0 | note.0));
        let function = subject.storage.function_of(index);
        subject.storage.mark(subject.storage.function_start(function), zeros);
    }

    fn branch(
        &mut self,
        subject: &mut Subject<'_, '_>,
        index: usize,
        operands: (u8, Operand),
        outcome: super::transfer::Outcome,
        target: usize,
    ) {
        self.other.clone_from(&self.state);
        if let Some(learnt) = outcome.not_taken {
            self.learn(subject, index, operands, &learnt);
        }
        core::mem::swap(&mut self.state, &mut self.other);
        let then = outcome.not_taken.map(|_| index + 1);
        match outcome.taken {
            Some(learnt) => {
                self.learn(subject, index, operands, &learnt);
                self.flow(subject, target, then);
            }
            None => self.go_on(subject, then),
        }
    }

    fn learn(&mut self, subject: &Subject<'_, '_>, index: usize, operands: (u8, Operand), learnt: &(Value, Value)) {
        let mut transfer = Transfer {
            context: subject.context,
            state: &mut self.state,
            index,
            note: Annotation::default(),
            zeros: Cell::new(0),
            settled: self.settled,
        };
        transfer.learn(operands.0, operands.1, learnt);
    }

    fn call_function(&mut self, subject: &mut Subject<'_, '_>, index: usize, target: usize) -> Result<(), Refusal> {
        let mut transfer = Transfer {
            context: subject.context,
            state: &mut self.state,
            index,
            note: Annotation(Annotation::REACHED),
            zeros: Cell::new(0),
            settled: self.settled,
        };
        transfer.enter_function(&mut self.other)?;
        let (note, zeros) = (transfer.note, transfer.zeros.get());
        self.note(subject, index, note, zeros);
        let result = subject.storage.summary(subject.storage.function_of(target));
        self.state.set_register(0, result.unwrap_or(Value::UNINITIALISED));
        core::mem::swap(&mut self.state, &mut self.other);
        self.flow(subject, target, result.map(|_| index + 1));
        Ok(())
    }

    fn exit(&mut self, subject: &mut Subject<'_, '_>, index: usize) -> Result<(), Refusal> {
        let result = self.state.register(0);
        let function = subject.storage.function_of(index);
        let refuse = |reason| {
            let known = result.known(0);
            Err(Refusal { instruction: index as u32, register: Some(0), known, reason })
        };
        match (function, result.kind) {
            (0, Kind::Uninitialised | Kind::Unwritten | Kind::DependsOnPath) => {
                return refuse(Reason::NeedsInitialised);
            }
            (0, Kind::Number) => {}
            (0, _) | (_, Kind::Stack | Kind::CallersStack { .. }) => return refuse(Reason::ReturnsPointer),
            // Results of different calls are no copies of each other.
            _ => self.merge_summary(subject, function, &Value { origin: None, ..result.seen_outside() }),
        }
        let zeros = if function == 0 && result.assumed { Annotation::ZERO_REGISTERS } else { 0 };
        self.note(subject, index, Annotation(Annotation::REACHED), zeros);
        self.next = Next::Choose;
        Ok(())
    }

    fn merge_summary(&mut self, subject: &mut Subject<'_, '_>, function: usize, result: &Value) {
        if self.settled {
            return;
        }
        let none = [0; MAX_REGIONS];
        let merged = match subject.storage.summary(function) {
            None => *result,
            Some(old) if old == *result => old,
            Some(old) => {
                let pair = Merge { old, new: *result, old_proven: &none, new_proven: &none };
                let patience = u64::from(EXACT_VISITS * 4);
                let hasty = self.units > PATIENCE || subject.storage.summary_merges(function) > patience;
                let effort = if hasty { Effort::GiveUp } else { Effort::Exact };
                merge_values(&pair, effort, &self.thresholds)
            }
        };
        if subject.storage.summary(function) != Some(merged) {
            subject.storage.set_summary(function, &merged);
            self.summaries_changed = true;
        }
    }

    /// Continues with the next instruction, or meets other paths there.
    fn advance(&mut self, subject: &mut Subject<'_, '_>, next: usize) {
        if subject.storage.join_at(next).is_some() {
            self.flow(subject, next, None);
        } else {
            self.next = Next::Execute(next);
        }
    }

    /// Continues with the other state, if there is anything to do with it.
    fn go_on(&mut self, subject: &mut Subject<'_, '_>, then: Option<usize>) {
        self.next = Next::Choose;
        if let Some(index) = then {
            core::mem::swap(&mut self.state, &mut self.other);
            self.advance(subject, index);
        }
    }

    /// The state in hand is on its way to a meeting place, after which the other state continues at `then`.
    fn flow(&mut self, subject: &mut Subject<'_, '_>, target: usize, then: Option<usize>) {
        if self.settled {
            self.go_on(subject, then);
        } else {
            self.changed = false;
            self.next = Next::Meet { target, part: Part::Bonds, then };
        }
    }

    /// A part of the state in hand reaches a meeting place. Returns the next part, if there is one.
    fn meet(&mut self, subject: &mut Subject<'_, '_>, target: usize, part: Part) -> Option<Part> {
        let join = subject.storage.join_at(target)?;
        let visits = subject.storage.join_visits(join);
        let head = subject.storage.annotation(target).has(Annotation::LOOP_HEAD);
        let effort = self.effort(visits, head);
        let floor = minimum_lengths(subject.context);
        let words = subject.storage.packed_state(join)?;
        let next = if visits == 0 {
            self.state.store(words);
            self.changed = true;
            None
        } else {
            self.changed |= self.merge_into(words, part, effort, &floor);
            part.next()
        };
        if self.changed && next.is_none() {
            subject.storage.count_visit(join);
            subject.storage.set_dirty(join);
        }
        next
    }

    fn merge_into(
        &mut self,
        words: &mut [u64; STATE_WORDS],
        part: Part,
        effort: Effort,
        floor: &[u32; MAX_REGIONS],
    ) -> bool {
        let mut old = State::EMPTY;
        old.load(words);
        let thresholds = &self.thresholds;
        let mut changed = old.merge(&self.state, part, effort, |pair| merge_values(pair, effort, thresholds));
        if part == Part::HighSlots {
            changed |= old.merge_proven(&self.state, (effort != Effort::Exact).then_some(floor));
        }
        if changed {
            old.store(words);
        }
        changed
    }

    fn effort(&self, visits: u32, loop_head: bool) -> Effort {
        let (exact, widened) = if loop_head { (EXACT_VISITS, WIDENED_VISITS) } else { (MERGED_VISITS, MERGED_VISITS) };
        match visits {
            _ if self.units > PATIENCE => Effort::GiveUp,
            visits if visits < exact => Effort::Exact,
            visits if visits < widened => Effort::Widen,
            _ => Effort::GiveUp,
        }
    }
}

fn minimum_lengths(context: &Context<'_>) -> [u32; MAX_REGIONS] {
    core::array::from_fn(|index| context.regions.get(index).map_or(0, |region| region.minimum()))
}

/// What an argument register holds at the start.
fn initial_value(context: &Context<'_>, argument: &Argument) -> Value {
    let relation = |region: u8| super::value::Relation { region, exact: true, untaught: true, slack: 0 };
    let length = |region: u8| {
        let described = &context.regions[usize::from(region)];
        Scalar::range(described.minimum().into(), described.maximum().into())
    };
    match *argument {
        Argument::Pointer(region) => Value::pointer(Kind::Region(region), 0),
        Argument::End(region) => {
            Value { kind: Kind::Region(region), relation: Some(relation(region)), ..Value::number(length(region)) }
        }
        Argument::Length(region) => Value { relation: Some(relation(region)), ..Value::number(length(region)) },
        Argument::Scalar { minimum, maximum } => Value::number(Scalar::range(minimum, maximum)),
    }
}
