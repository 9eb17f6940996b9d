//! What is asked without a window, and without a lock: who asks may hold the connection already.

use super::call;
use abi::budget::Resource;
use linux_abi::errno::Result;
use runtime::transfer::Message;
use runtime::{EnvironmentId, PageNumber, time_slice};
use unix_core::server::protocol::{Request, outcome};
use unix_core::signal::frame::Information;

/// What needs no window, and no lock: who asks may hold the connection already.
fn ask(server: EnvironmentId, message: Message) -> Result<Message> {
    let answer = call(server, message)?;
    outcome(answer[0])?;
    Ok(answer)
}

/// Lists for a user that this process is going to be: one for its shared pages, one for its publicly readable
/// pages. `under`: the list of shared pages that may go under a list other than the rest.
pub fn admit(server: EnvironmentId, principal: u64, under: PageNumber) -> Result<[PageNumber; 2]> {
    let [_, shared, public, ..] = ask(server, [Request::ListsForUser as u64, principal, under.0, 0, 0, 0])?;
    Ok([PageNumber(shared), PageNumber(public)])
}

/// This process takes over pages that others have too, or leaves some: no other one does, as long as this lives.
#[derive(Debug)]
pub struct TakingOver(EnvironmentId);

impl TakingOver {
    /// Waits until no other process is reowning pages. A server that does not answer lets everybody.
    pub fn begin(server: EnvironmentId) -> Self {
        while ask(server, [Request::Reowning as u64, 1, 0, 0, 0, 0]).is_ok_and(|answer| answer[1] != 0) {
            time_slice::yield_now();
        }
        Self(server)
    }
}

impl Drop for TakingOver {
    fn drop(&mut self) {
        let _ = ask(self.0, [Request::Reowning as u64, 0, 0, 0, 0, 0]);
    }
}

/// Moves unused budget to this environment, or to one that it made.
pub fn draw(server: EnvironmentId, to: EnvironmentId, resource: u64, amount: u64) -> Result<()> {
    ask(server, [Request::DrawBudget as u64, to.0, resource, amount, 0, 0]).map(|_| ())
}

/// Moves pages that are kept for ends to this environment, which ends.
pub fn draw_for_end(server: EnvironmentId, own: EnvironmentId, pages: u64) -> Result<()> {
    ask(server, [Request::DrawBudget as u64, own.0, Resource::Page as u64, pages, 1, 0]).map(|_| ())
}

/// Sends a signal to a process, if the server finds that this process may.
pub fn signal(server: EnvironmentId, process: u64, information: &Information) -> Result<()> {
    let [signal, code] = [information.signal, information.code as u32].map(u64::from);
    ask(server, [Request::Signal as u64, process, signal, code, information.value, 0]).map(|_| ())
}

/// Tells the parent that something happened to this process.
pub fn tell_parent(server: EnvironmentId, information: &Information) -> Result<()> {
    let [signal, code] = [information.signal, information.code as u32].map(u64::from);
    ask(server, [Request::NotifyParent as u64, signal, code, information.value, 0, 0]).map(|_| ())
}
