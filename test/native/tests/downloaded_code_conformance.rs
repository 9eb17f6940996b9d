//! Every instruction of RFC 9669, both widths, both kinds of operand, edge values: the interpreter and the compiled
//! code give what the RFC says. The tests state that once more and independently, in 128-bit arithmetic or by hand.

use downloaded_code::context::{Access, Argument, Context, Region, RegionSize, Speculation};
use downloaded_code::instruction::Slot;
use downloaded_code::invocation::Stop;
use downloaded_code::program::Program;
use native::downloaded_code::helpers::Interpreted;
use native::downloaded_code::random::Random;
use native::downloaded_code::run::{Bench, Input, interpret, listing};

const ANY: Argument = Argument::Scalar { minimum: 0, maximum: u64::MAX };
const REGIONS: [Region<'static>; 1] =
    [Region { name: "memory", access: Access::ReadWrite, size: RegionSize::Fixed(32), alignment: 8 }];
const CONTEXT: Context<'static> = Context {
    name: "conformance",
    regions: &REGIONS,
    arguments: &[ANY, ANY, Argument::Pointer(0)],
    helpers: &[],
    budget: 10_000,
    deterministic: true,
    strict: false,
    speculation: Speculation::Masked,
};

const EDGES: [u64; 21] = [
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff80,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1234_5678_9abc_def0,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

fn slot(opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Slot {
    Slot { opcode, destination, source, offset, immediate }
}

fn constant(register: u8, value: u64) -> [Slot; 2] {
    [slot(0x18, register, 0, 0, value as i32), slot(0, 0, 0, 0, (value >> 32) as i32)]
}

const EXIT: Slot = Slot { opcode: 0x95, destination: 0, source: 0, offset: 0, immediate: 0 };

thread_local! {
    /// Pages are mapped once for all cases of a thread.
    static SPARE: std::cell::RefCell<Vec<Bench>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A program, compiled once plainly and once with hidden constants, run by all three on inputs.
struct Case {
    bytes: Vec<u8>,
    benches: Vec<Bench>,
    verdict: downloaded_code::verifier::Verdict,
}

impl Case {
    fn new(slots: &[Slot]) -> Self {
        let bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_bytes()).collect();
        let program = Program::new(&bytes).expect("whole slots");
        let mut benches: Vec<Bench> = (0..2).map(|_| SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()).collect();
        let mut verdict = None;
        for (bench, blinding) in benches.iter_mut().zip([None, Some(0x1234_5678_1234_5678)]) {
            let accepted = bench.verify(program, &CONTEXT);
            let accepted = accepted.unwrap_or_else(|refusal| panic!("{refusal}\n{}", listing(&bytes)));
            bench.compile(program, &CONTEXT, accepted, &[], blinding);
            verdict = Some(accepted);
        }
        Self { bytes, benches, verdict: verdict.expect("two benches") }
    }

    fn run(&mut self, first: u64, second: u64, memory: &[u8; 32]) -> (u64, Vec<u8>) {
        let program = Program::new(&self.bytes).expect("whole slots");
        let input = Input { regions: vec![memory.to_vec()], scalars: [first, second, 0, 0, 0] };
        let (expected, ..) = interpret(program, &CONTEXT, &input, 10_000, &mut Interpreted).expect("no fault");
        assert_eq!(expected.stop, Stop::Finished, "{}", listing(&self.bytes));
        for bench in &mut self.benches {
            let (got, _) = bench.run(&CONTEXT, &self.verdict, &input, 10_000, &mut Random::new(first)).expect("inside");
            assert_eq!(got, expected, "{first:#x} {second:#x}\n{}", listing(&self.bytes));
        }
        (expected.value, expected.regions[0].clone())
    }

    fn value(&mut self, first: u64, second: u64) -> u64 {
        self.run(first, second, &[0; 32]).0
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        SPARE.with_borrow_mut(|spare| spare.append(&mut self.benches));
    }
}

/// RFC 9669, section 4.1, in wide arithmetic.
fn prescribed(code: u8, signed: bool, wide: bool, left: u64, right: u64) -> u64 {
    let bits = if wide { 64 } else { 32 };
    let mask = u64::MAX >> (64 - bits);
    let unsigned = |word: u64| i128::from(word & mask);
    let negative = |word: u64| {
        let value = unsigned(word);
        if value >> (bits - 1) == 1 { value - (1 << bits) } else { value }
    };
    let (a, b) = if signed { (negative(left), negative(right)) } else { (unsigned(left), unsigned(right)) };
    let count = (right & (bits as u64 - 1)) as u32;
    let result = match code {
        0x00 => a + b,
        0x10 => a - b,
        0x20 => a.wrapping_mul(b),
        0x30 => {
            if b == 0 {
                0
            } else {
                a / b
            }
        }
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a << count,
        0x70 => a >> count,
        0x90 => {
            if b == 0 {
                a
            } else {
                a % b
            }
        }
        0xa0 => a ^ b,
        0xb0 => b,
        0xc0 => negative(left) >> count,
        _ => unreachable!(),
    };
    result as u64 & mask
}

#[test]
fn arithmetic_on_two_operands() {
    let codes = [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x90, 0xa0, 0xb0, 0xc0];
    for code in codes {
        for signed in [false, true] {
            if signed && code != 0x30 && code != 0x90 {
                continue;
            }
            for wide in [false, true] {
                two_operands(code, signed, wide);
            }
        }
    }
}

fn two_operands(code: u8, signed: bool, wide: bool) {
    let class = if wide { 7 } else { 4 };
    let offset = i16::from(signed);
    // Every choice of registers matters: the hardware's shifts and divisions have fixed ones.
    for (destination, source) in [(0, 2), (1, 2), (3, 2), (4, 4), (0, 0), (3, 0), (0, 3), (6, 4), (4, 6), (5, 3)] {
        let mut case = Case::new(&[
            slot(0xbf, 7, 2, 0, 0),
            slot(0xbf, 8, 1, 0, 0),
            slot(0xb7, 0, 0, 0, 11),
            slot(0xb7, 3, 0, 0, 12),
            slot(0xbf, source, 7, 0, 0),
            slot(0xbf, destination, 8, 0, 0),
            slot(code | 8 | class, destination, source, offset, 0),
            slot(0xbf, 0, destination, 0, 0),
            EXIT,
        ]);
        for left in EDGES {
            for right in EDGES {
                let right_seen = if destination == source { left } else { right };
                let expected = prescribed(code, signed, wide, left, right_seen);
                assert_eq!(case.value(left, right), expected, "{code:#x} {signed} {wide} {left:#x} {right_seen:#x}");
            }
        }
    }
    for immediate in [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 127, 128, 4096, 0x1234_5678, i32::MAX, i32::MIN, -1, -2, -128] {
        let mut case = Case::new(&[slot(0xbf, 0, 1, 0, 0), slot(code | class, 0, 0, offset, immediate), EXIT]);
        for left in EDGES {
            let expected = prescribed(code, signed, wide, left, immediate as i64 as u64);
            assert_eq!(case.value(left, 0), expected, "{code:#x} {signed} {wide} {left:#x} {immediate:#x}");
            // The same with constants that the verifier knows and the compiler folds.
            let [low, high] = constant(0, left);
            let mut folded = Case::new(&[low, high, slot(code | class, 0, 0, offset, immediate), EXIT]);
            assert_eq!(folded.value(0, 0), expected, "folded {code:#x} {signed} {wide} {left:#x} {immediate:#x}");
        }
    }
}

#[test]
fn negation_sign_extension_and_byte_order() {
    type Row = (u8, i16, i32, fn(u64) -> u64);
    let rows: [Row; 16] = [
        (0x87, 0, 0, |word| (!word).wrapping_add(1)),
        (0x84, 0, 0, |word| (!word).wrapping_add(1) & 0xffff_ffff),
        (0xbf, 8, 0, |word| word as i8 as i64 as u64),
        (0xbf, 16, 0, |word| word as i16 as i64 as u64),
        (0xbf, 32, 0, |word| word as i32 as i64 as u64),
        (0xbc, 8, 0, |word| u64::from(word as i8 as i32 as u32)),
        (0xbc, 16, 0, |word| u64::from(word as i16 as i32 as u32)),
        (0xd4, 0, 16, |word| word & 0xffff),
        (0xd4, 0, 32, |word| word & 0xffff_ffff),
        (0xd4, 0, 64, |word| word),
        (0xdc, 0, 16, |word| u64::from(u16::from_be_bytes((word as u16).to_le_bytes()))),
        (0xdc, 0, 32, |word| u64::from(u32::from_be_bytes((word as u32).to_le_bytes()))),
        (0xdc, 0, 64, |word| u64::from_be_bytes(word.to_le_bytes())),
        (0xd7, 0, 16, |word| u64::from((word as u16).swap_bytes())),
        (0xd7, 0, 32, |word| u64::from((word as u32).swap_bytes())),
        (0xd7, 0, 64, |word| word.swap_bytes()),
    ];
    for (opcode, offset, immediate, expected) in rows {
        for register in [0, 1, 3, 4, 6, 9] {
            let source = if opcode & 0xf8 == 0xb8 { 5 } else { 0 };
            let mut case = Case::new(&[
                slot(0xbf, 5, 1, 0, 0),
                slot(0xbf, register, 1, 0, 0),
                slot(opcode, register, source, offset, immediate),
                slot(0xbf, 0, register, 0, 0),
                EXIT,
            ]);
            for word in EDGES {
                assert_eq!(case.value(word, 0), expected(word), "{opcode:#x} {offset} {immediate} {word:#x}");
            }
        }
    }
}

#[test]
fn conditional_jumps() {
    type Row = (u8, fn(i128, i128, u64, u64) -> bool);
    let rows: [Row; 11] = [
        (0x10, |_, _, a, b| a == b),
        (0x20, |_, _, a, b| a > b),
        (0x30, |_, _, a, b| a >= b),
        (0x40, |_, _, a, b| a & b != 0),
        (0x50, |_, _, a, b| a != b),
        (0x60, |a, b, _, _| a > b),
        (0x70, |a, b, _, _| a >= b),
        (0xa0, |_, _, a, b| a < b),
        (0xb0, |_, _, a, b| a <= b),
        (0xc0, |a, b, _, _| a < b),
        (0xd0, |a, b, _, _| a <= b),
    ];
    for (code, expected) in rows {
        for wide in [true, false] {
            let class = if wide { 5 } else { 6 };
            let check = |left: u64, right: u64| {
                if wide {
                    expected(i128::from(left as i64), i128::from(right as i64), left, right)
                } else {
                    let (left, right) = (left as u32, right as u32);
                    expected(i128::from(left as i32), i128::from(right as i32), left.into(), right.into())
                }
            };
            let ends = [slot(0xb7, 0, 0, 0, 5), EXIT, slot(0xb7, 0, 0, 0, 9), EXIT];
            let mut case = Case::new(&[&[slot(code | 8 | class, 1, 2, 2, 0)], &ends[..]].concat());
            for left in EDGES {
                for right in EDGES {
                    let value = if check(left, right) { 9 } else { 5 };
                    assert_eq!(case.value(left, right), value, "{code:#x} {wide} {left:#x} {right:#x}");
                }
            }
            for immediate in [0, 1, 127, 128, 4096, i32::MAX, i32::MIN, -1, -128, -129] {
                let mut case = Case::new(&[&[slot(code | class, 1, 0, 2, immediate)], &ends[..]].concat());
                for left in EDGES {
                    let value = if check(left, immediate as i64 as u64) { 9 } else { 5 };
                    assert_eq!(case.value(left, 0), value, "{code:#x} {wide} {left:#x} {immediate}");
                }
            }
        }
    }
}

#[test]
fn unconditional_jumps_and_constants() {
    let mut short = Case::new(&[slot(0x05, 0, 0, 1, 0), EXIT, slot(0xb7, 0, 0, 0, 3), EXIT]);
    assert_eq!(short.value(0, 0), 3);
    let mut long = Case::new(&[slot(0x06, 0, 0, 0, 1), EXIT, slot(0xb7, 0, 0, 0, 4), EXIT]);
    assert_eq!(long.value(0, 0), 4);
    for word in EDGES {
        let [low, high] = constant(0, word);
        assert_eq!(Case::new(&[low, high, EXIT]).value(0, 0), word);
    }
}

fn memory() -> [u8; 32] {
    std::array::from_fn(|index| (index as u8).wrapping_mul(37).wrapping_add(0x85))
}

#[test]
fn loads_of_every_size_signed_and_not() {
    let memory = memory();
    let word = |offset: usize, size: usize| {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&memory[offset..offset + size]);
        u64::from_le_bytes(bytes)
    };
    for (bits, size) in [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)] {
        for offset in [0, 1, 7, 24] {
            for register in [0, 1, 3, 4, 9] {
                let mut plain =
                    Case::new(&[slot(0x61 | bits, register, 3, offset, 0), slot(0xbf, 0, register, 0, 0), EXIT]);
                let expected = word(offset as usize, size);
                assert_eq!(plain.run(0, 0, &memory).0, expected);
                if size < 8 {
                    let mut signed =
                        Case::new(&[slot(0x81 | bits, register, 3, offset, 0), slot(0xbf, 0, register, 0, 0), EXIT]);
                    let unused = 64 - size as u32 * 8;
                    assert_eq!(signed.run(0, 0, &memory).0, ((expected << unused) as i64 >> unused) as u64);
                }
            }
        }
    }
}

#[test]
fn stores_of_every_size_from_registers_and_constants() {
    let memory = memory();
    for (bits, size) in [(0x10, 1), (0x08, 2), (0x00, 4), (0x18, 8)] {
        for offset in [0usize, 3, 24] {
            for value in EDGES {
                let mut expected = memory;
                expected[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
                let mut case = Case::new(&[slot(0x63 | bits, 3, 1, offset as i16, 0), slot(0xb7, 0, 0, 0, 0), EXIT]);
                assert_eq!(case.run(value, 0, &memory).1, expected);
            }
            for value in [0, 1, -1, 127, -129, i32::MAX, i32::MIN, 0x1234_5678] {
                let mut expected = memory;
                let word = (i64::from(value) as u64).to_le_bytes();
                expected[offset..offset + size].copy_from_slice(&word[..size]);
                let mut case =
                    Case::new(&[slot(0x62 | bits, 3, 0, offset as i16, value), slot(0xb7, 0, 0, 0, 0), EXIT]);
                assert_eq!(case.run(0, 0, &memory).1, expected);
            }
        }
    }
}

#[test]
fn atomic_operations() {
    type Change = fn(u64, u64, u64) -> u64;
    let rows: [(i32, Change); 10] = [
        (0x00, |old, with, _| old.wrapping_add(with)),
        (0x01, |old, with, _| old.wrapping_add(with)),
        (0x40, |old, with, _| old | with),
        (0x41, |old, with, _| old | with),
        (0x50, |old, with, _| old & with),
        (0x51, |old, with, _| old & with),
        (0xa0, |old, with, _| old ^ with),
        (0xa1, |old, with, _| old ^ with),
        (0xe1, |_, with, _| with),
        (0xf1, |old, with, expected| if old == expected { with } else { old }),
    ];
    for (operation, change) in rows {
        for (opcode, size) in [(0xdb, 8), (0xc3, 4)] {
            for source in [2, 0, 6] {
                atomic_case(operation, change, opcode, size, source);
            }
        }
    }
}

fn atomic_case(operation: i32, change: fn(u64, u64, u64) -> u64, opcode: u8, size: usize, source: u8) {
    let mask = if size == 8 { u64::MAX } else { 0xffff_ffff };
    // The result tells both what the source register and what r0 hold afterwards.
    let mut case = Case::new(&[
        slot(0xbf, 0, 1, 0, 0),
        slot(0xbf, 6, 2, 0, 0),
        slot(opcode, 3, source, 8, operation),
        slot(0x7b, 3, source, 16, 0),
        EXIT,
    ]);
    for old in EDGES {
        for with in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            for first in [old, 5] {
                let mut memory = memory();
                memory[8..16].copy_from_slice(&old.to_le_bytes());
                let value = if source == 0 { first } else { with };
                let (old_seen, value_seen, expected_seen) = (old & mask, value & mask, first & mask);
                let new = change(old_seen, value_seen, expected_seen) & mask;
                let (result, after) = case.run(first, with, &memory);
                assert_eq!(after[8..8 + size], new.to_le_bytes()[..size], "{operation:#x}");
                assert_eq!(after[8 + size..16], memory[8 + size..16]);
                let fetch = operation & 1 != 0;
                let compares = operation == 0xf1;
                let source_after = if fetch && (!compares || source == 0) { old_seen } else { value };
                assert_eq!(after[16..24], source_after.to_le_bytes(), "{operation:#x} source");
                let r0 = if compares || fetch && source == 0 { old_seen } else { first };
                assert_eq!(result, r0, "{operation:#x} r0");
            }
        }
    }
}

#[test]
fn functions_keep_r6_to_r9_and_have_frames_of_their_own() {
    let mut case = Case::new(&[
        slot(0xbf, 6, 1, 0, 0),
        slot(0x7b, 10, 2, -8, 0),
        slot(0xb7, 1, 0, 0, 21),
        slot(0x85, 0, 1, 0, 4),
        slot(0x79, 2, 10, -8, 0),
        slot(0x0f, 0, 2, 0, 0),
        slot(0x0f, 0, 6, 0, 0),
        EXIT,
        slot(0xb7, 6, 0, 0, 1000),
        slot(0x7a, 10, 0, -8, 99),
        slot(0xbf, 0, 1, 0, 0),
        slot(0x0f, 0, 1, 0, 0),
        EXIT,
    ]);
    assert_eq!(case.value(1_000_000, 500), 1_000_542);
}

#[test]
fn a_frame_may_be_passed_to_a_function() {
    let mut case = Case::new(&[
        slot(0x7b, 10, 1, -16, 0),
        slot(0xbf, 1, 10, 0, 0),
        slot(0x07, 1, 0, 0, -16),
        slot(0x85, 0, 1, 0, 3),
        slot(0x79, 1, 10, -8, 0),
        slot(0x0f, 0, 1, 0, 0),
        EXIT,
        slot(0x79, 2, 1, 0, 0),
        slot(0x27, 2, 0, 0, 3),
        slot(0x7b, 1, 2, 8, 0),
        slot(0xb7, 0, 0, 0, 7),
        EXIT,
    ]);
    assert_eq!(case.value(5, 0), 22);
}

#[test]
fn loops_may_lead_to_the_first_instruction_of_a_function() {
    let mut case = Case::new(&[
        slot(0x07, 1, 0, 0, 1),
        slot(0x55, 1, 0, -2, 50),
        slot(0x7b, 10, 1, -8, 0),
        slot(0xb7, 1, 0, 0, 3),
        slot(0x85, 0, 1, 0, 3),
        slot(0x79, 1, 10, -8, 0),
        slot(0x0f, 0, 1, 0, 0),
        EXIT,
        slot(0x07, 1, 0, 0, 1),
        slot(0x55, 1, 0, -2, 60),
        slot(0xbf, 0, 1, 0, 0),
        EXIT,
    ]);
    assert_eq!(case.value(40, 0), 110);
}
