//! Time slices: the CPU as a vector of positions, run round robin (exokernel-sosp95 §5.1.1).

use core::sync::atomic::AtomicU64;

/// "Any position" in an allocation.
pub const ANY_POSITION: u64 = u64::MAX;

/// One position of one CPU's vector, exposed. 16 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct SliceInfo {
    /// Number of the environment that the slice was allocated to; 0: free.
    pub owner: AtomicU64,
    /// Number of the environment that runs in it: the owner, or who got it by synchronous transfer. While the slice
    /// runs, transfers may have moved it on: then it is told when the CPU changes hands otherwise.
    pub runner: AtomicU64,
}

const _: () = assert!(size_of::<SliceInfo>() == 16);
