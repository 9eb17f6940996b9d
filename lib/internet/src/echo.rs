//! Answers to echo requests (RFC 792, RFC 4443), as the machine itself gives them.

use crate::address::{Address, Family};
use alloc::vec::Vec;

/// Types of messages: request and answer.
const V4: [u8; 2] = [8, 0];
const V6: [u8; 2] = [128, 129];
/// Bytes of the head of a message.
const HEAD: usize = 8;

/// What a socket sends as an echo request with its own identifier: all else is refused (icmp(7)).
pub fn request(message: &[u8], family: Family, identifier: u16) -> Option<Vec<u8>> {
    let [kind, _] = kinds(family);
    if message.len() < HEAD || message[0] != kind || message[1] != 0 {
        return None;
    }
    let mut sent = message.to_vec();
    sent[4..6].copy_from_slice(&identifier.to_be_bytes());
    seal(&mut sent, family);
    Some(sent)
}

/// The answer to a message, if it is an echo request.
pub fn answer(message: &[u8], family: Family) -> Option<Vec<u8>> {
    let [kind, answer] = kinds(family);
    if message.len() < HEAD || message[0] != kind {
        return None;
    }
    let mut answered = message.to_vec();
    answered[0] = answer;
    seal(&mut answered, family);
    Some(answered)
}

/// A message as another machine gets it: the checksum of IPv6 covers the addresses (RFC 8200, 8.1).
pub fn summed(message: &[u8], family: Family, from: Address, to: Address) -> Vec<u8> {
    const ICMP_V6: u8 = 58;
    let mut sent = message.to_vec();
    if family == Family::V6 && sent.len() >= HEAD {
        sent[2..4].fill(0);
        let mut all = Vec::from(from.0.to_be_bytes());
        all.extend(to.0.to_be_bytes());
        all.extend((sent.len() as u32).to_be_bytes());
        all.extend([0, 0, 0, ICMP_V6]);
        all.extend_from_slice(&sent);
        let sum = sum(&all);
        sent[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    sent
}

/// The identifier in a message.
pub fn identifier(message: &[u8]) -> u16 {
    message.get(4..6).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// A message of IPv4 as a raw socket gets it: with the head of its packet.
pub fn with_head(message: &[u8], from: u32, to: u32, protocol: u8, ttl: u8) -> Vec<u8> {
    const VERSION_AND_WORDS: u8 = 0x45;
    let mut packet = alloc::vec![0; 20];
    packet[0] = VERSION_AND_WORDS;
    packet[2..4].copy_from_slice(&((20 + message.len()) as u16).to_be_bytes());
    (packet[8], packet[9]) = (ttl, protocol);
    packet[12..16].copy_from_slice(&from.to_be_bytes());
    packet[16..20].copy_from_slice(&to.to_be_bytes());
    let sum = sum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(message);
    packet
}

const fn kinds(family: Family) -> [u8; 2] {
    match family {
        Family::V4 => V4,
        Family::V6 => V6,
    }
}

/// Writes the checksum. That of IPv6 covers addresses which a receiver on this machine does not check.
fn seal(message: &mut [u8], family: Family) {
    message[2..4].fill(0);
    if family == Family::V4 {
        let sum = sum(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The checksum of the Internet (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let half = |two: &[u8]| u32::from(two[0]) << 8 | two.get(1).map_or(0, |byte| u32::from(*byte));
    let sum: u32 = bytes.chunks(2).map(half).sum();
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_request_is_answered_with_its_bytes() {
        let sent = request(b"\x08\0\0\0\0\0\0\x05hello", Family::V4, 0x1234).unwrap_or_default();
        assert_eq!(identifier(&sent), 0x1234);
        assert_eq!(sum(&sent), 0, "a message with its checksum sums up to nothing");
        let answered = answer(&sent, Family::V4).unwrap_or_default();
        assert_eq!((answered[0], &answered[6..], sum(&answered)), (0, &b"\0\x05hello"[..], 0));
    }

    #[test]
    fn nothing_else_is_sent_or_answered() {
        assert_eq!(request(b"\0\0\0\0\0\0\0\0", Family::V4, 1), None);
        assert_eq!(request(b"\x08\0\0", Family::V4, 1), None);
        assert_eq!(answer(b"\0\0\0\0\0\0\0\0", Family::V4), None);
        assert!(request(b"\x80\0\0\0\0\0\0\0", Family::V6, 1).is_some());
    }

    #[test]
    fn a_raw_socket_gets_the_head_too() {
        let packet = with_head(b"abc", 0x7f00_0001, 0x7f00_0002, 1, 64);
        assert_eq!((packet.len(), sum(&packet[..20]), &packet[20..]), (23, 0, &b"abc"[..]));
    }
}
