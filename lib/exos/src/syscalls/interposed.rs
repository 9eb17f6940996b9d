//! Calls that a preloaded object replaces: where there is one, the process works by a table in which every entry is
//! [`operation`].

use super::dispatch::{Call, NUMBERS, Operation, Operations};
use crate::hw::current::process;
use crate::hw::header::tables;
use crate::hw::preload_abi;
use crate::process::Process;
use alloc::collections::BTreeMap;
use linux_abi::errno::{Errno, Result};

/// Functions of objects, by the number of the call that they replace.
#[derive(Debug, Default)]
struct Functions(BTreeMap<u64, u64>);

static OPERATIONS: Operations = [Some(operation as Operation); NUMBERS];

/// From now on the function at this address performs the calls of this number.
pub(crate) fn replace(number: u64, function: u64) -> Result<()> {
    if number >= NUMBERS as u64 {
        return Err(Errno::ENOSYS);
    }
    let process = process();
    process.with_extension(|functions: &mut Functions| functions.0.insert(number, function));
    process.calls.set(&OPERATIONS);
    Ok(())
}

/// Nothing is replaced any more.
pub(crate) fn forget(process: &Process) {
    process.calls.reset();
    process.with_extension(|functions: &mut Functions| functions.0.clear());
}

/// Has the object perform the call, if it replaced it.
fn operation(call: &mut Call<'_>) -> Result<u64> {
    let number = call.number();
    let function = call.process.with_extension(|functions: &mut Functions| functions.0.get(&number).copied());
    match function {
        Some(function) => preload_abi::operate(function, call),
        None => call.by(&tables().calls),
    }
}

/// Performs a call for an object, by the table of the image; the registers of the program stay as they are, unless the
/// call sets them itself.
pub(crate) fn perform(call: &mut Call<'_>, number: u64, arguments: [u64; 6]) -> Result<u64> {
    let before = call.context.registers;
    let registers = &mut call.context.registers;
    registers.rax = number;
    [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
    let result = call.by(&tables().calls);
    if !call.keep_registers {
        call.context.registers = before;
    }
    result
}
