//! Child subreapers: the nearest ancestor with `PR_SET_CHILD_SUBREAPER` (prctl(2)) adopts the children of a process
//! that ends. Of all others the session takes care.
//!
//! The exiting process asks it to (`request::adopt_to_path`). The subreaper writes itself into the child's public page,
//! which it opens by the right of its user, and keeps a window onto it, where the status will stand. The session
//! reclaims the parts of the child, as of any orphan. Any process may ask. The subreaper adopts a child only if its
//! parent says that it gives its children up. The child must be its descendant, too, by the public pages of the child
//! and of those above it. A process that lies gives away only its own children. A process that the kernel destroys asks
//! for no adoption.

use crate::process::children::Child;
use crate::process::current::process;
use crate::process::environment::EnvironmentRef;
use crate::process_table::{self, ProcessInfo, ProcessTable};
use crate::signal::remote_call;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::process::exit_status::Status;
use unix_core::process::public_page::{self as public, STATUS_WORD};
use unix_core::process::remote_request;
use unix_core::signal::frame::Information;

/// Generations that are looked through: what says that it lies deeper lies about it, mostly.
const GENERATIONS: usize = 1024;
/// Children that one request names.
const AT_ONCE: usize = 64;

/// Asks the nearest subreaper, if there is one, to adopt the children of the running process, which ends.
pub fn hand_on(children: &[Child]) {
    if children.is_empty() {
        return;
    }
    process().public_word(public::GIVES_UP).store(1, SeqCst);
    let Some(reaper) = above(process().environment()).find(|other| other.reaps) else { return };
    let numbers: Vec<u64> = children.iter().map(|child| child.made.number.0).collect();
    // Those that it does not take stay the session's.
    requests(&numbers).for_each(|path| drop(remote_call::request(reaper.environment, &path)));
}

/// The same of a process that does not do it itself, and is destroyed soon: whether an adopter was asked.
/// `public` is the public page of the process.
pub fn hand_on_for(sight: ProcessTable, number: u64, children: &[u64], public: &Window, ask: Ask<'_>) -> bool {
    let Some(reaper) = above_in(sight, number).find(|other| other.reaps) else { return false };
    public.words()[public::GIVES_UP].store(1, SeqCst);
    requests(children).for_each(|path| _ = ask(&reaper, &path));
    true
}

/// How [`hand_on_for`] asks.
pub type Ask<'a> = &'a dyn Fn(&ProcessInfo, &str) -> Result<()>;

/// The requests to adopt such children.
fn requests(children: &[u64]) -> impl Iterator<Item = String> {
    children.chunks(AT_ONCE).map(remote_request::adopt_to_path)
}

/// Those that live above a process, the nearest first.
fn above(number: u64) -> impl Iterator<Item = ProcessInfo> {
    above_in(process_table::sight(), number)
}

fn above_in(sight: ProcessTable, number: u64) -> impl Iterator<Item = ProcessInfo> {
    let parent = move |number: u64| sight.find(sight.find_any(number)?.parent);
    core::iter::successors(parent(number), move |other| parent(other.environment)).take(GENERATIONS)
}

/// Adopts those that a request names.
pub fn answer(path: &str) -> Result<Vec<u8>> {
    let numbers = remote_request::adopt_from_path(path).ok_or(Errno::EINVAL)?;
    if process().public_word(public::REAPS).load(Acquire) == 0 {
        return Err(Errno::ESRCH);
    }
    numbers.into_iter().for_each(|number| {
        let _ = adopt(number);
    });
    Ok(Vec::new())
}

fn adopt(number: u64) -> Result<()> {
    let process = process();
    let other = process_table::find_any(number).ok_or(Errno::ESRCH)?;
    let is_known = process.children.lock().all.iter().any(|child| child.number() == other.environment);
    let is_given_up = process_table::find(other.parent).is_some_and(|parent| parent.gives_up);
    if is_known || !is_given_up || !above(number).any(|one| one.environment == process.environment()) {
        return Err(Errno::ESRCH);
    }
    let environment = EnvironmentId(other.environment);
    let info = exposed::environment(environment).ok_or(Errno::ESRCH)?;
    let pages = vec![PageNumber(info.public.load(Acquire)), other.mailbox];
    let list = exposed::page(PageNumber(info.root.load(Acquire))).ok_or(Errno::ESRCH)?.access();
    // Nothing is written into the mailbox of one that has ended: the page may have no owner.
    let public = process.mappings.lock().open_own(pages, process.session_key, !other.ended)?;
    if !other.ended {
        public.words()[public::ADOPTED].store(process.environment(), SeqCst);
    }
    let said = Status::from_word(public.words()[STATUS_WORD].load(SeqCst));
    let made = EnvironmentRef { number: environment, public: public.pages()[0], list };
    let child = Child {
        made,
        public,
        parts: None,
        heap_pages: Vec::new(),
        last_reported: 0,
        is_adopted: true,
        is_remnant: false,
    };
    process.children.lock().all.push(child);
    // One that said how it ends before it could know of this told another one.
    let (code, value) = said.map_or((0, 0), Status::information);
    let signal = if said.is_some() { linux::SIGCHLD } else { 0 };
    let detail = number & 0xffff_ffff | u64::from(other.user[0]) << 32;
    process.signal.page.tell_of_child(&Information { signal, code: code as i32, detail, value: u64::from(value) });
    Ok(())
}
