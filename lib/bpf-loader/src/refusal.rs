//! Why an object was refused, where, and what to do.

use std::fmt;

use crate::line::Line;
use crate::object_file::OBJECT_MAX;
use crate::program::CONSTANTS_MAX;
use downloaded_code::program::MAX_INSTRUCTIONS;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The instruction at fault, where there is one.
    pub place: Option<Box<Place>>,
    /// What is wrong.
    pub reason: Reason,
}

/// An instruction of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function it belongs to.
    pub function: String,
    /// Its slot, counted from 0 at the start of that function.
    pub instruction: usize,
    /// The line of the source it was made from, when the object says.
    pub line: Option<Line>,
}

/// What can be wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has more than [`OBJECT_MAX`] bytes.
    TooLarge,
    /// It is no 64-bit little-endian ELF file.
    NotElf,
    /// It is LLVM bitcode, which rustc writes in place of objects for BPF.
    Bitcode,
    /// It is for another machine; the ELF number of that machine.
    NotBpf(u16),
    /// It is finished (an executable or a shared library), not an object.
    NotRelocatable,
    /// It contradicts itself or ends too early; what could not be read.
    Malformed(String),
    /// It needs types of a Linux kernel (BPF CO-RE).
    NeedsKernelTypes,
    /// It defines no function.
    NoFunctions,
    /// It has no function of this name; the names it has.
    NoSuchFunction(String, Vec<String>),
    /// It has several global functions and none was chosen; their names.
    SeveralFunctions(Vec<String>),
    /// Entry and what it calls have more than [`MAX_INSTRUCTIONS`] instructions.
    TooManyInstructions,
    /// The constants it uses have more than [`CONSTANTS_MAX`] bytes.
    TooManyConstants,
    /// A function's symbol does not cover whole instructions of a section of code; its name.
    BadFunction(String),
    /// A relocation of this type is not known; the ELF number.
    UnknownRelocation(u32),
    /// Two relocations change one instruction.
    TwoRelocations,
    /// A relocation does not fit the instruction it changes.
    MisplacedRelocation,
    /// A relocation names a symbol that does not exist.
    NoSuchSymbol,
    /// A call goes to no function's first instruction.
    BadCall,
    /// A jump leaves its function.
    JumpOutOfFunction,
    /// The second half of a 16-byte load is missing.
    HalfLoad,
    /// No helper has this name; the names there are.
    NoSuchHelper(String, Vec<String>),
    /// The program calls Rust's panic machinery.
    Panics,
    /// No region has this name; the names there are.
    NoSuchRegion(String, Vec<String>),
    /// The program uses constants, and the context has no region for them.
    NoConstants,
    /// A variable of this name would need memory of the program's own.
    Variable(String),
    /// The address of this function is taken.
    FunctionAddress(String),
    /// A constant of this section holds addresses.
    AddressInConstants(String),
    /// An address lies outside what its symbol names.
    OutsideSymbol(String),
}

impl Refusal {
    pub(crate) fn whole(reason: Reason) -> Refusal {
        Refusal { place: None, reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(out, "{place}: ")?;
        }
        write!(out, "{}", self.reason)
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, instruction {}", self.function, self.instruction)?;
        match &self.line {
            Some(line) => write!(out, " ({line})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::TooLarge => {
                write!(out, "the object has more than {OBJECT_MAX} bytes: strip what is not needed")
            }
            Reason::NotBpf(machine) => {
                write!(
                    out,
                    "the object is for another machine (ELF number {machine}): compile with `clang -target bpf`"
                )
            }
            Reason::Malformed(what) => write!(out, "the object is damaged: {what}"),
            Reason::NoSuchFunction(name, known) => {
                write!(out, "there is no function `{name}`: choose {}", list(known))
            }
            Reason::SeveralFunctions(known) => {
                write!(out, "several functions could be the entry: choose one of {}", list(known))
            }
            Reason::TooManyInstructions => write!(
                out,
                "the function and those it calls have more than {MAX_INSTRUCTIONS} instructions: split the program"
            ),
            Reason::TooManyConstants => {
                write!(out, "the constants have more than {CONSTANTS_MAX} bytes: put large tables into a region")
            }
            Reason::BadFunction(name) => {
                write!(out, "the symbol of function `{name}` does not cover whole instructions of its section")
            }
            Reason::UnknownRelocation(number) => {
                write!(out, "relocation type {number} is not known: compile with clang or rustc for BPF")
            }
            Reason::NoSuchHelper(name, known) => write!(
                out,
                "`{name}` is neither defined here nor a helper of this context, which has {}: define it, or compile with -O2 so that memory is copied in place",
                list(known)
            ),
            Reason::NoSuchRegion(name, known) => {
                write!(out, "`{name}` is neither defined here nor a region of this context, which has {}", list(known))
            }
            Reason::Variable(name) => write!(
                out,
                "`{name}` is a variable, and a program has no memory of its own: make it const, or declare it `extern` as a region"
            ),
            Reason::FunctionAddress(name) => {
                write!(out, "the address of function `{name}` is taken: call it by name instead")
            }
            Reason::AddressInConstants(section) => write!(
                out,
                "constants of section `{section}` hold addresses: use no pointers in tables, and -fno-jump-tables; in Rust nothing that may panic, since a panic says where (`get` instead of an index)"
            ),
            Reason::OutsideSymbol(name) => write!(out, "an address lies outside `{name}`"),
            fixed => out.write_str(fixed.fixed_text()),
        }
    }
}

impl Reason {
    fn fixed_text(&self) -> &'static str {
        match self {
            Reason::NotElf => "this is no 64-bit little-endian ELF object: compile with `clang -target bpf -c`",
            Reason::Bitcode => {
                "this is LLVM bitcode: have rustc write assembly (--emit asm) and assemble it with `clang -target bpf -c`"
            }
            Reason::NotRelocatable => "this is a linked file, not an object: give what `clang -c` writes",
            Reason::NeedsKernelTypes => {
                "the object asks for types of a Linux kernel (CO-RE): compile without preserve_access_index"
            }
            Reason::NoFunctions => "the object defines no global function: the entry must not be static",
            Reason::NoConstants => "the program uses constants, and this context has no region `constants` for them",
            Reason::Panics => {
                "the program may panic, and no one is there to catch it: in Rust use `get` instead of an index, `checked_` or `wrapping_` arithmetic, and no `unwrap`"
            }
            Reason::TwoRelocations => "two relocations change one instruction",
            Reason::MisplacedRelocation => "a relocation does not fit the instruction it would change",
            Reason::NoSuchSymbol => "a relocation names a symbol that does not exist",
            Reason::BadCall => "a call goes to no function's first instruction",
            Reason::JumpOutOfFunction => "a jump leaves its function",
            Reason::HalfLoad => "the second half of a 16-byte load is missing",
            _ => "refused",
        }
    }
}

/// The most names shown.
const NAMES_SHOWN: usize = 12;

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return String::from("none");
    }
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > NAMES_SHOWN { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
