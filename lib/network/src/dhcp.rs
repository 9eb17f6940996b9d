//! DHCP client (RFC 2131) as a pure state machine: it yields messages to broadcast and takes those that come.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::wire::{DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress};

use crate::time::{SECOND, Time};

pub use smoltcp::wire::{DHCP_CLIENT_PORT as CLIENT_PORT, DHCP_SERVER_PORT as SERVER_PORT};

/// The first answer is waited for so long; doubled up to the limit.
const FIRST_WAIT: u64 = 2 * SECOND;
const WAIT_LIMIT: u64 = 64 * SECOND;
/// Requests for an offer before the client starts over.
const REQUESTS: u8 = 4;
/// No shorter lease is believed.
const LEAST_LEASE: u64 = 60;
/// Subnet mask, router, name servers, lease times.
const WANTED: [u8; 6] = [1, 3, 6, 51, 58, 59];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub address: Ipv4Addr,
    pub prefix_length: u8,
    pub router: Option<Ipv4Addr>,
    pub name_servers: Vec<Ipv4Addr>,
    pub server: Ipv4Addr,
}

/// What the client's owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Configured(Lease),
    /// The lease ended: the address must not be used any more.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Selecting,
    Requesting(Lease),
    Bound { lease: Lease, renew: Time, rebind: Time, end: Time },
}

#[derive(Debug)]
pub struct Client {
    hardware: EthernetAddress,
    transaction: u32,
    state: State,
    started: Time,
    next: Time,
    wait: u64,
    requests: u8,
}

impl Client {
    /// `transaction` is random. The first message is due at once.
    pub fn new(hardware: EthernetAddress, transaction: u32, now: Time) -> Self {
        let state = State::Selecting;
        Self { hardware, transaction, state, started: now, next: now, wait: FIRST_WAIT, requests: 0 }
    }

    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// When [`Client::poll`] has something to do.
    pub fn deadline(&self) -> Time {
        match &self.state {
            State::Bound { end, .. } => self.next.min(*end),
            _ => self.next,
        }
    }

    fn restart(&mut self, now: Time) {
        self.transaction = self.transaction.wrapping_mul(0x9e37_79b1).wrapping_add(1);
        (self.state, self.started, self.next) = (State::Selecting, now, now);
        (self.wait, self.requests) = (FIRST_WAIT, 0);
    }

    /// Runs what is due: a message for the server, the end of the lease, or both one after the other.
    pub fn poll(&mut self, now: Time) -> (Option<Vec<u8>>, Option<Event>) {
        let mut event = None;
        if matches!(self.state, State::Bound { end, .. } if now >= end) {
            event = Some(Event::Lost);
            self.restart(now);
        }
        if now < self.next {
            return (None, event);
        }
        let message = self.message(now);
        self.schedule(now);
        (message, event)
    }

    fn schedule(&mut self, now: Time) {
        match &self.state {
            State::Bound { rebind, end, .. } => {
                // RFC 2131, 4.4.5: half of the time that is left, but no more often than once a minute.
                let goal = if now < *rebind { *rebind } else { *end };
                self.next = now.after((goal.since(now) / 2).max(60 * SECOND)).min(*end);
            }
            State::Requesting(_) if self.requests > REQUESTS => self.restart(now),
            _ => {
                self.next = now.after(self.wait);
                self.wait = (self.wait * 2).min(WAIT_LIMIT);
            }
        }
    }

    fn message(&mut self, now: Time) -> Option<Vec<u8>> {
        let unset = Ipv4Addr::UNSPECIFIED;
        let (message_type, client_ip, requested_ip, server_identifier) = match &self.state {
            State::Selecting => (DhcpMessageType::Discover, unset, None, None),
            State::Requesting(lease) => {
                self.requests += 1;
                (DhcpMessageType::Request, unset, Some(lease.address), Some(lease.server))
            }
            State::Bound { lease, .. } => (DhcpMessageType::Request, lease.address, None, None),
        };
        let repr = DhcpRepr {
            message_type,
            transaction_id: self.transaction,
            secs: u16::try_from(now.since(self.started) / SECOND).unwrap_or(u16::MAX),
            client_hardware_address: self.hardware,
            client_ip,
            your_ip: unset,
            server_ip: unset,
            router: None,
            subnet_mask: None,
            relay_agent_ip: unset,
            broadcast: client_ip.is_unspecified(),
            requested_ip,
            client_identifier: Some(self.hardware),
            server_identifier,
            parameter_request_list: Some(&WANTED),
            dns_servers: None,
            max_size: Some(1_432),
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        let mut bytes = alloc::vec![0; repr.buffer_len()];
        repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).ok()?;
        Some(bytes)
    }

    /// Takes the payload of a datagram that came to the client's port.
    pub fn input(&mut self, payload: &[u8], now: Time) -> Option<Event> {
        let packet = DhcpPacket::new_checked(payload).ok()?;
        let repr = DhcpRepr::parse(&packet).ok()?;
        if repr.transaction_id != self.transaction || repr.client_hardware_address != self.hardware {
            return None;
        }
        match (&self.state, repr.message_type) {
            (State::Selecting, DhcpMessageType::Offer) => {
                self.state = State::Requesting(lease_of(&repr)?);
                (self.next, self.wait) = (now, FIRST_WAIT);
                None
            }
            (State::Requesting(offer), DhcpMessageType::Ack) => {
                let lease = lease_of(&repr).filter(|lease| lease.server == offer.server)?;
                self.bind(lease, &repr, now)
            }
            (State::Bound { .. }, DhcpMessageType::Ack) => self.bind(lease_of(&repr)?, &repr, now),
            (State::Requesting(_), DhcpMessageType::Nak) => {
                self.restart(now);
                None
            }
            (State::Bound { .. }, DhcpMessageType::Nak) => {
                self.restart(now);
                Some(Event::Lost)
            }
            _ => None,
        }
    }

    fn bind(&mut self, lease: Lease, repr: &DhcpRepr<'_>, now: Time) -> Option<Event> {
        let length = u64::from(repr.lease_duration?).max(LEAST_LEASE);
        let rebind = repr.rebind_duration.map_or(length * 7 / 8, u64::from).min(length);
        let renew = repr.renew_duration.map_or(length / 2, u64::from).min(rebind);
        let is_news = self.lease() != Some(&lease);
        let at = |seconds: u64| now.after(seconds * SECOND);
        self.state = State::Bound { lease: lease.clone(), renew: at(renew), rebind: at(rebind), end: at(length) };
        (self.next, self.wait, self.requests) = (at(renew), FIRST_WAIT, 0);
        is_news.then_some(Event::Configured(lease))
    }
}

/// What a server offers or grants; `None` when it makes no sense.
fn lease_of(repr: &DhcpRepr<'_>) -> Option<Lease> {
    let address = repr.your_ip;
    let mask = repr.subnet_mask?.to_bits();
    let is_mask = mask.leading_ones() + mask.trailing_zeros() == 32 || mask == u32::MAX;
    if address.is_unspecified() || address.is_broadcast() || address.is_multicast() || !is_mask {
        return None;
    }
    Some(Lease {
        address,
        prefix_length: mask.leading_ones() as u8,
        router: repr.router,
        name_servers: repr.dns_servers.iter().flatten().copied().collect(),
        server: repr.server_identifier?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARDWARE: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * SECOND)
    }

    /// A server's answer to the client's message, with changes.
    fn answer(message: &[u8], kind: DhcpMessageType, change: impl FnOnce(&mut DhcpRepr<'_>)) -> Vec<u8> {
        let packet = DhcpPacket::new_checked(message).expect("a message");
        let mut repr = DhcpRepr::parse(&packet).expect("a message");
        repr.message_type = kind;
        repr.your_ip = Ipv4Addr::new(10, 0, 2, 15);
        repr.subnet_mask = Some(Ipv4Addr::new(255, 255, 255, 0));
        repr.router = Some(Ipv4Addr::new(10, 0, 2, 2));
        repr.server_identifier = Some(Ipv4Addr::new(10, 0, 2, 2));
        repr.lease_duration = Some(1_000);
        repr.parameter_request_list = None;
        change(&mut repr);
        let mut bytes = alloc::vec![0; repr.buffer_len()];
        repr.emit(&mut DhcpPacket::new_unchecked(&mut bytes)).expect("it fits");
        bytes
    }

    fn kind(message: &[u8]) -> DhcpMessageType {
        DhcpRepr::parse(&DhcpPacket::new_checked(message).expect("a message")).expect("a message").message_type
    }

    fn bound() -> Client {
        let mut client = Client::new(HARDWARE, 77, at(0));
        let discover = client.poll(at(0)).0.expect("it is due");
        assert_eq!(client.input(&answer(&discover, DhcpMessageType::Offer, |_| ()), at(1)), None);
        let request = client.poll(at(1)).0.expect("it is due");
        assert_eq!([kind(&discover), kind(&request)], [DhcpMessageType::Discover, DhcpMessageType::Request]);
        let event = client.input(&answer(&request, DhcpMessageType::Ack, |_| ()), at(2));
        let Some(Event::Configured(lease)) = event else { panic!("{event:?}") };
        assert_eq!((lease.address, lease.prefix_length), (Ipv4Addr::new(10, 0, 2, 15), 24));
        client
    }

    #[test]
    fn a_lease_is_got_renewed_and_lost() {
        let mut client = bound();
        assert_eq!(client.deadline(), at(502));
        let request = client.poll(at(502)).0.expect("it is due");
        assert_eq!(client.input(&answer(&request, DhcpMessageType::Ack, |_| ()), at(503)), None);
        assert_eq!(client.deadline(), at(1_003));
        let mut now = at(1_003);
        let mut requests = 0;
        let lost = loop {
            let (message, event) = client.poll(now);
            requests += u32::from(message.is_some());
            if event.is_some() {
                break event;
            }
            now = client.deadline();
        };
        assert_eq!((lost, now), (Some(Event::Lost), at(1_503)));
        assert!((3..10).contains(&requests), "{requests}");
    }

    #[test]
    fn silence_is_met_with_longer_waits() {
        let mut client = Client::new(HARDWARE, 77, at(0));
        let mut times = Vec::new();
        for _ in 0..8 {
            times.push(client.deadline().micros() / SECOND);
            assert!(client.poll(client.deadline()).0.is_some());
        }
        assert_eq!(times, [0, 2, 6, 14, 30, 62, 126, 190]);
    }

    #[test]
    fn offers_that_make_no_sense_are_ignored() {
        let mut client = Client::new(HARDWARE, 77, at(0));
        let discover = client.poll(at(0)).0.expect("it is due");
        let changes: [fn(&mut DhcpRepr<'_>); 6] = [
            |repr| repr.transaction_id = 78,
            |repr| repr.client_hardware_address = EthernetAddress([2, 0, 0, 0, 0, 2]),
            |repr| repr.your_ip = Ipv4Addr::BROADCAST,
            |repr| repr.subnet_mask = Some(Ipv4Addr::new(255, 0, 255, 0)),
            |repr| repr.server_identifier = None,
            |repr| repr.subnet_mask = None,
        ];
        for change in changes {
            client.input(&answer(&discover, DhcpMessageType::Offer, change), at(1));
            assert_eq!(client.state, State::Selecting);
        }
    }

    #[test]
    fn a_refusal_starts_over() {
        let mut client = bound();
        let request = client.poll(at(502)).0.expect("it is due");
        assert_eq!(client.input(&answer(&request, DhcpMessageType::Nak, |_| ()), at(503)), Some(Event::Lost));
        assert_eq!((client.lease(), client.deadline()), (None, at(503)));
    }
}
