//! What the tests of this crate share: programs as text, verification with as much storage as it takes, small contexts.

#![allow(dead_code, unreachable_pub)]

use downloaded_code::context::{Access, Argument, Context, Extent, Helper, Parameter, Region, RegionSize, Speculation};
use downloaded_code::interpreter::{HelperCall, Helpers, Interpreter, Outcome};
use downloaded_code::invocation::Stop;
use downloaded_code::program::Program;
use downloaded_code::refusal::{Reason, Refusal};
use downloaded_code::verifier::{Verdict, Verified, Verifier};

pub const REGIONS: [Region<'static>; 3] = [
    Region { name: "map", access: Access::ReadWrite, size: RegionSize::Fixed(16), alignment: 8 },
    Region {
        name: "packet",
        access: Access::ReadOnly,
        size: RegionSize::Passed { minimum: 0, maximum: 1514 },
        alignment: 1,
    },
    Region { name: "constants", access: Access::ReadOnly, size: RegionSize::Fixed(8), alignment: 4 },
];
/// r1: map; r2: any number; r3: packet; r4: its length; r5: its end.
pub const ARGUMENTS: [Argument; 5] = [
    Argument::Pointer(0),
    Argument::Scalar { minimum: 0, maximum: u64::MAX },
    Argument::Pointer(1),
    Argument::Length(1),
    Argument::End(1),
];
pub const HELPERS: [Helper<'static>; 2] = [
    Helper {
        number: 1,
        name: "now",
        parameters: &[],
        result: (0, u64::MAX),
        deterministic: false,
        may_stop: false,
        cost: 10,
    },
    Helper {
        number: 2,
        name: "send",
        parameters: &[Parameter::Readable(Extent::Parameter(1)), Parameter::Scalar { minimum: 0, maximum: 64 }],
        result: (0, 1),
        deterministic: true,
        may_stop: true,
        cost: 100,
    },
];
pub const LAX: Context<'static> = Context {
    name: "lax",
    regions: &REGIONS,
    arguments: &ARGUMENTS,
    helpers: &HELPERS,
    budget: 10_000,
    deterministic: false,
    strict: false,
    speculation: Speculation::Masked,
};
pub const STRICT: Context<'static> = Context { name: "strict", deterministic: true, strict: true, ..LAX };

/// Text to bytes.
pub fn assemble(text: &str) -> Vec<u8> {
    rbpf::assembler::assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A verdict with the words it rests on.
pub struct Checked<'a> {
    pub program: Program<'a>,
    pub context: &'a Context<'a>,
    pub words: Vec<u64>,
    pub verdict: Verdict,
}

impl Checked<'_> {
    pub fn verified(&self) -> Verified<'_> {
        Verified::new(self.program, self.context, &self.words, self.verdict).expect("they belong together")
    }
}

pub fn verify<'a>(bytes: &'a [u8], context: &'a Context<'a>) -> Result<Checked<'a>, Refusal> {
    let program = Program::new(bytes)?;
    let mut words = vec![0; program.slots() * 3];
    let verdict = loop {
        match Verifier::run(program, context, &mut words) {
            Err(Refusal { reason: Reason::StorageTooSmall { needed }, .. }) => words.resize(needed, 0),
            other => break other?,
        }
    };
    Ok(Checked { program, context, words, verdict })
}

pub fn refusal(text: &str, context: &Context<'_>) -> Refusal {
    match verify(&assemble(text), context) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(refusal) => refusal,
    }
}

/// The helpers of the test contexts.
pub struct TestHelpers;

impl Helpers for TestHelpers {
    fn call(&mut self, call: &mut HelperCall<'_, '_, '_>) -> Result<u64, Stop> {
        match call.number {
            1 => Ok(42),
            _ => Ok(u64::from(call.bytes(0, call.values[1] as usize).is_some())),
        }
    }
}

/// Interprets with zeroed memory and a packet of `length` bytes.
pub fn interpret(bytes: &[u8], context: &Context<'_>, number: u64, length: usize) -> Outcome {
    let (mut map, mut packet, mut constants) = ([0; 16], vec![1; length], [7; 8]);
    let mut regions: [&mut [u8]; 3] = [&mut map, &mut packet, &mut constants];
    let program = Program::new(bytes).expect("a program");
    Interpreter::new(program, context, &mut regions, &[0, number, 0, 0, 0], context.budget).run(&mut TestHelpers)
}
