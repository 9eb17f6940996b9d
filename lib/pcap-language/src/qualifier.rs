//! The words before a value: which protocol, which end, what kind of value.

use crate::Refusal;
use crate::cursor::Cursor;
use crate::expression::{Direction, Protocol};
use crate::name;
use crate::token::Kind;

/// What kind of value follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

/// The qualifiers of one primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qualifiers {
    pub(crate) protocol: Option<Protocol>,
    pub(crate) direction: Direction,
    pub(crate) kind: ValueKind,
    /// Where they begin.
    pub(crate) position: usize,
}

/// Takes a protocol's name if one is next.
pub(crate) fn take_protocol(cursor: &mut Cursor<'_>) -> Option<Protocol> {
    let Kind::Word(word) = cursor.peek() else { return None };
    let protocol = name::protocol(word)?;
    cursor.advance();
    Some(protocol)
}

/// Takes `src`, `dst`, `src or dst` or `src and dst` if one is next.
pub(crate) fn take_direction(cursor: &mut Cursor<'_>) -> Option<Direction> {
    let (one, other) = match cursor.peek() {
        Kind::Word("src") => (Direction::Source, "dst"),
        Kind::Word("dst") => (Direction::Destination, "src"),
        _ => return None,
    };
    cursor.advance();
    let both = match cursor.peek() {
        Kind::Word("or") | Kind::Sign("||") => Direction::Either,
        Kind::Word("and") | Kind::Sign("&&") => Direction::Both,
        _ => return Some(one),
    };
    if cursor.peek_second() != Kind::Word(other) {
        return Some(one);
    }
    cursor.advance();
    cursor.advance();
    Some(both)
}

/// Takes a kind of value if one is next.
pub(crate) fn take_kind(cursor: &mut Cursor<'_>) -> Option<ValueKind> {
    let kind = match cursor.peek() {
        Kind::Word("host") => ValueKind::Host,
        Kind::Word("net") => ValueKind::Net,
        Kind::Word("port") => ValueKind::Port,
        Kind::Word("portrange") => ValueKind::PortRange,
        Kind::Word("proto") => ValueKind::Proto,
        _ => return None,
    };
    cursor.advance();
    Some(kind)
}

impl Qualifiers {
    /// Refuses combinations that mean nothing, as libpcap does.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        use ValueKind::{Host, Net, Port, PortRange, Proto};
        let over_ip = |numbers: &[u8]| match self.protocol {
            Some(Protocol::OverIp { number, .. }) => numbers.contains(&number),
            _ => false,
        };
        let advice = match self.kind {
            Host | Net if over_ip(&[]) || matches!(self.protocol, Some(Protocol::OverIp { .. })) => {
                "this protocol has no addresses of its own: write it with `and`, as in `tcp and host 10.0.2.15`, or write `port` before a port"
            }
            Net if self.protocol == Some(Protocol::Ethernet) => "Ethernet has no networks: write `ether host ADDRESS`",
            Port | PortRange if self.protocol.is_some() && !over_ip(&name::TRANSPORTS) => {
                "only tcp, udp and sctp have ports: write, for example, `tcp port 80`, and join other tests with `and`"
            }
            Proto if self.direction != Direction::Either => "a protocol has no direction: leave out `src` or `dst`",
            Proto if !matches!(self.protocol, None | Some(Protocol::Ethernet | Protocol::Ip | Protocol::Ip6)) => {
                "`proto` goes with ether, ip or ip6: write, for example, `ip proto 6`"
            }
            _ => return Ok(()),
        };
        Err(Refusal::new(self.position, advice))
    }
}
