//! Names that stand for numbers: protocols, services, fields and flags.

use crate::expression::{Carriers, Protocol};

/// The protocol a keyword names.
pub(crate) fn protocol(word: &str) -> Option<Protocol> {
    let over_ip = |number, carriers| Some(Protocol::OverIp { number, carriers });
    match word {
        "ether" => Some(Protocol::Ethernet),
        "ip" => Some(Protocol::Ip),
        "ip6" => Some(Protocol::Ip6),
        "arp" => Some(Protocol::Arp),
        "rarp" => Some(Protocol::Rarp),
        "icmp" => over_ip(1, Carriers::Ip),
        "igmp" => over_ip(2, Carriers::Ip),
        "tcp" => over_ip(6, Carriers::Both),
        "udp" => over_ip(17, Carriers::Both),
        "esp" => over_ip(50, Carriers::Both),
        "ah" => over_ip(51, Carriers::Both),
        "icmp6" => over_ip(58, Carriers::Ip6),
        "pim" => over_ip(103, Carriers::Both),
        "vrrp" => over_ip(112, Carriers::Ip),
        "sctp" => over_ip(132, Carriers::Both),
        _ => None,
    }
}

/// The Ethernet type of a protocol named after `ether proto`.
pub(crate) fn ethernet_type(word: &str) -> Option<u16> {
    match word {
        "ip" => Some(0x0800),
        "arp" => Some(0x0806),
        "rarp" => Some(0x8035),
        "ip6" => Some(0x86dd),
        _ => None,
    }
}

/// TCP, UDP and SCTP: the protocols that have ports.
pub(crate) const TRANSPORTS: [u8; 3] = [132, 6, 17];

/// A service's port and the transports it is registered for, as in `/etc/services` of
/// Debian; the common ones, so that what an expression means does not depend on a file.
pub(crate) fn service(word: &str) -> Option<(u16, &'static [u8])> {
    Some(match word {
        "ftp" => (21, &[6]),
        "ssh" => (22, &[6]),
        "telnet" => (23, &[6]),
        "smtp" => (25, &[6]),
        "domain" => (53, &[6, 17]),
        "bootps" => (67, &[17]),
        "bootpc" => (68, &[17]),
        "tftp" => (69, &[17]),
        "http" => (80, &[6]),
        "pop3" => (110, &[6]),
        "ntp" => (123, &[17]),
        "imap2" => (143, &[6]),
        "snmp" => (161, &[6, 17]),
        "https" => (443, &[6, 17]),
        "syslog" => (514, &[17]),
        "imaps" => (993, &[6]),
        _ => return None,
    })
}

/// A named offset inside a header, or a named value found there.
pub(crate) fn constant(word: &str) -> Option<u32> {
    Some(match word {
        "icmptype" | "icmp6type" => 0,
        "icmpcode" | "icmp6code" => 1,
        "tcpflags" => 13,
        "tcp-fin" => 0x01,
        "tcp-syn" => 0x02,
        "tcp-rst" => 0x04,
        "tcp-push" => 0x08,
        "tcp-ack" => 0x10,
        "tcp-urg" => 0x20,
        "tcp-ece" => 0x40,
        "tcp-cwr" => 0x80,
        "icmp-echoreply" => 0,
        "icmp-unreach" => 3,
        "icmp-redirect" => 5,
        "icmp-echo" => 8,
        "icmp-timxceed" => 11,
        "icmp6-destinationunreach" => 1,
        "icmp6-packettoobig" => 2,
        "icmp6-timeexceeded" => 3,
        "icmp6-echo" => 128,
        "icmp6-echoreply" => 129,
        "icmp6-routersolicit" => 133,
        "icmp6-routeradvert" => 134,
        "icmp6-neighborsolicit" => 135,
        "icmp6-neighboradvert" => 136,
        _ => return None,
    })
}

/// What to write instead of a keyword of the full language that is not in this subset.
pub(crate) fn outside_the_subset(word: &str) -> Option<&'static str> {
    Some(match word {
        "vlan" | "mpls" | "pppoed" | "pppoes" | "geneve" => {
            "filters for tagged or tunnelled frames are not translated: compare bytes, as in `ether[12:2] = 0x8100`"
        }
        "gateway" => "a gateway is not looked up: write `ether host ADDRESS and not host ADDRESS`",
        "protochain" => "header chains are not followed: write `proto NUMBER`",
        "len" | "less" | "greater" => {
            "the length of a frame is not tested: compare the header's length field, as in `ip[2:2] > 100`"
        }
        "inbound" | "outbound" | "ifname" | "on" | "rnr" | "rulenum" | "reason" | "action" => {
            "only the packet's bytes are tested: write what its bytes must be"
        }
        "decnet" | "lat" | "moprc" | "mopdl" | "atalk" | "aarp" | "iso" | "stp" | "ipx" | "netbeui" => {
            "this protocol is not translated: write `ether proto NUMBER`"
        }
        "wlan" | "fddi" | "tr" | "link" => "frames are Ethernet frames: write `ether`",
        _ => return None,
    })
}
