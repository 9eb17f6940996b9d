//! Reassembly of IP fragments.
//!
//! Invariants:
//! - At most [`PACKETS`] packets and [`BYTES`] bytes wait, none longer than [`LIFE`]. The oldest yields its place.
//! - Fragments that overlap end their packet (RFC 5722, for both versions): no stack sends them in good faith.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::packet::{Fragment, Packet};
use crate::time::{SECOND, Time};

pub const PACKETS: usize = 64;
pub const BYTES: usize = 256 << 10;
pub const LIFE: u64 = 15 * SECOND;
/// Fragments of one packet: 65,535 bytes over the narrowest path of IPv6.
const PIECES: usize = 64;
/// What the length field of a header can say.
const LENGTH_LIMIT: usize = 65_535;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    protocol: u8,
    identification: u32,
}

#[derive(Debug)]
struct Partial {
    key: Key,
    deadline: Time,
    /// Sorted by offset, disjoint.
    pieces: Vec<(usize, Vec<u8>)>,
    /// Length of the whole, once the last fragment has come.
    total: Option<usize>,
}

impl Partial {
    fn bytes(&self) -> usize {
        self.pieces.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Adds a fragment; false when it contradicts the others.
    fn add(&mut self, fragment: &Fragment, bytes: &[u8]) -> bool {
        let (first, end) = (fragment.offset, fragment.offset + bytes.len());
        let at = self.pieces.partition_point(|(offset, _)| *offset < first);
        let before = at.checked_sub(1).map_or(0, |index| self.pieces[index].0 + self.pieces[index].1.len());
        let after = self.pieces.get(at).map_or(usize::MAX, |(offset, _)| *offset);
        let ends_well = match (fragment.more, self.total) {
            (true, Some(total)) => end < total,
            (true, None) => true,
            (false, Some(total)) => end == total,
            (false, None) => self.pieces.last().is_none_or(|(offset, bytes)| offset + bytes.len() <= first),
        };
        if before > first || end > after || !ends_well || self.pieces.len() >= PIECES {
            return false;
        }
        if !fragment.more {
            self.total = Some(end);
        }
        self.pieces.insert(at, (first, bytes.to_vec()));
        true
    }

    fn is_repeated(&self, fragment: &Fragment, bytes: &[u8]) -> bool {
        self.pieces.iter().any(|(offset, other)| *offset == fragment.offset && other == bytes)
    }

    fn whole(&self) -> Option<Vec<u8>> {
        let total = self.total.filter(|total| *total == self.bytes())?;
        let mut whole = Vec::with_capacity(total);
        self.pieces.iter().for_each(|(_, bytes)| whole.extend_from_slice(bytes));
        Some(whole)
    }
}

#[derive(Debug, Default)]
pub struct Reassembly {
    /// In the order in which they began.
    partials: Vec<Partial>,
}

impl Reassembly {
    pub fn len(&self) -> usize {
        self.partials.len()
    }

    pub fn is_empty(&self) -> bool {
        self.partials.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.partials.iter().map(Partial::bytes).sum()
    }

    pub fn deadline(&self) -> Time {
        self.partials.first().map_or(Time::NEVER, |partial| partial.deadline)
    }

    pub fn expire(&mut self, now: Time) {
        self.partials.retain(|partial| partial.deadline > now);
    }

    /// Adds a fragment; returns the payload of its packet when nothing is missing any more.
    pub fn add(&mut self, packet: &Packet<'_>, fragment: &Fragment, now: Time) -> Option<Vec<u8>> {
        let (source, destination, protocol) = (packet.source, packet.destination, packet.protocol);
        let key = Key { source, destination, protocol, identification: fragment.identification };
        let length = packet.payload.len();
        // All but the last are a multiple of 8 bytes long; ours hold something.
        let is_wrong =
            length == 0 || fragment.more && !length.is_multiple_of(8) || fragment.offset + length > LENGTH_LIMIT;
        let known = self.partials.iter().position(|partial| partial.key == key);
        if is_wrong {
            known.map(|index| self.partials.remove(index));
            return None;
        }
        let index = known.unwrap_or_else(|| {
            let deadline = now.after(LIFE);
            self.partials.push(Partial { key, deadline, pieces: Vec::new(), total: None });
            self.partials.len() - 1
        });
        let partial = &mut self.partials[index];
        if partial.is_repeated(fragment, packet.payload) {
            return None;
        }
        if !partial.add(fragment, packet.payload) {
            self.partials.remove(index);
            return None;
        }
        let whole = partial.whole();
        if whole.is_some() {
            self.partials.remove(index);
        }
        self.shed();
        whole
    }

    fn shed(&mut self) {
        while self.partials.len() > PACKETS || self.bytes() > BYTES {
            self.partials.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> Packet<'_> {
        let address = Ipv6Addr::LOCALHOST;
        let (source, destination) = (address, address);
        Packet { source, destination, protocol: 17, hop_limit: 64, fragment: None, payload, whole: payload }
    }

    fn piece(identification: u32, offset: usize, more: bool) -> Fragment {
        Fragment { identification, offset, more }
    }

    #[test]
    fn fragments_in_any_order_make_the_packet() {
        let bytes: Vec<u8> = (0..40).collect();
        let cuts = [(0, 16), (16, 24), (24, 32), (32, 40)];
        for turn in 0..24_usize {
            let mut order = cuts.to_vec();
            let mut rest = turn;
            for index in (1..4).rev() {
                order.swap(index, rest % (index + 1));
                rest /= index + 1;
            }
            let mut reassembly = Reassembly::default();
            let mut whole = None;
            for (first, end) in order {
                assert_eq!(whole, None);
                let part = &bytes[first..end];
                let fragment = piece(7, first, end < 40);
                whole = reassembly.add(&packet(part), &fragment, Time::default());
            }
            assert_eq!(whole, Some(bytes.clone()));
            assert!(reassembly.is_empty());
        }
    }

    #[test]
    fn overlaps_and_wrong_lengths_end_the_packet() {
        let bytes = [0; 64];
        for (offset, length, more) in [(8, 16, true), (0, 24, true), (8, 8, false), (16, 0, true), (24, 7, true)] {
            let mut reassembly = Reassembly::default();
            reassembly.add(&packet(&bytes[..16]), &piece(1, 0, true), Time::default());
            reassembly.add(&packet(&bytes[..8]), &piece(1, 32, false), Time::default());
            assert_eq!(reassembly.add(&packet(&bytes[..length]), &piece(1, offset, more), Time::default()), None);
            assert!(reassembly.is_empty(), "{offset} {length} {more}");
        }
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.add(&packet(&bytes[..16]), &piece(1, 65_528, false), Time::default()), None);
        assert!(reassembly.is_empty());
    }

    #[test]
    fn repeated_fragments_change_nothing() {
        let bytes = [3; 16];
        let mut reassembly = Reassembly::default();
        for _ in 0..3 {
            assert_eq!(reassembly.add(&packet(&bytes), &piece(1, 0, true), Time::default()), None);
        }
        assert_eq!(
            reassembly.add(&packet(&bytes[..4]), &piece(1, 16, false), Time::default()).map(|it| it.len()),
            Some(20)
        );
    }

    #[test]
    fn memory_and_time_are_bounded() {
        let bytes = [0; 8_192];
        let mut reassembly = Reassembly::default();
        for identification in 0..1_000 {
            let now = Time::from_micros(u64::from(identification) * 1_000);
            reassembly.add(&packet(&bytes), &piece(identification, 0, true), now);
            assert!(reassembly.len() <= PACKETS && reassembly.bytes() <= BYTES);
        }
        assert_eq!(reassembly.len(), BYTES / 8_192);
        reassembly.expire(reassembly.deadline());
        assert_eq!(reassembly.len(), BYTES / 8_192 - 1);
        reassembly.expire(Time::from_micros(1_000_000 + LIFE));
        assert!(reassembly.is_empty() && reassembly.deadline().is_never());
    }
}
