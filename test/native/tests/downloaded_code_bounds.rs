//! No step of the verifier or compiler executes more instructions than the kernel allows one call, and no program takes
//! more than two million steps. Counted by single-stepping; the bound holds for optimised code, so the test is for
//! `--release` (unoptimised code only has to end).

use downloaded_code::compiler::{self, Compiler, Request};
use downloaded_code::context::Speculation;
use downloaded_code::instruction::Slot;
use downloaded_code::program::{MAX_INSTRUCTIONS, Program};
use downloaded_code::verifier::{Progress, Verified, Verifier, storage_bound};
use native::downloaded_code::generator;
use native::downloaded_code::helpers::{addresses, context};
use native::downloaded_code::random::Random;
use native::packet_filter_count::instructions;

/// `abi::limits::ENTRY_INSTRUCTIONS`, less what the call around a step needs.
const BOUND: u64 = if cfg!(debug_assertions) { 200_000 } else { 18_000 };

/// Does a step, and counts its instructions once in so many times.
fn sometimes<T>(random: &mut Random, times: u64, step: impl FnOnce() -> T) -> (T, u64) {
    if random.once_in(times) { instructions(step) } else { (step(), 0) }
}

/// The longest step of a verification and, if it is accepted, of the compilation.
///
/// Single-stepping is slow: one step in a few is counted.
fn longest_steps(bytes: &[u8], words: &mut [u64], random: &mut Random) -> (u64, u64) {
    let context = context(20_000, Speculation::Masked, false);
    let Ok(program) = Program::new(bytes) else { return (0, 0) };
    let mut verifier = Verifier::new();
    let mut longest = 0;
    let verdict = loop {
        let (progress, count) = sometimes(random, 24, || verifier.step(program, &context, words));
        longest = longest.max(count);
        match progress {
            Ok(Progress::Again) => {}
            Ok(Progress::Accepted(verdict)) => break verdict,
            Err(_) => return (longest, 0),
        }
    };
    let verified = Verified::new(program, &context, words, verdict).expect("they belong together");
    let request = Request { helpers: &addresses(), code_address: None, blinding: Some(7) };
    let mut labels = vec![0; compiler::label_words(program.slots())];
    let mut code = vec![0; 1 << 18];
    let mut compiler = Compiler::new();
    let mut longest_compiling = 0;
    loop {
        let (progress, count) = sometimes(random, 3, || compiler.step(&verified, &request, &mut code, &mut labels));
        longest_compiling = longest_compiling.max(count);
        if progress != Ok(compiler::Progress::Again) {
            progress.expect("compiles");
            return (longest, longest_compiling);
        }
    }
}

/// A program of a given size that keeps many slots and regions in use and meets often.
fn crowded(size: usize) -> Vec<u8> {
    let mut slots = Vec::new();
    let mut emit = |opcode, destination, source, offset, immediate| {
        slots.push(Slot { opcode, destination, source, offset, immediate });
    };
    emit(0xbf, 6, 1, 0, 0);
    emit(0xbf, 7, 2, 0, 0);
    emit(0xbf, 8, 3, 0, 0);
    emit(0xb7, 0, 0, 0, 0);
    for place in 1..=24 {
        emit(0x7b, 10, [5, 7, 6, 8][place % 4], -8 * place as i16, 0);
    }
    for index in 0..size - 32 {
        match index % 6 {
            0 => emit(0x2d, 7, 5, 3, 0),
            1 => emit(0x0f, 5, 7, 0, 0),
            2 => emit(0xa5, 7, 0, 1, (index % 1000) as i32),
            3 => emit(0x5f, 5, 7, 0, 0),
            4 => emit(0xbd, 5, 7, -4, 0),
            _ => emit(0x7b, 10, 5, -8 * (1 + (index % 24) as i16 / 4 * 4), 0),
        }
    }
    emit(0xb7, 0, 0, 0, 0);
    for _ in 0..3 {
        emit(0x95, 0, 0, 0, 0);
    }
    slots.into_iter().flat_map(Slot::to_bytes).collect()
}

/// A loop that moves every register by a step of its own, so that each is compared with each other for a tie.
fn entangled(size: usize) -> Vec<u8> {
    let mut slots = Vec::new();
    let mut emit = |opcode, destination, offset, immediate| {
        slots.push(Slot { opcode, destination, source: 0, offset, immediate });
    };
    (0..10).for_each(|register| emit(0xb7, register, 0, 0));
    let steps = [7, 11, 13, 17, 19, 23, 29, 31, 37, 41];
    for index in 0..size {
        emit(0x07, (index % 10) as u8, 0, steps[index % 10]);
        if index % 10 == 9 {
            emit(0x25, 0, 0, index as i32);
        }
    }
    emit(0xa5, 0, -100, 1_000_000);
    emit(0x95, 0, 0, 0);
    slots.into_iter().flat_map(Slot::to_bytes).collect()
}

#[test]
fn fault_57_every_step_is_bounded() {
    let mut words = vec![0; storage_bound(MAX_INSTRUCTIONS)];
    let seed = Random::seed();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut worst = (0, 0);
    let mut note = |name: &str, steps: (u64, u64)| {
        println!("{name}: {steps:?} instructions in the longest step (verifying, compiling)");
        worst = (worst.0.max(steps.0), worst.1.max(steps.1));
    };
    note("crowded", longest_steps(&crowded(150), &mut words, &mut random));
    note("entangled", longest_steps(&entangled(100), &mut words, &mut random));
    let mut compiled = 0;
    while compiled < 2 {
        let size = 40 + random.below(160) as usize;
        let steps = longest_steps(&generator::program(&mut random, size), &mut words, &mut random);
        if steps.1 > 0 {
            compiled += 1;
            note("generated", steps);
        }
    }
    assert!(worst.0 > 0 && worst.0 <= BOUND && worst.1 <= BOUND, "{worst:?}");
}

#[test]
fn fault_57_no_program_takes_two_million_steps() {
    let context = context(20_000, Speculation::Masked, false);
    let mut words = vec![0; storage_bound(MAX_INSTRUCTIONS)];
    let bytes = crowded(MAX_INSTRUCTIONS);
    let program = Program::new(&bytes).expect("length");
    let (mut verifier, mut steps) = (Verifier::new(), 0u64);
    let begun = std::time::Instant::now();
    let ending = loop {
        match verifier.step(program, &context, &mut words) {
            Ok(Progress::Again) => steps += 1,
            other => break other,
        }
    };
    println!("{steps} steps, {:?}, {ending:?}", begun.elapsed());
    assert!((1_000..2_000_000).contains(&steps), "{steps}: {ending:?}");
}
