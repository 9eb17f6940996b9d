//! BPF instructions as text, in the notation that clang's tools use: `r0 = *(u8 *)(r1 + 3)`.

use downloaded_code::context::Context;
use downloaded_code::instruction::{Arithmetic, Atomic, ByteOrder, Comparison, Instruction, Operand, Size};

/// One instruction; names of regions and helpers come from the context.
pub fn notation(instruction: &Instruction, context: &Context<'_>) -> String {
    match *instruction {
        Instruction::Arithmetic { operation, wide, destination, operand } => {
            arithmetic(operation, wide, destination, operand)
        }
        Instruction::Negate { wide, destination } => {
            let register = register(destination, wide);
            format!("{register} = -{register}")
        }
        Instruction::ByteOrder { order, size, destination } => {
            format!("r{destination} = {}{} r{destination}", byte_order(order), size.bits())
        }
        Instruction::LoadConstant { destination, value } => format!("r{destination} = {:#x} ll", value),
        Instruction::LoadRegion { destination, region, offset } => {
            let name = context.regions.get(region as usize).map_or("?", |region| region.name);
            format!("r{destination} = &{name}[{offset}]")
        }
        Instruction::Load { size, signed, destination, base, offset } => {
            format!("r{destination} = {}", place(size, signed, base, offset))
        }
        Instruction::Store { size, base, offset, operand } => {
            format!("{} = {}", place(size, false, base, offset), value(operand, true))
        }
        Instruction::Atomic { operation, fetch, size, base, offset, source } => {
            atomic(operation, fetch, source, &place(size, false, base, offset))
        }
        Instruction::Jump { target } => format!("goto {target}"),
        Instruction::Branch { comparison, wide, left, right, target } => {
            let left = register(left, wide);
            format!("if {left} {} {} goto {target}", sign(comparison), value(right, wide))
        }
        Instruction::CallHelper { number } => {
            format!("call {}", context.helper(number).map_or("?", |helper| helper.name))
        }
        Instruction::CallFunction { target } => format!("call {target}"),
        Instruction::Exit => String::from("exit"),
    }
}

/// A register: `r` for all 64 bits, `w` for the low 32.
fn register(number: u8, wide: bool) -> String {
    format!("{}{number}", if wide { 'r' } else { 'w' })
}

fn value(operand: Operand, wide: bool) -> String {
    match operand {
        Operand::Register(number) => register(number, wide),
        Operand::Immediate(constant) => constant.to_string(),
    }
}

fn place(size: Size, signed: bool, base: u8, offset: i16) -> String {
    let kind = if signed { 's' } else { 'u' };
    let sign = if offset < 0 { '-' } else { '+' };
    format!("*({kind}{} *)(r{base} {sign} {})", size.bits(), offset.unsigned_abs())
}

fn arithmetic(operation: Arithmetic, wide: bool, destination: u8, operand: Operand) -> String {
    let (left, right) = (register(destination, wide), value(operand, wide));
    let sign = match operation {
        Arithmetic::Move => "=",
        Arithmetic::Add => "+=",
        Arithmetic::Subtract => "-=",
        Arithmetic::Multiply => "*=",
        Arithmetic::Divide => "/=",
        Arithmetic::SignedDivide => "s/=",
        Arithmetic::Or => "|=",
        Arithmetic::And => "&=",
        Arithmetic::ShiftLeft => "<<=",
        Arithmetic::ShiftRight => ">>=",
        Arithmetic::Modulo => "%=",
        Arithmetic::SignedModulo => "s%=",
        Arithmetic::Xor => "^=",
        Arithmetic::ArithmeticShiftRight => "s>>=",
        Arithmetic::MoveSigned(size) => return format!("{left} = (s{}){right}", size.bits()),
    };
    format!("{left} {sign} {right}")
}

fn atomic(operation: Atomic, fetch: bool, source: u8, place: &str) -> String {
    let sign = match operation {
        Atomic::Add => "+=",
        Atomic::Or => "|=",
        Atomic::And => "&=",
        Atomic::Xor => "^=",
        Atomic::Exchange => return format!("lock r{source} <-> {place}"),
        Atomic::CompareExchange => return format!("lock {place} = r{source} if it is r0"),
    };
    let fetched = if fetch { format!("r{source} = ") } else { String::new() };
    format!("lock {fetched}{place} {sign} r{source}")
}

fn byte_order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::ToLittle => "le",
        ByteOrder::ToBig => "be",
        ByteOrder::Swap => "bswap",
    }
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::AnyBit => "&",
        Comparison::SignedGreater => "s>",
        Comparison::SignedGreaterOrEqual => "s>=",
        Comparison::SignedLess => "s<",
        Comparison::SignedLessOrEqual => "s<=",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf_loader::contexts;
    use downloaded_code::program::Program;

    #[test]
    fn instructions_read_as_in_clangs_tools() {
        let table: [([u8; 8], &str); 10] = [
            ([0x71, 0x10, 3, 0, 0, 0, 0, 0], "r0 = *(u8 *)(r1 + 3)"),
            ([0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0], "*(u64 *)(r10 - 8) = r1"),
            ([0xb4, 3, 0, 0, 0xff, 0xff, 0xff, 0xff], "w3 = -1"),
            ([0x0f, 0x23, 0, 0, 0, 0, 0, 0], "r3 += r2"),
            ([0x84, 5, 0, 0, 0, 0, 0, 0], "w5 = -w5"),
            ([0x16, 5, 2, 0, 0xa8, 0x88, 0, 0], "if w5 == 34984 goto 3"),
            ([0xdc, 1, 0, 0, 16, 0, 0, 0], "r1 = be16 r1"),
            ([0xdb, 0x21, 8, 0, 1, 0, 0, 0], "lock r2 = *(u64 *)(r1 + 8) += r2"),
            ([0x85, 0, 0, 0, 1, 0, 0, 0], "call clock_now"),
            ([0x95, 0, 0, 0, 0, 0, 0, 0], "exit"),
        ];
        for (bytes, expected) in table {
            let program = Program::new(&bytes).expect("one slot");
            let instruction = Instruction::decode(program, 0).expect(expected);
            assert_eq!(notation(&instruction, &contexts::PACKET), expected);
        }
    }
}
