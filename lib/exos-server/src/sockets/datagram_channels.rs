//! Channels of datagrams, as the server makes and breaks them; `descriptor::datagram_channel` says what they are.
//!
//! A socket that sent [`DATAGRAMS_BEFORE`] datagrams to the same place, one after the other, gets a channel to the
//! socket that receives them. It has one at a time. A receiver has [`CHANNELS_MOST`] at most.
//! Invariants:
//! - A channel is broken before its datagrams could have another receiver: a socket at the port is bound, connected,
//!   disconnected or closed, or shares the port otherwise.
//! - The page of a broken channel stays until its receiver has taken what lies there, or is gone.

use super::internet_sockets::{Internet, SocketPage};
use crate::dispatch::{Answer, FileServer};
use crate::pages::page_acl::{Access, put_under};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use internet::address::Endpoint;
use internet::page;
use linux_abi::errno::Result;
use vfs::inode::NodeId;

/// Datagrams to the same place that the server sends before it makes a channel. A program that asks one question, and
/// asks it again, gets none.
const DATAGRAMS_BEFORE: u32 = 4;
/// A socket has no more channels that it receives by: each is a term of every wait.
const CHANNELS_MOST: usize = 4;

/// A channel.
#[derive(Debug)]
pub(super) struct Channel {
    /// `None`: it is broken.
    sender: Option<NodeId>,
    receiver: NodeId,
    page: SocketPage,
    number: u64,
    from: Endpoint,
    to: Endpoint,
}

impl Channel {
    fn is_drained(&self) -> bool {
        let count = |index: usize| self.page.words()[index].load(Acquire);
        count(page::SENT) == count(page::TAKEN)
    }
}

/// Where a socket sent its last datagrams, and how many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habit {
    to: Endpoint,
    receiver: NodeId,
    count: u32,
}

impl FileServer {
    /// A socket has sent a datagram to another one: page, number and family of the channel that it has, or gets now.
    pub(super) fn channel_for(
        &mut self,
        caller: u64,
        (sender, receiver): (NodeId, NodeId),
        (from, to): (Endpoint, Endpoint),
    ) -> Result<[u64; 3]> {
        let habit = &mut self.socket_of(sender)?.habit;
        let is_same = (habit.to, habit.receiver) == (to, receiver);
        let count = if is_same { habit.count.saturating_add(1) } else { 1 };
        *habit = Habit { to, receiver, count };
        if count < DATAGRAMS_BEFORE {
            return Ok([0; 3]);
        }
        let is_its = |channel: &Channel| {
            (channel.sender, channel.receiver, channel.from, channel.to) == (Some(sender), receiver, from, to)
        };
        let found = self.net().channels.iter().position(is_its);
        let at = match found {
            Some(at) => at,
            // Linux's limit of what waits is by the socket: a new look comes after as many again.
            None if count % DATAGRAMS_BEFORE != 0 || !self.has_room_for_channel(receiver) => return Ok([0; 3]),
            None => self.make_channel((sender, receiver), (from, to))?,
        };
        let (page, number) = (self.net().channels[at].page.number().0, self.net().channels[at].number);
        self.open_to(self.principal_of(caller), page, Access::Write)?;
        Ok([page, number, if to.address.to_v4().is_some() { 4 } else { 6 }])
    }

    fn has_room_for_channel(&mut self, receiver: NodeId) -> bool {
        self.drop_drained_channels(receiver);
        self.net().channels.iter().filter(|channel| channel.receiver == receiver).count() < CHANNELS_MOST
    }

    fn make_channel(
        &mut self,
        (sender, receiver): (NodeId, NodeId),
        (from, to): (Endpoint, Endpoint),
    ) -> Result<usize> {
        self.break_channels(|channel| channel.sender == Some(sender));
        let page = self.take_page()?;
        let list = self.keys.acls.list_for([(0, Access::Write)].into_iter().collect());
        if let Err(error) = list.and_then(|list| put_under(page.number().0, list)) {
            self.net().pool.push_back(page);
            return Err(error);
        }
        let net = self.net();
        net.last_channel += 1;
        let number = net.last_channel;
        net.channels.push(Channel { sender: Some(sender), receiver, page, number, from, to });
        let at = net.channels.len() - 1;
        self.socket_of(sender)?.page.words()[page::CHANNEL].store(number, SeqCst);
        self.announce_channels(receiver);
        Ok(at)
    }

    /// Those that receive by a socket look anew which channels it has.
    fn announce_channels(&mut self, receiver: NodeId) {
        if let Ok(socket) = self.socket_of(receiver) {
            socket.page.words()[page::CHANGES].fetch_add(1, SeqCst);
            self.datagrams_changed(receiver);
        }
    }

    fn break_channels(&mut self, is_meant: impl Fn(&Channel) -> bool) {
        let net = self.net();
        let mut receivers = Vec::new();
        for channel in net.channels.iter_mut().filter(|channel| is_meant(channel)) {
            let Some(sender) = channel.sender.take() else { continue };
            if let Some(sender) = net.sockets.get(&sender) {
                let _ = sender.page.words()[page::CHANNEL].compare_exchange(channel.number, 0, SeqCst, Acquire);
            }
            receivers.push(channel.receiver);
        }
        receivers.into_iter().for_each(|receiver| self.announce_channels(receiver));
    }

    /// Datagrams of this machine may go elsewhere from now on.
    pub(crate) fn break_all_channels(&mut self) {
        if self.internet.is_some() {
            self.break_channels(|_| true);
        }
    }

    /// A socket has got another name or another peer, or has none any more: datagrams of its own, to it, and to its
    /// port may go elsewhere.
    pub(super) fn break_channels_of(&mut self, node: NodeId) {
        let port = self.socket_of(node).map_or(0, |socket| socket.local.port);
        self.break_channels(|one| one.sender == Some(node) || one.receiver == node || one.to.port == port);
    }

    /// A socket is gone.
    pub(super) fn remove_channels_of(&mut self, node: NodeId) {
        self.break_channels_of(node);
        let net = self.net();
        let pages = net.channels.extract_if(.., |channel| channel.receiver == node).map(|channel| channel.page);
        net.pool.extend(pages);
    }

    fn drop_drained_channels(&mut self, receiver: NodeId) {
        let Internet { channels, pool, .. } = self.net();
        let is_over = |one: &mut Channel| one.receiver == receiver && one.sender.is_none() && one.is_drained();
        pool.extend(channels.extract_if(.., is_over).map(|channel| channel.page));
    }

    /// See [`unix_core::server::protocol::InternetRequest::Channels`].
    pub(super) fn channels_of(&mut self, caller: u64, receiver: NodeId) -> Result<Answer> {
        self.drop_drained_channels(receiver);
        let principal = self.principal_of(caller);
        let own = self.net().channels.iter().filter(|channel| channel.receiver == receiver);
        let rows: Vec<(u64, Endpoint, Endpoint)> = own.map(|one| (one.page.number().0, one.from, one.to)).collect();
        let mut words = Vec::new();
        for (page, from, to) in rows {
            self.open_to(principal, page, Access::Write)?;
            words.push(page);
            words.extend(from.to_words().into_iter().chain(to.to_words()).chain([0]));
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok([self.put(caller, &bytes)? / 64, 0, 0, 0, 0])
    }
}
