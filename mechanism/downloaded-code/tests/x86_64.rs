//! The emitter against an independent decoder (iced-x86): every instruction, every register, many operands.

use downloaded_code::x86_64::{
    Arithmetic, Assembler, Condition, EmitError, LINE, Label, Memory, Register, Scale, Shift, Width,
};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Mnemonic};

const ARITHMETIC: [(Arithmetic, &str); 8] = [
    (Arithmetic::Add, "add"),
    (Arithmetic::Or, "or"),
    (Arithmetic::AddWithCarry, "adc"),
    (Arithmetic::SubtractWithBorrow, "sbb"),
    (Arithmetic::And, "and"),
    (Arithmetic::Subtract, "sub"),
    (Arithmetic::Xor, "xor"),
    (Arithmetic::Compare, "cmp"),
];
const SHIFTS: [(Shift, &str); 5] = [
    (Shift::RotateLeft, "rol"),
    (Shift::RotateRight, "ror"),
    (Shift::Left, "shl"),
    (Shift::Right, "shr"),
    (Shift::ArithmeticRight, "sar"),
];
const CONDITIONS: [(Condition, &str); 14] = [
    (Condition::Overflow, "o"),
    (Condition::NotOverflow, "no"),
    (Condition::Below, "b"),
    (Condition::AboveOrEqual, "ae"),
    (Condition::Equal, "e"),
    (Condition::NotEqual, "ne"),
    (Condition::BelowOrEqual, "be"),
    (Condition::Above, "a"),
    (Condition::Sign, "s"),
    (Condition::NotSign, "ns"),
    (Condition::Less, "l"),
    (Condition::GreaterOrEqual, "ge"),
    (Condition::LessOrEqual, "le"),
    (Condition::Greater, "g"),
];
const WIDTHS: [Width; 4] = [Width::Bits8, Width::Bits16, Width::Bits32, Width::Bits64];
const WIDE: [Width; 2] = [Width::Bits32, Width::Bits64];

/// Name of a register at a width.
fn name(register: Register, width: Width) -> String {
    const LEGACY: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
    const BYTES: [&str; 8] = ["al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"];
    let number = usize::from(register.number());
    match (number < 8, width) {
        (true, Width::Bits8) => BYTES[number].into(),
        (true, Width::Bits16) => LEGACY[number].into(),
        (true, Width::Bits32) => format!("e{}", LEGACY[number]),
        (true, Width::Bits64) => format!("r{}", LEGACY[number]),
        (false, Width::Bits8) => format!("r{number}b"),
        (false, Width::Bits16) => format!("r{number}w"),
        (false, Width::Bits32) => format!("r{number}d"),
        (false, Width::Bits64) => format!("r{number}"),
    }
}

fn decode(bytes: &[u8]) -> String {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    assert!(!instruction.is_invalid(), "{bytes:02x?}");
    assert_eq!(instruction.len(), bytes.len(), "{bytes:02x?}");
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_signed_immediate_operands(true);
    options.set_branch_leading_zeros(false);
    options.set_always_show_scale(true);
    options.set_memory_size_options(iced_x86::MemorySizeOptions::Never);
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    text
}

/// What one emitted instruction decodes to.
fn shown(emit: impl FnOnce(&mut Assembler<'_>)) -> String {
    let mut buffer = [0; 32];
    let mut labels = [0; 4];
    let mut assembler = Assembler::new(&mut buffer, &mut labels);
    emit(&mut assembler);
    let size = assembler.finish().expect("room for one instruction");
    decode(&buffer[..size])
}

fn number(value: i64) -> String {
    let magnitude = value.unsigned_abs();
    let digits = if magnitude < 10 { format!("{magnitude}") } else { format!("0x{magnitude:x}") };
    if value < 0 { format!("-{digits}") } else { digits }
}

fn memory_text(memory: Memory) -> String {
    let mut text = name(memory.base, Width::Bits64);
    if let Some((index, scale)) = memory.index {
        text += &format!("+{}*{}", name(index, Width::Bits64), 1 << scale as u32);
    }
    if memory.displacement != 0 {
        let sign = if memory.displacement < 0 { "" } else { "+" };
        text += &format!("{sign}{}", number(memory.displacement.into()));
    }
    format!("[{text}]")
}

fn memories() -> Vec<Memory> {
    let mut all = Vec::new();
    for base in Register::ALL {
        for displacement in [0, 1, -1, 127, -128, 128, -129, i32::MAX, i32::MIN + 1] {
            all.push(Memory::at(base, displacement));
        }
        for index in Register::ALL {
            if index != Register::Rsp {
                all.push(Memory::indexed(base, index, Scale::Four, 16));
                all.push(Memory::indexed(base, index, Scale::One, 0));
            }
        }
    }
    all
}

#[test]
fn two_registers() {
    for first in Register::ALL {
        for second in Register::ALL {
            for width in WIDTHS {
                let operands = format!("{}, {}", name(first, width), name(second, width));
                for (operation, text) in ARITHMETIC {
                    let got = shown(|assembler| assembler.arithmetic(operation, width, first, second));
                    assert_eq!(got, format!("{text} {operands}"));
                }
                assert_eq!(shown(|assembler| assembler.test(width, first, second)), format!("test {operands}"));
            }
            for width in WIDE {
                let operands = format!("{}, {}", name(first, width), name(second, width));
                assert_eq!(shown(|a| a.move_register(width, first, second)), format!("mov {operands}"));
                assert_eq!(shown(|a| a.multiply(width, first, second)), format!("imul {operands}"));
                assert_eq!(shown(|a| a.exchange_registers(width, first, second)), format!("xchg {operands}"));
                for (condition, text) in CONDITIONS {
                    assert_eq!(shown(|a| a.move_if(condition, width, first, second)), format!("cmov{text} {operands}"));
                }
                let got = shown(|a| a.multiply_immediate(width, first, second, -77_777));
                let operands = if first == second { name(first, width) } else { operands };
                assert_eq!(got, format!("imul {operands}, {}", number(-77_777)));
            }
            extensions(first, second);
        }
    }
}

fn extensions(first: Register, second: Register) {
    let wide = name(first, Width::Bits64);
    let low = |width| name(second, width);
    assert_eq!(
        shown(|a| a.move_signed(Width::Bits8, first, second)),
        format!("movsx {wide}, {}", low(Width::Bits8)).replace(&low(Width::Bits8), &legacy_byte(second))
    );
    assert_eq!(shown(|a| a.move_signed(Width::Bits16, first, second)), format!("movsx {wide}, {}", low(Width::Bits16)));
    assert_eq!(
        shown(|a| a.move_signed(Width::Bits32, first, second)),
        format!("movsxd {wide}, {}", low(Width::Bits32))
    );
    let half = name(first, Width::Bits32);
    for width in [Width::Bits8, Width::Bits16] {
        assert_eq!(shown(|a| a.move_unsigned(width, first, second)), format!("movzx {half}, {}", low(width)));
        assert_eq!(shown(|a| a.move_signed_32(width, first, second)), format!("movsx {half}, {}", low(width)));
    }
}

/// With REX (as every 64-bit operation has it) the low byte is meant.
fn legacy_byte(register: Register) -> String {
    name(register, Width::Bits8)
}

#[test]
fn one_register_and_a_constant() {
    for register in Register::ALL {
        for width in WIDTHS {
            let operand = name(register, width);
            for value in [0, 1, -1, 127, -128] {
                for (operation, text) in ARITHMETIC {
                    let got = shown(|a| a.arithmetic_immediate(operation, width, register, value));
                    assert_eq!(got, format!("{text} {operand}, {}", number(value.into())));
                }
            }
            for (shift, text) in SHIFTS {
                assert_eq!(shown(|a| a.shift_immediate(shift, width, register, 5)), format!("{text} {operand}, 5"));
                assert_eq!(shown(|a| a.shift_by_cl(shift, width, register)), format!("{text} {operand}, cl"));
            }
            assert_eq!(shown(|a| a.negate(width, register)), format!("neg {operand}"));
            assert_eq!(shown(|a| a.complement(width, register)), format!("not {operand}"));
        }
        for width in WIDE {
            let operand = name(register, width);
            for value in [128, -129, i32::MAX, i32::MIN] {
                let got = shown(|a| a.arithmetic_immediate(Arithmetic::Add, width, register, value));
                assert_eq!(got, format!("add {operand}, {}", number(value.into())));
                let got = shown(|a| a.test_immediate(width, register, value));
                assert_eq!(got, format!("test {operand}, {}", number(value.into())));
            }
            assert_eq!(shown(|a| a.byte_swap(width, register)), format!("bswap {operand}"));
            assert_eq!(shown(|a| a.divide(width, register)), format!("div {operand}"));
            assert_eq!(shown(|a| a.divide_signed(width, register)), format!("idiv {operand}"));
            assert_eq!(shown(|a| a.multiply_wide(width, register)), format!("mul {operand}"));
        }
        let wide = name(register, Width::Bits64);
        assert_eq!(shown(|a| a.push(register)), format!("push {wide}"));
        assert_eq!(shown(|a| a.pop(register)), format!("pop {wide}"));
        assert_eq!(shown(|a| a.call_register(register)), format!("call {wide}"));
        assert_eq!(shown(|a| a.jump_register(register)), format!("jmp {wide}"));
        for (condition, text) in CONDITIONS {
            assert_eq!(shown(|a| a.set_if(condition, register)), format!("set{text} {}", name(register, Width::Bits8)));
        }
        let low = name(register, Width::Bits32);
        assert_eq!(shown(|a| a.move_immediate(register, 5)), format!("mov {low}, 5"));
        assert_eq!(shown(|a| a.move_immediate(register, u64::MAX)), format!("mov {wide}, -1"));
        assert_eq!(shown(|a| a.move_immediate(register, 0x1234_5678_9abc)), format!("mov {wide}, 0x123456789abc"));
    }
}

#[test]
fn memory_operands() {
    for memory in memories() {
        let place = memory_text(memory);
        for register in [Register::Rax, Register::Rsi, Register::Rsp, Register::R8, Register::R15] {
            let wide = name(register, Width::Bits64);
            for width in WIDTHS {
                let operand = name(register, width);
                assert_eq!(shown(|a| a.store(width, memory, register)), format!("mov {place}, {operand}"));
                let got = shown(|a| a.arithmetic_store(Arithmetic::Xor, width, memory, register));
                assert_eq!(got, format!("xor {place}, {operand}"));
                let got = shown(|a| a.arithmetic_load(Arithmetic::Compare, width, register, memory));
                assert_eq!(got, format!("cmp {operand}, {place}"));
            }
            for width in WIDE {
                let operand = name(register, width);
                assert_eq!(shown(|a| a.load(width, register, memory)), format!("mov {operand}, {place}"));
                assert_eq!(shown(|a| a.exchange(width, memory, register)), format!("xchg {place}, {operand}"));
                assert_eq!(shown(|a| a.exchange_add(width, memory, register)), format!("xadd {place}, {operand}"));
                let got = shown(|a| a.compare_exchange(width, memory, register));
                assert_eq!(got, format!("cmpxchg {place}, {operand}"));
                let got = shown(|a| {
                    a.lock();
                    a.arithmetic_store(Arithmetic::Add, width, memory, register);
                });
                assert_eq!(got, format!("lock add {place}, {operand}"));
            }
            let low = name(register, Width::Bits32);
            for width in [Width::Bits8, Width::Bits16] {
                assert_eq!(
                    shown(|a| a.load(width, register, memory)).replace("byte ptr ", ""),
                    format!("movzx {low}, {place}")
                );
                let got = shown(|a| a.load_signed(width, register, memory));
                assert_eq!(got, format!("movsx {wide}, {place}"));
            }
            assert_eq!(shown(|a| a.load_signed(Width::Bits32, register, memory)), format!("movsxd {wide}, {place}"));
            assert_eq!(shown(|a| a.load_effective_address(register, memory)), format!("lea {wide}, {place}"));
            for (condition, text) in CONDITIONS {
                let got = shown(|a| a.load_if(condition, Width::Bits64, register, memory));
                assert_eq!(got, format!("cmov{text} {wide}, {place}"));
            }
        }
        for (width, value) in
            [(Width::Bits8, -2), (Width::Bits16, 0x1234), (Width::Bits32, -70_000), (Width::Bits64, -3)]
        {
            let got = shown(|a| a.store_immediate(width, memory, value));
            assert_eq!(got, format!("mov {place}, {}", number(value.into())));
            let got = shown(|a| a.arithmetic_memory_immediate(Arithmetic::Compare, width, memory, value));
            assert_eq!(got, format!("cmp {place}, {}", number(value.into())));
        }
        assert_eq!(shown(|a| a.test_memory_immediate(Width::Bits32, memory, 9)), format!("test {place}, 9"));
        assert_eq!(shown(|a| a.jump_memory(memory)), format!("jmp {place}"));
    }
}

#[test]
fn fixed_instructions() {
    assert_eq!(shown(|a| a.sign_into_rdx(Width::Bits64)), "cqo");
    assert_eq!(shown(|a| a.sign_into_rdx(Width::Bits32)), "cdq");
    assert_eq!(shown(|a| a.return_()), "ret");
    assert_eq!(shown(|a| a.speculation_barrier()), "lfence");
    assert_eq!(shown(|a| a.undefined()), "ud2");
    assert_eq!(shown(|a| a.read_time_stamp()), "rdtsc");
}

/// All instructions of some code.
fn listing(bytes: &[u8]) -> Vec<(u64, String)> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut all = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid());
        all.push((instruction.near_branch_target(), instruction.to_string()));
    }
    all
}

#[test]
fn labels_forward_and_backward() {
    let mut buffer = [0; 400];
    let mut labels = [0; 3];
    let mut assembler = Assembler::new(&mut buffer, &mut labels);
    assembler.bind(Label(0));
    for _ in 0..5 {
        assembler.jump_if(Condition::Equal, Label(1));
        assembler.jump(Label(1));
        assembler.call(Label(1));
    }
    assembler.jump(Label(0));
    assembler.bytes(&[0x90; 130]);
    assembler.jump_if(Condition::Less, Label(0));
    let target = assembler.position() as u64;
    assembler.bind(Label(1));
    assembler.return_();
    let size = assembler.finish().expect("fits");
    let listing = listing(&buffer[..size]);
    assert!(listing[..15].iter().all(|(to, _)| *to == target), "{listing:?}");
    assert_eq!((listing[15].0, listing[16 + 130].0), (0, 0));
}

#[test]
fn measuring_and_emitting_agree() {
    let emit = |assembler: &mut Assembler<'_>| {
        assembler.jump(Label(0));
        assembler.bind(Label(1));
        assembler.bytes(&[0x90; 100]);
        assembler.jump_if(Condition::Above, Label(1));
        let skip = assembler.skip_if(Condition::Equal);
        assembler.undefined();
        assembler.land(skip);
        assembler.bind(Label(0));
    };
    let mut labels = [0; 2];
    let mut assembler = Assembler::new(&mut [], &mut labels);
    emit(&mut assembler);
    let Err(EmitError::BufferFull { needed, available: 0 }) = assembler.finish() else { panic!("it does not fit") };
    let mut buffer = vec![0; needed];
    // With the labels of the measuring pass, and with fresh ones.
    for mut labels in [labels, [0; 2]] {
        let mut assembler = Assembler::new(&mut buffer, &mut labels);
        emit(&mut assembler);
        assert_eq!(assembler.finish(), Ok(needed));
        let listing = listing(&buffer);
        assert_eq!(listing[0].0, needed as u64);
    }
}

#[test]
fn fault_54_a_full_buffer_is_an_error_and_nothing_is_written_behind_it() {
    for size in 0..40 {
        let mut storage = [0xee; 64];
        let mut labels = [0; 2];
        let mut assembler = Assembler::new(&mut storage[..size], &mut labels);
        assembler.jump(Label(0));
        assembler.move_immediate(Register::R9, u64::MAX / 3);
        assembler.jump(Label(0));
        assembler.load(Width::Bits64, Register::R9, Memory::at(Register::R12, 1 << 20));
        assembler.bind(Label(0));
        assembler.return_();
        let result = assembler.finish();
        match result {
            Ok(needed) => assert!(needed <= size),
            Err(error) => assert_eq!(error, EmitError::BufferFull { needed: 29, available: size }),
        }
        assert!(storage[size..].iter().all(|byte| *byte == 0xee));
    }
}

#[test]
fn fault_54_displacements_out_of_reach_are_errors() {
    let mut buffer = [0; 16];
    let far = |target| {
        let mut buffer = [0; 16];
        let mut assembler = Assembler::new(&mut buffer, &mut []);
        assembler.call_outside(target, 0x1_0000_0000);
        assembler.finish()
    };
    assert_eq!(far(0x1_8000_0004), Ok(5));
    assert_eq!(far(0x1_8000_0005), Err(EmitError::TooFar { position: 0 }));
    assert_eq!(far(0x8000_0005), Ok(5));
    assert_eq!(far(0x8000_0004), Err(EmitError::TooFar { position: 0 }));
    let mut assembler = Assembler::resume(&mut buffer, &mut [], i32::MAX as usize - 1);
    assembler.bytes(&[1, 2, 3]);
    assert!(matches!(assembler.finish(), Err(EmitError::TooFar { .. })));
}

#[test]
fn misuse_is_an_error() {
    let result = |emit: fn(&mut Assembler<'_>)| {
        let mut buffer = [0; 300];
        let mut labels = [0; 1];
        let mut assembler = Assembler::new(&mut buffer, &mut labels);
        emit(&mut assembler);
        assembler.finish()
    };
    assert_eq!(result(|a| a.jump(Label(7))), Err(EmitError::NoSuchLabel { label: 7, available: 1 }));
    assert_eq!(result(|a| a.jump(Label(0))), Err(EmitError::LabelNeverBound { label: 0 }));
    let twice = |a: &mut Assembler<'_>| {
        a.bind(Label(0));
        a.return_();
        a.bind(Label(0));
    };
    assert_eq!(result(twice), Err(EmitError::LabelBoundTwice { label: 0 }));
    let index = |a: &mut Assembler<'_>| {
        a.load(Width::Bits64, Register::Rax, Memory::indexed(Register::Rax, Register::Rsp, Scale::One, 0));
    };
    assert_eq!(result(index), Err(EmitError::BadOperand { position: 0 }));
    let far = |a: &mut Assembler<'_>| {
        let skip = a.skip();
        a.bytes(&[0x90; 128]);
        a.land(skip);
    };
    assert_eq!(result(far), Err(EmitError::TooFar { position: 2 }));
}

/// What fills the rest of a line is instructions that do nothing, and none is emitted where there is room.
#[test]
fn small_loops_are_kept_in_one_line() {
    for (before, room) in (0..130).flat_map(|before| [1, 20, 32, 64].map(|room| (before, room))) {
        let mut buffer = [0xcc; 256];
        let mut assembler = Assembler::new(&mut buffer, &mut []);
        assembler.bytes(&[0x90; 130][..before]);
        assembler.keep_in_one_line(room);
        let start = assembler.position();
        assert_eq!(start / LINE, (start + room - 1) / LINE, "{before} {room}");
        assert!(start == before || start.is_multiple_of(LINE) && before % LINE + room > LINE);
        let padding = Decoder::with_ip(64, &buffer[before..start], 0, DecoderOptions::NONE);
        assert!(padding.into_iter().all(|instruction| instruction.mnemonic() == Mnemonic::Nop));
    }
}
