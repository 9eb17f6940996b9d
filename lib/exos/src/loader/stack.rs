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
    /// Which of these are the auxiliary vector.
    pub auxiliary: Range<usize>,
}

/// Lays out a stack that ends at `top` (a multiple of 16).
pub fn build(
    top: u64,
    name: &[u8],
    arguments: &[Vec<u8>],
    environment: &[Vec<u8>],
    auxiliary: &Auxiliary,
) -> Result<Stack> {
    let strings = Strings::lay_out(top, name, arguments, environment, auxiliary)?;
    let mut words = Vec::with_capacity(arguments.len() + environment.len() + 48);
    words.push(arguments.len() as u64);
    words.extend_from_slice(&strings.arguments);
    words.push(0);
    words.extend_from_slice(&strings.environment);
    words.push(0);
    let before = words.len() * 8;
    words.extend(vector(auxiliary, &strings).into_iter().flat_map(|(kind, value)| [u64::from(kind), value]));
    let auxiliary = before..words.len() * 8;
    let pointer = (strings.start - 8 * words.len() as u64) & !15;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize((strings.start - pointer) as usize, 0);
    bytes.extend_from_slice(&strings.bytes);
    if bytes.len() > ARGUMENT_BYTES { Err(Errno::E2BIG) } else { Ok(Stack { pointer, bytes, auxiliary }) }
}

fn vector(auxiliary: &Auxiliary, strings: &Strings) -> [(u32, u64); 20] {
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
    start: u64,
    bytes: Vec<u8>,
    arguments: Vec<u64>,
    environment: Vec<u64>,
    name: u64,
    platform: u64,
    random: u64,
}

impl Strings {
    fn lay_out(
        top: u64,
        name: &[u8],
        arguments: &[Vec<u8>],
        environment: &[Vec<u8>],
        auxiliary: &Auxiliary,
    ) -> Result<Self> {
        const PLATFORM: &[u8] = b"x86_64";
        let length = |strings: &[Vec<u8>]| strings.iter().map(|string| string.len() + 1).sum::<usize>();
        let total = length(arguments) + length(environment) + name.len() + 1 + PLATFORM.len() + 1 + 16 + 8;
        let longest = arguments.iter().chain(environment).map(|string| string.len() + 1).max().unwrap_or(0);
        if total > ARGUMENT_BYTES || longest > STRING_BYTES {
            return Err(Errno::E2BIG);
        }
        let start = (top - total as u64) & !15;
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
        Ok(Self { start, bytes, arguments, environment, name, platform, random: start })
    }
}
