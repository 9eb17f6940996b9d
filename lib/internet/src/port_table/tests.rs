//! The rules of Linux for ports, case by case.

use super::*;

const LOCAL: Address = Address::v4(0x7f00_0001);

fn binding(socket: u64, address: Address, port: u16) -> Binding {
    let family = if address.to_v4().is_some() { Family::V4 } else { Family::V6 };
    Binding {
        socket,
        user: 0,
        family,
        only_v6: false,
        reuse_address: false,
        reuse_port: false,
        listens: false,
        is_accepted: false,
        local: Endpoint { address, port },
        remote: Endpoint::default(),
    }
}

fn try_both(first: Binding, second: Binding) -> Result<u16> {
    let mut table = PortTable::default();
    assert!(table.bind(Protocol::Tcp, first, 0).is_ok());
    table.bind(Protocol::Tcp, second, 0)
}

#[test]
fn one_address_and_port_is_one_sockets() {
    let (any, any6) = (Family::V4.any(), Family::V6.any());
    let taken = |one, two| try_both(binding(1, one, 80), binding(2, two, 80)) == Err(Error::InUse);
    assert!(taken(LOCAL, LOCAL) && taken(any, LOCAL) && taken(LOCAL, any) && taken(any, any));
    assert!(taken(any6, any) && taken(any, any6) && taken(any6, LOCAL) && taken(any6, Address(1)));
    assert!(!taken(LOCAL, Address::v4(0x7f00_0002)) && !taken(LOCAL, Address(1)) && !taken(any, Address(1)));
    let mut table = PortTable::default();
    assert_eq!(table.bind(Protocol::Tcp, binding(1, LOCAL, 80), 0), Ok(80));
    assert_eq!(table.bind(Protocol::Udp, binding(2, LOCAL, 80), 0), Ok(80), "of another protocol");
    table.remove(1);
    assert_eq!(table.bind(Protocol::Tcp, binding(3, LOCAL, 80), 0), Ok(80), "it was given up");
}

#[test]
fn a_socket_for_ipv6_only_leaves_ipv4_alone() {
    let only = Binding { only_v6: true, ..binding(1, Family::V6.any(), 80) };
    assert_eq!(try_both(only, binding(2, Family::V4.any(), 80)), Ok(80));
    assert_eq!(try_both(binding(2, LOCAL, 80), only), Ok(80));
    assert_eq!(try_both(only, binding(2, Address(1), 80)), Err(Error::InUse));
}

#[test]
fn an_address_can_be_taken_again_unless_somebody_listens() {
    let again = |socket| Binding { reuse_address: true, ..binding(socket, LOCAL, 80) };
    let mut table = PortTable::default();
    assert_eq!(table.bind(Protocol::Tcp, again(1), 0), Ok(80));
    assert_eq!(table.bind(Protocol::Tcp, binding(2, LOCAL, 80), 0), Err(Error::InUse), "both have to say so");
    assert_eq!(table.bind(Protocol::Tcp, again(3), 0), Ok(80));
    assert_eq!(table.listen(1), Ok(()));
    assert_eq!(table.listen(3), Err(Error::InUse));
    assert_eq!(table.bind(Protocol::Tcp, again(4), 0), Err(Error::InUse));
    assert_eq!(table.listen(99), Err(Error::Invalid), "it has no port");
}

#[test]
fn a_port_is_shared_by_sockets_of_one_user() {
    let share = |socket, user| Binding { reuse_port: true, user, ..binding(socket, LOCAL, 80) };
    let mut table = PortTable::default();
    assert_eq!(table.bind(Protocol::Tcp, share(1, 5), 0), Ok(80));
    assert_eq!(table.listen(1), Ok(()));
    assert_eq!(table.bind(Protocol::Tcp, share(2, 6), 0), Err(Error::InUse));
    assert_eq!(table.bind(Protocol::Tcp, share(3, 5), 0), Ok(80));
    assert_eq!(table.listen(3), Ok(()));
    let to = Endpoint { address: LOCAL, port: 80 };
    let found: Vec<Option<u64>> = (0..2).map(|draw| table.listener(to, Endpoint::default(), draw)).collect();
    assert_eq!(found, [Some(1), Some(3)]);
}

#[test]
fn ephemeral_ports_are_used_up() {
    let mut table = PortTable::default();
    let [first, last] = EPHEMERAL;
    let count = u64::from(last - first) + 1;
    for socket in 0..count {
        let port = table.bind(Protocol::Udp, binding(socket, LOCAL, 0), socket);
        assert!(port.is_ok_and(|port| (first..=last).contains(&port)));
    }
    assert_eq!(table.bind(Protocol::Udp, binding(count, LOCAL, 0), 5), Err(Error::InUse));
    table.remove(77);
    assert!(table.bind(Protocol::Udp, binding(count, LOCAL, 0), 5).is_ok());
}

#[test]
fn connections_to_different_places_share_ports_when_none_is_free() {
    let mut table = PortTable::default();
    let to = |socket, port| Binding { remote: Endpoint { address: LOCAL, port }, ..binding(socket, LOCAL, 0) };
    let [first, last] = EPHEMERAL;
    let count = u64::from(last - first) + 1;
    (0..count).for_each(|socket| assert!(table.bind_to_connect(Protocol::Tcp, to(socket, 80), socket).is_ok()));
    assert_eq!(table.bind_to_connect(Protocol::Tcp, to(count, 80), 0), Err(Error::NotAvailable));
    assert!(table.bind_to_connect(Protocol::Tcp, to(count, 81), 0).is_ok());
}

#[test]
fn the_socket_that_fits_best_gets_a_datagram() {
    let mut table = PortTable::default();
    let from = Endpoint { address: LOCAL, port: 9 };
    let to = Endpoint { address: LOCAL, port: 80 };
    let again = |one: Binding| Binding { reuse_address: true, ..one };
    assert_eq!(table.bind(Protocol::Udp, again(binding(1, Family::V6.any(), 80)), 0), Ok(80));
    assert_eq!(table.receiver(Protocol::Udp, to, from, 0), Some(1));
    assert_eq!(table.bind(Protocol::Udp, again(binding(2, Family::V4.any(), 80)), 0), Ok(80));
    assert_eq!(table.receiver(Protocol::Udp, to, from, 0), Some(2));
    assert_eq!(table.bind(Protocol::Udp, again(binding(3, LOCAL, 80)), 0), Ok(80));
    assert_eq!(table.receiver(Protocol::Udp, to, from, 0), Some(3));
    let connected = Binding { remote: from, ..again(binding(4, LOCAL, 80)) };
    assert_eq!(table.bind(Protocol::Udp, connected, 0), Ok(80));
    assert_eq!(table.receiver(Protocol::Udp, to, from, 0), Some(4));
    assert_eq!(table.receiver(Protocol::Udp, to, Endpoint { port: 10, ..from }, 0), Some(3));
    let v6 = Endpoint { address: Address(1), port: 80 };
    assert_eq!(table.receiver(Protocol::Udp, v6, from, 0), Some(1));
    assert_eq!(table.receiver(Protocol::Udp, Endpoint { port: 81, ..to }, from, 0), None);
}

/// A table that was changed at random finds what a plain list finds.
#[test]
fn bindings_stand_where_they_are_looked_for() {
    let mut table = PortTable::default();
    let mut model: BTreeMap<u64, u16> = BTreeMap::new();
    let mut seed = 12345u64;
    for _ in 0..20_000 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (socket, port) = (seed >> 58, 1000 + (seed >> 40) as u16 % 40);
        if seed >> 33 & 1 == 0 {
            table.remove(socket);
            model.remove(&socket);
        } else if !model.contains_key(&socket) {
            let is_free = model.values().all(|taken| *taken != port);
            assert_eq!(table.bind(Protocol::Tcp, binding(socket, LOCAL, port), 0).is_ok(), is_free);
            if is_free {
                model.insert(socket, port);
            }
        }
        let found: Vec<u16> = table.bindings(Protocol::Tcp).map(|binding| binding.local.port).collect();
        let mut expected: Vec<u16> = model.values().copied().collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

/// Connections that a listener took, against a list that is gone through.
#[test]
fn accepted_connections_are_found_as_in_a_list() {
    let mut table = PortTable::default();
    let mut list: Vec<Binding> = Vec::new();
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut connected = 0;
    for step in 0..20_000 {
        let end = |draw: &mut dyn FnMut(u64) -> u64, ports: u64| Endpoint {
            address: Address::v4(0x7f00_0001 + draw(2) as u32),
            port: 1 + draw(ports) as u16,
        };
        let (local, remote, socket) = (end(&mut draw, 2), end(&mut draw, 40), draw(60));
        match draw(4) {
            0 | 1 => {
                list.retain(|one| one.socket != socket);
                let accepted = Binding { local, remote, is_accepted: true, ..binding(socket, LOCAL, 0) };
                table.accept(Protocol::Tcp, accepted);
                list.push(accepted);
            }
            2 => {
                table.remove(socket);
                list.retain(|one| one.socket != socket);
            }
            _ => {
                table.change(socket, |one| one.remote = remote);
                list.iter_mut().filter(|one| one.socket == socket).for_each(|one| one.remote = remote);
            }
        }
        let is_there = list.iter().any(|one| (one.local, one.remote) == (local, remote));
        assert_eq!(table.is_connected(Protocol::Tcp, local, remote), is_there, "step {step}");
        connected += u32::from(is_there);
        assert_eq!(table.find(socket), list.iter().find(|one| one.socket == socket));
        assert_eq!(table.bindings(Protocol::Tcp).count(), list.len());
        let bound = binding(1000, local.address, local.port);
        let is_free = list.iter().all(|one| one.local.port != local.port || !bound.conflicts(one));
        assert_eq!(table.bind(Protocol::Tcp, bound, 0).is_ok(), is_free, "step {step}");
        table.remove(1000);
    }
    assert!(connected > 1000, "{connected}");
}
