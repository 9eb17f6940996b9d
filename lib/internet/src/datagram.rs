//! A datagram as it lies in a ring: a head, then its bytes.
//!
//! A ring of the server's has [`Head`]s. A channel, which one sender alone writes, has [`Short`] ones: the server says
//! where its datagrams come from and go to.

use crate::address::Endpoint;
use crate::ring::{Ring, advance};

/// Words and bytes of the head.
pub const HEAD_WORDS: usize = 8;
/// See [`HEAD_WORDS`].
pub const HEAD_BYTES: u64 = HEAD_WORDS as u64 * 8;
/// Bytes of the head in a channel.
pub const SHORT_BYTES: u64 = 16;
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
    /// When it was sent, in ticks: a receiver takes the oldest first.
    pub when: u64,
}

impl Head {
    /// As words.
    pub const fn to_words(self) -> [u64; HEAD_WORDS] {
        let ([a, b, c], [d, e, f]) = (self.from.to_words(), self.to.to_words());
        [self.length, a, b, c, d, e, f, self.when]
    }

    /// From words that others may have written.
    pub const fn from_words([length, a, b, c, d, e, f, when]: [u64; HEAD_WORDS]) -> Self {
        Self { length, from: Endpoint::from_words([a, b, c]), to: Endpoint::from_words([d, e, f]), when }
    }

    /// The bytes that it takes in a ring.
    pub const fn size(self) -> u64 {
        HEAD_BYTES + self.length.next_multiple_of(8)
    }
}

/// The head of a datagram in a channel. Its bytes follow at the next multiple of eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Short {
    /// See [`Head::when`].
    pub when: u64,
    /// Its bytes.
    pub length: u64,
    /// The TTL and, above eight bits, the type of service.
    pub hops_and_service: u16,
}

impl Short {
    /// As words.
    pub const fn to_words(self) -> [u64; 2] {
        [self.when, self.length | (self.hops_and_service as u64) << 32]
    }

    /// From words that the sender wrote.
    pub const fn from_words([when, rest]: [u64; 2]) -> Self {
        Self { when, length: rest & 0xffff_ffff, hops_and_service: (rest >> 32) as u16 }
    }

    /// The bytes that it takes in a channel.
    pub const fn size(self) -> u64 {
        SHORT_BYTES + self.length.next_multiple_of(8)
    }
}

/// What a reader finds in a channel, whose counts and heads the sender may have written as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Nothing.
    Empty,
    /// A datagram.
    Datagram(Short),
    /// What makes no sense: the reader drops all that lies there.
    Garbage,
}

/// The datagram that lies first in a channel. `head` reads the two words at an offset of the ring.
#[inline]
pub fn first(sent: u64, taken: u64, head: impl FnOnce(u64) -> [u64; 2]) -> First {
    if sent == taken {
        return First::Empty;
    }
    let ring = Ring::new(sent, taken, 0);
    // Every record begins at a multiple of eight, so each word of a head lies in one piece.
    let waiting = match ring.waiting() {
        Ok(waiting) if waiting >= SHORT_BYTES && ring.taken() % 8 == 0 => waiting,
        _ => return First::Garbage,
    };
    let short = Short::from_words(head(ring.taken()));
    if short.size() <= waiting { First::Datagram(short) } else { First::Garbage }
}

/// The count of a reader that has taken a datagram of a channel.
#[inline]
pub const fn after(taken: u64, short: Short) -> u64 {
    advance(taken, short.size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{FINISHED, INLINE, RESET};

    #[test]
    fn heads_travel_in_words() {
        let short = Short { when: 7, length: 9, hops_and_service: 0x1040 };
        assert_eq!(Short::from_words(short.to_words()), short);
        assert_eq!((short.size(), after(8, short)), (32, 40));
        let at = |port| Endpoint { port, ..Endpoint::default() };
        let head = Head { length: 3, from: at(1), to: at(2), when: 4 };
        assert_eq!(Head::from_words(head.to_words()), head);
    }

    #[test]
    fn fault_86_a_sender_writes_garbage_into_a_channel() {
        let good = Short { when: 1, length: 8, hops_and_service: 0 };
        assert_eq!(first(24, 24, |_| panic!("nothing lies there")), First::Empty);
        assert_eq!(first(48, 24, |at| if at == 24 { good.to_words() } else { [0; 2] }), First::Datagram(good));
        let long = Short { length: 9, ..good };
        for (sent, taken, short) in [(48, 24, long), (32, 24, good), (49, 25, good), (24 + INLINE + 8, 24, good)] {
            assert_eq!(first(sent, taken, |_| short.to_words()), First::Garbage, "{sent} {taken} {short:?}");
        }
        for flag in [RESET, FINISHED] {
            assert_eq!(first(24 | flag, 24, |_| good.to_words()), First::Garbage, "a flag alone");
        }
        let longest = Short { length: 0xffff_ffff, ..good };
        assert_eq!(first(INLINE, 0, |_| longest.to_words()), First::Garbage);
    }
}
