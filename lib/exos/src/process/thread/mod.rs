//! A thread: one environment of a process, and what is its own.
//!
//! The record lies in the heap, found through a pointer in the environment area. All of it is changed by the thread
//! itself, but for the signals that others send to it.

pub mod thread_create;
pub mod thread_credentials;

use crate::attributes::ThreadAttributes;
use crate::hw::domain::domain;
use crate::hw::thread_context::ThreadContext;
use crate::process::current::process;
use crate::process::futex::Waiter;
use crate::signal::ThreadSignals;
use crate::upcalls::EachThread;
use crate::wait::WaitState;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use linux_abi::errno::Result;
use runtime::area::{self, Area};
use runtime::lock::Lock;
use runtime::upcall::Context;
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::process::nice_share::FairShare;
use unix_core::process::public_page as public;

/// A thread.
#[derive(Debug)]
pub struct Thread {
    /// Its context.
    pub context: ThreadContext,
    /// Its name, with zeros behind it; that of the first thread is the process's.
    name: [AtomicU64; 2],
    /// Address of the word that is cleared when it ends (`set_tid_address`); 0: none.
    pub clear_at_end: AtomicU64,
    /// Address of its list of robust futexes; 0: none.
    robust_list: AtomicU64,
    /// Address of its environment area; 0: it has none.
    pub area: AtomicU64,
    /// Control page, key ring, and pages of the area of its environment, where it is not the process's first. They stay
    /// with the record of a thread that ended, until they are freed.
    pub pages: Lock<Vec<PageNumber>>,
    /// Where it begins, until it has begun.
    pub start: Lock<Option<Context>>,
    /// The slices that it has left to others, if it is nice.
    pub turns: Lock<FairShare>,
    /// Its credentials and CPUs.
    pub attributes: ThreadAttributes,
    /// Whether it has ended by itself, and uses nothing of its process any more.
    pub has_left: AtomicBool,
    /// Whether it is in the strict mode of seccomp(2).
    pub is_confined: AtomicBool,
    /// The futex that it waits for.
    pub waiter: Waiter,
    /// What its next wait and the end of its call have to do.
    pub waits: WaitState,
    /// Its signals.
    pub signals: ThreadSignals,
}

/// A thread that has ended or is about to: what it was made of.
#[derive(Clone, Debug)]
pub struct DeadThread {
    pub thread: &'static Thread,
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
        let context = ThreadContext::new()?;
        let vector_bytes = context.vectors.lock().bytes().len() as u64;
        Ok(Self {
            context,
            name: Default::default(),
            clear_at_end: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            attributes: ThreadAttributes::default(),
            area: AtomicU64::new(0),
            pages: Lock::new(Vec::new()),
            start: Lock::new(None),
            turns: Lock::new(FairShare::default()),
            has_left: AtomicBool::new(false),
            is_confined: AtomicBool::new(false),
            waiter: Waiter::default(),
            waits: WaitState::default(),
            signals: ThreadSignals::new(vector_bytes),
        })
    }

    /// Its number, as programs see it: that of the process where it is the first thread.
    pub fn shown_number(&self) -> u64 {
        domain().shown_number(self)
    }

    /// Its name.
    pub fn name(&self) -> Vec<u8> {
        let process = crate::process::current::process();
        if process.is_first(self) {
            return process.program.lock().name.clone();
        }
        let bytes: Vec<u8> = self.name.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
    }

    /// Gives it a name of 15 bytes at most; that of the first thread everybody sees.
    pub fn set_name(&self, name: Vec<u8>) {
        let process = crate::process::current::process();
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
        self.forget_parts();
        self.area.store(area::Area::current().address(), Relaxed);
        self.cpu_time.clear();
        self.waits.awakened.store(0, Relaxed);
        self.signals.post().drop_all(u64::MAX);
        self.robust_list.store(0, Relaxed);
        self.clear_at_end.store(0, Relaxed);
        self.signals.set_blocked(self.signals.blocked());
    }

    /// Whether it has what another environment can be made of.
    pub fn has_parts(&self) -> bool {
        self.area.load(Relaxed) != 0
    }

    /// The record was copied with its process: its parts belong to the original.
    pub fn forget_parts(&self) {
        self.pages.free_copy();
        self.pages.lock().clear();
        self.area.store(0, Relaxed);
    }

    /// The record is another thread's from now on, which does not run yet.
    pub fn reset(&self, blocked: u64) {
        self.number.store(0, Relaxed);
        self.signals.post().drop_all(u64::MAX);
        self.robust_list.store(0, Relaxed);
        self.waiter.clear();
        self.attributes.own_credentials.free_copy();
        self.attributes.own_credentials.clear();
        self.signals.at_end.store(0, Relaxed);
        self.has_left.store(false, Relaxed);
        self.is_confined.store(false, Relaxed);
        self.cpu_time.clear();
        self.waits.awakened.store(0, Relaxed);
        self.signals.set_alternate([0; 3]);
        *self.signals.fault.lock() = None;
        self.signals.set_blocked(blocked);
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
}

impl DeadThread {
    /// Whether it does nothing any more that its process could miss.
    pub fn is_over(&self) -> bool {
        self.thread.has_left.load(Acquire) || !exposed::lives(EnvironmentId(self.thread.number()))
    }
}

/// Does something with each thread of the running process, while the list of threads is locked.
pub fn each(action: EachThread<'_>) {
    process().threads.lock().iter().for_each(|thread| action(&thread.context, &thread.signals));
}
