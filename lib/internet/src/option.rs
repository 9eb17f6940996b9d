//! Options of Internet sockets: which there are, what values they take, and which errors say that they do not
//! (socket(7), ip(7),
//! ipv6(7), tcp(7), udp(7)).
//!
//! A value lies in a word of the socket's page, at the place that its row of the table has. Those with more behind
//! them than a
//! number (errors, time-outs, names) are the caller's.

use crate::address::Family;
use crate::error::{Error, Result};
use alloc::vec::Vec;

/// Levels (asm/socket.h, linux/in.h).
pub mod level {
    #![allow(missing_docs, reason = "the names say all")]
    pub const SOCKET: u32 = 1;
    pub const IP: u32 = 0;
    pub const TCP: u32 = 6;
    pub const UDP: u32 = 17;
    pub const IPV6: u32 = 41;
    pub const UDP_LITE: u32 = 136;
    pub const RAW: u32 = 255;
}

/// What a socket is, as far as options are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A stream.
    Tcp,
    /// Datagrams.
    Udp,
    /// Echoes, or packets as they are.
    Raw,
    /// Datagrams whose checksum covers a part of them (udplite(7)).
    UdpLite,
}

impl Sort {
    /// The sort of a number, which comes from another process.
    pub const fn of(number: u64) -> Self {
        match number {
            0 => Self::Tcp,
            1 => Self::Udp,
            3 => Self::UdpLite,
            _ => Self::Raw,
        }
    }

    /// Whether it has datagrams with ports.
    pub const fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::UdpLite)
    }
}

/// Which values a row takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// On or off.
    Flag,
    /// A number between two; others are refused.
    Within(i32, i32),
    /// A number between two; one below is the first, and one above is the last.
    Clamped(i32, i32),
    /// A number that is told as it was set.
    Any,
    /// It cannot be set.
    Fixed,
    /// Only user 0 sets it.
    Privileged,
}

/// Which sockets have a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    All,
    Only(Sort),
    Inet6,
}

struct Row {
    level: u32,
    name: u32,
    has: Has,
    rule: Rule,
    /// The value before it is set.
    first: i32,
}

const fn row(level: u32, name: u32, has: Has, rule: Rule, first: i32) -> Row {
    Row { level, name, has, rule, first }
}

/// Words that the options of a socket take.
pub const WORDS: usize = TABLE.len();

/// Options that others look at, by their place.
pub mod place {
    #![allow(missing_docs, reason = "the names are those of socket(7) and its kin")]
    pub const REUSE_ADDRESS: usize = 0;
    pub const REUSE_PORT: usize = 1;
    pub const ONLY_V6: usize = 2;
    pub const RECEIVE_BUFFER: usize = 3;
    pub const SEND_BUFFER: usize = 4;
    pub const RECEIVE_LEAST: usize = 5;
    pub const URGENT_IN_LINE: usize = 6;
    pub const BROADCAST: usize = 7;
    pub const TIMESTAMP: usize = 8;
    pub const TIMESTAMP_NANOSECONDS: usize = 9;
    pub const RECEIVE_ERRORS: usize = 10;
    pub const PACKET_INFORMATION: usize = 11;
    pub const RECEIVE_TTL: usize = 12;
    pub const RECEIVE_TOS: usize = 13;
    pub const TTL: usize = 14;
    pub const FREE_BIND: usize = 15;
    pub const HEAD_INCLUDED: usize = 16;
    pub const RECEIVE_ERRORS_6: usize = 17;
    pub const PACKET_INFORMATION_6: usize = 18;
    pub const RECEIVE_HOPS: usize = 19;
    pub const HOPS: usize = 20;
    pub const RECEIVE_CLASS: usize = 21;
    pub const CORK: usize = 22;
    pub const NO_DELAY: usize = 23;
    pub const DEFER_ACCEPT: usize = 24;
    pub const TOS: usize = 25;
    pub const KEEP_ALIVE: usize = 26;
    pub const CLASS: usize = 27;
    pub const KEEP_ALIVE_IDLE: usize = 28;
    pub const KEEP_ALIVE_INTERVAL: usize = 29;
    pub const KEEP_ALIVE_COUNT: usize = 30;
    pub const SYN_COUNT: usize = 31;
    pub const USER_TIME_OUT: usize = 32;
    pub const UDP_CORK: usize = 33;
}

use Has::{All, Inet6, Only};
use Rule::{Any, Clamped, Fixed, Flag, Privileged, Within};
use Sort::{Raw, Tcp, Udp, UdpLite};
use level::{IP, IPV6, SOCKET, TCP, UDP, UDP_LITE};

const MOST: i32 = i32::MAX;
/// Twice what `/proc/sys/net/core/wmem_max` and `rmem_max` say.
const BUFFER_MOST: i32 = 212_992;

/// The rows; those that [`place`] names come first.
static TABLE: [Row; 87] = [
    row(SOCKET, 2, All, Flag, 0),
    row(SOCKET, 15, All, Flag, 0),
    row(IPV6, 26, Inet6, Flag, 0),
    row(SOCKET, 8, All, Clamped(1152, BUFFER_MOST), BUFFER_MOST / 2),
    row(SOCKET, 7, All, Clamped(2304, BUFFER_MOST), BUFFER_MOST / 2),
    row(SOCKET, 18, All, Any, 1),
    row(SOCKET, 10, All, Flag, 0),
    row(SOCKET, 6, All, Flag, 0),
    row(SOCKET, 29, All, Flag, 0),
    row(SOCKET, 35, All, Flag, 0),
    row(IP, 11, All, Flag, 0),
    row(IP, 8, All, Flag, 0),
    row(IP, 12, All, Flag, 0),
    row(IP, 13, All, Flag, 0),
    row(IP, 2, All, Within(-1, 255), 64),
    row(IP, 15, All, Flag, 0),
    row(IP, 3, Only(Raw), Flag, 0),
    row(IPV6, 25, Inet6, Flag, 0),
    row(IPV6, 49, Inet6, Flag, 0),
    row(IPV6, 51, Inet6, Flag, 0),
    row(IPV6, 16, Inet6, Within(-1, 255), 64),
    row(IPV6, 66, Inet6, Flag, 0),
    row(TCP, 3, Only(Tcp), Flag, 0),
    row(TCP, 1, Only(Tcp), Flag, 0),
    row(TCP, 9, Only(Tcp), Any, 0),
    row(IP, 1, All, Any, 0),
    row(SOCKET, 9, All, Flag, 0),
    row(IPV6, 67, Inet6, Within(-1, 255), 0),
    row(TCP, 4, Only(Tcp), Within(1, 32_767), 7200),
    row(TCP, 5, Only(Tcp), Within(1, 32_767), 75),
    row(TCP, 6, Only(Tcp), Within(1, 127), 9),
    row(TCP, 7, Only(Tcp), Within(1, 127), 6),
    row(TCP, 18, Only(Tcp), Within(0, MOST), 0),
    row(UDP, 1, Only(Udp), Flag, 0),
    // The rest of socket(7).
    row(SOCKET, 1, All, Privileged, 0),
    row(SOCKET, 5, All, Flag, 0),
    row(SOCKET, 11, All, Flag, 0),
    row(SOCKET, 12, All, Any, 0),
    row(SOCKET, 19, All, Fixed, 1),
    row(SOCKET, 34, All, Flag, 0),
    row(SOCKET, 36, All, Privileged, 0),
    row(SOCKET, 40, All, Flag, 0),
    row(SOCKET, 41, All, Flag, 0),
    row(SOCKET, 43, All, Flag, 0),
    row(SOCKET, 44, All, Flag, 0),
    row(SOCKET, 45, All, Flag, 0),
    row(SOCKET, 46, All, Within(0, MOST), 0),
    // ip(7): options, what comes with a message, path MTU, groups.
    row(IP, 6, All, Flag, 0),
    row(IP, 7, All, Flag, 0),
    row(IP, 10, All, Within(0, 5), 1),
    row(IP, 14, All, Fixed, 65_536),
    row(IP, 19, All, Privileged, 0),
    row(IP, 20, All, Flag, 0),
    row(IP, 21, All, Within(0, 255), 0),
    row(IP, 24, All, Flag, 0),
    row(IP, 32, All, Any, 0),
    row(IP, 33, All, Within(-1, 255), 1),
    row(IP, 34, All, Flag, 1),
    row(IP, 49, All, Within(0, 1), 1),
    row(IP, 50, All, Any, 0),
    // ipv6(7).
    row(IPV6, 17, Inet6, Any, 0),
    row(IPV6, 18, Inet6, Within(-1, 255), 1),
    row(IPV6, 19, Inet6, Within(0, 1), 1),
    row(IPV6, 23, Inet6, Within(0, 5), 1),
    row(IPV6, 24, Inet6, Fixed, 65_536),
    row(IPV6, 29, Inet6, Flag, 1),
    // What comes with extension headers, and with reports of a path: neither comes.
    row(IPV6, 53, Inet6, Flag, 0),
    row(IPV6, 56, Inet6, Flag, 0),
    row(IPV6, 58, Inet6, Flag, 0),
    row(IPV6, 60, Inet6, Flag, 0),
    row(IPV6, 62, Inet6, Flag, 0),
    row(IPV6, 70, Inet6, Flag, 0),
    row(IPV6, 72, Inet6, Any, 0),
    row(IPV6, 78, Inet6, Flag, 0),
    // tcp(7).
    row(TCP, 2, Only(Tcp), Within(88, 32_767), 536),
    row(TCP, 8, Only(Tcp), Any, 60),
    row(TCP, 10, Only(Tcp), Any, 0),
    row(TCP, 12, Only(Tcp), Flag, 1),
    row(TCP, 16, Only(Tcp), Within(0, 1), 0),
    row(TCP, 25, Only(Tcp), Any, -1),
    row(TCP, 27, Only(Tcp), Within(0, 2), 0),
    row(TCP, 36, Only(Tcp), Within(0, 1), 0),
    // udp(7).
    row(UDP, 101, Only(Udp), Flag, 0),
    row(UDP, 102, Only(Udp), Flag, 0),
    row(UDP, 104, Only(Udp), Flag, 0),
    // udplite(7): bytes that the checksum covers; 0: all.
    row(UDP_LITE, 10, Only(Udp), Any, 0),
    row(UDP_LITE, 11, Only(Udp), Any, 0),
];

/// Where the values lie.
pub trait Store {
    /// The word at a place: 0 before it is set.
    fn get(&self, place: usize) -> u64;
    /// Sets it.
    fn set(&self, place: usize, word: u64);
}

/// The value of the option at a place.
pub fn value(store: &impl Store, place: usize) -> i32 {
    match (store.get(place), &TABLE[place]) {
        // A word that is set has a bit above its value.
        (0, row) => row.first,
        (word, _) => word as u32 as i32,
    }
}

/// Sets the option at a place, whatever its row says.
pub fn set_value(store: &impl Store, place: usize, value: i32) {
    store.set(place, SET | u64::from(value as u32));
}

const SET: u64 = 1 << 32;

fn find(mut level: u32, name: u32, sort: Sort, family: Family) -> Result<usize> {
    // Both levels of UDP have the options of both.
    if sort.is_udp() && matches!(level, UDP | UDP_LITE) {
        level = if matches!(name, 10 | 11) { UDP_LITE } else { UDP };
    }
    if level == IPV6 && family == Family::V4 {
        return Err(Error::NoSuchOption);
    }
    let found = TABLE.iter().position(|row| row.level == level && row.name == name).ok_or(Error::NoSuchOption)?;
    let fits = match TABLE[found].has {
        All => true,
        Only(only) => only == sort || only == Udp && sort.is_udp(),
        Inet6 => family == Family::V6,
    };
    if fits { Ok(found) } else { Err(Error::NoSuchOption) }
}

/// Whether a level is that of all sockets, or of a protocol.
const fn is_own_level(level: u32, sort: Sort) -> bool {
    matches!((level, sort), (SOCKET, _) | (TCP, Tcp) | (UDP | UDP_LITE, Udp | UdpLite))
}

/// Sets an option from the bytes that the program gave, of which there are `length` in its own words. What was set:
/// its place.
///
/// # Errors
/// As setsockopt(2): no such option, too few bytes, a value that it does not take, or one that only user 0 sets.
pub fn set(
    store: &impl Store,
    (level, name): (u32, u32),
    (sort, family): (Sort, Family),
    bytes: &[u8],
    is_privileged: bool,
) -> Result<usize> {
    let place = find(level, name, sort, family);
    // Messages of streams go to no group.
    if sort == Tcp && matches!((level, name), (IPV6, 17 | 18)) {
        return Err(Error::NoSuchOption);
    }
    // Its own level looks at the length first, the others at the name.
    if !is_own_level(level, sort) {
        place?;
    }
    // Of ip(7) alone one byte is a number, too.
    let given = match bytes {
        [byte, ..] if level == IP && bytes.len() < 4 => i32::from(*byte),
        [] if level == IP && NEVER_EMPTY.contains(&name) => return Err(Error::Invalid),
        [] if level == IP => 0,
        _ => i32::from_le_bytes(*bytes.first_chunk().ok_or(Error::Invalid)?),
    };
    let place = place?;
    let row = &TABLE[place];
    if sort == Tcp && matches!((level, name), (IP, 32 | 33)) {
        return Err(Error::Invalid);
    }
    let value = match row.rule {
        // UDP tells them, and takes none.
        Any if row.level == UDP_LITE && sort == Udp => return Err(Error::NoSuchOption),
        Flag => i32::from(given != 0),
        Within(first, last) if given < first || given > last => return Err(Error::Invalid),
        // TTL 0 is none, and -1 is the one that all have.
        Within(..) if (level, name) == (IP, 2) && given == 0 => return Err(Error::Invalid),
        Within(-1, _) if given == -1 => row.first,
        Clamped(least, most) => (given as u32).min(most as u32).cast_signed().max(least) * 2,
        Privileged if !is_privileged => return Err(Error::NotPermitted),
        Fixed => return Err(Error::NoSuchOption),
        // The bits of congestion belong to the stream.
        Any if place == place::TOS && sort == Tcp => given & 0xfc,
        Any if place == place::TOS => given & 0xff,
        Within(..) if place == place::CLASS && sort == Tcp => given & 0xfc,
        Any if place == place::DEFER_ACCEPT => deferred(given),
        Any if (level, name) == (TCP, 8) && given < 0 => -1,
        Any if (level, name) == (TCP, 8) => given.min(120),
        Any if (level, name) == (TCP, 10) && given != 0 => given.max(1152),
        Any if row.level == UDP_LITE && given != 0 => given.clamp(8, 65_535),
        Any if place == place::RECEIVE_LEAST && given == 0 => 1,
        Any if place == place::RECEIVE_LEAST && given < 0 => MOST,
        _ => given,
    };
    set_value(store, place, value);
    Ok(place)
}

/// Options of ip(7) that no value stands for is not 0.
const NEVER_EMPTY: [u32; 5] = [15, 21, 33, 34, 49];

/// Seconds that a connection without data waits to be accepted: the first end of a retransmission that is not earlier.
fn deferred(seconds: i32) -> i32 {
    const LONGEST: i32 = 120;
    let (mut period, mut wait) = (i32::from(seconds > 0), 1);
    for _ in 1..255 {
        if period >= seconds {
            break;
        }
        wait = (wait * 2).min(LONGEST);
        period += wait;
    }
    period
}

/// The bytes of an option, as many of them as the program has room for.
///
/// # Errors
/// There is no such option.
pub fn get(
    store: &impl Store,
    (level, name): (u32, u32),
    (sort, family): (Sort, Family),
    room: usize,
) -> Result<Vec<u8>> {
    let is_strange = family == Family::V4 && level != IP && !is_own_level(level, sort);
    let found = match find(level, name, sort, family) {
        // No packet of another socket has its head.
        Err(_) if (level, name) == (IP, 3) => return Ok(number(0, level, room)),
        Err(_) if is_strange => return Err(Error::NotSupported),
        found => found?,
    };
    let value = match found {
        // What was set as 0 is what the machine has.
        place if (level, name) == (TCP, 8) && value(store, place) == 0 => TABLE[place].first,
        place if (level, name) == (IP, 49) && family == Family::V6 && store.get(place) == 0 => 0,
        place @ (place::RECEIVE_BUFFER | place::SEND_BUFFER) if store.get(place) == 0 => first_buffer(sort, place),
        place => value(store, place),
    };
    // An address is never a number of one byte.
    let level = if (level, name) == (IP, 32) { SOCKET } else { level };
    Ok(number(value, level, room))
}

/// The bytes of a number. In ip(7) a number below 256 takes one byte, where there is no room for four.
fn number(value: i32, level: u32, room: usize) -> Vec<u8> {
    if level == IP && room < 4 && (0..=255).contains(&value) {
        return alloc::vec![value as u8; room.min(1)];
    }
    value.to_le_bytes()[..room.min(4)].to_vec()
}

/// Bytes of the buffers of a socket that was not told any.
const fn first_buffer(sort: Sort, place: usize) -> i32 {
    match (sort, place) {
        (Tcp, place::RECEIVE_BUFFER) => 131_072,
        (Tcp, _) => 16_384,
        _ => BUFFER_MOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    struct Words(RefCell<Vec<u64>>);

    impl Store for Words {
        fn get(&self, place: usize) -> u64 {
            self.0.borrow()[place]
        }

        fn set(&self, place: usize, word: u64) {
            self.0.borrow_mut()[place] = word;
        }
    }

    fn words() -> Words {
        Words(RefCell::new(alloc::vec![0; WORDS]))
    }

    fn told(words: &Words, option: (u32, u32), sort: Sort) -> i32 {
        get(words, option, (sort, Family::V6), 4)
            .map_or(-99, |bytes| i32::from_le_bytes(bytes[..4].try_into().unwrap()))
    }

    fn try_to_set(words: &Words, option: (u32, u32), sort: Sort, value: i32) -> Result<usize> {
        set(words, option, (sort, Family::V6), &value.to_le_bytes(), false)
    }

    #[test]
    fn flags_are_told_as_one_and_zero() {
        let words = words();
        assert_eq!(told(&words, (SOCKET, 2), Tcp), 0);
        assert_eq!(try_to_set(&words, (SOCKET, 2), Tcp, -7), Ok(place::REUSE_ADDRESS));
        assert_eq!(told(&words, (SOCKET, 2), Tcp), 1);
        assert_eq!(try_to_set(&words, (SOCKET, 2), Tcp, 0), Ok(place::REUSE_ADDRESS));
        assert_eq!(told(&words, (SOCKET, 2), Tcp), 0);
    }

    #[test]
    fn numbers_have_their_limits() {
        let words = words();
        for (option, refused) in
            [((TCP, 4), 0), ((TCP, 4), 32_768), ((TCP, 6), 128), ((IP, 2), 0), ((IP, 2), 256), ((IPV6, 16), -2)]
        {
            assert_eq!(try_to_set(&words, option, Tcp, refused), Err(Error::Invalid), "{option:?} {refused}");
        }
        assert!(try_to_set(&words, (IP, 2), Tcp, 9).is_ok());
        assert_eq!(told(&words, (IP, 2), Tcp), 9);
        assert!(try_to_set(&words, (IP, 2), Tcp, -1).is_ok());
        assert_eq!(told(&words, (IP, 2), Tcp), 64);
        assert!(
            try_to_set(&words, (SOCKET, 8), Udp, 1).is_ok() && try_to_set(&words, (SOCKET, 7), Udp, 10_000).is_ok()
        );
        assert_eq!((told(&words, (SOCKET, 8), Udp), told(&words, (SOCKET, 7), Udp)), (2304, 20_000));
        assert!(try_to_set(&words, (SOCKET, 8), Udp, -1).is_ok());
        assert_eq!(told(&words, (SOCKET, 8), Udp), 425_984);
    }

    #[test]
    fn lengths_and_places_are_those_of_linux() {
        let words = words();
        let short = |option| set(&words, option, (Tcp, Family::V4), &[1, 0, 0], true);
        assert_eq!(short((SOCKET, 2)), Err(Error::Invalid));
        assert_eq!(short((TCP, 1)), Err(Error::Invalid));
        assert!(short((IP, 2)).is_ok(), "one byte is a number to ip(7)");
        assert_eq!(get(&words, (IP, 2), (Tcp, Family::V4), 1), Ok(alloc::vec![1]));
        assert_eq!(set(&words, (IPV6, 26), (Tcp, Family::V4), &[1; 4], true), Err(Error::NoSuchOption));
        assert_eq!(set(&words, (TCP, 1), (Udp, Family::V4), &[1; 4], true), Err(Error::NoSuchOption));
        assert_eq!(try_to_set(&words, (SOCKET, 36), Tcp, 1), Err(Error::NotPermitted));
        assert_eq!(try_to_set(&words, (SOCKET, 19), Tcp, 1), Err(Error::NoSuchOption));
    }

    #[test]
    fn some_numbers_become_others() {
        let words = words();
        let set_and_told = |option, value| try_to_set(&words, option, Tcp, value).map(|_| told(&words, option, Tcp));
        for (value, seconds) in [(0, 0), (1, 1), (-1, 0), (2, 3), (64, 127), (255, 367), (256, 367), (MOST, 29_887)] {
            assert_eq!(set_and_told((TCP, 9), value), Ok(seconds), "{value}");
        }
        for (value, seconds) in [(0, 60), (1, 1), (-1, -1), (255, 120), (i32::MIN, -1)] {
            assert_eq!(set_and_told((TCP, 8), value), Ok(seconds), "{value}");
        }
        assert_eq!((set_and_told((IP, 1), -1), set_and_told((IPV6, 67), 255)), (Ok(0xfc), Ok(0xfc)));
        assert_eq!(set_and_told((IP, 33), 1), Err(Error::Invalid));
        assert_eq!(set(&words, (IP, 34), (Udp, Family::V4), &[], true), Err(Error::Invalid));
        assert_eq!(get(&words, (IP, 3), (Udp, Family::V4), 4), Ok(alloc::vec![0; 4]));
        assert_eq!(get(&words, (IP, 3), (Udp, Family::V4), 3), Ok(alloc::vec![0]));
        assert_eq!(get(&words, (IP, 32), (Udp, Family::V4), 3), Ok(alloc::vec![0; 3]));
        assert_eq!(set_and_told((IP, 32), 0), Err(Error::Invalid));
        assert_eq!(set_and_told((IPV6, 18), 1), Err(Error::NoSuchOption));
        assert_eq!(set(&words, (IPV6, 17), (Udp, Family::V4), &[0; 4], true), Err(Error::NoSuchOption));
    }

    /// No two rows are one option, and the places that have names are where they are looked for.
    #[test]
    fn every_option_has_one_row() {
        for (index, one) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|two| (one.level, one.name) != (two.level, two.name)));
        }
        let named = [
            (place::ONLY_V6, IPV6, 26),
            (place::HOPS, IPV6, 16),
            (place::CORK, TCP, 3),
            (place::KEEP_ALIVE, SOCKET, 9),
            (place::CLASS, IPV6, 67),
            (place::UDP_CORK, UDP, 1),
        ];
        assert!(named.iter().all(|(place, level, name)| (TABLE[*place].level, TABLE[*place].name) == (*level, *name)));
    }
}
