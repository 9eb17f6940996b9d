//! Upcalls: how the kernel enters an environment at an address of its choice (exokernel-sosp95 §5.3).
//!
//! The kernel pushes an [`UpcallFrame`] on the upcall stack, sets RSP to it, PKRU to the declared value and RIP to the
//! declared entry, and changes no other register. Skipping the first four words leaves RSP at a frame for `iretq`,
//! which resumes what was interrupted and frees the frame, in user mode.
//!
//! Where the frame goes: below the interrupted RSP if that lies in the upcall stack, else at the top of the stack;
//! aligned down to [`FRAME_ALIGNMENT`]. Where protection keys are on and the interrupted PKRU is not the one of
//! upcalls, the frame goes to the top, for every RSP. So no frame may be in use while such code runs: a handler copies
//! the frame to another stack before it restores another PKRU.

/// Each frame begins at a multiple of this, so that none crosses the end of a page.
pub const FRAME_ALIGNMENT: u64 = 128;

/// What the kernel pushes. Its address is a multiple of [`FRAME_ALIGNMENT`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UpcallFrame {
    /// [`Kind`]: 0 to 31 is the vector of a hardware exception.
    pub kind: u64,
    /// Error code of the exception, 0 where there is none. For a revocation the resource.
    pub error: u64,
    /// CR2 for a page fault; the event bits for an event; how many are asked for in a revocation.
    pub detail: u64,
    /// PKRU of the interrupted code (0 without protection keys).
    pub pkru: u64,
    /// Where it was interrupted: the five words of `iretq`.
    pub rip: u64,
    /// Code segment, always [`USER_CODE`].
    pub cs: u64,
    /// Flags.
    pub rflags: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Stack segment, always [`USER_DATA`].
    pub ss: u64,
}

/// Selector of the 64-bit user code segment.
pub const USER_CODE: u64 = 0x23;
/// Selector of the user data segment.
pub const USER_DATA: u64 = 0x1b;

/// Why an upcall came; the first 32 numbers are the vectors of the hardware exceptions (SDM volume 3, 6.3.1).
pub mod kind {
    /// #DE
    pub const DIVIDE_ERROR: u64 = 0;
    /// #DB
    pub const DEBUG: u64 = 1;
    /// #BP
    pub const BREAKPOINT: u64 = 3;
    /// #OF
    pub const OVERFLOW: u64 = 4;
    /// #UD
    pub const INVALID_OPCODE: u64 = 6;
    /// #NM: the vector unit is off, see `context_set`.
    pub const DEVICE_NOT_AVAILABLE: u64 = 7;
    /// #GP
    pub const GENERAL_PROTECTION: u64 = 13;
    /// #PF
    pub const PAGE_FAULT: u64 = 14;
    /// #MF
    pub const FLOATING_POINT: u64 = 16;
    /// #AC
    pub const ALIGNMENT_CHECK: u64 = 17;
    /// #XM
    pub const SIMD_FLOATING_POINT: u64 = 19;
    /// A time slice begins. Deferred by a critical section.
    pub const SLICE_START: u64 = 32;
    /// The time slice has ended: save what lives and yield within the save window. Deferred by a critical section.
    pub const SLICE_END: u64 = 33;
    /// Event bits were raised, see the detail. Deferred by a critical section.
    pub const EVENT: u64 = 34;
    /// Give back so many of a resource. Deferred by a critical section.
    pub const REVOCATION: u64 = 35;
    /// Something was taken: see the repossession vector. Deferred by a critical section.
    pub const REPOSSESSION: u64 = 36;
    /// Even vital pages are about to be taken. Deferred by a critical section.
    pub const EMERGENCY: u64 = 37;
    /// A `syscall` from outside the gate; RIP is behind it, registers are as SYSCALL left them. Never deferred.
    pub const REFLECTION: u64 = 38;
    /// How many kinds there are.
    pub const COUNT: u64 = 39;
}

const _: () = assert!(size_of::<UpcallFrame>() <= FRAME_ALIGNMENT as usize);
