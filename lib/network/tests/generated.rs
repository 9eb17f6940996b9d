//! Generated input: every parser and every state of TCP gets segments and frames at random. None panics, and memory
//! stays bounded.

mod support;

use network::address::{Endpoint, Pair};
use network::checksum::{Sum, pseudo_header};
use network::icmp;
use network::packet::Datagram;
use network::route::Prefix;
use network::stack::Stack;
use network::tcp::block::Options;
use network::tcp::segment::Segment;
use network::time::{MILLISECOND, Time};
use network::{dhcp, ip4, ip6, udp};
use support::ethernet::{Port, stack};
use support::random::{Random, seed};
use support::talk::Talk;

/// Ways into every state.
const WAYS: [&str; 9] = [
    "> S 0 - 0",
    "> S 0 - 0 | < S 0 - 0 | > SA 0 1 0",
    "> S 0 - 0 | < SA 0 1 0 mss=1000 sack | > A 1 1 0 | write 9000",
    "> S 0 - 0 | < SA 0 1 0 mss=1000 sack | > A 1 1 0 | write 9000 | shut",
    "> S 0 - 0 | < SA 0 1 0 | > A 1 1 0 | shut | > FA 1 1 0 | < A 1 2 0",
    "> S 0 - 0 | < SA 0 1 0 | > A 1 1 0 | < FA 1 1 0 | > A 1 2 0 | write 3000",
    "> S 0 - 0 | < SA 0 1 0 | > A 1 1 0 | shut | > FA 1 1 0 | < FA 1 1 0 | > A 2 2 0",
    "> S 0 - 0 | < SA 0 1 0 | > A 1 1 0 | < FA 1 1 0 | > A 1 2 0 | shut | > FA 1 2 0",
    "> S 0 - 0 | < SA 0 1 0 | > A 1 1 0 | close | > FA 1 1 0 | < FA 1 2 0 | > A 2 2 0",
];

/// A number near one of interest, or any.
fn near(random: &mut Random, centers: &[u32]) -> u32 {
    let center = centers[random.below(centers.len() as u64) as usize];
    match random.below(4) {
        0 => random.next() as u32,
        1 => center,
        2 => center.wrapping_add(random.below(5) as u32).wrapping_sub(2),
        _ => center.wrapping_add(random.below(20_000) as u32).wrapping_sub(10_000),
    }
}

fn options_of(random: &mut Random) -> Vec<u8> {
    let mut options = Vec::new();
    while random.chance(500) && options.len() < 30 {
        let kind = [0, 1, 2, 3, 4, 5, 8, 254][random.below(8) as usize];
        let right = [1, 1, 4, 3, 2, 10, 10, 4][random.below(8) as usize];
        let length = if random.chance(800) { right } else { random.next() as u8 };
        options.push(kind);
        if kind > 1 {
            options.push(length);
            (2..length.min(12)).for_each(|_| options.push(random.next() as u8));
        }
    }
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    options
}

/// A segment of the pair with numbers near those of the connection, and a right checksum most of the time.
fn segment(random: &mut Random, pair: &Pair, numbers: [&[u32]; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&pair.remote.port.to_be_bytes());
    bytes.extend_from_slice(&pair.local.port.to_be_bytes());
    bytes.extend_from_slice(&near(random, numbers[0]).to_be_bytes());
    bytes.extend_from_slice(&near(random, numbers[1]).to_be_bytes());
    let options = options_of(random);
    let words = if random.chance(950) { 5 + options.len() as u8 / 4 } else { random.next() as u8 & 15 };
    let flags = if random.chance(600) { [16, 17, 24, 2, 18, 4][random.below(6) as usize] } else { random.next() as u8 };
    bytes.extend_from_slice(&[words << 4, flags]);
    let window = if random.chance(300) { 0 } else { random.next() as u16 };
    bytes.extend_from_slice(&window.to_be_bytes());
    bytes.extend_from_slice(&[0, 0, random.next() as u8, random.next() as u8]);
    bytes.extend_from_slice(&options);
    let payload = if random.chance(500) { random.below(1_500) } else { 0 };
    bytes.resize(bytes.len() + payload as usize, 7);
    if random.chance(980) {
        let pseudo = pseudo_header(pair.remote.address, pair.local.address, 6, bytes.len());
        let sum = pseudo.combine(Sum::of(&bytes)).finish();
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

fn talk_in(random: &mut Random, way: &str) -> Talk {
    let options = Options {
        timestamps: random.chance(500),
        sack: random.chance(700),
        no_delay: random.chance(300),
        keep_alive: random.chance(300),
        receive_limit: if random.chance(500) { 4_000 } else { 256 << 10 },
        ..Options::default()
    };
    let mut talk = Talk::connecting(options);
    talk.runs(way);
    talk
}

/// Feeds one connection in one state until it has ended or `count` segments are used up.
fn feed(random: &mut Random, talk: &mut Talk, count: usize) {
    let (mut ours, mut theirs) = (vec![0], vec![u32::MAX - 2_000]);
    for _ in 0..count {
        for (sent, length) in talk.outgoing() {
            ours = vec![sent.sequence.0, sent.sequence.0.wrapping_add(length as u32 + 1)];
            theirs = vec![sent.acknowledgement.0, sent.acknowledgement.0.wrapping_add(u32::from(sent.window))];
        }
        let bytes = segment(random, &talk.pair, [&theirs, &ours]);
        talk.deliver_bytes(&bytes);
        if let Some(handle) = talk.connection {
            talk.tcp.read(handle, &mut vec![0; random.below(3_000) as usize]);
            if let Some(block) = talk.tcp.block(handle) {
                assert!(block.readable() + block.out_of_order() <= 2 * (256 << 10));
            }
        }
        if random.chance(100) {
            talk.now = talk.now.after(random.below(2_000) * MILLISECOND);
            talk.tcp.advance(talk.now, &mut talk.carrier);
        }
        talk.carrier.out.truncate(1_000);
    }
}

fn feed_every_state(total: usize) {
    let mut random = Random::new(seed());
    let mut used = 0;
    while used < total {
        for way in WAYS {
            let mut talk = talk_in(&mut random, way);
            feed(&mut random, &mut talk, 40);
            used += 40;
            let [connections, embryos, waits] = talk.tcp.census();
            assert!(connections + embryos + waits <= 2);
        }
    }
}

#[test]
fn fault_78_every_state_takes_any_segment() {
    feed_every_state(100_000);
}

#[test]
#[ignore = "full runs only"]
fn fault_78_every_state_takes_any_segment_at_length() {
    feed_every_state(100_000_000);
}

/// A frame that is right but for what is generated in it.
fn frame(random: &mut Random, good: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = good[random.below(good.len() as u64) as usize].clone();
    if random.chance(100) {
        let length = random.below(200) as usize;
        frame = (0..length).map(|_| random.next() as u8).collect();
        frame.splice(..frame.len().min(6), [2, 0, 0, 0, 0, 1].into_iter().take(frame.len().min(6)));
        return frame;
    }
    for _ in 0..random.below(4) {
        let at = random.below(frame.len() as u64) as usize;
        frame[at] = random.next() as u8;
    }
    if random.chance(100) {
        frame.truncate(random.below(frame.len() as u64 + 1) as usize);
    }
    if random.chance(500) {
        repair(&mut frame);
    }
    frame
}

/// Makes the checksums of an IPv4 header and of ICMP right, so that damage gets deeper.
fn repair(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(14..) else { return };
    if packet.len() >= 28 && packet[0] == 0x45 {
        packet[10..12].fill(0);
        let sum = Sum::of(&packet[..20]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        if packet[9] == 1 {
            packet[22..24].fill(0);
            let sum = Sum::of(&packet[20..]).finish();
            packet[22..24].copy_from_slice(&sum.to_be_bytes());
        }
    } else if packet.len() >= 48 && packet[0] >> 4 == 6 && packet[6] == 58 {
        packet[42..44].fill(0);
        let octets = |at: usize| -> [u8; 16] { packet[at..at + 16].try_into().expect("16 bytes") };
        let pseudo = pseudo_header(octets(8).into(), octets(24).into(), 58, packet.len() - 40);
        let sum = pseudo.combine(Sum::of(&packet[40..])).finish();
        packet[42..44].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Frames of every protocol, as a second stack sends them to the first.
fn good_frames(now: Time) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut second = stack(2, 1500, now);
    for prefix in [Prefix::new([10, 0, 0, 1], 32), Prefix::new([0xfd00, 0, 0, 0, 0, 0, 0, 1], 128)] {
        let mut first = stack(1, 1500, now);
        second.ping(prefix.address, 1, 1, now);
        let socket = second.open_udp(Endpoint { address: core::net::Ipv6Addr::UNSPECIFIED, port: 0 }).expect("a port");
        second.send_udp(socket, Endpoint { address: prefix.address, port: 53 }, &[1; 4_000], now);
        second.connect(Endpoint { address: prefix.address, port: 80 }, Options::default(), now).expect("a port");
        for _ in 0..4 {
            second.poll(now);
            frames.append(&mut second.link_mut().sent.clone());
            first.link_mut().received.extend(std::mem::take(&mut second.link_mut().sent));
            first.poll(now);
            second.link_mut().received.extend(std::mem::take(&mut first.link_mut().sent));
        }
        for (kind, code) in [(3, 3), (3, 4), (11, 0), (1, 4), (2, 0), (133, 0), (134, 0), (135, 0), (136, 0), (137, 0)]
        {
            let (source, destination) =
                (second.addresses()[usize::from(prefix.length == 128 && kind > 100)].address, prefix.address);
            let protocol = if destination.to_ipv4_mapped().is_some() { 1 } else { 58 };
            let body = icmp::emit(source, destination, protocol, kind, code, &[0x45; 120]);
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            let datagram = Datagram { source, destination, protocol, hop_limit: 255, body: &body };
            if protocol == 1 {
                frame.extend_from_slice(&[8, 0]);
                if ip4::emit_header(&datagram, body.len(), None, &mut frame).is_none() {
                    continue;
                }
            } else {
                frame.extend_from_slice(&[0x86, 0xdd]);
                ip6::emit_header(&datagram, body.len(), None, &mut frame);
            }
            frame.extend_from_slice(&body);
            frames.push(frame);
        }
    }
    let mut asking = Stack::new(Port::new(2, 1500), [1, 2], now);
    asking.start_dhcp(7, now);
    asking.poll(now);
    frames.append(&mut asking.link_mut().sent);
    frames
}

fn feed_frames(count: usize) {
    let mut random = Random::new(seed());
    let mut now = Time::from_micros(1_000_000_000);
    let good = good_frames(now);
    assert!(good.len() > 20, "{} frames", good.len());
    let mut first = stack(1, 1500, now);
    first.start_dhcp(7, now);
    first.start_slaac(now);
    let any = core::net::Ipv6Addr::UNSPECIFIED;
    let socket = first.open_udp(Endpoint { address: any, port: 53 }).expect("a free port");
    for turn in 0..count {
        first.link_mut().received.push_back(frame(&mut random, &good));
        first.poll(now);
        first.link_mut().sent.clear();
        now = now.after(random.below(20) * MILLISECOND);
        if turn % 1_000 == 0 {
            let received = std::iter::from_fn(|| first.udp.receive(socket)).count();
            assert!(received <= 4_000);
            assert!(first.routes_mut().iter().count() <= 20);
        }
    }
    let [connections, embryos, _] = first.tcp.census();
    assert_eq!(connections + embryos, 0);
}

#[test]
fn fault_78_every_parser_takes_any_frame() {
    feed_frames(100_000);
}

#[test]
#[ignore = "full runs only"]
fn fault_78_every_parser_takes_any_frame_at_length() {
    feed_frames(20_000_000);
}

#[test]
fn parsers_take_any_bytes() {
    let mut random = Random::new(seed());
    let now = Time::default();
    for _ in 0..100_000 {
        let length = random.below(120) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if random.chance(700) && length > 0 {
            bytes[0] = if random.chance(500) { 0x45 } else { 0x60 };
        }
        let _ = Segment::parse(&bytes);
        for packet in [ip4::parse(&bytes), ip6::parse(&bytes)].into_iter().flatten() {
            let _ = (udp::parse(&packet), icmp::parse(&packet));
        }
        let mut client = dhcp::Client::new(smoltcp::wire::EthernetAddress([2; 6]), 7, now);
        let _ = client.input(&bytes, now);
    }
}
