//! Programs as files: flat static ELF images, loaded once, mapped into any number of address spaces.
//!
//! Pages that a program cannot write are filled once and shared by all who run it; the others are copied for each.

extern crate alloc;

use crate::address_space::{Access, AddressSpace};
use crate::archive::Archive;
use crate::page::Allocator;
use crate::window::{WINDOW_PAGES, Window};
use abi::boot::INIT;
use abi::limits::PAGE_SIZE;
use abi::{Failure, PageNumber};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use elf::ElfBytes;
use elf::abi::{EM_X86_64, ET_EXEC, PF_W, PF_X, PT_LOAD};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;

/// Why a file is not a program that can be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// No ELF file of 64 bits.
    NotElf,
    /// For another machine, or not linked for fixed addresses.
    WrongKind,
    /// A segment lies outside the file or the user half, wraps around, or meets another.
    BadSegment,
    /// The entry lies in no segment that can be executed.
    BadEntry,
    /// The archive has no file where the program should be.
    Absent,
    /// The kernel refused something.
    Kernel(Failure),
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotElf => "the file is no 64-bit ELF program",
            Self::WrongKind => "the program is for another machine, or not linked for fixed addresses",
            Self::BadSegment => "a segment of the program lies outside the file, the user half, or across another",
            Self::BadEntry => "the entry of the program lies in no executable segment",
            Self::Absent => "the archive holds no program",
            Self::Kernel(failure) => failure.error.text(),
        })
    }
}

impl From<Failure> for LoadError {
    fn from(failure: Failure) -> Self {
        Self::Kernel(failure)
    }
}

/// A part of a program: whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// First address; a multiple of the page size.
    pub start: u64,
    /// How many pages.
    pub pages: u64,
    /// Bytes of the first page before `data`.
    pub offset: u64,
    /// What the file has of it; zeros follow.
    pub data: &'a [u8],
    /// ELF flags, `PF_*`.
    pub flags: u32,
}

/// The parts of a program, checked, before any page is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// Where it begins.
    pub entry: u64,
    /// In ascending order, without overlap.
    pub segments: Vec<Segment<'a>>,
}

impl<'a> Plan<'a> {
    /// Reads a file.
    ///
    /// # Errors
    /// [`LoadError`], but not `Kernel`.
    pub fn new(file: &'a [u8]) -> Result<Self, LoadError> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(|_| LoadError::NotElf)?;
        if elf.ehdr.class != elf::file::Class::ELF64 {
            return Err(LoadError::NotElf);
        }
        if elf.ehdr.e_machine != EM_X86_64 || elf.ehdr.e_type != ET_EXEC {
            return Err(LoadError::WrongKind);
        }
        let headers = elf.segments().ok_or(LoadError::BadSegment)?;
        let wanted = headers.iter().filter(|header| header.p_type == PT_LOAD && header.p_memsz > 0);
        let mut segments =
            wanted.map(|header| segment(file, &header)).collect::<Option<Vec<_>>>().ok_or(LoadError::BadSegment)?;
        segments.sort_by_key(|segment| segment.start);
        if segments.windows(2).any(|two| two[0].end() > two[1].start) {
            return Err(LoadError::BadSegment);
        }
        let entry = elf.ehdr.e_entry;
        let holds_entry =
            |segment: &Segment<'_>| segment.flags & PF_X != 0 && (segment.start..segment.end()).contains(&entry);
        if !segments.iter().any(holds_entry) {
            return Err(LoadError::BadEntry);
        }
        Ok(Self { entry, segments })
    }
}

impl Segment<'_> {
    /// First address after it.
    pub const fn end(&self) -> u64 {
        self.start + self.pages * PAGE_SIZE
    }

    fn access(&self) -> Access {
        match (self.flags & PF_W != 0, self.flags & PF_X != 0) {
            (true, _) => Access::WRITE,
            (false, true) => Access::EXECUTE,
            (false, false) => Access::READ,
        }
    }

    /// Fresh pages that hold it.
    fn fill(&self, from: Allocator) -> Result<Vec<PageNumber>, Failure> {
        let mut pages = vec![PageNumber::NONE; self.pages as usize];
        from.allocate_many(&mut pages)?;
        let bytes = WINDOW_PAGES * PAGE_SIZE as usize;
        let mut written = 0;
        for (index, some) in pages.chunks(WINDOW_PAGES).enumerate() {
            let window_start = index * bytes;
            let at = (self.offset as usize + written).saturating_sub(window_start);
            let now = (self.data.len() - written).min((some.len() * PAGE_SIZE as usize).saturating_sub(at));
            if now > 0 {
                Window::open(some, from.key, Access::WRITE)?.write(at, &self.data[written..written + now]);
                written += now;
            }
        }
        Ok(pages)
    }
}

/// A loadable segment, if it makes sense.
fn segment<'a>(file: &'a [u8], header: &ProgramHeader) -> Option<Segment<'a>> {
    let data_end = header.p_offset.checked_add(header.p_filesz)?;
    let data = file.get(usize::try_from(header.p_offset).ok()?..usize::try_from(data_end).ok()?)?;
    let offset = header.p_vaddr % PAGE_SIZE;
    let start = header.p_vaddr - offset;
    let bytes = header.p_memsz.checked_add(offset)?;
    if header.p_filesz > header.p_memsz || !abi::memory_map::in_user_half(start, bytes) {
        return None;
    }
    let pages = bytes.div_ceil(PAGE_SIZE);
    abi::memory_map::in_user_half(start, pages * PAGE_SIZE).then_some(Segment {
        start,
        pages,
        offset,
        data,
        flags: header.p_flags,
    })
}

/// A program that is ready to be mapped.
#[derive(Debug)]
pub struct Image<'a> {
    /// What it is made of.
    pub plan: Plan<'a>,
    /// The pages of each segment that is shared; empty for those that are copied.
    shared: Vec<Vec<PageNumber>>,
    pages: Allocator,
}

impl<'a> Image<'a> {
    /// Loads a file: fills the pages that all who run it will share.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(file: &'a [u8], pages: Allocator) -> Result<Self, LoadError> {
        let plan = Plan::new(file)?;
        let mut image = Self { shared: Vec::new(), pages, plan };
        for segment in &image.plan.segments {
            let filled = if segment.flags & PF_W == 0 { segment.fill(pages)? } else { Vec::new() };
            image.shared.push(filled);
        }
        Ok(image)
    }

    /// Loads the program that an archive begins with; of the boot archive, that is the first environment's.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn init_of(archive: Archive<'a>, pages: Allocator) -> Result<Self, LoadError> {
        Self::load(archive.find(INIT).ok_or(LoadError::Absent)?.data, pages)
    }

    /// Maps the program into an address space that is not the caller's. What it can write is put into fresh pages of
    /// `private`.
    ///
    /// # Errors
    /// As for [`AddressSpace::edit`] and `page_allocate`; `BadAddress` for the own address space.
    pub fn map_into(&self, space: &AddressSpace, private: Allocator) -> Result<(), Failure> {
        if space.root == crate::area::root() {
            return Err(abi::Error::BadAddress.about(self.plan.entry));
        }
        for (segment, shared) in self.plan.segments.iter().zip(&self.shared) {
            let (copy, key);
            let pages = if shared.is_empty() {
                (copy, key) = (segment.fill(private)?, private.key);
                &copy
            } else {
                key = self.pages.key;
                shared
            };
            // SAFETY: it is not the own address space.
            unsafe { AddressSpace { key, ..*space }.map(segment.start, pages, segment.access()) }?;
        }
        Ok(())
    }
}

impl Drop for Image<'_> {
    /// Gives the shared pages up; programs that still run keep them until the end.
    fn drop(&mut self) {
        for pages in &self.shared {
            self.pages.free_many(pages);
        }
    }
}

/// First address of the image that this code is part of, and the first one after it.
#[cfg(target_os = "none")]
pub fn own_range() -> (u64, u64) {
    unsafe extern "C" {
        static image_start: u8;
        static image_end: u8;
    }
    (&raw const image_start as u64, &raw const image_end as u64)
}

/// First address of the image that this code is part of, and the first one after it.
#[cfg(not(target_os = "none"))]
pub fn own_range() -> (u64, u64) {
    (0x40_0000, 0x50_0000)
}
