//! A gzip member with one stored block (RFC 1952, RFC 1951 section 3.2.4). Pure.

use alloc::vec::Vec;

/// Magic number, method deflate, no flags, no time, operating system unknown.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// The last block, stored.
const LAST_STORED: u8 = 1;

/// Packs at most 65535 bytes without compressing them.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u16;
    let mut packed = HEAD.to_vec();
    packed.push(LAST_STORED);
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(bytes);
    packed.extend(crc32(bytes).to_le_bytes());
    packed.extend((bytes.len() as u32).to_le_bytes());
    packed
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 != 0 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_what_gzip_reads() {
        // The check value of CRC-32, and the bytes that Python's gzip module unpacks.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(pack(b"ab")[10..], [1, 2, 0, 0xfd, 0xff, b'a', b'b', 0x6d, 0x48, 0x83, 0x9e, 2, 0, 0, 0]);
    }
}
