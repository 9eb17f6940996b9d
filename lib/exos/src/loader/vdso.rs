//! The vDSO: a shared object that every program finds in its memory (vdso(7); its names and their version are those
//! of x86-64 Linux). It reads the clock without a crossing, and without the library.
//!
//! It comes with the ExOS image, laid out here as an ELF file of one page, so that there is one copy for all. It lies
//! behind the image's end (link/image.ld), and so counts as the program's. It touches what the program says, and
//! faults there are the program's faults. What it cannot tell it asks the library for, as any program does.
//!
//! Time is what `runtime::clock` says: ticks since the start, scaled by what the kernel exposes.

use abi::exposed::KernelInfo;
use abi::feature::RDTSCP;
use abi::memory_map::EXPOSED_KERNEL;
use core::arch::global_asm;
use core::mem::offset_of;
use core::ops::Range;
use linux_raw_sys::general as linux;

const FEATURES: u64 = EXPOSED_KERNEL + offset_of!(KernelInfo, features) as u64;
const TSC_START: u64 = EXPOSED_KERNEL + offset_of!(KernelInfo, tsc_start) as u64;
const MULTIPLIER: u64 = offset_of!(KernelInfo, tsc_multiplier) as u64 - offset_of!(KernelInfo, tsc_start) as u64;
const SHIFT: u64 = offset_of!(KernelInfo, tsc_shift) as u64 - offset_of!(KernelInfo, tsc_start) as u64;
const AT_BOOT: u64 = offset_of!(KernelInfo, wall_clock_at_boot) as u64 - offset_of!(KernelInfo, tsc_start) as u64;
const CLOCK_OFFSET: u64 = linux_abi::address_map::SHOWN + unix_core::server::protocol::CLOCK_OFFSET as u64 * 8;
const HAS_RDTSCP: u32 = RDTSCP.trailing_zeros();

// The ELF file. Its header, then what its dynamic section names; every place is a distance from its beginning.
global_asm!(
    ".pushsection .exos_vdso, \"ax\", @progbits",
    ".balign 4096",
    ".global exos_vdso",
    "exos_vdso:",
    ".byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0",
    ".quad 0",
    ".short 3, 62",
    ".long 1",
    ".quad 0, 64, 0",
    ".long 0",
    ".short 64, 56, 2, 64, 0, 0",
    // Program headers: the whole of it, to be read and executed; the dynamic section.
    ".long 1, 5",
    ".quad 0, 0, 0, exos_vdso_end - exos_vdso, exos_vdso_end - exos_vdso, 4096",
    ".long 2, 4",
    ".quad 2f - exos_vdso, 2f - exos_vdso, 2f - exos_vdso, 3f - 2f, 3f - 2f, 8",
    // Dynamic section: SONAME, HASH, STRTAB, SYMTAB, STRSZ, SYMENT, VERSYM, VERDEF, VERDEFNUM.
    "2:",
    ".quad 14, 20f - 10f",
    ".quad 4, 4f - exos_vdso",
    ".quad 5, 10f - exos_vdso",
    ".quad 6, 5f - exos_vdso",
    ".quad 10, 30f - 10f",
    ".quad 11, 24",
    ".quad 0x6ffffff0, 6f - exos_vdso",
    ".quad 0x6ffffffc, 7f - exos_vdso",
    ".quad 0x6ffffffd, 2",
    ".quad 0, 0",
    "3:",
    // One bucket with all symbols behind each other.
    "4:",
    ".long 1, 6",
    ".long 1",
    ".long 0, 2, 3, 4, 5, 0",
    ".balign 8",
    // Symbols: name, global function, in some section, place, size.
    "5:",
    ".zero 24",
    ".long 11f - 10f",
    ".byte 0x12, 0",
    ".short 1",
    ".quad exos_vdso_clock_gettime - exos_vdso, exos_vdso_gettimeofday - exos_vdso_clock_gettime",
    ".long 12f - 10f",
    ".byte 0x12, 0",
    ".short 1",
    ".quad exos_vdso_gettimeofday - exos_vdso, exos_vdso_time - exos_vdso_gettimeofday",
    ".long 13f - 10f",
    ".byte 0x12, 0",
    ".short 1",
    ".quad exos_vdso_time - exos_vdso, exos_vdso_clock_getres - exos_vdso_time",
    ".long 14f - 10f",
    ".byte 0x12, 0",
    ".short 1",
    ".quad exos_vdso_clock_getres - exos_vdso, exos_vdso_getcpu - exos_vdso_clock_getres",
    ".long 15f - 10f",
    ".byte 0x12, 0",
    ".short 1",
    ".quad exos_vdso_getcpu - exos_vdso, exos_vdso_end - exos_vdso_getcpu",
    // The version of each symbol.
    "6:",
    ".short 0, 2, 2, 2, 2, 2",
    ".balign 8",
    // The versions: that of the object itself, and LINUX_2.6, with their hashes.
    "7:",
    ".short 1, 1, 1, 1",
    ".long 0x0deebfa1, 20, 28",
    ".long 20f - 10f, 0",
    ".short 1, 0, 2, 1",
    ".long 0x03ae75f6, 20, 0",
    ".long 21f - 10f, 0",
    "10:",
    ".byte 0",
    "11: .asciz \"__vdso_clock_gettime\"",
    "12: .asciz \"__vdso_gettimeofday\"",
    "13: .asciz \"__vdso_time\"",
    "14: .asciz \"__vdso_clock_getres\"",
    "15: .asciz \"__vdso_getcpu\"",
    "20: .asciz \"linux-vdso.so.1\"",
    "21: .asciz \"LINUX_2.6\"",
    "30:",
    ".balign 16",
    // rax: nanoseconds since boot; r8: the exposed words. Changes rcx and rdx.
    "8:",
    "movabs r8, {tsc_start}",
    "lfence",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "sub rax, [r8]",
    "mul qword ptr [r8 + {multiplier}]",
    "mov rcx, [r8 + {shift}]",
    "shrd rax, rdx, cl",
    "ret",
    // rax: nanoseconds since 1970. Changes r8 as well.
    "9:",
    "call 8b",
    "add rax, [r8 + {at_boot}]",
    "movabs r8, {clock_offset}",
    "add rax, [r8]",
    "ret",
    // (clock, struct timespec *)
    "exos_vdso_clock_gettime:",
    "cmp edi, 11",
    "ja 90f",
    // REALTIME, REALTIME_COARSE, TAI; MONOTONIC, MONOTONIC_RAW, MONOTONIC_COARSE, BOOTTIME.
    "mov r9d, 0x821",
    "bt r9d, edi",
    "jc 81f",
    "mov r9d, 0xd2",
    "bt r9d, edi",
    "jnc 90f",
    "call 8b",
    "jmp 82f",
    "81:",
    "call 9b",
    "82:",
    "mov ecx, 1000000000",
    "xor edx, edx",
    "div rcx",
    "mov [rsi], rax",
    "mov [rsi + 8], rdx",
    "xor eax, eax",
    "ret",
    "90:",
    "mov eax, {clock_gettime}",
    "syscall",
    "ret",
    // (struct timeval *, struct timezone *)
    "exos_vdso_gettimeofday:",
    "test rdi, rdi",
    "jz 83f",
    "call 9b",
    "mov ecx, 1000000000",
    "xor edx, edx",
    "div rcx",
    "mov [rdi], rax",
    "mov rax, rdx",
    "mov ecx, 1000",
    "xor edx, edx",
    "div rcx",
    "mov [rdi + 8], rax",
    "83:",
    "test rsi, rsi",
    "jz 84f",
    "mov qword ptr [rsi], 0",
    "84:",
    "xor eax, eax",
    "ret",
    // (time_t *)
    "exos_vdso_time:",
    "call 9b",
    "mov ecx, 1000000000",
    "xor edx, edx",
    "div rcx",
    "test rdi, rdi",
    "jz 85f",
    "mov [rdi], rax",
    "85:",
    "ret",
    // (clock, struct timespec *)
    "exos_vdso_clock_getres:",
    "cmp edi, 11",
    "ja 90f",
    "mov r9d, 0x8f3",
    "bt r9d, edi",
    "jnc 90f",
    "test rsi, rsi",
    "jz 86f",
    "mov qword ptr [rsi], 0",
    "mov qword ptr [rsi + 8], 1",
    "86:",
    "xor eax, eax",
    "ret",
    "90:",
    "mov eax, {clock_getres}",
    "syscall",
    "ret",
    // (unsigned *cpu, unsigned *node)
    "exos_vdso_getcpu:",
    "movabs r8, {features}",
    "bt qword ptr [r8], {has_rdtscp}",
    "jnc 90f",
    "rdtscp",
    "test rdi, rdi",
    "jz 87f",
    "mov [rdi], ecx",
    "87:",
    "test rsi, rsi",
    "jz 88f",
    "mov dword ptr [rsi], 0",
    "88:",
    "xor eax, eax",
    "ret",
    "90:",
    "mov eax, {getcpu}",
    "syscall",
    "ret",
    ".global exos_vdso_end",
    "exos_vdso_end:",
    ".popsection",
    tsc_start = const TSC_START, multiplier = const MULTIPLIER, shift = const SHIFT, at_boot = const AT_BOOT,
    clock_offset = const CLOCK_OFFSET, features = const FEATURES, has_rdtscp = const HAS_RDTSCP, clock_gettime = const linux::__NR_clock_gettime,
    clock_getres = const linux::__NR_clock_getres, getcpu = const linux::__NR_getcpu,
);

unsafe extern "C" {
    static exos_vdso: u8;
    static exos_vdso_end: u8;
}

/// Where it lies.
pub fn range() -> Range<u64> {
    (&raw const exos_vdso) as u64..(&raw const exos_vdso_end) as u64
}
