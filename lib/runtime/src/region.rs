//! Software regions: bytes behind a key of their own, copied by the kernel in place of being mapped.

use crate::syscall::region_copy;
use abi::{Failure, KeyIndex, PageNumber, UserAddress};

/// Where bytes lie in a page of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The page.
    pub page: PageNumber,
    /// The region in it.
    pub region: u64,
    /// The first byte in the region.
    pub offset: u64,
}

/// Copies bytes out of a region.
///
/// # Errors
/// The kernel's refusals of `region_copy`.
pub fn read(key: KeyIndex, place: Place, bytes: &mut [u8]) -> Result<(), Failure> {
    let (at, count) = (UserAddress(bytes.as_mut_ptr() as u64), bytes.len() as u64);
    // SAFETY: the kernel writes as many bytes as the slice has.
    unsafe { region_copy(key, place.page, place.word(), at, count, 0) }
}

/// Copies bytes into a region, all or none.
///
/// # Errors
/// The kernel's refusals of `region_copy`.
pub fn write(key: KeyIndex, place: Place, bytes: &[u8]) -> Result<(), Failure> {
    let (at, count) = (UserAddress(bytes.as_ptr() as u64), bytes.len() as u64);
    // SAFETY: the kernel reads as many bytes as the slice has.
    unsafe { region_copy(key, place.page, place.word(), at, count, 1) }
}

impl Place {
    const fn word(self) -> u64 {
        self.region << 32 | self.offset
    }
}
