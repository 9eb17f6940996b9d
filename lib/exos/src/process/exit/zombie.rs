//! A zombie: what is left of a child that has ended and that its parent has not waited for (doc/decision/0044).
//!
//! Its status stands in its public page, in its mailbox and in the kernel's record. Its address space, its area and
//! what its maker made for it are useless, unless the next child is made of them. Invariant, of a child that is marked
//! so: it is found by its number, as before, and destroyed for good by the thread that waits for it.

use crate::process::children::Child;
use crate::process::current::process;
use crate::process::environment::{EnvironmentRef, make_zombie, under_list};
use crate::process::process_record::Process;
use crate::process::spawn_cache::spare_environment::reclaim_mailbox;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::page::{Allocator, PageKind};
use runtime::{PageNumber, area, exposed};

impl Process {
    /// Gives up what is of no use of those children that have ended. A thread that takes one out of their list
    /// meanwhile waits.
    pub fn trim_zombies(&self) {
        let mut children = self.children.lock();
        let ended = children.all.iter_mut().filter(|child| !child.is_remnant && is_of_no_use(child));
        ended.for_each(shrink);
    }
}

/// Whether a child has ended that the running thread has made, and no other child is made of it.
fn is_of_no_use(child: &Child) -> bool {
    let is_mine = || {
        exposed::environment(child.made.number)
            .is_some_and(|info| info.remains() && info.creator.load(Relaxed) == area::number().0)
    };
    !child.is_adopted && child.parts.is_none() && child.heap_pages.is_empty() && child.status().is_some() && is_mine()
}

fn shrink(child: &mut Child) {
    child.is_remnant = true;
    let (made, session) = (&child.made, process().session_key);
    let reclaimed = reclaim_mailbox(made.number, child.public.pages()[1]);
    if reclaimed.and_then(|()| make_zombie(made.number, session)).is_ok() {
        Allocator { key: session, list: made.list }.free_many(&needless(made));
    }
}

/// The pages under its list but for its public page and its root, by which its list is found.
fn needless(made: &EnvironmentRef) -> Vec<PageNumber> {
    let root = exposed::environment(made.number).map_or(PageNumber::NONE, |info| PageNumber(info.root.load(Relaxed)));
    let is_needless = |page: &PageNumber| match exposed::page(*page).map(|info| info.kind()) {
        Some(PageKind::Ordinary) => true,
        Some(PageKind::PageTable) => *page != root,
        _ => false,
    };
    under_list(area::number(), made.list).into_iter().filter(is_needless).collect()
}
