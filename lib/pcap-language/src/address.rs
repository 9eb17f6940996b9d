//! Numbers and addresses as the language writes them.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::expression::Network;

/// A number: decimal, `0x` hexadecimal, or octal with a leading zero.
pub(crate) fn number(word: &str) -> Option<u32> {
    let (digits, radix) = match word.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (&word[2..], 16),
        [b'0', _, ..] => (&word[1..], 8),
        _ => (word, 10),
    };
    let all_digits = digits.chars().all(|digit| digit.is_digit(radix));
    if all_digits { u32::from_str_radix(digits, radix).ok() } else { None }
}

/// A hardware address: six pairs of hexadecimal digits with `:` or `-` between.
pub(crate) fn hardware(word: &str) -> Option<[u8; 6]> {
    let separator = if word.contains(':') { ':' } else { '-' };
    let mut parts = word.split(separator);
    let mut address = [0; 6];
    for byte in &mut address {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        *byte = part.chars().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(part, 16).ok())??;
    }
    parts.next().is_none().then_some(address)
}

/// The address of one host.
pub(crate) fn host(word: &str) -> Option<Network> {
    if let Ok(address) = word.parse::<Ipv4Addr>() {
        return Some(Network::V4(address, u32::MAX));
    }
    word.parse::<Ipv6Addr>().ok().map(|address| Network::V6(address, u128::MAX))
}

/// The address of a network without a length: one to four decimal parts, the mask as
/// long as what was written; an IPv6 address stands for itself.
pub(crate) fn network(word: &str) -> Option<Network> {
    if word.contains(':') {
        return host(word);
    }
    let parts: Vec<&str> = word.split('.').collect();
    let decimal = |part: &&str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    if parts.len() > 4 || !parts.iter().all(decimal) {
        return None;
    }
    let mut bytes = [0; 4];
    for (byte, part) in bytes.iter_mut().zip(&parts) {
        *byte = part.parse().ok()?;
    }
    Some(Network::V4(bytes.into(), prefix_mask_v4(8 * parts.len() as u32)))
}

/// The mask with the first `length` bits set; `length` is at most 32.
pub(crate) fn prefix_mask_v4(length: u32) -> u32 {
    u32::MAX.checked_shl(32 - length).unwrap_or(0)
}

/// The mask with the first `length` bits set; `length` is at most 128.
pub(crate) fn prefix_mask_v6(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_three_bases() {
        assert_eq!(["80", "0x50", "0120", "0"].map(number), [Some(80), Some(80), Some(80), Some(0)]);
        assert_eq!(["", "0x", "08", "+1", "-1", "4294967296", "1a"].map(number), [None; 7]);
    }

    #[test]
    fn hardware_addresses() {
        assert_eq!(hardware("0:1b:2:3:4:ff"), Some([0, 0x1b, 2, 3, 4, 0xff]));
        assert_eq!(hardware("00-1b-02-03-04-ff"), Some([0, 0x1b, 2, 3, 4, 0xff]));
        assert_eq!(["0:1:2:3:4", "0:1:2:3:4:5:6", "0:1:2:3:4:123", "0:1:2:3:4:+5", "::"].map(hardware), [None; 5]);
    }

    #[test]
    fn networks_are_as_long_as_written() {
        assert_eq!(network("10"), Some(Network::V4(Ipv4Addr::new(10, 0, 0, 0), 0xff00_0000)));
        assert_eq!(network("10.1.2"), Some(Network::V4(Ipv4Addr::new(10, 1, 2, 0), 0xffff_ff00)));
        assert_eq!(["256", "1.2.3.4.5", "1..2", "a.b"].map(network), [None; 4]);
        assert_eq!((prefix_mask_v4(0), prefix_mask_v6(0), prefix_mask_v4(32)), (0, 0, u32::MAX));
    }
}
