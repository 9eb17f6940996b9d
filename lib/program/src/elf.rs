//! What an ELF file says about itself, checked before anything is done with it (FAULTS row 82).
//!
//! Source: System V ABI, chapter 5, and what Linux makes of it. `execve` refuses a file that does not begin as a
//! program. A file whose segments cannot be mapped ends the process (SIGSEGV), whose old program is gone by then.
//! What can be mapped is, in the order in which it stands, one segment over the other if need be.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use elf::abi as constants;
use elf::endian::LittleEndian;
use elf::parse::ParseAt;
use elf::segment::ProgramHeader;
use linux_abi::address_map::{MOVABLE_BASE, PAGE_MASK, PAGE_SIZE, PROGRAM_END, page_up};
use linux_abi::errno::{Errno, Result};

/// Bytes of a file that are read first; nearly all have their program headers there, scripts their first line.
pub const HEAD: usize = 1024;
/// Segments that a program mostly has: text between two pieces that are only read, and data.
const USUAL_SEGMENTS: usize = 4;
/// Bytes of program headers at most.
const HEADERS_MOST: usize = 65536;

/// One part of the file that goes into memory. Addresses are as the file has them, before `bias` is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Bytes in memory; those past `file_bytes` are zero.
    pub memory_bytes: u64,
    /// Where its bytes begin in the file; congruent to `address` modulo the page size.
    pub file_offset: u64,
    /// Bytes that the file has.
    pub file_bytes: u64,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
}

/// A program, or an interpreter. Invariant: if it is sound, all segments lie below [`PROGRAM_END`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// What to load, in this order.
    pub segments: Vec<Segment>,
    /// Whether it can be loaded.
    pub is_sound: bool,
    /// Whether it says that it is a program, of either kind.
    has_kind: bool,
    /// First instruction.
    pub entry: u64,
    /// May be moved as a whole (ET_DYN).
    pub movable: bool,
    /// Where the first interpreter's name lies in the file, and its bytes, NUL included.
    pub interpreter: Option<(u64, u64)>,
    /// Address of the program headers in memory; 0 where no segment holds them.
    pub headers_address: u64,
    /// How many program headers there are.
    pub headers: u16,
    /// Whether the program asks for an executable stack.
    pub executable_stack: bool,
    /// Address of the dynamic section; none in a program without one.
    pub dynamic: Option<u64>,
}

impl Image {
    /// Reads what a file says that begins with `head` ([`HEAD`] bytes, or all); `read` gives bytes from an offset on,
    /// as many as there are.
    ///
    /// # Errors
    /// `ENOEXEC`: it does not begin as a program.
    pub fn read(head: &[u8], read: impl FnOnce(u64, usize) -> Result<Vec<u8>>) -> Result<Self> {
        let image = Self::read_any(head, read)?;
        if image.has_kind { Ok(image) } else { Err(Errno::ENOEXEC) }
    }

    /// The same of an interpreter.
    ///
    /// # Errors
    /// `EIO`: it is too short to be one; `ELIBBAD`: it is none.
    pub fn read_interpreter(head: &[u8], read: impl FnOnce(u64, usize) -> Result<Vec<u8>>) -> Result<Self> {
        if head.len() < FileHeader::BYTES {
            return Err(Errno::EIO);
        }
        let image = Self::read_any(head, read).map_err(|_| Errno::ELIBBAD)?;
        let is_sound = image.is_sound && image.has_kind && !image.segments.is_empty();
        Ok(Self { is_sound, ..image })
    }

    fn read_any(head: &[u8], read: impl FnOnce(u64, usize) -> Result<Vec<u8>>) -> Result<Self> {
        let header = FileHeader::read(head)?;
        let mut image = Self {
            segments: Vec::with_capacity(USUAL_SEGMENTS),
            is_sound: true,
            has_kind: matches!(header.kind, constants::ET_EXEC | constants::ET_DYN),
            entry: header.entry,
            movable: header.kind == constants::ET_DYN,
            interpreter: None,
            headers_address: 0,
            headers: header.count,
            executable_stack: false,
            dynamic: None,
        };
        let table = header.table(head, read)?;
        FileHeader::program_headers(&table).try_for_each(|program_header| image.add(&program_header))?;
        image.find_headers(&header);
        let (first, last) = image.span();
        image.is_sound &= !image.movable || last - first <= PROGRAM_END - MOVABLE_BASE;
        Ok(image)
    }

    /// First byte and first byte after the last, in memory.
    pub fn span(&self) -> (u64, u64) {
        let first = self.segments.iter().map(|segment| segment.address & PAGE_MASK).min();
        let last = self.segments.iter().map(|segment| segment.address + segment.memory_bytes).max();
        (first.unwrap_or(0), last.unwrap_or(0))
    }

    /// Whether no two segments have a page in common, and each lies above those before it.
    pub fn is_in_order(&self) -> bool {
        self.segments.windows(2).all(|pair| {
            let end = page_up(pair[0].address + pair[0].memory_bytes);
            end.is_some_and(|end| end <= pair[1].address & PAGE_MASK)
        })
    }

    fn add(&mut self, header: &ProgramHeader) -> Result<()> {
        match header.p_type {
            constants::PT_LOAD => match segment(header) {
                Some(segment) if segment.memory_bytes > 0 => self.segments.push(segment),
                Some(_) => {}
                None => self.is_sound = false,
            },
            constants::PT_INTERP if self.interpreter.is_none() => {
                if !(2..=4096).contains(&header.p_filesz) {
                    return Err(Errno::ENOEXEC);
                }
                self.interpreter = Some((header.p_offset, header.p_filesz));
            }
            constants::PT_DYNAMIC => self.dynamic = Some(header.p_vaddr),
            constants::PT_GNU_STACK => self.executable_stack = header.p_flags & constants::PF_X != 0,
            _ => {}
        }
        Ok(())
    }

    fn find_headers(&mut self, header: &FileHeader) {
        let holds = |segment: &&Segment| {
            header.offset >= segment.file_offset && header.offset - segment.file_offset < segment.file_bytes
        };
        if let Some(segment) = self.segments.iter().find(holds) {
            self.headers_address = segment.address + (header.offset - segment.file_offset);
        }
    }
}

/// So many bytes of a file from an offset on: mostly they lie in what it begins with.
///
/// # Errors
/// `EINVAL`: no file reaches so far; `EIO`: this one does not.
pub fn part<'a>(
    head: &'a [u8],
    (offset, bytes): (u64, u64),
    read: impl FnOnce(u64, usize) -> Result<Vec<u8>>,
) -> Result<Cow<'a, [u8]>> {
    if offset > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    if let Some(part) = head.get(offset as usize..(offset + bytes) as usize) {
        return Ok(Cow::Borrowed(part));
    }
    let part = read(offset, bytes as usize)?;
    if part.len() as u64 == bytes { Ok(Cow::Owned(part)) } else { Err(Errno::EIO) }
}

/// The segment of a loadable program header; nothing where it cannot be loaded.
fn segment(header: &ProgramHeader) -> Option<Segment> {
    header.p_offset.checked_add(header.p_memsz).filter(|end| *end <= i64::MAX as u64)?;
    let end = header.p_vaddr.checked_add(header.p_memsz)?;
    let aligned = header.p_filesz == 0 || header.p_vaddr % PAGE_SIZE == header.p_offset % PAGE_SIZE;
    let can_be = header.p_filesz <= header.p_memsz && end <= PROGRAM_END && aligned;
    can_be.then_some(Segment {
        address: header.p_vaddr,
        memory_bytes: header.p_memsz,
        file_offset: header.p_offset,
        file_bytes: header.p_filesz,
        write: header.p_flags & constants::PF_W != 0,
        execute: header.p_flags & constants::PF_X != 0,
    })
}

/// The fields of the file header that matter.
struct FileHeader {
    kind: u16,
    entry: u64,
    offset: u64,
    count: u16,
}

impl FileHeader {
    const BYTES: usize = 64;
    const PROGRAM_HEADER_BYTES: u16 = 56;

    fn read(head: &[u8]) -> Result<Self> {
        let identity = head.get(..Self::BYTES).ok_or(Errno::ENOEXEC)?;
        let half = |at: usize| u16::from_le_bytes([identity[at], identity[at + 1]]);
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| identity[at + index]));
        let header = Self { kind: half(16), entry: word(24), offset: word(32), count: half(56) };
        // Nothing else of the identity counts.
        let known = identity.starts_with(&constants::ELFMAGIC)
            && half(18) == constants::EM_X86_64
            && half(54) == Self::PROGRAM_HEADER_BYTES;
        if known && header.count > 0 { Ok(header) } else { Err(Errno::ENOEXEC) }
    }

    /// The bytes of all program headers.
    fn table<'a>(&self, head: &'a [u8], read: impl FnOnce(u64, usize) -> Result<Vec<u8>>) -> Result<Cow<'a, [u8]>> {
        let bytes = usize::from(self.count) * usize::from(Self::PROGRAM_HEADER_BYTES);
        let in_head = usize::try_from(self.offset).ok().and_then(|start| head.get(start..start.checked_add(bytes)?));
        if let Some(table) = in_head {
            return Ok(Cow::Borrowed(table));
        }
        if bytes > HEADERS_MOST || self.offset > i64::MAX as u64 {
            return Err(Errno::ENOEXEC);
        }
        let table = read(self.offset, bytes)?;
        if table.len() == bytes { Ok(Cow::Owned(table)) } else { Err(Errno::ENOEXEC) }
    }

    fn program_headers(table: &[u8]) -> impl Iterator<Item = ProgramHeader> {
        table
            .chunks(usize::from(Self::PROGRAM_HEADER_BYTES))
            .filter_map(|bytes| ProgramHeader::parse_at(LittleEndian, elf::file::Class::ELF64, &mut 0, bytes).ok())
    }
}
