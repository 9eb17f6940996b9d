//! The server's side of the table of the processes that user 0 lets run before others (`client::priority_table`).

use crate::main_loop::Server;
use core::sync::atomic::Ordering::Acquire;
use exos::server::client::priorities_in;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::transfer::Message;
use runtime::{EnvironmentId, exposed};
use unix_core::process::nice_share::Priority;
use unix_core::process::prctl_state::Attributes;
use unix_core::process::priority_table::PriorityTable;

impl Server {
    /// See [`unix_core::server::protocol::Request::SetPriority`].
    pub(crate) fn precede(&mut self, caller: u64, message: &Message) -> Result<()> {
        let [_, process, word, ..] = *message;
        let environment = self.succession().environment(process);
        let known = |number: &u64| self.server.clients.get(number);
        let by_zero = known(&caller).ok_or(Errno::EPERM)?.credentials.has(linux::CAP_SYS_NICE);
        known(&environment).ok_or(Errno::ESRCH)?;
        let table = priorities_in(self.server.notice.words());
        table.remove(|number| !exposed::lives(EnvironmentId(number)));
        let wanted = Priority::of(&Attributes::from_word(word));
        let had = table.of_number(environment);
        let is_own = environment == caller;
        if is_own && wanted <= Priority::USUAL {
            table.remove(|number| number == environment);
            return Ok(());
        }
        if !by_zero && !(is_own && self.precedence_of(caller, table) >= Some(wanted)) {
            return Err(Errno::EPERM);
        }
        // What another one may have it takes by itself.
        if is_own || had < Some(wanted) { table.set(environment, word) } else { Ok(()) }
    }

    /// The highest rank that a client may have without being user 0: its own, its maker's, or that of its
    /// predecessor.
    fn precedence_of(&self, caller: u64, table: PriorityTable<'_>) -> Option<Priority> {
        let maker = exposed::environment(EnvironmentId(caller)).map_or(0, |info| info.creator.load(Acquire));
        let maker = self.threads.get(&maker).copied().unwrap_or(maker);
        let others = [maker, self.succession().predecessor(caller).unwrap_or(0)];
        [caller].into_iter().chain(others).filter_map(|number| table.of_number(number)).max()
    }
}
