//! Parsing of one primitive.

use crate::Refusal;
use crate::address::{self, prefix_mask_v4, prefix_mask_v6};
use crate::expression::{Carriers, Direction, Network, Primitive, Protocol};
use crate::name;
use crate::parse::Parser;
use crate::qualifier::{Qualifiers, ValueKind, take_direction, take_kind, take_protocol};
use crate::token::Kind;

impl Parser<'_> {
    /// Parses one primitive. `None`: qualifiers stood before an opening parenthesis,
    /// which was taken; they hold for the values inside.
    pub(crate) fn primitive(&mut self) -> Result<Option<Primitive>, Refusal> {
        if self.only_values {
            return self.bare_value().map(Some);
        }
        let position = self.cursor.position();
        let protocol = take_protocol(&mut self.cursor);
        if let Some(protocol) = protocol
            && self.cursor.take("[")
        {
            return self.field(protocol, position).map(Some);
        }
        let direction = take_direction(&mut self.cursor);
        let kind = take_kind(&mut self.cursor);
        if direction.is_none() && kind.is_none() {
            return self.without_value(protocol, position);
        }
        let direction = direction.unwrap_or(Direction::Either);
        let kind = kind.unwrap_or(ValueKind::Host);
        let qualifiers = Qualifiers { protocol, direction, kind, position };
        qualifiers.check()?;
        self.qualifiers = Some(qualifiers);
        if self.cursor.take("(") { Ok(None) } else { self.value(qualifiers).map(Some) }
    }

    /// A protocol alone, `broadcast`, `multicast`, or a value that takes the
    /// qualifiers before it.
    fn without_value(&mut self, protocol: Option<Protocol>, position: usize) -> Result<Option<Primitive>, Refusal> {
        let primitive = if self.cursor.take("multicast") {
            multicast(protocol, position)?
        } else if self.cursor.take("broadcast") {
            broadcast(protocol, position)?
        } else {
            match protocol {
                Some(Protocol::Ethernet) => {
                    let advice = "`ether` alone is every frame: write `ether host ADDRESS` or `ether proto NUMBER`";
                    return Err(Refusal::new(position, advice));
                }
                Some(protocol) => Primitive::Protocol(protocol),
                None => self.bare_value()?,
            }
        };
        Ok(Some(primitive))
    }

    fn bare_value(&mut self) -> Result<Primitive, Refusal> {
        let Kind::Word(word) = self.cursor.peek() else {
            return Err(self.cursor.unexpected("write a test, as in `tcp port 80`"));
        };
        if let Some(instead) = name::outside_the_subset(word) {
            let advice = format!("`{word}` is outside the part of the language that is translated: {instead}");
            return Err(Refusal::new(self.cursor.position(), advice));
        }
        match self.qualifiers {
            Some(qualifiers) => self.value(qualifiers),
            None => Err(self.cursor.unexpected("say what it is: write `host`, `net` or `port` before it")),
        }
    }

    /// The value after `qualifiers`.
    fn value(&mut self, qualifiers: Qualifiers) -> Result<Primitive, Refusal> {
        match qualifiers.kind {
            ValueKind::Host if qualifiers.protocol == Some(Protocol::Ethernet) => self.hardware_address(qualifiers),
            ValueKind::Host => self.host(qualifiers),
            ValueKind::Net => self.net(qualifiers),
            ValueKind::Port => self.port(qualifiers),
            ValueKind::PortRange => self.port_range(qualifiers),
            ValueKind::Proto => self.proto(qualifiers),
        }
    }

    fn hardware_address(&mut self, qualifiers: Qualifiers) -> Result<Primitive, Refusal> {
        let wanted = "write a hardware address, as in `ether host 52:54:00:12:34:56`";
        let refusal = self.cursor.unexpected(wanted);
        let address = address::hardware(self.cursor.word(wanted)?).ok_or(refusal)?;
        Ok(Primitive::EthernetHost { direction: qualifiers.direction, address })
    }

    fn host(&mut self, qualifiers: Qualifiers) -> Result<Primitive, Refusal> {
        let wanted = "write a whole address, as in `host 10.0.2.15` or `host 2001:db8::1`; names are not looked up";
        let refusal = self.cursor.unexpected(wanted);
        let word = self.cursor.word(wanted)?;
        let network = address::host(word).ok_or_else(|| match address::number(word) {
            Some(_) => {
                Refusal::new(refusal.position, format!("`{word}` is no address: write `port {word}` or `net {word}`"))
            }
            None => refusal.clone(),
        })?;
        within(qualifiers, network, refusal.position)
    }

    fn net(&mut self, qualifiers: Qualifiers) -> Result<Primitive, Refusal> {
        let wanted = "write a network, as in `net 10.0.2.0/24`, `net 10.0.2` or `net 2001:db8::/32`";
        let refusal = self.cursor.unexpected(wanted);
        let position = refusal.position;
        let written = address::network(self.cursor.word(wanted)?).ok_or(refusal)?;
        let network = if self.cursor.take("/") {
            self.prefix(written)?
        } else if self.cursor.take("mask") {
            self.mask(written)?
        } else {
            written
        };
        if has_host_bits(network) {
            let advice = "bits are set outside the network: write zeros after the prefix";
            return Err(Refusal::new(position, advice));
        }
        within(qualifiers, network, position)
    }

    fn prefix(&mut self, written: Network) -> Result<Network, Refusal> {
        let longest = if matches!(written, Network::V4(..)) { 32 } else { 128 };
        let wanted = format!("write a prefix length from 0 to {longest}");
        let refusal = self.cursor.unexpected(&wanted);
        let length = address::number(self.cursor.word(&wanted)?).filter(|&length| length <= longest).ok_or(refusal)?;
        Ok(match written {
            Network::V4(address, _) => Network::V4(address, prefix_mask_v4(length)),
            Network::V6(address, _) => Network::V6(address, prefix_mask_v6(length)),
        })
    }

    fn mask(&mut self, written: Network) -> Result<Network, Refusal> {
        let wanted = "write a mask, as in `net 10.0.2.0 mask 255.255.255.0`; for IPv6 write a prefix length";
        let refusal = self.cursor.unexpected(wanted);
        let mask = address::network(self.cursor.word(wanted)?);
        match (written, mask) {
            (Network::V4(address, _), Some(Network::V4(mask, _))) => Ok(Network::V4(address, mask.into())),
            _ => Err(refusal),
        }
    }

    fn port(&mut self, qualifiers: Qualifiers) -> Result<Primitive, Refusal> {
        let wanted = "write a port from 0 to 65535, or the name of a well-known service";
        let refusal = self.cursor.unexpected(wanted);
        let word = self.cursor.word(wanted)?;
        if let Some(port) = address::number(word).and_then(|port| u16::try_from(port).ok()) {
            return Ok(ports(qualifiers, port, port, &name::TRANSPORTS));
        }
        let (port, registered) = name::service(word).ok_or(refusal.clone())?;
        match ports(qualifiers, port, port, registered) {
            Primitive::Port { transports, .. } if transports.is_empty() => {
                let advice = format!("`{word}` is no service of this protocol: write its number, {port}");
                Err(Refusal::new(refusal.position, advice))
            }
            primitive => Ok(primitive),
        }
    }

    fn port_range(&mut self, qualifiers: Qualifiers) -> Result<Primitive, Refusal> {
        let wanted = "write two ports from 0 to 65535 with `-` between, as in `portrange 6000-6063`";
        let refusal = self.cursor.unexpected(wanted);
        let word = self.cursor.word(wanted)?;
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let port = |text| address::number(text).and_then(|port| u16::try_from(port).ok());
        let (Some(first), Some(last)) = (port(first), port(last)) else { return Err(refusal) };
        Ok(ports(qualifiers, first.min(last), first.max(last), &name::TRANSPORTS))
    }

    fn proto(&mut self, qualifiers: Qualifiers) -> Result<Primitive, Refusal> {
        if qualifiers.protocol == Some(Protocol::Ethernet) {
            return self.ethernet_type();
        }
        let wanted = "write a protocol's number from 0 to 255, or its name";
        let refusal = self.cursor.unexpected(wanted);
        let word = self.cursor.word(wanted)?;
        let number = match (address::number(word), name::protocol(word)) {
            (Some(number), _) => u8::try_from(number).ok(),
            (None, Some(Protocol::OverIp { number, .. })) => Some(number),
            _ => None,
        };
        let carriers = match qualifiers.protocol {
            Some(Protocol::Ip) => Carriers::Ip,
            Some(Protocol::Ip6) => Carriers::Ip6,
            _ => Carriers::Both,
        };
        let number = number.ok_or(refusal)?;
        Ok(Primitive::Protocol(Protocol::OverIp { number, carriers }))
    }

    fn ethernet_type(&mut self) -> Result<Primitive, Refusal> {
        let wanted = "write an Ethernet type from 0x600 to 0xffff, or one of ip, ip6, arp and rarp";
        let refusal = self.cursor.unexpected(wanted);
        let word = self.cursor.word(wanted)?;
        let number = address::number(word).and_then(|number| u16::try_from(number).ok());
        let found = number.filter(|&number| number >= 0x600).or_else(|| name::ethernet_type(word));
        Ok(Primitive::EthernetType(found.ok_or(refusal)?))
    }
}

/// A port primitive for those of `allowed` that the qualifiers leave.
fn ports(qualifiers: Qualifiers, first: u16, last: u16, allowed: &[u8]) -> Primitive {
    let transports = match qualifiers.protocol {
        Some(Protocol::OverIp { number, .. }) => allowed.iter().copied().filter(|&one| one == number).collect(),
        _ => allowed.to_vec(),
    };
    Primitive::Port { transports, direction: qualifiers.direction, first, last }
}

/// A host primitive, if the protocol that was written has such addresses.
fn within(qualifiers: Qualifiers, network: Network, position: usize) -> Result<Primitive, Refusal> {
    let fits = match network {
        Network::V4(..) => qualifiers.protocol != Some(Protocol::Ip6),
        Network::V6(..) => matches!(qualifiers.protocol, None | Some(Protocol::Ip6)),
    };
    if !fits {
        let advice =
            "this is no address of that protocol: write `ip6` with IPv6 addresses, and ip, arp or rarp with others";
        return Err(Refusal::new(position, advice));
    }
    Ok(Primitive::Host { within: qualifiers.protocol, direction: qualifiers.direction, network })
}

fn has_host_bits(network: Network) -> bool {
    match network {
        Network::V4(address, mask) => u32::from(address) & !mask != 0,
        Network::V6(address, mask) => u128::from(address) & !mask != 0,
    }
}

fn multicast(protocol: Option<Protocol>, position: usize) -> Result<Primitive, Refusal> {
    match protocol.unwrap_or(Protocol::Ethernet) {
        group @ (Protocol::Ethernet | Protocol::Ip | Protocol::Ip6) => Ok(Primitive::Multicast(group)),
        _ => Err(Refusal::new(position, "`multicast` goes with ether, ip or ip6")),
    }
}

fn broadcast(protocol: Option<Protocol>, position: usize) -> Result<Primitive, Refusal> {
    match protocol {
        None | Some(Protocol::Ethernet) => Ok(Primitive::Broadcast),
        _ => {
            let advice =
                "the network's mask is not known: write `ether broadcast`, or `dst host` with the broadcast address";
            Err(Refusal::new(position, advice))
        }
    }
}
