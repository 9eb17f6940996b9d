//! SYN cookies: the state of a handshake in the initial sequence number, for when the queue of handshakes is full.
//!
//! Five bits of time (64 s a step), three of segment size, 24 of keyed hash. Window scale and SACK travel in the low
//! six bits of the timestamp, where the peer sent one; without timestamps they are lost.

use super::sequence::Sequence;
use crate::address::Pair;
use crate::secret::Secret;
use crate::time::{SECOND, Time};

const STEP: u64 = 64 * SECOND;
/// A cookie holds for this step and the one before.
const AGE_LIMIT: u32 = 1;
const SIZES: [u16; 8] = [216, 536, 1_200, 1_220, 1_340, 1_400, 1_440, 1_460];
const NO_SHIFT: u32 = 15;
const SACK_BIT: u32 = 16;
/// The bits of a timestamp that carry options.
pub const STAMP_BITS: u32 = 63;

fn step(now: Time) -> u32 {
    (now.micros() / STEP) as u32
}

/// The cookie that answers a SYN with number `peer` and this segment size.
pub fn make(secret: &Secret, pair: &Pair, peer: Sequence, segment: u16, now: Time) -> Sequence {
    let size = SIZES.iter().rposition(|size| *size <= segment).unwrap_or(0) as u32;
    Sequence((step(now) & 31) << 27 | size << 24 | hash(secret, pair, peer, step(now), size))
}

fn hash(secret: &Secret, pair: &Pair, peer: Sequence, step: u32, size: u32) -> u32 {
    secret.cookie(pair, [step, peer.0 ^ size << 29]) & 0xff_ffff
}

/// The segment size in a cookie that was made for this pair not long ago.
pub fn open(secret: &Secret, pair: &Pair, peer: Sequence, cookie: Sequence, now: Time) -> Option<u16> {
    let age = step(now).wrapping_sub(cookie.0 >> 27) & 31;
    if age > AGE_LIMIT {
        return None;
    }
    let size = cookie.0 >> 24 & 7;
    let expected = hash(secret, pair, peer, step(now).wrapping_sub(age), size);
    (cookie.0 & 0xff_ffff == expected).then_some(SIZES[size as usize])
}

/// Puts the options of a SYN into a timestamp of ours, which does not get larger.
pub fn stamp_with(stamp: u32, shift: Option<u8>, sack: bool) -> u32 {
    let bits = shift.map_or(NO_SHIFT, u32::from) | if sack { SACK_BIT } else { 0 };
    let candidate = stamp & !STAMP_BITS | bits;
    if candidate > stamp { candidate.wrapping_sub(STAMP_BITS + 1) } else { candidate }
}

/// Shift and SACK from the echo of such a timestamp.
pub fn options_in(echo: u32) -> (Option<u8>, bool) {
    let shift = echo & 15;
    ((shift != NO_SHIFT).then_some(shift as u8), echo & SACK_BIT != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Endpoint;

    fn pair(port: u16) -> Pair {
        Pair { local: Endpoint::new([10, 0, 0, 1], 80), remote: Endpoint::new([10, 0, 0, 2], port) }
    }

    #[test]
    fn fault_79_a_cookie_holds_for_its_pair_its_number_and_two_minutes() {
        let secret = Secret([3, 4]);
        let made = Time::from_micros(1_000_000 * SECOND);
        for (segment, kept) in [(100, 216), (536, 536), (1_459, 1_440), (1_460, 1_460), (9_000, 1_460)] {
            let cookie = make(&secret, &pair(1), Sequence(77), segment, made);
            let open_at = |seconds| open(&secret, &pair(1), Sequence(77), cookie, made.after(seconds * SECOND));
            assert_eq!((open_at(0), open_at(63)), (Some(kept), Some(kept)));
            assert_eq!((open_at(128), open_at(31 * 64)), (None, None));
            assert_eq!(open(&secret, &pair(2), Sequence(77), cookie, made), None);
            assert_eq!(open(&secret, &pair(1), Sequence(78), cookie, made), None);
            assert_eq!(open(&Secret([3, 5]), &pair(1), Sequence(77), cookie, made), None);
            assert_eq!(open(&secret, &pair(1), Sequence(77), cookie.plus(1 << 24), made), None);
        }
    }

    #[test]
    fn options_survive_in_a_timestamp() {
        for stamp in [64, 65, 127, 1_000_000, u32::MAX] {
            for shift in (0..15).map(Some).chain([None]) {
                for sack in [false, true] {
                    let echo = stamp_with(stamp, shift, sack);
                    assert!(stamp.wrapping_sub(echo) < 128);
                    assert_eq!(options_in(echo), (shift, sack));
                }
            }
        }
    }
}
