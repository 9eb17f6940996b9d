//! Identity tokens for processes that exchange data through memory which both can write. The server vouches for a peer
//! (`SO_PEERCRED`), for the sender of a message (`SCM_CREDENTIALS`), and for a handle that goes with one (`SCM_RIGHTS`;
//! unix(7)).
//!
//! A token has an unguessable number, which the sender passes on in band, and is redeemed once. What it says of a
//! caller the server knows by itself: the kernel tells who calls. A process that reads the number out of memory of
//! others can only spend the token early, never impersonate its sender.

use super::dispatch::{Answer, FileServer, NOTHING};
use super::main_loop::Server;
use super::sockets::socket_names::NamedSocket;
use super::sockets::unaccepted::PendingData;
use alloc::collections::{BTreeMap, VecDeque};
use exos::hw;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::transfer::Message;
use runtime::{PageNumber, clock, exposed};
use unix_core::process::ucred::Ucred;
use unix_core::server::protocol::TokenKind;
use vfs::handle::Handle;

/// Statements of one principal that wait to be redeemed, at most: more makes it lose the older half.
const MOST: usize = 4096;

/// Something that was said.
#[derive(Clone, Debug)]
struct Token {
    /// Client that said it.
    by: u64,
    kind: TokenKind,
    peer: Ucred,
    /// First pages of the pipes of a connection.
    pages: [u64; 2],
    principal: u64,
    /// What is left of a connection that was closed.
    left: Option<PendingData>,
}

/// All that was said and not redeemed.
#[derive(Debug, Default)]
pub struct TokenTable {
    said: BTreeMap<u64, Token>,
    /// Their numbers, the oldest first, by principal; some may be gone.
    order: BTreeMap<u64, VecDeque<u64>>,
}

impl TokenTable {
    /// Where that goes which is left of a connection that a principal made.
    pub(super) fn left(&mut self, number: u64, principal: u64) -> Option<&mut Option<PendingData>> {
        let said = self.said.get_mut(&number)?;
        (said.kind == TokenKind::Connection && said.principal == principal).then_some(&mut said.left)
    }

    /// What is left of a connection.
    pub(super) fn left_of(&self, number: u64) -> Option<&PendingData> {
        self.said.get(&number)?.left.as_ref()
    }

    /// How much a principal has left behind.
    pub(super) fn left_by(&self, principal: u64) -> usize {
        let own = self.said.values().filter(|said| said.principal == principal);
        own.filter_map(|said| said.left.as_ref()).map(PendingData::weight).sum()
    }

    fn note(&mut self, principal: u64, said: Token) -> u64 {
        let order = self.order.entry(principal).or_default();
        if order.len() >= MOST {
            order.retain(|number| self.said.contains_key(number));
            for number in order.drain(..order.len().saturating_sub(MOST / 2)) {
                self.said.remove(&number);
            }
        }
        let number = secret();
        order.push_back(number);
        self.said.insert(number, said);
        number
    }
}

/// An unguessable number; on a machine without a source of entropy, one that no other token has by accident.
pub(super) fn secret() -> u64 {
    let mut bytes = [0; 8];
    match hw::entropy(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes).max(1),
        Err(_) => clock::now().wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).max(1),
    }
}

impl Server {
    /// See [`unix_core::server::protocol::Request::IssueToken`].
    pub(super) fn vouch(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let [_, kind, process, numbers, ..] = *message;
        let kind = TokenKind::from_word(kind).ok_or(Errno::EINVAL)?;
        let identity = &self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials;
        let own = self.succession().process(caller);
        let claimed = Ucred { process: process as u32, user: numbers as u32, group: (numbers >> 32) as u32 };
        let (peer, pages) = match kind {
            TokenKind::Sender => (Ucred::of(own, identity.real()), [0; 2]),
            TokenKind::Connection => (Ucred::of(own, identity.acting()), [process, numbers]),
            TokenKind::Claim | TokenKind::Passed if !identity.may_claim(claimed.user, claimed.group) => {
                return Err(Errno::EPERM);
            }
            TokenKind::Claim if process != own && !identity.has(linux::CAP_SYS_ADMIN) => return Err(Errno::EPERM),
            TokenKind::Claim => (claimed, [0; 2]),
            TokenKind::Passed if identity.is_privileged() || self.is_of(process, claimed.user) => (claimed, [0; 2]),
            TokenKind::Passed => (Ucred { process: 0, ..claimed }, [0; 2]),
        };
        let principal = identity.principal();
        message[1] = self.tokens.note(principal, Token { by: caller, kind, peer, pages, principal, left: None });
        Ok(())
    }

    fn is_of(&self, process: u64, user: u32) -> bool {
        let client = self.server.clients.get(&self.succession().environment(process));
        client.is_some_and(|client| [client.credentials.user.real, client.credentials.user.effective].contains(&user))
    }

    /// See [`unix_core::server::protocol::Request::RedeemToken`].
    pub(super) fn redeem(&mut self, caller: u64, message: &mut Message) -> Result<()> {
        let [_, number, kind, first, second, keeps] = *message;
        let kind = TokenKind::from_word(kind).ok_or(Errno::EINVAL)?;
        let said = self.tokens.said.get(&number).ok_or(Errno::EPERM)?;
        let is_message = |kind| matches!(kind, TokenKind::Sender | TokenKind::Claim);
        let is_of_kind = said.kind == kind || is_message(said.kind) && is_message(kind);
        // What is left of a connection came from who made it.
        let is_genuine = || said.left.is_some() || self.are_still_of([said.by, caller], said.pages);
        let is_right = is_of_kind && (kind != TokenKind::Connection || said.pages == [first, second] && is_genuine());
        let peer = said.peer;
        if keeps == 0 {
            self.tokens.said.remove(&number);
        }
        if !is_right {
            return Err(Errno::EPERM);
        }
        [message[1], message[2]] = peer.to_words();
        Ok(())
    }

    /// Whether pages still belong to the client that named them, or to the one that asks: it takes over pages of a
    /// queue when it becomes another user. Another process may have chosen them for that.
    fn are_still_of(&self, clients: [u64; 2], pages: [u64; 2]) -> bool {
        let owner = |page| exposed::page(PageNumber(page)).map_or(0, |info| info.owner().0);
        let client = |owner| self.threads.get(&owner).copied().unwrap_or(owner);
        pages.into_iter().map(owner).all(|owner| clients.contains(&client(owner)))
    }
}

impl FileServer {
    /// A handle is on its way from now on: its number there.
    pub(super) fn offer(&mut self, handle: Handle) -> Result<Answer> {
        self.hold_for_nobody(handle)?;
        let number = secret();
        self.offered.insert(number, handle.to_word());
        Ok([number, 0, 0, 0, 0])
    }

    /// What is on its way is held by who takes it, and knows its number.
    pub(super) fn accept_offer(&mut self, caller: u64, number: u64) -> Result<Answer> {
        let word = self.offered.remove(&number).ok_or(Errno::EPERM)?;
        let handle = Handle::from_word(word);
        self.hold(caller, handle)?;
        self.let_go(handle)?;
        Ok([word, 0, 0, 0, 0])
    }

    /// The caller listens at the names that it, or another process of its user, gave to this page, as who it is now.
    pub(super) fn listens(&mut self, caller: u64, page: u64) -> Result<Answer> {
        let who = self.clients.get(&caller).ok_or(Errno::EPERM)?.credentials.acting();
        let is_own = |named: &NamedSocket| named.by == caller || named.who.uid == who.uid;
        let own = self.sockets.values_mut().filter(|named| named.page.page().0 == page && is_own(named));
        own.for_each(|named| (named.by, named.who, named.listens) = (caller, who, true));
        Ok(NOTHING)
    }
}
