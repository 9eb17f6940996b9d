//! Internet checksum (RFC 1071) as partial sums that can be combined and subtracted, so that stored sums of payload
//! save reading it again.

use core::net::Ipv6Addr;

/// Ones'-complement sum of some bytes, as if they began at an even offset. Not yet complemented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u16);

impl Sum {
    pub const ZERO: Self = Self(0);

    /// An odd last byte is summed as if a zero followed.
    pub fn of(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let last = rest.iter().rfold(0, |word, byte| word << 8 | u64::from(*byte));
        Self::of_total(total(words, |word| u64::from_le_bytes(*word)).wrapping_add(last.into()))
    }

    /// The same of words of eight bytes, by their little-endian values.
    #[inline]
    pub fn of_words<T>(words: &[T], value: impl Fn(&T) -> u64) -> Self {
        Self::of_total(total(words, value))
    }

    fn of_total(total: u128) -> Self {
        // 2^64 counts as 1.
        let [low, high] = [total as u64, (total >> 64) as u64];
        let halves = (low & 0xffff_ffff) + (low >> 32) + high;
        Self(fold(halves).swap_bytes())
    }

    pub const fn from_word(word: u16) -> Self {
        Self(word)
    }

    pub const fn word(self) -> u16 {
        self.0
    }

    /// The sum of these bytes followed by others that begin at an even offset.
    #[must_use]
    pub fn combine(self, next: Self) -> Self {
        Self(fold(u64::from(self.0) + u64::from(next.0)))
    }

    /// As [`Sum::combine`], for bytes that begin `offset` bytes after an even place.
    #[must_use]
    pub fn combine_at(self, offset: usize, next: Self) -> Self {
        self.combine(next.shifted(offset))
    }

    /// The sum without bytes that began `offset` bytes after the beginning of these.
    #[must_use]
    pub fn subtract_at(self, offset: usize, part: Self) -> Self {
        self.combine(Self(!part.shifted(offset).0))
    }

    /// The sum of the same bytes at another offset: the bytes of the word change places when it is odd.
    #[must_use]
    pub fn shifted(self, offset: usize) -> Self {
        if offset % 2 == 1 { Self(self.0.swap_bytes()) } else { self }
    }

    /// What the checksum field gets.
    pub const fn finish(self) -> u16 {
        !self.0
    }

    /// Whether bytes with a checksum field among them are whole. Both zeros of ones' complement count.
    pub const fn is_whole(self) -> bool {
        self.0 == 0xffff || self.0 == 0
    }
}

/// The order of bytes in words is that of the result (RFC 1071, section 2.B). Blocks make long loops short.
#[inline(always)]
fn total<T>(words: &[T], value: impl Fn(&T) -> u64) -> u128 {
    let add = |total: u128, word: &T| total.wrapping_add(value(word).into());
    let (blocks, rest) = words.as_chunks::<8>();
    let whole = blocks.iter().fold(0, |total, block| block.iter().fold(total, add));
    rest.iter().fold(whole, add)
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    u16::try_from(total).unwrap_or(u16::MAX)
}

/// The pseudo header's sum. IPv4 addresses come mapped into IPv6 ones: the prefix of a mapped address sums to
/// 0xffff, which is zero in ones' complement.
pub fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: usize) -> Sum {
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let tail = Sum::of(&[length[0], length[1], length[2], length[3], 0, protocol]);
    Sum::of(&source.octets()).combine(Sum::of(&destination.octets())).combine(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn bytes(count: usize) -> alloc::vec::Vec<u8> {
        (0..count).map(|index| (index * 37 + 11) as u8).collect()
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).word(), 0xddf2);
    }

    #[test]
    fn sums_agree_with_smoltcp() {
        for count in 0..200 {
            let bytes = bytes(count);
            assert_eq!(Sum::of(&bytes).word(), smoltcp::wire::checksum::data(&bytes), "{count}");
        }
    }

    #[test]
    fn parts_combine_and_subtract_at_any_offset() {
        let bytes = bytes(101);
        let whole = Sum::of(&bytes);
        for cut in 0..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(Sum::of(head).combine_at(cut, Sum::of(tail)), whole);
            let rest = whole.subtract_at(cut, Sum::of(tail));
            assert_eq!(rest.word() % 0xffff, Sum::of(head).word() % 0xffff);
        }
    }

    #[test]
    fn mapped_addresses_sum_as_the_short_ones() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 168, 7, 254));
        let ours = pseudo_header(a.to_ipv6_mapped(), b.to_ipv6_mapped(), 6, 1234);
        let theirs = smoltcp::wire::checksum::pseudo_header_v4(&a, &b, smoltcp::wire::IpProtocol::Tcp, 1234);
        assert_eq!(ours.word() % 0xffff, theirs % 0xffff);
    }
}
