//! Memory that a device may read or write at any time: never a Rust slice, only copied in and out.
//!
//! A [`Segment`] is what a descriptor points to. It can only be made of memory that was set aside for devices, so safe
//! code cannot let a device write anywhere else.

use crate::boot_memory::BootMemory;
use crate::layout::{PAGE_SIZE, direct};
use core::arch::asm;

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

    fn address(&self, offset: usize, length: usize) -> u64 {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.length), "outside of the device buffer");
        self.base + offset as u64
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

    /// Copies bytes out of it.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        // SAFETY: the source lies in this buffer, which no Rust reference covers; the destination is an exclusive slice.
        unsafe { copy(bytes.as_mut_ptr() as u64, self.address(offset, bytes.len()), bytes.len()) };
    }
}

/// Copies bytes that a device may change meanwhile: in assembly, where that is no data race.
///
/// # Safety
/// Both ranges are mapped and do not overlap; the destination is the caller's to write.
unsafe fn copy(to: u64, from: u64, length: usize) {
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
