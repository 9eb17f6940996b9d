//! Another user: what a process does before the server takes the key of its old one (see `exos_server::principals`).
//!
//! From then on it opens only what its new user may. While it still can, it makes its own what it has from relatives of
//! the old user. Copy-on-write memory is copied now. What it shares on purpose (pipes, offsets, sockets, shared memory)
//! it claims page by page, under a list that names both users. Its parent it tells of its end by the server: a window
//! to the mailbox of another user would let it send any signal.

use crate::budget;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::scm_rights;
use crate::descriptor::sockets::socket::Socket;
use crate::pipe::Pipe;
use crate::process::current::process;
use crate::process::process_record::Process;
use crate::server::client::{self, is_left};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::Result;
use runtime::{EnvironmentId, PageNumber, area, exposed};
use unix_core::process::credentials::FIRST_APART;
use vm::page_record::page_of;

/// Pages that stay as they are: those under these lists, and those of the server, who says itself who may open them.
struct Known([PageNumber; 3], EnvironmentId);

impl Known {
    fn of(process: &Process) -> Self {
        let [readable, writable] = process.lists.shared;
        Self([area::access_list(), readable, writable], process.server)
    }

    /// Whether a page is under a list of the old user.
    fn is_foreign(&self, page: PageNumber) -> bool {
        exposed::page(page).is_some_and(|info| !self.0.contains(&info.access()) && info.owner() != self.1)
    }
}

/// Gets ready for being another user, while the key of the old one is there.
///
/// # Errors
/// `EAGAIN` where there are too many users, `ENOMEM` where memory cannot be copied; the process is what it was.
pub fn prepare(process: &Process, principal: u64) -> Result<()> {
    let [shared, public] = client::admit(process.server, principal, PageNumber::NONE)?;
    reown_everything(process, Lists { shared, public, principal: Some(principal) }, principal)
}

/// Access lists that a process puts pages under which it takes over.
#[derive(Clone, Copy, Debug)]
pub struct Lists {
    /// Of what it shares.
    pub shared: PageNumber,
    /// The list of its publicly readable pages.
    pub public: PageNumber,
    /// The next principal, where shared pages may be shared with users other than user 0: the server then has a list
    /// that names all of them. User 0 claimed such pages before.
    pub principal: Option<u64>,
}

impl Lists {
    /// The list for pages that are under another one now.
    fn beside(self, under: PageNumber) -> PageNumber {
        let ask = |principal| client::admit(process().server, principal, under);
        self.principal.and_then(|principal| ask(principal).ok()).map_or(self.shared, |[list, _]| list)
    }
}

/// Makes everything its own that it has from others, under the list of shared pages and that of publicly readable ones.
/// It is going to be `heir`.
///
/// # Errors
/// `ENOMEM` where memory cannot be copied; the process is what it was.
pub fn reown_everything(process: &Process, lists: Lists, heir: u64) -> Result<()> {
    // It is the old user's.
    process.empty_nursery();
    let known = Known::of(process);
    let _turn = client::TakingOver::begin(process.server);
    process.with_memory(|space, pages| {
        let editor = pages.editor();
        crate::budget::with_reserve(|| pages.tables.own_all(&editor))?;
        space.own_all(pages, |page| known.is_foreign(PageNumber(page)))?;
        let common = space.shared_frames().map(|entry| PageNumber(page_of(entry)));
        let common: Vec<PageNumber> = common.filter(|page| known.is_foreign(*page)).collect();
        take_over_shared(&common, lists);
        Result::Ok(())
    })?;
    let rings = foreign_rings(process, &known);
    let queues = foreign_queues(process, &known);
    take_over_windows(process, &known, lists, heir);
    // Clients that connect from now on do so under the list that the queue has now.
    take_over_shared(&pages_waiting(process, &queues), lists);
    // Its relatives share themselves what they send from now on (`scm_rights::share_with_heir`).
    for (ring, list) in &rings {
        let waiting = scm_rights::pages_waiting(ring, *list).into_iter();
        let (left, others): (Vec<PageNumber>, Vec<PageNumber>) =
            waiting.partition(|page| is_left(process.server, *page));
        take_over_shared(&others, lists);
        share_left(process, heir, &left, Some(*list));
    }
    let mailbox = process.signal.mailbox.lock().clone();
    budget::claim_under(mailbox.window().pages(), lists.public);
    let parent = process.signal.parent_mailbox.lock().take();
    if let Some(parent) = parent {
        process.mappings.lock().close(parent.window());
    }
    process.lists.public.store(lists.public.0, Relaxed);
    Ok(())
}

/// The server has given this process the key of a principal. Pages of files come anew, which the key has to open from
/// now on.
pub fn switch_principal(process: &Process, principal: u64) {
    process.principal.store(principal, Relaxed);
    // What cannot be let go of stays: it can be used here, and not by children.
    let _ = process.with_memory(|space, pages| space.let_go_of_files(pages));
    if principal < FIRST_APART {
        process.opening_key.store(process.session_key.0, Relaxed);
    }
}

/// The rings from which its sockets receive, with the old user's lists that they are under. The server has the rings of
/// processes that have ended.
fn foreign_rings(process: &Process, known: &Known) -> Vec<(Pipe, PageNumber)> {
    let descriptors = process.descriptors.table.lock();
    let sockets = descriptors.iter().filter_map(|(_, description)| description.as_kind::<Socket>());
    let rings = sockets.filter_map(|socket| socket.ends.lock().incoming.clone());
    let with_list = |ring: Pipe| Some((exposed::page(ring.pages()[0])?.access(), ring));
    let rings = rings.filter_map(with_list).filter(|(list, _)| !known.0.contains(list));
    rings.map(|(list, ring)| (ring, list)).collect()
}

/// Numbers of its sockets that listen, with the old user's lists that their queues are under. The server has the queues
/// of processes that have ended.
fn foreign_queues(process: &Process, known: &Known) -> Vec<(u64, PageNumber)> {
    let descriptors = process.descriptors.table.lock();
    let queue = |(number, description): (u64, &OpenFile)| {
        let socket = description.as_kind::<Socket>().filter(|socket| socket.is_listening())?;
        let page = socket.common.as_ref()?.page();
        let list = exposed::page(page)?.access();
        (!known.0.contains(&list)).then_some((number, list))
    };
    descriptors.iter().filter_map(queue).collect()
}

/// Pages of the connections that wait at its sockets.
fn pages_waiting(process: &Process, queues: &[(u64, PageNumber)]) -> Vec<PageNumber> {
    let descriptors = process.descriptors.table.lock();
    let list_of = |number: u64| queues.iter().find(|(queue, _)| *queue == number).map(|(_, list)| *list);
    let waiting = |(number, description): (u64, &OpenFile)| {
        list_of(number).and_then(|list| Some(description.as_kind::<Socket>()?.pages_waiting(list)))
    };
    descriptors.iter().filter_map(waiting).flatten().collect()
}

/// Takes over what shows through the windows that a child would inherit.
fn take_over_windows(process: &Process, known: &Known, lists: Lists, heir: u64) {
    let loan = process.vfork_link.lock().as_ref().map(|loan| loan.window_address());
    let kept = [Some(process.signal.mailbox.lock().window().address()), loan];
    let windows = process.mappings.lock();
    let others = windows.common().filter(|window| !kept.contains(&Some(window.address())));
    let pages: Vec<PageNumber> = others.flat_map(|window| window.pages().to_vec()).collect();
    drop(windows);
    let (foreign, others): (Vec<PageNumber>, Vec<PageNumber>) =
        pages.into_iter().partition(|page| known.is_foreign(*page));
    take_over_shared(&foreign, lists);
    let left: Vec<PageNumber> = others.into_iter().filter(|page| is_left(process.server, *page)).collect();
    share_left(process, heir, &left, None);
}

/// Has the server share pages that were left to it with `heir`; see [`client::Client::share_bequests`].
fn share_left(process: &Process, heir: u64, pages: &[PageNumber], users_of: Option<PageNumber>) {
    if !pages.is_empty() {
        // What is refused stays where it is, as what may not be taken.
        let _ = process.files.lock().share_bequests(heir, pages, users_of);
    }
}

/// Claims pages that other processes map, under lists that also name those who may use them now.
fn take_over_shared(pages: &[PageNumber], lists: Lists) {
    let mut known: Vec<(PageNumber, PageNumber)> = Vec::new();
    for page in pages {
        let Some(under) = exposed::page(*page).map(|info| info.access()) else { continue };
        let found = known.iter().find(|(before, _)| *before == under).map(|(_, list)| *list);
        let list = found.unwrap_or_else(|| lists.beside(under));
        if found.is_none() {
            known.push((under, list));
        }
        if list != under {
            budget::claim_under(&[*page], list);
        }
    }
}
