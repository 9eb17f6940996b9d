//! Registers of a device: a mapped piece of memory that is only ever read and written whole words at a time.

use crate::start_info::Plain;

/// A range of device memory, mapped uncached for ever. Accesses outside of it or unaligned are the kernel's error.
#[derive(Debug)]
pub(crate) struct Registers {
    base: u64,
    length: u64,
}

impl Registers {
    /// The registers that `KernelMap::map_device` mapped at `base`.
    ///
    /// # Safety
    /// The range is device memory, mapped for ever, and nothing else refers to it.
    pub(crate) const unsafe fn new(base: u64, length: u64) -> Self {
        Self { base, length }
    }

    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    fn pointer<T: Plain>(&self, offset: u64) -> *mut T {
        let size = size_of::<T>() as u64;
        assert!(offset.checked_add(size).is_some_and(|end| end <= self.length), "register {offset:#x} is out of range");
        let address = self.base + offset;
        assert!(address.is_multiple_of(size), "register {offset:#x} is not aligned");
        address as *mut T
    }

    /// Reads a register.
    pub(crate) fn read<T: Plain>(&self, offset: u64) -> T {
        // SAFETY: in range and aligned (`pointer`); the range is mapped device memory (`new`).
        unsafe { self.pointer::<T>(offset).read_volatile() }
    }

    /// Writes a register.
    pub(crate) fn write<T: Plain>(&self, offset: u64, value: T) {
        // SAFETY: as in `read`; what the device does then is the affair of the module that owns these registers.
        unsafe { self.pointer::<T>(offset).write_volatile(value) };
    }
}
