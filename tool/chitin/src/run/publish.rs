//! Published ports of `./chitin run -p [ADDRESS:]HOST:GUEST[/udp]`: ports of the host that QEMU's own network forwards
//! to the machine.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};

use crate::failure::{Context, Failure, Result};
use crate::qemu::{Forward, Link, NetworkCard, Transport};

/// What a user names, with its text for error lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    forward: Forward,
    text: String,
}

/// A port of the host, held until QEMU takes it.
enum Held {
    Stream { _port: TcpListener },
    Datagrams { _port: UdpSocket },
}

/// `[ADDRESS:]HOST:GUEST`, with `/tcp` or `/udp` behind it.
pub fn parse(text: &str) -> std::result::Result<Published, String> {
    let (ports, transport) = match text.split_once('/') {
        None | Some((_, "tcp")) => (text.trim_end_matches("/tcp"), Transport::Stream),
        Some((ports, "udp")) => (ports, Transport::Datagrams),
        Some((_, other)) => return Err(format!("/{other} is no transport: /tcp and /udp are")),
    };
    let shape = || "a port is published as [ADDRESS:]HOST:GUEST[/udp], as in 8080:80".to_owned();
    let (rest, guest) = ports.rsplit_once(':').ok_or_else(shape)?;
    let (address, host) = match rest.rsplit_once(':') {
        Some((address, host)) => (ip4(address)?, host),
        None => (Ipv4Addr::LOCALHOST, rest),
    };
    let forward = Forward { transport, address, host: port(host)?, guest: port(guest)? };
    Ok(Published { forward, text: text.to_owned() })
}

fn ip4(text: &str) -> std::result::Result<Ipv4Addr, String> {
    text.parse().map_err(|_| format!("{text:?} is no IPv4 address of this host, such as 127.0.0.1 or 0.0.0.0"))
}

fn port(text: &str) -> std::result::Result<u16, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port @ 1..) if is_number => Ok(port),
        _ => Err(format!("{text:?} is no port: ports are 1 to 65535")),
    }
}

/// Gives the forwards to the first card of QEMU's own network.
///
/// # Errors
/// One line where there is no such card, or about the first port of the host that cannot be bound.
pub fn forward(published: &[Published], cards: &mut [NetworkCard]) -> Result<()> {
    let Some(first) = published.first() else { return Ok(()) };
    let card = cards.iter_mut().find(|card| card.link == Link::User).ok_or_else(|| {
        Failure::new(format!("-p {}: only the network user has ports of this host; add --network user", first.text))
    })?;
    if let Some(twice) = published.iter().enumerate().find_map(|(at, one)| one.is_among(&published[..at])) {
        return Err(Failure::new(format!(
            "-p {}: port {} of this host is given twice",
            twice.text, twice.forward.host
        )));
    }
    let held: Vec<Held> = published.iter().map(Published::hold).collect::<Result<_>>()?;
    card.forwards = published.iter().map(|one| one.forward.clone()).collect();
    drop(held);
    Ok(())
}

impl Published {
    /// This, if one of `others` takes the same port of the host.
    fn is_among(&self, others: &[Self]) -> Option<&Self> {
        let place = |one: &Self| (one.forward.transport, one.forward.address, one.forward.host);
        others.iter().any(|other| place(other) == place(self)).then_some(self)
    }

    /// Binds the port of the host, so that one in use is named before the machine starts.
    fn hold(&self) -> Result<Held> {
        let place = SocketAddrV4::new(self.forward.address, self.forward.host);
        self.bind(place).context(format!("{self}: port {} of {} cannot be bound", place.port(), place.ip()))
    }

    fn bind(&self, place: SocketAddrV4) -> io::Result<Held> {
        match self.forward.transport {
            Transport::Stream => TcpListener::bind(place).map(|port| Held::Stream { _port: port }),
            Transport::Datagrams => UdpSocket::bind(place).map(|port| Held::Datagrams { _port: port }),
        }
    }
}

impl fmt::Display for Published {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "-p {}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(link: Link) -> NetworkCard {
        NetworkCard { link, address: [0; 6], packets: None, forwards: Vec::new() }
    }

    #[test]
    fn ports_have_a_host_and_a_guest() {
        let forward = |text: &str| parse(text).map(|one| one.forward);
        let plain = Forward { transport: Transport::Stream, address: Ipv4Addr::LOCALHOST, host: 8080, guest: 80 };
        assert_eq!(forward("8080:80"), Ok(plain.clone()));
        assert_eq!(forward("8080:80/tcp"), Ok(plain.clone()));
        let open = Forward { transport: Transport::Datagrams, address: Ipv4Addr::UNSPECIFIED, ..plain };
        assert_eq!(forward("0.0.0.0:8080:80/udp"), Ok(open));
        for (wrong, told) in [
            ("", "8080:80"),
            ("80", "8080:80"),
            ("a:80", "\"a\" is no port"),
            ("0:80", "1 to 65535"),
            ("80:0", "1 to 65535"),
            ("80:65536", "1 to 65535"),
            ("80:+1", "1 to 65535"),
            (":80:80", "IPv4"),
            ("::1:80:80", "IPv4"),
            ("localhost:80:80", "IPv4"),
            ("1.2.3:80:80", "IPv4"),
            ("80:80/sctp", "no transport"),
            ("80:80/udp/tcp", "no transport"),
            ("80:", "\"\" is no port"),
        ] {
            assert!(parse(wrong).unwrap_err().contains(told), "{wrong}: {:?}", parse(wrong));
        }
    }

    #[test]
    fn ports_in_use_are_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let try_out = |texts: &[String], cards: &mut [NetworkCard]| {
            let published: Vec<_> = texts.iter().map(|text| parse(text).unwrap()).collect();
            super::forward(&published, cards).map_err(|failure| failure.to_string())
        };
        let mut cards = [card(Link::Tap("a".into())), card(Link::User)];
        let told = try_out(&[format!("{port}:80")], &mut cards).unwrap_err();
        assert!(told.contains(&format!("-p {port}:80: port {port} of 127.0.0.1")) && told.contains("in use"), "{told}");
        try_out(&[format!("{port}:80/udp")], &mut cards).unwrap();
        assert!(cards[0].forwards.is_empty() && cards[1].forwards.len() == 1);
        drop(taken);
        let told = try_out(&[format!("{port}:80"), format!("{port}:81")], &mut cards).unwrap_err();
        assert!(told.contains("twice"), "{told}");
        assert!(try_out(&[format!("{port}:80")], &mut cards[..1]).unwrap_err().contains("--network user"));
    }
}
