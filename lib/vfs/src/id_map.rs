//! Maps by numbers that the server and the kernel give out, one after the other: nodes, processes. Found in a few
//! instructions; in no order.

use core::hash::{BuildHasherDefault, Hasher};
use hashbrown::HashMap;

/// A map by such numbers.
pub type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// Hash of numbers: no user chooses them, so that they need no secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0 ^ number).wrapping_mul(SPREAD);
    }
}
