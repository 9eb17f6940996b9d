//! Generated expressions and packets. Both draw from the same few addresses, ports and
//! protocols, so that matches are common.

use fastrand::Rng;

fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    choices[rng.usize(0..choices.len())]
}

/// An expression with up to `size` primitives, in the part of the language that is
/// translated and spelt so that libpcap takes it too.
pub(crate) fn expression(rng: &mut Rng, size: usize) -> String {
    if size <= 1 {
        return primitive(rng);
    }
    let left = rng.usize(1..size);
    let (one, other) = (expression(rng, left), expression(rng, size - left));
    match rng.u8(0..10) {
        0..3 => format!("{one} {} {other}", pick(rng, &["and", "&&"])),
        3..6 => format!("{one} {} {other}", pick(rng, &["or", "||"])),
        6 => format!("({one}) and ({other})"),
        7 => format!("{one} or ({other})"),
        8 => format!("not ({one}) and {other}"),
        _ => format!("! ({one} or {other})"),
    }
}

fn primitive(rng: &mut Rng) -> String {
    let negation = if rng.u8(0..6) == 0 { "not " } else { "" };
    let text = match rng.u8(0..10) {
        0 => pick(rng, &["ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "ah"]).into(),
        1 | 2 => host(rng),
        3 => net(rng),
        4 | 5 => port(rng),
        6 => ethernet(rng),
        7 => proto(rng),
        _ => field(rng),
    };
    format!("{negation}{text}")
}

fn direction(rng: &mut Rng) -> &'static str {
    pick(rng, &["", "", "src ", "dst ", "src or dst ", "src and dst ", "dst or src "])
}

const V4: [&str; 4] = ["10.0.2.15", "10.0.2.2", "192.168.7.1", "224.0.0.1"];
const V6: [&str; 3] = ["2001:db8::1", "2001:db8:0:7::2", "ff02::1"];
const MAC: [&str; 3] = ["52:54:00:12:34:56", "ff:ff:ff:ff:ff:ff", "1:0:5e:0:0:1"];
const PORTS: [&str; 5] = ["80", "443", "53", "0x16", "1024"];

fn host(rng: &mut Rng) -> String {
    let direction = direction(rng);
    if rng.u8(0..4) == 0 {
        return format!("{}{direction}host {}", pick(rng, &["", "ip6 "]), pick(rng, &V6));
    }
    format!("{}{direction}host {}", pick(rng, &["", "ip ", "arp ", "rarp "]), pick(rng, &V4))
}

fn net(rng: &mut Rng) -> String {
    let networks = ["10", "10.0", "10.0.2", "10.0.2.0/24", "10.0.2.0/23", "192.168.0.0 mask 255.255.0.0", "0.0.0.0/0"];
    let direction = direction(rng);
    if rng.u8(0..4) == 0 {
        return format!("{direction}net {}", pick(rng, &["2001:db8::/32", "2001:db8:0:6::/63", "ff00::/8", "::/0"]));
    }
    format!("{}{direction}net {}", pick(rng, &["", "ip ", "arp "]), pick(rng, &networks))
}

fn port(rng: &mut Rng) -> String {
    let transport = pick(rng, &["", "tcp ", "udp ", "sctp "]);
    let direction = direction(rng);
    match rng.u8(0..4) {
        0 => format!(
            "{transport}{direction}portrange {}",
            pick(rng, &["80-443", "1-1024", "443-80", "53-53", "0-65535"])
        ),
        1 => format!("{transport}{direction}port ({} or {})", pick(rng, &PORTS), pick(rng, &PORTS)),
        2 => format!("{transport}{direction}port {} or {}", pick(rng, &PORTS), pick(rng, &PORTS)),
        _ => format!("{transport}{direction}port {}", pick(rng, &PORTS)),
    }
}

fn ethernet(rng: &mut Rng) -> String {
    match rng.u8(0..3) {
        0 => pick(
            rng,
            &["ether broadcast", "broadcast", "multicast", "ether multicast", "ip multicast", "ip6 multicast"],
        )
        .into(),
        1 => format!("ether {}host {}", direction(rng), pick(rng, &MAC)),
        _ => format!("ether proto {}", pick(rng, &["0x800", "\\arp", "34525", "\\ip6", "0x1234"])),
    }
}

fn proto(rng: &mut Rng) -> String {
    format!(
        "{}proto {}",
        pick(rng, &["", "ip ", "ip6 "]),
        pick(rng, &["6", "17", "\\udp", "\\tcp", "58", "44", "0x84"])
    )
}

fn field(rng: &mut Rng) -> String {
    let known = [
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "tcp[tcpflags] == tcp-syn|tcp-ack",
        "tcp[13] & 2 = 2",
        "icmp[icmptype] = icmp-echo",
        "icmp6[0] == 128",
        "ip[0] & 0xf > 5",
        "ip[6:2] & 0x1fff = 0",
    ];
    if rng.bool() {
        return pick(rng, &known).into();
    }
    let protocol = pick(rng, &["ether", "ip", "ip6", "arp", "tcp", "udp", "icmp", "sctp"]);
    let mask = pick(rng, &["", " & 1", " & 0xff", " & 0xf0", " & 0xffff"]);
    let relation = pick(rng, &["=", "==", "!=", "<", "<=", ">", ">="]);
    let value = pick(rng, &["0", "1", "2", "80", "255", "256", "0x0800", "65535", "4294967295"]);
    format!("{protocol}[{}:{}]{mask} {relation} {value}", rng.u8(0..20), pick(rng, &["1", "2", "4"]))
}

/// A frame, more often than not of a kind that expressions speak of; sometimes cut short.
pub(crate) fn packet(rng: &mut Rng) -> Vec<u8> {
    let mut packet = frame(rng);
    if rng.u8(0..8) == 0 {
        packet.truncate(rng.usize(0..=packet.len()));
    }
    packet
}

fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend(mac(rng));
    packet.extend(mac(rng));
    let kind = [0x0800u16, 0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8035, 0x1234][rng.usize(0..8)];
    packet.extend(kind.to_be_bytes());
    match kind {
        0x0800 => ip(rng, &mut packet),
        0x86dd => ip6(rng, &mut packet),
        0x0806 | 0x8035 => arp(rng, &mut packet),
        _ => {}
    }
    packet.extend((0..rng.usize(30..60)).map(|_| rng.u8(0..4) * 0x50));
    packet
}

fn mac(rng: &mut Rng) -> [u8; 6] {
    [[0x52, 0x54, 0, 0x12, 0x34, 0x56], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]][rng.usize(0..3)]
}

fn v4(rng: &mut Rng) -> [u8; 4] {
    [[10, 0, 2, 15], [10, 0, 2, 2], [192, 168, 7, 1], [224, 0, 0, 1], [10, 0, 3, 9]][rng.usize(0..5)]
}

fn v6(rng: &mut Rng) -> [u8; 16] {
    let text = V6[rng.usize(0..3)];
    text.parse::<std::net::Ipv6Addr>().expect("an address").octets()
}

const PROTOCOLS: [u8; 9] = [6, 6, 17, 132, 1, 2, 44, 58, 51];

fn ip(rng: &mut Rng, packet: &mut Vec<u8>) {
    let words = if rng.bool() { 5 } else { rng.u8(0..16) };
    let protocol = PROTOCOLS[rng.usize(0..PROTOCOLS.len())];
    let fragment: u16 = [0, 0, 0, 0x4000, 0x2000, 0x2001, 185][rng.usize(0..7)];
    packet.extend([0x40 | words, 0, 0, 60, 0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(v4(rng));
    packet.extend(v4(rng));
    packet.extend((5..words.max(5)).flat_map(|_| [1, 1, 1, 1]));
    transport(rng, packet);
}

fn ip6(rng: &mut Rng, packet: &mut Vec<u8>) {
    packet.extend([0x60, 0, 0, 0, 0, 20, PROTOCOLS[rng.usize(0..PROTOCOLS.len())], 64]);
    packet.extend(v6(rng));
    packet.extend(v6(rng));
    if rng.u8(0..3) == 0 {
        packet.extend([PROTOCOLS[rng.usize(0..PROTOCOLS.len())], 0, 0, 0, 0, 0, 0, 1]);
    }
    transport(rng, packet);
}

fn arp(rng: &mut Rng, packet: &mut Vec<u8>) {
    packet.extend([0, 1, 8, 0, 6, 4, 0, rng.u8(1..3)]);
    for _ in 0..2 {
        packet.extend(mac(rng));
        packet.extend(v4(rng));
    }
}

fn transport(rng: &mut Rng, packet: &mut Vec<u8>) {
    for _ in 0..2 {
        let port: u16 = [80, 443, 53, 22, 1024, 128 << 8, 8 << 8][rng.usize(0..7)];
        packet.extend(port.to_be_bytes());
    }
    packet.extend([0; 8]);
    packet.extend([0x50, rng.u8(0..32), 0, 0]);
}
