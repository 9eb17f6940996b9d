//! Neighbours: link addresses by ARP (IPv4) and neighbour discovery (IPv6), and the packets that wait for one.
//!
//! Invariants:
//! - At most [`LIMIT`] entries. The one that was used longest ago yields its place.
//! - At most [`WAITING`] packets wait for one neighbour.
//! - A stranger's word makes no entry: only an answer to a question of ours, or a question to us, does.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use smoltcp::wire::EthernetAddress;

use crate::time::{SECOND, Time};

pub const LIMIT: usize = 512;
const WAITING: usize = 4;
/// A question is repeated after this time, so often.
const QUESTION: u64 = SECOND;
const QUESTIONS: u8 = 3;
/// An address is asked for again when it was confirmed longer ago than this.
const FRESH: u64 = 60 * SECOND;

#[derive(Debug)]
struct Entry {
    hardware: Option<EthernetAddress>,
    confirmed: Time,
    used: Time,
    asked: Time,
    questions: u8,
    /// IP packets.
    waiting: Vec<Vec<u8>>,
}

/// What to do with a packet for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Send it there; `ask` whether the address still holds.
    Known { hardware: EthernetAddress, ask: bool },
    /// Keep it with [`Neighbors::wait`]; `ask` for the address.
    Unknown { ask: bool },
}

#[derive(Debug, Default)]
pub struct Neighbors {
    entries: BTreeMap<Ipv6Addr, Entry>,
    /// Packets for neighbours that did not answer, until [`Neighbors::take_undelivered`].
    undelivered: Vec<Vec<u8>>,
}

impl Neighbors {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Ipv6Addr, EthernetAddress)> {
        self.entries.iter().filter_map(|(address, entry)| entry.hardware.map(|hardware| (*address, hardware)))
    }

    fn entry(&mut self, address: Ipv6Addr, now: Time) -> &mut Entry {
        if self.entries.len() >= LIMIT && !self.entries.contains_key(&address) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(address, _)| *address);
            oldest.map(|address| self.entries.remove(&address));
        }
        self.entries.entry(address).or_insert(Entry {
            hardware: None,
            confirmed: now,
            used: now,
            asked: Time::NEVER,
            questions: 0,
            waiting: Vec::new(),
        })
    }

    pub fn resolve(&mut self, address: Ipv6Addr, now: Time) -> Resolution {
        let entry = self.entry(address, now);
        entry.used = now;
        let may_ask = entry.asked.is_never() || now.since(entry.asked) >= QUESTION;
        let is_old = now.since(entry.confirmed) >= FRESH;
        let ask = may_ask && (entry.hardware.is_none() || is_old);
        if ask {
            entry.asked = now;
            entry.questions = entry.questions.saturating_add(1);
        }
        match entry.hardware {
            // A neighbour that no longer answers is forgotten.
            Some(_) if entry.questions > QUESTIONS => {
                (entry.hardware, entry.questions) = (None, 1);
                Resolution::Unknown { ask: true }
            }
            Some(hardware) => Resolution::Known { hardware, ask },
            None => Resolution::Unknown { ask },
        }
    }

    /// Keeps a packet until its neighbour answers. The oldest one yields.
    pub fn wait(&mut self, address: Ipv6Addr, packet: Vec<u8>) {
        if let Some(entry) = self.entries.get_mut(&address) {
            if entry.waiting.len() >= WAITING {
                entry.waiting.remove(0);
            }
            entry.waiting.push(packet);
        }
    }

    /// A neighbour said where it is. `may_insert`: it asked us or answered us. Returns the packets that waited.
    pub fn learn(&mut self, address: Ipv6Addr, hardware: EthernetAddress, may_insert: bool, now: Time) -> Vec<Vec<u8>> {
        if !hardware.is_unicast() || !may_insert && !self.entries.contains_key(&address) {
            return Vec::new();
        }
        let entry = self.entry(address, now);
        entry.hardware = Some(hardware);
        (entry.confirmed, entry.asked, entry.questions) = (now, Time::NEVER, 0);
        core::mem::take(&mut entry.waiting)
    }

    /// Neighbours that packets wait for and that have to be asked again. Those that never answer are removed.
    pub fn repeat(&mut self, now: Time) -> Vec<Ipv6Addr> {
        let undelivered = &mut self.undelivered;
        self.entries.retain(|_, entry| {
            let is_silent = entry.questions >= QUESTIONS && now.since(entry.asked) >= QUESTION;
            let stays = entry.hardware.is_some() || !is_silent;
            if !stays {
                undelivered.append(&mut entry.waiting);
            }
            stays
        });
        let mut again = Vec::new();
        for (address, entry) in &mut self.entries {
            let waits = entry.hardware.is_none() && !entry.waiting.is_empty();
            if waits && now.since(entry.asked) >= QUESTION {
                entry.asked = now;
                entry.questions += 1;
                again.push(*address);
            }
        }
        again
    }

    /// IP packets that waited for neighbours that did not answer.
    pub fn take_undelivered(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.undelivered)
    }

    pub fn deadline(&self) -> Time {
        let asked = self.entries.values().filter(|entry| entry.hardware.is_none() && !entry.asked.is_never());
        asked.map(|entry| entry.asked.after(QUESTION)).min().unwrap_or(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARDWARE: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);

    fn address(number: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from(number))
    }

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * SECOND)
    }

    #[test]
    fn packets_wait_for_the_answer() {
        let mut neighbors = Neighbors::default();
        assert_eq!(neighbors.resolve(address(1), at(0)), Resolution::Unknown { ask: true });
        for packet in 0..10 {
            neighbors.wait(address(1), alloc::vec![packet]);
            assert_eq!(neighbors.resolve(address(1), at(0)), Resolution::Unknown { ask: false });
        }
        assert_eq!(neighbors.learn(address(1), HARDWARE, false, at(0)), [[6], [7], [8], [9]]);
        assert_eq!(neighbors.resolve(address(1), at(1)), Resolution::Known { hardware: HARDWARE, ask: false });
    }

    #[test]
    fn silent_neighbours_are_forgotten() {
        let mut neighbors = Neighbors::default();
        neighbors.resolve(address(1), at(0));
        neighbors.wait(address(1), alloc::vec![1]);
        assert_eq!((neighbors.deadline(), neighbors.repeat(at(1))), (at(1), alloc::vec![address(1)]));
        assert_eq!(neighbors.repeat(at(2)), [address(1)]);
        assert!(neighbors.take_undelivered().is_empty());
        assert!(neighbors.repeat(at(3)).is_empty());
        assert_eq!(neighbors.take_undelivered(), [[1]]);
        assert!(neighbors.is_empty() && neighbors.deadline().is_never());
    }

    #[test]
    fn strangers_make_no_entry_and_the_table_is_bounded() {
        let mut neighbors = Neighbors::default();
        neighbors.learn(address(1), HARDWARE, false, at(0));
        neighbors.learn(address(1), EthernetAddress::BROADCAST, true, at(0));
        assert!(neighbors.is_empty());
        for number in 0..2_000 {
            neighbors.learn(address(number), HARDWARE, true, at(u64::from(number)));
            assert!(neighbors.len() <= LIMIT);
        }
    }

    #[test]
    fn old_addresses_are_confirmed_while_they_are_used() {
        let mut neighbors = Neighbors::default();
        neighbors.learn(address(1), HARDWARE, true, at(0));
        let known = |ask| Resolution::Known { hardware: HARDWARE, ask };
        assert_eq!(neighbors.resolve(address(1), at(59)), known(false));
        assert_eq!(
            [60, 60, 61, 62].map(|second| neighbors.resolve(address(1), at(second))),
            [true, false, true, true].map(known)
        );
        assert_eq!(neighbors.resolve(address(1), at(63)), Resolution::Unknown { ask: true });
    }
}
