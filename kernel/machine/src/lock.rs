//! The one lock of the kernel. CPUs that wait for it take turns. A CPU that does not take its turn delays the others
//! only briefly, because that is a virtual CPU whose host is not running it (decision 0013).
//!
//! A waiting CPU stands by for TLB requests, because the holder may have one (`tlb`).

use crate::{entry, tlb};
use abi::limits::CPUS;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

/// Any CPU may take the lock.
const FREE: u64 = 0;
/// A CPU holds it.
const HELD: u64 = 1;
/// This and the number of a CPU: it is that CPU's turn.
const OFFERED: u64 = 2;
/// How many times the others look at a lock that is offered before they take it themselves. That is some
/// microseconds, many times what a running CPU needs to see that it is its turn.
const PATIENCE: u64 = 100;

/// A value that one CPU at a time may touch.
#[derive(Debug)]
pub struct TurnLock<T> {
    turns: Turns,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for TurnLock<T> {}

/// Holding it is holding the lock.
#[derive(Debug)]
pub struct Guard<'a, T> {
    value: NonNull<T>,
    turn: Turn<'a>,
    exclusive: PhantomData<&'a mut T>,
}

/// The CPU that may take the lock, and the CPUs that wait for it.
#[derive(Debug)]
struct Turns {
    /// [`FREE`], [`HELD`], or [`OFFERED`] to one CPU.
    state: AtomicU64,
    /// One bit for each CPU that waits.
    waiting: AtomicU64,
}

/// A turn that was taken; the end of it lets the next one in.
#[derive(Debug)]
struct Turn<'a> {
    turns: &'a Turns,
}

impl<T> TurnLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        let turns = Turns { state: AtomicU64::new(FREE), waiting: AtomicU64::new(0) };
        Self { turns, value: UnsafeCell::new(value) }
    }

    /// Waits for its turn.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        if !self.turns.take(FREE) {
            self.turns.wait();
        }
        // SAFETY: the address of a cell is not null.
        let value = unsafe { NonNull::new_unchecked(self.value.get()) };
        Guard { value, turn: Turn { turns: &self.turns }, exclusive: PhantomData }
    }
}

impl Turns {
    #[inline]
    fn take(&self, seen: u64) -> bool {
        self.state.compare_exchange(seen, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        let this = entry::cpu() as u64;
        tlb::stand_by();
        self.waiting.fetch_or(1 << this, Ordering::Relaxed);
        let mut looks = 0u64;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            looks = if state == HELD { 0 } else { looks + 1 };
            let may = state == FREE || state == OFFERED + this || looks > PATIENCE;
            if looks > 0 && may && self.take(state) {
                break;
            }
            core::hint::spin_loop();
        }
        self.waiting.fetch_and(!(1 << this), Ordering::Relaxed);
        tlb::go_on();
    }

    /// Releases the lock, and offers it to the next CPU around that waits.
    #[inline(always)]
    fn pass_on(&self) {
        let next = match self.waiting.load(Ordering::Relaxed) {
            0 => FREE,
            waiting => OFFERED + next_after(entry::cpu() as u32, waiting),
        };
        self.state.store(next, Ordering::Release);
    }
}

/// The first CPU after this one, around, of those whose bit is set. A few instructions and no call: a call would cost
/// every caller of [`Turns::pass_on`] registers, waiting or not.
#[inline(always)]
fn next_after(cpu: u32, waiting: u64) -> u64 {
    let first = cpu.wrapping_add(1);
    let further = waiting.rotate_right(first).trailing_zeros();
    u64::from(further.wrapping_add(first) % u64::BITS)
}

const _: () = assert!(CPUS <= u64::BITS as usize);

impl<'a, T> Guard<'a, Option<T>> {
    /// The same lock, for what it holds: looked at once and not at every use.
    ///
    /// # Panics
    /// When it holds nothing.
    #[inline(always)]
    pub fn expect_some(mut self) -> Guard<'a, T> {
        let value = NonNull::from(self.as_mut().expect("what the lock is for was made"));
        Guard { value, turn: self.turn, exclusive: PhantomData }
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
        self.turns.pass_on();
    }
}
