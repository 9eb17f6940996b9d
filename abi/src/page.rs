//! Physical pages as the kernel exposes them: one [`PageInfo`] each, readable by all.

use core::sync::atomic::AtomicU64;

/// What a page is.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// No memory at this number.
    Absent = 0,
    /// Not allocated.
    Free = 1,
    /// Belongs to the kernel since boot.
    Kernel = 2,
    /// Memory of an environment; the only kind that can be mapped writable.
    Ordinary = 3,
    /// A page table; its level (1 to 4) stands next to the kind. Level 4 is a root.
    PageTable = 4,
    /// An access list.
    AccessList = 5,
    /// The kernel's record of an environment: forced-out registers, vector state.
    EnvironmentControl = 6,
    /// The keys of an environment.
    KeyRing = 7,
    /// The public page of an environment area.
    EnvironmentPublic = 8,
    /// A private page of an environment area.
    EnvironmentPrivate = 9,
    /// A page of software regions.
    Region = 10,
    /// The boot archive: readable by the first environment.
    Archive = 11,
    /// The kernel's record of a packet ring.
    PacketRing = 13,
}

impl PageKind {
    /// The highest number of a kind, plus one.
    pub const COUNT: u8 = 14;

    /// The kind with this number; [`PageKind::Absent`] for a number without one.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Free,
            2 => Self::Kernel,
            3 => Self::Ordinary,
            4 => Self::PageTable,
            5 => Self::AccessList,
            6 => Self::EnvironmentControl,
            7 => Self::KeyRing,
            8 => Self::EnvironmentPublic,
            9 => Self::EnvironmentPrivate,
            10 => Self::Region,
            11 => Self::Archive,
            13 => Self::PacketRing,
            _ => Self::Absent,
        }
    }
}

/// Bit of the flags: filled with zeros, and nothing has mapped it since.
pub const ZEROED: u8 = 1 << 0;
/// Bit of the flags: given up while something used it; freed when its last use ends.
pub const ORPHAN: u8 = 1 << 1;
/// Bit of the flags: written through some mapping that has since been removed or narrowed.
pub const DIRTY: u8 = 1 << 2;
/// Bit of the flags: an environment has slept over a word of the page since it was given out. When it is given up, idle
/// CPUs look.
pub const WATCHED: u8 = 1 << 3;

/// Bit of the flags, for a page table: a private page of an environment area was mapped in it, or in a table under
/// it. It gets no second link.
pub const PRIVATE: u8 = 1 << 4;

/// Bit of [`PageInfo::state`] from which on, for a page table, stand the eighths of it that may hold entries, one bit
/// each.
pub const EIGHTHS_SHIFT: u32 = 24;

/// "No page" in the 32-bit fields of a [`PageInfo`].
pub const NO_PAGE: u32 = u32::MAX;

/// One physical page, exposed. 64 bytes; each word is written whole.
#[repr(C)]
#[derive(Debug)]
pub struct PageInfo {
    /// Kind (bits 0..8), flags (8..16), level of a page table (16..24) and its eighths that may hold entries (24..32).
    /// Then the generation (32..64), which changes whenever the page's contents are gone or not visible any more.
    pub state: AtomicU64,
    /// Number of the environment that is charged for it; 0: none.
    pub owner: AtomicU64,
    /// Page of its access list (0..32); entries of page tables that map it (32..64).
    pub access: AtomicU64,
    /// Device pins (16..32), which force does not end. For a page table the links to it, for an access list the pages
    /// that name it (32..64).
    pub holds: AtomicU64,
    /// Next (0..32) and previous (32..64) page of the same owner, or next free page.
    pub neighbours: AtomicU64,
    /// The kernel's count of binding events when this page was last bound or unbound: smaller is longer ago.
    pub last_use: AtomicU64,
    /// The block of stable storage that the page caches, plus one; 0: none. For an ordinary page of a packet ring the
    /// page of the ring, plus one. For a page table or an access list: grows whenever an entry of it is set, from 0 on
    /// in each generation. What the CPU notes in an entry does not count.
    pub block: AtomicU64,
    /// For a page table with one link: the page of the table above (0..32) and the index in it (32..48).
    pub parent: AtomicU64,
}

const _: () = assert!(size_of::<PageInfo>() == 64);
