//! A program compiled once and run many times: for benchmarks and examples.

use std::ops::RangeInclusive;

use downloaded_code::compiler::{self, Compiler, Request};
use downloaded_code::context::{Access, Context, RegionSize};
use downloaded_code::invocation::{Invocation, RegionEntry, STACK_SIZE, Stop};
use downloaded_code::program::Program;
use downloaded_code::refusal::{Reason, Refusal};
use downloaded_code::verifier::{Verdict, Verified, Verifier};

use super::memory::Code;

/// Compiled code with a record for its runs.
pub struct Prepared<'m> {
    code: Code,
    record: Invocation,
    budget: u64,
    /// Lengths that other memory may have in the place of region 0, if that is only read.
    lengths: Option<RangeInclusive<usize>>,
    _stack: Vec<u64>,
    /// What the verifier said.
    pub verdict: Verdict,
    /// Bytes of machine code.
    pub size: usize,
    memory: std::marker::PhantomData<&'m mut [u8]>,
}

impl<'m> Prepared<'m> {
    /// Verifies and compiles a program of a context without helpers, for runs over `regions`.
    ///
    /// # Panics
    /// The regions do not agree with the context, or the code does not fit into 256 KiB.
    pub fn new(bytes: &[u8], context: &Context<'_>, regions: &'m mut [&mut [u8]]) -> Result<Self, Refusal> {
        let program = Program::new(bytes)?;
        let mut words = vec![0; program.slots() * 4];
        let verdict = loop {
            match Verifier::run(program, context, &mut words) {
                Err(Refusal { reason: Reason::StorageTooSmall { needed }, .. }) => words.resize(needed, 0),
                other => break other?,
            }
        };
        let verified = Verified::new(program, context, &words, verdict).expect("they belong together");
        let mut code = Code::new(1 << 18);
        let request = Request { helpers: &[], code_address: Some(code.address()), blinding: None };
        let mut labels = vec![0; compiler::label_words(program.slots())];
        let size = code.write(|bytes| Compiler::run(&verified, &request, bytes, &mut labels)).expect("compiles");
        let stack = vec![0u64; STACK_SIZE / 8];
        let mut record = Invocation { budget: context.budget, ..Invocation::default() };
        record.stack_top = stack.as_ptr_range().end as u64;
        for (entry, region) in record.regions.iter_mut().zip(regions) {
            // An empty slice may point anywhere; the record wants a real address.
            let start = if region.is_empty() { stack.as_ptr() as u64 } else { region.as_ptr() as u64 };
            *entry = RegionEntry::new(start, region.len() as u32);
        }
        assert!(record.agrees_with(context), "{record:?}");
        let budget = context.budget;
        let lengths = readable_lengths(context);
        Ok(Self { code, record, budget, lengths, _stack: stack, verdict, size, memory: std::marker::PhantomData })
    }

    /// Runs the code once over other memory in the place of region 0; region 0 is that memory from then on.
    ///
    /// # Panics
    /// The context lets programs write to region 0, or does not have regions of this length.
    ///
    /// # Safety
    /// The memory is there whenever the code runs again.
    #[inline]
    pub unsafe fn run_on(&mut self, memory: &[u8]) -> Result<u64, Stop> {
        assert!(self.lengths.as_ref().is_some_and(|lengths| lengths.contains(&memory.len())));
        self.record.regions[0] = RegionEntry::new(memory.as_ptr() as u64, memory.len() as u32);
        self.run()
    }

    /// Runs the code; r0 if it finished.
    #[inline]
    pub fn run(&mut self) -> Result<u64, Stop> {
        self.record.budget = self.budget;
        self.record.stop = 0;
        // SAFETY: the code was compiled for the context with which the record agrees, and the regions are borrowed.
        let result = unsafe { self.code.call(&raw mut self.record) };
        match self.record.outcome() {
            Stop::Finished => Ok(result),
            stop => Err(stop),
        }
    }
}

/// Lengths of region 0, if it can only be read and has no alignment to keep.
fn readable_lengths(context: &Context<'_>) -> Option<RangeInclusive<usize>> {
    let region = context.regions.first().filter(|region| region.access == Access::ReadOnly && region.alignment == 1)?;
    Some(match region.size {
        RegionSize::Fixed(size) => size as usize..=size as usize,
        RegionSize::Passed { minimum, maximum } => minimum as usize..=maximum as usize,
    })
}
