//! Calls that a preloaded object replaces: where there is one, the process works by a table in which every entry is
//! [`operation`].

use crate::hw::preload_abi::{self, PreloadedCall};
use crate::process::call::{Call, NUMBERS, Operation, Operations};
use crate::process::current::process;
use crate::process::interpose::Functions;
use linux_abi::errno::{Errno, Result};

static OPERATIONS: Operations = [Some(operation as Operation); NUMBERS];

/// Has the object perform the call, if it replaced it.
fn operation(call: &mut Call<'_>) -> Result<u64> {
    let number = call.number();
    let function = call.process.with_extension(|functions: &mut Functions| functions.0.get(&number).copied());
    match function {
        Some(function) => preload_abi::operate(function, call),
        None => call.by(&call.process.calls.image().tables.calls),
    }
}

impl PreloadedCall for Call<'_> {
    fn number(&self) -> u64 {
        Call::number(self)
    }

    fn arguments(&self) -> [u64; 6] {
        Call::arguments(self)
    }

    fn replace(number: u64, function: u64) -> Result<()> {
        if number >= NUMBERS as u64 {
            return Err(Errno::ENOSYS);
        }
        let process = process();
        process.with_extension(|functions: &mut Functions| functions.0.insert(number, function));
        process.calls.set(&OPERATIONS);
        Ok(())
    }

    // By the table of the image. The registers of the program stay as they are, unless the call sets them itself.
    fn perform(&mut self, number: u64, arguments: [u64; 6]) -> Result<u64> {
        let before = self.context.registers;
        let registers = &mut self.context.registers;
        registers.rax = number;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        let result = self.by(&self.process.calls.image().tables.calls);
        if !self.keep_registers {
            self.context.registers = before;
        }
        result
    }
}
