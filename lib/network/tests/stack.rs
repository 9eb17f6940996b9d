//! The whole stack over Ethernet: neighbours, ping, UDP with fragments, errors, path MTU, DHCP, SLAAC, TCP.

mod support;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use network::address::{Endpoint, Pair, mapped};
use network::icmp;
use network::packet::Datagram;
use network::server::Server;
use network::slab::Handle;
use network::stack::Stack;
use network::tcp::block::{Block, Error, Options};
use network::tcp::listen::Listener;
use network::time::{MILLISECOND, SECOND, Time};
use network::{dhcp, ip4, ip6, udp};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, Icmpv6Packet, Icmpv6Repr, NdiscPrefixInfoFlags, NdiscPrefixInformation,
    NdiscRepr, NdiscRouterFlags,
};
use support::ethernet::{Port, exchange, stack, take};
use support::script::text;

const START: Time = Time::from_micros(10 * SECOND);

fn pairs() -> [(IpAddr, IpAddr); 2] {
    let long = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into();
    [([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), (long(1), long(2))]
}

fn both(mtu: usize) -> [Stack<Port>; 2] {
    [stack(1, mtu, START), stack(2, mtu, START)]
}

#[test]
fn neighbours_are_found_and_pinged() {
    for (number, (_, theirs)) in pairs().into_iter().enumerate() {
        let [mut first, mut second] = both(1500);
        assert!(first.ping(mapped(theirs), 7, number as u16, START));
        exchange(&mut first, &mut second, START);
        assert_eq!(first.take_echo(), Some((7, number as u16, mapped(theirs))));
        assert_eq!((first.take_echo(), second.counters().echoes), (None, 1));
    }
}

#[test]
fn a_neighbour_that_does_not_answer_is_asked_three_times() {
    let [mut first, _] = both(1500);
    first.ping(mapped([10, 0, 0, 77].into()), 7, 1, START);
    let mut questions = take(&mut first).len();
    for _ in 0..10 {
        let deadline = first.deadline();
        if deadline.is_never() {
            break;
        }
        first.poll(deadline);
        questions += take(&mut first).len();
    }
    assert_eq!((questions, first.deadline()), (3, Time::NEVER));
}

#[test]
fn a_connection_to_a_neighbour_that_does_not_answer_ends_after_three_seconds() {
    for silent in [IpAddr::from([10, 0, 0, 77]), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 77).into()] {
        let [mut first, _] = both(1500);
        let handle = first.connect(Endpoint::new(silent, 80), Options::default(), START).expect("a free port");
        let mut now = START;
        while first.tcp.block(handle).is_some_and(|block| block.error().is_none()) {
            now = first.deadline();
            assert!(now <= START.after(4 * SECOND), "nothing ends the connection until {now:?}");
            first.poll(now);
        }
        let error = first.tcp.block(handle).and_then(Block::error);
        assert_eq!((error, now), (Some(Error::Unreachable), START.after(3 * SECOND)));
    }
}

#[test]
fn large_datagrams_travel_in_fragments_in_any_order() {
    for (ours, theirs) in pairs() {
        let [mut first, mut second] = both(1500);
        let sender = first.open_udp(Endpoint::new(ours, 0)).expect("a free port");
        let receiver = second.open_udp(Endpoint::new(theirs, 53)).expect("a free port");
        for length in [0, 1, 1_400, 1_472, 1_473, 5_000, 60_000] {
            let bytes = text(length as u64, length);
            assert!(first.send_udp(sender, Endpoint::new(theirs, 53), &bytes, START));
            exchange(&mut first, &mut second, START);
            let received = second.udp.receive(receiver).expect("it came");
            assert_eq!((received.bytes == bytes, received.source.address), (true, mapped(ours)), "{length}");
            // The way back, with its fragments reversed.
            assert!(second.send_udp(receiver, received.source, &bytes, START));
            let mut frames = take(&mut second);
            frames.reverse();
            first.link_mut().received.extend(frames);
            first.poll(START);
            assert_eq!(first.udp.receive(sender).map(|it| it.bytes == bytes), Some(true), "{length}");
        }
        assert!(!first.send_udp(sender, Endpoint::new(theirs, 53), &[0; 65_528], START));
    }
}

#[test]
fn a_port_that_is_not_served_refuses() {
    for (ours, theirs) in pairs() {
        let [mut first, mut second] = both(1500);
        let handle = first.open_udp(Endpoint::new(ours, 0)).expect("a free port");
        first.udp.connect(handle, Some(Endpoint::new(theirs, 9)));
        first.send_udp(handle, Endpoint::new(theirs, 9), b"?", START);
        exchange(&mut first, &mut second, START);
        assert!(first.udp.take_refused(handle) && !first.udp.take_refused(handle));
        let connection = first.connect(Endpoint::new(theirs, 9), Options::default(), START).expect("a free port");
        exchange(&mut first, &mut second, START);
        assert_eq!(first.tcp.block(connection).and_then(|block| block.error()), Some(Error::Refused));
    }
}

fn listen(stack: &mut Stack<Port>, port: u16) -> Handle {
    let listener = Listener::new(Endpoint { address: Ipv6Addr::UNSPECIFIED, port }, 8, Options::default());
    stack.tcp.listen(listener).expect("a free port")
}

/// Sends `bytes` from the first stack to the second; `carry` moves frames.
fn transfer(
    stacks: &mut [Stack<Port>; 2],
    to: IpAddr,
    bytes: &[u8],
    mut carry: impl FnMut(&mut [Stack<Port>; 2], Time),
) {
    let listener = listen(&mut stacks[1], 80);
    let client = stacks[0].connect(Endpoint::new(to, 80), Options::default(), START).expect("a free port");
    for piece in bytes.chunks(4_096) {
        let extent = stacks[0].link_mut().memory.store(piece);
        assert!(stacks[0].tcp.send(client, extent));
    }
    let (mut now, mut received, mut server) = (START, Vec::new(), None);
    stacks[0].tcp.shut_down(client, now);
    while received.len() < bytes.len() {
        assert!(now < START.after(600 * SECOND), "{} of {} bytes", received.len(), bytes.len());
        stacks.iter_mut().for_each(|stack| stack.poll(now));
        carry(stacks, now);
        server = server.or_else(|| stacks[1].tcp.accept(listener));
        let mut buffer = [0; 65_536];
        let count = server.map_or(0, |handle| stacks[1].tcp.read(handle, &mut buffer));
        received.extend_from_slice(&buffer[..count]);
        now = now.after(MILLISECOND);
    }
    assert!(received == bytes);
}

fn cross(stacks: &mut [Stack<Port>; 2], _: Time) {
    let (forth, back) = (take(&mut stacks[0]), take(&mut stacks[1]));
    stacks[1].link_mut().received.extend(forth);
    stacks[0].link_mut().received.extend(back);
}

#[test]
fn tcp_runs_over_both_versions() {
    for (_, theirs) in pairs() {
        let mut stacks = both(1500);
        transfer(&mut stacks, theirs, &text(3, 300_000), cross);
        assert_eq!(stacks[0].tcp.counters().retransmissions, 0);
    }
}

/// One port counts what it is sent, the other closes with the first byte. Only connections that changed are served.
#[test]
fn a_server_calls_for_connections_that_are_new_or_have_changed() {
    let [mut client, mut stack] = both(1500);
    let (mut server, at) = (Server::default(), |port| Endpoint { address: mapped([10, 0, 0, 2].into()), port });
    for (port, closes) in [(80, false), (81, true)] {
        server.listen(&mut stack, Listener::new(at(port), 8, Options::default()), closes).expect("a free port");
    }
    let open = |client: &mut Stack<Port>, port| client.connect(at(port), Options::default(), START).expect("a port");
    let all: Vec<Handle> = [80, 80, 81].into_iter().map(|port| open(&mut client, port)).collect();
    let mut round = |client: &mut Stack<Port>| {
        exchange(client, &mut stack, START);
        let mut served = Vec::new();
        server.serve(
            &mut stack,
            START,
            |closes| (*closes, 0),
            |stack, handle, (closes, count)| {
                *count += stack.tcp.read(handle, &mut [0; 64]);
                served.push(*count);
                !(*closes && *count > 0 || stack.tcp.block(handle).is_none_or(Block::is_at_end))
            },
        );
        stack.flush(START);
        exchange(client, &mut stack, START);
        served
    };
    assert_eq!((round(&mut client), round(&mut client)), (vec![0, 0, 0, 0, 0, 0], vec![]));
    let say = |client: &mut Stack<Port>, handle| {
        let extent = client.link_mut().memory.store(b"word");
        assert!(client.tcp.send(handle, extent));
        client.flush(START);
    };
    say(&mut client, all[1]);
    assert_eq!((round(&mut client), round(&mut client)), (vec![4], vec![]));
    say(&mut client, all[1]);
    say(&mut client, all[2]);
    assert_eq!((round(&mut client), round(&mut client)), (vec![8, 4], vec![]));
    assert!(client.tcp.block(all[2]).is_some_and(Block::is_at_end));
    assert!(!client.tcp.block(all[1]).is_some_and(Block::is_at_end));
}

/// A router between the two carries no more than 1,300 bytes and says so.
#[test]
fn a_narrow_path_is_discovered() {
    for (ours, theirs) in pairs() {
        let mut stacks = both(1500);
        let mut dropped = 0;
        let bytes = text(4, 200_000);
        transfer(&mut stacks, theirs, &bytes, |stacks, now| {
            let frames = take(&mut stacks[0]);
            for frame in frames {
                if frame.len() <= 14 + 1_300 {
                    stacks[1].link_mut().received.push_back(frame);
                    continue;
                }
                dropped += 1;
                let report = too_big(&frame, ours, theirs);
                stacks[0].link_mut().received.push_back(report);
            }
            let back = take(&mut stacks[1]);
            stacks[0].link_mut().received.extend(back);
            let _ = now;
        });
        assert!((1..=20).contains(&dropped), "{dropped} packets were too large");
    }
}

/// What a router says about a frame that is too large.
fn too_big(frame: &[u8], ours: IpAddr, theirs: IpAddr) -> Vec<u8> {
    let (source, destination) = (mapped(theirs), mapped(ours));
    let quote = &frame[14..14 + 500];
    let (protocol, kind, code) = if ours.is_ipv4() { (1, 3, 4) } else { (58, 2, 0) };
    let mut rest = vec![0, 0, 5, 20];
    rest.extend_from_slice(quote);
    let body = icmp::emit(source, destination, protocol, kind, code, &rest);
    ethernet(&Datagram { source, destination, protocol, hop_limit: 64, body: &body })
}

/// A frame for the first stack.
fn ethernet(datagram: &Datagram<'_>) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let version_4 = datagram.destination.to_ipv4_mapped().is_some();
    frame.extend_from_slice(if version_4 { &[8, 0] } else { &[0x86, 0xdd] });
    match version_4 {
        true => ip4::emit_header(datagram, datagram.body.len(), None, &mut frame).expect("mapped addresses"),
        false => ip6::emit_header(datagram, datagram.body.len(), None, &mut frame),
    }
    frame.extend_from_slice(datagram.body);
    frame
}

/// RFC 5927: an error that quotes nothing on its way changes nothing.
#[test]
fn fault_78_forged_errors_change_nothing() {
    let mut stacks = both(1500);
    let connection = {
        let [first, second] = &mut stacks;
        listen(second, 80);
        let handle = first.connect(Endpoint::new([10, 0, 0, 2], 80), Options::default(), START).expect("a port");
        exchange(first, second, START);
        handle
    };
    let pair = *stacks[0].tcp.block(connection).expect("it is there").pair();
    for (protocol, kind, code) in [(1, 3, 4), (1, 3, 3), (1, 3, 1), (1, 11, 0)] {
        for sequence in [0_u32, 1, 1 << 31, u32::MAX] {
            let mut quote = Vec::new();
            let (source, destination) = (pair.local.address, pair.remote.address);
            let quoted = Datagram { source, destination, protocol: 6, hop_limit: 1, body: &[] };
            ip4::emit_header(&quoted, 8, None, &mut quote).expect("mapped addresses");
            quote.extend_from_slice(&pair.local.port.to_be_bytes());
            quote.extend_from_slice(&pair.remote.port.to_be_bytes());
            quote.extend_from_slice(&sequence.to_be_bytes());
            let rest = [vec![0, 0, 2, 0], quote].concat();
            let body = icmp::emit(destination, source, protocol, kind, code, &rest);
            let frame =
                ethernet(&Datagram { source: destination, destination: source, protocol, hop_limit: 64, body: &body });
            stacks[0].link_mut().received.push_back(frame);
        }
    }
    stacks[0].poll(START);
    let block = stacks[0].tcp.block(connection).expect("it is there");
    assert_eq!(block.error(), None);
    let extent = stacks[0].link_mut().memory.store(&[1; 1_400]);
    stacks[0].tcp.send(connection, extent);
    stacks[0].flush(START);
    assert_eq!(take(&mut stacks[0]).iter().map(Vec::len).max(), Some(14 + 20 + 32 + 1_400));
}

/// The DHCP message in a frame, if one is there.
fn dhcp_message(frame: &[u8]) -> Option<Vec<u8>> {
    let packet = ip4::parse(frame.get(14..)?)?;
    let (pair, payload) = udp::parse(&packet)?;
    (pair.local.port == dhcp::SERVER_PORT).then(|| payload.to_vec())
}

fn dhcp_answer(message: &[u8]) -> Vec<u8> {
    let packet = DhcpPacket::new_checked(message).expect("a message");
    let mut repr = DhcpRepr::parse(&packet).expect("a message");
    let is_discover = repr.message_type == DhcpMessageType::Discover;
    repr.message_type = if is_discover { DhcpMessageType::Offer } else { DhcpMessageType::Ack };
    repr.your_ip = Ipv4Addr::new(10, 0, 2, 15);
    repr.subnet_mask = Some(Ipv4Addr::new(255, 255, 255, 0));
    repr.router = Some(Ipv4Addr::new(10, 0, 2, 2));
    repr.server_identifier = Some(Ipv4Addr::new(10, 0, 2, 2));
    repr.lease_duration = Some(600);
    repr.parameter_request_list = None;
    let mut payload = vec![0; repr.buffer_len()];
    repr.emit(&mut DhcpPacket::new_unchecked(&mut payload)).expect("it fits");
    let pair = Pair {
        local: Endpoint::new([10, 0, 2, 2], dhcp::SERVER_PORT),
        remote: Endpoint::new([10, 0, 2, 15], dhcp::CLIENT_PORT),
    };
    let body = udp::emit(&pair, &payload).expect("it fits");
    let (source, destination) = (pair.local.address, pair.remote.address);
    ethernet(&Datagram { source, destination, protocol: 17, hop_limit: 64, body: &body })
}

#[test]
fn dhcp_configures_the_interface_and_takes_it_back() {
    let mut stack = Stack::new(Port::new(1, 1500), [1, 2], START);
    stack.start_dhcp(99, START);
    let mut now = START;
    for _ in 0..2 {
        stack.poll(now);
        let messages: Vec<_> = take(&mut stack).iter().filter_map(|frame| dhcp_message(frame)).collect();
        assert_eq!(messages.len(), 1);
        stack.link_mut().received.push_back(dhcp_answer(&messages[0]));
        stack.poll(now);
        now = stack.deadline().min(now.after(SECOND));
    }
    assert_eq!(stack.lease().map(|lease| lease.address), Some(Ipv4Addr::new(10, 0, 2, 15)));
    // What lies outside the prefix goes to the router: the question is for its address.
    assert!(stack.ping(mapped([8, 8, 8, 8].into()), 1, 1, now));
    assert_eq!(take(&mut stack).last().map(|frame| frame[38..42].to_vec()), Some(vec![10, 0, 2, 2]));
    // A server that is silent takes the address back with the end of the lease.
    while stack.deadline() <= START.after(700 * SECOND) && stack.lease().is_some() {
        now = stack.deadline().max(now.after(MILLISECOND));
        stack.poll(now);
        take(&mut stack);
    }
    assert!(stack.addresses().is_empty() && now >= START.after(600 * SECOND));
}

#[test]
fn router_advertisements_configure_the_interface() {
    let mut stack = Stack::new(Port::new(1, 1500), [1, 2], START);
    stack.start_slaac(START);
    stack.poll(START);
    stack.poll(START.after(SECOND));
    let link_local = stack.addresses()[0].address;
    assert_eq!(link_local.segments()[0], 0xfe80);
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let advertisement = Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: smoltcp::time::Duration::from_secs(1_800),
        reachable_time: smoltcp::time::Duration::ZERO,
        retrans_time: smoltcp::time::Duration::ZERO,
        lladdr: Some(smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 2]).into()),
        mtu: None,
        prefix_info: Some(NdiscPrefixInformation {
            prefix_len: 64,
            flags: NdiscPrefixInfoFlags::ON_LINK | NdiscPrefixInfoFlags::ADDRCONF,
            valid_lifetime: smoltcp::time::Duration::from_secs(10_000),
            preferred_lifetime: smoltcp::time::Duration::from_secs(10_000),
            prefix: Ipv6Addr::new(0xfd00, 5, 0, 0, 0, 0, 0, 0),
        }),
    });
    let mut body = vec![0; advertisement.buffer_len()];
    let mut packet = Icmpv6Packet::new_unchecked(&mut body);
    advertisement.emit(&router, &link_local, &mut packet, &ChecksumCapabilities::default());
    for hop_limit in [64, 255] {
        let datagram = Datagram { source: router, destination: link_local, protocol: 58, hop_limit, body: &body };
        stack.link_mut().received.push_back(ethernet(&datagram));
        stack.poll(START.after(2 * SECOND));
        stack.poll(START.after(3 * SECOND));
        // With a hop limit below 255 it came from afar and is forged.
        assert_eq!(stack.addresses().len(), if hop_limit == 255 { 2 } else { 1 });
    }
    take(&mut stack);
    assert!(stack.ping(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 1, 1, START.after(3 * SECOND)));
    let frames = take(&mut stack);
    assert_eq!(frames.last().map(|frame| (frame[5], frame[22..24].to_vec())), Some((2, vec![0xfd, 0])));
}

#[test]
fn an_owner_with_sockets_of_its_own_gets_datagrams_messages_and_errors() {
    for (ours, theirs) in pairs() {
        let [mut first, mut second] = both(1500);
        second.hand_up();
        first.hand_up();
        let (here, there) = (Endpoint::new(ours, 9), Endpoint::new(theirs, 53));
        assert!(first.send_datagram(here, there, 7, b"question", START));
        exchange(&mut first, &mut second, START);
        let came = second.take_datagram().expect("it came");
        assert_eq!(
            (came.pair, came.hop_limit, &came.bytes[..]),
            (Pair { local: there, remote: here }, 7, &b"question"[..])
        );
        assert_eq!(second.take_datagram(), None);
        // No socket has it: the sender learns which datagram that was.
        second.refuse_datagram(&came, START);
        exchange(&mut first, &mut second, START);
        assert_eq!(first.take_report(), Some((Pair { local: here, remote: there }, icmp::Reason::Refused)));
        let unreachable = if ours.is_ipv4() { 3 } else { 1 };
        assert!(std::iter::from_fn(|| first.take_message()).any(|message| message.bytes[0] == unreachable));
        let nowhere = Endpoint::new([192, 0, 2, 1], 53);
        assert!(!first.send_datagram(here, nowhere, 7, b"lost", START), "a datagram without a route");
    }
}

#[test]
fn what_an_owner_does_not_take_has_a_bound() {
    let [mut first, mut second] = both(1500);
    second.hand_up();
    let (here, there) = (Endpoint::new([10, 0, 0, 1], 9), Endpoint::new([10, 0, 0, 2], 53));
    for _ in 0..2_000 {
        first.send_datagram(here, there, 64, &[7; 1_000], START);
        exchange(&mut first, &mut second, START);
    }
    let taken = std::iter::from_fn(|| second.take_datagram()).count();
    assert!((400..600).contains(&taken), "{taken} datagrams waited");
}

#[test]
fn changed_connections_are_reported_once_until_they_are_taken() {
    let [mut first, mut second] = both(1500);
    let listener = listen(&mut second, 80);
    first.tcp.record_changes();
    let handle = first.connect(Endpoint::new([10, 0, 0, 2], 80), Options::default(), START).expect("a port");
    assert_eq!((first.tcp.take_change(), first.tcp.take_change()), (Some(handle), None));
    exchange(&mut first, &mut second, START);
    assert_eq!((first.tcp.take_change(), first.tcp.take_change()), (Some(handle), None));
    let server = second.tcp.accept(listener).expect("it is complete");
    second.tcp.abort(server, &mut second.departure);
    exchange(&mut first, &mut second, START);
    assert_eq!(first.tcp.take_change(), Some(handle));
    first.close(handle, START);
    assert_eq!((first.tcp.take_change(), first.tcp.take_change()), (Some(handle), None), "the end");
    assert!(first.tcp.block(handle).is_none());
}

#[test]
fn a_port_in_time_wait_connects_again_to_the_same_end() {
    let [mut first, mut second] = both(1500);
    let listener = listen(&mut second, 80);
    let (here, there) = (Endpoint::new([10, 0, 0, 1], 40_000), Endpoint::new([10, 0, 0, 2], 80));
    let mut now = START;
    for turn in 0..3 {
        let opened = first.tcp.connect(here, there, Options::default(), now, &first.departure);
        let client = opened.unwrap_or_else(|error| panic!("turn {turn}: {error:?}"));
        exchange(&mut first, &mut second, now);
        let server = second.tcp.accept(listener).unwrap_or_else(|| panic!("turn {turn}: nothing came"));
        first.close(client, now);
        exchange(&mut first, &mut second, now);
        second.close(server, now);
        exchange(&mut first, &mut second, now);
        assert_eq!(first.tcp.census(), [0, 0, 1], "turn {turn}");
        now = now.after(10 * MILLISECOND);
    }
}
