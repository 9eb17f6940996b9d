//! A thread: one environment of a process, and what is its own.
//!
//! The record lies in the heap, found through a pointer in the environment area. All of it is changed by the thread
//! itself, but for the signals that others send to it.

pub mod thread_create;
pub mod thread_credentials;

use crate::attributes::ThreadAttributes;
use crate::hw::current::process;
use crate::hw::thread_context::ThreadContext;
use crate::process::futex::Waiter;
use crate::signal::{Inbox, SecondQueue};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::PageNumber;
use runtime::area::{self, Area};
use runtime::lock::Lock;
use runtime::upcall::Context;
use unix_core::process::nice_share::FairShare;
use unix_core::process::public_page as public;
use unix_core::signal::pending::{PENDING, PendingSignals, THREAD_WORDS};
use unix_core::signal::set::UNSTOPPABLE;

/// Bit of [`Thread::at_end`].
const SAVED_MASK: u64 = 1;
/// Flag of an alternate stack: see [`Thread::disarm_alternate`] (`SS_AUTODISARM`).
const AUTODISARM: u64 = 1 << 31;

/// A thread.
#[derive(Debug)]
pub struct Thread {
    /// Its context.
    pub context: ThreadContext,
    /// Error code, trap number and address of a fault that is about to be delivered.
    pub fault: Lock<Option<[u64; 3]>>,
    /// Its name, with zeros behind it; that of the first thread is the process's.
    name: [AtomicU64; 2],
    /// Address of the word that is cleared when it ends (`set_tid_address`); 0: none.
    pub clear_at_end: AtomicU64,
    /// Address of its list of robust futexes; 0: none.
    robust_list: AtomicU64,
    /// Address of its environment area.
    pub area: AtomicU64,
    /// Pages that its environment is made of, where it is not the process's first.
    pub pages: Lock<Vec<PageNumber>>,
    /// Where it begins, until it has begun.
    pub start: Lock<Option<Context>>,
    /// The slices that it has left to others, if it is nice.
    pub turns: Lock<FairShare>,
    /// Whether its call has noted descriptions that it uses.
    pub notes_uses: AtomicBool,
    /// Bells that it has to ring, from bit 0 on: see `pipe::bells`.
    pub bells: AtomicU64,
    /// Its credentials and CPUs.
    pub attributes: ThreadAttributes,
    /// Whether it is in the strict mode of seccomp(2).
    pub is_confined: AtomicBool,
    /// One more than `Process::watched_closes` when its call first watched something for the coming sleep; 0: it
    /// watches nothing.
    pub watches_since: AtomicU64,
    /// The futex that it waits for.
    pub waiter: Waiter,
    /// The thread that it woke since it last waited itself: see `wait::directed_yield`.
    pub awakened: AtomicU64,
    /// Its wait met a signal that ends it, and it has looked since: see `wait::wait`.
    pub signalled: AtomicBool,
    /// Signals that wait.
    blocked: AtomicU64,
    /// What the end of the call does in addition to pending signals; 0: nothing. [`SAVED_MASK`]: restore a mask once
    /// the next signal was delivered (`sigsuspend`). Other values: a signal that the call sent to its own thread, see
    /// [`Self::send_at_end`].
    pub at_end: AtomicU64,
    /// That mask.
    saved_mask: AtomicU64,
    /// See [`Self::alternate_words`].
    alternate: [AtomicU64; 3],
    post: [AtomicU64; THREAD_WORDS],
    /// Signals for this thread that found no room there.
    pub second: SecondQueue,
}

impl Deref for Thread {
    type Target = ThreadContext;
    fn deref(&self) -> &ThreadContext {
        &self.context
    }
}

impl Thread {
    /// The record of a thread that does not run yet.
    pub fn new() -> Result<Self> {
        Ok(Self {
            context: ThreadContext::new()?,
            fault: Lock::new(None),
            name: Default::default(),
            clear_at_end: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            attributes: ThreadAttributes::default(),
            area: AtomicU64::new(0),
            pages: Lock::new(Vec::new()),
            start: Lock::new(None),
            turns: Lock::new(FairShare::default()),
            notes_uses: AtomicBool::new(false),
            bells: AtomicU64::new(0),
            is_confined: AtomicBool::new(false),
            watches_since: AtomicU64::new(0),
            waiter: Waiter::default(),
            awakened: AtomicU64::new(0),
            signalled: AtomicBool::new(false),
            blocked: AtomicU64::new(0),
            at_end: AtomicU64::new(0),
            saved_mask: AtomicU64::new(0),
            alternate: Default::default(),
            post: [const { AtomicU64::new(0) }; THREAD_WORDS],
            second: SecondQueue::default(),
        })
    }

    /// Its number, as programs see it: that of the process where it is the first thread.
    pub fn shown_number(&self) -> u64 {
        let process = crate::hw::current::process();
        if process.is_first(self) { process.number() } else { self.number() }
    }

    /// Its name.
    pub fn name(&self) -> Vec<u8> {
        let process = crate::hw::current::process();
        if process.is_first(self) {
            return process.program.lock().name.clone();
        }
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
    }

    /// Gives it a name of 15 bytes at most; that of the first thread everybody sees.
    pub fn set_name(&self, name: Vec<u8>) {
        let process = crate::hw::current::process();
        if process.is_first(self) {
            return process.set_name(name);
        }
        self.note_name(&name);
    }

    /// Sets the name of a thread that is not the first one, or does not run yet.
    pub fn note_name(&self, name: &[u8]) {
        let mut bytes = [0; 16];
        let length = name.len().min(bytes.len() - 1);
        bytes[..length].copy_from_slice(&name[..length]);
        for (word, bytes) in self.name.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
    }

    /// The running environment is this thread from now on, in a process that was just copied: what its parent left
    /// pending is the parent's.
    pub fn begin_again(&self) {
        self.number.store(area::number().0, Relaxed);
        self.area.store(area::Area::current().address(), Relaxed);
        self.pages.lock().clear();
        self.cpu_time.clear();
        self.awakened.store(0, Relaxed);
        self.post().drop_all(u64::MAX);
        self.robust_list.store(0, Relaxed);
        self.clear_at_end.store(0, Relaxed);
        self.set_blocked(self.blocked());
    }

    /// The record is another thread's from now on, which does not run yet.
    pub fn reset(&self, blocked: u64) {
        self.number.store(0, Relaxed);
        self.area.store(0, Relaxed);
        self.pages.lock().clear();
        self.post().drop_all(u64::MAX);
        self.robust_list.store(0, Relaxed);
        self.waiter.clear();
        self.attributes.own_credentials.free_copy();
        self.attributes.own_credentials.clear();
        self.at_end.store(0, Relaxed);
        self.is_confined.store(false, Relaxed);
        self.cpu_time.clear();
        self.awakened.store(0, Relaxed);
        self.set_alternate([0; 3]);
        *self.fault.lock() = None;
        self.set_blocked(blocked);
    }

    /// Signals for this thread alone.
    #[inline]
    pub fn post(&self) -> Inbox<'_> {
        // The record of a thread outlives the thread.
        let words = PendingSignals::new(crate::hw::current::forever(&self.post));
        Inbox { words, second: &self.second }
    }

    /// The set of signals that came for this thread alone.
    #[inline]
    pub fn pending(&self) -> &AtomicU64 {
        &self.post[PENDING]
    }

    /// Address of its list of robust futexes; 0: none.
    pub fn robust_list(&self) -> u64 {
        self.robust_list.load(Relaxed)
    }

    /// The running thread has another list of robust futexes. The session reads its address where it destroys
    /// the process.
    pub fn set_robust_list(&self, head: u64) {
        self.robust_list.store(head, Relaxed);
        Area::current().public_library(public::ROBUST_LIST - public::BASE).store(head, Release);
    }

    /// The list of a thread that ends or executes a program: it has none from then on.
    pub fn take_robust_list(&self) -> u64 {
        let head = self.robust_list.load(Relaxed);
        if head != 0 {
            self.set_robust_list(0);
        }
        head
    }

    /// Signals that wait.
    #[inline]
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Acquire)
    }

    /// Sets which signals wait.
    #[inline]
    pub fn set_blocked(&self, blocked: u64) {
        let blocked = blocked & !UNSTOPPABLE;
        self.blocked.store(blocked, SeqCst);
        let shown = Area::current().public_library(public::BLOCKED - public::BASE);
        shown.store(blocked, Relaxed);
    }

    /// Sets which signals wait, until the next one was delivered: the mask from before comes back then.
    pub fn block_for_now(&self, blocked: u64) {
        self.saved_mask.store(self.blocked(), Relaxed);
        self.at_end.store(SAVED_MASK, Relaxed);
        self.set_blocked(blocked);
    }

    /// Puts the mask back that was there before [`Self::block_for_now`].
    #[inline]
    pub fn restore_mask(&self) {
        if self.at_end.swap(0, Relaxed) == SAVED_MASK {
            self.set_blocked(self.saved_mask.load(Relaxed));
        }
    }

    /// The mask that a handler is to find in its frame, from where it comes back.
    #[inline]
    pub fn take_saved_mask(&self) -> u64 {
        if self.at_end.swap(0, Relaxed) == SAVED_MASK { self.saved_mask.load(Relaxed) } else { self.blocked() }
    }

    /// The end of the running call is to deliver a signal to its thread: a set of one, below 32. False where there is
    /// something else to do at that end.
    #[inline]
    pub fn send_at_end(&self, signal: u64, code: i32) -> bool {
        let is_free = self.at_end.load(Relaxed) == 0;
        if is_free {
            self.at_end.store(u64::from(code as u32) << 32 | signal << 1, Relaxed);
        }
        is_free
    }

    /// Takes that signal, and its code.
    #[inline]
    pub fn take_sent(&self) -> Option<(u64, i32)> {
        let at_end = self.at_end.load(Relaxed);
        if !self.has_sent() {
            return None;
        }
        self.at_end.store(0, Relaxed);
        Some((u64::from(at_end as u32 >> 1), (at_end >> 32) as i32))
    }

    /// Whether its call has sent it a signal, which [`Thread::take_sent`] takes.
    #[inline]
    pub fn has_sent(&self) -> bool {
        self.at_end.load(Relaxed) > SAVED_MASK
    }

    /// Signals for the process that one of its threads takes: as on Linux the first thread goes before the others,
    /// which are left those that it blocks. What no function of the program handles means the same wherever it is met.
    pub fn takes(&self) -> u64 {
        let process = process();
        if process.is_first(self) {
            return !self.blocked();
        }
        let [blocked, caught] = [public::BLOCKED, public::CAUGHT].map(|word| process.public_word(word).load(Acquire));
        !self.blocked() & (blocked | !caught)
    }

    /// The words of the alternate stack: address, flags as the program set them, and size, 0 where there is none.
    #[inline]
    pub fn alternate_words(&self) -> &[AtomicU64; 3] {
        &self.alternate
    }

    /// The alternate stack as `sigaltstack` tells it to a program whose stack pointer is `stack`.
    pub fn alternate(&self, stack: u64) -> [u64; 3] {
        let [base, flags, size] = [0, 1, 2].map(|index: usize| self.alternate[index].load(Relaxed));
        let on_it = flags & AUTODISARM == 0 && stack > base && stack - base <= size;
        let state = match size {
            0 => linux::SS_DISABLE,
            _ if on_it => linux::SS_ONSTACK,
            _ => 0,
        };
        [base, flags & AUTODISARM | u64::from(state), size]
    }

    /// Sets the alternate stack for a program whose stack pointer is `stack`: who runs on it keeps it (sigaltstack(2)).
    pub fn change_alternate(&self, stack: u64, [base, flags, size]: [u64; 3]) -> Result<()> {
        if self.alternate(stack)[1] & u64::from(linux::SS_ONSTACK) != 0 {
            return Err(Errno::EPERM);
        }
        let flags = u64::from(flags as u32);
        match (flags & !AUTODISARM) as u32 {
            linux::SS_DISABLE => self.set_alternate([0, flags, 0]),
            0 | linux::SS_ONSTACK if size < u64::from(linux::MINSIGSTKSZ) => return Err(Errno::ENOMEM),
            0 | linux::SS_ONSTACK => self.set_alternate([base, flags, size]),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// A handler that begins on the alternate stack has none, where the program wanted it so, until it returns.
    pub fn disarm_alternate(&self) {
        if self.alternate[1].load(Relaxed) & AUTODISARM != 0 {
            self.set_alternate([0, linux::SS_DISABLE.into(), 0]);
        }
    }

    /// Sets the words of the alternate stack; no bytes: none.
    pub fn set_alternate(&self, [base, flags, size]: [u64; 3]) {
        for (word, value) in self.alternate.iter().zip([base, flags, size]) {
            word.store(value, Relaxed);
        }
    }
}
