//! Entries of page tables, as a caller of `page_map` writes them: the hardware's own format (SDM volume 3, 4.5).

/// Bit: the entry is present. An entry without it must be 0 but for its software bits.
pub const PRESENT: u64 = 1 << 0;
/// Bit: may be written.
pub const WRITE: u64 = 1 << 1;
/// Bit: user mode. The kernel sets it in every entry.
pub const USER: u64 = 1 << 2;
/// Bit: write-through.
pub const WRITE_THROUGH: u64 = 1 << 3;
/// Bit: not cached.
pub const CACHE_DISABLE: u64 = 1 << 4;
/// Bit: set by the CPU when the page is used.
pub const ACCESSED: u64 = 1 << 5;
/// Bit: set by the CPU when the page is written.
pub const DIRTY: u64 = 1 << 6;
/// Bit: at level 2, the entry maps 2 MiB.
pub const LARGE: u64 = 1 << 7;
/// Bits 9 to 11 and 52 to 58: free for the library.
pub const SOFTWARE: u64 = 0x07f0_0000_0000_0e00;
/// The page number, shifted by 12.
pub const PAGE: u64 = 0x000f_ffff_ffff_f000;
/// Protection key, bits 59 to 62.
pub const PROTECTION_KEY: u64 = 0x7800_0000_0000_0000;
/// Bit: cannot be executed.
pub const NO_EXECUTE: u64 = 1 << 63;
/// All that a caller may set; anything else is refused.
pub const ALLOWED: u64 = PRESENT
    | WRITE
    | USER
    | WRITE_THROUGH
    | CACHE_DISABLE
    | ACCESSED
    | DIRTY
    | LARGE
    | SOFTWARE
    | PAGE
    | PROTECTION_KEY
    | NO_EXECUTE;

/// One row of `page_map`. 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MapRow {
    /// The virtual address (a multiple of 4096, or of 2 MiB with [`LARGE`]) and, in the low 12 bits, the index of the
    /// key that gives access to the page. A row that changes an entry for the same page without widening it needs no
    /// key.
    pub address: u64,
    /// The new entry; 0 unmaps.
    pub entry: u64,
}

const _: () = assert!(size_of::<MapRow>() == 16);
