//! TCP header: reader for the hot path, options by `smoltcp::wire`, and the emitter.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, TCP_HEADER_LEN, TcpControl, TcpOption, TcpPacket, TcpRepr, TcpSeqNumber, TcpTimestampRepr,
};

use super::sequence::Sequence;
use crate::address::Pair;
use crate::checksum::{self, Sum};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;

/// The longest header: 15 words.
pub const HEADER_LIMIT: usize = 60;
pub const PROTOCOL: u8 = 6;
/// Bytes that timestamps take in every header.
pub const TIMESTAMP_BYTES: usize = 12;
/// A header that carries timestamps and nothing else has these four bytes before them.
const ALIGNED_TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
const SACK_BLOCKS: usize = 3;
/// Bytes that three SACK blocks take in a header.
pub const SACK_OPTION_BYTES: u32 = 28;

/// Acknowledged bytes beyond the cumulative acknowledgement, `first..end`.
pub type SackBlock = (Sequence, Sequence);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    pub value: u32,
    pub echo: u32,
}

/// A header, options included. What a peer says here is not checked yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub source_port: u16,
    pub destination_port: u16,
    pub sequence: Sequence,
    pub acknowledgement: Sequence,
    pub flags: u8,
    /// As it stands in the header, unscaled.
    pub window: u16,
    /// Counts with [`URG`] alone.
    pub urgent: u16,
    pub header_length: usize,
    pub maximum_segment: Option<u16>,
    pub window_shift: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<Timestamps>,
    pub sack: [Option<SackBlock>; SACK_BLOCKS],
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Segment {
    /// Reads a header. `None` when the length of the header is impossible; wrong options are skipped.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < TCP_HEADER_LEN {
            return None;
        }
        let header_length = usize::from(bytes[12] >> 4) * 4;
        if header_length < TCP_HEADER_LEN || header_length > bytes.len() {
            return None;
        }
        let mut segment = Self {
            source_port: half(bytes, 0),
            destination_port: half(bytes, 2),
            sequence: Sequence(word(bytes, 4)),
            acknowledgement: Sequence(word(bytes, 8)),
            flags: bytes[13],
            window: half(bytes, 14),
            urgent: half(bytes, 18),
            header_length,
            ..Self::default()
        };
        let options = &bytes[TCP_HEADER_LEN..header_length];
        if options.len() == TIMESTAMP_BYTES && options[..4] == ALIGNED_TIMESTAMPS {
            segment.timestamps = Some(Timestamps { value: word(options, 4), echo: word(options, 8) });
        } else {
            segment.parse_options(options);
        }
        Some(segment)
    }

    fn parse_options(&mut self, mut options: &[u8]) {
        while !options.is_empty() {
            // An option that does not parse ends the list: what follows has no known beginning.
            let Ok((rest, option)) = TcpOption::parse(options) else { return };
            if rest.len() >= options.len() {
                return;
            }
            options = rest;
            match option {
                TcpOption::EndOfList => return,
                TcpOption::MaxSegmentSize(size) => self.maximum_segment = Some(size),
                TcpOption::WindowScale(shift) => self.window_shift = Some(shift),
                TcpOption::SackPermitted => self.sack_permitted = true,
                TcpOption::SackRange(ranges) => {
                    self.sack = ranges.map(|range| range.map(|(first, end)| (Sequence(first), Sequence(end))));
                }
                TcpOption::TimeStamp { tsval, tsecr } => {
                    self.timestamps = Some(Timestamps { value: tsval, echo: tsecr });
                }
                TcpOption::NoOperation | TcpOption::Unknown { .. } => {}
            }
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence numbers that the segment takes, with `payload` bytes.
    pub fn length(&self, payload: usize) -> u32 {
        payload as u32 + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}

/// A header to be sent, and the part of the send queue that goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    pub sequence: Sequence,
    pub acknowledgement: Option<Sequence>,
    /// SYN, FIN, RST, PSH and URG; [`ACK`] comes from `acknowledgement`.
    pub flags: u8,
    /// As it goes into the header, scaled.
    pub window: u16,
    pub urgent: u16,
    pub maximum_segment: Option<u16>,
    pub window_shift: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<Timestamps>,
    pub sack: [Option<SackBlock>; SACK_BLOCKS],
    /// Payload: bytes after the beginning of the send queue.
    pub offset: u32,
    pub length: u32,
}

impl Outgoing {
    /// Writes the header and its checksum; `payload` is the sum of the payload. Returns the length of the header.
    pub fn emit(&self, pair: &Pair, payload: Sum, bytes: &mut [u8; HEADER_LIMIT]) -> usize {
        let repr = TcpRepr {
            src_port: pair.local.port,
            dst_port: pair.remote.port,
            control: self.control(),
            seq_number: TcpSeqNumber(self.sequence.0.cast_signed()),
            ack_number: self.acknowledgement.map(|sequence| TcpSeqNumber(sequence.0.cast_signed())),
            window_len: self.window,
            window_scale: self.window_shift,
            max_seg_size: self.maximum_segment,
            sack_permitted: self.sack_permitted,
            sack_ranges: self.sack.map(|block| block.map(|(first, end)| (first.0, end.0))),
            timestamp: self.timestamps.map(|stamps| TcpTimestampRepr::new(stamps.value, stamps.echo)),
            payload: &[],
        };
        let length = repr.header_len();
        let header = &mut bytes[..length];
        header.fill(0);
        let unused = IpAddress::v4(0, 0, 0, 0);
        repr.emit(&mut TcpPacket::new_unchecked(&mut *header), &unused, &unused, &ChecksumCapabilities::ignored());
        header[13] |= self.flags & (PSH | URG);
        header[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        header[16..18].fill(0);
        let all = length + self.length as usize;
        let pseudo = checksum::pseudo_header(pair.local.address, pair.remote.address, PROTOCOL, all);
        let sum = pseudo.combine(Sum::of(header)).combine(payload).finish();
        header[16..18].copy_from_slice(&sum.to_be_bytes());
        length
    }

    fn control(&self) -> TcpControl {
        if self.flags & RST != 0 {
            TcpControl::Rst
        } else if self.flags & SYN != 0 {
            TcpControl::Syn
        } else if self.flags & FIN != 0 {
            TcpControl::Fin
        } else {
            TcpControl::None
        }
    }

    /// A reset that answers `segment` from outside any connection (RFC 9293, 3.10.7.1). `None` for a reset.
    pub fn reset_for(segment: &Segment, payload: usize) -> Option<Self> {
        if segment.has(RST) {
            return None;
        }
        let reset = Self { flags: RST, ..Self::default() };
        Some(if segment.has(ACK) {
            Self { sequence: segment.acknowledgement, ..reset }
        } else {
            Self { acknowledgement: Some(segment.sequence.plus(segment.length(payload))), ..reset }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Endpoint;
    use core::net::Ipv6Addr;

    fn pair() -> Pair {
        Pair { local: Endpoint::new(Ipv6Addr::LOCALHOST, 80), remote: Endpoint::new([10, 0, 0, 1], 4000) }
    }

    fn round(outgoing: &Outgoing) -> Segment {
        let mut bytes = [0; HEADER_LIMIT];
        let length = outgoing.emit(&pair(), Sum::ZERO, &mut bytes);
        let pseudo = checksum::pseudo_header(pair().local.address, pair().remote.address, PROTOCOL, length);
        assert!(pseudo.combine(Sum::of(&bytes[..length])).is_whole());
        Segment::parse(&bytes[..length]).expect("what is emitted parses")
    }

    #[test]
    fn what_is_emitted_is_read_again() {
        let syn = round(&Outgoing {
            sequence: Sequence(7),
            flags: SYN,
            window: 65_535,
            maximum_segment: Some(1460),
            window_shift: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            ..Outgoing::default()
        });
        assert_eq!((syn.flags, syn.maximum_segment, syn.window_shift), (SYN, Some(1460), Some(7)));
        assert!(syn.sack_permitted && syn.timestamps == Some(Timestamps { value: 1, echo: 2 }));
        let sack = [Some((Sequence(100), Sequence(200))), Some((Sequence(300), Sequence(400))), None];
        let stamps = Some(Timestamps { value: 9, echo: 8 });
        let acknowledgement = Some(Sequence(50));
        let data = round(&Outgoing { acknowledgement, timestamps: stamps, sack, flags: PSH, ..Outgoing::default() });
        assert_eq!(
            (data.flags, data.acknowledgement, data.timestamps, data.sack),
            (ACK | PSH, Sequence(50), stamps, sack)
        );
    }

    #[test]
    fn impossible_lengths_of_headers_are_refused() {
        let mut bytes = [0; 40];
        for words in 0..16 {
            bytes[12] = words << 4;
            assert_eq!(Segment::parse(&bytes).is_some(), (5..=10).contains(&words));
        }
        assert_eq!(Segment::parse(&bytes[..19]), None);
    }

    #[test]
    fn fault_78_options_of_length_0_end_the_list() {
        let mut bytes = [0; 28];
        bytes[12] = 7 << 4;
        for kind in 2..=255 {
            bytes[20..24].copy_from_slice(&[kind, 0, kind, 1]);
            let segment = Segment::parse(&bytes).expect("the header itself is right");
            assert_eq!((segment.maximum_segment, segment.timestamps), (None, None));
        }
    }
}
