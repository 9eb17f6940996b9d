//! Copies between ExOS and the memory of its program.
//!
//! A program's address is checked against the range that programs have, and then used as it is. Where the copy faults
//! and the fault cannot be repaired, the exception handler resumes at [`fix_up`], and the copy gives `EFAULT`.

use crate::hw::signal_frame;
use crate::hw::thread_context::thread_context;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::{PAGE_SIZE, PROGRAM_END};
use linux_abi::errno::{Errno, Result};
use runtime::window::Window;
use vfs::path_walk::PATH_BYTES;

core::arch::global_asm!(
    ".pushsection .text.exos_user_copy, \"ax\", @progbits",
    ".global exos_user_copy",
    "exos_user_copy:",
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep movsq",
    "mov ecx, edx",
    "and ecx, 7",
    "rep movsb",
    "xor eax, eax",
    "ret",
    ".global exos_user_copy_words",
    "exos_user_copy_words:",
    "mov rcx, rdx",
    "rep movsq",
    "xor eax, eax",
    "ret",
    ".global exos_user_copy_end",
    "exos_user_copy_end:",
    "mov eax, 1",
    "ret",
    // Looks at one byte, so that its page is there.
    ".global exos_user_look",
    "exos_user_look:",
    "movzx eax, byte ptr [rdi]",
    "xor eax, eax",
    "ret",
    // Writes nothing new to one byte, so that its page is there and may be written.
    ".global exos_user_touch",
    "exos_user_touch:",
    "lock or byte ptr [rdi], 0",
    "xor eax, eax",
    "ret",
    ".global exos_user_touch_end",
    "exos_user_touch_end:",
    "mov eax, 1",
    "ret",
    // Puts edx at rdi where esi is there; rax: what was there, or -1 after a fault.
    ".global exos_user_exchange",
    "exos_user_exchange:",
    "mov eax, esi",
    "lock cmpxchg dword ptr [rdi], edx",
    "mov eax, eax",
    "ret",
    // rax: the four bytes at rdi, or -1 after a fault.
    ".global exos_user_half",
    "exos_user_half:",
    "mov eax, [rdi]",
    "ret",
    ".global exos_user_exchange_end",
    "exos_user_exchange_end:",
    "mov rax, -1",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    /// Copies `bytes` bytes from `from` to `to`; not zero where that faulted.
    fn exos_user_copy(to: u64, from: u64, bytes: u64) -> u32;
    /// Copies `words` 64-bit words, as [`exos_user_copy`] does bytes.
    fn exos_user_copy_words(to: u64, from: u64, words: u64) -> u32;
    static exos_user_copy_end: u8;
    /// Makes sure that the byte at `address` can be read; not zero where it cannot.
    fn exos_user_look(address: u64) -> u32;
    /// Makes sure that the byte at `address` can be written; not zero where it cannot.
    fn exos_user_touch(address: u64) -> u32;
    static exos_user_touch_end: u8;
    /// Puts `new` at `address` where `old` is there; the result is what was there, or -1 where it cannot be written.
    fn exos_user_exchange(address: u64, old: u32, new: u32) -> u64;
    /// What is at `address`, or -1 where it cannot be read.
    fn exos_user_half(address: u64) -> u64;
    static exos_user_exchange_end: u8;
}

/// Where to resume after a fault at `rip` that cannot be repaired; `None` where `rip` is not in a copy.
pub fn fix_up(rip: u64) -> Option<u64> {
    let copy = (exos_user_copy as *const () as u64, &raw const exos_user_copy_end as u64);
    let touch = (exos_user_look as *const () as u64, &raw const exos_user_touch_end as u64);
    let exchange = (exos_user_exchange as *const () as u64, &raw const exos_user_exchange_end as u64);
    let [put, take, load, resume] = signal_frame::ranges();
    [copy, touch, exchange, put, take, load, resume]
        .into_iter()
        .find(|(start, end)| (*start..*end).contains(&rip))
        .map(|(_, end)| end)
}

/// Makes sure that a range of the program's memory is in place, so that a copy under a lock does not fault: the fault
/// could need the lock. The range is cut to what can be reached; nothing at all is `EFAULT`.
#[inline]
pub fn prepare(address: u64, bytes: u64, write: bool) -> Result<u64> {
    check(address, bytes)?;
    prepare_checked(address, bytes, write)
}

/// Copies a range of the program's memory under a lock that the page fault handler needs: `action` takes the lock and
/// copies as many bytes as it is given.
///
/// Another thread can fork between the preparation and the lock. Fork write-protects every private page, so that the
/// copy faults. Then `action` returns [`Errno::FAULT_UNDER_LOCK`] with the lock released, and the range is prepared
/// again. So `action` must change nothing before its copy succeeds.
///
/// # Errors
/// `EFAULT` where the first byte cannot be reached; what `action` returns.
#[inline]
pub fn with_range<T>(address: u64, bytes: u64, write: bool, mut action: impl FnMut(u64) -> Result<T>) -> Result<T> {
    loop {
        let reachable = prepare(address, bytes, write)?;
        match action(reachable) {
            Err(Errno::FAULT_UNDER_LOCK) => {}
            outcome => return outcome,
        }
    }
}

/// As [`prepare`] for a range that was checked, or is part of one.
#[inline]
pub fn prepare_checked(address: u64, bytes: u64, write: bool) -> Result<u64> {
    let end = address.wrapping_add(bytes);
    let mut at = address;
    while at < end {
        // SAFETY: looking at a byte, or writing to it what it holds, changes nothing anywhere, and a fault is fixed up.
        let there = outcome(unsafe { if write { exos_user_touch(at) } else { exos_user_look(at) } });
        match there {
            Err(error) if at == address => return Err(error),
            Err(_) => return Ok(at.wrapping_sub(address)),
            Ok(()) => at = (at | (PAGE_SIZE - 1)).wrapping_add(1),
        }
    }
    Ok(bytes)
}

/// Copies out of the program's memory.
pub fn read(from: u64, to: &mut [u8]) -> Result<()> {
    check(from, to.len() as u64)?;
    // SAFETY: the target is a slice of ours; the source lies in the program's range, where a fault is fixed up.
    outcome(unsafe { exos_user_copy(to.as_mut_ptr() as u64, from, to.len() as u64) })
}

/// Copies into the program's memory.
pub fn write(to: u64, from: &[u8]) -> Result<()> {
    check(to, from.len() as u64)?;
    // SAFETY: the source is a slice of ours; the target lies in the program's range, which holds no object of ExOS.
    outcome(unsafe { exos_user_copy(to, from.as_ptr() as u64, from.len() as u64) })
}

/// Copies from the program to a window that others write too. The window's range is the caller's to vouch for.
pub(super) fn read_to_address(from: u64, to: u64, bytes: u64) -> Result<()> {
    check(from, bytes)?;
    // SAFETY: as for `read`; `to` lies in a mapped window, by the caller's check.
    outcome(unsafe { exos_user_copy(to, from, bytes) })
}

/// Copies from a window to the program.
pub(super) fn write_from_address(to: u64, from: u64, bytes: u64) -> Result<()> {
    check(to, bytes)?;
    // SAFETY: as for `write`; `from` lies in a mapped window, by the caller's check.
    outcome(unsafe { exos_user_copy(to, from, bytes) })
}

/// Copies between ranges of ExOS's own, both mapped, by the caller's check: windows and pages of the program that are
/// known to be there.
pub(super) fn copy_addresses(to: u64, from: u64, bytes: u64) {
    // SAFETY: as the callers in this module's siblings check: the target is a window.
    let faulted = unsafe { exos_user_copy(to, from, bytes) };
    assert!(faulted == 0, "a copy between mapped windows faulted");
}

/// Fills a page of the program's with that of a window at an index. It is there, and may be written.
pub(crate) fn fill_page(address: u64, window: &Window, index: usize) {
    assert!(address.is_multiple_of(PAGE_SIZE) && check(address, PAGE_SIZE).is_ok(), "no page of a program");
    assert!(index < window.words().len() * 8 / PAGE_SIZE as usize, "no page of the window");
    copy_addresses(address, window.address() + index as u64 * PAGE_SIZE, PAGE_SIZE);
}

/// Fills a page of the program's with zeros. It is there, and may be written.
pub(crate) fn clear_page(address: u64) {
    assert!(address.is_multiple_of(PAGE_SIZE) && check(address, PAGE_SIZE).is_ok(), "no page of a program");
    // SAFETY: the page lies in the program's range, which holds no object of ExOS; the caller has mapped it to be
    // written.
    unsafe {
        core::arch::asm!(
            "rep stosq",
            inout("rcx") PAGE_SIZE / 8 => _, inout("rdi") address => _, in("rax") 0,
            options(nostack, preserves_flags),
        );
    }
}

/// One 64-bit word.
pub fn read_word(from: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    read(from, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Writes one 64-bit word.
pub fn write_word(to: u64, word: u64) -> Result<()> {
    write(to, &word.to_le_bytes())
}

/// Writes consecutive 64-bit words.
pub fn write_words(to: u64, words: &[u64]) -> Result<()> {
    check(to, size_of_val(words) as u64)?;
    // SAFETY: the source is a slice of ours; the target lies in the program's range, which holds no object of ExOS.
    outcome(unsafe { exos_user_copy_words(to, words.as_ptr() as u64, words.len() as u64) })
}

/// One 32-bit number.
pub fn read_half(from: u64) -> Result<u32> {
    check(from, 4)?;
    // SAFETY: the source lies in the program's range, where a fault is fixed up.
    u32::try_from(unsafe { exos_user_half(from) }).map_err(|_| Errno::EFAULT)
}

/// Writes one 32-bit number.
pub fn write_half(to: u64, half: u32) -> Result<()> {
    write(to, &half.to_le_bytes())
}

/// Changes a 32-bit number at a multiple of four as one step; the result is what it was.
pub fn update_half(at: u64, change: impl Fn(u32) -> Result<u32>) -> Result<u32> {
    check(at, 4)?;
    let mut old = read_half(at)?;
    loop {
        let new = change(old)?;
        // SAFETY: the address lies in the program's range, where a fault is fixed up.
        match unsafe { exos_user_exchange(at, old, new) } {
            u64::MAX => return Err(Errno::EFAULT),
            found if found == u64::from(old) => return Ok(old),
            found => old = found as u32,
        }
    }
}

/// Consecutive 64-bit words.
pub fn read_words<const N: usize>(from: u64) -> Result<[u64; N]> {
    let mut words = MaybeUninit::<[u64; N]>::uninit();
    check(from, size_of_val(&words) as u64)?;
    // SAFETY: the target is an array of ours; the source lies in the program's range, where a fault is fixed up.
    outcome(unsafe { exos_user_copy_words(words.as_mut_ptr() as u64, from, N as u64) })?;
    // SAFETY: the copy is whole, and any bytes are words.
    Ok(unsafe { words.assume_init() })
}

/// As many consecutive 64-bit words as there is room for.
pub fn read_into_words(from: u64, words: &mut [u64]) -> Result<()> {
    check(from, size_of_val(words) as u64)?;
    // SAFETY: as for `read_words`.
    outcome(unsafe { exos_user_copy_words(words.as_mut_ptr() as u64, from, words.len() as u64) })
}

/// Bytes into a buffer of their own.
pub fn read_vec(from: u64, bytes: usize) -> Result<Vec<u8>> {
    check(from, bytes as u64)?;
    let mut buffer = vec![0; bytes];
    read(from, &mut buffer)?;
    Ok(buffer)
}

/// Most strings are paths, and shorter.
const CHUNK: usize = 64;

/// A path that a program named: a short one needs no room in the heap.
#[derive(Debug)]
pub enum Path {
    /// Its bytes, and how many they are.
    Short([u8; CHUNK], usize),
    /// A longer one.
    Long(Vec<u8>),
}

impl Path {
    /// As long as this, by what puts its bytes somewhere; `EINVAL` where there is a NUL among them.
    #[inline]
    pub(super) fn filled(length: usize, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Self> {
        if length > CHUNK {
            let mut bytes = vec![0; length];
            fill(&mut bytes)?;
            return if bytes.contains(&0) { Err(Errno::EINVAL) } else { Ok(Self::Long(bytes)) };
        }
        let mut chunk = [0; CHUNK];
        fill(&mut chunk[..length])?;
        if first_zero(&chunk) < length { Err(Errno::EINVAL) } else { Ok(Self::Short(chunk, length)) }
    }
}

impl Deref for Path {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(bytes, length) => &bytes[..*length],
            Self::Long(bytes) => bytes,
        }
    }
}

/// Room for a path, which is read into it and stays where it is.
#[derive(Debug)]
pub struct PathBuffer {
    chunk: MaybeUninit<[u8; CHUNK]>,
    long: Vec<u8>,
}

impl Default for PathBuffer {
    #[inline]
    fn default() -> Self {
        Self { chunk: MaybeUninit::uninit(), long: Vec::new() }
    }
}

impl PathBuffer {
    /// A path that a program named.
    #[inline]
    pub fn read(&mut self, from: u64) -> Result<&[u8]> {
        let length = CHUNK.min((PAGE_SIZE - from % PAGE_SIZE) as usize);
        check(from, length as u64)?;
        if length < CHUNK {
            self.chunk.write([0; CHUNK]);
        }
        // SAFETY: the target is a buffer of ours, as long at least; the source lies in the program's range, where a
        // fault is fixed up.
        outcome(unsafe { exos_user_copy(self.chunk.as_mut_ptr() as u64, from, length as u64) })?;
        // SAFETY: all of it was written: by the copy, which is whole, or before it.
        let chunk = unsafe { self.chunk.assume_init_ref() };
        let end = first_zero(chunk);
        if end < length {
            return Ok(&chunk[..end]);
        }
        self.long = read_string(from, PATH_BYTES, Errno::ENAMETOOLONG)?;
        Ok(&self.long)
    }
}

/// A path.
#[inline]
pub fn read_path(from: u64) -> Result<Path> {
    let mut buffer = PathBuffer::default();
    let length = buffer.read(from)?.len();
    if !buffer.long.is_empty() {
        return Ok(Path::Long(buffer.long));
    }
    // SAFETY: `read` has written all of it.
    Ok(Path::Short(unsafe { buffer.chunk.assume_init() }, length))
}

/// A string up to its NUL; `too_long` where there is none in the first `most` bytes.
pub fn read_string(from: u64, most: usize, too_long: Errno) -> Result<Vec<u8>> {
    let mut string = Vec::with_capacity(CHUNK);
    let mut chunk = [0u8; CHUNK];
    while string.len() < most {
        let at = from.checked_add(string.len() as u64).ok_or(Errno::EFAULT)?;
        let to_page_end = (PAGE_SIZE - at % PAGE_SIZE) as usize;
        let length = chunk.len().min(to_page_end).min(most - string.len());
        read(at, &mut chunk[..length])?;
        let end = first_zero(&chunk);
        if end < length {
            string.extend_from_slice(&chunk[..end]);
            return Ok(string);
        }
        string.extend_from_slice(&chunk[..length]);
    }
    Err(too_long)
}

/// Where the first zero lies, eight bytes at a time; the length where there is none.
fn first_zero(chunk: &[u8; CHUNK]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let words = chunk.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    // The lowest marked byte is a zero; those above it may be marked because of the borrow.
    let mut marks = words.map(|word| word.wrapping_sub(LOW) & !word & LOW << 7).enumerate();
    let found = marks.find(|(_, marked)| *marked != 0);
    found.map_or(CHUNK, |(index, marked)| index * 8 + marked.trailing_zeros() as usize / 8)
}

/// Whether a string is empty.
pub fn is_empty_string(from: u64) -> Result<bool> {
    let mut first = [0];
    read(from, &mut first)?;
    Ok(first == [0])
}

/// Whether a range is one that a program may name.
#[inline]
pub fn check(address: u64, bytes: u64) -> Result<()> {
    let end = address.checked_add(bytes);
    if end.is_some_and(|end| end <= PROGRAM_END) { Ok(()) } else { Err(Errno::EFAULT) }
}

#[inline]
pub(super) fn outcome(faulted: u32) -> Result<()> {
    if faulted == 0 { Ok(()) } else { Err(fault()) }
}

/// The error of a copy that faulted: the page fault handler resolves nothing for a thread that holds its locks, and
/// says so.
#[cold]
fn fault() -> Errno {
    if thread_context().fault_under_lock.load(Relaxed) { Errno::FAULT_UNDER_LOCK } else { Errno::EFAULT }
}
