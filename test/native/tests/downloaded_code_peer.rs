//! The independent oracle: `rbpf` interprets the same programs and comes to the same r0.
//!
//! Programs are kept to what rbpf 0.4 does by the RFC: arithmetic of both widths, loads, stores and forward jumps. It
//! leaves the upper half of some 32-bit results alone or extends their sign, so those are followed by a 32-bit move,
//! which is exact. It compares with constants as if they were unsigned, so negative ones are left to the signed
//! comparisons. It has no signed division, sign-extending moves or loads, byte swaps and atomic operations. All that
//! is left out here is in the conformance tests.

use downloaded_code::context::{Argument, Context, Speculation};
use downloaded_code::instruction::Slot;
use downloaded_code::invocation::Stop;
use downloaded_code::program::Program;
use native::downloaded_code::helpers::{Interpreted, REGIONS};
use native::downloaded_code::memory::catch_faults;
use native::downloaded_code::random::Random;
use native::downloaded_code::run::{Bench, Input, interpret, listing};

const MEMORY: usize = 64;

fn context() -> Context<'static> {
    Context {
        name: "peer",
        regions: &REGIONS[1..2],
        arguments: &[Argument::Pointer(0), Argument::Scalar { minimum: MEMORY as u64, maximum: MEMORY as u64 }],
        helpers: &[],
        budget: 1_000,
        deterministic: true,
        strict: false,
        speculation: Speculation::Masked,
    }
}

/// Registers r0 and r2 to r9 hold numbers, r1 the memory.
fn program(random: &mut Random) -> Vec<u8> {
    let mut slots = Vec::new();
    let mut emit = |opcode, destination, source, offset, immediate| {
        slots.push(Slot { opcode, destination, source, offset, immediate });
    };
    for register in [0, 2, 3, 4, 5, 6, 7, 8, 9] {
        let value = random.edge();
        emit(0x18, register, 0, 0, value as i32);
        emit(0, 0, 0, 0, (value >> 32) as i32);
    }
    let count = 5 + random.below(40) as usize;
    for index in 0..count {
        let numbers = [0, 2, 3, 4, 5, 6, 7, 8, 9];
        let (destination, source) = (random.choose(&numbers), random.choose(&numbers));
        let class = random.choose(&[7, 4]);
        let sizes = [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)];
        let (bits, size) = random.choose(&sizes);
        let offset = random.below(MEMORY as u64 - size + 1) as i16;
        let mut ahead = random.below((count - index) as u64) as i16;
        if index + 1 == count {
            ahead = 0;
        }
        match random.below(10) {
            0..=4 => {
                let code = random.choose(&[0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0]);
                let inexact = class == 4 && matches!(code, 0x00 | 0x10 | 0x20 | 0x90);
                if random.once_in(2) {
                    emit(code | 8 | class, destination, source, 0, 0);
                } else {
                    let shift = matches!(code, 0x60 | 0x70 | 0xc0);
                    let value = if shift { random.below(32) as i32 } else { random.edge() as i32 };
                    let zero_divisor = matches!(code, 0x30 | 0x90) && value == 0;
                    emit(code | class, destination, 0, 0, if zero_divisor { 3 } else { value });
                }
                if inexact {
                    emit(0xbc, destination, destination, 0, 0);
                }
            }
            5 => emit(0x61 | bits, destination, 1, offset, 0),
            6 => emit(0x63 | bits, 1, source, offset, 0),
            7 => emit(0x62 | bits, 1, 0, offset, random.edge() as i32),
            _ => {
                let code = random.choose(&[0x15, 0x25, 0x35, 0x45, 0x55, 0x65, 0x75, 0xa5, 0xb5, 0xc5, 0xd5]);
                if random.once_in(2) {
                    emit(code | 8, destination, source, ahead, 0);
                } else {
                    let signed = matches!(code, 0x65 | 0x75 | 0xc5 | 0xd5 | 0x45);
                    let value = random.edge() as i32;
                    emit(code, destination, 0, ahead, if signed { value } else { value & i32::MAX });
                }
            }
        }
    }
    emit(0x95, 0, 0, 0, 0);
    slots.into_iter().flat_map(Slot::to_bytes).collect()
}

#[test]
fn rbpf_agrees_on_generated_programs() {
    catch_faults();
    let full = std::env::var("CHITIN_FULL").is_ok_and(|value| value == "1");
    let (first, count) = (Random::seed(), if full { 1_000_000 } else { 100_000 });
    println!("seed {first}, {count} programs");
    let context = context();
    let mut bench = Bench::new();
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let bytes = program(&mut random);
        let parsed = Program::new(&bytes).expect("whole slots");
        let verdict = bench
            .verify(parsed, &context)
            .unwrap_or_else(|refusal| panic!("seed {seed}: {}\n{}", refusal.describe(&context), listing(&bytes)));
        let mut memory = vec![0; MEMORY];
        random.fill(&mut memory);
        let input = Input { regions: vec![memory.clone()], scalars: [0, MEMORY as u64, 0, 0, 0] };
        let mut theirs = memory;
        let result = rbpf::EbpfVmRaw::new(Some(&bytes)).and_then(|machine| machine.execute_program(&mut theirs));
        let result = result.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", listing(&bytes)));
        let (ours, ..) = interpret(parsed, &context, &input, 1_000, &mut Interpreted).expect("no fault");
        assert_eq!((ours.stop, ours.value), (Stop::Finished, result), "seed {seed}\n{}", listing(&bytes));
        assert_eq!(ours.regions[0], theirs, "seed {seed}\n{}", listing(&bytes));
        let blinding = random.once_in(2).then(|| random.word());
        bench.compile(parsed, &context, verdict, &[], blinding);
        let (compiled, _) = bench.run(&context, &verdict, &input, 1_000, &mut random).expect("inside");
        assert_eq!(compiled, ours, "seed {seed}\n{}", listing(&bytes));
    }
}
