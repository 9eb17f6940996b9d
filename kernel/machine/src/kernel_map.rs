//! The kernel's half of every address space, made once at boot: direct map, devices, image, stacks, code arena, exposed
//! structures.
//!
//! Invariant: nothing is both writable and executable. Kernel text, read-only data and the code arena are not
//! writable under any alias. Only the exposed structures are visible to users, read-only. The half is global and
//! never changes after boot. Entry formats: SDM volume 3, section 4.5.

use crate::boot_memory::BootMemory;
use crate::exposed::Window;
use crate::layout::{self, HUGE_PAGE_SIZE, LARGE_PAGE_SIZE, PAGE_SIZE, align_down, direct};
use crate::memory_map::MemoryRange;
use abi::memory_map::EXPOSED_ARRAYS;
use abi::page::PageInfo;
use abi::page_table::{ACCESSED, CACHE_DISABLE, DIRTY, LARGE, NO_EXECUTE, PAGE, PRESENT, USER, WRITE, WRITE_THROUGH};
use core::arch::asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

const GLOBAL: u64 = 1 << 8;
const TABLE_ENTRIES: u64 = 512;
/// Rights of each kind of memory. Accessed and dirty are set from the start, so that the CPU changes no entry.
const EXECUTE: u64 = PRESENT | GLOBAL | ACCESSED | DIRTY;
const READ_ONLY: u64 = EXECUTE | NO_EXECUTE;
const READ_WRITE: u64 = READ_ONLY | WRITE;
const DEVICE: u64 = READ_WRITE | CACHE_DISABLE | WRITE_THROUGH;
const EXPOSED: u64 = READ_ONLY | USER;

/// Bytes of memory whose records fill a page.
const RECORDED: u64 = PAGE_SIZE / size_of::<PageInfo>() as u64 * PAGE_SIZE;
/// Bytes of a hole in memory whose records would fill a large page.
const LARGEST_HOLE: u64 = RECORDED * (LARGE_PAGE_SIZE / PAGE_SIZE);

/// Physical address of the root table; the other processors' first instructions read it.
pub(crate) static ROOT: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    static boot_start: u8;
    static text_start: u8;
    static rodata_start: u8;
    static data_start: u8;
    static image_end: u8;
}

/// Why a mapping could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapFailure {
    /// No memory for a page table.
    NoMemory,
    /// The address is already mapped to something else, or out of the direct map.
    Conflict,
}

/// Physical address of the kernel's root table.
pub fn root_address() -> u64 {
    ROOT.load(Ordering::Relaxed)
}

/// Physical bytes of the kernel: boot part and image.
pub(crate) fn image() -> Range<u64> {
    (&raw const boot_start) as u64..(&raw const image_end) as u64 - layout::IMAGE
}

/// Physical bytes of text and of read-only data.
fn constant_parts() -> [Range<u64>; 2] {
    let physical = |symbol: *const u8| symbol as u64 - layout::IMAGE;
    let (text, rodata, data) = (&raw const text_start, &raw const rodata_start, &raw const data_start);
    [physical(text)..physical(rodata), physical(rodata)..physical(data)]
}

/// Edits the kernel's half, taking page tables from boot memory.
pub(crate) struct KernelMap<'a, 'b> {
    memory: &'a mut BootMemory<'b>,
    root: u64,
    huge_pages: bool,
}

impl<'a, 'b> KernelMap<'a, 'b> {
    /// A new, empty half.
    pub(crate) fn new(memory: &'a mut BootMemory<'b>, huge_pages: bool) -> Result<Self, MapFailure> {
        let root = memory.allocate_zeroed(1).ok_or(MapFailure::NoMemory)?;
        ROOT.store(root, Ordering::Relaxed);
        Ok(Self { memory, root, huge_pages })
    }

    /// Continues with the half that was made before.
    pub(crate) fn resume(memory: &'a mut BootMemory<'b>, huge_pages: bool) -> Self {
        Self { memory, root: root_address(), huge_pages }
    }

    /// Maps a range of RAM into the direct map: writable, but for the kernel's text and read-only data.
    pub(crate) fn map_ram(&mut self, range: &MemoryRange) -> Result<(), MapFailure> {
        let mut start = range.start;
        for part in constant_parts() {
            let (from, to) = (part.start.clamp(start, range.end), part.end.clamp(start, range.end));
            self.map(direct(start), start, from - start, READ_WRITE)?;
            self.map(direct(from), from, to - from, READ_ONLY)?;
            start = to;
        }
        self.map(direct(start), start, range.end - start, READ_WRITE)
    }

    /// Maps the image where it is linked, each part with its own rights.
    pub(crate) fn map_image(&mut self) -> Result<(), MapFailure> {
        let [text, rodata] = constant_parts();
        for (part, rights) in [(&text, EXECUTE), (&rodata, READ_ONLY), (&(rodata.end..image().end), READ_WRITE)] {
            self.map(layout::IMAGE + part.start, part.start, part.end - part.start, rights)?;
        }
        Ok(())
    }

    /// Maps the registers of a device into the direct map, uncached; returns their virtual address.
    pub(crate) fn map_device(&mut self, physical: u64, bytes: u64) -> Result<u64, MapFailure> {
        let end = physical.checked_add(bytes).and_then(|end| layout::align_up(end, PAGE_SIZE));
        let end = end.filter(|&end| end <= layout::PHYSICAL_LIMIT).ok_or(MapFailure::Conflict)?;
        let start = align_down(physical, PAGE_SIZE);
        self.map(direct(start), start, end - start, DEVICE)?;
        Ok(direct(physical))
    }

    /// Maps fresh pages at `address`, for a kernel stack.
    pub(crate) fn map_stack(&mut self, address: u64, pages: u64) -> Result<(), MapFailure> {
        let physical = self.memory.allocate(pages).ok_or(MapFailure::NoMemory)?;
        self.map(address, physical, pages * PAGE_SIZE, READ_WRITE)
    }

    /// Sets pages aside for code: to execute at `address`, and from now on read-only in the direct map. Returns their
    /// physical address. The caller drops translations.
    pub(crate) fn map_code(&mut self, address: u64, pages: u64) -> Result<u64, MapFailure> {
        let physical = self.memory.allocate_zeroed(pages).ok_or(MapFailure::NoMemory)?;
        for page in (physical..physical + pages * PAGE_SIZE).step_by(PAGE_SIZE as usize) {
            let alias = self.split(direct(page))?;
            alias.store(page | READ_ONLY, Ordering::Relaxed);
        }
        self.map(address, physical, pages * PAGE_SIZE, EXECUTE)?;
        Ok(physical)
    }

    /// The entry of the smallest size for an address that is mapped: larger ones on the way become tables of the same
    /// translations.
    fn split(&mut self, address: u64) -> Result<&'static AtomicU64, MapFailure> {
        let mut table = self.root;
        for level in (1..4).rev() {
            let slot = entry_of(table, address, level);
            let entry = slot.load(Ordering::Relaxed);
            if entry & PRESENT == 0 {
                return Err(MapFailure::Conflict);
            }
            table = entry & PAGE;
            if entry & LARGE != 0 {
                table = self.memory.allocate_zeroed(1).ok_or(MapFailure::NoMemory)?;
                let smaller = if level > 1 { LARGE } else { 0 };
                let (first, rights) = (entry & PAGE, entry & !PAGE & !LARGE | smaller);
                for index in 0..TABLE_ENTRIES {
                    let part = PAGE_SIZE << (9 * (level - 1));
                    entry_of(table, index * part, level - 1).store(first + index * part | rights, Ordering::Relaxed);
                }
                slot.store(table | PRESENT | WRITE, Ordering::Relaxed);
            }
        }
        Ok(entry_of(table, address, 0))
    }

    /// Maps exposed structures for all to read.
    ///
    /// # Panics
    /// Where they are not listed in [`EXPOSED_ARRAYS`].
    pub(crate) fn map_exposed(&mut self, window: &Window) -> Result<(), MapFailure> {
        let is_listed = EXPOSED_ARRAYS.iter().any(|(_, address, _)| *address == window.address);
        assert!(is_listed, "{:#x} is not listed among what is exposed", window.address);
        self.map(window.address, window.physical, window.pages * PAGE_SIZE, EXPOSED)
    }

    /// Maps the records of so many pages for all to read, and for the kernel to write where it keeps its alias.
    /// Memory gets fresh zeros. Large holes in it, of which nothing is ever written, get one page of zeros again and
    /// again.
    pub(crate) fn map_page_records(&mut self, exposed: u64, records: u64) -> Result<(), MapFailure> {
        let zeros = self.memory.allocate_zeroed(1).ok_or(MapFailure::NoMemory)?;
        let mut done = 0;
        while done < records {
            let memory = self.memory.memory_from(done * RECORDED, LARGEST_HOLE).unwrap_or(u64::MAX..u64::MAX);
            let begin = (align_down(memory.start, LARGEST_HOLE) / RECORDED).clamp(done, records);
            let end = memory.end.div_ceil(RECORDED).min(records);
            for page in done..begin {
                self.map(layout::PAGE_RECORDS + page * PAGE_SIZE, zeros, PAGE_SIZE, READ_ONLY)?;
                self.map(exposed + page * PAGE_SIZE, zeros, PAGE_SIZE, EXPOSED)?;
            }
            let bytes = (end - begin) * PAGE_SIZE;
            let alignment = if bytes < LARGE_PAGE_SIZE { PAGE_SIZE } else { LARGE_PAGE_SIZE };
            let fresh = self.memory.allocate_zeroed_aligned(end - begin, alignment).ok_or(MapFailure::NoMemory)?;
            self.map(layout::PAGE_RECORDS + begin * PAGE_SIZE, fresh, bytes, READ_WRITE)?;
            self.map(exposed + begin * PAGE_SIZE, fresh, bytes, EXPOSED)?;
            done = end;
        }
        Ok(())
    }

    /// Maps `bytes` bytes with the largest pages that fit.
    fn map(&mut self, address: u64, physical: u64, bytes: u64, rights: u64) -> Result<(), MapFailure> {
        let mut done = 0;
        while done < bytes {
            let level = self.level(address + done, physical + done, bytes - done);
            let size = PAGE_SIZE << (9 * level);
            let large = if level > 0 { LARGE } else { 0 };
            let slot = self.slot(address + done, level, rights & USER)?;
            let entry = (physical + done) | rights | large;
            let before = slot.load(Ordering::Relaxed);
            if before != 0 && before != entry {
                return Err(MapFailure::Conflict);
            }
            slot.store(entry, Ordering::Relaxed);
            done += size;
        }
        Ok(())
    }

    /// 0 for a page of 4 KiB, 1 for 2 MiB, 2 for 1 GiB.
    fn level(&self, address: u64, physical: u64, left: u64) -> u32 {
        let fits = |size| (address | physical).is_multiple_of(size) && left >= size;
        if self.huge_pages && fits(HUGE_PAGE_SIZE) { 2 } else { u32::from(fits(LARGE_PAGE_SIZE)) }
    }

    /// The entry for `address` at `level`, with the tables above it made as needed.
    fn slot(&mut self, address: u64, level: u32, user: u64) -> Result<&'static AtomicU64, MapFailure> {
        let mut table = self.root;
        for above in (level + 1..4).rev() {
            let slot = entry_of(table, address, above);
            let mut entry = slot.load(Ordering::Relaxed);
            if entry == 0 {
                let page = self.memory.allocate_zeroed(1).ok_or(MapFailure::NoMemory)?;
                entry = page | PRESENT | WRITE | user;
                slot.store(entry, Ordering::Relaxed);
            } else if entry & LARGE != 0 {
                return Err(MapFailure::Conflict);
            }
            table = entry & PAGE;
        }
        Ok(entry_of(table, address, level))
    }
}

/// The physical address that an address of the kernel's half leads to, if all may read there.
pub(crate) fn exposed(address: u64) -> Option<u64> {
    let mut table = root_address();
    for level in (0..4).rev() {
        let entry = entry_of(table, address, level).load(Ordering::Relaxed);
        let size = PAGE_SIZE << (9 * level);
        let offset = address & (size - 1);
        match entry & (PRESENT | LARGE) {
            PRESENT if level > 0 => table = entry & PAGE,
            found if found & PRESENT != 0 && entry & USER != 0 => return Some((entry & PAGE & !(size - 1)) + offset),
            _ => return None,
        }
    }
    None
}

/// The entry of the table at physical address `table` that translates `address` at `level`.
fn entry_of(table: u64, address: u64, level: u32) -> &'static AtomicU64 {
    let index = (address >> (12 + 9 * level)) % TABLE_ENTRIES;
    // SAFETY: `table` was allocated as a page of zeroes for a page table, is used for nothing else, and lies in the
    // direct map (or in the boot map before it); the index is below 512.
    unsafe { &*((direct(table) + index * 8) as *const AtomicU64) }
}

/// Makes the kernel's half the one in force on this CPU; the boot map is gone on it.
///
/// # Safety
/// The half maps the image, the direct map and the stack in use.
pub(crate) unsafe fn load() {
    // SAFETY: the caller vouches for the map; nothing outside of it is used afterwards.
    unsafe { asm!("mov cr3, {}", in(reg) root_address(), options(nostack, preserves_flags)) };
}
