//! Keyed hashes of a stack: lookup, initial sequence numbers (RFC 6528), offsets of timestamps, ports (RFC 6056) and
//! cookies. A peer that does not know the key cannot predict any of them.

use core::hash::Hasher;
use core::net::Ipv6Addr;

use siphasher::sip::SipHasher13;

use crate::address::{Endpoint, Pair};
use crate::tcp::sequence::Sequence;
use crate::time::Time;

/// What a hash is for: each use has values of its own.
#[derive(Clone, Copy)]
enum Use {
    Lookup = 1,
    InitialSequence,
    Timestamp,
    Port,
    Cookie,
    Interface,
}

/// The key. The owner of the stack draws it at random.
#[derive(Clone, Copy, Debug)]
pub struct Secret(pub [u64; 2]);

impl Secret {
    fn hash(&self, usage: Use, bytes: &[u8], extra: u32) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write_u8(usage as u8);
        hasher.write_u32(extra);
        hasher.write(bytes);
        hasher.finish()
    }

    /// Place of a connection in the table.
    pub fn lookup(&self, pair: &Pair) -> u64 {
        self.hash(Use::Lookup, &pair.octets(), 0)
    }

    /// RFC 6528: a clock of 4 microseconds a step, and a hash of the pair.
    pub fn initial_sequence(&self, pair: &Pair, now: Time) -> Sequence {
        let offset = self.hash(Use::InitialSequence, &pair.octets(), 0) as u32;
        Sequence(offset.wrapping_add((now.micros() / 4) as u32))
    }

    /// What is added to the clock in timestamps, by addresses alone: a port that is used again continues in order.
    pub fn timestamp_offset(&self, pair: &Pair) -> u32 {
        self.hash(Use::Timestamp, &pair.octets()[..32], 0) as u32
    }

    /// Where the search for a free port begins (RFC 6056, algorithm 3).
    pub fn port_offset(&self, local: Ipv6Addr, remote: Endpoint) -> u32 {
        let pair = Pair { local: Endpoint { address: local, port: 0 }, remote };
        self.hash(Use::Port, &pair.octets(), 0) as u32
    }

    /// Lower half of the address below a prefix (RFC 7217).
    pub fn interface_identifier(&self, network: Ipv6Addr) -> u64 {
        self.hash(Use::Interface, &network.octets(), 0)
    }

    pub fn cookie(&self, pair: &Pair, extra: [u32; 2]) -> u32 {
        let mut bytes = [0; 40];
        bytes[..36].copy_from_slice(&pair.octets());
        bytes[36..].copy_from_slice(&extra[1].to_be_bytes());
        self.hash(Use::Cookie, &bytes, extra[0]) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_the_pair_the_key_and_the_clock() {
        let local = Endpoint::new([10, 0, 0, 1], 80);
        let pair = |port| Pair { local, remote: Endpoint::new([10, 0, 0, 2], port) };
        let (one, two) = (Secret([1, 2]), Secret([1, 3]));
        let start = one.initial_sequence(&pair(1000), Time::default());
        assert_ne!(start, one.initial_sequence(&pair(1001), Time::default()));
        assert_ne!(start, two.initial_sequence(&pair(1000), Time::default()));
        let later = one.initial_sequence(&pair(1000), Time::from_micros(4_000));
        assert_eq!(later.distance(start), 1_000);
        assert_eq!(one.timestamp_offset(&pair(1000)), one.timestamp_offset(&pair(1001)));
        assert_ne!(one.lookup(&pair(1000)), one.lookup(&pair(1001)));
    }
}
