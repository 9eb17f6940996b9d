//! The stack that a program finds when it starts (System V ABI, AMD64 supplement, 3.4.1).
//!
//! From low to high: argument count, argument pointers, 0, environment pointers, 0, auxiliary vector, then the bytes
//! that these point to. Built as bytes in a buffer, so that it is one copy into the program's memory.

use crate::errno::{Errno, Result};
use alloc::vec::Vec;
use core::ops::Range;
use linux_raw_sys::auxvec;

/// Bytes that arguments and environment may take together, pointers included (Linux: a quarter of the stack limit).
pub const ARGUMENT_BYTES: usize = 2 << 20;
/// Bytes that one string may take, its NUL included.
pub const STRING_BYTES: usize = 128 << 10;

/// What the auxiliary vector tells beyond what is the same for all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auxiliary {
    /// Address of the program headers.
    pub headers_address: u64,
    /// How many there are.
    pub headers: u16,
    /// First instruction of the program (not of its interpreter).
    pub entry: u64,
    /// Where the interpreter was loaded; 0 without one.
    pub interpreter_base: u64,
    /// User, effective user, group, effective group.
    pub identity: [u32; 4],
    /// Bytes for AT_RANDOM.
    pub random: [u8; 16],
    /// CPUID leaf 1, edx.
    pub hardware: u64,
    /// Address of the vDSO.
    pub vdso: u64,
    /// Whether the program gained rights by this exec.
    pub secure: bool,
}

/// The finished stack.
#[derive(Debug, PartialEq, Eq)]
pub struct Stack {
    /// What RSP is to be: a multiple of 16. The bytes go here.
    pub pointer: u64,
    /// From `pointer` to the top.
    pub bytes: Vec<u8>,
    /// Where the first argument lies: the others follow it, and then the environment.
    pub first_argument: u64,
    /// Which of these are the auxiliary vector.
    pub auxiliary: Range<usize>,
}

/// Pairs of the auxiliary vector.
const PAIRS: usize = 20;
/// What AT_PLATFORM names.
const PLATFORM: &[u8] = b"x86_64";

/// Where the strings begin of a stack that ends at `top` (a multiple of 16), and where it begins itself.
///
/// # Errors
/// `E2BIG` where one string, or all of it, is too long.
pub fn measure(top: u64, name: &[u8], arguments: &[Vec<u8>], environment: &[Vec<u8>]) -> Result<[u64; 2]> {
    let lengths = || arguments.iter().chain(environment).map(|string| string.len() + 1);
    let total = lengths().sum::<usize>() + name.len() + 1 + PLATFORM.len() + 1 + 16 + 8;
    if total > ARGUMENT_BYTES || lengths().any(|length| length > STRING_BYTES) {
        return Err(Errno::E2BIG);
    }
    let start = (top - total as u64) & !15;
    let words = arguments.len() + environment.len() + 3 + 2 * PAIRS;
    let pointer = (start - 8 * words as u64) & !15;
    if top - pointer > ARGUMENT_BYTES as u64 { Err(Errno::E2BIG) } else { Ok([start, pointer]) }
}

/// Lays out a stack that ends at `top` (a multiple of 16).
///
/// # Errors
/// As [`measure`].
pub fn build(
    top: u64,
    name: &[u8],
    arguments: &[Vec<u8>],
    environment: &[Vec<u8>],
    auxiliary: &Auxiliary,
) -> Result<Stack> {
    let [start, pointer] = measure(top, name, arguments, environment)?;
    let strings = Strings::lay_out([start, top], name, arguments, environment, auxiliary);
    let mut bytes = Vec::with_capacity((top - pointer) as usize);
    let mut push = |word: u64| bytes.extend_from_slice(&word.to_le_bytes());
    push(arguments.len() as u64);
    strings.arguments.iter().for_each(|address| push(*address));
    push(0);
    strings.environment.iter().for_each(|address| push(*address));
    push(0);
    for (kind, value) in vector(auxiliary, &strings) {
        push(u64::from(kind));
        push(value);
    }
    let end = bytes.len();
    bytes.resize((start - pointer) as usize, 0);
    bytes.extend_from_slice(&strings.bytes);
    let first_argument = strings.arguments.first().copied().unwrap_or_default();
    Ok(Stack { pointer, bytes, first_argument, auxiliary: end - 16 * PAIRS..end })
}

fn vector(auxiliary: &Auxiliary, strings: &Strings) -> [(u32, u64); PAIRS] {
    let [uid, euid, gid, egid] = auxiliary.identity.map(u64::from);
    [
        (auxvec::AT_SYSINFO_EHDR, auxiliary.vdso),
        (auxvec::AT_HWCAP, auxiliary.hardware),
        (auxvec::AT_PAGESZ, crate::layout::PAGE_SIZE),
        (auxvec::AT_CLKTCK, 100),
        (auxvec::AT_PHDR, auxiliary.headers_address),
        (auxvec::AT_PHENT, 56),
        (auxvec::AT_PHNUM, u64::from(auxiliary.headers)),
        (auxvec::AT_BASE, auxiliary.interpreter_base),
        (auxvec::AT_FLAGS, 0),
        (auxvec::AT_ENTRY, auxiliary.entry),
        (auxvec::AT_UID, uid),
        (auxvec::AT_EUID, euid),
        (auxvec::AT_GID, gid),
        (auxvec::AT_EGID, egid),
        (auxvec::AT_SECURE, u64::from(auxiliary.secure)),
        (auxvec::AT_RANDOM, strings.random),
        (auxvec::AT_HWCAP2, 0),
        (auxvec::AT_EXECFN, strings.name),
        (auxvec::AT_PLATFORM, strings.platform),
        (auxvec::AT_NULL, 0),
    ]
}

/// The bytes above the vectors, and where each string lies.
struct Strings {
    bytes: Vec<u8>,
    arguments: Vec<u64>,
    environment: Vec<u64>,
    name: u64,
    platform: u64,
    random: u64,
}

impl Strings {
    fn lay_out(
        [start, top]: [u64; 2],
        name: &[u8],
        arguments: &[Vec<u8>],
        environment: &[Vec<u8>],
        auxiliary: &Auxiliary,
    ) -> Self {
        let mut bytes = Vec::with_capacity((top - start) as usize);
        bytes.extend_from_slice(&auxiliary.random);
        let mut place = |string: &[u8]| {
            let address = start + bytes.len() as u64;
            bytes.extend_from_slice(string);
            bytes.push(0);
            address
        };
        let platform = place(PLATFORM);
        let arguments = arguments.iter().map(|string| place(string)).collect();
        let environment = environment.iter().map(|string| place(string)).collect();
        let name = place(name);
        bytes.resize((top - start) as usize, 0);
        Self { bytes, arguments, environment, name, platform, random: start }
    }
}
