//! The short way of small writes: into a page that the file has already, by a client that holds it to be written, where
//! contents, size and times change and nothing else.
//!
//! Holds always: what goes this way comes out as it would on the long one (`server`), and what is unusual in any way goes
//! there, without having changed anything.

use super::dispatch::FileServer;
use super::handle::Handle;
use super::protocol::APPEND;
use crate::vfs::dcache::Dcache;
use runtime::transfer::Message;

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
