//! Contexts of downloaded owns and access programs, and their runs by the reference interpreter.
//!
//! A kernel runs the compiled programs with the same contexts. Both contexts are deterministic: no clock, no address,
//! no memory between runs (FAULTS rows 61 and 63).

use crate::access::{EVERYTHING, REQUEST_WORDS};
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

/// The words of the request that decide what a verified access program says, bit n for word n. [`EVERYTHING`] where it
/// stores, calls, combines two registers, or loads from anything but the request: most programs.
pub fn words_read(program: &[u8]) -> u32 {
    const REQUEST: u8 = 1;
    let (mut words, mut is_second_half) = (0, false);
    for [code, registers, low, high, ..] in program.as_chunks::<8>().0 {
        let (destination, source) = (registers & 15, registers >> 4);
        let offset = u16::from_le_bytes([*low, *high]) as i16;
        let class = code & 7;
        let is_known = match class {
            // The second half of a constant of 64 bits looks like the beginning of one.
            0 if is_second_half || *code == 0x18 => {
                is_second_half = !is_second_half;
                destination != REQUEST && source == 0
            }
            1 => {
                let size = [4, 2, 1, 8][usize::from(code >> 3 & 3)];
                let last = i64::from(offset) + size - 1;
                let is_inside = offset >= 0 && last < 8 * REQUEST_WORDS as i64 && code >> 5 == 3;
                if is_inside {
                    (offset as u32 / 8..=last as u32 / 8).for_each(|word| words |= 1 << word);
                }
                is_inside && source == REQUEST && destination != REQUEST
            }
            4 | 7 => code & 8 == 0 && destination != REQUEST && source == 0,
            5 | 6 => code & 8 == 0 && code >> 4 != 8 && source == 0,
            _ => false,
        };
        if !is_known {
            return EVERYTHING;
        }
    }
    words
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{CREDENTIALS, Caller, Operation};
    use downloaded_code::verifier::{self, Progress, Verifier};
    use std::vec;
    use std::vec::Vec;

    /// r0 = 1; exit.
    const PERMIT: [[u8; 8]; 2] = [[0xB7, 0, 0, 0, 1, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

    fn reads(before: &[[u8; 8]]) -> u32 {
        words_read([before, &PERMIT].concat().as_flattened())
    }

    #[test]
    fn a_program_is_said_to_read_what_it_may_read() {
        assert_eq!(reads(&[]), 0);
        assert_eq!(reads(&[[0x79, 0x12, 32, 0, 0, 0, 0, 0], [0x55, 2, 0, 0, 7, 0, 0, 0]]), 1 << 4, "a word, compared");
        assert_eq!(reads(&[[0x61, 0x12, 38, 0, 0, 0, 0, 0]]), 0b11 << 4, "parts of two words");
        assert_eq!(reads(&[[0x18, 2, 0, 0, 0x79, 0x12, 0, 0], [0, 0, 0, 0, 0x79, 0x12, 0, 0]]), 0, "a constant");
        let everything: [[u8; 8]; 8] = [
            [0x79, 0x52, 0, 0, 0, 0, 0, 0],     // r2 = block[0]
            [0xBF, 0x15, 0, 0, 0, 0, 0, 0],     // r5 = r1
            [0x79, 0x11, 0, 0, 0, 0, 0, 0],     // r1 = request[0]
            [0x07, 1, 0, 0, 8, 0, 0, 0],        // r1 += 8
            [0x79, 0x12, 255, 255, 0, 0, 0, 0], // before the request
            [0x7B, 0x24, 0, 0, 0, 0, 0, 0],     // scratch[0] = r2
            [0x85, 0, 0, 0, 1, 0, 0, 0],        // a call
            [0x1D, 0x21, 0, 0, 0, 0, 0, 0],     // if r1 == r2
        ];
        for instruction in everything {
            assert_eq!(reads(&[instruction]), EVERYTHING, "{instruction:x?}");
        }
    }

    /// Random verified programs: two runs that agree on the words that are read agree on the result.
    #[test]
    fn nothing_else_decides_what_a_program_says() {
        let mut state: u64 = 0x7265_6164;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let codes = [0x79, 0x61, 0x71, 0xB7, 0x07, 0x57, 0x15, 0x55, 0x25, 0x05, 0x18, 0xBF, 0x7B, 0x0F];
        let (mut narrow, mut words) = (0, vec![0; 1 << 16]);
        for _ in 0..200_000 {
            let mut program = vec![[0xB7, 0, 0, 0, draw(2) as u8, 0, 0, 0]];
            for _ in 0..=draw(6) {
                let code = codes[draw(codes.len() as u64) as usize];
                let source = if code & 7 == 1 && draw(4) > 0 { 1 } else { draw(6) as u8 };
                let registers = draw(6) as u8 | if code & 7 == 1 || code & 8 != 0 { source } else { 0 } << 4;
                let offset = if matches!(code & 7, 5 | 6) { draw(3) as u8 } else { 8 * draw(20) as u8 };
                program.push([code, registers, offset, 0, draw(3) as u8, 0, 0, 0]);
                if code == 0x18 {
                    program.push([0; 8]);
                }
            }
            program.push([0x95, 0, 0, 0, 0, 0, 0, 0]);
            let bytes = program.as_flattened();
            let read = words_read(bytes);
            let Some(program) = Program::new(bytes).ok().filter(|_| read != EVERYTHING) else { continue };
            let mut verifier = Verifier::new();
            let verdict = loop {
                match verifier.step(program, &ACCESS, &mut words) {
                    Ok(Progress::Accepted(verdict)) => break Some(verdict),
                    Ok(_) => {}
                    Err(_) => break None,
                }
            };
            if verdict.is_none_or(|verdict: verifier::Verdict| verdict.worst_case.is_none()) {
                continue;
            }
            narrow += 1;
            let caller = Caller { credentials: core::array::from_fn(|_| draw(3)), clock: draw(3) };
            let mut request = caller.request(Operation::Modify, 1);
            request.iter_mut().skip(8).for_each(|word| *word = draw(3));
            let mut other = request;
            (0..)
                .zip(&mut other)
                .filter(|(word, _)| read >> word & 1 == 0)
                .for_each(|(_, value)| *value = draw(1 << 30));
            let say = |request: &[u64; REQUEST_WORDS], fill: u8| {
                let (bytes, block) = ([fill; 512], [fill; BLOCK_SIZE]);
                let step = AccessStep { request, old: &bytes, new: &bytes, block: &block };
                run_access(program, &step, &mut [fill; 512], &mut 1024)
            };
            assert_eq!(say(&request, 0), say(&other, 0xA5), "{bytes:x?}");
        }
        assert!(narrow > 1000, "{narrow} programs");
    }

    #[test]
    fn credentials_are_four_words() {
        let caller = Caller { credentials: [1, 2, 3, 4], clock: 0 };
        let request = caller.request(Operation::Read, 0);
        let told: Vec<u64> =
            (0..).zip(request).filter(|(word, _)| CREDENTIALS >> word & 1 == 1).map(|(_, w)| w).collect();
        assert_eq!(told, caller.credentials);
    }
}
