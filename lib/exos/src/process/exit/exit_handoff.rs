//! What a process leaves that others go on using: see `exos_server::pages::orphaned_pages`.
//!
//! Its children have what it made before they began: pipes, sockets, counters and records of open files. They also have
//! the pages with their own library's data, which stay their parent's for the next child (`process::fork`). Others have
//! what it sent them.

use crate::hw::mapping::Mapping;
use crate::process::children::Child;
use crate::process::current::process;
use crate::process::process_record::Process;
use crate::server::client::{HandedOffPage, TakingOver};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::page::PageKind;
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed, syscall};

/// Hands shared pages off to the server, when this process has closed all its descriptors and waits for no process any
/// more.
pub(in crate::process) fn hand_off_shared_pages(process: &Process, children: &[Child]) {
    let mut left: Vec<HandedOffPage> =
        children.iter().flat_map(|child| data_of(process, child)).map(HandedOffPage::mapped).collect();
    left.extend(seen_by_others(process).into_iter().map(HandedOffPage::mapped));
    left.extend(process.exported.lock().on_their_way());
    left.retain(|one| can_leave(process.environment(), one.page));
    if !left.is_empty() {
        let _turn = TakingOver::begin(process.server);
        // A server that is gone keeps no pages.
        let _ = process.files.lock().bequeath(&left);
    }
}

/// The pages with the data of a child's library. Where another thread made it they are under the child's list, and
/// charged to this process since that thread ended.
fn data_of(process: &Process, child: &Child) -> Vec<PageNumber> {
    if !child.heap_pages.is_empty() {
        return child.heap_pages.clone();
    }
    let Some(own) = exposed::environment(EnvironmentId(process.environment())) else { return Vec::new() };
    own.charged(usize::MAX, |_, info| info.access() == child.made.list)
}

/// Pages of this process that show through windows here, and through more elsewhere; and those that it has closed
/// already.
fn seen_by_others(process: &Process) -> Vec<PageNumber> {
    let own = EnvironmentId(process.environment());
    let references = |page: PageNumber| exposed::page(page).map_or(0, |info| info.references());
    let is_shared =
        |page: PageNumber| exposed::page(page).is_some_and(|info| info.owner() == own && info.references() > 1);
    let mailbox = process.signal.mailbox.lock().window().address();
    let lent: Vec<PageNumber> = process.exported.lock().pages().collect();
    let windows = process.mappings.lock();
    let pages = windows.iter().filter(|window| window.address() != mailbox).flat_map(Mapping::pages).copied();
    // Most pages are mapped here alone, or belong to another process.
    let mut here: Vec<PageNumber> = pages.filter(|page| is_shared(*page) || lent.contains(page)).collect();
    here.sort_unstable();
    let closed = lent.iter().filter(|page| here.binary_search(page).is_err() && references(**page) > 0);
    let shown = here.chunk_by(PartialEq::eq).filter(|same| references(same[0]) > same.len() as u64);
    shown.map(|same| same[0]).chain(closed.copied()).collect()
}

/// What a thread was charged for is its process's: who ends takes nothing along that others sleep over.
pub(in crate::process) fn inherit_from_thread(thread: EnvironmentId, key: KeyIndex) {
    let Some(info) = exposed::environment(thread) else { return };
    let left = info.charged(usize::MAX, |page, _| can_leave(thread.0, page));
    crate::budget::reserve(left.len() as u64);
    let _turn = (!left.is_empty()).then(|| TakingOver::begin(process().server));
    for page in left {
        let Some(list) = exposed::page(page).map(|info| info.access()) else { continue };
        // Pages that the budget has no room for go with the thread, if no process uses them.
        let _ = syscall::page_claim(key, page, key, list);
    }
}

impl Process {
    /// Whether another process may have pages that this one made.
    pub fn may_have_heirs(&self) -> bool {
        self.has_made_children.load(Relaxed) || !self.exported.lock().is_empty()
    }
}

/// Whether a page is one that a process can leave: an ordinary one that is charged to it.
fn can_leave(process: u64, page: PageNumber) -> bool {
    exposed::page(page).is_some_and(|info| {
        info.owner() == EnvironmentId(process) && info.kind() == PageKind::Ordinary && !info.is_orphan()
    })
}
