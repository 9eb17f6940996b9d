//! What the kernel knows of itself and of each CPU, mapped read-only for all (DESIGN.md §1, test 5).

use core::sync::atomic::AtomicU64;

/// The kernel, at [`crate::memory_map::EXPOSED_KERNEL`].
#[repr(C)]
#[derive(Debug)]
pub struct KernelInfo {
    /// [`crate::VERSION`] of the kernel.
    pub version: AtomicU64,
    /// Bits of [`crate::feature`].
    pub features: AtomicU64,
    /// CPUs that run.
    pub cpus: AtomicU64,
    /// Page numbers that have a [`crate::page::PageInfo`]: 0 up to this, exclusive.
    pub pages: AtomicU64,
    /// Slots of the environment table, a power of two.
    pub environments: AtomicU64,
    /// Length of a time slice in nanoseconds: [`crate::limits::QUANTUM`] until `machine_set`.
    pub quantum: AtomicU64,
    /// Time an environment has, after its slice ended, to save its state and yield, in nanoseconds:
    /// [`crate::limits::SAVE_WINDOW`] until `machine_set`.
    pub save_window: AtomicU64,
    /// [`crate::limits::CRITICAL_SECTION_GRACE`], nanoseconds.
    pub critical_section_grace: AtomicU64,
    /// Nanoseconds since boot = ((TSC - `tsc_start`) * `tsc_multiplier`) >> `tsc_shift`, in 128 bits.
    pub tsc_start: AtomicU64,
    /// See `tsc_start`.
    pub tsc_multiplier: AtomicU64,
    /// See `tsc_start`.
    pub tsc_shift: AtomicU64,
    /// Nanoseconds from 1970 to boot; 0 where the machine has no clock.
    pub wall_clock_at_boot: AtomicU64,
    /// TSC ticks from the kernel's first instruction to the first user instruction (instructions, by the counting
    /// clock).
    pub boot_ticks: AtomicU64,
    /// Bytes of the vector state as XSAVE (or FXSAVE) writes it.
    pub vector_state_bytes: AtomicU64,
    /// XCR0: the vector state components that are enabled.
    pub vector_state_mask: AtomicU64,
    /// Pages that are free.
    pub free_pages: AtomicU64,
    /// Pages charged to some environment, orphans not counted.
    pub owned_pages: AtomicU64,
    /// Orphan pages.
    pub orphan_pages: AtomicU64,
    /// Pages that cache blocks of stable storage and have no owner.
    pub cached_pages: AtomicU64,
    /// Pages that belong to the kernel since boot.
    pub kernel_pages: AtomicU64,
    /// First free page, a list through [`crate::page::PageInfo::neighbours`].
    pub first_free_page: AtomicU64,
    /// Pages reserved by budgets, in all.
    pub reserved_pages: AtomicU64,
    /// Count of binding events, see [`crate::page::PageInfo::last_use`].
    pub binding_events: AtomicU64,
    /// Frames that arrived on the host channel and were not yet received.
    pub channel_frames: AtomicU64,
    /// Bytes that the host channel can take for sending.
    pub channel_room: AtomicU64,
    /// Largest number of TSC ticks that a kernel entry took (instructions, by the counting clock).
    pub longest_entry: AtomicU64,
    /// Number of the system call, or 0x100 + vector, of that entry; 0x200 if it went on with what another one began.
    pub longest_entry_call: AtomicU64,
    /// Bytes of the boot archive at [`crate::boot::ARCHIVE`].
    pub archive_bytes: AtomicU64,
    /// How often an exposed count would have fallen below zero and became 0: each is a fault of the kernel.
    pub miscounts: AtomicU64,
    /// Entries of [`crate::packet_filter::FilterInfo`]`[]`; 0: the machine has no network.
    pub filters: AtomicU64,
    /// Pages of the code arena, which compiled code of others lies in.
    pub code_arena_pages: AtomicU64,
    /// Bytes of it in use.
    pub code_arena_used: AtomicU64,
    /// Excesses after which an environment is destroyed: [`crate::limits::EXCESS_LIMIT`] until `machine_set`.
    pub excess_limit: AtomicU64,
    /// Entries of [`crate::storage::BlockInfo`]`[]`; 0: the machine has no disk.
    pub frames: AtomicU64,
    /// Time between the emergency upcall and the first page that is taken after it, in nanoseconds:
    /// [`crate::limits::EMERGENCY_GRACE`] until `machine_set`.
    pub emergency_grace: AtomicU64,
    /// Pages that the kernel asks an environment for when none is free: [`crate::limits::SHORTAGE_PAGES`] until
    /// `machine_set`.
    pub shortage_pages: AtomicU64,
    /// Time that the environment has to give them, in nanoseconds: [`crate::limits::SHORTAGE_DEADLINE`] until
    /// `machine_set`.
    pub shortage_deadline: AtomicU64,
    /// Not used.
    pub unused: [AtomicU64; 27],
}

/// What a CPU does, in [`CpuInfo::state`].
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuState {
    /// Not started.
    Absent = 0,
    /// Runs an environment or the kernel.
    Running = 1,
    /// Found nothing to run; about to halt, or halted.
    Idle = 2,
}

/// One CPU, exposed. 128 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct CpuInfo {
    /// [`CpuState`].
    pub state: AtomicU64,
    /// Low 32 bits of the number of the environment that runs; 0: none.
    pub environment: AtomicU64,
    /// Position in the slice vector.
    pub position: AtomicU64,
    /// When the slice ends, in nanoseconds since boot.
    pub slice_end: AtomicU64,
    /// Changes from one environment to another, control transfers not counted.
    pub switches: AtomicU64,
    /// Time spent idle, in nanoseconds.
    pub idle_time: AtomicU64,
    /// Rounds of the vector begun.
    pub rounds: AtomicU64,
    /// Kicks that woke it.
    pub kicks: AtomicU64,
    /// Local APIC identifier.
    pub apic: AtomicU64,
    /// Unexpected interrupts: spurious ones, and those of vectors that have no owner.
    pub stray_interrupts: AtomicU64,
    /// Interrupts that other CPUs sent it: to look again, and to drop translations.
    pub requests: AtomicU64,
    /// Not used.
    pub unused: [AtomicU64; 5],
}

const _: () = assert!(size_of::<KernelInfo>() == 512);
const _: () = assert!(size_of::<CpuInfo>() == 128);
