//! Hand-off of pages to the server: how a process that ends leaves it those that others use
//! (`exos_server::pages::orphaned_pages`).

use super::Client;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::Result;
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::server::protocol::{Request, WINDOW_BYTES};

/// Words that fit into the window.
const AT_ONCE: usize = WINDOW_BYTES as usize / 8;

/// A page that a process hands off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOffPage {
    /// The page.
    pub page: PageNumber,
    /// Page and index of the record of a description that is on its way and consists of it; page 0: others map it.
    pub record: (u64, u64),
}

impl HandedOffPage {
    const PAGE_BITS: u32 = 28;
    const PAGE_MASK: u64 = (1 << Self::PAGE_BITS) - 1;

    /// One that others map.
    pub const fn mapped(page: PageNumber) -> Self {
        Self { page, record: (0, 0) }
    }

    /// As a word of a message.
    pub const fn to_word(self) -> u64 {
        let (record, index) = self.record;
        self.page.0 | record << Self::PAGE_BITS | index << (2 * Self::PAGE_BITS)
    }

    /// From that.
    pub const fn from_word(word: u64) -> Self {
        let record = (word >> Self::PAGE_BITS & Self::PAGE_MASK, word >> (2 * Self::PAGE_BITS));
        Self { page: PageNumber(word & Self::PAGE_MASK), record }
    }
}

/// Whether a process that has ended left a page to the server.
pub fn is_left(server: EnvironmentId, page: PageNumber) -> bool {
    exposed::page(page).is_some_and(|info| info.owner() == server)
}

impl Client {
    /// Leaves pages to the server, as far as it takes them: it looks at them as long as others may use them.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn bequeath(&mut self, left: &[HandedOffPage]) -> Result<()> {
        let window = self.window()?;
        for some in left.chunks(AT_ONCE) {
            some.iter().zip(window.words()).for_each(|(one, word)| word.store(one.to_word(), Relaxed));
            self.exchange([Request::HandOff as u64, some.len() as u64, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Shares pages that were left to the server with a principal that this process is going to be. With a list, only
    /// those are shared that each of its users may use already.
    ///
    /// # Errors
    /// The server's refusals: then the new principal can use what shows already, and its children cannot.
    pub fn share_bequests(&mut self, heir: u64, pages: &[PageNumber], users_of: Option<PageNumber>) -> Result<()> {
        let window = self.window()?;
        let list = users_of.map_or(0, |list| list.0);
        for some in pages.chunks(AT_ONCE) {
            some.iter().zip(window.words()).for_each(|(page, word)| word.store(page.0, Relaxed));
            self.exchange([Request::ShareHandedOff as u64, heir, some.len() as u64, list, 0, 0])?;
        }
        Ok(())
    }
}
