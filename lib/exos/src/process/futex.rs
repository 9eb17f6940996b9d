//! Futexes: threads that wait for a word of the program (futex(2)).
//!
//! A thread that waits sleeps on a word of its own record, which who wakes it sets; the queue is the process's. Words
//! in memory that several processes share are watched themselves as well, by the wakeup predicate: whoever wakes another
//! process's threads has changed the word before.

use super::thread::Thread;
use crate::block::{self, Woken};
use crate::errno::{Errno, Result};
use crate::user_memory::copy;
use crate::user_memory::current::{process, thread};
use crate::user_memory::shared::program_term;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_raw_sys::general as linux;
use runtime::predicate::{Operator, word};

/// Who waits for everything.
pub const ANY: u32 = u32::MAX;
/// Entries of a robust list that are looked at.
const ROBUST_MOST: usize = 2048;

/// What a thread waits for. Changed by the thread itself while it does not wait, and by who holds the queue while it does.
#[derive(Debug, Default)]
pub struct Waiter {
    address: AtomicU64,
    bits: AtomicU64,
    woken: AtomicU64,
}

/// Threads that wait, those that came first in front.
#[derive(Debug, Default)]
pub struct Futexes {
    waiting: Vec<&'static Thread>,
}

impl Futexes {
    /// Wakes up to `most` of those that wait for `address`; how many there were.
    fn wake(&mut self, address: u64, most: u64, bits: u32) -> u64 {
        let mut woken = 0;
        self.waiting.retain(|thread| {
            let waiter = &thread.waiter;
            let waits = waiter.address.load(Relaxed) == address && waiter.bits.load(Relaxed) & u64::from(bits) != 0;
            let chosen = woken < most && waits;
            if chosen {
                waiter.woken.store(1, SeqCst);
                block::note_awakened(thread.number());
                woken += 1;
            }
            !chosen
        });
        woken
    }

    /// Lets up to `most` of those that wait for `from` wait for `to`.
    fn requeue(&mut self, from: u64, to: u64, most: u64) -> u64 {
        let waiting = self.waiting.iter().filter(|thread| thread.waiter.address.load(Relaxed) == from);
        let moved = waiting.take(usize::try_from(most).unwrap_or(usize::MAX));
        moved.map(|thread| thread.waiter.address.store(to, Relaxed)).count() as u64
    }

    /// Nobody waits: the running thread is the only one.
    pub fn forget_all(&mut self) {
        self.waiting.clear();
    }
}

/// Waits until woken, if the word still has a value: `EAGAIN` where it has not. `private`: the program says that no other
/// process reaches the word.
pub fn wait(address: u64, value: u32, bits: u32, deadline: Option<u64>, private: bool) -> Result<()> {
    let address = aligned(address)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let shared = !private && is_shared(address);
    enqueue(address, value, bits)?;
    let outcome = sleep(shared.then_some((address, value)), deadline);
    let own = thread();
    if own.waiter.woken.load(Acquire) != 0 {
        return Ok(());
    }
    process().futexes.lock().waiting.retain(|other| !core::ptr::eq(*other, own));
    // It may have been woken before it left the queue.
    if own.waiter.woken.load(Acquire) != 0 { Ok(()) } else { outcome }
}

fn enqueue(address: u64, value: u32, bits: u32) -> Result<()> {
    copy::prepare(address, 4, false)?;
    let own = thread();
    let mut futexes = process().futexes.lock();
    if copy::read_half(address)? != value {
        return Err(Errno::EAGAIN);
    }
    own.waiter.address.store(address, Relaxed);
    own.waiter.bits.store(u64::from(bits), Relaxed);
    own.waiter.woken.store(0, Relaxed);
    futexes.waiting.push(own);
    Ok(())
}

fn sleep(shared: Option<(u64, u32)>, deadline: Option<u64>) -> Result<()> {
    let woken_word = &thread().waiter.woken;
    let woken_term = word(woken_word, Operator::NotEqual, 0);
    let both = shared.map(|(address, value)| [woken_term, program_term(address, value)]);
    let one = [woken_term];
    let terms = both.as_ref().map_or(one.as_slice(), |both| both.as_slice());
    loop {
        let woken = block::wait(terms, deadline)?;
        if woken_word.load(Acquire) != 0 {
            return Ok(());
        }
        if woken == Woken::TimedOut {
            return Err(Errno::ETIMEDOUT);
        }
        if let Some((address, value)) = shared
            && copy::read_half(address)? != value
        {
            return Ok(());
        }
    }
}

/// Wakes threads that wait for a word.
pub fn wake(address: u64, most: u64, bits: u32) -> Result<u64> {
    let address = aligned(address)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let woken = process().futexes.lock().wake(address, most, bits);
    block::kick_idle();
    Ok(woken)
}

/// Wakes some, and lets others wait for another word; `expected`: only if the first word has this value. How many were
/// woken, and how many were moved.
pub fn requeue(from: u64, to: u64, wake: u64, move_most: u64, expected: Option<u32>) -> Result<(u64, u64)> {
    let (from, to) = (aligned(from)?, aligned(to)?);
    copy::prepare(from, 4, false)?;
    let mut futexes = process().futexes.lock();
    if let Some(expected) = expected
        && copy::read_half(from)? != expected
    {
        return Err(Errno::EAGAIN);
    }
    let woken = futexes.wake(from, wake, ANY);
    let moved = futexes.requeue(from, to, move_most);
    drop(futexes);
    block::kick_idle();
    Ok((woken, moved))
}

/// `FUTEX_WAKE_OP`: changes the second word, wakes those of the first, and those of the second if its old value compares.
pub fn wake_and_change(first: u64, second: u64, most: [u64; 2], operation: u32) -> Result<u64> {
    let (first, second) = (aligned(first)?, aligned(second)?);
    let signed = |shift: u32| ((operation << (20 - shift)) as i32 >> 20) as u32;
    let (argument, compared) = (signed(12), signed(0));
    let argument = if operation >> 31 != 0 { 1u32.wrapping_shl(argument) } else { argument };
    let change = |old: u32| {
        Ok(match operation >> 28 & 7 {
            linux::FUTEX_OP_SET => argument,
            linux::FUTEX_OP_ADD => old.wrapping_add(argument),
            linux::FUTEX_OP_OR => old | argument,
            linux::FUTEX_OP_ANDN => old & !argument,
            linux::FUTEX_OP_XOR => old ^ argument,
            _ => return Err(Errno::ENOSYS),
        })
    };
    copy::prepare(second, 4, true)?;
    let mut futexes = process().futexes.lock();
    let old = copy::update_half(second, change)?;
    let (old, compared) = (old as i32, compared as i32);
    let also = match operation >> 24 & 0xf {
        linux::FUTEX_OP_CMP_EQ => old == compared,
        linux::FUTEX_OP_CMP_NE => old != compared,
        linux::FUTEX_OP_CMP_LT => old < compared,
        linux::FUTEX_OP_CMP_LE => old <= compared,
        linux::FUTEX_OP_CMP_GT => old > compared,
        linux::FUTEX_OP_CMP_GE => old >= compared,
        _ => return Err(Errno::ENOSYS),
    };
    let mut woken = futexes.wake(first, most[0], ANY);
    if also {
        woken += futexes.wake(second, most[1], ANY);
    }
    drop(futexes);
    block::kick_idle();
    Ok(woken)
}

/// What a thread leaves locked is marked as left by its owner (`set_robust_list`). Nothing of the list is trusted.
pub fn release_robust_list(thread: &Thread) {
    let head = thread.robust_list.swap(0, Relaxed);
    if head == 0 {
        return;
    }
    let Ok([mut entry, offset, pending]) = copy::read_words::<3>(head) else { return };
    let mut entries = Vec::new();
    while entry & !1 != head && entry != 0 && entries.len() < ROBUST_MOST {
        entries.push(entry & !1);
        let Ok(next) = copy::read_word(entry & !1) else { break };
        entry = next;
    }
    if pending != 0 {
        entries.push(pending & !1);
    }
    for entry in entries {
        mark_left(thread.shown_number() as u32, entry.wrapping_add(offset));
    }
}

fn mark_left(owner: u32, address: u64) {
    if aligned(address).is_err() || copy::prepare(address, 4, true).is_err() {
        return;
    }
    let change = |old: u32| match old & linux::FUTEX_TID_MASK == owner {
        true => Ok(old & linux::FUTEX_WAITERS | linux::FUTEX_OWNER_DIED),
        false => Err(Errno::EPERM),
    };
    if copy::update_half(address, change).is_ok_and(|old| old & linux::FUTEX_WAITERS != 0) {
        let _ = wake(address, 1, ANY);
    }
}

/// Clears the word that a thread's end clears, and wakes who waits for it.
pub fn clear_at_end(thread: &Thread) {
    let address = thread.clear_at_end.swap(0, Relaxed);
    if address != 0 && copy::write_half(address, 0).is_ok() {
        let _ = wake(address, 1, ANY);
    }
}

fn aligned(address: u64) -> Result<u64> {
    copy::check(address, 4)?;
    if address.is_multiple_of(4) { Ok(address) } else { Err(Errno::EINVAL) }
}

/// Whether other processes may reach a word.
fn is_shared(address: u64) -> bool {
    process().memory.lock().space.areas.find(address).is_some_and(|area| area.shared)
}
