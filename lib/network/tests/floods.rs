//! Floods (FAULTS row 79): SYNs of strangers, forged cookies, TIME_WAIT without end, connections that are never
//! accepted.

mod support;

use network::address::Endpoint;
use network::tcp::block::Options;
use network::tcp::listen::EMBRYO_LIMIT;
use network::tcp::segment::{Outgoing, Timestamps};
use network::tcp::sequence::Sequence;
use network::tcp::time_wait;
use network::time::{MILLISECOND, SECOND};
use support::random::{Random, seed};
use support::strangers::Server;

fn stranger(random: &mut Random) -> Endpoint {
    let word = random.next().to_be_bytes();
    Endpoint::new([11, word[0], word[1], word[2]], random.between(1, 65_535) as u16)
}

fn friend(number: u32) -> Endpoint {
    Endpoint::new([10, 1, (number >> 8) as u8, number as u8], 5_000 + (number >> 16) as u16)
}

#[test]
fn fault_79_good_clients_are_served_during_a_flood_of_syns() {
    let mut random = Random::new(seed());
    for stamps in [false, true] {
        let mut server = Server::new(256, Options::default());
        let mut served = Vec::new();
        for turn in 0..200 {
            for _ in 0..250 {
                server.syn(stranger(&mut random), random.chance(500));
                assert!(server.tcp.census()[1] <= EMBRYO_LIMIT.min(256));
            }
            served.extend(server.greet(friend(turn), stamps));
            server.now = server.now.after(10 * MILLISECOND);
            server.tcp.advance(server.now, &mut server.carrier);
            server.carrier.out.clear();
        }
        assert_eq!(served.len(), 200, "good clients served, timestamps: {stamps}");
        assert!(server.tcp.counters().cookies_accepted >= 190);
        // When the flood ends, what it left goes.
        for _ in 0..400 {
            server.now = server.now.after(SECOND);
            server.tcp.advance(server.now, &mut server.carrier);
            server.carrier.out.clear();
        }
        assert_eq!(server.tcp.census(), [200, 0, 0]);
        assert_eq!(server.tcp.armed_timers(), 0);
    }
}

/// Fills the queue of handshakes, so that cookies are in use.
fn flooded() -> Server {
    let mut server = Server::new(4, Options::default());
    for number in 0..8 {
        server.syn(friend(number), true);
    }
    assert!(server.tcp.counters().cookies_sent > 0);
    server
}

#[test]
fn fault_79_a_cookie_keeps_the_options_of_the_syn() {
    let mut server = flooded();
    let handle = server.greet(friend(100), true).expect("a cookie is accepted");
    let text = format!("{:?}", server.tcp.block(handle).expect("it is there"));
    assert!(text.contains("sack: true") && text.contains("enabled: true"), "{text}");
    // 500 in the header, scaled by 7.
    assert!(text.contains("window: 64000"), "{text}");
    let handle = server.greet(friend(101), false).expect("a cookie is accepted");
    let text = format!("{:?}", server.tcp.block(handle).expect("it is there"));
    assert!(text.contains("enabled: false") && text.contains("window: 500"), "{text}");
}

#[test]
fn fault_79_a_cookie_serves_its_pair_alone() {
    let mut server = flooded();
    let cookie = server.syn(friend(200), false).expect("a cookie").sequence;
    let acknowledgement = Some(cookie.plus(1));
    let hello = Outgoing { sequence: Sequence(101), acknowledgement, window: 500, ..Outgoing::default() };
    for number in 201..300 {
        server.deliver(friend(number), &hello, b"!");
    }
    assert_eq!(server.tcp.counters().cookies_accepted, 0);
    server.deliver(friend(200), &hello, b"!");
    assert_eq!(server.tcp.counters().cookies_accepted, 1);
}

#[test]
fn fault_79_guessed_cookies_are_refused() {
    let mut server = flooded();
    let mut random = Random::new(seed());
    for _ in 0..100_000 {
        let acknowledgement = Some(Sequence(random.next() as u32));
        let timestamps = random.chance(500).then_some(Timestamps { value: 1, echo: random.next() as u32 });
        let guess =
            Outgoing { sequence: Sequence(random.next() as u32), acknowledgement, timestamps, ..Outgoing::default() };
        server.deliver(stranger(&mut random), &guess, &[]);
        server.carrier.out.clear();
    }
    assert_eq!((server.tcp.counters().cookies_accepted, server.tcp.census()[0]), (0, 0));
    // Answers to what belongs to nothing are limited.
    assert!(server.tcp.counters().resets_sent <= 1_000);
}

#[test]
fn fault_79_time_wait_is_bounded_and_stops_no_one() {
    let mut server = Server::new(16, Options::default());
    for number in 0..time_wait::LIMIT as u32 + 2_000 {
        let handle = server.greet(friend(number), false).expect("it is served");
        server.part(friend(number), handle);
        assert!(server.tcp.census()[2] <= time_wait::LIMIT);
    }
    assert_eq!(server.tcp.census(), [0, 0, time_wait::LIMIT]);
    server.now = server.now.after(61 * SECOND);
    server.tcp.advance(server.now, &mut server.carrier);
    assert_eq!((server.tcp.census(), server.tcp.armed_timers()), ([0, 0, 0], 0));
}

#[test]
fn fault_79_connections_that_nobody_accepts_are_bounded() {
    let mut server = Server::new(8, Options::default());
    for number in 0..1_000 {
        let Some(answer) = server.syn(friend(number), false) else { continue };
        let acknowledgement = Some(answer.sequence.plus(1));
        let hello = Outgoing { sequence: Sequence(101), acknowledgement, window: 500, ..Outgoing::default() };
        server.deliver(friend(number), &hello, &[]);
        server.carrier.out.clear();
        let [connections, embryos, _] = server.tcp.census();
        assert!(connections <= 8 && embryos <= 8, "{connections} connections, {embryos} embryos");
    }
    let accepted = std::iter::from_fn(|| server.tcp.accept(server.listener)).count();
    assert_eq!(accepted, 8);
    assert!(server.greet(friend(5_000), false).is_some());
}
