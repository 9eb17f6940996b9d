//! The end of a process.

use super::children::{Child, STATUS_WORD};
use super::status::{Change, Status};
use crate::terminal::job;
use crate::user_memory::current::process;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Release;
use runtime::area::{self, Area};
use runtime::{EnvironmentId, KeyIndex, syscall, time_slice};

/// Ends the running process: lets go of what others see, leaves the status in the public page, and dies. The parent
/// takes back the rest.
pub fn end(status: Status) -> ! {
    let process = process();
    // One by one: who closes looks for what is still open.
    loop {
        let open = process.descriptors.lock().take_any();
        let Some(description) = open else { break };
        description.close();
    }
    process.summary.tell(process);
    job::leader_ends();
    release_children();
    abandon(status)
}

/// Ends the running process without tidying up: its library may be damaged.
pub fn abandon(status: Status) -> ! {
    Area::current().status(STATUS_WORD - STATUS_BASE).store(status.to_word(), Release);
    crate::signal::tell_parent_of_end(status);
    loop {
        let _ = syscall::environment_destroy(KeyIndex::FIRST, area::number());
        let _ = time_slice::yield_to(EnvironmentId::NONE);
    }
}

const STATUS_BASE: usize = (abi::area::PUBLIC_STATUS / 8) as usize;

/// Children that ended are buried; the kernel's heir of a dead creator takes care of the others.
fn release_children() {
    let process = process();
    let children = core::mem::take(&mut process.children.lock().all);
    let (ended, alive): (Vec<Child>, Vec<Child>) = children.into_iter().partition(|child| child.status().is_some());
    ended.iter().for_each(|child| child.bury(process.session_key));
    let stopped = |child: &Child| matches!(child.last_change(), Some(Change::Stopped(_)));
    let groups: Vec<(u64, bool)> = alive.iter().map(|child| (child.group(), stopped(child))).collect();
    job::orphan_groups(&groups);
}
