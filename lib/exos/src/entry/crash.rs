//! Crash report: what the log says of a process that a fault ends, or a signal that ends it like one, as `abort` does.
//!
//! One line says which it was, and where. With the option `crash` the log also gets the registers, the executable
//! mappings of files, and a copy of the stack. The host command has the files, and makes a back trace of these.

use crate::hw::usercopy;
use crate::process::current::process;
use crate::process::option;
use abi::upcall::kind;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use runtime::upcall::{self, Context};
use unix_core::trace_format;
use vm::vma::{Backing, Protection, Vma};

/// Bytes of the stack that are copied at most.
const STACK: u64 = 32 << 10;
/// Words of the stack in a line: a line is one frame of the host channel.
const WORDS: u64 = 16;

/// Reports that `signal` ends the running process, for a fault of the interrupted code.
/// Kept apart: a debugger stops here.
#[cold]
#[inline(never)]
pub(super) fn report(context: &Context, signal: u32) {
    let (process, frame) = (process(), &context.frame);
    let name = process.program.lock().name.clone();
    runtime::log_line!(
        "process {} ({}) is ended by {}: {} at {:#x}{}, error {:#x}, address {:#x}{}",
        process.number(),
        String::from_utf8_lossy(&name),
        trace_format::signal(signal),
        upcall::name(frame.kind),
        frame.rip,
        mapping_of(frame.rip),
        frame.error,
        frame.detail,
        if frame.kind == kind::PAGE_FAULT { mapping_of(frame.detail) } else { String::new() }
    );
    report_state(context);
}

/// Reports that `signal`, which some process has sent, ends the running one.
#[cold]
#[inline(never)]
pub(crate) fn report_sent(context: &Context, signal: u32) {
    let process = process();
    let name = process.program.lock().name.clone();
    runtime::log_line!(
        "process {} ({}) is ended by {}, which was sent, at {:#x}{}",
        process.number(),
        String::from_utf8_lossy(&name),
        trace_format::signal(signal),
        context.frame.rip,
        mapping_of(context.frame.rip)
    );
    report_state(context);
}

fn report_state(context: &Context) {
    let process = process();
    if process.has_option(option::CRASH) && !process.memory_is_mine() {
        report_registers(context);
        report_mappings();
        report_stack(context.frame.rsp);
        runtime::log_line!("crash {} end", process.number());
    }
}

/// The registers in the order in which DWARF numbers them.
fn report_registers(context: &Context) {
    let (all, frame) = (&context.registers, &context.frame);
    let low = [all.rax, all.rdx, all.rcx, all.rbx, all.rsi, all.rdi, all.rbp, frame.rsp];
    let high = [all.r8, all.r9, all.r10, all.r11, all.r12, all.r13, all.r14, all.r15, frame.rip];
    runtime::log_line!("crash {} registers{}{}", process().number(), words(&low), words(&high));
}

fn report_mappings() {
    let process = process();
    let is_code = |area: &&Vma| area.protection.allows(Protection::EXECUTE);
    let areas: Vec<Vma> = process.with_memory(|space, _| space.areas.iter().filter(is_code).copied().collect());
    for Vma { start, end, backing, .. } in areas {
        let Backing::File { node, offset, .. } = backing else { continue };
        let path = process.files.lock().shown_path_of(node).unwrap_or_default();
        runtime::log_line!(
            "crash {} map {start:x} {end:x} {offset:x} {}",
            process.number(),
            String::from_utf8_lossy(&path)
        );
    }
}

/// The words from `stack` up to the end of its mapping.
fn report_stack(stack: u64) {
    let process = process();
    let Some(area) = process.with_memory(|space, _| space.areas.find(stack).copied()) else { return };
    let end = area.end.min(stack.saturating_add(STACK));
    let mut at = stack & !7;
    while at < end {
        let mut line = [0; WORDS as usize];
        let count = ((end - at) / 8).min(WORDS) as usize;
        if count == 0 || usercopy::read_into_words(at, &mut line[..count]).is_err() {
            return;
        }
        runtime::log_line!("crash {} stack {at:x}{}", process.number(), words(&line[..count]));
        at += 8 * WORDS;
    }
}

fn words(all: &[u64]) -> String {
    all.iter().map(|word| format!(" {word:x}")).collect()
}

/// Which mapping an address lies in, and how far behind the beginning of its file.
fn mapping_of(address: u64) -> String {
    let process = process();
    if process.memory_is_mine() {
        return String::new();
    }
    let area = process.with_memory(|space, _| space.areas.find(address).copied());
    match area {
        None => String::from(" (not mapped)"),
        Some(Vma { start, backing: Backing::File { node, offset, .. }, .. }) => {
            let path = process.files.lock().shown_path_of(node).unwrap_or_default();
            format!(" ({} + {:#x})", String::from_utf8_lossy(&path), address - start + offset)
        }
        Some(Vma { start, end, .. }) => format!(" (memory {start:#x}-{end:#x})"),
    }
}
