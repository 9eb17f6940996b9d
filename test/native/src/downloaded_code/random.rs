//! A small generator of random numbers (splitmix64): the same seed gives the same case everywhere.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed from the environment variable `CHITIN_SEED`, or from the clock.
    pub fn seed() -> u64 {
        let given = std::env::var("CHITIN_SEED").ok().and_then(|text| text.parse().ok());
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        given.unwrap_or_else(|| clock.map_or(1, |time| time.as_nanos() as u64 % 1_000_000_000))
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A word that is often near a place where something changes.
    pub fn edge(&mut self) -> u64 {
        let bases = [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            i64::MAX as u64,
            1 << 63,
            u64::MAX,
        ];
        match self.below(4) {
            0 => self.word(),
            1 => self.below(300),
            2 => self.choose(&bases).wrapping_add(self.below(5)).wrapping_sub(2),
            _ => self.choose(&bases),
        }
    }

    /// Fills bytes, sometimes with something regular.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let regular = self.below(4);
        for byte in bytes {
            *byte = if regular == 0 { 0 } else { self.word() as u8 };
        }
    }
}
