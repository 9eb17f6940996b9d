//! A child of `vfork` that has not begun.
//!
//! Between `vfork` and `execve` or `_exit` a child has its parent's memory, and its parent stands still. So the
//! parent's own environment runs the program for it. That ends when the child asks for something that only a process of
//! its own can do, or that must not happen to its parent; `syscalls::deferred_vfork` lists those calls.
//! Mostly that is `execve`: the child begins in the new program, and neither the old one's memory nor its tables were
//! ever made for it. A program that cannot be executed, and an end at once, take no environment at all. Any other call,
//! and a fault that would be a signal, first materializes the child, on its parent's memory as ever (`vfork_sharing`),
//! and the child repeats it.
//!
//! Invariants while there is one:
//! - The process has one thread, whose signals all wait; those that cannot wait are its parent's.
//! - `getpid` returns the child's number.
//! - Calls go by a table of their own, and change nothing but memory.

use crate::hw::current::word;
use crate::hw::fpu;
use crate::process::call::make_again;
use crate::process::children::Child;
use crate::process::current::{process, thread};
use crate::process::exec_request::ExecRequest;
use crate::process::fork;
use crate::process::fork::fork_state::{DeferredChild, Options};
use crate::process::fork::vfork_sharing::SharedMemoryLink;
use crate::process::process_record::Process;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::errno::{Errno, Result};
use runtime::area::Area;
use runtime::upcall::Context;
use runtime::{EnvironmentId, syscall};
use unix_core::process::exit_status::Status;
use unix_core::process::public_page::STATUS_WORD;
use unix_core::signal::frame::Information;

/// Whether a child of the running thread may wait to begin.
pub fn can_be(process: &Process) -> bool {
    process.is_first(thread())
        && process.threads.lock().len() == 1
        && !process.attributes.credentials.differ()
        && process.calls.is_of_image()
        && process.vfork_link.lock().is_none()
}

/// From now on the program runs as its own child. The parent resumes at `parent` when that is over.
///
/// # Errors
/// Whatever keeps an environment from being made.
pub fn defer(parent: &Context, exit_signal: u32) -> Result<()> {
    crate::budget::reserve_or_fail(crate::process::fork::FOR_THE_REST)?;
    let process = process();
    process.reclaim_first();
    let number = process.spawn_cache.lock().reserve()?;
    let vectors = fpu::keep()?;
    let blocked = thread().signals.blocked();
    let unborn = DeferredChild { parent: *parent, vectors, blocked_by_parent: blocked, blocked, exit_signal };
    Box::new(unborn).go_on(number);
    Ok(())
}

impl DeferredChild {
    /// The program runs as the child.
    fn go_on(self: Box<Self>, number: u64) {
        let process = process();
        thread().signals.set_blocked(u64::MAX);
        Area::current().library().free[word::NUMBER].store(number, Relaxed);
        process.calls.set(process.calls.image().unborn);
        *process.deferred_child.lock() = Some(self);
    }

    /// The process is what it was before, but for what the child blocks. Nothing: there is no such child.
    fn take() -> Option<Box<Self>> {
        let process = process();
        let unborn = process.deferred_child.lock().take()?;
        process.calls.reset();
        Area::current().library().free[word::NUMBER].store(process.number(), Relaxed);
        thread().signals.set_blocked(unborn.blocked);
        Some(unborn)
    }

    /// The parent resumes: it has a child of this number.
    fn end(self: Box<Self>, context: &mut Context, child: u64) {
        thread().signals.set_blocked(self.blocked_by_parent);
        *context = self.parent;
        context.registers.rax = child;
        fpu::put_back(self.vectors);
    }

    /// Has the child begin at `there`.
    fn begin(self: Box<Self>, context: &mut Context, there: &Context) {
        let child = SharedMemoryLink::new(true).and_then(|loan| {
            let options = Options { exit_signal: self.exit_signal, vfork_link: Some(loan.clone()), ..Options::PLAIN };
            let child = fork::fork(there, options);
            if let Ok(child) = child {
                loan.wait(EnvironmentId(child));
            }
            loan.close();
            child
        });
        match child {
            Ok(child) => self.end(context, child),
            // As where there is no memory for a process that has begun.
            Err(_) => self.end_at_once(context, Status::Killed(linux_raw_sys::general::SIGKILL)),
        }
    }

    /// The child ends without having begun.
    fn end_at_once(self: Box<Self>, context: &mut Context, status: Status) {
        match leave(status, self.exit_signal) {
            Ok(child) => self.end(context, child),
            Err(error) => self.end(context, error.to_register()),
        }
    }
}

/// Sets which signals the child blocks, by a call of its own.
pub fn with_mask<T>(action: impl FnOnce() -> T) -> T {
    let process = process();
    let blocked = process.deferred_child.lock().as_ref().map_or(0, |unborn| unborn.blocked);
    thread().signals.set_blocked(blocked);
    let outcome = action();
    process.deferred_child.lock().iter_mut().for_each(|unborn| unborn.blocked = thread().signals.blocked());
    thread().signals.set_blocked(u64::MAX);
    outcome
}

/// The child begins, and makes the call that it is about to make once more.
pub fn materialize(context: &mut Context) {
    let mut there = *context;
    make_again(&mut there);
    if let Some(unborn) = DeferredChild::take() {
        unborn.begin(context, &there);
    }
}

/// The child begins where its program cannot go on, if there is one: the fault is its own.
pub fn begin_at_fault(context: &mut Context) -> bool {
    let there = *context;
    DeferredChild::take().map(|unborn| unborn.begin(context, &there)).is_some()
}

/// The child begins with another program.
///
/// # Errors
/// The reason why no process can be made: the child stays deferred.
pub fn execute(context: &mut Context, request: ExecRequest) -> Result<()> {
    let process = process();
    let Some(unborn) = DeferredChild::take() else { return Err(Errno::EAGAIN) };
    *process.exec.lock() = Some(Box::new(request));
    let options = Options { exit_signal: unborn.exit_signal, executes: true, ..Options::PLAIN };
    let child = fork::fork(&Context::default(), options);
    let request = process.exec.lock().take();
    request.iter().for_each(|request| request.close());
    match child {
        Ok(child) => unborn.end(context, child),
        Err(error) => {
            let number = process.spawn_cache.lock().reserve()?;
            unborn.go_on(number);
            return Err(error);
        }
    }
    Ok(())
}

/// The child ends.
pub fn exit(context: &mut Context, status: Status) {
    if let Some(unborn) = DeferredChild::take() {
        unborn.end_at_once(context, status);
    }
}

/// Leaves what a child leaves that has begun and ended; its number.
fn leave(status: Status, exit_signal: u32) -> Result<u64> {
    let process = process();
    let key = process.session_key;
    let mut nursery = process.spawn_cache.lock();
    let mut ready = nursery.prepare()?;
    nursery.is_busy = false;
    drop(nursery);
    fork::introduce(&ready);
    ready.begin();
    let crate::process::spawn_cache::spare_environment::SpareEnvironment { made, public, parts: room } = ready;
    public.words()[STATUS_WORD].store(status.to_word(), Release);
    // Nothing of it is there to be released: it is over with the first step.
    let _ = syscall::environment_destroy(key, made.number);
    let number = made.number.0;
    let child = Child {
        made,
        public,
        parts: Some(room),
        heap_pages: Vec::new(),
        last_reported: 0,
        is_adopted: false,
        is_remnant: false,
    };
    process.children.lock().all.push(child);
    let (code, value) = status.information();
    let detail = number & 0xffff_ffff | process.attributes.sender() & !0xffff_ffff;
    let information = Information { signal: exit_signal, code: code as i32, detail, value: u64::from(value) };
    process.signal.page.tell_of_child(&information);
    Ok(number)
}
