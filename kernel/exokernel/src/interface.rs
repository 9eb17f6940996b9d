//! Interfaces: where frames come from and go to (the seam between packets and the drivers of network cards).
//!
//! Interface 0 is the machine itself: what is sent there is received there. Interface n is the n-th network card, whose
//! device bears the name `[DEVICE, NETWORK, n]`, n from 1 on.
//!
//! - The driver hands a frame that arrived to [`Kernel::receive`], a bounded number an entry: until the entry is spent.
//! - Packets give a frame to the [`Card`](machine::packet::Card) of its interface, with a token.
//! - The exposed record of a card says how large a frame may be: without that there is no such interface.

use crate::cost;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::packet_filter::Network;
use crate::packet_ring::{Dropped, Ring};
use abi::capability::{Capability, DEVICE, Rights};
use abi::device::kind;
use abi::interface::{InterfaceInfo, LOOPBACK, feature};
use abi::{EnvironmentId, Error, Failure, KeyIndex};
use core::sync::atomic::Ordering;
use driver::network;
use machine::exposed::{self, add};
use machine::memory;
use machine::packet::{Offload, Received};

/// Bytes of a frame to the machine itself, at most.
const LOOPBACK_BYTES: u64 = 48 << 10;
/// Bytes of a frame that a card cuts into segments, at most: the largest packet and its link header.
const SEGMENTED_BYTES: usize = 65_535 + 14;
/// Pages that such a frame is put together in, behind its prefix.
pub(crate) const FRAME_PAGES: u64 = 13;

/// The name of an interface.
pub(crate) fn name(interface: u64) -> Capability {
    capability::named([DEVICE, kind::NETWORK, interface])
}

/// The record of an interface.
pub(crate) fn record(interface: u64) -> Result<&'static InterfaceInfo, Failure> {
    let info = usize::try_from(interface).ok().and_then(|number| exposed::interfaces().get(number));
    info.filter(|info| info.frame_bytes.load(Ordering::Relaxed) != 0).ok_or(Error::Absent.about(interface))
}

/// The record of an interface that is open. Only one that exists was opened.
pub(crate) fn open_record(interface: u64) -> Result<&'static InterfaceInfo, Failure> {
    let info = usize::try_from(interface).ok().and_then(|number| exposed::interfaces().get(number));
    info.filter(|info| info.opened_by.load(Ordering::Relaxed) != 0).ok_or(Error::Absent.about(interface))
}

/// Fills the records of interfaces, where there is a network.
pub(crate) fn expose() {
    for (number, info) in (0..).zip(exposed::interfaces()) {
        let (bytes, address, features) = match number {
            LOOPBACK => (LOOPBACK_BYTES, 0, feature::CHECKSUM | feature::SEGMENTS_1 | feature::SEGMENTS_4),
            card => network::with(card, |card| card.facts()).map_or((0, 0, 0), |facts| of_card(&facts)),
        };
        info.address.store(address, Ordering::Relaxed);
        info.features.store(features, Ordering::Relaxed);
        info.frame_bytes.store(bytes, Ordering::Release);
    }
}

/// Largest frame, address and features of a card.
fn of_card(facts: &network::Facts) -> (u64, u64, u64) {
    let cuts = facts.segments.contains(&true);
    let [a, b, c, d, e, f] = facts.address;
    let offers = [facts.sends_checksums, facts.segments[0], facts.segments[1]];
    let bits = [feature::CHECKSUM, feature::SEGMENTS_1, feature::SEGMENTS_4];
    let features = offers.iter().zip(bits).map(|(offered, bit)| if *offered { bit } else { 0 }).sum();
    let bytes = if cuts { facts.frame.max(SEGMENTED_BYTES) } else { facts.frame };
    (bytes as u64, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), features)
}

/// Whether an interface does what is asked for a frame.
pub(crate) fn offers(info: &InterfaceInfo, offload: &Offload) -> bool {
    let asked = match (offload.partial, offload.segmentation) {
        (false, _) => return true,
        (true, 0) => feature::CHECKSUM,
        (true, 1) => feature::CHECKSUM | feature::SEGMENTS_1,
        (true, _) => feature::CHECKSUM | feature::SEGMENTS_4,
    };
    info.features.load(Ordering::Relaxed) & asked == asked
}

impl Kernel {
    /// Opens or closes an interface (see `abi::syscall`).
    pub(crate) fn open_interface(&mut self, key: KeyIndex, interface: u64, open: u64) -> Outcome<()> {
        self.key(key)?;
        let info = record(interface)?;
        self.require(key, &name(interface), Rights::OWN)?;
        let opened_by = EnvironmentId(info.opened_by.load(Ordering::Relaxed));
        let opener = match open {
            0 => 0,
            1 if opened_by != self.caller().number() && self.living(opened_by).is_ok() => {
                return refuse(Error::InUse, opened_by.0);
            }
            1 => self.caller().number().0,
            _ => return refuse(Error::BadArgument, 2),
        };
        info.opened_by.store(opener, Ordering::Release);
        Ok(())
    }

    /// A frame arrived: the filter that wins gets it into its ring. The caller wakes idle CPUs afterwards.
    pub(crate) fn receive(&self, frame: &Received<'_>) {
        if let (Ok(info), Ok(network)) = (open_record(frame.interface), self.network()) {
            let length = frame.pieces.iter().map(machine::packet::Piece::length).sum();
            self.receive_by(info, network, frame, length);
        }
    }

    /// A frame of so many bytes arrived by an open interface.
    #[inline(always)]
    pub(crate) fn receive_by(&self, info: &InterfaceInfo, network: &Network, frame: &Received<'_>, length: usize) {
        let Some(first) = frame.pieces.first() else { return };
        first.write_prefix(prefix(frame.interface, length));
        add(&info.received, 1);
        add(&info.received_bytes, length as u64);
        let winner = network.winner(first);
        self.spend(cost::CLASSIFY + (network.tree.classifier().shape_count() / cost::SHAPES_PER_UNIT) as u32);
        match winner {
            Some(index) => self.hand_over(info, network, index, *frame, length),
            None => add(&info.unclaimed, 1),
        }
    }

    /// Puts a frame into the ring of the filter that wins it.
    #[inline(never)]
    fn hand_over(&self, info: &InterfaceInfo, network: &Network, index: u32, frame: Received<'_>, length: usize) {
        let (filter, facts) = (network.tree.node(index), &exposed::filters()[index as usize]);
        add(&facts.packets, 1);
        add(&facts.bytes, length as u64);
        let ring = filter.attached.ring.filter(|(page, generation)| {
            memory::info(*page).is_some_and(|info| memory::generation(info) == *generation)
        });
        let ring = ring.and_then(|(page, _)| self.memory.get::<Ring>(page));
        let outcome = match ring {
            Some(ring) => ring.deliver(&frame, length, filter.attached.tag),
            None => Err(Dropped::NoRing),
        };
        let count = match outcome {
            Ok(()) => None,
            Err(Dropped::NoRing) => Some(&info.dropped_no_ring),
            Err(Dropped::Full) => Some(&info.dropped_full),
            Err(Dropped::Long) => Some(&info.dropped_long),
        };
        if let Some(count) = count {
            add(count, 1);
            add(&facts.drops, 1);
        }
        self.spend(cost::DELIVER + (length / cost::BYTES_PER_UNIT) as u32);
    }
}

/// What filters see before a frame.
fn prefix(interface: u64, length: usize) -> [u8; machine::packet::PREFIX] {
    (interface << 48 | length as u64).to_be_bytes()
}
