//! Ethernet switch: learns on which port an address is, and carries frames with the faults of the wire.
//!
//! It has no clock and no sockets: the caller hands in frames with the time, and takes those that have arrived.
//!
//! Invariants:
//! - A frame never returns to the port that it came from.
//! - Frames under way take at most [`BYTES`]; what comes beyond is dropped.
//! - Frames of one port to another keep their order, but for those that the faults reorder.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use network::time::Time;

use super::faults::{Counters, Fate, Faults};

pub type PortNumber = u64;
pub type Address = [u8; 6];

/// Bytes of frames under way at most.
const BYTES: usize = 32 << 20;
/// Addresses that are learned at most. Frames for others go to every port.
const ADDRESSES: usize = 4_096;
/// Bytes of the shortest frame: two addresses and a kind.
const SHORTEST: usize = 14;

/// Arrival, order of sending, receiver, frame.
type Flying = (Time, u64, PortNumber, Vec<u8>);

#[derive(Debug)]
pub struct Switch {
    fate: Fate,
    ports: BTreeSet<PortNumber>,
    learned: BTreeMap<Address, PortNumber>,
    flying: BinaryHeap<Reverse<Flying>>,
    bytes: usize,
    sent: u64,
    /// The latest arrival at a port from a port.
    last: BTreeMap<(PortNumber, PortNumber), Time>,
    twins: BTreeSet<Address>,
}

impl Switch {
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self {
            fate: Fate::new(faults, seed),
            ports: BTreeSet::new(),
            learned: BTreeMap::new(),
            flying: BinaryHeap::new(),
            bytes: 0,
            sent: 0,
            last: BTreeMap::new(),
            twins: BTreeSet::new(),
        }
    }

    pub fn counters(&self) -> Counters {
        self.fate.counters
    }

    pub fn join(&mut self, port: PortNumber) {
        self.ports.insert(port);
    }

    /// Forgets a port, its addresses, and what is under way to it.
    pub fn leave(&mut self, port: PortNumber) {
        self.ports.remove(&port);
        self.learned.retain(|_, at| *at != port);
        self.last.retain(|(from, to), _| *from != port && *to != port);
        self.flying.retain(|Reverse((_, _, to, _))| *to != port);
        self.bytes = self.flying.iter().map(|Reverse((_, _, _, frame))| frame.len()).sum();
    }

    /// A frame came from a port. The answer is an address that another port has too, at the first time.
    pub fn receive(&mut self, from: PortNumber, frame: &[u8], now: Time) -> Option<Address> {
        let (to, source) = (frame.get(..6)?, frame.get(6..12)?);
        if frame.len() < SHORTEST {
            return None;
        }
        let source = Address::try_from(source).ok()?;
        let twin = self.learn(source, from).then_some(source).filter(|twin| self.twins.insert(*twin));
        let known = self.learned.get(to).copied();
        let others = self.ports.iter().copied().filter(|port| *port != from);
        let receivers: Vec<PortNumber> = match known {
            Some(port) => others.filter(|other| *other == port).collect(),
            None => others.collect(),
        };
        for port in receivers {
            self.carry(from, port, frame, now);
        }
        twin
    }

    /// Whether another port has this address.
    fn learn(&mut self, source: Address, from: PortNumber) -> bool {
        let is_group = source[0] & 1 == 1;
        if is_group || self.learned.len() >= ADDRESSES && !self.learned.contains_key(&source) {
            return false;
        }
        self.learned.insert(source, from).is_some_and(|port| port != from)
    }

    fn carry(&mut self, from: PortNumber, to: PortNumber, frame: &[u8], now: Time) {
        for copy in self.fate.draw(frame) {
            if self.bytes + copy.frame.len() > BYTES {
                continue;
            }
            let mut arrival = now.after(copy.delay);
            if !copy.is_reordered {
                let last = self.last.entry((from, to)).or_default();
                arrival = arrival.max(*last);
                *last = arrival;
            }
            self.sent += 1;
            self.bytes += copy.frame.len();
            self.flying.push(Reverse((arrival, self.sent, to, copy.frame)));
        }
    }

    /// When the next frame arrives.
    pub fn next_arrival(&self) -> Time {
        self.flying.peek().map_or(Time::NEVER, |Reverse((arrival, ..))| *arrival)
    }

    /// The next frame that has arrived, and at which port.
    pub fn take(&mut self, now: Time) -> Option<(PortNumber, Vec<u8>)> {
        if self.next_arrival() > now {
            return None;
        }
        let Reverse((_, _, to, frame)) = self.flying.pop()?;
        self.bytes -= frame.len();
        Some((to, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chitin::developer::wire::{chance, span};

    const GROUP: Address = [0xff; 6];

    fn address(last: u8) -> Address {
        [2, 0, 0, 0, 0, last]
    }

    fn frame(to: Address, from: Address, number: u8) -> Vec<u8> {
        [&to[..], &from, &[8, 0, number]].concat()
    }

    fn switch(faults: Faults) -> Switch {
        let mut switch = Switch::new(faults, 9);
        (1..=3).for_each(|port| switch.join(port));
        switch
    }

    fn arrived(switch: &mut Switch, now: Time) -> Vec<(PortNumber, u8)> {
        std::iter::from_fn(|| switch.take(now)).map(|(port, frame)| (port, frame[14])).collect()
    }

    #[test]
    fn frames_find_their_port_and_return_to_none() {
        let (mut switch, now) = (switch(Faults::default()), Time::default());
        assert_eq!(switch.receive(1, &frame(GROUP, address(1), 0), now), None);
        assert_eq!(arrived(&mut switch, now), [(2, 0), (3, 0)]);
        switch.receive(2, &frame(address(1), address(2), 1), now);
        assert_eq!(arrived(&mut switch, now), [(1, 1)]);
        switch.receive(1, &frame(address(1), address(1), 2), now);
        assert!(arrived(&mut switch, now).is_empty(), "it would return");
        switch.receive(2, &frame(address(9), address(2), 3), now);
        assert_eq!(arrived(&mut switch, now), [(1, 3), (3, 3)]);
        switch.leave(1);
        switch.receive(2, &frame(address(1), address(2), 4), now);
        assert_eq!(arrived(&mut switch, now), [(3, 4)], "a port that is gone");
        switch.receive(2, &[0; 13], now);
        assert!(arrived(&mut switch, now).is_empty(), "too short");
    }

    #[test]
    fn two_of_one_address_are_told_of_once() {
        let (mut switch, now) = (switch(Faults::default()), Time::default());
        let hello = frame(GROUP, address(1), 0);
        assert_eq!(switch.receive(1, &hello, now), None);
        assert_eq!(switch.receive(1, &hello, now), None);
        assert_eq!(switch.receive(2, &hello, now), Some(address(1)));
        assert_eq!(switch.receive(1, &hello, now), None);
    }

    #[test]
    fn order_and_time_are_kept_unless_faults_change_them() {
        let slow = Faults { delay: span("10ms").unwrap(), ..Faults::default() };
        let mut quiet = switch(slow);
        let send = |switch: &mut Switch| {
            switch.receive(2, &frame(GROUP, address(2), 0), Time::default());
            (0..100).for_each(|number| {
                switch.receive(1, &frame(address(2), address(1), number), Time::from_micros(number.into()));
            });
        };
        send(&mut quiet);
        assert_eq!(quiet.next_arrival(), Time::from_micros(10_000));
        assert!(quiet.take(Time::from_micros(9_999)).is_none());
        let all = |switch: &mut Switch| {
            let came = arrived(switch, Time::from_micros(1_000_000));
            came.into_iter().filter(|(port, _)| *port == 2).map(|(_, number)| number).collect::<Vec<_>>()
        };
        assert_eq!(all(&mut quiet), (0..100).collect::<Vec<_>>());
        let mut mixed = switch(Faults { reordering: chance("20%").unwrap(), ..slow });
        send(&mut mixed);
        let came = all(&mut mixed);
        assert!(came.len() == 100 && !came.is_sorted());
    }

    #[test]
    fn what_is_under_way_has_a_bound() {
        let mut switch = switch(Faults { delay: span("1s").unwrap(), ..Faults::default() });
        let long = [&frame(GROUP, address(1), 0)[..], &[0; 9_000]].concat();
        for _ in 0..10_000 {
            switch.receive(1, &long, Time::default());
        }
        assert!(switch.bytes <= BYTES && switch.bytes > BYTES - 2 * long.len());
        switch.leave(2);
        switch.leave(3);
        assert_eq!((switch.bytes, switch.next_arrival()), (0, Time::NEVER));
    }
}
