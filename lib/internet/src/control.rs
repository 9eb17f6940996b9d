//! Control messages that a sender of datagrams gives along (cmsg(3), ip(7), ipv6(7)): time to live and type of service
//! of this datagram alone.

use crate::address::Family;
use crate::error::{Error, Result};
use crate::option::level;

/// Bytes of the head of a control message.
const HEAD: usize = 16;

/// What holds for one datagram; `None`: what the socket's options say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// Its time to live.
    pub hops: Option<u8>,
    /// Its type of service.
    pub service: Option<u8>,
}

/// Bits that say that a value is there, and where the values lie.
const HAS_HOPS: u64 = 1 << 26;
const HAS_SERVICE: u64 = 1 << 27;
const HOPS: u32 = 32;
const SERVICE: u32 = 40;

impl Sending {
    /// As bits of a request to send, from bit 26 on.
    pub fn to_bits(self) -> u64 {
        let value = |value: Option<u8>, has: u64, place: u32| value.map_or(0, |value| has | u64::from(value) << place);
        value(self.hops, HAS_HOPS, HOPS) | value(self.service, HAS_SERVICE, SERVICE)
    }

    /// From the bits of a request.
    pub fn from_bits(bits: u64) -> Self {
        let value = |has: u64, place: u32| (bits & has != 0).then_some((bits >> place) as u8);
        Self { hops: value(HAS_HOPS, HOPS), service: value(HAS_SERVICE, SERVICE) }
    }
}

/// Reads the control messages that a program gave.
///
/// # Errors
/// `Invalid`: a length or a value that there is not, or a kind that the family does not know.
pub fn parse(bytes: &[u8], family: Family) -> Result<Sending> {
    let mut sending = Sending::default();
    let mut rest = bytes;
    while rest.len() >= HEAD {
        let half = |at: usize| u32::from_le_bytes(core::array::from_fn(|index| rest[at + index]));
        let length = u64::from_le_bytes(core::array::from_fn(|index| rest[index]));
        let length = usize::try_from(length).ok().filter(|length| (HEAD..=rest.len()).contains(length));
        let body = &rest[HEAD..length.ok_or(Error::Invalid)?];
        take(&mut sending, (half(8), half(12)), body, family)?;
        rest = rest.get((HEAD + body.len()).next_multiple_of(8)..).unwrap_or_default();
    }
    Ok(sending)
}

fn take(sending: &mut Sending, option: (u32, u32), body: &[u8], family: Family) -> Result<()> {
    let number = || body.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)).ok_or(Error::Invalid);
    let byte = |number: i32| u8::try_from(number).map_err(|_| Error::Invalid);
    match (family, option) {
        // What goes along with Unix-domain sockets is passed over.
        (_, (level::SOCKET, 1 | 2)) => {}
        (Family::V4, (level::IP, 2)) if body.len() == 4 => {
            sending.hops = Some(byte(number()?)?).filter(|hops| *hops != 0);
            sending.hops.ok_or(Error::Invalid)?;
        }
        (Family::V4, (level::IP, 1)) if body.len() == 4 => sending.service = Some(byte(number()?)?),
        (Family::V4, (level::IP, 1)) if body.len() == 1 => sending.service = Some(body[0]),
        // A device, of which there is one.
        (Family::V4, (level::IP, 8)) if body.len() == 12 => {}
        (Family::V6, (level::IPV6, 50)) if body.len() >= 20 => {}
        (Family::V6, (level::IPV6, 52)) => sending.hops = optional(number()?)?,
        (Family::V6, (level::IPV6, 67)) => sending.service = optional(number()?)?,
        (_, (level::SOCKET, _)) | (Family::V4, (level::IP, _)) | (Family::V6, (level::IPV6, _)) => {
            return Err(Error::Invalid);
        }
        _ => {}
    }
    Ok(())
}

/// A number of a byte; -1: the socket's.
fn optional(number: i32) -> Result<Option<u8>> {
    if number == -1 { Ok(None) } else { u8::try_from(number).map(Some).map_err(|_| Error::Invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn message(level: u32, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from(((HEAD + body.len()) as u64).to_le_bytes());
        bytes.extend(level.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn values_hold_for_one_datagram() {
        let both = [message(level::IP, 2, &7i32.to_le_bytes()), message(level::IP, 1, &[8])].concat();
        let sending = Sending { hops: Some(7), service: Some(8) };
        assert_eq!(parse(&both, Family::V4), Ok(sending));
        assert_eq!(Sending::from_bits(sending.to_bits() | 0x30f_ffff), sending);
        assert_eq!(parse(&message(level::IPV6, 52, &(-1i32).to_le_bytes()), Family::V6), Ok(Sending::default()));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (kind, value) in [(2, 0i32), (2, 256), (2, -1), (1, 256), (999, 1)] {
            assert_eq!(parse(&message(level::IP, kind, &value.to_le_bytes()), Family::V4), Err(Error::Invalid));
        }
        let good = message(level::IP, 2, &7i32.to_le_bytes());
        for length in HEAD..good.len() - 4 {
            assert_eq!(parse(&good[..length], Family::V4), Err(Error::Invalid));
        }
        assert_eq!(parse(&good[..HEAD - 1], Family::V4), Ok(Sending::default()));
        assert_eq!(parse(&[3; 64], Family::V4), Err(Error::Invalid));
    }
}
