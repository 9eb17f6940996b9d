//! A test of some bytes of a packet: the atom of a filter.

/// Where an offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// The first byte of the Ethernet frame.
    Frame,
    /// The first byte after the IPv4 header that begins at byte 14: that header is four
    /// times as long as the low four bits of its first byte say.
    AfterIpHeader,
}

/// Bytes of a packet, read as a big-endian number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// Where the offset counts from.
    pub base: Base,
    /// Bytes from there.
    pub offset: u16,
    /// 1, 2 or 4 bytes.
    pub size: u8,
}

/// Whether the masked field lies from `first` to `last`, or whether it does not.
///
/// A test of bytes beyond the end of the packet does not hold, and neither does its
/// opposite. Made by [`Test::of`], so that `first <= last <= mask`. A test from 0 to the
/// mask asks only that the bytes are there, and its opposite never holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// The bytes.
    pub field: Field,
    /// The bits of them that count; not zero.
    pub mask: u32,
    /// The lowest value.
    pub first: u32,
    /// The highest value.
    pub last: u32,
    /// Whether the value must lie within (or else outside).
    pub within: bool,
}

impl Field {
    /// `size` bytes of the frame at `offset`.
    pub fn frame(offset: u16, size: u8) -> Field {
        Field { base: Base::Frame, offset, size }
    }

    /// `size` bytes at `offset` after the IPv4 header.
    pub fn after_ip_header(offset: u16, size: u8) -> Field {
        Field { base: Base::AfterIpHeader, offset, size }
    }

    /// The largest number the field can hold.
    fn largest(self) -> u32 {
        u32::MAX >> (32 - 8 * u32::from(self.size))
    }

    /// The field's value in `packet`; `None` when it is not all there.
    pub fn read(self, packet: &[u8]) -> Option<u32> {
        let start = match self.base {
            Base::Frame => 0,
            Base::AfterIpHeader => 14 + 4 * usize::from(packet.get(14)? & 0xf),
        };
        let start = start + usize::from(self.offset);
        let bytes = packet.get(start..start + usize::from(self.size))?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }
}

impl Test {
    /// The test whether `field & mask` lies from `first` to `last` (both included). Bits
    /// of the mask outside the field are left out; a mask that has none inside compares
    /// zero with the range.
    pub fn of(field: Field, mask: u32, first: u32, last: u32) -> Test {
        let kept = mask & field.largest();
        let last = last.min(kept);
        let unreachable = first > last || (first == last && first & !kept != 0);
        match (unreachable, kept) {
            (true, _) => Test::any(field).opposite(),
            (false, 0) => Test::any(field),
            (false, mask) => Test { field, mask, first, last, within: true },
        }
    }

    /// The test whether the field is there at all.
    fn any(field: Field) -> Test {
        let all = field.largest();
        Test { field, mask: all, first: 0, last: all, within: true }
    }

    /// Whether no packet can meet it.
    pub fn is_impossible(&self) -> bool {
        !self.within && self.first == 0 && self.last == self.mask
    }

    /// The opposite test.
    pub fn opposite(self) -> Test {
        Test { within: !self.within, ..self }
    }

    /// Whether the test holds for `packet`; `None` when its bytes are not all there.
    pub fn holds(&self, packet: &[u8]) -> Option<bool> {
        let value = self.field.read(packet)? & self.mask;
        Some((self.first..=self.last).contains(&value) == self.within)
    }
}
