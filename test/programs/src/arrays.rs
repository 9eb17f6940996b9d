//! The arrays that the kernel exposes on this machine, with their sizes.

use abi::limits::{DEVICES, INTERFACES, SLICES_PER_CPU};
use abi::memory_map::{
    EXPOSED_ARRAYS, EXPOSED_BLOCKS, EXPOSED_CPUS, EXPOSED_DEVICES, EXPOSED_ENVIRONMENTS, EXPOSED_FILTERS,
    EXPOSED_INTERFACES, EXPOSED_KERNEL, EXPOSED_PAGES, EXPOSED_SLICES,
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::exposed;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// What its records are called.
    pub name: &'static str,
    /// Where it begins.
    pub start: u64,
    /// How many records it has.
    pub records: u64,
    /// Bytes of each.
    pub record_bytes: u64,
}

impl Array {
    /// Where its last record ends.
    pub const fn end(&self) -> u64 {
        self.start + self.records * self.record_bytes
    }
}

/// How many records an array has. None: this file does not know it.
fn records(start: u64) -> Option<u64> {
    let kernel = exposed::kernel();
    let count = |word: &core::sync::atomic::AtomicU64| word.load(Relaxed);
    Some(match start {
        EXPOSED_KERNEL => 1,
        EXPOSED_DEVICES => DEVICES as u64,
        EXPOSED_INTERFACES if count(&kernel.filters) == 0 => 0,
        EXPOSED_INTERFACES => INTERFACES as u64,
        EXPOSED_CPUS => count(&kernel.cpus),
        EXPOSED_SLICES => count(&kernel.cpus) * SLICES_PER_CPU as u64,
        EXPOSED_FILTERS => count(&kernel.filters),
        EXPOSED_BLOCKS => count(&kernel.frames),
        EXPOSED_ENVIRONMENTS => count(&kernel.environments),
        EXPOSED_PAGES => count(&kernel.pages),
        _ => return None,
    })
}

/// Every array of `abi::memory_map::EXPOSED_ARRAYS` that this machine has.
///
/// # Panics
/// Where the table lists one that [`records`] does not know.
pub fn exposed_arrays() -> Vec<Array> {
    let array = |(name, start, bytes): (&'static str, u64, usize)| {
        let records = records(start).unwrap_or_else(|| panic!("how many records has {name}?"));
        Array { name, start, records, record_bytes: bytes as u64 }
    };
    EXPOSED_ARRAYS.into_iter().map(array).filter(|array| array.records > 0).collect()
}
