//! `./chitin code disasm`: each instruction of the program with the machine
//! code it becomes, under the line of the source that both come from.

use std::fmt::Write;
use std::process::ExitCode;

use downloaded_code::compiler::{Compiler, Request, label_words};
use downloaded_code::instruction::Instruction;
use downloaded_code::program::Program;
use downloaded_code::verifier::{Protection, Verified};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

use chitin::answer;
use chitin::failure::{Context, Failure, Result};

use super::REFUSED;
use super::check::refused;
use super::subject::{Subject, Verification, counted, printable, short};

/// Columns of the left side.
const LEFT: usize = 46;
/// Bytes of machine code for a slot that always suffice.
const BYTES_A_SLOT: usize = 512;

/// Compiles the program and prints both forms.
///
/// # Errors
/// The compiler's, which an accepted program does not have.
pub fn run(subject: &Subject) -> Result<ExitCode> {
    let code = subject.code()?;
    match subject.verify(code) {
        Ok(verification) => {
            answer::print(&printable(&listing(subject, code, &verification)?))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) => {
            answer::print(&printable(&refused(subject, &refusal)))?;
            Ok(ExitCode::from(REFUSED))
        }
    }
}

/// Machine code, and where the code of each slot begins in it.
struct Compiled {
    bytes: Vec<u8>,
    starts: Vec<Option<usize>>,
}

fn compile(verified: &Verified<'_>, helpers: usize) -> Result<Compiled> {
    // The helpers live in the kernel; here they get addresses that are easy to recognise.
    let helpers: Vec<u64> = (1..=helpers as u64).map(|number| number << 12).collect();
    let request = Request { helpers: &helpers, code_address: None, blinding: None };
    let slots = verified.slots();
    let mut bytes = vec![0; BYTES_A_SLOT * (slots + 2)];
    let mut labels = vec![0; label_words(slots)];
    let size = Compiler::run(verified, &request, &mut bytes, &mut labels).context("cannot compile")?;
    bytes.truncate(size);
    let starts = (0..slots).map(|index| Compiler::offset_of(&mut labels, index)).collect();
    Ok(Compiled { bytes, starts })
}

/// The whole page.
///
/// # Errors
/// The compiler's, which an accepted program does not have.
pub fn listing(subject: &Subject, code: Program<'_>, verification: &Verification) -> Result<String> {
    let context = subject.context();
    let verified = Verified::new(code, &context, &verification.words, verification.verdict)
        .ok_or_else(|| Failure::new("the verdict does not fit the program"))?;
    let compiled = compile(&verified, context.helpers.len())?;
    let first = compiled.starts.first().copied().flatten().unwrap_or(0);
    let mut page = format!(
        "{}: {}, {} of machine code (without blinding of constants)\n\n",
        subject.file,
        counted(code.slots() as u64, "instruction"),
        counted(compiled.bytes.len() as u64, "byte")
    );
    rows(&mut page, "(entry)", &machine_code(&compiled.bytes, 0, first));
    let mut index = 0;
    let mut end = first;
    while index < code.slots() {
        let instruction = Instruction::decode(code, index).map_err(|_| Failure::new("the program does not decode"))?;
        heading(&mut page, subject, index);
        let next = index + instruction.slots();
        let start = compiled.starts[index].unwrap_or(end);
        end = compiled.starts.get(next).copied().flatten().unwrap_or_else(|| end_of_body(&compiled, start, next));
        let mark = mark(&verified, index);
        let left = format!("{index:5} {mark} {}", super::notation::notation(&instruction, &context));
        rows(&mut page, &left, &machine_code(&compiled.bytes, start, end));
        index = next;
    }
    page.push('\n');
    rows(&mut page, "(exits)", &machine_code(&compiled.bytes, end, compiled.bytes.len()));
    page.push_str("\n= proven   ~ proven and masked against speculation   ! checked at run time   - never reached\n");
    Ok(page)
}

/// Where the code of the last slot ends: the exits that follow begin after it, with the
/// first instruction that no slot owns. The last slot is an exit or a jump, which the
/// compiler makes into code that ends with a jump or return.
fn end_of_body(compiled: &Compiled, start: usize, next: usize) -> usize {
    let later = compiled.starts.get(next..).into_iter().flatten().flatten().copied().min();
    later.unwrap_or_else(|| {
        let mut decoder = Decoder::with_ip(64, &compiled.bytes[start..], start as u64, DecoderOptions::NONE);
        let leaves = |flow| matches!(flow, iced_x86::FlowControl::UnconditionalBranch | iced_x86::FlowControl::Return);
        let ends = decoder.iter().find(|instruction| leaves(instruction.flow_control()));
        ends.map_or(compiled.bytes.len(), |instruction| instruction.next_ip() as usize)
    })
}

/// Names a function where it begins, and a line of the source where it changes.
fn heading(page: &mut String, subject: &Subject, index: usize) {
    if let Some(function) = subject.program.functions.iter().find(|function| function.first == index) {
        let _ = writeln!(page, "\n{}:", function.name);
    }
    let shown = |line: &bpf_loader::Line| format!("; {}  {}", short(line), line.text);
    let line = subject.line(index).map(shown);
    let before = index.checked_sub(1).and_then(|before| subject.line(before)).map(shown);
    if let Some(line) = line.filter(|line| Some(line) != before.as_ref()) {
        let _ = writeln!(page, "{line}");
    }
}

/// How an instruction's access to memory is kept inside; blank for other instructions.
fn mark(verified: &Verified<'_>, index: usize) -> char {
    match verified.access(index) {
        _ if !verified.is_reached(index) => '-',
        Some((_, Protection::Proven)) => '=',
        Some((_, Protection::Masked)) => '~',
        Some((_, Protection::Checked)) => '!',
        None => ' ',
    }
}

/// The machine instructions from byte `start` to `end`, with their offsets.
fn machine_code(bytes: &[u8], start: usize, end: usize) -> Vec<String> {
    let Some(part) = bytes.get(start..end) else { return Vec::new() };
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(true);
    let show = |instruction: iced_x86::Instruction| {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        format!("{:04x}  {text}", instruction.ip())
    };
    Decoder::with_ip(64, part, start as u64, DecoderOptions::NONE).into_iter().map(show).collect()
}

/// The left text in the line of the first machine instruction, the others below it.
fn rows(page: &mut String, left: &str, right: &[String]) {
    let first = right.first().map_or("", String::as_str);
    let _ = writeln!(page, "{}", format!("{left:<LEFT$} {first}").trim_end());
    for text in right.iter().skip(1) {
        let _ = writeln!(page, "{:LEFT$} {text}", "");
    }
}
