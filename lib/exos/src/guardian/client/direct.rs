//! What is asked without a window, and without a lock: who asks may hold the connection already.

use super::call;
use crate::errno::Result;
use crate::guardian::protocol::{Operation, outcome};
use crate::signal::frame::Information;
use abi::budget::Resource;
use runtime::transfer::Message;
use runtime::{EnvironmentId, PageNumber, time_slice};

/// What needs no window, and no lock: who asks may hold the connection already.
fn ask(guardian: EnvironmentId, message: Message) -> Result<Message> {
    let answer = call(guardian, message)?;
    outcome(answer[0])?;
    Ok(answer)
}

/// Lists for a user that this process is going to be: for what it shared, of which what is under a list may go under another
/// one than the rest, and for what anybody may read of it.
pub fn admit(guardian: EnvironmentId, principal: u64, under: PageNumber) -> Result<[PageNumber; 2]> {
    let [_, shared, public, ..] = ask(guardian, [Operation::Admit as u64, principal, under.0, 0, 0, 0])?;
    Ok([PageNumber(shared), PageNumber(public)])
}

/// This process takes over pages that others have too, or leaves some: no other one does, as long as this lives.
#[derive(Debug)]
pub struct TakingOver(EnvironmentId);

impl TakingOver {
    /// Waits until nobody else is at it. A guardian that does not answer lets everybody.
    pub fn begin(guardian: EnvironmentId) -> Self {
        while ask(guardian, [Operation::TakingOver as u64, 1, 0, 0, 0, 0]).is_ok_and(|answer| answer[1] != 0) {
            time_slice::yield_now();
        }
        Self(guardian)
    }
}

impl Drop for TakingOver {
    fn drop(&mut self) {
        let _ = ask(self.0, [Operation::TakingOver as u64, 0, 0, 0, 0, 0]);
    }
}

/// Moves budget that nobody uses to this environment, or to one that it made.
pub fn draw(guardian: EnvironmentId, to: EnvironmentId, resource: u64, amount: u64) -> Result<()> {
    ask(guardian, [Operation::Draw as u64, to.0, resource, amount, 0, 0]).map(|_| ())
}

/// Moves pages that are kept for ends to this environment, which ends.
pub fn draw_for_end(guardian: EnvironmentId, own: EnvironmentId, pages: u64) -> Result<()> {
    ask(guardian, [Operation::Draw as u64, own.0, Resource::Page as u64, pages, 1, 0]).map(|_| ())
}

/// Sends a signal to a process, if the guardian finds that this process may.
pub fn signal(guardian: EnvironmentId, process: u64, information: &Information) -> Result<()> {
    let [signal, code] = [information.signal, information.code as u32].map(u64::from);
    ask(guardian, [Operation::Signal as u64, process, signal, code, information.value, 0]).map(|_| ())
}

/// Tells the parent that something happened to this process.
pub fn tell_parent(guardian: EnvironmentId, information: &Information) -> Result<()> {
    let [signal, code] = [information.signal, information.code as u32].map(u64::from);
    ask(guardian, [Operation::TellParent as u64, signal, code, information.value, 0, 0]).map(|_| ())
}
