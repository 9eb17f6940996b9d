//! A lock for words shared by environments, on any CPUs, that outlives a holder who dies.
//!
//! The word holds the number of the owner, which is never reused. A thread that finds it taken looks at the exposed
//! record of the owner. If that one does not live, the lock is taken over, and the caller learns that what it guards
//! may be half changed. While a lock is held a critical section is open, so that the end of a slice does not come in
//! between.

use crate::area::number;
use crate::critical_section::{self, CriticalSection};
use crate::exposed;
use abi::EnvironmentId;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How a lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was free.
    Free,
    /// Its owner had died with it.
    FromTheDead(EnvironmentId),
}

/// The lock alone, for data that lies elsewhere. Zero-filled memory is a free lock.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct OwnerLock {
    owner: AtomicU64,
}

/// A held lock; dropped, it is free again.
#[derive(Debug)]
#[must_use = "the lock is free again when this is dropped"]
pub struct Held<'a> {
    lock: &'a OwnerLock,
    /// How it was got.
    pub taken: Taken,
    _section: CriticalSection,
}

impl OwnerLock {
    /// A free one.
    pub const fn new() -> Self {
        Self { owner: AtomicU64::new(0) }
    }

    /// The lock in a word that others reach too, whatever it holds.
    pub fn at(word: &AtomicU64) -> &Self {
        // SAFETY: a lock is one such word, and every value of it means something.
        unsafe { &*core::ptr::from_ref(word).cast() }
    }

    /// Its owner.
    pub fn owner(&self) -> EnvironmentId {
        EnvironmentId(self.owner.load(Relaxed))
    }

    /// Makes it free, for a copy of memory that was made while another environment held it.
    pub fn free_copy(&self) {
        self.owner.store(0, Release);
    }

    /// Takes it if it is free, in a critical section that is open.
    #[inline]
    pub(crate) fn take_free(&self) -> bool {
        self.owner.compare_exchange(0, number().0, Acquire, Relaxed).is_ok()
    }

    /// Its holder makes it free.
    #[inline]
    pub(crate) fn give_back(&self) {
        self.owner.store(0, Release);
    }

    /// Takes it if it is free or its owner is dead.
    pub fn try_acquire(&self) -> Option<Held<'_>> {
        let section = critical_section::enter();
        let before = self.owner.load(Relaxed);
        let taken = match EnvironmentId(before) {
            EnvironmentId::NONE => Taken::Free,
            owner if exposed::lives(owner) => return None,
            dead => Taken::FromTheDead(dead),
        };
        self.owner.compare_exchange(before, number().0, Acquire, Relaxed).ok()?;
        Some(Held { lock: self, taken, _section: section })
    }

    /// Takes it, however long that lasts: who holds it without running gets the rest of this slice.
    #[inline]
    pub fn acquire(&self) -> Held<'_> {
        let section = critical_section::enter();
        if self.take_free() {
            return Held { lock: self, taken: Taken::Free, _section: section };
        }
        drop(section);
        self.acquire_from_other()
    }

    #[cold]
    fn acquire_from_other(&self) -> Held<'_> {
        loop {
            if let Some(held) = self.try_acquire() {
                return held;
            }
            self.wait_a_while();
        }
    }

    /// Takes it, unless its owner keeps it until a time of the clock, in ns: for a lock that an untrusted environment
    /// writes.
    pub fn acquire_until(&self, deadline: u64) -> Option<Held<'_>> {
        loop {
            let held = self.try_acquire();
            if held.is_some() || crate::clock::now() >= deadline {
                return held;
            }
            self.wait_a_while();
        }
    }

    fn wait_a_while(&self) {
        let owner = self.owner();
        if exposed::runs(owner) || crate::time_slice::yield_to(owner).is_err() {
            // An owner on another CPU may keep it past the end of this slice, which a critical section defers.
            crate::critical_section::give_way();
            core::hint::spin_loop();
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.give_back();
    }
}

/// Data with its lock.
#[derive(Debug, Default)]
pub struct Lock<T> {
    lock: OwnerLock,
    data: UnsafeCell<T>,
}

// SAFETY: the lock lets one environment at a time reach the data.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The data, while the lock is held.
#[derive(Debug)]
pub struct Guard<'a, T> {
    /// The lock under it.
    pub held: Held<'a>,
    data: &'a UnsafeCell<T>,
}

impl<T> Lock<T> {
    /// Data under a free lock.
    pub const fn new(data: T) -> Self {
        Self { lock: OwnerLock::new(), data: UnsafeCell::new(data) }
    }

    /// The owner of the lock.
    pub fn owner(&self) -> EnvironmentId {
        self.lock.owner()
    }

    /// The lock without the data.
    pub fn owner_lock(&self) -> &OwnerLock {
        &self.lock
    }

    /// As [`OwnerLock::free_copy`].
    pub fn free_copy(&self) {
        self.lock.free_copy();
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        Guard { held: self.lock.acquire(), data: &self.data }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so nobody changes the data.
        unsafe { &*self.data.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and this guard is borrowed for as long as the reference lives.
        unsafe { &mut *self.data.get() }
    }
}

/// Data that one environment holds for long, mostly until it dies. No other waits for it, and no critical section is
/// open meanwhile.
#[derive(Debug, Default)]
pub struct Possession<T> {
    /// Number of the environment that holds it; 0: none does.
    owner: AtomicU64,
    data: UnsafeCell<T>,
}

// SAFETY: one environment at a time reaches the data.
unsafe impl<T: Send> Sync for Possession<T> {}

/// The data, while it is held.
#[derive(Debug)]
pub struct Possessed<'a, T>(&'a Possession<T>);

impl<T> Possession<T> {
    /// Takes it; `None` while a living environment holds it. What a dead one held may be half changed.
    pub fn take(&self) -> Option<Possessed<'_, T>> {
        let before = self.owner.load(Relaxed);
        if before != 0 && exposed::lives(EnvironmentId(before)) {
            return None;
        }
        self.owner.compare_exchange(before, number().0, Acquire, Relaxed).ok()?;
        Some(Possessed(self))
    }
}

impl<T> Deref for Possessed<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: no other environment reaches the data, and this one has one such value.
        unsafe { &*self.0.data.get() }
    }
}

impl<T> DerefMut for Possessed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; this value is borrowed for as long as the reference lives.
        unsafe { &mut *self.0.data.get() }
    }
}

impl<T> Drop for Possessed<'_, T> {
    fn drop(&mut self) {
        self.0.owner.store(0, Release);
    }
}
