//! What the PVH loader tells: memory map, command line, boot archive, ACPI root pointer.
//!
//! Source: the Xen PVH boot ABI, `hvm_start_info` versions 0 and 1. The loader is not trusted further than it must
//! be. Every address is checked to lie in the boot map (the first 4 GiB) before it is read. All is copied out,
//! because the memory it lies in is free after boot.

use crate::layout::{self, PAGE_SIZE};
use crate::memory_map::{MapError, MemoryMap, Use};
use core::fmt;
use core::ops::Range;

const MAGIC: u32 = 0x336e_c578;
const MAXIMUM_MAP_ENTRIES: u32 = 1024;
const RAM: u32 = 1;
/// The boot map covers this much physical memory.
const READABLE: u64 = 4 << 30;
/// Bytes of the command line that the kernel keeps.
pub const COMMAND_LINE_LIMIT: usize = 4096;

/// Why the machine cannot be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// No PVH start information where the loader said.
    NoStartInfo,
    /// The start information is version 0, without a memory map.
    NoMemoryMap,
    /// The memory map has too many entries to be one.
    MapTooLong(u32),
    /// The start information points outside the first 4 GiB.
    Unreadable(u64),
    /// The memory map does not hold what it must.
    Map(MapError),
    /// The command line is longer than `COMMAND_LINE_LIMIT` or not UTF-8.
    CommandLine,
}

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStartInfo => write!(out, "no PVH start information; boot with a PVH loader (qemu -kernel)"),
            Self::NoMemoryMap => write!(out, "the loader gave no memory map; use one that speaks PVH version 1"),
            Self::MapTooLong(entries) => write!(out, "corrupt memory map: it claims {entries} entries"),
            Self::Unreadable(address) => write!(out, "corrupt start information: address {address:#x} is out of reach"),
            Self::Map(MapError::TooManyRanges) => write!(out, "corrupt memory map: too many separate ranges"),
            Self::Map(MapError::NotRam) => write!(out, "corrupt memory map: kernel or boot archive lie outside of RAM"),
            Self::CommandLine => write!(out, "the command line is not UTF-8 or longer than {COMMAND_LINE_LIMIT} bytes"),
        }
    }
}

impl From<MapError> for StartError {
    fn from(error: MapError) -> Self {
        Self::Map(error)
    }
}

/// The loader's gifts, checked and copied.
pub struct StartInfo {
    /// RAM, with the boot archive marked; the kernel image is not marked yet.
    pub memory: MemoryMap,
    /// Physical bytes of the boot archive; empty when there is none.
    pub archive: Range<u64>,
    /// Physical address of the ACPI root pointer, when the loader gave one.
    pub root_pointer: Option<u64>,
    /// The kernel's command line.
    pub command_line: CommandLine,
}

/// Text that the loader gave.
pub struct CommandLine {
    bytes: [u8; COMMAND_LINE_LIMIT],
    length: usize,
}

impl CommandLine {
    /// The text.
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }

    /// The value of the argument `name=value`, the last if there are several.
    pub fn value(&self, name: &str) -> Option<&str> {
        let value = |argument: &'_ str| argument.strip_prefix(name)?.strip_prefix('=').map(str::len);
        let argument = self.text().split_ascii_whitespace().rfind(|argument| value(argument).is_some())?;
        Some(&argument[name.len() + 1..])
    }
}

impl StartInfo {
    /// The empty start information, to be filled in place: it is large.
    pub const fn new() -> Self {
        Self {
            memory: MemoryMap::new(),
            archive: 0..0,
            root_pointer: None,
            command_line: CommandLine { bytes: [0; COMMAND_LINE_LIMIT], length: 0 },
        }
    }

    /// Reads the start information at physical address `address` of `vm`.
    pub(crate) fn read(&mut self, address: u64, memory: &impl PhysicalMemory) -> Result<(), StartError> {
        let field32 = |offset| memory.read::<u32>(address.saturating_add(offset));
        let field64 = |offset| memory.read::<u64>(address.saturating_add(offset));
        if field32(0)? != MAGIC {
            return Err(StartError::NoStartInfo);
        }
        if field32(4)? < 1 || field64(40)? == 0 {
            return Err(StartError::NoMemoryMap);
        }
        self.read_memory_map(field64(40)?, field32(48)?, memory)?;
        self.read_command_line(field64(24)?, memory)?;
        self.root_pointer = Some(field64(32)?).filter(|&pointer| pointer != 0);
        if field32(12)? > 0 {
            self.read_archive(field64(16)?, memory)?;
        }
        Ok(())
    }

    /// Two passes: RAM first, then what is not RAM is taken out, so that it wins where they overlap.
    fn read_memory_map(&mut self, table: u64, entries: u32, memory: &impl PhysicalMemory) -> Result<(), StartError> {
        if entries > MAXIMUM_MAP_ENTRIES {
            return Err(StartError::MapTooLong(entries));
        }
        for pass_adds_ram in [true, false] {
            for entry in (0..u64::from(entries)).map(|index| table.saturating_add(index * 24)) {
                let (start, size) = (memory.read::<u64>(entry)?, memory.read::<u64>(entry.saturating_add(8))?);
                let is_ram = memory.read::<u32>(entry.saturating_add(16))? == RAM;
                match (pass_adds_ram, is_ram) {
                    (true, true) => self.memory.add_ram(start, size)?,
                    (false, false) if size > 0 => self.memory.remove(start, size)?,
                    _ => {}
                }
            }
        }
        // Page zero stays unused: a physical address of zero means "none" in many places.
        self.memory.remove(0, PAGE_SIZE)?;
        Ok(())
    }

    fn read_command_line(&mut self, address: u64, memory: &impl PhysicalMemory) -> Result<(), StartError> {
        if address == 0 {
            return Ok(());
        }
        for index in 0..COMMAND_LINE_LIMIT {
            let byte = memory.read::<u8>(address.saturating_add(index as u64))?;
            if byte == 0 {
                self.command_line.length = index;
                let valid = core::str::from_utf8(&self.command_line.bytes[..index]).is_ok();
                return if valid { Ok(()) } else { Err(StartError::CommandLine) };
            }
            self.command_line.bytes[index] = byte;
        }
        Err(StartError::CommandLine)
    }

    fn read_archive(&mut self, module: u64, memory: &impl PhysicalMemory) -> Result<(), StartError> {
        let (start, size) = (memory.read::<u64>(module)?, memory.read::<u64>(module.saturating_add(8))?);
        self.memory.assign(start, size, Use::Archive)?;
        self.archive = start..start + size;
        Ok(())
    }
}

impl Default for StartInfo {
    fn default() -> Self {
        Self::new()
    }
}

/// Integers that a physical address may be read as: any bytes are a valid value.
pub trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}

/// Physical memory as the boot sees it.
pub(crate) trait PhysicalMemory {
    /// Reads a value at an address of any alignment.
    fn read<T: Plain>(&self, physical: u64) -> Result<T, StartError>;
}

/// The boot map: the first 4 GiB, at the direct map.
pub(crate) struct BootMap;

impl PhysicalMemory for BootMap {
    fn read<T: Plain>(&self, physical: u64) -> Result<T, StartError> {
        let end = physical.checked_add(size_of::<T>() as u64);
        if end.is_none_or(|end| end > READABLE) {
            return Err(StartError::Unreadable(physical));
        }
        // SAFETY: the boot map covers the first 4 GiB at the direct map, readable; only the bootstrap CPU runs, before
        // anything in that memory is given away; every bit pattern is a valid `T`.
        Ok(unsafe { (layout::direct(physical) as *const T).read_unaligned() })
    }
}

/// The bytes at a physical address below 4 GiB that are never written. These are the firmware's tables while the boot
/// map is in force, and the boot archive at any time of the boot.
pub(crate) fn bytes(physical: u64, length: u64) -> Option<&'static [u8]> {
    let end = physical.checked_add(length)?;
    if physical == 0 || end > READABLE {
        return None;
    }
    // SAFETY: the boot map covers the first 4 GiB at the direct map, which covers all RAM, the archive too. No
    // code writes what the callers read, and only the archive is read after the boot map is gone.
    Some(unsafe { core::slice::from_raw_parts(layout::direct(physical) as *const u8, length as usize) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Some bytes at address zero, and nothing else.
    struct Bytes(Vec<u8>);

    impl PhysicalMemory for Bytes {
        fn read<T: Plain>(&self, physical: u64) -> Result<T, StartError> {
            let start = usize::try_from(physical).map_err(|_| StartError::Unreadable(physical))?;
            let bytes = start.checked_add(size_of::<T>()).and_then(|end| self.0.get(start..end));
            let bytes = bytes.ok_or(StartError::Unreadable(physical))?;
            // SAFETY: the slice is as long as a `T`, for which every bit pattern is valid.
            Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
        }
    }

    const TABLE: u64 = 0x101;
    const MODULE: u64 = 0x803;
    const TEXT: u64 = 0x901;

    impl Bytes {
        fn put(&mut self, at: u64, bytes: &[u8]) {
            self.0[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        }

        /// A start information at 1 (not aligned) with these map entries, an archive and a command line.
        fn new(entries: &[(u64, u64, u32)], archive: (u64, u64)) -> Self {
            let mut memory = Self(std::vec![0; 0x1000]);
            for (offset, value) in [(0, MAGIC), (4, 1), (12, 1), (48, entries.len() as u32)] {
                memory.put(1 + offset, &value.to_le_bytes());
            }
            for (offset, value) in [(16, MODULE), (24, TEXT), (40, TABLE)] {
                memory.put(1 + offset, &value.to_le_bytes());
            }
            for (index, (start, size, kind)) in entries.iter().enumerate() {
                let at = TABLE + index as u64 * 24;
                memory.put(at, &start.to_le_bytes());
                memory.put(at + 8, &size.to_le_bytes());
                memory.put(at + 16, &kind.to_le_bytes());
            }
            memory.put(MODULE, &archive.0.to_le_bytes());
            memory.put(MODULE + 8, &archive.1.to_le_bytes());
            memory.put(TEXT, b"one=1 two=2 one=3\0");
            memory
        }
    }

    #[test]
    fn reads_unaligned_information() {
        let memory = Bytes::new(&[(0, 0x9_fc00, 1), (0x10_0000, 0x700_0000, 1)], (0x600_0000, 0x1234));
        let mut start = StartInfo::new();
        start.read(1, &memory).unwrap();
        assert_eq!(start.archive, 0x600_0000..0x600_1234);
        assert_eq!(start.memory.pages(), 0x9e + 0x7000);
        assert_eq!((start.command_line.value("one"), start.command_line.value("on")), (Some("3"), None));
    }

    #[test]
    fn fault_93_an_archive_outside_of_memory_is_refused() {
        for archive in [(0x800_0000, 1), (u64::MAX, 1), (0x10_0000, u64::MAX), (0x10_0000 - 1, 4096)] {
            let memory = Bytes::new(&[(0x10_0000, 0x700_0000, 1)], archive);
            assert_eq!(StartInfo::new().read(1, &memory), Err(StartError::Map(MapError::NotRam)), "{archive:x?}");
        }
    }

    #[test]
    fn fault_93_corrupt_information_is_an_error_and_never_a_panic() {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        for _ in 0..20_000 {
            let mut random = |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % bound
            };
            let edge = |choice: u64| [0, 1, 0xfff, 0x10_0000, 1 << 32, 1 << 46, 1 << 63, u64::MAX][choice as usize % 8];
            let entries: Vec<_> =
                (0..random(20)).map(|_| (edge(random(8)), edge(random(8)), random(3) as u32)).collect();
            let mut memory = Bytes::new(&entries, (edge(random(8)), edge(random(8))));
            for _ in 0..random(4) {
                memory.put(1 + random(52), &edge(random(8)).to_le_bytes());
            }
            let _ = StartInfo::new().read(1, &memory);
        }
    }
}
