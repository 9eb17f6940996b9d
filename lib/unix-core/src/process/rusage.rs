//! What a process has used: `getrusage`, `times`, and what its parent learns when it waits.
//!
//! Time is measured by the kernel, whole. Linux calls the library's part of it system time. The library measures that
//! itself, call by call, so that a library that lies can only lie within what the kernel measured.

use alloc::vec::Vec;

const NANOSECONDS: u64 = 1_000_000_000;

/// Resource usage of a thread or a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rusage {
    /// Nanoseconds that it ran.
    pub time: u64,
    /// Nanoseconds of these in the library.
    pub system: u64,
    /// Faults that brought a page or made it writable.
    pub faults: u64,
    /// Pages that it had at most.
    pub peak: u64,
    /// How often it waited.
    pub waits: u64,
    /// Exceptions, events, ends of slices and reflected calls that the library handled. No parent is told.
    pub upcalls: u64,
    /// Calls of the server. No parent is told.
    pub transfers: u64,
}

/// How much of `time` counts as the library's, which measured `library`, when `told` was said to be the program's
/// before.
///
/// The kernel brings `time` forward at the end of a slice or of a tick, the library its own at once: neither part may
/// go back for that.
pub fn system_time(time: u64, library: u64, told: u64) -> u64 {
    library.min(time.saturating_sub(told))
}

impl Rusage {
    /// Words that tell it.
    pub const WORDS: usize = 5;

    /// As words.
    pub const fn to_words(self) -> [u64; Self::WORDS] {
        [self.time, self.system, self.faults, self.peak, self.waits]
    }

    /// From words, whatever they are.
    pub const fn from_words([time, system, faults, peak, waits]: [u64; Self::WORDS]) -> Self {
        Self { time, system, faults, peak, waits, upcalls: 0, transfers: 0 }
    }

    /// Of both: sums, and the larger of the peaks.
    pub fn with(self, other: Self) -> Self {
        Self {
            time: self.time.saturating_add(other.time),
            system: self.system.saturating_add(other.system),
            faults: self.faults.saturating_add(other.faults),
            peak: self.peak.max(other.peak),
            waits: self.waits.saturating_add(other.waits),
            upcalls: self.upcalls.saturating_add(other.upcalls),
            transfers: self.transfers.saturating_add(other.transfers),
        }
    }

    /// Nanoseconds in the program, and in the library.
    pub fn times(self) -> [u64; 2] {
        let system = self.system.min(self.time);
        [self.time - system, system]
    }

    /// `struct rusage`.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut words = [0; 18];
        for (place, time) in [0, 2].into_iter().zip(self.times()) {
            (words[place], words[place + 1]) = (time / NANOSECONDS, time % NANOSECONDS / 1000);
        }
        words[4] = self.peak * (linux_abi::address_map::PAGE_SIZE / 1024);
        (words[8], words[16]) = (self.faults, self.waits);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::system_time;

    #[test]
    fn neither_part_of_the_time_goes_back() {
        let [mut time, mut library, mut user, mut system] = [0_u64; 4];
        for step in 0..10_000_u64 {
            // The library's clock advances in each step, the kernel's in some only.
            library += step * 7919 % 40;
            if step % 13 == 0 {
                time = time.max(library) + step * 104_729 % 500;
            }
            let now = system_time(time, library, user);
            assert!(now >= system && time - now >= user, "step {step}");
            (user, system) = (time - now, now);
        }
    }
}
