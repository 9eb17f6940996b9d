//! The stack that a program finds when it starts (System V ABI, AMD64 supplement, 3.4.1).
//!
//! From low to high: argument count, argument pointers, 0, environment pointers, 0, auxiliary vector, then the bytes
//! that these point to. Built as bytes in a buffer, so that it is one copy into the program's memory.

use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::auxvec;

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
    /// The first value of RSP: a multiple of 16. The bytes go here.
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

/// Bytes that arguments and environment may take together, with their pointers, where the stack may grow to `stack`.
/// It is a quarter of that, but no less than 128 KiB and no more than 6 MiB (execve(2)).
pub fn room(stack: u64) -> usize {
    (stack / 4).clamp(128 << 10, 6 << 20) as usize
}

/// Whether all of it is within this room.
///
/// # Errors
/// `E2BIG` where one string, or all of it, is too long.
pub fn check(name: &[u8], arguments: &[Vec<u8>], environment: &[Vec<u8>], room: usize) -> Result<()> {
    let lengths = || arguments.iter().chain(environment).map(|string| string.len() + 1);
    let pointers = 8 * (arguments.len().max(1) + environment.len());
    let total = lengths().sum::<usize>() + name.len() + 1 + pointers;
    if total > room || lengths().any(|length| length > STRING_BYTES) { Err(Errno::E2BIG) } else { Ok(()) }
}

/// Where the strings begin of a stack that ends at `top` (a multiple of 16), and where it begins itself.
pub fn measure(top: u64, name: &[u8], arguments: &[Vec<u8>], environment: &[Vec<u8>]) -> [u64; 2] {
    let lengths = arguments.iter().chain(environment).map(|string| string.len() + 1);
    let total = lengths.sum::<usize>() + name.len() + 1 + PLATFORM.len() + 1 + 16 + 8;
    let start = (top - total as u64) & !15;
    let words = arguments.len() + environment.len() + 3 + 2 * PAIRS;
    [start, (start - 8 * words as u64) & !15]
}

/// Lays out a stack that ends at `top` (a multiple of 16).
pub fn build(top: u64, name: &[u8], arguments: &[Vec<u8>], environment: &[Vec<u8>], auxiliary: &Auxiliary) -> Stack {
    let [start, pointer] = measure(top, name, arguments, environment);
    let mut bytes = alloc::vec![0; (top - pointer) as usize];
    let (words, strings) = bytes.split_at_mut((start - pointer) as usize);
    let mut strings = Strings { left: strings, address: start };
    let mut words = words.chunks_exact_mut(8);
    let mut push = |word: u64| words.next().into_iter().for_each(|place| place.copy_from_slice(&word.to_le_bytes()));
    let random = strings.place(&auxiliary.random);
    let platform = strings.place_ended(PLATFORM);
    let first_argument = if arguments.is_empty() { 0 } else { strings.address };
    push(arguments.len() as u64);
    for list in [arguments, environment] {
        list.iter().for_each(|string| push(strings.place_ended(string)));
        push(0);
    }
    let name = strings.place_ended(name);
    for (kind, value) in vector(auxiliary, [random, platform, name]) {
        push(u64::from(kind));
        push(value);
    }
    let end = 8 * (arguments.len() + environment.len() + 3 + 2 * PAIRS);
    Stack { pointer, bytes, first_argument, auxiliary: end - 16 * PAIRS..end }
}

fn vector(auxiliary: &Auxiliary, [random, platform, name]: [u64; 3]) -> [(u32, u64); PAIRS] {
    let [uid, euid, gid, egid] = auxiliary.identity.map(u64::from);
    [
        (auxvec::AT_SYSINFO_EHDR, auxiliary.vdso),
        (auxvec::AT_HWCAP, auxiliary.hardware),
        (auxvec::AT_PAGESZ, linux_abi::address_map::PAGE_SIZE),
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
        (auxvec::AT_RANDOM, random),
        (auxvec::AT_HWCAP2, 0),
        (auxvec::AT_EXECFN, name),
        (auxvec::AT_PLATFORM, platform),
        (auxvec::AT_NULL, 0),
    ]
}

/// Room for the bytes above the vectors, and the address where it begins.
struct Strings<'a> {
    left: &'a mut [u8],
    address: u64,
}

impl Strings<'_> {
    /// Puts bytes where the room begins; where that was.
    fn place(&mut self, bytes: &[u8]) -> u64 {
        let (here, left) = core::mem::take(&mut self.left).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.left = left;
        let address = self.address;
        self.address += bytes.len() as u64;
        address
    }

    /// The same with a NUL behind them.
    fn place_ended(&mut self, string: &[u8]) -> u64 {
        let address = self.place(string);
        self.place(b"\0");
        address
    }
}
