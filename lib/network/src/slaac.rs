//! Stateless address configuration of IPv6 (RFC 4862): link-local address, router solicitation, prefixes, and the check
//! that no neighbour has an address already.
//!
//! Interface identifiers are keyed hashes of the prefix (RFC 7217). They are stable and reveal nothing about the
//! hardware.
//!
//! Invariant: at most [`LIMIT`] addresses.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use crate::secret::Secret;
use crate::time::{SECOND, Time};

const LIMIT: usize = 8;
/// An address is taken when no neighbour has defended it for so long.
const DETECTION: u64 = SECOND;
const SOLICITATION: u64 = 4 * SECOND;
const SOLICITATIONS: u8 = 3;
/// RFC 4862, 5.5.3: an advertisement cannot shorten a life to less than this, unless it is longer already.
const LIFE_FLOOR: u64 = 7_200;
const PREFIX_LENGTH: u8 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The question goes out next.
    New,
    /// No answer must come before this time.
    Tentative(Time),
    Taken,
    /// A neighbour has it.
    Duplicate,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: Ipv6Addr,
    phase: Phase,
    end: Time,
}

/// What the stack has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    SolicitRouter,
    /// Ask, from the unspecified address, whether a neighbour has this one.
    Detect(Ipv6Addr),
    Assign(Ipv6Addr),
    Remove(Ipv6Addr),
}

/// What a router advertises about one prefix; times in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Advertised {
    pub prefix: Ipv6Addr,
    pub length: u8,
    /// The prefix is for addresses that machines choose themselves.
    pub autonomous: bool,
    pub valid: u64,
}

#[derive(Debug)]
pub struct Slaac {
    entries: Vec<Entry>,
    solicit: Time,
    solicitations: u8,
}

/// The address of this machine below a prefix.
fn address_in(prefix: Ipv6Addr, secret: &Secret) -> Ipv6Addr {
    let network = prefix.to_bits() >> 64 << 64;
    Ipv6Addr::from_bits(network | u128::from(secret.interface_identifier(Ipv6Addr::from_bits(network))))
}

impl Slaac {
    pub fn new(secret: &Secret, now: Time) -> Self {
        let link_local = address_in(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), secret);
        let entry = Entry { address: link_local, phase: Phase::New, end: Time::NEVER };
        Self { entries: alloc::vec![entry], solicit: now.after(DETECTION), solicitations: 0 }
    }

    pub fn deadline(&self) -> Time {
        let next = |entry: &Entry| match entry.phase {
            Phase::New => Time::default(),
            Phase::Tentative(until) => until,
            Phase::Taken | Phase::Duplicate => entry.end,
        };
        self.entries.iter().map(next).min().unwrap_or(Time::NEVER).min(self.solicit)
    }

    /// The next thing to do; called until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Action> {
        for index in 0..self.entries.len() {
            let Entry { address, phase, end } = self.entries[index];
            if end <= now {
                self.entries.remove(index);
                return Some(Action::Remove(address));
            }
            match phase {
                Phase::New => {
                    self.entries[index].phase = Phase::Tentative(now.after(DETECTION));
                    return Some(Action::Detect(address));
                }
                Phase::Tentative(until) if until <= now => {
                    self.entries[index].phase = Phase::Taken;
                    return Some(Action::Assign(address));
                }
                _ => {}
            }
        }
        if self.solicit > now {
            return None;
        }
        self.solicitations += 1;
        self.solicit = if self.solicitations < SOLICITATIONS { now.after(SOLICITATION) } else { Time::NEVER };
        Some(Action::SolicitRouter)
    }

    /// A neighbour asks for or claims an address that is tentative here: it is not ours.
    pub fn defended(&mut self, address: Ipv6Addr) {
        for entry in self.entries.iter_mut().filter(|entry| entry.address == address) {
            if matches!(entry.phase, Phase::New | Phase::Tentative(_)) {
                entry.phase = Phase::Duplicate;
            }
        }
    }

    /// A router has answered.
    pub fn advertised(&mut self, advertised: &Advertised, secret: &Secret, now: Time) {
        self.solicit = Time::NEVER;
        let link_local = advertised.prefix.segments()[0] & 0xffc0 == 0xfe80;
        let is_usable = advertised.autonomous && advertised.length == PREFIX_LENGTH && !link_local;
        if !is_usable || advertised.prefix.is_multicast() || advertised.prefix.to_ipv4_mapped().is_some() {
            return;
        }
        let address = address_in(advertised.prefix, secret);
        let end = now.after(advertised.valid * SECOND);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.address == address) {
            let floor = now.after(LIFE_FLOOR * SECOND).min(entry.end);
            entry.end = end.max(floor);
        } else if self.entries.len() < LIMIT && advertised.valid > 0 {
            self.entries.push(Entry { address, phase: Phase::New, end });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret([5, 6]);
    const PREFIX: Ipv6Addr = Ipv6Addr::new(0xfd00, 1, 2, 3, 0, 0, 0, 0);

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * SECOND)
    }

    fn advertised(prefix: Ipv6Addr, valid: u64) -> Advertised {
        Advertised { prefix, length: 64, autonomous: true, valid }
    }

    fn actions(slaac: &mut Slaac, now: Time) -> Vec<Action> {
        core::iter::from_fn(|| slaac.poll(now)).collect()
    }

    #[test]
    fn addresses_are_asked_for_and_then_taken() {
        let mut slaac = Slaac::new(&SECRET, at(0));
        let link_local = address_in(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), &SECRET);
        assert_eq!(actions(&mut slaac, at(0)), [Action::Detect(link_local)]);
        assert_eq!(slaac.deadline(), at(1));
        assert_eq!(actions(&mut slaac, at(1)), [Action::Assign(link_local), Action::SolicitRouter]);
        slaac.advertised(&advertised(PREFIX, 10_000), &SECRET, at(2));
        let address = address_in(PREFIX, &SECRET);
        assert_eq!(actions(&mut slaac, at(2)), [Action::Detect(address)]);
        assert_eq!(actions(&mut slaac, at(3)), [Action::Assign(address)]);
        slaac.advertised(&advertised(PREFIX, 1), &SECRET, at(4));
        assert_eq!(slaac.deadline(), at(4 + LIFE_FLOOR));
        assert_eq!(actions(&mut slaac, at(4 + LIFE_FLOOR)), [Action::Remove(address)]);
    }

    #[test]
    fn an_address_that_a_neighbour_has_is_not_taken() {
        let mut slaac = Slaac::new(&SECRET, at(0));
        let link_local = slaac.entries[0].address;
        actions(&mut slaac, at(0));
        slaac.defended(link_local);
        assert_eq!(actions(&mut slaac, at(1)), [Action::SolicitRouter]);
    }

    #[test]
    fn silence_ends_the_questions_and_addresses_are_bounded() {
        let mut slaac = Slaac::new(&SECRET, at(0));
        let asked = (0..100).flat_map(|second| actions(&mut slaac, at(second)));
        assert_eq!(asked.filter(|action| *action == Action::SolicitRouter).count(), usize::from(SOLICITATIONS));
        for number in 0..1_000 {
            let prefix = Ipv6Addr::from_bits(PREFIX.to_bits() + (u128::from(number as u32) << 64));
            slaac.advertised(&advertised(prefix, 100), &SECRET, at(0));
        }
        assert_eq!(slaac.entries.len(), LIMIT);
    }
}
