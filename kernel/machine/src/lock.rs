//! The one lock of the kernel: a ticket lock, fair in the order of arrival.
//!
//! Whoever waits for it answers TLB requests meanwhile, because its holder may be waiting for the answer.

use crate::tlb;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};

/// A value that one CPU at a time may touch.
#[derive(Debug)]
pub struct TicketLock<T> {
    next: AtomicU64,
    serving: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for TicketLock<T> {}

/// Holding it is holding the lock.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a TicketLock<T>,
}

impl<T> TicketLock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self { next: AtomicU64::new(0), serving: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for its turn.
    pub fn lock(&self) -> Guard<'_, T> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        while self.serving.load(Ordering::Acquire) != ticket {
            tlb::answer();
            core::hint::spin_loop();
        }
        Guard { lock: self }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this is the only guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only guard, and it is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.serving.fetch_add(1, Ordering::Release);
    }
}
