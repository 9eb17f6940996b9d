//! The one lock of the kernel: a ticket lock, fair in the order of arrival.
//!
//! Whoever waits for it answers TLB requests meanwhile, because its holder may be waiting for the answer.

use crate::tlb;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
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
    value: NonNull<T>,
    turn: Turn<'a>,
    exclusive: PhantomData<&'a mut T>,
}

/// Whose turn it is; the end of it lets the next one in.
#[derive(Debug)]
struct Turn<'a> {
    serving: &'a AtomicU64,
}

impl<T> TicketLock<T> {
    /// A lock that nobody holds.
    pub const fn new(value: T) -> Self {
        Self { next: AtomicU64::new(0), serving: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for its turn.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        while self.serving.load(Ordering::Acquire) != ticket {
            tlb::answer();
            core::hint::spin_loop();
        }
        // SAFETY: the address of a cell is not null.
        let value = unsafe { NonNull::new_unchecked(self.value.get()) };
        Guard { value, turn: Turn { serving: &self.serving }, exclusive: PhantomData }
    }
}

impl<'a, T> Guard<'a, Option<T>> {
    /// The same lock, for what it holds, if there is something: looked at once and not at every use.
    #[inline]
    pub fn into_some(mut self) -> Option<Guard<'a, T>> {
        let value = NonNull::from(self.as_mut()?);
        Some(Guard { value, turn: self.turn, exclusive: PhantomData })
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the value is the lock's, and this is the only guard.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is the lock's, and this is the only guard, borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl Drop for Turn<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.serving.fetch_add(1, Ordering::Release);
    }
}
