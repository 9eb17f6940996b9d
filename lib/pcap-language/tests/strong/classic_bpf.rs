//! An interpreter of the classic BPF that libpcap's compiler makes (McCanne and
//! Jacobson, USENIX 1993), for its verdict on a packet.

use std::process::Command;

/// One instruction: operation, jumps, constant.
#[derive(Clone, Copy)]
pub(crate) struct Instruction {
    code: u16,
    if_true: usize,
    if_false: usize,
    k: u32,
}

/// What a program says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    Rejected,
    /// Rejected because a load went past the end.
    TooShort,
}

/// Compiles an expression with libpcap, without its optimizer. An error is its message.
pub(crate) fn compile(expression: &str) -> Result<Vec<Instruction>, String> {
    let arguments = ["-O", "-ddd", "-y", "EN10MB", "--", expression];
    let output =
        Command::new("tcpdump").args(arguments).output().expect("tcpdump is installed (apt-get install tcpdump)");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).expect("tcpdump prints decimal numbers");
    Ok(text.lines().skip(1).map(instruction).collect())
}

fn instruction(line: &str) -> Instruction {
    let mut numbers = line.split_whitespace().map(|number| number.parse::<u32>().expect("a decimal number"));
    let mut next = || numbers.next().expect("four numbers on a line");
    Instruction { code: next() as u16, if_true: next() as usize, if_false: next() as usize, k: next() }
}

struct Machine<'a> {
    packet: &'a [u8],
    a: u32,
    x: u32,
    memory: [u32; 16],
}

impl Machine<'_> {
    fn load(&self, offset: usize, size: usize) -> Option<u32> {
        let bytes = self.packet.get(offset..offset + size)?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    /// Runs an instruction that neither jumps nor returns; `None` past the packet's end.
    fn step(&mut self, instruction: Instruction) -> Option<()> {
        let k = instruction.k as usize;
        match instruction.code {
            0x20 => self.a = self.load(k, 4)?,
            0x28 => self.a = self.load(k, 2)?,
            0x30 => self.a = self.load(k, 1)?,
            0x40 => self.a = self.load(self.x as usize + k, 4)?,
            0x48 => self.a = self.load(self.x as usize + k, 2)?,
            0x50 => self.a = self.load(self.x as usize + k, 1)?,
            0xb1 => self.x = 4 * (self.load(k, 1)? & 0xf),
            0x00 => self.a = instruction.k,
            0x01 => self.x = instruction.k,
            0x60 => self.a = self.memory[k],
            0x61 => self.x = self.memory[k],
            0x02 => self.memory[k] = self.a,
            0x03 => self.memory[k] = self.x,
            0x07 => self.x = self.a,
            0x87 => self.a = self.x,
            code => self.a = arithmetic(code, self.a, if code & 8 == 0 { instruction.k } else { self.x }),
        }
        Some(())
    }
}

fn arithmetic(code: u16, a: u32, operand: u32) -> u32 {
    match code & 0xf7 {
        0x04 => a.wrapping_add(operand),
        0x14 => a.wrapping_sub(operand),
        0x24 => a.wrapping_mul(operand),
        0x44 => a | operand,
        0x54 => a & operand,
        0x64 => a.checked_shl(operand).unwrap_or(0),
        0x74 => a.checked_shr(operand).unwrap_or(0),
        _ => panic!("libpcap made the instruction {code:#x}, which this test does not know"),
    }
}

/// Runs a program on a packet.
pub(crate) fn run(program: &[Instruction], packet: &[u8]) -> Verdict {
    let mut machine = Machine { packet, a: 0, x: 0, memory: [0; 16] };
    let mut next = 0;
    loop {
        let instruction = program[next];
        next += 1;
        let operand = if instruction.code & 8 == 0 { instruction.k } else { machine.x };
        let holds = match instruction.code {
            0x06 => return if instruction.k == 0 { Verdict::Rejected } else { Verdict::Accepted },
            0x05 => {
                next += instruction.k as usize;
                continue;
            }
            0x15 | 0x1d => machine.a == operand,
            0x25 | 0x2d => machine.a > operand,
            0x35 | 0x3d => machine.a >= operand,
            0x45 | 0x4d => machine.a & operand != 0,
            _ => {
                if machine.step(instruction).is_none() {
                    return Verdict::TooShort;
                }
                continue;
            }
        };
        next += if holds { instruction.if_true } else { instruction.if_false };
    }
}
