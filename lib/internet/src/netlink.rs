//! Netlink's read-only answers (rtnetlink(7)): links, addresses, routes and neighbours of a machine that has the
//! loopback device, and perhaps a network card; and by which way one address is reached.
//!
//! `getifaddrs`, `getaddrinfo`, `ip` and scanners ask for these. Whatever else is asked is answered by an error, as
//! Linux answers an unprivileged process.

use crate::address::{Address, Family};
use crate::device::{self, Device};
use alloc::vec::Vec;

/// Bytes of the head of a message, and of the answer of an error before the head that it repeats.
const HEAD: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const MULTI: u16 = 2;
/// The request asks for all there is: both bits of `NLM_F_DUMP`.
const DUMP: u16 = 0x300;
const ACKNOWLEDGE: u16 = 4;
const REQUEST: u16 = 1;
/// Types of messages.
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const GET_RULE: u16 = 34;
/// Families.
const ANY: u8 = 0;
const INET: u8 = 2;
const INET6: u8 = 10;
/// The loopback device: its number, kind (`ARPHRD_LOOPBACK`), flags (up, loopback, running, lower layer up) and MTU.
const DEVICE: i32 = 1;
const KIND: u16 = 772;
const FLAGS: u32 = 0x1_0049;
const MTU: u32 = 65_536;
/// Linux's numbers of errors.
const NOT_PERMITTED: i32 = 1;
const NO_DEVICE: i32 = 19;
const INVALID: i32 = 22;
const OUT_OF_RANGE: i32 = 34;
const UNREACHABLE: i32 = 101;
const NOT_SUPPORTED: i32 = 95;

/// The datagrams that answer what a program sent to the kernel by a socket that has this number, on a machine with this
/// card. It may change devices, or not (`CAP_NET_ADMIN`).
pub fn answer(sent: &[u8], port: u32, card: Option<&Device>, may_change: bool) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    let mut rest = sent;
    while let Some(length) = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize) {
        if length < HEAD || length > rest.len() {
            break;
        }
        answer_one(&rest[..length], port, (card, may_change), &mut answers);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    answers
}

fn answer_one(request: &[u8], port: u32, (card, may_change): (Option<&Device>, bool), answers: &mut Vec<Vec<u8>>) {
    let half = |at: usize| u16::from_le_bytes([request[at], request[at + 1]]);
    let (kind, flags) = (half(4), half(6));
    let sequence = u32::from_le_bytes(core::array::from_fn(|index| request[8 + index]));
    if flags & REQUEST == 0 {
        return;
    }
    let family = request.get(HEAD).copied().unwrap_or(ANY);
    let head = Head { sequence, port };
    let is_dump = flags & DUMP == DUMP || kind == GET_ADDRESS && flags & DUMP != 0;
    let messages = match kind {
        GET_LINK if is_dump => {
            let card = card.map(|card| card_link(head, MULTI, card)).unwrap_or_default();
            [link(head, MULTI), card].concat()
        }
        GET_LINK => {
            let found = match (named(request), card) {
                (Some(DEVICE), _) => link(head, 0),
                (Some(device::NUMBER), Some(card)) => card_link(head, 0, card),
                _ => refusal(request, head, NO_DEVICE),
            };
            return answers.push(found);
        }
        GET_ADDRESS if is_dump => addresses(head, family, card),
        GET_ROUTE if is_dump => routes(head, family, card),
        GET_ROUTE => {
            let found = destination(request, family).and_then(|to| way_to(to, card).ok_or(UNREACHABLE));
            return answers.push(found.map_or_else(|error| refusal(request, head, error), |way| way.tell(head)));
        }
        GET_NEIGHBOUR if is_dump => card.map(|card| neighbours(head, family, card)).unwrap_or_default(),
        GET_RULE if is_dump => Vec::new(),
        _ if kind < NEW_LINK || kind == NEW_LINK && may_change && changes_nothing(request, card) => {
            if flags & ACKNOWLEDGE != 0 {
                answers.push(refusal(request, head, 0));
            }
            return;
        }
        // Changes, and questions about one thing.
        _ if kind % 4 == 2 => return answers.push(refusal(request, head, NOT_SUPPORTED)),
        _ => return answers.push(refusal(request, head, NOT_PERMITTED)),
    };
    if !messages.is_empty() {
        answers.push(messages);
    }
    answers.push(message(DONE, MULTI, head, &[0; 4]));
}

#[derive(Clone, Copy)]
struct Head {
    sequence: u32,
    port: u32,
}

fn message(kind: u16, flags: u16, head: Head, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from(((HEAD + body.len()) as u32).to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(head.sequence.to_le_bytes());
    bytes.extend(head.port.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The number of the device that a request for one link names, by its number or by its name.
fn named(request: &[u8]) -> Option<i32> {
    let number =
        request.get(HEAD + 4..HEAD + 8).map_or(0, |bytes| i32::from_le_bytes(core::array::from_fn(|at| bytes[at])));
    let holds = |name: &[u8]| request.windows(name.len()).any(|bytes| bytes == name);
    match number {
        0 if holds(b"lo\0") => Some(DEVICE),
        0 if holds(b"eth0\0") => Some(device::NUMBER),
        0 => None,
        number => Some(number),
    }
}

/// Whether a device is to have flags that it has: `ip link set lo up`.
fn changes_nothing(request: &[u8], card: Option<&Device>) -> bool {
    let flags = match (named(request), card) {
        (Some(DEVICE), _) => FLAGS,
        (Some(device::NUMBER), Some(_)) => device::FLAGS,
        _ => return false,
    };
    // No attributes follow the flags that are wanted, and which of them count.
    let [wanted, mask] = [8, 12].map(|at| request.get(HEAD + at..).and_then(|rest| rest.first_chunk()));
    request.len() == HEAD + 16
        && wanted
            .zip(mask)
            .is_some_and(|(wanted, mask)| (u32::from_le_bytes(*wanted) ^ flags) & u32::from_le_bytes(*mask) == 0)
}

fn refusal(request: &[u8], head: Head, error: i32) -> Vec<u8> {
    let mut body = Vec::from((-error).to_le_bytes());
    body.extend_from_slice(if error == 0 { &request[..HEAD] } else { request });
    message(ERROR, if error == 0 { 0x100 } else { 0 }, head, &body)
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend((4 + value.len() as u16).to_le_bytes());
    to.extend(kind.to_le_bytes());
    to.extend_from_slice(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

fn link(head: Head, flags: u16) -> Vec<u8> {
    let mut body = alloc::vec![0, 0];
    body.extend(KIND.to_le_bytes());
    body.extend(DEVICE.to_le_bytes());
    body.extend(FLAGS.to_le_bytes());
    body.extend([0; 4]);
    attribute(&mut body, 3, b"lo\0");
    // Length of the queue, state (unknown), mode, MTU.
    attribute(&mut body, 13, &1000u32.to_le_bytes());
    attribute(&mut body, 16, &[0]);
    attribute(&mut body, 17, &[0]);
    attribute(&mut body, 4, &MTU.to_le_bytes());
    // Group, how many listen to everything, queues of each kind, carrier, discipline.
    for (kind, value) in [(27, 0u32), (30, 0), (31, 1), (32, 1)] {
        attribute(&mut body, kind, &value.to_le_bytes());
    }
    attribute(&mut body, 33, &[1]);
    attribute(&mut body, 6, b"noqueue\0");
    attribute(&mut body, 1, &[0; 6]);
    attribute(&mut body, 2, &[0; 6]);
    attribute(&mut body, 7, &[0; 96]);
    message(NEW_LINK, flags, head, &body)
}

fn card_link(head: Head, flags: u16, card: &Device) -> Vec<u8> {
    const ETHERNET: u16 = 1;
    let mut body = alloc::vec![0, 0];
    body.extend(ETHERNET.to_le_bytes());
    body.extend(device::NUMBER.to_le_bytes());
    body.extend(device::FLAGS.to_le_bytes());
    body.extend([0; 4]);
    attribute(&mut body, 3, b"eth0\0");
    // Length of the queue, state (up), mode, MTU.
    attribute(&mut body, 13, &1000u32.to_le_bytes());
    attribute(&mut body, 16, &[6]);
    attribute(&mut body, 17, &[0]);
    attribute(&mut body, 4, &card.mtu.to_le_bytes());
    for (kind, value) in [(27, 0u32), (30, 0), (31, 1), (32, 1)] {
        attribute(&mut body, kind, &value.to_le_bytes());
    }
    attribute(&mut body, 33, &[1]);
    attribute(&mut body, 6, b"pfifo_fast\0");
    attribute(&mut body, 1, &card.hardware);
    attribute(&mut body, 2, &[0xff; 6]);
    attribute(&mut body, 7, &[0; 96]);
    message(NEW_LINK, flags, head, &body)
}

fn card_addresses(head: Head, family: u8, card: &Device) -> Vec<u8> {
    const PERMANENT: u32 = 0x80;
    const OF_LINK: u8 = 253;
    let forever: Vec<u8> = [u32::MAX, u32::MAX, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut all = Vec::new();
    for (address, bits) in &card.addresses {
        let v4 = address.to_v4();
        if family != if v4.is_some() { INET } else { INET6 } {
            continue;
        }
        let scope = if device::is_link_local(*address) { OF_LINK } else { 0 };
        let mut body = alloc::vec![family, *bits, PERMANENT as u8, scope];
        body.extend(device::NUMBER.to_le_bytes());
        match v4 {
            Some(v4) => {
                attribute(&mut body, 1, &v4.to_be_bytes());
                attribute(&mut body, 2, &v4.to_be_bytes());
                attribute(&mut body, 4, &(v4 | !device::mask(*bits)).to_be_bytes());
                attribute(&mut body, 3, b"eth0\0");
            }
            None => attribute(&mut body, 1, &address.0.to_be_bytes()),
        }
        attribute(&mut body, 8, &PERMANENT.to_le_bytes());
        attribute(&mut body, 6, &forever);
        all.extend(message(NEW_ADDRESS, MULTI, head, &body));
    }
    all
}

/// A route of the card: family, bits of the destination, table, scope and kind.
struct Way {
    family: u8,
    bits: u8,
    table: u8,
    scope: u8,
    kind: u8,
}

fn card_route(head: Head, way: &Way, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    const BY_KERNEL: u8 = 2;
    let Way { family, bits, table, scope, kind } = *way;
    let mut body = alloc::vec![family, bits, 0, 0, table, BY_KERNEL, scope, kind, 0, 0, 0, 0];
    attribute(&mut body, 15, &u32::from(table).to_le_bytes());
    for (kind, value) in attributes {
        attribute(&mut body, *kind, value);
    }
    attribute(&mut body, 4, &device::NUMBER.to_le_bytes());
    message(NEW_ROUTE, MULTI, head, &body)
}

/// The way to routers, to neighbours, and to the card's own addresses.
fn card_routes(head: Head, family: u8, card: &Device) -> Vec<u8> {
    const MAIN: u8 = 254;
    const LOCAL: u8 = 255;
    let mut all = Vec::new();
    let way = |bits, table, scope, kind| Way { family, bits, table, scope, kind };
    if family == INET {
        let gateway = card.gateway(Family::V4).and_then(|address| address.to_v4());
        if let Some(gateway) = gateway {
            all.extend(card_route(head, &way(0, MAIN, 0, 1), &[(5, &gateway.to_be_bytes())]));
        }
        if let Some((own, bits)) = card.v4() {
            let (net, own) = ((own & device::mask(bits)).to_be_bytes(), own.to_be_bytes());
            all.extend(card_route(head, &way(bits, MAIN, 253, 1), &[(1, &net), (7, &own)]));
            all.extend(card_route(head, &way(32, LOCAL, 254, 2), &[(1, &own), (7, &own)]));
        }
        return all;
    }
    for (own, bits) in card.v6() {
        let net = own.0 & !u128::MAX.checked_shr(bits.into()).unwrap_or(0);
        all.extend(card_route(head, &way(bits, MAIN, 0, 1), &[(1, &net.to_be_bytes())]));
        all.extend(card_route(head, &way(128, LOCAL, 0, 2), &[(1, &own.0.to_be_bytes())]));
    }
    if let Some(gateway) = card.gateway(Family::V6) {
        all.extend(card_route(head, &way(0, MAIN, 0, 1), &[(5, &gateway.0.to_be_bytes())]));
    }
    all
}

/// The address to which a request asks the way, by the family that its head names; else Linux's number of the error.
fn destination(request: &[u8], family: u8) -> Result<Address, i32> {
    const DESTINATION: u16 = 1;
    let mut rest = request.get(HEAD + 12..).unwrap_or_default();
    while rest.len() >= 4 {
        let [length, kind] = [0, 2].map(|at| u16::from_le_bytes([rest[at], rest[at + 1]]));
        let value = rest.get(4..length.into()).ok_or(INVALID)?;
        match (kind, family) {
            (DESTINATION, INET) => {
                return value.try_into().map(|four| Address::v4(u32::from_be_bytes(four))).map_err(|_| OUT_OF_RANGE);
            }
            (DESTINATION, INET6) => {
                return value.try_into().map(|all| Address(u128::from_be_bytes(all))).map_err(|_| INVALID);
            }
            _ => rest = rest.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default(),
        }
    }
    Err(INVALID)
}

/// The way to one address: the device, the address that a packet comes from, and the router, if there is one.
struct Reached {
    to: Address,
    device: i32,
    source: Address,
    router: Option<Address>,
}

/// Nothing where no way leads there.
fn way_to(to: Address, card: Option<&Device>) -> Option<Reached> {
    let own = |source| Some(Reached { to, device: DEVICE, source, router: None });
    match to.to_v4() {
        Some(v4) if v4 >> 24 == 127 => return own(Address::v4(0x7f00_0001)),
        None if to.0 == 1 => return own(to),
        _ => {}
    }
    let card = card?;
    let family = if to.to_v4().is_some() { Family::V4 } else { Family::V6 };
    let of_family = || card.addresses.iter().filter(|(one, _)| one.to_v4().is_some() == to.to_v4().is_some());
    if of_family().any(|(one, _)| *one == to) {
        return own(to);
    }
    let is_near = |(one, bits): &&(Address, u8)| {
        let length = if family == Family::V4 { 96 + bits } else { *bits };
        (one.0 ^ to.0).checked_shr(128 - u32::from(length)).unwrap_or(0) == 0
    };
    let way = |source, router| Some(Reached { to, device: device::NUMBER, source, router });
    if let Some((source, _)) = of_family().find(is_near) {
        return way(*source, None);
    }
    let (source, _) = of_family().find(|(one, _)| !device::is_link_local(*one))?;
    way(*source, Some(card.gateway(family)?))
}

impl Reached {
    /// As Linux tells it.
    fn tell(&self, head: Head) -> Vec<u8> {
        const MAIN: u8 = 254;
        const LOCAL: u8 = 255;
        const BY_KERNEL: u8 = 2;
        /// It was made for this question; packets stay in the machine.
        const CLONED: u32 = 0x200;
        const STAYS: u32 = 0x8000_0000;
        let bytes = |address: Address| match address.to_v4() {
            Some(v4) => Vec::from(v4.to_be_bytes()),
            None => Vec::from(address.0.to_be_bytes()),
        };
        let (is_v4, stays) = (self.to.to_v4().is_some(), self.device == DEVICE);
        let kind = if stays { 2 } else { 1 };
        let (family, bits) = if is_v4 { (INET, 32) } else { (INET6, 128) };
        let (table, by) = match (is_v4, stays) {
            (true, _) => (MAIN, 0),
            (false, true) => (LOCAL, BY_KERNEL),
            (false, false) => (MAIN, BY_KERNEL),
        };
        let flags = if is_v4 { CLONED | if stays { STAYS } else { 0 } } else { 0 };
        let mut body = alloc::vec![family, bits, 0, 0, table, by, 0, kind];
        body.extend(flags.to_le_bytes());
        attribute(&mut body, 15, &u32::from(table).to_le_bytes());
        attribute(&mut body, 1, &bytes(self.to));
        attribute(&mut body, 4, &self.device.to_le_bytes());
        attribute(&mut body, 7, &bytes(self.source));
        if let Some(router) = self.router {
            attribute(&mut body, 5, &bytes(router));
        }
        attribute(&mut body, 12, &[0; 32]);
        message(NEW_ROUTE, 0, head, &body)
    }
}

fn neighbours(head: Head, family: u8, card: &Device) -> Vec<u8> {
    const REACHABLE: u16 = 2;
    let mut all = Vec::new();
    for (address, hardware) in &card.neighbors {
        let (own, bytes) = match address.to_v4() {
            Some(v4) => (INET, Vec::from(v4.to_be_bytes())),
            None => (INET6, Vec::from(address.0.to_be_bytes())),
        };
        if family != ANY && family != own {
            continue;
        }
        let mut body = alloc::vec![own, 0, 0, 0];
        body.extend(device::NUMBER.to_le_bytes());
        body.extend(REACHABLE.to_le_bytes());
        body.extend([0, 1]);
        attribute(&mut body, 1, &bytes);
        attribute(&mut body, 2, hardware);
        all.extend(message(NEW_NEIGHBOUR, MULTI, head, &body));
    }
    all
}

fn addresses(head: Head, family: u8, card: Option<&Device>) -> Vec<u8> {
    let forever = || [u32::MAX, u32::MAX, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    // Permanent, of this host alone.
    let body = |family: u8, prefix: u8| {
        let mut body = alloc::vec![family, prefix, 0x80, 254];
        body.extend(DEVICE.to_le_bytes());
        body
    };
    let mut all = Vec::new();
    if family == INET || family != INET6 {
        let mut v4 = body(INET, 8);
        attribute(&mut v4, 1, &[127, 0, 0, 1]);
        attribute(&mut v4, 2, &[127, 0, 0, 1]);
        attribute(&mut v4, 3, b"lo\0");
        attribute(&mut v4, 8, &0x80u32.to_le_bytes());
        attribute(&mut v4, 6, &forever());
        all.extend(message(NEW_ADDRESS, MULTI, head, &v4));
        all.extend(card.map(|card| card_addresses(head, INET, card)).unwrap_or_default());
    }
    if family != INET {
        let mut v6 = body(INET6, 128);
        attribute(&mut v6, 1, &1u128.to_be_bytes());
        attribute(&mut v6, 6, &forever());
        attribute(&mut v6, 8, &0x80u32.to_le_bytes());
        all.extend(message(NEW_ADDRESS, MULTI, head, &v6));
        all.extend(card.map(|card| card_addresses(head, INET6, card)).unwrap_or_default());
    }
    all
}

/// The routes to this machine, which lie in the table of its own addresses.
fn routes(head: Head, family: u8, card: Option<&Device>) -> Vec<u8> {
    const LOCAL: u8 = 255;
    const BY_KERNEL: u8 = 2;
    let mut all = Vec::new();
    let of_card = |family: u8| card.map(|card| card_routes(head, family, card)).unwrap_or_default();
    if family != INET6 {
        all.extend(of_card(INET));
    }
    let mut put = |family: u8, prefix: u8, (scope, kind): (u8, u8), to: &[u8], source: Option<&[u8]>| {
        let mut body = alloc::vec![family, prefix, 0, 0, LOCAL, BY_KERNEL, scope, kind, 0, 0, 0, 0];
        attribute(&mut body, 15, &u32::from(LOCAL).to_le_bytes());
        attribute(&mut body, 1, to);
        if let Some(source) = source {
            attribute(&mut body, 7, source);
        }
        attribute(&mut body, 4, &DEVICE.to_le_bytes());
        all.extend(message(NEW_ROUTE, MULTI, head, &body));
    };
    // Local routes have the scope of this host, routes to all hosts that of the link.
    if family != INET6 {
        let source = Some(&[127, 0, 0, 1][..]);
        put(INET, 8, (254, 2), &[127, 0, 0, 0], source);
        put(INET, 32, (254, 2), &[127, 0, 0, 1], source);
        put(INET, 32, (253, 3), &[127, 255, 255, 255], source);
    }
    if family != INET {
        put(INET6, 128, (0, 2), &1u128.to_be_bytes(), None);
        all.extend(of_card(INET6));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: u16, flags: u16, body: &[u8]) -> Vec<Vec<u8>> {
        answer(&message(kind, flags, Head { sequence: 7, port: 0 }, body), 99, None, false)
    }

    fn kinds(answers: &[Vec<u8>]) -> Vec<u16> {
        let mut kinds = Vec::new();
        for answer in answers {
            let mut rest = &answer[..];
            while rest.len() >= HEAD {
                let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
                assert!(length >= HEAD && length <= rest.len());
                assert_eq!((&rest[8..12], &rest[12..16]), (&7u32.to_le_bytes()[..], &99u32.to_le_bytes()[..]));
                kinds.push(u16::from_le_bytes([rest[4], rest[5]]));
                rest = &rest[length.next_multiple_of(4).min(rest.len())..];
            }
        }
        kinds
    }

    #[test]
    fn dumps_end_with_a_message_that_says_so() {
        assert_eq!(kinds(&ask(GET_LINK, DUMP | REQUEST, &[ANY])), [NEW_LINK, DONE]);
        assert_eq!(kinds(&ask(GET_ADDRESS, DUMP | REQUEST, &[ANY])), [NEW_ADDRESS, NEW_ADDRESS, DONE]);
        assert_eq!(kinds(&ask(GET_ADDRESS, DUMP | REQUEST, &[INET6])), [NEW_ADDRESS, DONE]);
        assert_eq!(kinds(&ask(GET_ROUTE, DUMP | REQUEST, &[INET])), [NEW_ROUTE, NEW_ROUTE, NEW_ROUTE, DONE]);
        assert_eq!(kinds(&ask(GET_NEIGHBOUR, DUMP | REQUEST, &[ANY])), [DONE]);
    }

    #[test]
    fn a_card_stands_behind_the_loopback_device() {
        let card = crate::device::tests::card();
        let dump = |kind: u16, family: u8| {
            let request = message(kind, DUMP | REQUEST, Head { sequence: 7, port: 0 }, &[family]);
            answer(&request, 99, Some(&card), false)
        };
        assert_eq!(kinds(&dump(GET_LINK, ANY)), [NEW_LINK, NEW_LINK, DONE]);
        assert_eq!(kinds(&dump(GET_ADDRESS, ANY)), [NEW_ADDRESS, NEW_ADDRESS, NEW_ADDRESS, NEW_ADDRESS, DONE]);
        assert_eq!(kinds(&dump(GET_ROUTE, INET)), [[NEW_ROUTE; 6].as_slice(), &[DONE]].concat());
        assert_eq!(kinds(&dump(GET_NEIGHBOUR, ANY)), [NEW_NEIGHBOUR, DONE]);
        let one = message(GET_LINK, REQUEST, Head { sequence: 7, port: 0 }, &[0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(kinds(&answer(&one, 99, Some(&card), false)), [NEW_LINK]);
        assert_eq!(kinds(&answer(&one, 99, None, false)), [ERROR]);
    }

    #[test]
    fn the_way_to_one_address() {
        let card = crate::device::tests::card();
        let ask = |family: u8, to: &[u8], card: Option<&Device>| {
            let mut body = alloc::vec![family, 8 * to.len() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            attribute(&mut body, 1, to);
            let request = message(GET_ROUTE, REQUEST, Head { sequence: 7, port: 0 }, &body);
            let answers = answer(&request, 99, card, false);
            let found = &answers[0];
            let value = |wanted: u8| {
                let mut rest = &found[HEAD + 12..];
                while rest[2] != wanted {
                    rest = &rest[usize::from(rest[0])..];
                    if rest.is_empty() {
                        return Vec::new();
                    }
                }
                rest[4..rest[0].into()].to_vec()
            };
            match kinds(&answers)[0] {
                ERROR => Err(-i32::from_le_bytes(*found[HEAD..].first_chunk().unwrap())),
                _ => Ok((value(4)[0], value(7), value(5))),
            }
        };
        let own = card.v4().unwrap().0;
        let router = card.gateway(Family::V4).unwrap().to_v4().unwrap();
        let bytes = |address: u32| address.to_be_bytes().to_vec();
        assert_eq!(ask(INET, &[127, 1, 2, 3], None), Ok((1, alloc::vec![127, 0, 0, 1], Vec::new())));
        assert_eq!(ask(INET, &own.to_be_bytes(), Some(&card)), Ok((1, bytes(own), Vec::new())));
        assert_eq!(ask(INET, &router.to_be_bytes(), Some(&card)), Ok((2, bytes(own), Vec::new())));
        assert_eq!(ask(INET, &[8, 8, 8, 8], Some(&card)), Ok((2, bytes(own), bytes(router))));
        assert_eq!(ask(INET, &[8, 8, 8, 8], None), Err(UNREACHABLE));
        assert_eq!(ask(INET6, &1u128.to_be_bytes(), None).map(|found| found.0), Ok(1));
        assert_eq!(ask(INET6, &[8, 8, 8, 8], None), Err(INVALID));
        assert_eq!(ask(ANY, &[8, 8, 8, 8], None), Err(INVALID));
    }

    #[test]
    fn what_cannot_be_changed_is_refused() {
        let answers = ask(NEW_LINK, REQUEST | ACKNOWLEDGE, &[0; 16]);
        assert_eq!(kinds(&answers), [ERROR]);
        assert_eq!(answers[0][HEAD..HEAD + 4], (-NOT_PERMITTED).to_le_bytes());
        // The loopback device up, which it is, and down.
        let make = |wanted: u8| {
            let body = [0, 0, 0, 0, 1, 0, 0, 0, wanted, 0, 0, 0, 1, 0, 0, 0];
            let request = message(NEW_LINK, REQUEST | ACKNOWLEDGE, Head { sequence: 7, port: 0 }, &body);
            i32::from_le_bytes(*answer(&request, 99, None, true)[0][HEAD..].first_chunk().unwrap())
        };
        assert_eq!([make(1), make(0)], [0, -NOT_PERMITTED]);
        let unknown = ask(GET_LINK, REQUEST, &[0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(unknown[0][HEAD..HEAD + 4], (-NO_DEVICE).to_le_bytes());
    }

    #[test]
    fn fault_86_damaged_requests_end() {
        let good = message(GET_LINK, DUMP | REQUEST, Head { sequence: 7, port: 0 }, &[0; 16]);
        for length in 0..good.len() {
            assert!(answer(&good[..length], 1, None, true).is_empty());
        }
        let mut seed = 12345u64;
        for _ in 0..10_000 {
            let mut bad = good.clone();
            for byte in &mut bad {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if seed >> 61 == 0 {
                    *byte = (seed >> 40) as u8;
                }
            }
            let _ = answer(&bad, 1, Some(&crate::device::tests::card()), true);
        }
    }
}
