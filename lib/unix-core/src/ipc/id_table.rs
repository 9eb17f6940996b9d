//! Objects by key and by number, with owners and permissions.
//!
//! Invariants: a number that was given out names one object only, also after that is gone. A key that is not private
//! leads to one object at most.

use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use vfs::namespace::FsCredentials;

/// The key of objects that have none.
pub const PRIVATE: u32 = 0;
/// Flags of the calls that find objects.
pub const CREATE: u32 = 0o1000;
/// The object must be new.
pub const EXCLUSIVE: u32 = 0o2000;
/// Objects of a kind that there can be.
pub const MOST: usize = 4096;
const INDEX_BITS: u32 = 15;

/// Access that is asked for, as bits of one digit of a mode.
pub mod access {
    /// To read.
    pub const READ: u32 = 4;
    /// To change.
    pub const WRITE: u32 = 2;
}

/// Whose an object is, and what others may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Its key.
    pub key: u32,
    /// Its owner.
    pub owner: FsCredentials,
    /// Its creator.
    pub creator: FsCredentials,
    /// Nine bits of permissions.
    pub mode: u32,
}

impl Permission {
    /// Whether a process with these credentials may read, write or both.
    ///
    /// # Errors
    /// `EACCES`.
    pub fn check(&self, who: FsCredentials, wanted: u32) -> Result<()> {
        let shift = if who.uid == self.owner.uid || who.uid == self.creator.uid {
            6
        } else if who.gid == self.owner.gid || who.gid == self.creator.gid {
            3
        } else {
            0
        };
        let granted = who.has(linux::CAP_IPC_OWNER) || self.mode >> shift & wanted == wanted;
        if granted { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Whether a process with these credentials may change the permissions, or remove the object.
    ///
    /// # Errors
    /// `EPERM`.
    pub const fn check_owner(&self, who: FsCredentials) -> Result<()> {
        let is_its = who.uid == self.owner.uid || who.uid == self.creator.uid;
        let granted = is_its || who.has(linux::CAP_SYS_ADMIN);
        if granted { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// `struct ipc64_perm`, as words.
    pub fn to_words(self, sequence: u32) -> [u64; 6] {
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let (owner, creator) = (self.owner, self.creator);
        [two(self.key, owner.uid), two(owner.gid, creator.uid), two(creator.gid, self.mode), u64::from(sequence), 0, 0]
    }
}

/// An object.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// Whose it is.
    pub permission: Permission,
    /// What it is.
    pub value: T,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    sequence: u32,
    entry: Option<Entry<T>>,
}

const fn number_of(sequence: u32, index: usize) -> u64 {
    (sequence as u64) << INDEX_BITS | index as u64
}

/// All objects of a kind.
#[derive(Clone, Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T> Table<T> {
    /// The number of the object with a key, made where that is asked for; `fits` looks at one that is there.
    ///
    /// # Errors
    /// Those of `semget` and its like.
    pub fn get(
        &mut self,
        (key, flags): (u32, u32),
        who: FsCredentials,
        fits: impl FnOnce(&T) -> Result<()>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<u64> {
        let has_key = |slot: &Slot<T>| slot.entry.as_ref().is_some_and(|entry| entry.permission.key == key);
        let there = if key == PRIVATE { None } else { self.slots.iter().position(has_key) };
        let Some(index) = there else {
            if key != PRIVATE && flags & CREATE == 0 {
                return Err(Errno::ENOENT);
            }
            let permission = Permission { key, owner: who, creator: who, mode: flags & 0o777 };
            return self.insert(permission, make);
        };
        if flags & CREATE != 0 && flags & EXCLUSIVE != 0 {
            return Err(Errno::EEXIST);
        }
        let number = self.number(index);
        let entry = self.find(number)?;
        entry.permission.check(who, (flags >> 6 | flags >> 3 | flags) & 0o7)?;
        fits(&entry.value)?;
        Ok(number)
    }

    fn insert(&mut self, permission: Permission, make: impl FnOnce() -> Result<T>) -> Result<u64> {
        let free = self.slots.iter().position(|slot| slot.entry.is_none());
        let index = free.unwrap_or(self.slots.len());
        if index >= MOST {
            return Err(Errno::ENOSPC);
        }
        let entry = Entry { permission, value: make()? };
        match self.slots.get_mut(index) {
            Some(slot) => slot.entry = Some(entry),
            None => self.slots.push(Slot { sequence: 0, entry: Some(entry) }),
        }
        Ok(self.number(index))
    }

    fn number(&self, index: usize) -> u64 {
        number_of(self.slots[index].sequence, index)
    }

    fn index(&self, number: u64) -> Result<usize> {
        let index = (number & ((1 << INDEX_BITS) - 1)) as usize;
        let slot = self.slots.get(index).filter(|slot| u64::from(slot.sequence) == number >> INDEX_BITS);
        slot.map(|_| index).ok_or(Errno::EINVAL)
    }

    /// The object with a number.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn find(&mut self, number: u64) -> Result<&mut Entry<T>> {
        let index = self.index(number)?;
        self.slots[index].entry.as_mut().ok_or(Errno::EINVAL)
    }

    /// The number of the object in a place.
    ///
    /// # Errors
    /// `EINVAL` where there is none.
    pub fn at(&self, index: u64) -> Result<u64> {
        let index = usize::try_from(index).map_err(|_| Errno::EINVAL)?;
        let taken = self.slots.get(index).is_some_and(|slot| slot.entry.is_some());
        if taken { Ok(self.number(index)) } else { Err(Errno::EINVAL) }
    }

    /// Takes an object out; its number is never given out again.
    ///
    /// # Errors
    /// As `find`.
    pub fn remove(&mut self, number: u64) -> Result<T> {
        const SEQUENCES: u32 = (1 << (31 - INDEX_BITS)) - 1;
        let index = self.index(number)?;
        let slot = &mut self.slots[index];
        let entry = slot.entry.take().ok_or(Errno::EINVAL)?;
        slot.sequence = (slot.sequence + 1) & SEQUENCES;
        Ok(entry.value)
    }

    /// Every object with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Entry<T>)> {
        let taken = self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.entry.as_ref()?)));
        taken.map(|(index, entry)| (self.number(index), entry))
    }

    /// Every object, to be changed, with its number.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let number = number_of(slot.sequence, index);
            Some((number, &mut slot.entry.as_mut()?.value))
        })
    }

    /// The highest place that is taken; 0 for none, as the calls that tell of all objects have it.
    pub fn highest(&self) -> u64 {
        self.slots.iter().rposition(|slot| slot.entry.is_some()).unwrap_or(0) as u64
    }

    /// Changes owner and mode, as `IPC_SET` does.
    ///
    /// # Errors
    /// As `find`, and `EPERM`.
    pub fn set_owner(&mut self, number: u64, who: FsCredentials, owner: FsCredentials, mode: u32) -> Result<&mut T> {
        let entry = self.find(number)?;
        entry.permission.check_owner(who)?;
        entry.permission.owner = owner;
        entry.permission.mode = entry.permission.mode & !0o777 | mode & 0o777;
        Ok(&mut entry.value)
    }
}
