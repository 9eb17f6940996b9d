//! Futexes: threads that wait for a word of the program (futex(2)).
//!
//! A thread that waits sleeps on a word of its own record, which who wakes it sets; the queue is the process's. Of
//! words in memory that several processes share the server keeps the queue (`exos_server::shared_futex`), unless the
//! program says that no other process uses them.

use super::thread::Thread;
use crate::hw::usercopy;
use crate::process::current::{process, thread};
use crate::process_table;
use crate::server::client::futex_wakes;
use crate::wait::{self, LastCpu, WakeReason};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::predicate::{Operator, word};
use runtime::{EnvironmentId, clock, exposed};
use unix_core::server::protocol::{Request, wake_of};
use vm::page_record::page_of;
use vm::vma::Protection;

/// The bits of a waiter that waits for everything.
pub const ANY: u32 = u32::MAX;
/// Entries of a robust list that are looked at.
pub const ROBUST_MOST: usize = 2048;

/// What a thread waits for. Changed by the thread itself while it does not wait, and by who holds the queue while it
/// does.
#[derive(Debug, Default)]
pub struct Waiter {
    address: AtomicU64,
    bits: AtomicU64,
    woken: AtomicU64,
    /// The word of the priority-inheriting mutex that the thread is to own afterwards; 0: none.
    mutex: AtomicU64,
    home: LastCpu,
}

impl Waiter {
    /// Whether it waits for a word, and for one of these bits.
    #[inline]
    fn waits(&self, address: u64, bits: u32) -> bool {
        self.address.load(Relaxed) == address && self.bits.load(Relaxed) & u64::from(bits) != 0
    }

    /// The record is another thread's from now on.
    pub fn clear(&self) {
        self.mutex.store(0, Relaxed);
    }
}

impl Thread {
    /// It has left the queue, and resumes.
    #[inline]
    fn wake(&self) {
        self.waiter.woken.store(1, SeqCst);
        wait::set_yield_target(self.number());
        self.waiter.home.kick_idle(self.number());
    }
}

/// Threads that wait, those that came first in front.
#[derive(Debug, Default)]
pub struct Futexes {
    waiting: Vec<&'static Thread>,
}

impl Futexes {
    /// Wakes up to `most` of those that wait for `address`; how many there were. Mostly one thread waits at all.
    #[inline(always)]
    fn wake(&mut self, address: u64, most: u64, bits: u32) -> u64 {
        match self.waiting[..] {
            [only] if most != 0 && only.waiter.waits(address, bits) => {
                self.waiting.clear();
                only.wake();
                1
            }
            [] | [_] => 0,
            _ => self.wake_among(address, most, bits),
        }
    }

    #[inline(never)]
    fn wake_among(&mut self, address: u64, most: u64, bits: u32) -> u64 {
        let mut woken = 0;
        self.waiting.retain(|thread| {
            let chosen = woken < most && thread.waiter.waits(address, bits);
            if chosen {
                thread.wake();
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

    /// No thread waits: the running thread is the only one.
    pub fn forget_all(&mut self) {
        self.waiting.clear();
    }
}

/// Waits until woken, if the word still has a value: `EAGAIN` where it has not. `private`: the program says that no
/// other process waits for the word, or wakes who does.
pub fn wait(address: u64, value: u32, bits: u32, deadline: Option<u64>, private: bool) -> Result<()> {
    let address = aligned(address)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    if !private && let Some(word) = shared_word(address)? {
        return wait_for_shared(word, (address, value), bits, deadline);
    }
    enqueue(address, value, bits)?;
    let Err(error) = sleep(deadline) else { return Ok(()) };
    let own = thread();
    process().futexes.lock().waiting.retain(|other| !core::ptr::eq(*other, own));
    // It may have been woken before it left the queue.
    if own.waiter.woken.load(Acquire) != 0 { Ok(()) } else { Err(error) }
}

/// Asks the server about a word of shared memory.
fn ask(operation: Request, words: [u64; 4]) -> Result<[u64; 3]> {
    let [a, b, c, d] = words;
    let [first, second, third, ..] = process().files.lock().on_object(operation, [a, b, c, d, 0])?;
    Ok([first, second, third])
}

/// The word is read when everybody who changes it and then wakes finds this thread waiting.
#[inline(never)]
fn wait_for_shared(word: u64, (address, value): (u64, u32), bits: u32, deadline: Option<u64>) -> Result<()> {
    let still = || if usercopy::read_half(address)? == value { Ok(()) } else { Err(Errno::EAGAIN) };
    still()?;
    let wakes = futex_wakes(thread().number());
    let before = wakes.load(Acquire);
    let home = &thread().waiter.home;
    home.note();
    ask(Request::FutexEnter, [word, u64::from(bits), home.get().0, 0])?;
    let outcome = still().and_then(|()| sleep_for_shared((wakes, before), deadline));
    match outcome {
        Err(error) if ask(Request::FutexLeave, [0; 4])?[0] != 0 => Err(error),
        _ => Ok(()),
    }
}

/// Sleeps until the server has woken this thread. The word that says so is others' too.
fn sleep_for_shared((wakes, mut before): (&AtomicU64, u64), deadline: Option<u64>) -> Result<()> {
    let number = thread().number();
    loop {
        let why = wait::wait(&[word(wakes, Operator::NotEqual, before)], deadline)?;
        let now = wakes.load(Acquire);
        if now == wake_of(number, before) || now != before && ask(Request::FutexWaits, [0; 4])?[0] == 0 {
            return Ok(());
        }
        if why == WakeReason::TimedOut {
            return Err(Errno::ETIMEDOUT);
        }
        before = now;
    }
}

fn enqueue(address: u64, value: u32, bits: u32) -> Result<()> {
    // So that the look at it under the lock does not fault: the fault could need the lock.
    usercopy::read_half(address)?;
    let own = thread();
    let mut futexes = process().futexes.lock();
    if usercopy::read_half(address)? != value {
        return Err(Errno::EAGAIN);
    }
    own.waiter.address.store(address, Relaxed);
    own.waiter.bits.store(u64::from(bits), Relaxed);
    own.waiter.woken.store(0, Relaxed);
    own.waiter.home.note();
    futexes.waiting.push(own);
    Ok(())
}

/// Sleeps until the running thread has been woken.
fn sleep(deadline: Option<u64>) -> Result<()> {
    let woken = &thread().waiter.woken;
    loop {
        let why = wait::wait_for(|| [word(woken, Operator::NotEqual, 0)], deadline)?;
        if woken.load(Acquire) != 0 {
            return Ok(());
        }
        if why == WakeReason::TimedOut {
            return Err(Errno::ETIMEDOUT);
        }
    }
}

/// Wakes threads that wait for a word; how many there were.
pub fn wake(address: u64, most: u64, bits: u32, private: bool) -> Result<u64> {
    let address = aligned(address)?;
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    if !private && let Some(word) = shared_word(address)? {
        return wake_shared(word, most, bits);
    }
    Ok(process().futexes.lock().wake(address, most, bits))
}

#[inline(never)]
fn wake_shared(word: u64, most: u64, bits: u32) -> Result<u64> {
    let [woken, one, _] = ask(Request::FutexWake, [word, most, u64::from(bits), 0])?;
    wait::set_yield_target(one);
    Ok(woken)
}

/// What a requeue is about: two words, how many are to be woken and moved, and the value that the first must have.
#[derive(Clone, Copy, Debug)]
pub struct Requeue {
    /// From which word, and to which.
    pub words: [u64; 2],
    /// How many are woken, and how many moved, at most.
    pub most: [u64; 2],
    /// Only if the first word has this value.
    pub expected: Option<u32>,
}

/// Wakes some, and lets others wait for another word. How many were woken, and how many were moved.
pub fn requeue(request: Requeue, private: bool) -> Result<[u64; 2]> {
    let Requeue { words: [from, to], most: [wake, move_most], expected } = request;
    let (from, to) = (aligned(from)?, aligned(to)?);
    let shared = if private { [None, None] } else { [shared_word(from)?, shared_word(to)?] };
    if expected.is_some() {
        usercopy::prepare(from, 4, false)?;
    }
    let mut futexes = process().futexes.lock();
    if let Some(expected) = expected
        && usercopy::read_half(from)? != expected
    {
        return Err(Errno::EAGAIN);
    }
    match shared {
        [None, None] => {}
        [Some(from), Some(to)] => {
            drop(futexes);
            let [woken, moved, one] = ask(Request::FutexRequeue, [from, to, wake, move_most])?;
            wait::set_yield_target(one);
            return Ok([woken, moved]);
        }
        // No thread waits for memory of one process and of several with the same word.
        _ => return Err(Errno::EINVAL),
    }
    Ok([futexes.wake(from, wake, ANY), futexes.requeue(from, to, move_most)])
}

/// `FUTEX_WAKE_OP`: changes the second word, wakes those of the first, and those of the second if its old value
/// compares.
pub fn wake_and_change([first, second]: [u64; 2], most: [u64; 2], operation: u32, private: bool) -> Result<u64> {
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
    usercopy::prepare(second, 4, true)?;
    let old = usercopy::update_half(second, change)?;
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
    let mut woken = wake(first, most[0], ANY, private)?;
    if also {
        woken += wake(second, most[1], ANY, private)?;
    }
    Ok(woken)
}

/// `FUTEX_LOCK_PI`: takes the mutex whose word names its owner. A caller that blocks donates the rest of its slice to
/// the owner. The waiter that an unlock wakes claims the word itself, so waiters take the mutex in the order of
/// arrival.
///
/// # Errors
/// `EDEADLK` where the caller is the owner; `ESRCH` where no thread is; `EAGAIN` without `may_wait`; `ETIMEDOUT`.
pub fn lock_pi(address: u64, deadline: Option<u64>, private: bool, may_wait: bool) -> Result<()> {
    let address = aligned(address)?;
    usercopy::prepare(address, 4, true)?;
    for_mutex(address, || claim(address, deadline, private, may_wait))
}

/// Does something while an owner that ends finds the running thread as a waiter of this mutex.
fn for_mutex(address: u64, action: impl FnOnce() -> Result<()>) -> Result<()> {
    let mutex = &thread().waiter.mutex;
    mutex.store(address, SeqCst);
    let outcome = action();
    mutex.store(0, SeqCst);
    outcome
}

fn claim(address: u64, deadline: Option<u64>, private: bool, may_wait: bool) -> Result<()> {
    let own = thread().shown_number() as u32;
    let mut has_waited = false;
    loop {
        let old = usercopy::update_half(address, |old| claimed(old, own))?;
        let owner = match old & linux::FUTEX_TID_MASK {
            0 => return Ok(()),
            _ if !may_wait => return Err(Errno::EAGAIN),
            owner => find_owner(owner, private),
        };
        if owner == Owner::Gone && !has_waited {
            return Err(Errno::ESRCH);
        }
        let look = clock::now().saturating_add(OWNER_LOOKS);
        let until = if owner == Owner::Elsewhere { Some(deadline.unwrap_or(u64::MAX).min(look)) } else { deadline };
        match owner {
            Owner::Gone => mark_left(old & linux::FUTEX_TID_MASK, address),
            _ => match wait(address, old | linux::FUTEX_WAITERS, ANY, until, private) {
                Err(Errno::ETIMEDOUT) if until != deadline && deadline.is_none_or(|end| clock::now() < end) => {}
                Ok(()) | Err(Errno::EAGAIN) => {}
                Err(error) => return Err(error),
            },
        }
        has_waited = true;
    }
}

/// The word after a thread has tried to take the mutex: it is the owner, or it waits.
fn claimed(old: u32, own: u32) -> Result<u32> {
    match old & linux::FUTEX_TID_MASK {
        0 => Ok(old | own),
        owner if owner == own => Err(Errno::EDEADLK),
        _ => Ok(old | linux::FUTEX_WAITERS),
    }
}

/// Where the owner of a mutex is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Here,
    /// In another process, which does not report its end to this one: the waiter looks for the owner now and then.
    Elsewhere,
    Gone,
}

/// How often a waiter looks for an owner in another process, in nanoseconds.
const OWNER_LOOKS: u64 = 50_000_000;

/// Looks for the owner, and makes it the target of the next directed yield. A private mutex has an owner in this
/// process.
fn find_owner(owner: u32, private: bool) -> Owner {
    let number = u64::from(owner);
    let is_owner = |thread: &&&'static Thread| thread.shown_number() == number;
    let found = process().threads.lock().iter().find(is_owner).map(|thread| thread.number());
    wait::set_yield_target(found.unwrap_or(0));
    match found {
        Some(_) => Owner::Here,
        None if !private && (process_table::find(number).is_some() || exposed::lives(EnvironmentId(number))) => {
            Owner::Elsewhere
        }
        None => Owner::Gone,
    }
}

/// `FUTEX_WAIT_REQUEUE_PI`: waits for the first word until another thread lets the caller wait for the mutex at the
/// second one, and takes that.
pub fn wait_requeue_pi([from, to]: [u64; 2], value: u32, deadline: Option<u64>, private: bool) -> Result<()> {
    let (from, to) = (aligned(from)?, aligned(to)?);
    if from == to {
        return Err(Errno::EINVAL);
    }
    usercopy::prepare(to, 4, true)?;
    for_mutex(to, || wait(from, value, ANY, deadline, private))?;
    lock_pi(to, deadline, private, true)
}

/// `FUTEX_CMP_REQUEUE_PI`: wakes one thread, which takes the mutex at the second word or waits for it, and lets others
/// wait for that mutex. How many threads these are.
///
/// # Errors
/// `EINVAL` where a thread waits for the first word otherwise than by [`wait_requeue_pi`] for this mutex; `EAGAIN`
/// where the first word has another value.
pub fn requeue_pi(request: Requeue, private: bool) -> Result<u64> {
    let [from, to] = request.words;
    if from == to || request.most[0] != 1 {
        return Err(Errno::EINVAL);
    }
    let (from, to) = (aligned(from)?, aligned(to)?);
    usercopy::prepare(to, 4, true)?;
    let waits = |thread: &&&'static Thread| thread.waiter.waits(from, ANY);
    let waiting: Vec<u64> = {
        let futexes = process().futexes.lock();
        futexes.waiting.iter().filter(waits).map(|thread| thread.waiter.mutex.load(Relaxed)).collect()
    };
    if waiting.iter().any(|mutex| *mutex != to) {
        return Err(Errno::EINVAL);
    }
    if !private || waiting.len() > 1 {
        // The thread that takes the mutex first must not free it without a call.
        usercopy::update_half(to, |old| Ok(old | linux::FUTEX_WAITERS))?;
    }
    requeue(request, private).map(|[woken, moved]| woken + moved)
}

/// A thread that ends leaves its priority-inheriting mutexes: each that another thread of the process waits for is
/// marked as left by its owner, and its first waiter takes it. The thread is in no list of threads any more.
pub fn release_inheriting(ended: &Thread) {
    let of = |thread: &&'static Thread| thread.waiter.mutex.load(SeqCst);
    let mut words: Vec<u64> = process().threads.lock().iter().map(of).filter(|word| *word != 0).collect();
    words.sort_unstable();
    words.dedup();
    for word in words {
        mark_left(ended.shown_number() as u32, word);
    }
}

/// `FUTEX_UNLOCK_PI`: frees the word and wakes the first waiter. The bit of waiters stays while a woken waiter is about
/// to claim the word, so that no other thread takes the word without this call.
///
/// # Errors
/// `EPERM` where the caller is not the owner.
pub fn unlock_pi(address: u64, private: bool) -> Result<()> {
    let address = aligned(address)?;
    usercopy::prepare(address, 4, true)?;
    let own = thread().shown_number() as u32;
    let freed = |old: u32| match old & linux::FUTEX_TID_MASK == own {
        true => Ok(old & linux::FUTEX_WAITERS),
        false => Err(Errno::EPERM),
    };
    let old = usercopy::update_half(address, freed)?;
    if old & linux::FUTEX_WAITERS != 0 && wake(address, 1, ANY, private)? == 0 {
        // A word that another thread has claimed meanwhile stays as it is.
        let unclaimed = |old: u32| if old == linux::FUTEX_WAITERS { Ok(0) } else { Err(Errno::EAGAIN) };
        let _ = usercopy::update_half(address, unclaimed);
    }
    Ok(())
}

/// What a thread leaves locked is marked as left by its owner (`set_robust_list`). Nothing of the list is trusted.
pub fn release_robust_list(thread: &Thread) {
    let head = thread.take_robust_list();
    if head == 0 {
        return;
    }
    let Ok([mut entry, offset, pending]) = usercopy::read_words::<3>(head) else { return };
    let mut entries = Vec::new();
    while entry & !1 != head && entry != 0 && entries.len() < ROBUST_MOST {
        entries.push(entry & !1);
        let Ok(next) = usercopy::read_word(entry & !1) else { break };
        entry = next;
    }
    if pending != 0 {
        entries.push(pending & !1);
    }
    for entry in entries {
        mark_left(thread.shown_number() as u32, entry.wrapping_add(offset));
    }
}

/// The word of a robust mutex after its owner has ended; none where it has another owner.
pub fn left_by(owner: u32, old: u32) -> Option<u32> {
    (old & linux::FUTEX_TID_MASK == owner).then_some(old & linux::FUTEX_WAITERS | linux::FUTEX_OWNER_DIED)
}

fn mark_left(owner: u32, address: u64) {
    if aligned(address).is_err() || usercopy::prepare(address, 4, true).is_err() {
        return;
    }
    let change = |old: u32| left_by(owner, old).ok_or(Errno::EPERM);
    let has_waiters = usercopy::update_half(address, change).is_ok_and(|old| old & linux::FUTEX_WAITERS != 0);
    // A program may have said of a word in shared memory that no other process waits for it.
    if has_waiters && wake(address, 1, ANY, true) == Ok(0) {
        let _ = wake(address, 1, ANY, false);
    }
}

/// Clears the word that a thread's end clears, and wakes who waits for it.
pub fn clear_at_end(thread: &Thread) {
    let address = thread.clear_at_end.swap(0, Relaxed);
    if address != 0 && usercopy::write_half(address, 0).is_ok() {
        let _ = wake(address, 1, ANY, false);
    }
}

fn aligned(address: u64) -> Result<u64> {
    usercopy::check(address, 4)?;
    if address.is_multiple_of(4) { Ok(address) } else { Err(Errno::EINVAL) }
}

/// The name of a word that other processes may wait for: its page and its place there. A page that will be written must
/// be there first: the page read from a hole in a file is not the page that is written. A word that is never written
/// has no name (`EFAULT`).
fn shared_word(address: u64) -> Result<Option<u64>> {
    let area = process().memory.lock().space.areas.find(address).copied().ok_or(Errno::EFAULT)?;
    let can_write = area.protection.allows(Protection::WRITE);
    usercopy::prepare(address, 4, area.shared && can_write)?;
    if !area.shared && !can_write && area.node().is_none() {
        return Err(Errno::EFAULT);
    }
    if !area.shared {
        return Ok(None);
    }
    let page = page_of(process().memory.lock().space.frames.get(address));
    Ok((page != 0).then_some(page * PAGE_SIZE + address % PAGE_SIZE))
}
