//! The wire as a whole, with a virtual clock. A machine leases an address from the peer, asks for a name, and talks to
//! its services while frames are lost, doubled, mixed and damaged.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::Path;

use network::address::{Endpoint, mapped};
use network::slab::Handle;
use network::stack::Stack;
use network::tcp::block::Options;
use network::time::{SECOND, Time};
use sha2::{Digest, Sha256};

use chitin::developer::wire::{chance, span};

use super::faults::Faults;
use super::peer::jack::Jack;
use super::peer::service::hexadecimal;
use super::peer::{IP, IP6, Peer};
use super::switch::Switch;

const PEER: u64 = 0;
const MACHINE: u64 = 1;
/// The longest that a test may take on the virtual clock.
const LIMIT: u64 = 900 * SECOND;

struct World {
    switch: Switch,
    peer: Peer,
    machine: Stack<Jack>,
    now: Time,
}

impl World {
    fn new(faults: Faults, seed: u64) -> Self {
        let now = Time::from_micros(SECOND);
        let mut switch = Switch::new(faults, seed);
        switch.join(PEER);
        switch.join(MACHINE);
        let mut machine = Stack::new(Jack::new([2, 0, 0, 0, 0, 7]), [seed, 3], now);
        machine.start_dhcp(seed as u32, now);
        Self { switch, peer: Peer::new([seed, 4], now), machine, now }
    }

    /// Runs until something is there.
    fn until<T>(&mut self, mut found: impl FnMut(&mut Stack<Jack>, Time) -> Option<T>) -> T {
        loop {
            self.exchange();
            if let Some(found) = found(&mut self.machine, self.now) {
                return found;
            }
            if self.exchange() {
                continue;
            }
            let next = self.switch.next_arrival().min(self.peer.deadline()).min(self.machine.deadline());
            assert!(next < Time::from_micros(LIMIT), "nothing happens any more at {:?}", self.now);
            self.now = self.now.max(next);
        }
    }

    /// Carries all that goes out now; whether there was anything.
    fn exchange(&mut self) -> bool {
        let mut is_busy = false;
        loop {
            while let Some((to, frame)) = self.switch.take(self.now) {
                match to {
                    PEER => self.peer.receive(frame),
                    _ => self.machine.link_mut().received.push_back(frame),
                }
            }
            self.peer.poll(self.now);
            self.machine.poll(self.now);
            let from_peer: Vec<_> = std::iter::from_fn(|| self.peer.take()).collect();
            let from_machine: Vec<_> = self.machine.link_mut().sent.drain(..).collect();
            if from_peer.is_empty() && from_machine.is_empty() && self.switch.next_arrival() > self.now {
                return is_busy;
            }
            is_busy = true;
            for (port, frames) in [(PEER, from_peer), (MACHINE, from_machine)] {
                for frame in frames {
                    self.switch.receive(port, &frame, self.now);
                }
            }
        }
    }

    fn lease(&mut self) -> Ipv4Addr {
        self.until(|machine, _| machine.lease().map(|lease| lease.address))
    }

    /// Sends all bytes to a service, half-closes, and reads to the end.
    fn talk(&mut self, port: u16, bytes: &[u8]) -> Vec<u8> {
        let (mut rest, mut came) = (bytes, Vec::new());
        let handle = self.machine.connect(Endpoint::new(IP, port), Options::default(), self.now).unwrap();
        self.until(|machine, now| {
            let is_at_end = step(machine, handle, &mut rest, &mut came, now);
            machine.flush(now);
            is_at_end.then_some(())
        });
        self.machine.close(handle, self.now);
        came
    }
}

fn step(machine: &mut Stack<Jack>, handle: Handle, rest: &mut &[u8], came: &mut Vec<u8>, now: Time) -> bool {
    let block = machine.tcp.block(handle).unwrap();
    assert_eq!(block.error(), None);
    if block.may_send() && block.queued() < 60_000 && !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(5_000));
        let extent = machine.link_mut().store(piece);
        machine.tcp.send(handle, extent);
        *rest = behind;
        if rest.is_empty() {
            machine.tcp.shut_down(handle, now);
        }
    }
    let mut buffer = [0; 4_096];
    loop {
        match machine.tcp.read(handle, &mut buffer) {
            0 => return machine.tcp.block(handle).unwrap().is_at_end(),
            count => came.extend_from_slice(&buffer[..count]),
        }
    }
}

fn sum(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// The services answer what they must.
fn talk_to_all(faults: Faults, seed: u64) {
    let mut world = World::new(faults, seed);
    assert_eq!(world.lease(), Ipv4Addr::new(10, 0, 2, 15));
    let bytes: Vec<u8> = (0..100_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(world.talk(9, &bytes), (sum(&bytes) + "\n").into_bytes());
    let came = world.talk(19, b"70000\n");
    assert_eq!((came.len(), &came[70_000..]), (70_065, (sum(&came[..70_000]) + "\n").as_bytes()));
    assert!(world.talk(7, &bytes) == bytes);
    assert!(world.talk(19, b"many\n").is_empty());
}

#[test]
fn a_machine_makes_an_address_of_the_router_s_prefix() {
    let mut world = World::new(Faults::default(), 5);
    world.machine.start_slaac(world.now);
    let own = |machine: &Stack<Jack>| {
        machine.addresses().iter().map(|own| own.address.segments()).find(|own| own[0] == 0xfd00)
    };
    let address = world.until(|machine, _| own(machine));
    assert_eq!(address[..4], [0xfd00, 2, 0, 0]);
    let now = world.now;
    assert!(world.machine.ping(IP6.into(), 1, 1, now));
    let (.., source) = world.until(|machine, _| machine.take_echo());
    assert_eq!(source.segments(), IP6);
}

#[test]
fn nothing_but_a_socket_that_was_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link, socket) = (folder.path().join("file"), folder.path().join("link"), folder.path().join("socket"));
    fs::write(&file, "kept").unwrap();
    let refused = |place: &Path| super::listen(place).unwrap_err().to_string();
    assert!(refused(&file).contains("a file is there already"));
    assert!(refused(folder.path()).contains("a file is there already"));
    drop(super::listen(&socket).unwrap());
    symlink(&socket, &link).unwrap();
    assert!(refused(&link).contains("a file is there already"));
    let again = super::listen(&socket).unwrap();
    assert!(refused(&socket).contains("another wire listens there"));
    drop(again);
    assert!(fs::read_link(&link).unwrap() == socket && fs::read(&file).unwrap() == b"kept");
}

#[test]
fn a_machine_is_served_over_a_quiet_wire() {
    talk_to_all(Faults::default(), 1);
}

#[test]
fn a_machine_is_served_over_wires_of_every_fault() {
    let fault = |text| chance(text).unwrap();
    let delay = span("5ms").unwrap();
    let some = Faults { delay, ..Faults::default() };
    for (seed, faults) in (2..).zip([
        Faults { loss: fault("5%"), ..some },
        Faults { duplication: fault("10%"), ..some },
        Faults { reordering: fault("10%"), ..some },
        Faults { corruption: fault("2%"), ..some },
        Faults { loss: fault("3%"), duplication: fault("5%"), reordering: fault("5%"), corruption: fault("1%"), delay },
    ]) {
        talk_to_all(faults, seed);
    }
}

#[test]
fn names_below_test_are_the_peer_s() {
    let mut world = World::new(Faults::default(), 8);
    world.lease();
    let socket = world.machine.open_udp(Endpoint { address: [0; 8].into(), port: 0 }).unwrap();
    let query = b"\x00\x01\x01\0\0\x01\0\0\0\0\0\0\x04peer\x04test\0\0\x01\0\x01";
    assert!(world.machine.send_udp(socket, Endpoint::new(IP, 53), query, world.now));
    let answer = world.until(|machine, _| machine.udp.receive(socket));
    assert_eq!(answer.source, Endpoint { address: mapped(IP.into()), port: 53 });
    assert!(answer.bytes.ends_with(&IP.octets()));
}

#[test]
fn every_machine_has_an_address_of_its_own_and_keeps_it() {
    let mut first = World::new(Faults::default(), 1);
    first.lease();
    let mut second = Stack::new(Jack::new([2, 0, 0, 0, 0, 8]), [9, 9], first.now);
    second.start_dhcp(5, first.now);
    first.machine = second;
    assert_eq!(first.lease(), Ipv4Addr::new(10, 0, 2, 16));
    let mut again = Stack::new(Jack::new([2, 0, 0, 0, 0, 7]), [9, 8], first.now);
    again.start_dhcp(6, first.now);
    first.machine = again;
    assert_eq!(first.lease(), Ipv4Addr::new(10, 0, 2, 15));
}
