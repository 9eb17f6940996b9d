//! What the server asks of the keeper of the wire, and what it knows of the wire.
//!
//! Invariant: at most one [`Command::Look`] for each time that the keeper asked to be told, so that programs cannot
//! make the queue longer than there are sockets. Datagrams in it have at most [`DATAGRAM_BYTES`].

use super::keeper::Keeper;
use crate::dispatch::FileServer;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::card;
use exos::hw::mapping::Mapping;
use internet::address::{Address, Endpoint};
use internet::device::Device;
use linux_abi::errno::{Errno, Result};
use network::slab::Handle;
use runtime::lock::Possession;
use runtime::transfer::Message;
use runtime::{EnvironmentId, PageNumber};
use unix_core::server::protocol::{NETWORK_DONE, NETWORK_WORK, NOT_YET};
use vfs::inode::NodeId;

/// Bytes of datagrams that may wait for the keeper.
const DATAGRAM_BYTES: usize = 512 << 10;
/// What each of them counts for in addition to its bytes.
const OVERHEAD: usize = 128;

/// A datagram, or the payload of another packet, on its way out.
#[derive(Debug)]
pub struct Outgoing {
    /// Protocol of IP.
    pub protocol: u8,
    pub local: Endpoint,
    pub remote: Endpoint,
    pub hops: u8,
    pub bytes: Vec<u8>,
}

/// What the keeper is to do, in this order.
#[derive(Debug)]
pub enum Command {
    /// Open a connection for a socket. The last node is that of the other side, whose page the keeper writes.
    Connect(NodeId, NodeId, Endpoint, Endpoint),
    /// A connection that came is accepted: its own node, and that of the other side.
    Accept(Handle, NodeId, NodeId),
    /// Connections that came are not going to be accepted.
    Refuse(Handle),
    /// A socket listens at an end; whether it takes no IPv4, and how many connections may wait.
    Listen(NodeId, Endpoint, bool, usize),
    /// It listens no more.
    StopListening(NodeId),
    /// Counts in the pages of a socket have changed.
    Look(NodeId),
    Send(Outgoing),
    /// End: the session makes another keeper.
    End,
}

/// The wire as the server knows it.
#[derive(Debug, Default)]
pub struct Wire {
    /// The keeper's environment; none where the machine has no card.
    pub environment: Option<EnvironmentId>,
    /// A program needs the wire: the keeper opens the card.
    pub is_wanted: bool,
    /// The card has an address, or none came in time.
    pub is_settled: bool,
    pub commands: VecDeque<Command>,
    datagram_bytes: usize,
    /// A request cannot be answered before the wire is settled.
    is_awaited: bool,
    /// Addresses of the card, with the bits of their prefixes.
    pub addresses: Vec<(Address, u8)>,
    /// Routers.
    pub gateways: Vec<Address>,
    pub name_servers: Vec<Address>,
    pub neighbors: Vec<(Address, [u8; 6])>,
    /// Where the keeper has opened the card.
    pub memory: Option<Mapping>,
    /// Larger areas that the stack may read at any time, by their first page: those of a socket that has gone meanwhile
    /// are freed when the keeper closes its window.
    pub lent: BTreeMap<PageNumber, Vec<PageNumber>>,
    /// What the keeper keeps. It holds it while it lives; the next one frees what a dead one has left.
    pub(super) tables: Arc<Possession<Option<Keeper>>>,
}

impl Wire {
    fn lives(&self) -> bool {
        self.environment.is_some_and(runtime::exposed::lives)
    }

    /// The next command.
    pub fn take(&mut self) -> Option<Command> {
        let command = self.commands.pop_front()?;
        if let Command::Send(outgoing) = &command {
            self.datagram_bytes -= outgoing.bytes.len() + OVERHEAD;
        }
        Some(command)
    }

    /// The keeper before this one has died: what it knew and was asked is gone, but for the wish that there is one.
    pub fn forget(&mut self) {
        let (environment, is_wanted, tables) = (self.environment, self.is_wanted, self.tables.clone());
        *self = Self { environment, is_wanted, tables, ..Self::default() };
    }

    /// Whether an address is one of the card.
    pub fn has(&self, address: Address) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// The address that packets to another machine come from: one whose prefix has it, else one of its family.
    pub fn source_for(&self, to: Address) -> Option<Address> {
        let is_v4 = to.to_v4().is_some();
        let is_near = |address: Address| !is_v4 && address.0 >> 118 == 0x3fa;
        let has = |own: Address, bits: u8| (own.0 ^ to.0).leading_zeros() >= u32::from(bits);
        let fits = self.addresses.iter().filter(|(own, _)| own.to_v4().is_some() == is_v4);
        let fits = fits.filter(|(own, bits)| {
            has(*own, *bits) || self.gateways.iter().any(|gateway| gateway.to_v4().is_some() == is_v4 && !is_near(*own))
        });
        fits.max_by_key(|(own, bits)| (is_near(*own) == is_near(to), has(*own, *bits))).map(|(own, _)| *own)
    }
}

impl FileServer {
    /// Begins with the wire, where there is a card, and does not wait for it.
    pub fn want_wire(&mut self) {
        if card::is_there() && !self.wire.is_wanted {
            self.wire.is_wanted = true;
            self.wake_wire();
        }
    }

    /// Sees to it that the wire is settled.
    ///
    /// # Errors
    /// `ENETUNREACH` without a card; `NOT_LOADED` while it is not: the client waits and asks again.
    pub(crate) fn need_wire(&mut self) -> Result<()> {
        if !card::is_there() || !self.wire.lives() {
            return Err(Errno::ENETUNREACH);
        }
        if self.wire.is_settled {
            return Ok(());
        }
        self.want_wire();
        self.wire.is_awaited = true;
        Err(Errno::NOT_LOADED)
    }

    /// Makes the client of a request that needs the wire wait; whether it was one.
    pub(crate) fn wait_for_wire(&mut self, message: &mut Message) -> bool {
        if !core::mem::take(&mut self.wire.is_awaited) {
            return false;
        }
        let seen = self.notice.words()[NETWORK_DONE].load(Acquire);
        *message = [NOT_YET, seen, NETWORK_DONE as u64, 0, 0, 0];
        true
    }

    /// The card as `internet::device` describes it.
    ///
    /// # Errors
    /// `NOT_LOADED` while it has no address yet.
    pub(crate) fn card_lines(&mut self) -> Result<Vec<String>> {
        let Some(card) = card::find() else { return Ok(Vec::new()) };
        match self.need_wire() {
            Err(Errno::NOT_LOADED) => return Err(Errno::NOT_LOADED),
            // The card is there, whatever became of its keeper.
            Ok(()) | Err(_) => {}
        }
        // Mapped addresses have 96 bits before their own.
        let bits = |address: Address, bits: u8| if address.to_v4().is_some() { bits.saturating_sub(96) } else { bits };
        let device = Device {
            hardware: card.hardware,
            mtu: card.mtu as u32,
            addresses: self.wire.addresses.iter().map(|(own, length)| (*own, bits(*own, *length))).collect(),
            gateways: self.wire.gateways.clone(),
            name_servers: self.wire.name_servers.clone(),
            neighbors: self.wire.neighbors.clone(),
        };
        Ok(device.to_lines())
    }

    pub(crate) fn wake_wire(&self) {
        self.notice.words()[NETWORK_WORK].fetch_add(1, SeqCst);
        exos::wait::kick_idle();
    }

    pub(crate) fn command_wire(&mut self, command: Command) {
        self.wire.commands.push_back(command);
        self.wake_wire();
    }

    /// Hands the keeper a datagram.
    ///
    /// # Errors
    /// `ENOBUFS` where too many wait.
    pub(crate) fn send_to_wire(&mut self, outgoing: Outgoing) -> Result<()> {
        let bytes = outgoing.bytes.len() + OVERHEAD;
        if self.wire.datagram_bytes + bytes > DATAGRAM_BYTES {
            return Err(Errno::ENOBUFS);
        }
        self.wire.datagram_bytes += bytes;
        self.command_wire(Command::Send(outgoing));
        Ok(())
    }

    /// Whether an address is one of this machine.
    pub(crate) fn is_own_address(&self, address: Address) -> bool {
        address.is_local() || matches!(address.to_v4(), Some(0x7fff_ffff)) || self.wire.has(address)
    }

    /// Where packets to an address leave from; whether they leave the machine.
    ///
    /// # Errors
    /// `ENETUNREACH` where no network leads there; as [`Self::need_wire`].
    pub(crate) fn route_to(&mut self, to: Address) -> Result<(Address, bool)> {
        if to.is_local() || matches!(to.to_v4(), Some(0x7fff_ffff)) {
            let own = if to.to_v4().is_some() { Address::v4(0x7f00_0001) } else { Address(1) };
            return Ok((own, false));
        }
        self.need_wire()?;
        if self.wire.has(to) {
            return Ok((to, false));
        }
        self.wire.source_for(to).map(|own| (own, true)).ok_or(Errno::ENETUNREACH)
    }
}
