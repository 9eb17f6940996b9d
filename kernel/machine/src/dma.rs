//! Memory that a device may read or write at any time: never a Rust slice, only copied in and out.
//!
//! A [`Segment`] is what a descriptor points to. It is made of memory that was set aside for devices, or of a page of a
//! program: then a [`Pinned`] goes with it into the queue. So safe code cannot let a device write anywhere else.
//!
//! Invariants:
//! - a page of a program that a device may touch is ordinary, and counted in its record (`holds`, bits 16 to 31);
//! - the count goes down by [`crate::memory::Memory::unpin`] alone, which takes the pin that only the queue gives back.

use crate::boot_memory::BootMemory;
use crate::layout::{PAGE_SIZE, direct};
use crate::memory::{self, Memory, PageState};
use crate::packet::Piece;
use abi::PageNumber;
use abi::page::{PageInfo, PageKind};
use core::arch::asm;
use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::sync::atomic::Ordering;

/// Which way the device uses a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The device reads it.
    ToDevice,
    /// The device writes it.
    FromDevice,
}

/// A piece of physical memory for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) direction: Direction,
}

/// One device pin of a page of a program. Dropped, the page stays pinned for ever.
#[derive(Debug)]
#[must_use]
pub struct Pinned {
    /// The page, plus one.
    page: NonZeroU32,
}

impl Pinned {
    /// A pin of a page of [`crate::host_machine`], which has no records.
    #[cfg(not(target_os = "none"))]
    pub fn of_host(page: PageNumber) -> Self {
        Self::new(page).expect("a page of so small a memory has a pin")
    }

    /// The pin of a page whose record counts it.
    pub(crate) fn new(page: PageNumber) -> Option<Self> {
        u32::try_from(page.0 + 1).ok().and_then(NonZeroU32::new).map(|page| Self { page })
    }

    /// The page.
    pub fn page(&self) -> PageNumber {
        PageNumber(u64::from(self.page.get()) - 1)
    }

    /// Reads a word of the page once. Programs may write it meanwhile.
    #[inline(always)]
    pub fn read(&self, index: usize) -> u64 {
        self.words::<1>(index).read(0)
    }

    /// One of the runs of so many words that the page consists of.
    #[inline(always)]
    pub fn words<const COUNT: usize>(&self, run: usize) -> Words<'_, COUNT> {
        assert!(run < (PAGE_SIZE / 8) as usize / COUNT, "outside of the page");
        let first = (direct(self.page().address()) + (run * COUNT) as u64 * 8) as *mut u64;
        Words { first, page: PhantomData }
    }

    /// Writes a word of the page.
    #[inline(always)]
    pub fn write(&self, index: usize, value: u64) {
        self.words::<1>(index).write(0, value);
    }

    /// Copies a part of a piece into the page.
    #[inline]
    pub fn copy_from(&self, offset: usize, piece: &Piece, from: usize, length: usize) {
        assert!(from.checked_add(length).is_some_and(|end| end <= piece.length), "outside of the piece");
        let to = self.address_of(offset, length);
        // SAFETY: both lie in memory that no Rust reference covers: a buffer of the kernel and an ordinary page.
        unsafe { copy(to, piece.address + from as u64, length) };
    }

    #[inline]
    fn address_of(&self, offset: usize, length: usize) -> u64 {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end as u64 <= PAGE_SIZE), "outside of the page");
        direct(self.page().address()) + offset as u64
    }

    /// A part of the page for a device, for as long as the device has it.
    pub fn part(self, offset: usize, length: usize, direction: Direction) -> Part {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end as u64 <= PAGE_SIZE), "outside of the page");
        let address = self.page().address() + offset as u64;
        Part { segment: Segment { address, length: length as u32, direction }, pin: Some(self) }
    }
}

/// A run of words in a pinned page: its address is computed and checked once. Programs may write the words meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a, const COUNT: usize> {
    first: *mut u64,
    page: PhantomData<&'a Pinned>,
}

impl<const COUNT: usize> Words<'_, COUNT> {
    /// Reads one of them, once.
    #[inline(always)]
    pub fn read(&self, index: usize) -> u64 {
        assert!(index < COUNT, "outside of the words");
        // SAFETY: the word lies in an ordinary page, which a pinned page stays, and its pin is borrowed; no reference
        // to it exists, and a volatile read of a machine word is whole.
        unsafe { self.first.add(index).read_volatile() }
    }

    /// Writes one of them.
    #[inline(always)]
    pub fn write(&self, index: usize, value: u64) {
        assert!(index < COUNT, "outside of the words");
        // SAFETY: as in `read`.
        unsafe { self.first.add(index).write_volatile(value) };
    }
}

/// Bits of [`PageInfo::holds`] that count device pins.
const PINS_SHIFT: u32 = 16;
const PINS_MASK: u64 = 0xffff;

/// Device pins of a page.
pub fn device_pins(info: &PageInfo) -> u32 {
    (info.holds.load(Ordering::Relaxed) >> PINS_SHIFT & PINS_MASK) as u32
}

impl Memory {
    /// Pins an ordinary page for a device. None: it is of another kind, or has as many pins as can be counted.
    pub fn pin(&self, page: PageNumber) -> Option<Pinned> {
        let info = memory::info(page)?;
        let PageState { kind, .. } = memory::state(info);
        if kind != PageKind::Ordinary || u64::from(device_pins(info)) == PINS_MASK {
            return None;
        }
        let pin = Pinned::new(page)?;
        memory::forget_zeroed(info);
        info.holds.store(info.holds.load(Ordering::Relaxed) + (1 << PINS_SHIFT), Ordering::Release);
        Some(pin)
    }

    /// Ends a pin that no device uses: the queue gave it back.
    pub fn unpin(&mut self, pin: Pinned) -> PageNumber {
        let page = pin.page();
        let info = memory::info(page).expect("a pinned page has a record");
        assert!(device_pins(info) > 0, "a pin is counted in the record of its page");
        info.holds.store(info.holds.load(Ordering::Relaxed) - (1 << PINS_SHIFT), Ordering::Release);
        page
    }

    /// Writes a word of a pinned page through the kernel's alias. Programs may write it meanwhile.
    pub fn write_pinned(&mut self, pin: &Pinned, index: usize, value: u64) {
        pin.write(index, value);
    }
}

/// What a queue takes for one descriptor.
#[derive(Debug)]
pub struct Part {
    pub(crate) segment: Segment,
    pub(crate) pin: Option<Pinned>,
}

impl Part {
    /// Bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.segment.length)
    }

    /// The pin of its page, if it is a part of a page and has the pin.
    pub fn pin(&self) -> Option<&Pinned> {
        self.pin.as_ref()
    }

    /// The same part with the pin. This one keeps the place until the pin is given back.
    pub fn lend(&mut self) -> Self {
        Self { segment: self.segment, pin: self.pin.take() }
    }

    /// Gives back the pin that was lent.
    ///
    /// # Panics
    /// If it is that of another page.
    pub fn give_back(&mut self, pin: Pinned) {
        assert_eq!(pin.page().address(), self.segment.address & !(PAGE_SIZE - 1), "the pin is another page's");
        self.pin = Some(pin);
    }

    /// Takes the pin out.
    pub fn take_pin(&mut self) -> Option<Pinned> {
        self.pin.take()
    }
}

impl From<Segment> for Part {
    fn from(segment: Segment) -> Self {
        Self { segment, pin: None }
    }
}

/// Neighbouring pages set aside at boot, for ever, for one device.
#[derive(Debug)]
pub struct DeviceBuffer {
    physical: u64,
    base: u64,
    length: usize,
}

impl DeviceBuffer {
    /// Takes pages from boot memory.
    pub fn allocate(memory: &mut BootMemory, pages: u64) -> Option<Self> {
        let physical = memory.allocate_zeroed(pages)?;
        Some(Self { physical, base: direct(physical), length: (pages * PAGE_SIZE) as usize })
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    #[inline(always)]
    pub(crate) fn address(&self, offset: usize, length: usize) -> u64 {
        assert!(length <= self.length && offset <= self.length - length, "outside of the device buffer");
        self.base.wrapping_add(offset as u64)
    }

    /// A part of it for the device.
    pub fn segment(&self, offset: usize, length: usize, direction: Direction) -> Segment {
        self.address(offset, length);
        Segment { address: self.physical + offset as u64, length: length as u32, direction }
    }

    /// Copies bytes into it.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: the destination lies in this buffer, which no Rust reference covers; the source is a slice.
        unsafe { copy(self.address(offset, bytes.len()), bytes.as_ptr() as u64, bytes.len()) };
    }

    /// Writes words into it, each as soon as it is made: they need no place in between.
    #[inline(always)]
    pub fn write_words<const COUNT: usize>(&self, offset: usize, mut word: impl FnMut(usize) -> u64) {
        let to = self.address(offset, COUNT * 8) as *mut u64;
        for index in 0..COUNT {
            let word = word(index);
            // SAFETY: the destination lies in this buffer, which no Rust reference covers.
            unsafe { to.add(index).write_unaligned(word) };
        }
    }

    /// Copies a run of bytes of another buffer into it.
    pub fn write_piece(&self, offset: usize, piece: &Piece) {
        // SAFETY: both lie in buffers of the kernel, which no Rust reference covers.
        unsafe { copy(self.address(offset, piece.length), piece.address, piece.length) };
    }

    /// Copies bytes of an ordinary page into it. Programs may write them meanwhile.
    pub fn write_from_page(&self, at: usize, page: PageNumber, offset: usize, length: usize) {
        let is_ordinary = memory::info(page).is_some_and(|info| memory::state(info).kind == PageKind::Ordinary);
        let end = offset.checked_add(length);
        assert!(is_ordinary && end.is_some_and(|end| end as u64 <= PAGE_SIZE), "outside of an ordinary page");
        // SAFETY: the source lies in an ordinary page, the destination in this buffer; no Rust reference covers either.
        unsafe { copy(self.address(at, length), direct(page.address()) + offset as u64, length) };
    }

    /// Copies bytes out of it.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        // SAFETY: the source lies in this buffer, which no Rust reference covers; the destination is an exclusive
        // slice.
        unsafe { copy(bytes.as_mut_ptr() as u64, self.address(offset, bytes.len()), bytes.len()) };
    }
}

/// Copies bytes that a device may change meanwhile: in assembly, where that is no data race.
///
/// # Safety
/// Both ranges are mapped; the destination is the caller's to write. Of ranges that overlap any bytes are copied.
#[inline]
pub(crate) unsafe fn copy(to: u64, from: u64, length: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        asm!(
            "rep movsq", "mov ecx, {rest:e}", "rep movsb",
            rest = in(reg) length % 8,
            inout("rcx") length / 8 => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}
