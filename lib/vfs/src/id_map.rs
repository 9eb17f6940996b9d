//! Maps by numbers that the server and the kernel give out, one after the other: nodes, processes. Found in a few
//! instructions; in no order.

use core::hash::{BuildHasherDefault, Hasher};
use hashbrown::HashMap;

/// A map by such numbers.
pub type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// Numbers for which a map keeps room, whatever becomes of them.
const SMALL: usize = 448;

/// Gives back the room of many numbers that are gone: for callers that remove one. Where there is no memory for a
/// smaller table, the map keeps its own.
#[inline]
pub fn give_room_back<V>(map: &mut NumberMap<V>) {
    if map.capacity() > SMALL && map.len() < map.capacity() / 4 {
        move_to_less(map);
    }
}

#[cold]
fn move_to_less<V>(map: &mut NumberMap<V>) {
    let mut smaller = NumberMap::default();
    if smaller.try_reserve(map.len() * 3 / 2).is_ok() {
        smaller.extend(map.drain());
        *map = smaller;
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_kept_for_many_numbers_that_are_gone() {
        let mut map: NumberMap<u64> = (0..10_000).map(|number| (number, number + 1)).collect();
        for number in 5..10_000 {
            assert_eq!(map.remove(&number), Some(number + 1));
            give_room_back(&mut map);
        }
        assert!(map.capacity() <= SMALL);
        assert_eq!((map.len(), map.get(&4), map.get(&5)), (5, Some(&5), None));
    }
}
