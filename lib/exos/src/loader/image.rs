//! What an ELF file says about itself, checked before anything is done with it (FAULTS row 82).
//!
//! Source: System V ABI, chapter 5, and the rules Linux adds: the first 4 KiB hold the program headers, a segment
//! whose file part is larger than its memory part is refused, and so is whatever does not fit in the user half.

use crate::errno::{Errno, Result};
use crate::layout::{PAGE_MASK, PAGE_SIZE, PROGRAM_END};
use alloc::vec::Vec;
use elf::abi as constants;
use elf::endian::LittleEndian;
use elf::parse::ParseAt;
use elf::segment::ProgramHeader;

/// Bytes of a file that [`Image::read`] wants to see; program headers must lie in them.
pub const HEAD: usize = 4096;

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

/// A program that can be loaded. Holds always: segments ascend, do not share a byte, and lie below [`PROGRAM_END`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What to load.
    pub segments: Vec<Segment>,
    /// First instruction.
    pub entry: u64,
    /// May be moved as a whole (ET_DYN).
    pub movable: bool,
    /// Where the interpreter's name lies in the file, and its bytes, NUL included.
    pub interpreter: Option<(u64, u64)>,
    /// Address of the program headers in memory; 0 where no segment holds them.
    pub headers_address: u64,
    /// How many program headers there are.
    pub headers: u16,
    /// Whether the stack is to be executable.
    pub executable_stack: bool,
    /// Address of the dynamic section; none in a program without one.
    pub dynamic: Option<u64>,
}

impl Image {
    /// Reads the first bytes of a file ([`HEAD`] of them, or all) of `size` bytes. Whatever is wrong is `ENOEXEC`.
    pub fn read(head: &[u8], size: u64) -> Result<Self> {
        let header = FileHeader::read(head)?;
        let mut image = Self {
            segments: Vec::new(),
            entry: header.entry,
            movable: header.kind == constants::ET_DYN,
            interpreter: None,
            headers_address: 0,
            headers: header.count,
            executable_stack: false,
            dynamic: None,
        };
        for program_header in header.program_headers(head)? {
            image.add(&program_header, size)?;
        }
        image.find_headers(&header);
        image.check()
    }

    /// First byte and first byte after the last, in memory.
    pub fn span(&self) -> (u64, u64) {
        let first = self.segments.first().map_or(0, |segment| segment.address & PAGE_MASK);
        let last = self.segments.last().map_or(0, |segment| segment.address + segment.memory_bytes);
        (first, last)
    }

    fn add(&mut self, header: &ProgramHeader, size: u64) -> Result<()> {
        match header.p_type {
            constants::PT_LOAD if header.p_memsz > 0 => self.segments.push(segment(header, size)?),
            constants::PT_INTERP => {
                let in_file = header.p_offset.checked_add(header.p_filesz).is_some_and(|end| end <= size);
                if self.interpreter.is_some() || !in_file || !(2..=4096).contains(&header.p_filesz) {
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

    fn check(self) -> Result<Self> {
        let apart = self.segments.windows(2).all(|pair| pair[0].address + pair[0].memory_bytes <= pair[1].address);
        let (first, last) = self.span();
        let entered = self.segments.iter().any(|segment| {
            segment.execute && self.entry >= segment.address && self.entry - segment.address < segment.memory_bytes
        });
        if self.segments.is_empty() || !apart || !entered || last - first > PROGRAM_END / 2 {
            return Err(Errno::ENOEXEC);
        }
        Ok(self)
    }
}

fn segment(header: &ProgramHeader, size: u64) -> Result<Segment> {
    let file_end = header.p_offset.checked_add(header.p_filesz).ok_or(Errno::ENOEXEC)?;
    let end = header.p_vaddr.checked_add(header.p_memsz).ok_or(Errno::ENOEXEC)?;
    let aligned = header.p_vaddr % PAGE_SIZE == header.p_offset % PAGE_SIZE;
    if header.p_filesz > header.p_memsz || file_end > size || end > PROGRAM_END || !aligned {
        return Err(Errno::ENOEXEC);
    }
    Ok(Segment {
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
        let right_kind = identity.starts_with(&constants::ELFMAGIC)
            && identity[constants::EI_CLASS] == constants::ELFCLASS64
            && identity[constants::EI_DATA] == constants::ELFDATA2LSB;
        let half = |at: usize| u16::from_le_bytes([identity[at], identity[at + 1]]);
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| identity[at + index]));
        let header = Self { kind: half(16), entry: word(24), offset: word(32), count: half(56) };
        let known = matches!(header.kind, constants::ET_EXEC | constants::ET_DYN)
            && half(18) == constants::EM_X86_64
            && half(54) == Self::PROGRAM_HEADER_BYTES;
        if right_kind && known && header.count > 0 { Ok(header) } else { Err(Errno::ENOEXEC) }
    }

    fn program_headers<'a>(&self, head: &'a [u8]) -> Result<impl Iterator<Item = ProgramHeader> + 'a> {
        let bytes = usize::from(self.count) * usize::from(Self::PROGRAM_HEADER_BYTES);
        let start = usize::try_from(self.offset).map_err(|_| Errno::ENOEXEC)?;
        let end = start.checked_add(bytes).ok_or(Errno::ENOEXEC)?;
        let table = head.get(start..end).ok_or(Errno::ENOEXEC)?;
        Ok((0..usize::from(self.count)).filter_map(move |index| {
            let mut place = index * usize::from(Self::PROGRAM_HEADER_BYTES);
            ProgramHeader::parse_at(LittleEndian, elf::file::Class::ELF64, &mut place, table).ok()
        }))
    }
}
