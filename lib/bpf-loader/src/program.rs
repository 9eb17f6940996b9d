//! The finished program.

use crate::line::Lines;

/// The most bytes of constants that travel with a program.
pub const CONSTANTS_MAX: usize = 64 * 1024;

/// One function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name in the object.
    pub name: String,
    /// Its first instruction in the program.
    pub first: usize,
    /// How many instructions it has.
    pub length: usize,
}

/// A program without symbols: the entry function first, then the functions it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The instructions, 8 bytes each (RFC 9669, section 3), as
    /// [`downloaded_code::program::Program::new`] takes them.
    pub bytes: Vec<u8>,
    /// Where each function lies, in order; the first is the entry.
    pub functions: Vec<Function>,
    /// The bytes of the constants region; empty when the program uses none.
    pub constants: Vec<u8>,
    /// Which line of the source each instruction comes from.
    pub lines: Lines,
}

impl Program {
    /// The function that an instruction belongs to.
    pub fn function_of(&self, instruction: usize) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.first <= instruction);
        self.functions[..after].last()
    }
}
