//! What `/proc/cpuinfo` tells of each CPU: what the CPU says of itself (Intel's manual, volume 2A, CPUID).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::Ordering::Relaxed;
use runtime::exposed;

/// Names of the bits of leaf 1, EDX, from the lowest on; `-`: none.
const BASIC_EDX: &str = "fpu vme de pse tsc msr pae mce cx8 apic - sep mtrr pge mca cmov pat pse36 pn clflush - dts acpi mmx \
                         fxsr sse sse2 ss ht tm ia64 pbe";
/// Leaf 0x8000_0001, EDX; what leaf 1 tells as well is not named again.
const EXTENDED_EDX: &str = "- - - - - - - - - - - syscall - - - - - - - mp nx - mmxext - - fxsr_opt pdpe1gb rdtscp - lm 3dnowext \
                            3dnow";
/// Leaf 1, ECX.
const BASIC_ECX: &str = "pni pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cid sdbg fma cx16 xtpr pdcm - pcid dca sse4_1 \
                         sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave - avx f16c rdrand hypervisor";
/// Leaf 0x8000_0001, ECX.
const EXTENDED_ECX: &str = "lahf_lm cmp_legacy svm extapic cr8_legacy abm sse4a misalignsse 3dnowprefetch osvw ibs xop skinit wdt - \
                            lwp fma4 tce - nodeid_msr - tbm topoext perfctr_core perfctr_nb - bpext ptsc perfctr_llc mwaitx - -";
/// Leaf 7, EBX.
const STRUCTURED_EBX: &str = "fsgsbase tsc_adjust sgx bmi1 hle avx2 - smep bmi2 erms invpcid rtm cqm - mpx rdt_a avx512f avx512dq \
                              rdseed adx smap avx512ifma - clflushopt clwb intel_pt avx512pf avx512er avx512cd sha_ni avx512bw \
                              avx512vl";
/// Leaf 7, ECX.
const STRUCTURED_ECX: &str = "- avx512vbmi umip pku ospke waitpkg avx512_vbmi2 - gfni vaes vpclmulqdq avx512_vnni avx512_bitalg tme \
                              avx512_vpopcntdq - la57 - - - - - rdpid - bus_lock_detect cldemote - movdiri movdir64b enqcmd - -";

/// The paragraph about a CPU.
pub(crate) fn text(number: u64) -> String {
    let (basic, cpus) = (__cpuid(1), exposed::kernel().cpus.load(Relaxed));
    let [family, model, stepping] = signature(basic.eax);
    let megahertz = frequency() / 1_000_000;
    let sizes = __cpuid(0x8000_0008).eax;
    format!(
        "processor\t: {number}\nvendor_id\t: {}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: {}\n\
         stepping\t: {stepping}\ncpu MHz\t\t: {megahertz}.000\nphysical id\t: 0\nsiblings\t: {cpus}\ncore id\t\t: {number}\n\
         cpu cores\t: {cpus}\napicid\t\t: {number}\ninitial apicid\t: {number}\nfpu\t\t: yes\nfpu_exception\t: yes\n\
         cpuid level\t: {}\nwp\t\t: yes\nflags\t\t: {}\nbugs\t\t:\nbogomips\t: {}.00\nclflush size\t: {}\n\
         cache_alignment\t: {}\naddress sizes\t: {} bits physical, {} bits virtual\npower management:\n\n",
        vendor(),
        name(),
        __cpuid(0).eax,
        flags(),
        megahertz * 2,
        (basic.ebx >> 8 & 0xff) * 8,
        (basic.ebx >> 8 & 0xff) * 8,
        sizes & 0xff,
        sizes >> 8 & 0xff,
    )
}

/// Ticks of the clock in a second, as the kernel measured them.
fn frequency() -> u64 {
    let kernel = exposed::kernel();
    let (multiplier, shift) = (kernel.tsc_multiplier.load(Relaxed), kernel.tsc_shift.load(Relaxed));
    (1_000_000_000u128 << shift).checked_div(u128::from(multiplier)).unwrap_or(0) as u64
}

/// Family, model and stepping, with what newer ones add.
fn signature(eax: u32) -> [u32; 3] {
    let (family, model) = (eax >> 8 & 15, eax >> 4 & 15);
    let more = if family == 6 || family == 15 { eax >> 16 & 15 } else { 0 };
    let family = if family == 15 { family + (eax >> 20 & 0xff) } else { family };
    [family, more << 4 | model, eax & 15]
}

fn vendor() -> String {
    let leaf = __cpuid(0);
    text_of(&[leaf.ebx, leaf.edx, leaf.ecx])
}

fn name() -> String {
    if __cpuid(0x8000_0000).eax < 0x8000_0004 {
        return String::from("unknown");
    }
    let words: Vec<u32> =
        (0x8000_0002..=0x8000_0004u32).map(__cpuid).flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]).collect();
    text_of(&words)
}

fn text_of(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from(String::from_utf8_lossy(&bytes).trim())
}

fn flags() -> String {
    let (basic, extended) = (__cpuid(1), __cpuid(0x8000_0001));
    let structured = if __cpuid(0).eax < 7 { [0; 2] } else { [__cpuid_count(7, 0).ebx, __cpuid_count(7, 0).ecx] };
    let sets = [
        (basic.edx, BASIC_EDX),
        (extended.edx, EXTENDED_EDX),
        (basic.ecx, BASIC_ECX),
        (extended.ecx, EXTENDED_ECX),
        (structured[0], STRUCTURED_EBX),
        (structured[1], STRUCTURED_ECX),
    ];
    let names = sets.iter().flat_map(|(bits, names)| {
        names.split_ascii_whitespace().enumerate().filter(move |(bit, name)| bits >> bit & 1 != 0 && *name != "-")
    });
    names.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
}
