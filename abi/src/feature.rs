//! Feature bits: what this CPU and machine have. What is absent is absent by its bit, never guessed.

/// Bit of [`crate::exposed::KernelInfo::features`]: SMEP: the kernel cannot execute user pages.
pub const SMEP: u64 = 1 << 0;
/// SMAP: the kernel cannot touch user pages by accident.
pub const SMAP: u64 = 1 << 1;
/// UMIP: user code cannot read descriptor table registers.
pub const UMIP: u64 = 1 << 2;
/// Protection keys for user pages (PKRU).
pub const PKU: u64 = 1 << 3;
/// RDFSBASE and its kin in user mode; without it `context_set` serves.
pub const FSGSBASE: u64 = 1 << 4;
/// XSAVE and XRSTOR; without it FXSAVE serves.
pub const XSAVE: u64 = 1 << 5;
/// AVX state is enabled in XCR0.
pub const AVX: u64 = 1 << 6;
/// AVX-512 state is enabled in XCR0.
pub const AVX512: u64 = 1 << 7;
/// RDTSCP.
pub const RDTSCP: u64 = 1 << 8;
/// The time stamp counter runs at one rate, whatever the CPU's sleep states.
pub const INVARIANT_TSC: u64 = 1 << 9;
/// Global pages.
pub const PGE: u64 = 1 << 10;
/// 1 GiB mappings (used by the kernel only).
pub const PAGE_1G: u64 = 1 << 11;
/// x2APIC mode is in use.
pub const X2APIC: u64 = 1 << 12;
/// RDRAND.
pub const RDRAND: u64 = 1 << 13;
/// Fast string operations.
pub const ERMS: u64 = 1 << 14;
/// No-execute pages.
pub const NX: u64 = 1 << 15;
/// The host channel is there.
pub const HOST_CHANNEL: u64 = 1 << 16;
/// There is a source of entropy.
pub const ENTROPY: u64 = 1 << 17;
/// The CPU is of a kind that needs page-table isolation against Meltdown, which this kernel does not have.
pub const MELTDOWN: u64 = 1 << 18;

/// Name of each bit, from bit 0 on.
pub const NAMES: [&str; 19] = [
    "smep",
    "smap",
    "umip",
    "pku",
    "fsgsbase",
    "xsave",
    "avx",
    "avx512",
    "rdtscp",
    "invariant-tsc",
    "pge",
    "page-1g",
    "x2apic",
    "rdrand",
    "erms",
    "nx",
    "host-channel",
    "entropy",
    "meltdown",
];
