//! Our filters against Debian's libpcap: every generated expression, compiled by both,
//! gives the same verdict on every generated packet.

use fastrand::Rng;

use crate::classic_bpf::{self, Verdict};
use crate::{accepts, cases, generate, seed};

/// Compares on `count` packets; says how many both accepted.
fn compare(rng: &mut Rng, text: &str, count: usize) -> usize {
    let atoms = pcap_language::compile(text).unwrap_or_else(|refusal| panic!("{}", refusal.explain(text)));
    let program = classic_bpf::compile(text).unwrap_or_else(|message| panic!("libpcap on {text:?}: {message}"));
    let mut accepted = 0;
    for _ in 0..count {
        let packet = generate::packet(rng);
        let ours = accepts(&atoms, &packet);
        match classic_bpf::run(&program, &packet) {
            Verdict::TooShort => continue,
            verdict => assert_eq!(ours, verdict == Verdict::Accepted, "{text:?} on {packet:02x?}"),
        }
        accepted += usize::from(ours);
    }
    accepted
}

#[test]
fn each_primitive_agrees_with_libpcap() {
    let mut rng = Rng::with_seed(seed());
    let mut matched = 0;
    let count = cases(250, 5_000);
    for _ in 0..count {
        let text = generate::expression(&mut rng, 1);
        if pcap_language::compile(&text).is_ok() {
            matched += u64::from(compare(&mut rng, &text, 400) > 0);
        }
    }
    assert!(matched * 2 > count, "only {matched} of {count} expressions matched any packet");
}

#[test]
fn combined_expressions_agree_with_libpcap() {
    let mut rng = Rng::with_seed(seed());
    let count = cases(400, 20_000);
    let (mut translated, mut impossible) = (0, 0);
    for _ in 0..count {
        let size = rng.usize(2..6);
        let text = generate::expression(&mut rng, size);
        match pcap_language::compile(&text) {
            Ok(_) => {
                compare(&mut rng, &text, 200);
                translated += 1;
            }
            Err(refusal) if refusal.advice.contains("no packet can match") => impossible += 1,
            Err(refusal) => assert!(too_large(&refusal), "{}", refusal.explain(&text)),
        }
    }
    println!("{count} expressions: {translated} translated, {impossible} impossible, the rest too large");
    assert!((translated + impossible) * 10 > count * 9, "too many expressions were refused");
}

fn too_large(refusal: &pcap_language::Refusal) -> bool {
    let fixed = ["needs more than 64 alternatives", "one alternative needs"];
    fixed.iter().any(|part| refusal.advice.contains(part))
}

#[test]
fn expressions_people_write_agree_with_libpcap() {
    let mut rng = Rng::with_seed(seed());
    let known = [
        "tcp dst port 80 and host 10.0.2.15",
        "not port 22",
        "not host 10.0.2.2",
        "tcp port 80 or 443",
        "port (53 or 67) and not arp",
        "host 10.0.2.15 and not (port 80 or port 443)",
        "src net 10.0.0.0/8 and not dst net 10.0.0.0/8",
        "ip host 10.0.2.15 and not 10.0.2.2",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn and dst port 80",
        "ether src 52:54:00:12:34:56 and (arp or icmp)",
        "udp portrange 1024-65535 or icmp6",
        "not broadcast and not multicast",
        "ip and tcp port domain or udp port domain",
        "dst host 10.0.2.15 and tcp port http",
        "host 2001:db8::1 and not tcp",
    ];
    for text in known {
        compare(&mut rng, text, 2_000);
    }
}

/// Libpcap takes whatever we take: nothing is understood that tcpdump's users would not
/// write. (We also allow names after `proto` without the backslash.)
#[test]
fn soups_of_words_that_we_take_libpcap_takes() {
    const WORDS: [&str; 30] = [
        "tcp",
        "udp",
        "ip",
        "ip6",
        "arp",
        "ether",
        "src",
        "dst",
        "host",
        "net",
        "port",
        "portrange",
        "proto",
        "and",
        "or",
        "not",
        "(",
        ")",
        "10.0.2.15",
        "10.0.2",
        "80",
        "443",
        "80-443",
        "::1",
        "/",
        "24",
        "0:1:2:3:4:5",
        "multicast",
        "icmp",
        "tcp[13] = 2",
    ];
    let mut rng = Rng::with_seed(seed());
    let mut taken = 0;
    let wanted = cases(150, 3_000);
    while taken < wanted {
        let count = rng.usize(1..8);
        let words: Vec<&str> = (0..count).map(|_| WORDS[rng.usize(0..WORDS.len())]).collect();
        let text = words.join(" ");
        let named = text.contains("proto tcp")
            || text.contains("proto udp")
            || text.contains("proto icmp")
            || text.contains("proto ip")
            || text.contains("proto arp");
        if named || pcap_language::compile(&text).is_err() {
            continue;
        }
        taken += 1;
        if let Err(message) = classic_bpf::compile(&text) {
            panic!("we take {text:?}, libpcap does not: {message}");
        }
    }
}
