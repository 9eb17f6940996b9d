//! The end of a process.

use super::children::STATUS_WORD;
use super::status::Status;
use crate::user_memory::current::process;
use core::sync::atomic::Ordering::Release;
use linux_raw_sys::general as linux;
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
    release_children();
    abandon(status)
}

/// Ends the running process without tidying up: its library may be damaged.
pub fn abandon(status: Status) -> ! {
    Area::current().status(STATUS_WORD - STATUS_BASE).store(status.to_word(), Release);
    tell_parent();
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
    for child in children {
        if child.status().is_some() {
            child.bury(process.session_key);
        }
    }
}

fn tell_parent() {
    let process = process();
    let Some(parent) = process.parent_mailbox.lock().clone() else { return };
    parent.tell_of_child();
    parent.post(linux::SIGCHLD, process.number());
    let number = EnvironmentId(process.parent.load(core::sync::atomic::Ordering::Relaxed));
    let _ = syscall::event_raise(process.session_key, number, crate::signal::EVENT_SIGNAL);
    crate::block::kick_idle();
}
