//! What the names of sockets lead to, in the file system and beside it.
//!
//! A name leads to a page that whoever bound the socket gave. Holds always: nobody is told of a page that has become something else
//! since, as one may that was given up.

use crate::vfs::namespace::FsCredentials;
use runtime::{PageNumber, exposed};

/// What the name of a socket leads to.
#[derive(Clone, Copy, Debug)]
pub struct NamedSocket {
    /// Page of its queue, or of the pipe for its datagrams.
    pub page: u64,
    /// The page's generation: it is another one when that page is gone, and something else in its place.
    pub generation: u64,
    /// The client that gave it the name, and listens there.
    pub by: u64,
    /// Who that one was.
    pub who: FsCredentials,
    /// What the library calls its kind: who asks for it is told.
    pub kind: u64,
    /// Whether that one said that it listens.
    pub listens: bool,
}

impl NamedSocket {
    /// One that does not listen yet.
    pub fn new(page: u64, by: u64, who: FsCredentials, kind: u64) -> Self {
        Self { page, generation: generation_of(page), by, who, kind, listens: false }
    }

    /// Whether its page is still what it was: one that was given up may be anybody's.
    pub fn is_there(&self) -> bool {
        generation_of(self.page) == self.generation
    }
}

fn generation_of(page: u64) -> u64 {
    exposed::page(PageNumber(page)).map_or(0, |info| info.edits().0)
}
