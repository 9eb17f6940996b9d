//! Configuration of the interface by DHCP and by router advertisements.

use core::net::{Ipv4Addr, Ipv6Addr};

use smoltcp::wire::NdiscRepr;

use super::Stack;
use super::discovery::solicited_node;
use crate::address::{Endpoint, Pair};
use crate::dhcp::{self, Event, Lease};
use crate::link::Link;
use crate::packet::UDP;
use crate::route::{Prefix, Route};
use crate::slaac::{Action, Slaac};
use crate::time::Time;
use crate::udp;

const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

fn default_route() -> Prefix {
    Prefix::new(Ipv4Addr::UNSPECIFIED, 0)
}

impl<L: Link> Stack<L> {
    /// Asks for an IPv4 address. `transaction` is random.
    pub fn start_dhcp(&mut self, transaction: u32, now: Time) {
        self.dhcp = Some(dhcp::Client::new(self.departure.link.hardware_address(), transaction, now));
    }

    pub fn lease(&self) -> Option<&Lease> {
        self.dhcp.as_ref()?.lease()
    }

    /// Makes IPv6 addresses.
    pub fn start_slaac(&mut self, now: Time) {
        self.slaac = Some(Slaac::new(&self.secret, now));
    }

    pub(super) fn configure(&mut self, now: Time) {
        if let Some(client) = &mut self.dhcp {
            let (message, event) = client.poll(now);
            self.apply(event);
            if let Some(message) = message {
                self.send_dhcp(&message);
            }
        }
        while let Some(action) = self.slaac.as_mut().and_then(|slaac| slaac.poll(now)) {
            self.act(action);
        }
    }

    /// Takes a datagram that may be for the DHCP client; false when it is not.
    pub(super) fn receive_dhcp(&mut self, pair: &Pair, payload: &[u8], now: Time) -> bool {
        let is_for_client = pair.local.port == dhcp::CLIENT_PORT && pair.remote.port == dhcp::SERVER_PORT;
        let Some(client) = self.dhcp.as_mut().filter(|_| is_for_client) else { return false };
        let event = client.input(payload, now);
        self.apply(event);
        true
    }

    fn apply(&mut self, event: Option<Event>) {
        let Some(event) = event else { return };
        let own = |prefix: &&Prefix| prefix.address.to_ipv4_mapped().is_some();
        let old = self.departure.addresses.iter().find(own).map(|prefix| prefix.address);
        if let Some(old) = old {
            self.departure.remove_address(old);
        }
        self.departure.routes.remove(&default_route());
        if let Event::Configured(lease) = event {
            self.departure.add_address(Prefix::new(lease.address, lease.prefix_length));
            if let Some(router) = lease.router {
                let gateway = Some(router.to_ipv6_mapped());
                self.departure.routes.add(Route { prefix: default_route(), gateway });
            }
        }
    }

    fn send_dhcp(&mut self, message: &[u8]) {
        let source = self.lease().map_or(Ipv4Addr::UNSPECIFIED, |lease| lease.address);
        let pair = Pair {
            local: Endpoint::new(source, dhcp::CLIENT_PORT),
            remote: Endpoint::new(Ipv4Addr::BROADCAST, dhcp::SERVER_PORT),
        };
        if let Some(bytes) = udp::emit(&pair, message) {
            self.send(pair.local.address, pair.remote.address, UDP, &bytes);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Assign(address) => self.departure.add_address(Prefix::new(address, 64)),
            Action::Remove(address) => self.departure.remove_address(address),
            Action::Detect(target_addr) => {
                let question = NdiscRepr::NeighborSolicit { target_addr, lladdr: None };
                let group = solicited_node(target_addr);
                self.departure.send_discovery(Ipv6Addr::UNSPECIFIED, group, &question);
            }
            Action::SolicitRouter => {
                let source = self.departure.source_for(ALL_ROUTERS).unwrap_or(Ipv6Addr::UNSPECIFIED);
                let hardware = self.departure.link.hardware_address().into();
                let lladdr = (!source.is_unspecified()).then_some(hardware);
                self.departure.send_discovery(source, ALL_ROUTERS, &NdiscRepr::RouterSolicit { lladdr });
            }
        }
    }
}
