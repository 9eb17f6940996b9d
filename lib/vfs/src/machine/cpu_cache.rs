//! Caches of a CPU, as CPUID describes them (Intel's manual, volume 2A, leaf 4; AMD's, leaves 0x8000_001D,
//! 0x8000_0005 and 0x8000_0006). Pure but for the instruction.

use alloc::vec::Vec;
use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

/// More caches than any CPU has.
const MOST: u32 = 16;

/// One cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCache {
    /// Level, from 1 on.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: &'static str,
    /// Bytes of a line.
    pub line: u32,
    /// Lines that share a tag.
    pub partitions: u32,
    /// Lines of a set.
    pub ways: u32,
    /// Sets.
    pub sets: u32,
    /// CPUs that share the cache, at most: a power of two.
    pub sharers: u64,
}

impl CpuCache {
    /// What a subleaf describes; `None`: no cache.
    fn decode(leaf: CpuidResult) -> Option<Self> {
        let kind = match leaf.eax & 0x1f {
            1 => "Data",
            2 => "Instruction",
            3 => "Unified",
            _ => return None,
        };
        Some(Self {
            level: leaf.eax >> 5 & 7,
            kind,
            line: (leaf.ebx & 0xfff) + 1,
            partitions: (leaf.ebx >> 12 & 0x3ff) + 1,
            ways: (leaf.ebx >> 22) + 1,
            sets: leaf.ecx.wrapping_add(1),
            sharers: (u64::from(leaf.eax >> 14 & 0xfff) + 1).next_power_of_two(),
        })
    }

    /// Size in KiB.
    pub const fn kilobytes(&self) -> u64 {
        self.line as u64 * self.partitions as u64 * self.ways as u64 * self.sets as u64 / 1024
    }

    /// The first CPU that shares the cache with this one, and how many of so many CPUs do.
    pub fn sharing(&self, cpu: u64, cpus: u64) -> (u64, u64) {
        let first = cpu & !(self.sharers - 1);
        (first, self.sharers.min(cpus - first))
    }
}

/// What an older AMD describes by leaves 0x8000_0005 and 0x8000_0006: caches of one CPU each, but for the third level.
fn legacy_caches([first, second]: [CpuidResult; 2], cpus: u64) -> Vec<CpuCache> {
    /// Ways by the code of four bits that both upper levels have; 0: not there, or as many as lines.
    const WAYS: [u32; 16] = [0, 1, 2, 0, 4, 0, 8, 0, 16, 0, 32, 48, 64, 96, 128, 0];
    let cache = |level, kind, word: u32, ways: u32, bytes: u32, sharers: u64| {
        let line = word & 0xff;
        let sets = bytes.checked_div(line * ways).filter(|sets| *sets > 0)?;
        Some(CpuCache { level, kind, line, partitions: 1, ways, sets, sharers: sharers.next_power_of_two() })
    };
    let upper = |word: u32| WAYS[(word >> 12 & 15) as usize];
    let of_first = |kind, word: u32| cache(1, kind, word, word >> 16 & 0xff, (word >> 24) << 10, 1);
    let all = [
        of_first("Data", first.ecx),
        of_first("Instruction", first.edx),
        cache(2, "Unified", second.ecx, upper(second.ecx), (second.ecx >> 16) << 10, 1),
        cache(3, "Unified", second.edx, upper(second.edx), (second.edx >> 18) << 19, cpus),
    ];
    all.into_iter().flatten().collect()
}

/// The caches of the CPU that this runs on. Empty where CPUID describes none.
pub fn caches(cpus: u64) -> Vec<CpuCache> {
    const INTEL: u32 = 4;
    const AMD: u32 = 0x8000_001d;
    const LEGACY: [u32; 2] = [0x8000_0005, 0x8000_0006];
    let of_leaf = |leaf| (0..MOST).map_while(|index| CpuCache::decode(__cpuid_count(leaf, index))).collect::<Vec<_>>();
    let has_topology = __cpuid(0x8000_0000).eax >= AMD && __cpuid(0x8000_0001).ecx >> 22 & 1 != 0;
    let found = match (has_topology, __cpuid(0).eax >= INTEL) {
        (true, _) => of_leaf(AMD),
        (false, true) => of_leaf(INTEL),
        _ => Vec::new(),
    };
    match __cpuid(0x8000_0000).eax >= LEGACY[1] && found.is_empty() {
        true => legacy_caches(LEGACY.map(|leaf| __cpuid(leaf)), cpus),
        false => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_decoded_as_the_manual_says() {
        // The first-level data cache of a Xeon: 48 KiB, 12 ways, 64 sets, shared by two threads.
        let leaf = CpuidResult { eax: 1 << 14 | 1 << 5 | 1, ebx: 11 << 22 | 63, ecx: 63, edx: 0 };
        let cache = CpuCache::decode(leaf).unwrap();
        assert_eq!((cache.level, cache.kind, cache.kilobytes(), cache.ways, cache.sets), (1, "Data", 48, 12, 64));
        assert_eq!([cache.sharing(0, 4), cache.sharing(3, 4), cache.sharing(2, 3)], [(0, 2), (2, 2), (2, 1)]);
        // What QEMU says of an AMD without topology: 64 KiB twice, 512 KiB, 16 MiB shared by all.
        let first = CpuidResult { eax: 0, ebx: 0, ecx: 64 << 24 | 2 << 16 | 1 << 8 | 64, edx: 64 << 24 | 2 << 16 | 64 };
        let second = CpuidResult { eax: 0, ebx: 0, ecx: 512 << 16 | 8 << 12 | 64, edx: 32 << 18 | 8 << 12 | 64 };
        let found = legacy_caches([first, second], 2);
        let told: Vec<_> =
            found.iter().map(|cache| (cache.level, cache.kilobytes(), cache.ways, cache.sharers)).collect();
        assert_eq!(told, [(1, 64, 2, 1), (1, 64, 2, 1), (2, 512, 16, 1), (3, 16384, 16, 2)]);
        assert_eq!(CpuCache::decode(CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 }), None);
    }
}
