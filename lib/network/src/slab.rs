//! Slab: values by index, with a generation that makes stale handles fail. It keeps no room for many values that are
//! gone: what lies behind the last one goes, and the tables shrink.

use alloc::vec::Vec;

/// Entries for which a slab keeps room, whatever becomes of them.
const SMALL: usize = 64;

/// Names a value until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    pub(crate) index: u32,
    generation: u32,
}

impl Handle {
    /// Where the value lies, for [`Slab::at`]: other values lie there later.
    pub const fn index(self) -> u32 {
        self.index
    }
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    /// Indices of all entries without a value; among them some that are no longer such.
    free: Vec<u32>,
    values: usize,
    /// Generation of an entry that is made: no handle of one that went has it.
    fresh: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), values: 0, fresh: 0 }
    }
}

impl<T> Slab<T> {
    pub fn len(&self) -> usize {
        self.values
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn insert(&mut self, value: T) -> Handle {
        let index = self.vacant_index();
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        self.values += 1;
        Handle { index, generation: entry.generation }
    }

    /// An entry without a value, made if there is none.
    fn vacant_index(&mut self) -> u32 {
        while let Some(index) = self.free.pop() {
            if self.entries.get(index as usize).is_some_and(|entry| entry.value.is_none()) {
                return index;
            }
        }
        self.entries.push(Entry { generation: self.fresh, value: None });
        self.entries.len() as u32 - 1
    }

    pub fn get(&self, handle: Handle) -> Option<&T> {
        let entry = self.entries.get(handle.index as usize)?;
        entry.value.as_ref().filter(|_| entry.generation == handle.generation)
    }

    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let entry = self.entries.get_mut(handle.index as usize)?;
        entry.value.as_mut().filter(|_| entry.generation == handle.generation)
    }

    pub fn at(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.value.as_ref()
    }

    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.value.as_mut()
    }

    pub fn handle(&self, index: u32) -> Option<Handle> {
        let entry = self.entries.get(index as usize).filter(|entry| entry.value.is_some())?;
        Some(Handle { index, generation: entry.generation })
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.values -= 1;
        if index as usize == self.entries.len() - 1 {
            self.drop_end()
        } else {
            self.free.push(index)
        }
        Some(value)
    }

    /// Drops the entries behind the last value, and gives the room back once it is four times what is needed.
    fn drop_end(&mut self) {
        while let Some(entry) = self.entries.pop_if(|entry| entry.value.is_none()) {
            self.fresh = self.fresh.max(entry.generation);
        }
        if self.entries.len().max(SMALL) * 4 < self.entries.capacity() {
            let entries = self.entries.len();
            self.free.retain(|index| (*index as usize) < entries);
            move_to_less(&mut self.free);
            move_to_less(&mut self.entries);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let handle = Handle { index: index as u32, generation: entry.generation };
            entry.value.as_ref().map(|value| (handle, value))
        })
    }
}

/// Moves what a vector holds into one with room for twice as much, where there is memory for that one.
fn move_to_less<T>(vector: &mut Vec<T>) {
    let mut smaller = Vec::new();
    if smaller.try_reserve_exact(vector.len().max(SMALL / 2) * 2).is_ok() {
        smaller.append(vector);
        *vector = smaller;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::format;
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn stale_handles_find_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first.index), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&"second")));
        assert_eq!((slab.len(), slab.remove(7)), (1, None));
    }

    #[test]
    fn no_room_is_kept_for_many_that_are_gone() {
        let mut slab = Slab::default();
        let handles: Vec<Handle> = (0..10_000).map(|value| slab.insert(value)).collect();
        for handle in handles.iter().skip(1) {
            slab.remove(handle.index);
        }
        assert_eq!((slab.len(), slab.get(handles[0])), (1, Some(&0)));
        assert!(slab.entries.capacity() <= 4 * SMALL && slab.free.capacity() <= 4 * SMALL);
        let again: Vec<Handle> = (0..10_000).map(|value| slab.insert(value)).collect();
        assert!(handles.iter().skip(1).all(|stale| slab.get(*stale).is_none()));
        assert!(again.iter().zip(0..).all(|(handle, value)| slab.get(*handle) == Some(&value)));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_by_handles_holds(steps in vec((any::<bool>(), any::<usize>()), 0..3_000)) {
            let (mut slab, mut model, mut gone) = (Slab::default(), BTreeMap::new(), Vec::new());
            for (is_new, number) in steps {
                if is_new {
                    prop_assert!(model.insert(slab.insert(number), number).is_none());
                } else if let Some(handle) = model.keys().nth(number % model.len().max(1)).copied() {
                    prop_assert_eq!(slab.remove(handle.index), model.remove(&handle));
                    gone.push(handle);
                }
                prop_assert_eq!(slab.len(), model.len());
            }
            prop_assert!(gone.iter().all(|handle| slab.get(*handle).is_none()));
            prop_assert_eq!(slab.iter().map(|(handle, value)| (handle, *value)).collect::<BTreeMap<_, _>>(), model);
        }
    }
}
