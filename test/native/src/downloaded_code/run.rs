//! One case: a program is verified, compiled and run on inputs, and every run compared with the interpreter's.

use std::sync::atomic::Ordering;

use downloaded_code::compiler::{self, Compiler, Request};
use downloaded_code::context::{Context, MAX_REGIONS};
use downloaded_code::interpreter::{Ending, Helpers, Interpreter};
use downloaded_code::invocation::{Invocation, RegionEntry, Stop};
use downloaded_code::program::{MAX_INSTRUCTIONS, Program};
use downloaded_code::refusal::{Reason, Refusal};
use downloaded_code::verifier::{Verdict, Verified, Verifier};

use super::memory::{CASE, Code, Guarded};
use super::misprediction::{Report, run_mispredicting};
use super::random::Random;

/// Inputs of one run.
#[derive(Clone, Debug)]
pub struct Input {
    /// Contents of the regions.
    pub regions: Vec<Vec<u8>>,
    /// Scalar arguments.
    pub scalars: [u64; 5],
}

impl Input {
    /// Random inputs that agree with a context.
    pub fn random(context: &Context<'_>, random: &mut Random) -> Self {
        let regions = context.regions.iter().map(|region| {
            let (least, most) = (u64::from(region.minimum()), u64::from(region.maximum()));
            let length = match random.below(4) {
                0 => least,
                1 => most,
                _ => least + random.below(most - least + 1),
            };
            let mut bytes = vec![0; length as usize];
            random.fill(&mut bytes);
            bytes
        });
        let regions = regions.collect();
        let scalars = std::array::from_fn(|index| match context.arguments.get(index) {
            Some(downloaded_code::context::Argument::Scalar { minimum, maximum }) => {
                let span = (maximum - minimum).saturating_add(1);
                minimum + random.below(span)
            }
            _ => 0,
        });
        Self { regions, scalars }
    }
}

/// What a run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Result_ {
    /// Why it ended.
    pub stop: Stop,
    /// Where, if it did not finish.
    pub instruction: Option<usize>,
    /// r0, if it finished.
    pub value: u64,
    /// Contents of the regions.
    pub regions: Vec<Vec<u8>>,
}

/// A record, with where its regions and its stack lie.
struct Laid {
    record: Invocation,
    offsets: Vec<usize>,
    stack: Vec<u8>,
    stack_offset: usize,
}

/// A program that was accepted and compiled, with what its runs draw numbers from.
struct Case<'p> {
    program: Program<'p>,
    verdict: Verdict,
    random: Random,
    size: usize,
}

/// Memory that cases use one after the other.
pub struct Bench {
    words: Vec<u64>,
    labels: Vec<u64>,
    code: Code,
    regions: Vec<Guarded>,
    stack: Guarded,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// Room for programs of a few hundred instructions.
    pub fn new() -> Self {
        Self {
            words: vec![0; 1 << 16],
            labels: vec![0; compiler::label_words(MAX_INSTRUCTIONS)],
            code: Code::new(1 << 15),
            regions: (0..MAX_REGIONS).map(|_| Guarded::new(4096)).collect(),
            stack: Guarded::new(4096),
        }
    }

    /// Verifies, with as much storage as it takes.
    pub fn verify(&mut self, program: Program<'_>, context: &Context<'_>) -> Result<Verdict, Refusal> {
        match Verifier::run(program, context, &mut self.words) {
            Err(Refusal { reason: Reason::StorageTooSmall { needed }, .. }) => {
                self.words.resize(needed, 0);
                Verifier::run(program, context, &mut self.words)
            }
            other => other,
        }
    }

    /// Compiles what was verified last into the code pages. Returns the size.
    ///
    /// # Panics
    /// Compiling fails.
    pub fn compile(
        &mut self,
        program: Program<'_>,
        context: &Context<'_>,
        verdict: Verdict,
        helpers: &[u64],
        blinding: Option<u64>,
    ) -> usize {
        let verified = Verified::new(program, context, &self.words, verdict).expect("they belong together");
        let request = Request { helpers, code_address: Some(self.code.address()), blinding };
        let labels = &mut self.labels;
        let size = self.code.write(|bytes| Compiler::run(&verified, &request, bytes, labels).expect("compiles"));
        if let Some(path) = std::env::var_os("CHITIN_CODE") {
            let mut bytes = vec![0; size];
            Compiler::run(&verified, &request, &mut bytes, labels).expect("compiles");
            std::fs::write(path, bytes).expect("a file for the code");
        }
        // Exactly the size that was announced is enough, one byte less is not.
        debug_assert!(Compiler::run(&verified, &request, &mut vec![0; size], labels).is_ok());
        size
    }

    /// Puts regions and stack between guard pages, and fills a record.
    fn lay_out(
        &mut self,
        context: &Context<'_>,
        verdict: &Verdict,
        input: &Input,
        budget: u64,
        random: &mut Random,
    ) -> Laid {
        let mut record = Invocation { budget, scalars: input.scalars, ..Invocation::default() };
        let mut offsets = Vec::new();
        for (index, content) in input.regions.iter().enumerate() {
            let alignment = context.regions[index].alignment as usize;
            let offset = self.regions[index].put(content, random.once_in(2), alignment);
            let base = self.regions[index].address() + offset as u64;
            record.regions[index] = RegionEntry::new(base, content.len() as u32);
            offsets.push(offset);
        }
        let mut stack = vec![0; verdict.stack as usize];
        random.fill(&mut stack);
        let stack_offset = self.stack.put(&stack, true, 8);
        record.stack_top = self.stack.address() + (stack_offset + stack.len()) as u64;
        assert!(record.agrees_with(context), "{record:?}");
        Laid { record, offsets, stack, stack_offset }
    }

    /// Verifies and compiles a case, of which every second has its constants hidden if they `may_hide`. `None` when the
    /// program is refused.
    fn prepare<'p>(
        &mut self,
        bytes: &'p [u8],
        context: &Context<'_>,
        helpers: &[u64],
        seed: u64,
        may_hide: bool,
    ) -> Option<Case<'p>> {
        CASE.store(seed, Ordering::Relaxed);
        let program = Program::new(bytes).ok()?;
        let refused = |refusal: Refusal| {
            if std::env::var_os("CHITIN_SHOW").is_some() {
                eprintln!("refused: {}", refusal.describe(context));
            }
        };
        let verdict = self.verify(program, context).map_err(refused).ok()?;
        let mut random = Random::new(seed ^ 0x5eed);
        let blinding = (may_hide && random.once_in(2)).then(|| random.word());
        let size = self.compile(program, context, verdict, helpers, blinding);
        Some(Case { program, verdict, random, size })
    }

    /// Runs a program as a processor would that mispredicts jumps, some times on inputs of its own. `Ok(None)` when the
    /// program is refused. `Err` says what could be seen of memory outside, or was written there.
    pub fn mispredict(
        &mut self,
        bytes: &[u8],
        context: &Context<'_>,
        helpers: &[u64],
        seed: u64,
        runs: usize,
    ) -> Result<Option<(Verdict, Report)>, String> {
        let Some(Case { verdict, mut random, size, .. }) = self.prepare(bytes, context, helpers, seed, false) else {
            return Ok(None);
        };
        let code = self.code.bytes(size).to_vec();
        let mut total = Report::default();
        for run in 0..runs {
            let input = Input::random(context, &mut random);
            let Laid { mut record, .. } = self.lay_out(context, &verdict, &input, context.budget, &mut random);
            let regions = record.regions.iter().map(|region| (region.base, region.base + region.length()));
            let mut memory: Vec<(u64, u64)> = regions.collect();
            memory.push((record.stack_top - u64::from(verdict.stack), record.stack_top));
            let turns = Random::new(seed.wrapping_add(run as u64));
            let report = run_mispredicting(self.code.address(), &code, &memory, turns, || {
                // SAFETY: the code was just compiled for this context, with which the record agrees.
                let _ = unsafe { self.code.call(&raw mut record) };
            });
            if let Some((what, offset)) = report.problem {
                return Err(format!("{what}, at offset {offset:#x} of the code, input {input:x?}"));
            }
            total.mispredicted += report.mispredicted;
            total.outside += report.outside;
        }
        Ok(Some((verdict, total)))
    }

    /// Runs the compiled code under guard pages. `Err` says what it touched that it must not.
    ///
    /// # Panics
    /// The input does not agree with the context.
    pub fn run(
        &mut self,
        context: &Context<'_>,
        verdict: &Verdict,
        input: &Input,
        budget: u64,
        random: &mut Random,
    ) -> Result<(Result_, u64), String> {
        let Laid { mut record, offsets, mut stack, stack_offset } =
            self.lay_out(context, verdict, input, budget, random);
        // SAFETY: the code was just compiled for this context, with which the record agrees.
        let value = unsafe { self.code.call_watched(&raw mut record) };
        let stop = record.outcome();
        let mut regions = input.regions.clone();
        for (index, content) in regions.iter_mut().enumerate() {
            if !self.regions[index].take(offsets[index], content) {
                return Err(format!("wrote beside region {}", context.regions[index].name));
            }
        }
        if !self.stack.take(stack_offset, &mut stack) {
            return Err("wrote below the stack".into());
        }
        let finished = stop == Stop::Finished;
        let instruction = (!finished).then_some(record.stop_instruction as usize);
        Ok((Result_ { stop, instruction, value, regions }, record.budget))
    }

    /// Runs a whole case. `Ok(None)` when the program is refused, else how many runs finished.
    pub fn case(
        &mut self,
        bytes: &[u8],
        context: &Context<'_>,
        helpers: &[u64],
        seed: u64,
        runs: usize,
    ) -> Result<Option<Counts>, String> {
        let Some(Case { program, verdict, mut random, .. }) = self.prepare(bytes, context, helpers, seed, true) else {
            return Ok(None);
        };
        let mut counts = Counts { verdict, ..Counts::new(verdict) };
        for _ in 0..runs {
            let input = Input::random(context, &mut random);
            let expected = interpret(program, context, &input, context.budget, &mut super::helpers::Interpreted)?;
            let (got, budget) = self.run(context, &verdict, &input, context.budget, &mut random)?;
            if got != expected.0 {
                return Err(format!("compiled {got:x?}\ninterpreted {:x?}\ninput {input:x?}", expected.0));
            }
            if verdict.worst_case.is_none() && budget != expected.1 {
                return Err(format!("budget left: compiled {budget}, interpreted {}", expected.1));
            }
            let bound = verdict.worst_case.unwrap_or(context.budget);
            if expected.2 > bound {
                return Err(format!("executed {} of at most {bound} instructions", expected.2));
            }
            counts.count(got.stop);
        }
        Ok(Some(counts))
    }
}

/// Runs the interpreter. `Err` when something happens that the verifier must prevent. Returns what is left, the budget
/// and how many instructions were executed.
pub fn interpret(
    program: Program<'_>,
    context: &Context<'_>,
    input: &Input,
    budget: u64,
    helpers: &mut impl Helpers,
) -> Result<(Result_, u64, u64), String> {
    let mut regions = input.regions.clone();
    let outcome = {
        let mut slices: Vec<&mut [u8]> = regions.iter_mut().map(Vec::as_mut_slice).collect();
        Interpreter::new(program, context, &mut slices, &input.scalars, budget).run(helpers)
    };
    match outcome.ending {
        Ending::Fault(fault) => Err(format!("{fault:?} at instruction {}", outcome.instruction)),
        Ending::Stopped(stop) => {
            let instruction = (stop != Stop::Finished).then_some(outcome.instruction);
            let result = Result_ { stop, instruction, value: outcome.result, regions };
            Ok((result, outcome.budget, outcome.executed))
        }
    }
}

/// What came of the runs of a case.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// What the verifier said.
    pub verdict: Verdict,
    /// Runs that finished.
    pub finished: u64,
    /// Runs that a check stopped.
    pub stopped: u64,
    /// Runs whose budget was spent.
    pub spent: u64,
}

impl Counts {
    fn new(verdict: Verdict) -> Self {
        Self { verdict, finished: 0, stopped: 0, spent: 0 }
    }

    fn count(&mut self, stop: Stop) {
        match stop {
            Stop::Finished => self.finished += 1,
            Stop::BudgetSpent => self.spent += 1,
            _ => self.stopped += 1,
        }
    }
}

/// A program as text, one slot a line: for reports.
pub fn listing(bytes: &[u8]) -> String {
    let Ok(program) = Program::new(bytes) else { return "not whole slots".into() };
    let line = |index| {
        let instruction = downloaded_code::instruction::Instruction::decode(program, index);
        format!("{index:4}: {instruction:?}\n")
    };
    (0..program.slots()).map(line).collect()
}
