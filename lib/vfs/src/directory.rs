//! The names in a directory, and what they lead to.
//!
//! Pure. A name is found by a hash, and all are told in the order in which they came. Each bears a number while it is
//! there (`d_off` of getdents64(2)). A process that lists a directory in several pieces meets every name that is
//! there all the time exactly once, whatever others make and remove meanwhile (readdir(3) of POSIX). The hash begins
//! with a secret seed, so that no user can choose names which slow down a directory that others use too.

use crate::dcache::word_of;
use crate::inode::NodeId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use linux_abi::errno::{Errno, Result};

/// The numbers of `.` and `..`, which are told before all others.
pub const DOTS: [u64; 2] = [1, 2];

/// A name and what it leads to.
#[derive(Debug)]
pub struct Entry {
    /// Its number: greater than that of every one before.
    pub number: u64,
    /// The node; 0 for one that was removed, and keeps its place for a while.
    pub node: NodeId,
    /// The type of the node as `getdents64` tells it.
    pub kind: u8,
    /// The name.
    pub name: Box<[u8]>,
}

/// All names of a directory but for `.` and `..`.
#[derive(Debug)]
pub struct Entries {
    /// By their numbers.
    all: Vec<Entry>,
    /// Places in `all`, by the hashes of the names.
    places: HashTable<u32>,
    /// How many in `all` were removed: never more than half of them, and a few.
    removed: usize,
    /// The number given last.
    last: u64,
    seed: u64,
}

impl Entries {
    /// None, with the seed of the hash.
    pub const fn new(seed: u64) -> Self {
        Self { all: Vec::new(), places: HashTable::new(), removed: 0, last: DOTS[1], seed }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.all.len() - self.removed
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a name leads to.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<NodeId> {
        let found = self.places.find(hash(self.seed, name), |place| is_same(&self.all[*place as usize].name, name))?;
        Some(self.all[*found as usize].node)
    }

    /// Makes sure that there is memory for one more.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub fn make_room(&mut self) -> Result<()> {
        self.all.try_reserve(1).map_err(|_| Errno::ENOSPC)?;
        let (seed, all) = (self.seed, &self.all);
        let hash_of = |place: &u32| hash(seed, &all[*place as usize].name);
        self.places.try_reserve(1, hash_of).map_err(|_| Errno::ENOSPC)
    }

    /// Adds a name that is not there, with what it leads to and the type of that.
    pub fn insert(&mut self, name: &[u8], node: NodeId, kind: u8) {
        let (seed, place) = (self.seed, self.all.len() as u32);
        self.last += 1;
        self.all.push(Entry { number: self.last, node, kind, name: name.into() });
        let all = &self.all;
        self.places.insert_unique(hash(seed, name), place, |place| hash(seed, &all[*place as usize].name));
    }

    /// Takes a name out.
    pub fn remove(&mut self, name: &[u8]) {
        let all = &self.all;
        let same = |place: &u32| is_same(&all[*place as usize].name, name);
        let Ok(found) = self.places.find_entry(hash(self.seed, name), same) else { return };
        let (place, _) = found.remove();
        let entry = &mut self.all[place as usize];
        (entry.node, entry.name) = (0, Box::default());
        self.removed += 1;
        self.forget_removed();
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.all.clear();
        self.places.clear();
        self.removed = 0;
    }

    /// The first name that leads to a node. `hint`: the number that it had when it was looked for before, or 0.
    pub fn of_node(&self, node: NodeId, hint: u64) -> Option<&Entry> {
        let known = self.all.binary_search_by_key(&hint, |entry| entry.number).ok().map(|place| &self.all[place]);
        known.filter(|entry| entry.node == node).or_else(|| self.all.iter().find(|entry| entry.node == node))
    }

    /// Those with greater numbers than `number`, in their order.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &Entry> {
        let start = self.all.partition_point(|entry| entry.number <= number);
        self.all[start..].iter().filter(|entry| entry.node != 0)
    }

    /// Gives up the places of what was removed: at the end at once, and elsewhere once they are many.
    fn forget_removed(&mut self) {
        const FEW: usize = 16;
        while self.all.pop_if(|entry| entry.node == 0).is_some() {
            self.removed -= 1;
        }
        if self.removed > FEW + self.all.len() / 2 {
            self.all.retain(|entry| entry.node != 0);
            self.removed = 0;
            self.places.clear();
            let (seed, all) = (self.seed, &self.all);
            let hash_of = |place: &u32| hash(seed, &all[*place as usize].name);
            for place in 0..all.len() as u32 {
                self.places.insert_unique(hash_of(&place), place, hash_of);
            }
        }
    }
}

/// Whether two names are the same, eight bytes at a time.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let ((words, rest), (other_words, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let same = |(one, other): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*one) == u64::from_ne_bytes(*other);
    one.len() == other.len() && words.iter().zip(other_words).all(same) && word_of(rest) == word_of(other_rest)
}

#[inline]
fn hash(seed: u64, name: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(seed).build_hasher();
    hasher.write(name);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Names that a test uses: 300 of them.
    fn name(index: u64) -> Vec<u8> {
        [b"n".repeat(index as usize % 40 + 1).as_slice(), &index.to_le_bytes()].concat()
    }

    #[test]
    fn names_agree_with_an_ordered_map() {
        for seed in 0..30 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut entries, mut model) = (Entries::new(seed), BTreeMap::new());
            for step in 1..2000 {
                let name = name(random.u64(..300));
                if model.remove(&name).is_some() {
                    entries.remove(&name);
                } else if random.u8(..3) != 0 {
                    entries.insert(&name, step, 8);
                    model.insert(name.clone(), step);
                }
                assert_eq!(entries.get(&name), model.get(&name).copied(), "seed {seed}, step {step}");
                assert_eq!(entries.len(), model.len(), "seed {seed}, step {step}");
            }
            for entry in entries.after(0) {
                let found = [0, entry.number, entry.number - 1].map(|hint| entries.of_node(entry.node, hint));
                assert!(
                    found.into_iter().flatten().filter(|found| found.name == entry.name).count() == 3,
                    "seed {seed}"
                );
            }
            assert!(entries.of_node(2000, DOTS[1] + 1).is_none(), "seed {seed}");
            let told: BTreeMap<Vec<u8>, u64> =
                entries.after(0).map(|entry| (entry.name.to_vec(), entry.node)).collect();
            assert_eq!(told, model, "seed {seed}");
            entries.clear();
            assert_eq!((entries.get(&name(1)), entries.is_empty(), entries.after(0).count()), (None, true, 0));
        }
    }

    #[test]
    fn who_lists_in_pieces_meets_what_stays_exactly_once() {
        for seed in 0..30 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut entries = Entries::new(seed);
            (0..300).for_each(|index| entries.insert(&name(index), index + 1, 8));
            // Every third name stays; the others come and go while the directory is listed.
            let (mut met, mut at) = (Vec::new(), DOTS[1]);
            while let Some(last) = entries.after(at).take(7).last().map(|entry| entry.number) {
                met.extend(entries.after(at).take_while(|entry| entry.number <= last).map(|entry| entry.node - 1));
                at = last;
                for _ in 0..random.u64(..20) {
                    let index = random.u64(..100) * 3 + random.u64(1..3);
                    match entries.get(&name(index)) {
                        Some(_) => entries.remove(&name(index)),
                        None if met.len() < 600 => entries.insert(&name(index), index + 1, 8),
                        None => {}
                    }
                }
            }
            for index in (0..300).step_by(3) {
                let times = met.iter().filter(|one| **one == index).count();
                assert_eq!(times, 1, "seed {seed}: name {index} was met {times} times");
            }
        }
    }

    #[test]
    fn fault_a_name_made_and_removed_again_and_again_takes_no_room() {
        let mut entries = Entries::new(0);
        entries.insert(b"stays", 1, 8);
        for round in 0..10_000 {
            entries.insert(b"first", 2, 8);
            entries.insert(b"second", 3, 8);
            entries.remove(if round % 2 == 0 { b"first" } else { b"second" });
            entries.remove(if round % 2 == 0 { b"second" } else { b"first" });
        }
        assert!(entries.len() == 1 && entries.all.capacity() < 100, "{} places", entries.all.capacity());
    }
}
