//! Sockets for datagrams, whose connection is no more than where messages go and the only one that they are taken from
//! (unix(7)).
//!
//! The first page of the pipe that a socket reads is what others know it by. In it stands the one that it is connected
//! to, and every sender looks there.

use super::socket::{Kind, Socket};
use super::socket_shared::first_of;
use crate::descriptor::open_file::OpenFile;
use crate::hw::domain::domain;
use crate::pipe::{self, Pipe, Side};
use crate::server::client::Peer;
use linux_abi::errno::{Errno, Result};

impl Socket {
    /// Connects it to who reads the pipe that begins with the peer's page.
    pub(crate) fn connect_for_datagrams(&self, description: &OpenFile, name: &[u8], peer: Peer) -> Result<()> {
        let pipe = Pipe::open_by_first(&mut domain().mappings.lock(), peer.page, domain().session_key);
        let pipe = pipe.map_err(|_| Errno::ECONNREFUSED)?;
        if let Err(error) = self.check_receiver(&pipe) {
            pipe::discard(&pipe);
            return Err(error);
        }
        self.join_for_datagrams(Some(description), Some(pipe), name);
        Ok(())
    }

    /// Takes its connection back (`AF_UNSPEC`), if it has one.
    ///
    /// # Errors
    /// `EINVAL`: one of another kind keeps it.
    pub fn disconnect(&self) -> Result<()> {
        if self.kind != Kind::Datagram {
            return Err(Errno::EINVAL);
        }
        self.join_for_datagrams(None, None, b"");
        Ok(())
    }

    /// Has messages go there from now on, and come from there. What the last one sent is lost with the connection, and
    /// it is told so if it had one to here.
    fn join_for_datagrams(&self, description: Option<&OpenFile>, pipe: Option<Pipe>, name: &[u8]) {
        let to = first_of(&pipe);
        let (own, before) = self.change(description, |ends| {
            ends.incoming.iter().for_each(|incoming| incoming.take_only_from(to));
            ends.names[1] = name.to_vec();
            (first_of(&ends.incoming), core::mem::replace(&mut ends.outgoing, pipe))
        });
        let Some(before) = before else { return };
        let is_left = before.pages()[0] != to;
        if is_left && self.drop_messages() && before.is_only_from(own) {
            before.reset_peer();
        }
        self.leave_pipe(&before, Side::Write);
    }

    /// Whether a message may go into a pipe, and nothing has to be told first.
    pub(crate) fn check_datagram(&self, pipe: &Pipe) -> Result<()> {
        if let Some(error) = self.take_error() {
            return Err(error);
        }
        if self.settings.writes_no_more() {
            return Err(Errno::EPIPE);
        }
        let outcome = self.check_receiver(pipe);
        // A socket that reads there no more is no peer any more.
        if outcome == Err(Errno::ECONNREFUSED) && first_of(&self.ends().outgoing) == pipe.pages()[0] {
            self.disconnect()?;
        }
        outcome.and_then(|()| if pipe.is_shut_to_senders() { Err(Errno::EPIPE) } else { Ok(()) })
    }

    fn check_receiver(&self, pipe: &Pipe) -> Result<()> {
        match pipe.has_other(Side::Write) {
            false => Err(Errno::ECONNREFUSED),
            true if !pipe.takes_from(first_of(&self.ends().incoming)) => Err(Errno::EPERM),
            true => Ok(()),
        }
    }

    /// `shutdown`: others go on sending to whom this one sent, and to all but this one.
    pub(crate) fn shut_for_datagrams(&self, reads: bool, writes: bool) {
        if writes {
            self.settings.write_no_more();
        }
        self.ends().incoming.iter().filter(|_| reads).for_each(Pipe::shut_to_senders);
    }
}
