//! Credentials of the peer of a socket (`SO_PEERCRED`), and of the sender of a message (`SCM_CREDENTIALS`; unix(7)): as
//! the server says, never as the other side does.
//!
//! What the server said once is kept in the process. A process that receives a socket learns its peer only if the
//! sender of the socket could take the peer's credentials itself: such a sender could forge all the rest.

use super::socket::Socket;
use crate::pipe::Pipe;
use crate::pipe::message_frames::Frame;
use crate::server::client;
use linux_abi::errno::Result;
use runtime::PageNumber;
use unix_core::process::ucred::Ucred;
use unix_core::server::protocol::TokenKind;

impl Socket {
    /// The peer's credentials, as they were when the connection began.
    pub fn peer(&self) -> Ucred {
        self.ends().peer.unwrap_or(Ucred::NONE)
    }

    /// The peer of who connects by these two pipes, which it made: the number that says so.
    pub(crate) fn introduce(&self, outgoing: &Pipe, incoming: &Pipe) -> Result<u64> {
        client::files().lock().vouch(TokenKind::Connection, [outgoing, incoming].map(|pipe| pipe.pages()[0].0))
    }

    /// The maker of a connection by two pipes; unknown where the token is not for them.
    pub(crate) fn introduced(number: u64, pages: [PageNumber; 2]) -> Ucred {
        let pages = pages.map(|page| page.0);
        client::files().lock().redeem(number, TokenKind::Connection, pages).unwrap_or(Ucred::UNKNOWN)
    }

    /// The token that tells the receiver of this socket its peer; 0: there is none.
    pub(crate) fn vouch_for_peer(&self) -> u64 {
        Self::vouch_for(self.ends().peer)
    }

    /// The token that tells its first redeemer a peer; 0: there is none.
    pub(crate) fn vouch_for(peer: Option<Ucred>) -> u64 {
        let Some(peer) = peer else { return 0 };
        client::files().lock().vouch(TokenKind::Passed, peer.to_words()).unwrap_or(0)
    }

    /// The peer of a socket that was passed with such a token.
    pub(crate) fn passed(number: u64, is_joined: bool) -> Option<Ucred> {
        let redeem = |number| client::files().lock().redeem(number, TokenKind::Passed, [0; 2]);
        let known = Some(number).filter(|number| *number != 0).map(redeem);
        known.map(|peer| peer.unwrap_or(Ucred::UNKNOWN)).or(is_joined.then_some(Ucred::UNKNOWN))
    }

    /// Messages come with who sent them from now on, or do not.
    pub fn ask_for_senders(&self, does: bool) {
        self.settings.set_wants_credentials(does);
        self.ends().incoming.iter().for_each(|pipe| pipe.ask_for_senders(does));
    }

    /// The token for the sender of the next message by a pipe, if the receiver wants it; `claimed`: the credentials
    /// that the program claims.
    pub(crate) fn vouch_for_sender(&self, pipe: &Pipe, claimed: Option<Ucred>) -> Result<u64> {
        match claimed {
            Some(claimed) => client::files().lock().vouch(TokenKind::Claim, claimed.to_words()),
            None if pipe.asks_for_senders() || self.settings.wants_credentials() => {
                client::files().lock().vouch(TokenKind::Sender, [0; 2])
            }
            None => Ok(0),
        }
    }

    /// The sender of a message. A part of one that was received already was sent by the same.
    pub fn sender(&self, frame: &Frame) -> Ucred {
        if frame.voucher == 0 {
            return Ucred::UNKNOWN;
        }
        let key = (frame.voucher, frame.end);
        match *self.last_sender.lock() {
            Some((known, peer)) if known == key => return peer,
            _ => {}
        }
        let redeemed = client::files().lock().redeem(frame.voucher, TokenKind::Sender, [0; 2]);
        let peer = redeemed.unwrap_or(Ucred::UNKNOWN);
        *self.last_sender.lock() = Some((key, peer));
        peer
    }
}
