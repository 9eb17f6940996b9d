//! The address space: what lies where, for everyone.
//!
//! ```text
//! 0xffff_ffff_8000_0000  kernel image                                   kernel only
//! 0xffff_c000_0000_0000  exposed structures, mapped read-only           readable by all
//!     +0x0000_0000           KernelInfo, one page
//!     +0x0008_0000           DeviceInfo[]
//!     +0x000c_0000           InterfaceInfo[], where there is a network
//!     +0x0010_0000           CpuInfo[]
//!     +0x0020_0000           SliceInfo[cpu][position]
//!     +0x3000_0000           FilterInfo[], where there is a network
//!     +0x3800_0000           BlockInfo[], where there is a disk
//!     +0x4000_0000           EnvironmentInfo[]
//!     +0x8000_0000           PageInfo[]
//! 0xffff_8000_0000_0000  direct map of all memory, not executable       kernel only
//! ---------------------  not canonical
//! 0x0000_7fff_ffff_f000  end of what a user may map
//! 0x0000_7e80_0000_0000  image and state of a library OS, one top-level slot (by agreement among libraries)
//! 0x0000_0000_0000_0000  programs, page 0 included
//! ```

/// End of the user half; its last page stays unmapped, so that no `syscall` can return to a non-canonical address.
pub const USER_END: u64 = 0x0000_7fff_ffff_f000;
/// The top-level slot that library operating systems agree to keep for themselves: its first address.
pub const LIBRARY_BASE: u64 = 0x0000_7e80_0000_0000;
/// First address after the slot of the library operating system.
pub const LIBRARY_END: u64 = LIBRARY_BASE + TOP_LEVEL_SLOT;
/// Bytes that one entry of a level-4 page table covers.
pub const TOP_LEVEL_SLOT: u64 = 1 << 39;
/// Where the direct map of physical memory begins.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Where the structures begin that the kernel exposes.
pub const EXPOSED: u64 = 0xffff_c000_0000_0000;
/// [`crate::exposed::KernelInfo`].
pub const EXPOSED_KERNEL: u64 = EXPOSED;
/// [`crate::device::DeviceInfo`], [`crate::limits::DEVICES`] of them.
pub const EXPOSED_DEVICES: u64 = EXPOSED + 0x0008_0000;
/// [`crate::interface::InterfaceInfo`], [`crate::limits::INTERFACES`] of them, where there is a network.
pub const EXPOSED_INTERFACES: u64 = EXPOSED + 0x000c_0000;
/// [`crate::packet_filter::FilterInfo`], [`crate::exposed::KernelInfo::filters`] of them.
pub const EXPOSED_FILTERS: u64 = EXPOSED + 0x3000_0000;
/// [`crate::storage::BlockInfo`], [`crate::exposed::KernelInfo::frames`] of them.
pub const EXPOSED_BLOCKS: u64 = EXPOSED + 0x3800_0000;
/// [`crate::exposed::CpuInfo`], one a CPU.
pub const EXPOSED_CPUS: u64 = EXPOSED + 0x0010_0000;
/// [`crate::time_slice::SliceInfo`], `SLICES_PER_CPU` a CPU.
pub const EXPOSED_SLICES: u64 = EXPOSED + 0x0020_0000;
/// [`crate::environment::EnvironmentInfo`], one a slot.
pub const EXPOSED_ENVIRONMENTS: u64 = EXPOSED + 0x4000_0000;
/// [`crate::page::PageInfo`], one a physical page.
pub const EXPOSED_PAGES: u64 = EXPOSED + 0x8000_0000;
/// Every array that the kernel exposes: its name, where it begins, the bytes of a record. The kernel maps no other for
/// all, and every word of each can be watched.
pub const EXPOSED_ARRAYS: [(&str, u64, usize); 9] = [
    ("KernelInfo", EXPOSED_KERNEL, size_of::<crate::exposed::KernelInfo>()),
    ("DeviceInfo", EXPOSED_DEVICES, size_of::<crate::device::DeviceInfo>()),
    ("InterfaceInfo", EXPOSED_INTERFACES, size_of::<crate::interface::InterfaceInfo>()),
    ("CpuInfo", EXPOSED_CPUS, size_of::<crate::exposed::CpuInfo>()),
    ("SliceInfo", EXPOSED_SLICES, size_of::<crate::time_slice::SliceInfo>()),
    ("FilterInfo", EXPOSED_FILTERS, size_of::<crate::packet_filter::FilterInfo>()),
    ("BlockInfo", EXPOSED_BLOCKS, size_of::<crate::storage::BlockInfo>()),
    ("EnvironmentInfo", EXPOSED_ENVIRONMENTS, size_of::<crate::environment::EnvironmentInfo>()),
    ("PageInfo", EXPOSED_PAGES, size_of::<crate::page::PageInfo>()),
];

/// Where the kernel image is linked.
pub const KERNEL_IMAGE: u64 = 0xffff_ffff_8000_0000;

/// Whether `bytes` bytes from `address` on lie wholly in the part that a user may map.
pub const fn in_user_half(address: u64, bytes: u64) -> bool {
    address <= USER_END && bytes <= USER_END - address
}

const _: () = assert!(LIBRARY_BASE.is_multiple_of(TOP_LEVEL_SLOT) && LIBRARY_END <= USER_END);
