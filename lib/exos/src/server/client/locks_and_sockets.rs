//! What processes share that are strangers to each other: locks, sockets' names and who is behind them, FIFOs,
//! pseudo-terminals.

use super::Client;
use crate::hw::domain::domain;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use runtime::PageNumber;
use runtime::exposed::PageStamp;
use runtime::transfer::Message;
use unix_core::process::ucred::Ucred;
use unix_core::server::protocol::{LockRequest, Request, TokenKind};
use unix_core::server::socket_kind::Kind as SocketKind;
use unix_core::session::status_page;

impl Client {
    /// Asks for a lock on bytes `range.0` to `range.1`; what stands in the way is kind, first byte, last byte, process.
    pub fn lock(
        &mut self,
        node: u64,
        request: LockRequest,
        range: (u64, u64),
        description: u64,
    ) -> Result<Option<[u64; 4]>> {
        let message = [Request::Lock as u64, node, request.to_word(), range.0, range.1, description];
        self.has_locks = true;
        let [_, in_the_way, rest @ ..] = self.exchange(message)?;
        Ok((in_the_way != 0).then_some(rest))
    }

    /// Has the server vouch for something; `words` are those of a claim or a connection. The number that tells of it.
    pub fn vouch(&self, what: TokenKind, words: [u64; 2]) -> Result<u64> {
        Ok(self.exchange([Request::IssueToken as u64, what as u64, words[0], words[1], 0, 0])?[1])
    }

    /// Credentials that the server vouches for, by a token that another process sent.
    pub fn redeem(&self, number: u64, what: TokenKind, pages: [u64; 2]) -> Result<Ucred> {
        let answer = self.exchange([Request::RedeemToken as u64, number, what as u64, pages[0], pages[1], 0])?;
        Ok(Ucred::from_words([answer[1], answer[2]]))
    }

    /// Whether the maker of a connection, by its token, made these pages; the token stays.
    pub fn is_genuine(&self, number: u64, pages: [u64; 2]) -> bool {
        let kind = TokenKind::Connection as u64;
        self.exchange([Request::RedeemToken as u64, number, kind, pages[0], pages[1], 1]).is_ok()
    }

    /// This process listens at the names that it gave to a page.
    pub fn listen(&self, page: PageNumber) -> Result<()> {
        self.exchange([Request::Listen as u64, page.0, 0, 0, 0, 0]).map(|_| ())
    }

    /// Gives a socket a name that leads to a page.
    pub fn bind(&mut self, at: u64, path: &[u8], (mode, kind): (u32, SocketKind), page: PageNumber) -> Result<()> {
        let length = self.put_path(path)?;
        let mode_kind = u64::from(mode) | (kind as u64) << 32;
        self.on_path([Request::Bind as u64, at, mode_kind, page.0, length, 0])?.here(Errno::EPERM).map(|_| ())
    }

    /// Gives a socket an abstract name that leads to a page, as long as some process holds the node.
    pub fn bind_abstract(&mut self, name: &[u8], kind: SocketKind, page: PageNumber) -> Result<u64> {
        let length = self.put_path(&with_kind(kind, name))?;
        Ok(self.exchange([Request::BindAbstract as u64, page.0, length, 0, 0, 0])?[1])
    }

    /// The page that an abstract name leads to, and who listens there. The server puts a request to connect into the
    /// queue there, if one is given.
    pub fn peer_abstract(&mut self, name: &[u8], kind: SocketKind, request: [u64; 3]) -> Result<Peer> {
        let length = self.put_path(&with_kind(kind, name))?;
        let [a, b, c] = request;
        Ok(listener(self.exchange([Request::PeerAbstract as u64, length, a, b, c, 0])?))
    }

    /// The page that the name of a socket leads to, and who listens there; `EPROTOTYPE` where it is one of another
    /// kind. `request` is as for an abstract name.
    pub fn peer(&mut self, at: u64, path: &[u8], kind: SocketKind, request: [u64; 3]) -> Result<Peer> {
        let length = self.put_path(path)?;
        let [a, b, c] = request;
        let answer = self.on_path([Request::Peer as u64, at, length, a, b, c])?.here(Errno::ECONNREFUSED)?;
        if answer[4] as u32 == kind as u32 { Ok(listener(answer)) } else { Err(Errno::EPROTOTYPE) }
    }

    /// The pages of the pipe of a FIFO that is held.
    pub fn fifo(&mut self, node: u64) -> Result<Vec<PageNumber>> {
        self.pages_of(Request::Fifo, node)
    }

    /// A fresh pseudo-terminal: nodes of master, which is held, and slave, and the number in the slave's name.
    pub fn make_terminal(&mut self) -> Result<[u64; 3]> {
        self.window()?;
        let [_, master, slave, number, ..] = self.exchange([Request::MakeTerminal as u64, 0, 0, 0, 0, 0])?;
        Ok([master, slave, number])
    }

    /// The pages of a pseudo-terminal of which one side is held, those of its ring last.
    pub fn terminal(&mut self, node: u64) -> Result<Vec<PageNumber>> {
        self.pages_of(Request::Terminal, node)
    }

    fn pages_of(&mut self, operation: Request, node: u64) -> Result<Vec<PageNumber>> {
        let window = self.window()?;
        let [_, count, ..] = self.exchange([operation as u64, node, 0, 0, 0, 0])?;
        let words = window.words().iter().take(count as usize);
        Ok(words.map(|word| PageNumber(word.load(Relaxed))).collect())
    }
}

/// An abstract name as the server knows it: those of different kinds of sockets are different names.
fn with_kind(kind: SocketKind, name: &[u8]) -> Vec<u8> {
    [&[kind as u8], name].concat()
}

/// What the name of a socket leads to.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Page of its queue, or of the pipe for its datagrams, as it was when the server told.
    pub page: PageStamp,
    /// The process that listens there, with its user and group.
    pub who: Ucred,
    /// Whether the server put a request into its queue.
    pub is_asked: bool,
    /// The list for the pages of a connection, where this process cannot open the queue and its own list will not do.
    pub list: Option<PageNumber>,
}

fn listener([_, page, client, numbers, kind, is_asked]: Message) -> Peer {
    let process = status_page::succession(domain().board.words()).process(client);
    let list = Some(PageNumber(kind >> 32)).filter(|list| list.0 != 0);
    Peer { page: PageStamp(page), who: Ucred::from_words([process, numbers]), is_asked: is_asked != 0, list }
}
