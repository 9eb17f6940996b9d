//! `./chitin code check`: the verdict, and every check that remains at run time.

use std::fmt::Write;
use std::process::ExitCode;

use downloaded_code::context::Context;
use downloaded_code::instruction::Instruction;
use downloaded_code::program::Program;
use downloaded_code::refusal::Refusal;
use downloaded_code::verifier::{Protection, Space, Verified};

use chitin::answer;
use chitin::failure::{Failure, Result};

use super::REFUSED;
use super::subject::{Subject, Verification, counted, printable, short};

/// Verifies the program and prints what came of it.
///
/// # Errors
/// None that a linked program can have.
pub fn run(subject: &Subject) -> Result<ExitCode> {
    let code = subject.code()?;
    match subject.verify(code) {
        Ok(verification) => {
            answer::print(&printable(&accepted(subject, code, &verification)?))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) => {
            answer::print(&printable(&refused(subject, &refusal)))?;
            Ok(ExitCode::from(REFUSED))
        }
    }
}

/// The first line: which program, in which context.
fn title(subject: &Subject, outcome: &str) -> String {
    let entry = subject.program.functions.first().map_or("", |function| &function.name);
    format!("{}: `{entry}` is {outcome} in context `{}`\n", subject.file, subject.context().name)
}

/// The report on a program that is refused; also what `disasm` shows then.
pub fn refused(subject: &Subject, refusal: &Refusal) -> String {
    let mut report = title(subject, "refused");
    let index = refusal.instruction as usize;
    if let Some(line) = subject.line(index) {
        let _ = writeln!(report, "  {line}: {}", line.text);
    }
    let place = subject.place(index);
    let context = subject.context();
    if let Some(instruction) = subject.code().ok().and_then(|code| Instruction::decode(code, index).ok()) {
        let _ = writeln!(report, "  {place}: {}", super::notation::notation(&instruction, &context));
    }
    let _ = writeln!(report, "  at {place}, {}", refusal.describe(&context));
    if !subject.program.lines.known() {
        report.push_str("  (compile with -g to see the source line)\n");
    }
    report
}

/// The report on a program that is accepted.
///
/// # Errors
/// None that a linked program can have.
pub fn accepted(subject: &Subject, code: Program<'_>, verification: &Verification) -> Result<String> {
    let context = subject.context();
    let verdict = verification.verdict;
    let verified = Verified::new(code, &context, &verification.words, verdict)
        .ok_or_else(|| Failure::new("the verdict does not fit the program"))?;
    let mut report = title(subject, "accepted");
    let (instructions, functions) = (code.slots() as u64, subject.program.functions.len() as u64);
    let _ = writeln!(
        report,
        "  {} in {}, {} bytes of stack",
        counted(instructions, "instruction"),
        counted(functions, "function"),
        verdict.stack
    );
    let _ = writeln!(report, "  {}", running_time(&context, verdict.worst_case));
    let proven = verdict.accesses - verdict.masked - verdict.checked;
    let _ = writeln!(
        report,
        "  accesses to memory: {}, of these {proven} proven, {} proven and masked against speculation, {} checked at run time",
        verdict.accesses, verdict.masked, verdict.checked
    );
    let checks = remaining(subject, code, &verified);
    if checks.is_empty() && !verified.counts_budget() {
        report.push_str("  no run-time check remains\n");
    } else {
        report.push_str("  what remains to be checked at run time:\n");
        checks.iter().for_each(|check| report.push_str(check));
        if verified.counts_budget() {
            let _ = writeln!(report, "    the budget of {} instructions, at calls and backward jumps", context.budget);
        }
    }
    Ok(report)
}

fn running_time(context: &Context<'_>, worst_case: Option<u64>) -> String {
    match worst_case {
        Some(most) => {
            let most = counted(most, "instruction");
            format!("a run executes at most {most} (the context allows {})", context.budget)
        }
        None => String::from("how long a run takes is not proven, so that its instructions are counted"),
    }
}

/// A line for each access and each call that is checked at run time.
fn remaining(subject: &Subject, code: Program<'_>, verified: &Verified<'_>) -> Vec<String> {
    let mut checks = Vec::new();
    for index in 0..code.slots() {
        if let Some((space, Protection::Checked)) = verified.access(index) {
            let size = Instruction::decode(code, index).map_or(0, |instruction| access_size(&instruction));
            let what = format!("{} of {}", counted(size.into(), "byte"), memory_name(subject, space));
            checks.push(check_line(subject, index, &what));
        }
        let arguments = verified.checked_arguments(index);
        if arguments > 0 {
            let what = format!("{} of {}", counted(arguments.into(), "argument"), helper_name(subject, code, index));
            checks.push(check_line(subject, index, &what));
        }
    }
    checks
}

fn check_line(subject: &Subject, index: usize, what: &str) -> String {
    let place = subject.place(index);
    match subject.line(index) {
        Some(line) => format!("    {place:<20} {what:<24} {}: {}\n", short(line), line.text),
        None => format!("    {place:<20} {what}\n"),
    }
}

fn access_size(instruction: &Instruction) -> u32 {
    match instruction {
        Instruction::Load { size, .. } | Instruction::Store { size, .. } | Instruction::Atomic { size, .. } => {
            size.bytes()
        }
        _ => 0,
    }
}

fn helper_name(subject: &Subject, code: Program<'_>, index: usize) -> String {
    let Ok(Instruction::CallHelper { number }) = Instruction::decode(code, index) else { return "the helper".into() };
    let context = subject.context();
    context.helper(number).map_or_else(|| "the helper".into(), |helper| format!("`{}`", helper.name))
}

fn memory_name(subject: &Subject, space: Space) -> String {
    match space {
        Space::Region(region) => {
            let context = subject.context();
            let name = context.regions.get(usize::from(region)).map_or("?", |region| region.name);
            format!("`{name}`")
        }
        Space::Stack => String::from("the stack"),
        Space::CallersStack => String::from("a caller's stack"),
    }
}
