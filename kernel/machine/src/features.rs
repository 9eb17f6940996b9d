//! What this CPU has, by CPUID only, and turning it on (SDM volume 1 chapter 13 and volume 3 chapter 2).
//!
//! The bootstrap CPU decides; every other CPU turns on the same. What is absent is absent by its bit of `abi::feature`.
//! PKRU is deliberately no component of XCR0, so that no XRSTOR can change it.

use crate::context::VECTOR_BYTES;
use abi::feature;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
use core::cell::UnsafeCell;

/// What was found, and what the control registers are set to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    /// Bits of `abi::feature`.
    pub bits: u64,
    /// XCR0, 0 without XSAVE.
    pub vector_state_mask: u64,
    /// Bytes of the vector state as XSAVE (or FXSAVE) writes it.
    pub vector_state_bytes: u64,
    /// The CPU has SYSENTER, whose entry must be closed.
    pub(crate) sysenter: bool,
    /// The local APIC has TSC-deadline mode.
    pub(crate) tsc_deadline: bool,
    /// The CPU has the instruction CRC32.
    pub(crate) crc32: bool,
    control: u64,
}

/// The bootstrap CPU's, for all.
struct Shared(UnsafeCell<Features>);

// SAFETY: written once (`share`) while only the bootstrap CPU runs, afterwards only read.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(Features {
    bits: 0,
    vector_state_mask: 0,
    vector_state_bytes: 0,
    sysenter: false,
    tsc_deadline: false,
    crc32: false,
    control: 0,
}));

/// What the CPUs of this machine have.
pub fn get() -> &'static Features {
    // SAFETY: see `Shared`.
    unsafe { &*SHARED.0.get() }
}

/// Makes these the features of the machine.
///
/// # Safety
/// Once, while only the bootstrap CPU runs and no code has called [`get`].
pub(crate) unsafe fn share(features: Features) {
    // SAFETY: nothing else reads or writes it, by the caller's promise.
    unsafe { *SHARED.0.get() = features };
}

const CR4_DEBUG_EXTENSIONS: u64 = 1 << 3;
const CR4_PHYSICAL_ADDRESS_EXTENSION: u64 = 1 << 5;
const CR4_MACHINE_CHECK: u64 = 1 << 6;
const CR4_GLOBAL_PAGES: u64 = 1 << 7;
const CR4_FXSAVE: u64 = 1 << 9;
const CR4_SIMD_EXCEPTIONS: u64 = 1 << 10;
const CR4_UMIP: u64 = 1 << 11;
const CR4_FSGSBASE: u64 = 1 << 16;
const CR4_XSAVE: u64 = 1 << 18;
const CR4_SMEP: u64 = 1 << 20;
const CR4_SMAP: u64 = 1 << 21;

/// Debug control: nothing enabled; bit 10 reads as one.
const NO_BREAKPOINTS: u64 = 1 << 10;
/// XCR0 components: x87 and SSE.
const LEGACY_STATE: u64 = 0b11;
/// XCR0 component: AVX.
const AVX_STATE: u64 = 0b100;
/// XCR0 components: AVX-512 masks and registers.
const AVX512_STATE: u64 = 0b1110_0000;
/// Bytes that FXSAVE writes.
const FXSAVE_BYTES: u64 = 512;

/// What a CPU says of itself: CPUID leaves, each empty where the CPU has no such leaf, and IA32_ARCH_CAPABILITIES, 0
/// where there is none.
struct Leaves {
    vendor: CpuidResult,
    basic: CpuidResult,
    structured: CpuidResult,
    extended: CpuidResult,
    power: CpuidResult,
    state: CpuidResult,
    capabilities: u64,
}

const NOTHING: CpuidResult = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };

/// One CPUID leaf, all zero where the CPU has no such leaf.
pub(crate) fn leaf(number: u32, subleaf: u32) -> CpuidResult {
    let highest = __cpuid(number & 0xffff_0000).eax;
    let exists = highest & 0xffff_0000 == number & 0xffff_0000 && number <= highest;
    if exists { __cpuid_count(number, subleaf) } else { NOTHING }
}

impl Leaves {
    fn read() -> Self {
        const ARCHITECTURAL_CAPABILITIES: u32 = 0x10a;
        let structured = leaf(7, 0);
        let has_capabilities = bit(structured.edx, 29);
        Self {
            vendor: leaf(0, 0),
            basic: leaf(1, 0),
            structured,
            // SAFETY: the register exists where CPUID says so.
            capabilities: if has_capabilities { unsafe { read_msr(ARCHITECTURAL_CAPABILITIES) } } else { 0 },
            extended: leaf(0x8000_0001, 0),
            power: leaf(0x8000_0007, 0),
            state: leaf(0xd, 0),
        }
    }
}

const fn bit(register: u32, number: u32) -> bool {
    register & (1 << number) != 0
}

/// Looks at this CPU.
pub(crate) fn detect() -> Features {
    decide(&Leaves::read())
}

/// One row a feature: whether the CPU has it, its bit of `abi::feature`, its bits of CR4.
fn decide(leaves: &Leaves) -> Features {
    let Leaves { basic, structured, extended, power, .. } = leaves;
    let mask = vector_state_mask(leaves);
    let rows = [
        (bit(structured.ebx, 7), feature::SMEP, CR4_SMEP),
        (bit(structured.ebx, 20), feature::SMAP, CR4_SMAP),
        (bit(structured.ecx, 2), feature::UMIP, CR4_UMIP),
        // Switched on for those who ask: `cpu_control::switch_protection_keys`.
        (bit(structured.ecx, 3), feature::PKU, 0),
        (bit(structured.ebx, 0), feature::FSGSBASE, CR4_FSGSBASE),
        (mask != 0, feature::XSAVE, CR4_XSAVE),
        (mask & AVX_STATE != 0, feature::AVX, 0),
        (mask & AVX512_STATE != 0, feature::AVX512, 0),
        (bit(extended.edx, 27), feature::RDTSCP, 0),
        (bit(power.edx, 8), feature::INVARIANT_TSC, 0),
        (bit(basic.edx, 13), feature::PGE, CR4_GLOBAL_PAGES),
        (bit(extended.edx, 26), feature::PAGE_1G, 0),
        (bit(basic.ecx, 21), feature::X2APIC, 0),
        (bit(basic.ecx, 30), feature::RDRAND, 0),
        (bit(structured.ebx, 9), feature::ERMS, 0),
        (bit(extended.edx, 20), feature::NX, 0),
        (needs_isolation(leaves), feature::MELTDOWN, 0),
        (bit(basic.edx, 7), 0, CR4_MACHINE_CHECK),
        (bit(basic.edx, 2), 0, CR4_DEBUG_EXTENSIONS),
        (true, 0, CR4_PHYSICAL_ADDRESS_EXTENSION | CR4_FXSAVE | CR4_SIMD_EXCEPTIONS),
    ];
    let mut features = Features {
        vector_state_mask: mask,
        vector_state_bytes: vector_state_bytes(mask),
        sysenter: bit(basic.edx, 11),
        tsc_deadline: bit(basic.ecx, 24),
        crc32: bit(basic.ecx, 20),
        ..Features::default()
    };
    for (_, bits, control) in rows.into_iter().filter(|row| row.0) {
        features.bits |= bits;
        features.control |= control;
    }
    features
}

/// The vector state to enable: what the CPU offers of x87, SSE, AVX and AVX-512, as far as a context has room for it.
/// 0 without XSAVE.
fn vector_state_mask(leaves: &Leaves) -> u64 {
    if !bit(leaves.basic.ecx, 26) {
        return 0;
    }
    let offered = u64::from(leaves.state.eax);
    let mut mask = LEGACY_STATE;
    if bit(leaves.basic.ecx, 28) && offered & AVX_STATE != 0 {
        mask |= AVX_STATE;
        let has_avx512 = bit(leaves.structured.ebx, 16) && offered & AVX512_STATE == AVX512_STATE;
        if has_avx512 && vector_state_bytes(mask | AVX512_STATE) <= VECTOR_BYTES as u64 {
            mask |= AVX512_STATE;
        }
    }
    mask
}

/// Bytes of the standard form of these components: the end of the last one.
fn vector_state_bytes(mask: u64) -> u64 {
    const HEADER_END: u64 = 576;
    if mask == 0 {
        return FXSAVE_BYTES;
    }
    let end = |component: u32| {
        let place = leaf(0xd, component);
        u64::from(place.ebx) + u64::from(place.eax)
    };
    (2..64).filter(|component| mask >> component & 1 != 0).map(end).fold(HEADER_END, u64::max)
}

/// Whether the CPU may read kernel memory speculatively from user mode: Intel's, unless it says it does not
/// (IA32_ARCH_CAPABILITIES bit 0, RDCL_NO). Emulators and AMD do not.
const fn needs_isolation(leaves: &Leaves) -> bool {
    const INTEL: (u32, u32, u32) = (0x756e_6547, 0x4965_6e69, 0x6c65_746e);
    let CpuidResult { ebx, ecx, edx, .. } = leaves.vendor;
    matches!((ebx, edx, ecx), INTEL) && leaves.capabilities & 1 == 0
}

impl Features {
    /// Whether all of these bits of `abi::feature` are there.
    pub fn has(&self, bits: u64) -> bool {
        self.bits & bits == bits
    }

    /// Turns everything on, on this CPU.
    ///
    /// # Safety
    /// At boot, with the features of this very kind of CPU.
    pub(crate) unsafe fn enable(&self) {
        // SAFETY: every bit was announced by CPUID; user memory is not in use yet, so SMEP and SMAP stop nothing.
        unsafe { asm!("mov cr4, {}", in(reg) self.control, options(nostack, preserves_flags)) };
        // SAFETY: every 64-bit CPU has x87 and debug registers; their state belongs to no environment yet, and no
        // breakpoint is wanted.
        unsafe { asm!("fninit", "mov dr7, {}", in(reg) NO_BREAKPOINTS, options(nostack, preserves_flags)) };
        if self.has(feature::XSAVE) {
            let mask = self.vector_state_mask;
            // SAFETY: CR4.OSXSAVE has just been set and the mask holds only what CPUID offered, SSE with AVX.
            unsafe {
                asm!("xsetbv", in("ecx") 0, in("eax") mask as u32, in("edx") (mask >> 32) as u32, options(nostack, preserves_flags))
            };
        }
    }

    /// Whether this CPU has all that these promise.
    pub(crate) fn hold_here(&self) -> bool {
        let here = detect();
        let all = here.has(self.bits & !feature::MELTDOWN) && here.control & self.control == self.control;
        all && (here.crc32 || !self.crc32)
    }
}

/// Reads a model-specific register.
///
/// # Safety
/// The register must exist.
pub(crate) unsafe fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller vouches for the register.
    unsafe { asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
/// The register must exist and the value must keep the kernel running.
pub(crate) unsafe fn write_msr(register: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: the caller vouches for register and value.
    unsafe { asm!("wrmsr", in("ecx") register, in("eax") low, in("edx") high, options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: CpuidResult = CpuidResult { eax: !0, ebx: !0, ecx: !0, edx: !0 };
    const EMPTY: Leaves = Leaves {
        vendor: NOTHING,
        basic: NOTHING,
        structured: NOTHING,
        extended: NOTHING,
        power: NOTHING,
        state: NOTHING,
        capabilities: 0,
    };

    fn vendor(name: [u8; 12]) -> CpuidResult {
        let word = |from: usize| u32::from_le_bytes(core::array::from_fn(|index| name[from + index]));
        CpuidResult { eax: 0, ebx: word(0), edx: word(4), ecx: word(8) }
    }

    #[test]
    fn only_intels_cpus_need_isolation_unless_they_say_that_they_do_not() {
        let needs = |name: &[u8; 12], capabilities| {
            decide(&Leaves { vendor: vendor(*name), capabilities, ..EMPTY }).has(feature::MELTDOWN)
        };
        assert!(needs(b"GenuineIntel", 0) && needs(b"GenuineIntel", 0b10));
        assert!(!needs(b"GenuineIntel", 1) && !needs(b"AuthenticAMD", 0) && !needs(b"TCGTCGTCGTCG", 0));
    }

    #[test]
    fn fault_93_a_cpu_without_anything_gets_no_feature_and_no_unknown_control_bit() {
        let features = decide(&EMPTY);
        assert_eq!(features.bits, 0);
        assert_eq!(features.control, CR4_PHYSICAL_ADDRESS_EXTENSION | CR4_FXSAVE | CR4_SIMD_EXCEPTIONS);
        assert_eq!((features.vector_state_mask, features.vector_state_bytes), (0, FXSAVE_BYTES));
    }

    #[test]
    fn avx_needs_xsave_and_pkru_is_never_part_of_the_vector_state() {
        let without = Leaves { structured: ALL, extended: ALL, power: ALL, state: ALL, ..EMPTY };
        assert!(!decide(&without).has(feature::AVX));
        let with = Leaves { basic: ALL, ..without };
        let features = decide(&with);
        assert!(features.has(feature::AVX | feature::XSAVE | feature::SMAP | feature::SMEP | feature::PKU));
        assert_eq!(features.vector_state_mask & (1 << 9), 0);
        assert!(features.vector_state_bytes <= VECTOR_BYTES as u64);
    }
}
