//! A datagram as it lies in a ring: a head of seven words, then its bytes.

use crate::address::Endpoint;

/// Words and bytes of the head.
pub const HEAD_WORDS: usize = 7;
/// See [`HEAD_WORDS`].
pub const HEAD_BYTES: u64 = HEAD_WORDS as u64 * 8;
/// The longest one of UDP over IPv4, and of any socket here.
pub const LONGEST_V4: u64 = 65_507;
/// See [`LONGEST_V4`].
pub const LONGEST: u64 = 65_527;

/// What is known of a datagram apart from its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its bytes.
    pub length: u64,
    /// Where it comes from.
    pub from: Endpoint,
    /// The address that it was sent to; its port is the sender's TTL and, above eight bits, its type of service.
    pub to: Endpoint,
}

impl Head {
    /// As words.
    pub const fn to_words(self) -> [u64; HEAD_WORDS] {
        let ([a, b, c], [d, e, f]) = (self.from.to_words(), self.to.to_words());
        [self.length, a, b, c, d, e, f]
    }

    /// From words that others may have written.
    pub const fn from_words([length, a, b, c, d, e, f]: [u64; HEAD_WORDS]) -> Self {
        Self { length, from: Endpoint::from_words([a, b, c]), to: Endpoint::from_words([d, e, f]) }
    }

    /// The bytes that it takes in a ring.
    pub const fn size(self) -> u64 {
        HEAD_BYTES + self.length.next_multiple_of(8)
    }
}
