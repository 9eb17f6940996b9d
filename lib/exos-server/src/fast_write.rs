//! Fast path of small writes: into a page that the file has already, by a client that holds the file for writing. It
//! changes contents, size and times and nothing else.
//!
//! Invariant: a write on this path has the same outcome as on the slow one (`dispatch`). An unusual write takes the
//! slow path, without having changed anything.

use super::dispatch::FileServer;
use runtime::transfer::Message;
use unix_core::server::protocol::APPEND;
use vfs::dcache::Dcache;
use vfs::handle::Handle;

impl FileServer {
    /// The answer to `Operation::Write`, where it is so short and usual. `tree.now` is the time.
    pub(super) fn write_shortly(&mut self, caller: u64, [_, word, offset, count, ..]: Message) -> Option<Message> {
        let client = self.clients.get(&caller)?;
        let handle = Handle::from_word(word);
        if !handle.writes() || !client.holds.contains_key(&word) {
            return None;
        }
        let window = client.window.as_ref()?;
        let place = (offset != APPEND).then_some(offset);
        let written = self.tree.write_within_page(handle.at.node, place, count, |bytes| window.read(0, bytes).is_ok());
        let (node, end) = written?;
        Dcache::new(self.dcache.words()).show_contents(handle.at.node, node);
        Some([0, count, end, 0, 0, 0])
    }
}
