//! Programs of templates: loading in steps, and runs of the compiled code.
//!
//! A program is copied from the template catalogue before it is verified. The verifier and the compiler work in steps;
//! the code goes into the arena of storage. XN decides by what the programs say.
//!
//! Invariants:
//! - a program runs only on copies, in memory that the kernel keeps for that;
//! - all runs of access programs in one call execute [`ACCESS_BUDGET`] BPF instructions at most together.

use abi::storage::PROGRAM;
use abi::{Error, Failure};
use core::cell::{Cell, RefCell};
use core::mem::offset_of;
use downloaded_code::compiler::{self, Compiler, label_words};
use downloaded_code::context::Context;
use downloaded_code::invocation::{Invocation, RegionEntry, STACK_SIZE, Stop};
use downloaded_code::program::Program;
use downloaded_code::verifier::{self, Verdict, Verified, Verifier};
use machine::boot_memory::BootMemory;
use machine::code_arena::{CallLog, CodeArena, RecordHead, note_call_address};
use xn::access::EVERYTHING;
use xn::claim::Claims;
use xn::error::{Error as XnError, Result as XnResult};
use xn::format::{BLOCK_SIZE, CONTENT, MAX_TEMPLATES, SECTOR_SIZE, SECTORS, TEMPLATE_BLOCKS, decode_template};
use xn::program::{ACCESS, OWNS, words_read};
use xn::template::{AccessStep, Programs as XnPrograms, Template};

/// BPF instructions of all runs of access programs in one call.
pub(crate) const ACCESS_BUDGET: u64 = 1024;
/// Words of the verifier, the compiler's labels, and bytes of code of one program.
const VERIFIER_WORDS: usize = 32 << 10;
const LABEL_SLOTS: usize = 1400;
const CODE_BYTES: usize = 32 << 10;
/// What a kernel lets access programs do.
const KERNEL_ACCESS: Context<'static> = Context { budget: ACCESS_BUDGET, ..ACCESS };

const _: () = {
    assert!(offset_of!(Invocation, stop) == offset_of!(RecordHead, stop));
    assert!(offset_of!(Invocation, helper_data) == offset_of!(RecordHead, helper_data));
};

/// Compiled code: where it begins, and the instructions that a run executes at most.
#[derive(Clone, Copy, Debug)]
struct Code {
    entry: usize,
    worst: u64,
    /// The budget is counted by the code itself.
    counts: bool,
    /// Words of the request that decide its result: see `xn::program::words_read`.
    reads: u32,
}

/// Memory of a run: what programs see lies here, in the direct map, far from both ends of the address space.
#[repr(C)]
struct Room {
    record: Invocation,
    log: CallLog,
    request: [u64; xn::access::REQUEST_WORDS],
    stack: [u64; STACK_SIZE / 8],
    sector: [u8; SECTOR_SIZE],
    old: [u8; 512],
    new: [u8; 512],
    scratch: [u8; 512],
    block: [u8; BLOCK_SIZE],
}

fn region(bytes: &[u8], length: usize) -> RegionEntry {
    RegionEntry::new(bytes.as_ptr() as u64, length as u32)
}

/// The programs of the open volume.
pub(crate) struct Programs {
    arena: CodeArena,
    codes: &'static mut [[Option<Code>; 2]],
    room: RefCell<&'static mut Room>,
    /// What is left to access programs in this call.
    left: Cell<u64>,
    /// Bytes of the arena in use.
    used: usize,
}

impl Programs {
    #[inline(never)]
    pub(crate) fn new(arena: CodeArena, memory: &mut BootMemory<'_>) -> Option<Self> {
        let room = memory.slice(1, || Room {
            record: Invocation::default(),
            log: CallLog::EMPTY,
            request: [0; xn::access::REQUEST_WORDS],
            stack: [0; STACK_SIZE / 8],
            sector: [0; SECTOR_SIZE],
            old: [0; 512],
            new: [0; 512],
            scratch: [0; 512],
            block: [0; BLOCK_SIZE],
        })?;
        let room = RefCell::new(room.first_mut()?);
        let codes = memory.slice(MAX_TEMPLATES, || [None; 2])?;
        Some(Self { arena, codes, room, left: Cell::new(0), used: 0 })
    }

    /// Forgets all programs: the volume is closed.
    pub(crate) fn clear(&mut self) {
        self.codes.fill([None; 2]);
        self.used = 0;
    }

    /// A call begins: its access programs have their whole budget.
    pub(crate) fn begin(&self) {
        self.left.set(ACCESS_BUDGET);
    }

    /// BPF instructions that a run of a template's owns program executes at most.
    pub(crate) fn worst_of_owns(&self, template: u8) -> u64 {
        self.codes.get(usize::from(template)).and_then(|codes| codes[0]).map_or(0, |code| code.worst)
    }

    fn run(&self, code: Code, budget: u64, context: &Context<'_>, room: &mut Room) -> Option<u64> {
        let record = &mut room.record;
        record.budget = budget;
        (record.stop, record.stop_instruction) = (0, 0);
        record.stack_top = room.stack.as_ptr() as u64 + STACK_SIZE as u64;
        assert!(record.agrees_with(context), "the room is what the context promises");
        let result = self.arena.run(code.entry, record, &mut room.log);
        (record.outcome() == Stop::Finished).then_some(result)
    }
}

impl XnPrograms for Programs {
    fn owns(&self, template: u8, content: &[u8; CONTENT], claims: &mut Claims) -> XnResult<()> {
        let code = self.codes.get(usize::from(template)).and_then(|codes| codes[0]);
        let code = code.ok_or(XnError::Program(template))?;
        let room = &mut **self.room.borrow_mut();
        room.sector[..CONTENT].copy_from_slice(content);
        room.record.regions[0] = region(&room.sector, CONTENT);
        self.run(code, OWNS.budget, &OWNS, room).ok_or(XnError::Program(template))?;
        room.log.calls().iter().try_for_each(|[first, count, child]| claims.own(*first, *count, *child as u8))
    }

    fn access(&self, template: u8, step: &AccessStep<'_>, scratch: &mut [u8; 512]) -> bool {
        let Some(code) = self.codes.get(usize::from(template)).and_then(|codes| codes[1]) else { return false };
        let left = self.left.get();
        if !code.counts && code.worst > left {
            return false;
        }
        let room = &mut **self.room.borrow_mut();
        room.request = *step.request;
        room.old[..step.old.len()].copy_from_slice(step.old);
        room.new[..step.new.len()].copy_from_slice(step.new);
        room.old[step.old.len()..].fill(0);
        room.new[step.new.len()..].fill(0);
        room.scratch = *scratch;
        room.block = *step.block;
        let request = RegionEntry::new(room.request.as_ptr() as u64, size_of_val(&room.request) as u32);
        let bytes = [(&room.old[..]), &room.new, &room.scratch].map(|bytes| region(bytes, 512));
        room.record.regions[0] = request;
        room.record.regions[1..4].copy_from_slice(&bytes);
        room.record.regions[4] = region(&room.block, BLOCK_SIZE);
        let result = self.run(code, left, &KERNEL_ACCESS, room);
        self.left.set(if code.counts { room.record.budget.min(left) } else { left - code.worst });
        *scratch = room.scratch;
        result.is_some_and(|result| result != 0)
    }

    fn reads(&self, template: u8) -> u32 {
        let code = self.codes.get(usize::from(template)).and_then(|codes| codes[1]);
        code.filter(|code| !code.counts).map_or(EVERYTHING, |code| code.reads)
    }
}

/// What is done next for a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is being loaded.
    Idle,
    /// This block of the slot is read next, or is being read.
    Read(usize),
    /// This program is being verified: owns, then access.
    Verify(usize),
    /// This program is being compiled.
    Compile(usize),
    /// Both programs are in the arena.
    Enter,
}

/// The template that is being loaded, and the memory for it.
pub(crate) struct Loader {
    pub(crate) slot: u8,
    pub(crate) stage: Stage,
    pub(crate) template: Template,
    bytes: &'static mut [u8],
    words: &'static mut [u64],
    labels: &'static mut [u64],
    code: &'static mut [u8],
    verifier: &'static mut Verifier,
    compiler: &'static mut Compiler,
    verdict: Option<Verdict>,
    /// Hides the constants of programs in their code.
    secret: u64,
}

/// Bytes of the programs of a slot.
const PROGRAM_BYTES: usize = (TEMPLATE_BLOCKS as usize * SECTORS - 1) * CONTENT;

impl Loader {
    #[inline(never)]
    pub(crate) fn new(memory: &mut BootMemory<'_>, secret: u64) -> Option<Self> {
        Some(Self {
            slot: 0,
            stage: Stage::Idle,
            template: Template::NONE,
            bytes: memory.slice(PROGRAM_BYTES, || 0)?,
            words: memory.slice(VERIFIER_WORDS, || 0)?,
            labels: memory.slice(label_words(LABEL_SLOTS), || 0)?,
            code: memory.slice(CODE_BYTES, || 0)?,
            verifier: memory.slice(1, Verifier::new)?.first_mut()?,
            compiler: memory.slice(1, Compiler::new)?.first_mut()?,
            verdict: None,
            secret,
        })
    }

    /// Takes in block `index` of the slot, whose checksums were verified.
    pub(crate) fn take(&mut self, index: usize, number: u64, block: &[u8; BLOCK_SIZE]) -> XnResult<()> {
        if index == 0 {
            self.template = decode_template(number, block)?;
        }
        for sector in usize::from(index == 0)..SECTORS {
            let place = (index * SECTORS + sector - 1) * CONTENT;
            self.bytes[place..place + CONTENT].copy_from_slice(&block[sector * SECTOR_SIZE..][..CONTENT]);
        }
        self.stage = Stage::Read(index + 1);
        if index + 1 == TEMPLATE_BLOCKS as usize {
            self.begin(0);
        }
        Ok(())
    }

    /// Begins with a program, or with the one behind it where the template has none.
    #[inline(never)]
    fn begin(&mut self, which: usize) {
        let sizes = [self.template.owns_size, self.template.access_size];
        self.stage = match sizes.iter().enumerate().skip(which).find(|(_, size)| **size > 0) {
            Some((which, _)) => Stage::Verify(which),
            None => Stage::Enter,
        };
        *self.verifier = Verifier::new();
        *self.compiler = Compiler::new();
        self.verdict = None;
    }

    /// One bounded step of verification or compilation.
    pub(crate) fn step(&mut self, programs: &mut Programs) -> Result<(), Failure> {
        let (Stage::Verify(which) | Stage::Compile(which)) = self.stage else { return Ok(()) };
        let owns = self.template.owns_size as usize;
        let range = [0..owns, owns..owns + self.template.access_size as usize][which].clone();
        let context = [&OWNS, &KERNEL_ACCESS][which];
        let slot = u64::from(self.slot);
        let refused = |instruction: u32| Error::BadArgument.about(PROGRAM | slot | u64::from(instruction) << 16);
        let bytes = self.bytes.get(range).ok_or(refused(0))?;
        let program = Program::new(bytes).map_err(|refusal| refused(refusal.instruction))?;
        if program.slots() > LABEL_SLOTS {
            return Err(Error::TooMany.about(LABEL_SLOTS as u64));
        }
        let Some(verdict) = self.verdict else {
            let progress = self.verifier.step(program, context, self.words);
            if let verifier::Progress::Accepted(verdict) = progress.map_err(|why| refused(why.instruction))? {
                (self.verdict, self.stage) = (Some(verdict), Stage::Compile(which));
            }
            return Ok(());
        };
        let verified = Verified::new(program, context, self.words, verdict).ok_or(refused(0))?;
        let helpers = [note_call_address()];
        let address = programs.arena.address(programs.used);
        let request = compiler::Request { helpers: &helpers, code_address: Some(address), blinding: Some(self.secret) };
        let progress = self.compiler.step(&verified, &request, self.code, self.labels);
        if let compiler::Progress::Done { size } = progress.map_err(|_| Error::Exhausted.about(0))? {
            if programs.used + size > programs.arena.bytes() {
                return Err(Error::Exhausted.about(0));
            }
            programs.arena.write(programs.used, &self.code[..size]);
            let worst = verdict.worst_case.unwrap_or(context.budget);
            let counts = verdict.worst_case.is_none();
            let code = Code { entry: programs.used, worst, counts, reads: words_read(bytes) };
            programs.codes[usize::from(self.slot)][which] = Some(code);
            programs.used = (programs.used + size).next_multiple_of(64);
            self.begin(which + 1);
        }
        Ok(())
    }
}
