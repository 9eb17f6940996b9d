//! What the names of sockets lead to, in the file system and outside it.
//!
//! A name leads to a page that the binder of the socket gave. Invariant: no client is told of a page that was given up
//! and reused since. A client that has mapped the page looks whether that still holds (`Mappings::open_noted`).

use runtime::PageNumber;
use runtime::exposed::PageStamp;
use vfs::namespace::FsCredentials;

/// What the name of a socket leads to.
#[derive(Clone, Copy, Debug)]
pub struct NamedSocket {
    /// Page of its queue, or of the pipe for its datagrams.
    pub page: PageStamp,
    /// The client that gave it the name, and listens there.
    pub by: u64,
    /// The credentials of that client.
    pub who: FsCredentials,
    /// What the library calls its kind: who asks for it is told.
    pub kind: u64,
    /// Whether that one said that it listens.
    pub listens: bool,
}

impl NamedSocket {
    /// One that does not listen yet.
    pub fn new(page: PageNumber, by: u64, who: FsCredentials, kind: u64) -> Self {
        Self { page: PageStamp::of(page), by, who, kind, listens: false }
    }

    /// Whether its page is still what it was: one that was given up may belong to any process.
    pub fn is_there(&self) -> bool {
        self.page.is_current()
    }
}
