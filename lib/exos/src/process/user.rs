//! Another user: what a process does before the guardian takes the key of its old one (see `guardian::keys`).
//!
//! From then on it opens only what its new user may. What it has from relatives of the old one it makes its own, while it
//! still can: memory that is copied when it is written is copied now, and what it shares on purpose (pipes, offsets,
//! sockets, shared memory) it takes over, page by page, under a list that names both. Its parent it tells of its end by
//! the guardian: a window to the mailbox of another user would let it send any signal.

use super::begin::not_inherited;
use super::identity::FIRST_APART;
use super::record::Process;
use crate::errno::Result;
use crate::guardian::client;
use crate::memory::frames::page_of;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::{KeyIndex, PageNumber, area, exposed, syscall};

/// Where pages may lie that stay as they are.
struct Known([PageNumber; 3]);

impl Known {
    fn of(process: &Process) -> Self {
        let [readable, writable] = process.lists.shared;
        Self([area::access_list(), readable, writable])
    }

    /// Whether a page is under a list of the old user.
    fn is_foreign(&self, page: PageNumber) -> bool {
        exposed::page(page).is_some_and(|info| !self.0.contains(&info.access()))
    }
}

/// Gets ready for being another user, while the key of the old one is there.
///
/// # Errors
/// `EAGAIN` where there are too many users, `ENOMEM` where memory cannot be copied; the process is what it was.
pub fn prepare(process: &Process, principal: u64) -> Result<()> {
    take_over_all(process, client::admit(process.guardian, principal)?)
}

/// Makes everything its own that it has from others, under these lists: of what it shares, and of what anybody may read of it.
///
/// # Errors
/// `ENOMEM` where memory cannot be copied; the process is what it was.
pub fn take_over_all(process: &Process, [shared, public]: [PageNumber; 2]) -> Result<()> {
    // It is the old user's.
    process.empty_nursery();
    let known = Known::of(process);
    process.with_memory(|space, pages| {
        let editor = pages.editor();
        crate::budget::with_reserve(|| pages.tables.own_all(&editor))?;
        space.own_all(pages, |page| known.is_foreign(PageNumber(page)))?;
        let common = space.shared_frames().map(|entry| PageNumber(page_of(entry)));
        let common: Vec<PageNumber> = common.filter(|page| known.is_foreign(*page)).collect();
        take_over(process, &common, shared);
        Result::Ok(())
    })?;
    take_over_windows(process, &known, shared);
    let mailbox = process.mailbox.lock().clone();
    take_over(process, mailbox.window().pages(), public);
    let parent = process.parent_mailbox.lock().take();
    if let Some(parent) = parent {
        process.windows.lock().close(parent.window());
    }
    process.lists.public.store(public.0, Relaxed);
    Ok(())
}

/// The guardian has given this process the key of a principal.
pub fn become_principal(process: &Process, principal: u64) {
    process.principal.store(principal, Relaxed);
    if principal < FIRST_APART {
        process.opening_key.store(process.session_key.0, Relaxed);
    }
}

/// Takes over what shows through the windows that a child would inherit.
fn take_over_windows(process: &Process, known: &Known, list: PageNumber) {
    let mut kept = not_inherited(process, &process.nursery.lock());
    kept.push(process.mailbox.lock().clone().window().address());
    kept.extend(process.loan.lock().iter().map(|loan| loan.window_address()));
    let windows = process.windows.lock();
    let others = windows.iter().filter(|window| !kept.contains(&window.address()));
    let pages: Vec<PageNumber> = others.flat_map(|window| window.pages().to_vec()).collect();
    drop(windows);
    let foreign: Vec<PageNumber> = pages.into_iter().filter(|page| known.is_foreign(*page)).collect();
    take_over(process, &foreign, list);
}

/// Puts pages under another list, on this process's account. What may not be taken stays where it is: then the process can
/// use it, and its children cannot.
fn take_over(process: &Process, pages: &[PageNumber], list: PageNumber) {
    crate::budget::reserve(pages.len() as u64);
    let key: KeyIndex = process.session_key;
    for page in pages {
        let _ = syscall::page_claim(key, *page, key, list);
    }
}
