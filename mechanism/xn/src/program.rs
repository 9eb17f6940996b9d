//! Contexts of downloaded owns and access programs, and their runs by the reference interpreter.
//!
//! A kernel runs the compiled programs with the same contexts. Both contexts are deterministic: no clock, no address,
//! no memory between runs (FAULTS rows 61 and 63).

use crate::access::REQUEST_WORDS;
use crate::claim::{Claims, MAX_CLAIMS, MAX_COUNT};
use crate::error::{Error, Result};
use crate::format::{BLOCK_SIZE, CONTENT, MAX_BLOCKS};
use crate::template::AccessStep;
use downloaded_code::context::{Access, Argument, Context, Helper, Parameter, Region, RegionSize, Speculation};
use downloaded_code::interpreter::{Ending, HelperCall, Helpers, Interpreter, NoHelpers};
use downloaded_code::invocation::Stop;
use downloaded_code::program::Program;

/// Number of the helper `own(first, count, template)`.
pub const OWN: u32 = 1;

const fn region(name: &str, access: Access, minimum: u32, maximum: u32) -> Region<'_> {
    let size = if minimum == maximum { RegionSize::Fixed(maximum) } else { RegionSize::Passed { minimum, maximum } };
    Region { name, access, size, alignment: 8 }
}

const OWN_PARAMETERS: [Parameter; 3] = [
    Parameter::Scalar { minimum: 1, maximum: MAX_BLOCKS - 1 },
    Parameter::Scalar { minimum: 1, maximum: MAX_COUNT },
    Parameter::Scalar { minimum: 0, maximum: 255 },
];

/// What an owns program sees: r1 is the content of one sector.
pub const OWNS: Context<'static> = Context {
    name: "owns",
    regions: &[region("sector", Access::ReadOnly, CONTENT as u32, CONTENT as u32)],
    arguments: &[Argument::Pointer(0)],
    helpers: &[Helper {
        number: OWN,
        name: "own",
        parameters: &OWN_PARAMETERS,
        result: (0, 0),
        deterministic: true,
        may_stop: true,
        cost: 4,
    }],
    budget: 1024,
    deterministic: true,
    strict: false,
    speculation: Speculation::Masked,
};

/// What an access program sees: r1 request, r2 old bytes, r3 new bytes, r4 scratch, r5 shown block.
pub const ACCESS: Context<'static> = Context {
    name: "access",
    regions: &[
        region("request", Access::ReadOnly, 8 * REQUEST_WORDS as u32, 8 * REQUEST_WORDS as u32),
        region("old", Access::ReadOnly, 512, 512),
        region("new", Access::ReadOnly, 512, 512),
        region("scratch", Access::ReadWrite, 512, 512),
        region("block", Access::ReadOnly, BLOCK_SIZE as u32, BLOCK_SIZE as u32),
    ],
    arguments: &[
        Argument::Pointer(0),
        Argument::Pointer(1),
        Argument::Pointer(2),
        Argument::Pointer(3),
        Argument::Pointer(4),
    ],
    helpers: &[],
    budget: 4096,
    deterministic: true,
    strict: false,
    speculation: Speculation::Masked,
};

struct Own<'a> {
    claims: &'a mut Claims,
}

impl Helpers for Own<'_> {
    fn call(&mut self, call: &mut HelperCall<'_, '_, '_>) -> core::result::Result<u64, Stop> {
        let [first, count, template, ..] = call.values;
        self.claims.own(first, count, template as u8).map(|()| 0).map_err(|_| Stop::Helper)
    }
}

/// Runs a verified owns program for template `slot`.
pub fn run_owns(program: Program<'_>, slot: u8, content: &[u8; CONTENT], claims: &mut Claims) -> Result<()> {
    const { assert!(MAX_CLAIMS == 64) };
    let mut sector = *content;
    let mut regions: [&mut [u8]; 1] = [&mut sector];
    let mut run = Interpreter::new(program, &OWNS, &mut regions, &[0; 5], OWNS.budget);
    let outcome = run.run(&mut Own { claims });
    if outcome.ending == Ending::Stopped(Stop::Finished) { Ok(()) } else { Err(Error::Program(slot)) }
}

/// Runs a verified access program; `budget` is what is left for all runs of the operation. A result other than zero
/// permits.
pub fn run_access(program: Program<'_>, step: &AccessStep<'_>, scratch: &mut [u8; 512], budget: &mut u64) -> bool {
    let mut request = [0; 8 * REQUEST_WORDS];
    for (bytes, word) in request.chunks_exact_mut(8).zip(step.request) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let (mut old, mut new, mut block) = ([0; 512], [0; 512], *step.block);
    old[..step.old.len()].copy_from_slice(step.old);
    new[..step.new.len()].copy_from_slice(step.new);
    let mut regions: [&mut [u8]; 5] = [&mut request, &mut old, &mut new, scratch, &mut block];
    let outcome = Interpreter::new(program, &ACCESS, &mut regions, &[0; 5], *budget).run(&mut NoHelpers);
    *budget = outcome.budget;
    outcome.ending == Ending::Stopped(Stop::Finished) && outcome.result != 0
}
