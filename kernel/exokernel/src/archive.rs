//! The boot archive as the kernel reads it: one name in a newc cpio, and the flat ELF behind it.
//!
//! Both come from outside: every number in them is checked, and what is wrong ends the boot with one line.

use abi::memory_map::in_user_half;

/// A file in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File<'a> {
    /// Its contents.
    pub(crate) bytes: &'a [u8],
}

const HEADER: usize = 110;
const MAGICS: [&[u8]; 2] = [b"070701", b"070702"];
/// Places of two fields of 8 hexadecimal digits in the header.
const FILE_SIZE: usize = 54;
const NAME_SIZE: usize = 94;

/// Finds a file by name.
pub(crate) fn find<'a>(archive: &'a [u8], name: &str) -> Option<File<'a>> {
    let mut rest = archive;
    loop {
        let header = rest.get(..HEADER)?;
        if !MAGICS.contains(&&header[..6]) {
            return None;
        }
        let (name_size, file_size) = (number(header, NAME_SIZE)?, number(header, FILE_SIZE)?);
        let data = padded(HEADER.checked_add(name_size)?)?;
        let found = rest.get(HEADER..HEADER.checked_add(name_size)?)?.strip_suffix(b"\0")?;
        let end = data.checked_add(file_size)?;
        let bytes = rest.get(data..end)?;
        if found == name.as_bytes() {
            return Some(File { bytes });
        }
        if found == b"TRAILER!!!" {
            return None;
        }
        rest = rest.get(padded(end)?..)?;
    }
}

fn padded(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(4)
}

fn number(header: &[u8], at: usize) -> Option<usize> {
    let digits = core::str::from_utf8(&header[at..at + 8]).ok()?;
    usize::from_str_radix(digits, 16).ok()
}

/// A part of the program that the boot loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    /// Its address; with the low bits as in the file.
    pub(crate) address: u64,
    /// What the file holds of it.
    pub(crate) bytes: &'a [u8],
    /// How long it is in memory.
    pub(crate) memory: u64,
    /// It is written.
    pub(crate) write: bool,
    /// It is executed.
    pub(crate) execute: bool,
}

/// A flat ELF: static, 64-bit, x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program<'a> {
    file: &'a [u8],
    headers: usize,
    count: usize,
    /// Where it begins.
    pub(crate) entry: u64,
}

const ELF_MAGIC: &[u8] = b"\x7fELF\x02\x01\x01";
const EXECUTABLE: u64 = 2;
const X86_64: u64 = 62;
const PROGRAM_HEADER: usize = 56;
const LOAD: u64 = 1;

/// Reads a little-endian number of `bytes` bytes.
fn field(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let slice = file.get(at..at.checked_add(bytes)?)?;
    Some(slice.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

impl<'a> Program<'a> {
    /// Reads the header.
    pub(crate) fn new(file: &'a [u8]) -> Result<Self, &'static str> {
        if !file.starts_with(ELF_MAGIC) {
            return Err("it is not a 64-bit ELF");
        }
        let word = |at, bytes| field(file, at, bytes).ok_or("its ELF header is cut off");
        if word(16, 2)? != EXECUTABLE || word(18, 2)? != X86_64 {
            return Err("it is not a static x86-64 program");
        }
        let (entry, headers, count) = (word(24, 8)?, word(32, 8)?, word(56, 2)?);
        if word(54, 2)? != PROGRAM_HEADER as u64 || !in_user_half(entry, 1) {
            return Err("its ELF header makes no sense");
        }
        Ok(Self { file, headers: headers as usize, count: count as usize, entry })
    }

    /// The segments to load, each checked to lie in the file and in the user half.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Result<Segment<'a>, &'static str>> {
        let program = *self;
        (0..self.count).filter_map(move |index| program.segment(index).transpose())
    }

    fn segment(&self, index: usize) -> Result<Option<Segment<'a>>, &'static str> {
        let cut = "its program headers are cut off";
        let at = self.headers.checked_add(index * PROGRAM_HEADER).ok_or(cut)?;
        let word = |offset, bytes| field(self.file, at.saturating_add(offset), bytes).ok_or(cut);
        if word(0, 4)? != LOAD {
            return Ok(None);
        }
        let (flags, offset, address) = (word(4, 4)?, word(8, 8)? as usize, word(16, 8)?);
        let (file_size, memory) = (word(32, 8)?, word(40, 8)?);
        let end = offset.checked_add(file_size as usize).ok_or(cut)?;
        let bytes = self.file.get(offset..end).ok_or("a segment lies outside of the file")?;
        if memory < file_size || !in_user_half(address, memory) || memory == 0 {
            return Err("a segment has an impossible size or address");
        }
        Ok(Some(Segment { address, bytes, memory, write: flags & 2 != 0, execute: flags & 1 != 0 }))
    }
}

#[cfg(test)]
mod tests;
