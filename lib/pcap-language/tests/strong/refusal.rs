//! What is refused, where, and with which advice; and hostile texts.

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::{cases, generate, seed};

fn refusal(text: &str) -> (usize, String) {
    let refusal = pcap_language::compile(text).expect_err(text);
    (refusal.position, refusal.advice)
}

#[test]
fn refusals_name_the_place_and_what_to_write_instead() {
    let table = [
        ("", 0, "name what to match"),
        ("tcp and", 7, "ends too early"),
        ("tcp udp", 4, "`and` or `or`"),
        ("(tcp or udp", 11, "write `)`"),
        ("tcp or udp)", 10, "`and` or `or`"),
        ("src (udp)", 5, "whole address"),
        ("port (80 or tcp)", 12, "from 0 to 65535"),
        ("80", 0, "`host`, `net` or `port`"),
        ("10.0.2.15", 0, "`host`, `net` or `port`"),
        ("host example.org", 5, "names are not looked up"),
        ("host 80", 5, "write `port 80`"),
        ("host 10.0.2.256", 5, "whole address"),
        ("tcp host 10.0.2.15", 0, "tcp and host 10.0.2.15"),
        ("tcp dst 80", 0, "`port`"),
        ("port 65536", 5, "from 0 to 65535"),
        ("port nosuchservice", 5, "well-known service"),
        ("udp port http", 9, "write its number, 80"),
        ("ip port 80", 0, "only tcp, udp and sctp"),
        ("portrange 80:90", 10, "`portrange 6000-6063`"),
        ("net 10.0.2.1/24", 4, "outside the network"),
        ("net 10.0.0.0/33", 13, "from 0 to 32"),
        ("net ::/129", 7, "from 0 to 128"),
        ("ip host ::1", 8, "`ip6` with IPv6"),
        ("ip6 net 10", 8, "`ip6` with IPv6"),
        ("ether host 10.0.2.15", 11, "hardware address"),
        ("ether", 0, "`ether host ADDRESS`"),
        ("ether net 10", 0, "no networks"),
        ("ether proto 5", 12, "0x600"),
        ("ip proto 256", 9, "from 0 to 255"),
        ("src proto 6", 0, "no direction"),
        ("ip broadcast", 0, "`ether broadcast`"),
        ("tcp and vlan 3", 8, "ether[12:2] = 0x8100"),
        ("gateway x", 0, "ether host"),
        ("less 100", 0, "ip[2:2]"),
        ("ip[0] >> 4 = 4", 6, "& MASK"),
        ("ip[ip[0]] = 4", 3, "constant offset"),
        ("ip[0:3] = 4", 3, "1, 2 or 4"),
        ("ip[99999] = 4", 3, "at most 9000"),
        ("tcp[13] & 0 = 0", 0, "mask is zero"),
        ("tcp[13] = nosuchflag", 10, "tcp-syn"),
        ("ip and arp", 0, "contradict"),
        ("tcp[13] & 2 = 1", 0, "no packet can match"),
        ("src host 10.0.0.1 and src net 10.1", 0, "contradict"),
        ("tcp; udp", 3, "remove it"),
    ];
    for (text, position, advice) in table {
        let (found, given) = refusal(text);
        assert!(given.contains(advice), "{text:?} got {given:?}, wanted {advice:?}");
        assert_eq!(found, position, "{text:?}: {given}");
    }
}

#[test]
fn a_refusal_shows_the_place_under_the_text() {
    let text = "tcp and host example.org";
    let refusal = pcap_language::compile(text).expect_err("a name");
    let shown = refusal.explain(text);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "  tcp and host example.org");
    assert_eq!(lines[1], "               ^");
}

#[test]
fn deep_and_long_texts_are_refused_quickly() {
    let deep = [
        "(".repeat(8000),
        "not ".repeat(2000) + "tcp",
        format!("{}tcp{}", "(".repeat(2000), ")".repeat(2000)),
        "arp or ip and ".repeat(500) + "tcp",
        "port ( ".repeat(1000),
        "tcp or ".repeat(10_000) + "udp",
    ];
    for text in deep {
        let begun = Instant::now();
        assert!(pcap_language::compile(&text).is_err());
        assert!(begun.elapsed() < Duration::from_secs(2), "slow on {} bytes", text.len());
    }
}

#[test]
fn texts_that_multiply_out_enormously_are_refused_quickly() {
    let hosts = |count: usize| (0..count).map(|n| format!("host 10.0.{}.{}", n / 250, n % 250)).collect::<Vec<_>>();
    let texts = [
        hosts(300).join(" or "),
        format!("not ({})", hosts(30).join(" and ")),
        vec!["(port 1 or port 2)"; 60].join(" and "),
        (0..200).map(|n| format!("not port {n}")).collect::<Vec<_>>().join(" and "),
        (0..100).map(|n| format!("(tcp[{n}] = 1 or udp[{n}] = 2)")).collect::<Vec<_>>().join(" and "),
    ];
    for text in texts {
        let begun = Instant::now();
        let outcome = pcap_language::compile(&text).map(|atoms| atoms.len());
        println!("{:?} {:?}", begun.elapsed(), outcome);
        assert!(begun.elapsed() < Duration::from_secs(4), "slow on {text:.60}");
    }
}

#[test]
fn hostile_texts_never_panic() {
    let mut rng = Rng::with_seed(seed());
    for _ in 0..cases(30_000, 10_000_000) {
        let size = rng.usize(1..4);
        let mut text: Vec<char> = generate::expression(&mut rng, size).chars().collect();
        for _ in 0..rng.usize(1..4) {
            let place = rng.usize(0..text.len());
            match rng.u8(0..4) {
                0 => text[place] = rng.char(..),
                1 => text[place] = char::from(rng.u8(0x20..0x7f)),
                2 => text.truncate(place + 1),
                _ => text.insert(place, ['(', ')', '[', ':', '\\', '/', '|', '9'][rng.usize(0..8)]),
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(refusal) = pcap_language::compile(&text) {
            assert!(refusal.position <= text.len() && !refusal.advice.is_empty(), "{text:?}");
            assert!(text.is_char_boundary(refusal.position), "{text:?}");
            refusal.explain(&text);
        }
    }
}
