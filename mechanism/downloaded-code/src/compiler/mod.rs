//! The compiler: from a verified program to x86-64 machine code in the caller's buffer.
//!
//! A look over the program finds what it takes of the machine ([`shape`]). Then two passes emit the same code; the
//! first only counts, so that the size is known exactly, and every jump's target too, before anything is written. The
//! code is position independent, and reached at its first byte by the convention of [`crate::invocation`]. Nothing need
//! ever be both writable and executable: the caller compiles into a buffer and makes it executable afterwards.
//!
//! What each part of the guarantee rests on here:
//! - checks: [`memory`] and [`call`] emit one where the verifier says
//!   [`Protection::Checked`](crate::verifier::Protection);
//! - speculation: what accesses do that hold only because of a branch is masked by data flow, not by a branch;
//! - the budget: charged at entry, on backward jumps and on calls, unless the verifier proved a bound;
//! - constants: with a blinding seed, no constant of the program longer than a byte appears in the code as it is
//!   (FAULTS row 55). Displacements of loads and stores have 16 bits of the program's choosing.

mod arithmetic;
mod call;
mod frame;
mod jump;
mod layout;
mod limit;
mod memory;
mod shape;

use core::fmt;

use layout::Labels;
use shape::Shape;

use crate::context::Speculation;
use crate::instruction::Instruction;
use crate::verifier::{Annotation, Verdict, Verified};
use crate::x86_64::{Assembler, EmitError};

/// Slots that one step looks at.
const SLOTS_A_STEP: usize = 16;
/// Label words that one step clears.
const LABELS_A_STEP: usize = 1024;

/// Bytes of code at a loop's head that are kept in one line: a loop of a few instructions takes twice as long from two.
const SMALL_LOOP: usize = 32;

/// Words for labels that compiling a program of `slots` slots takes.
pub const fn label_words(slots: usize) -> usize {
    Labels::count(slots)
}

/// How to compile.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Addresses of the helpers, in the order of the context's list: `extern "sysv64"` functions.
    pub helpers: &'a [u64],
    /// Where the code will run, if that is known: then helpers within ±2 GiB are called directly.
    pub code_address: Option<u64>,
    /// A secret from which the keys are made that hide the program's constants.
    pub blinding: Option<u64>,
}

/// Why a program could not be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// The code did not fit, or could not be encoded.
    Emit(EmitError),
    /// The request gives no address for a helper.
    NoHelperAddress {
        /// Number of the helper.
        number: u32,
    },
    /// There are too few label words.
    TooFewLabels {
        /// Words needed.
        needed: usize,
        /// Words given.
        available: usize,
    },
    /// The verified program does not decode: its bytes were changed.
    ProgramChanged,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Emit(error) => error.fmt(f),
            Self::NoHelperAddress { number } => write!(f, "no address was given for helper {number}"),
            Self::TooFewLabels { needed, available } => {
                write!(f, "compiling needs {needed} words for labels, there are {available}")
            }
            Self::ProgramChanged => f.write_str("the program was changed after it was verified"),
        }
    }
}

impl From<EmitError> for CompileError {
    fn from(error: EmitError) -> Self {
        Self::Emit(error)
    }
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    Again,
    /// The code is in the buffer.
    Done {
        /// Bytes of code.
        size: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Clear,
    Look,
    Measure,
    Emit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Start,
    Body,
    Exits,
}

/// A compilation under way.
#[derive(Clone, Debug)]
pub struct Compiler {
    pass: Pass,
    part: Part,
    cursor: usize,
    position: usize,
    shape: Shape,
}

impl Default for Compiler {
    fn default() -> Self {
        Self::new()
    }
}

impl Compiler {
    /// At the beginning.
    pub const fn new() -> Self {
        Self { pass: Pass::Clear, part: Part::Start, cursor: 0, position: 0, shape: Shape::new() }
    }

    /// Does one step of bounded work. The same arguments must be given each time.
    pub fn step(
        &mut self,
        verified: &Verified<'_>,
        request: &Request<'_>,
        code: &mut [u8],
        labels: &mut [u64],
    ) -> Result<Progress, CompileError> {
        let needed = label_words(verified.slots());
        let available = labels.len();
        let labels = labels.get_mut(..needed).ok_or(CompileError::TooFewLabels { needed, available })?;
        if self.pass == Pass::Clear {
            self.clear(labels);
            return Ok(Progress::Again);
        }
        if self.pass == Pass::Look {
            return self.look(verified);
        }
        let buffer = if self.pass == Pass::Measure { &mut [] } else { &mut *code };
        let mut assembler = Assembler::resume(buffer, labels, self.position);
        let names = Labels::new(verified.slots());
        let (shape, index) = (self.shape, self.cursor);
        let mut emitter =
            Emitter { assembler: &mut assembler, verified, request, labels: names, shape, index, keys: 0 };
        let finished = emitter.part(self.part, &mut self.cursor)?;
        if let Some(error) = assembler.error() {
            return Err(error.into());
        }
        self.position = assembler.position();
        if finished {
            return self.part_done(code.len());
        }
        Ok(Progress::Again)
    }

    fn clear(&mut self, labels: &mut [u64]) {
        let end = labels.len().min(self.cursor + LABELS_A_STEP);
        labels[self.cursor..end].fill(0);
        self.cursor = end;
        if end == labels.len() {
            (self.cursor, self.pass) = (0, Pass::Look);
        }
    }

    fn look(&mut self, verified: &Verified<'_>) -> Result<Progress, CompileError> {
        let end = verified.slots().min(self.cursor + SLOTS_A_STEP);
        for index in self.cursor..end {
            let note = verified.annotation(index);
            if note.has(Annotation::REACHED) && !note.has(Annotation::SECOND_HALF) {
                self.shape.add(verified.program, index, note)?;
            }
        }
        self.cursor = end;
        if end == verified.slots() {
            (self.cursor, self.pass) = (0, Pass::Measure);
        }
        Ok(Progress::Again)
    }

    fn part_done(&mut self, available: usize) -> Result<Progress, CompileError> {
        self.cursor = 0;
        self.part = match self.part {
            Part::Start => Part::Body,
            Part::Body => Part::Exits,
            Part::Exits => {
                let size = self.position;
                if size > available {
                    return Err(EmitError::BufferFull { needed: size, available }.into());
                }
                if self.pass == Pass::Emit {
                    return Ok(Progress::Done { size });
                }
                (self.pass, self.position) = (Pass::Emit, 0);
                Part::Start
            }
        };
        Ok(Progress::Again)
    }

    /// Runs all steps: for callers that need not interrupt it. Returns the size of the code in bytes.
    pub fn run(
        verified: &Verified<'_>,
        request: &Request<'_>,
        code: &mut [u8],
        labels: &mut [u64],
    ) -> Result<usize, CompileError> {
        let mut compiler = Self::new();
        loop {
            if let Progress::Done { size } = compiler.step(verified, request, code, labels)? {
                return Ok(size);
            }
        }
    }

    /// Offset in the code of the instruction at slot `index`, from the label words of a finished compilation.
    pub fn offset_of(labels: &mut [u64], index: usize) -> Option<usize> {
        let assembler = Assembler::new(&mut [], labels);
        assembler.offset_of(crate::x86_64::Label(index as u32))
    }
}

/// One step's view of everything.
struct Emitter<'e, 'b, 'v> {
    assembler: &'e mut Assembler<'b>,
    verified: &'e Verified<'v>,
    request: &'e Request<'e>,
    labels: Labels,
    shape: Shape,
    /// Slot of the instruction in hand.
    index: usize,
    /// Keys made for it so far.
    keys: u64,
}

impl Emitter<'_, '_, '_> {
    /// Emits some of a part. Says whether the part is finished.
    fn part(&mut self, part: Part, cursor: &mut usize) -> Result<bool, CompileError> {
        if part == Part::Start {
            self.enter();
            return Ok(true);
        }
        let slots = self.verified.slots();
        let end = slots.min(*cursor + SLOTS_A_STEP);
        while *cursor < end {
            (self.index, self.keys) = (*cursor, 0);
            *cursor += 1;
            match part {
                Part::Body => self.slot()?,
                _ => self.exits()?,
            }
        }
        if *cursor >= slots && part == Part::Exits {
            self.ends();
        }
        Ok(*cursor >= slots)
    }

    fn note(&self) -> Annotation {
        self.verified.annotation(self.index)
    }

    /// Whether a register holds zero all the time, for masks.
    fn keeps_zero(&self) -> bool {
        let Verdict { masked, checked, .. } = self.verified.verdict;
        let masks = masked + checked > 0 && self.verified.context.speculation == Speculation::Masked;
        masks && !self.verified.counts_budget()
    }

    fn decode(&self) -> Result<Instruction, CompileError> {
        Instruction::decode(self.verified.program, self.index).map_err(|_| CompileError::ProgramChanged)
    }

    fn slot(&mut self) -> Result<(), CompileError> {
        let note = self.note();
        let reached = note.has(Annotation::REACHED) && !note.has(Annotation::SECOND_HALF);
        if reached && note.has(Annotation::FUNCTION) {
            self.assembler.bind(self.labels.entry(self.index));
            self.start_function();
        }
        if reached && note.has(Annotation::LOOP_HEAD) {
            self.assembler.keep_in_one_line(SMALL_LOOP);
        }
        self.assembler.bind(self.labels.slot(self.index));
        if !reached {
            return Ok(());
        }
        match self.decode()? {
            Instruction::Arithmetic { operation, wide, destination, operand } => {
                self.arithmetic(operation, wide, destination, operand);
            }
            Instruction::Negate { wide, destination } => self.negate(wide, destination),
            Instruction::ByteOrder { order, size, destination } => self.byte_order(order, size, destination),
            Instruction::LoadConstant { destination, value } => self.constant(layout::register(destination), value),
            Instruction::LoadRegion { destination, region, offset } => self.load_region(destination, region, offset),
            Instruction::Load { size, signed, destination, base, offset } => {
                self.load(size, signed, destination, base, offset);
            }
            Instruction::Store { size, base, offset, operand } => self.store(size, base, offset, operand),
            Instruction::Atomic { operation, fetch, size, base, offset, source } => {
                self.atomic(operation, fetch, size, base, offset, source);
            }
            Instruction::Jump { target } => self.jump(target as usize),
            Instruction::Branch { comparison, wide, left, right, target } => {
                self.branch(comparison, wide, left, right, target as usize);
            }
            Instruction::CallHelper { number } => self.call_helper(number)?,
            Instruction::CallFunction { target } => self.call_function(target as usize),
            Instruction::Exit => self.exit(),
        }
        Ok(())
    }
}
