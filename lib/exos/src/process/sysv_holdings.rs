//! What a process gives back of System V objects: attached segments at `execve`, semaphore operations with
//! `SEM_UNDO` at its end.

use super::Process;
use unix_core::server::protocol::Request;

/// The process ends: what it did to semaphores is taken back, where it asked for that.
pub(crate) fn undo_all(process: &Process) {
    if process.holdings.lock().undoes {
        let _ = process.files.lock().on_object(Request::SemaphoreLeave, [0; 5]);
    }
}

/// Another program begins, whose memory is empty.
pub(crate) fn detach_all(process: &Process) {
    let attached = core::mem::take(&mut process.holdings.lock().attached);
    attached.iter().for_each(|one| process.files.lock().hold(one.node, false));
}
