//! The tables of `/proc/net`. There is the loopback device, and perhaps a network card. The server knows
//! the sockets of the Internet, and of the Unix-domain sockets those that have names.

use super::net_card;
use crate::process::current::process;
use alloc::format;
use alloc::string::String;
use unix_core::procfs::net_counters::{self, Sockets};
use unix_core::server::protocol::Listed;

/// The files.
pub(crate) const FILES: [&str; 24] = [
    "anycast6",
    "arp",
    "dev",
    "icmp",
    "icmp6",
    "if_inet6",
    "igmp",
    "igmp6",
    "ipv6_route",
    "netlink",
    "netstat",
    "packet",
    "raw",
    "raw6",
    "route",
    "snmp",
    "sockstat",
    "sockstat6",
    "tcp",
    "tcp6",
    "udp",
    "udp6",
    "udplite",
    "unix",
];
/// Columns of sockets of the Internet, the shorter and the longer form of their addresses.
const SHORT: &str = "sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const LONG: &str = "sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when \
                    retrnsmt   uid  timeout inode";
const MORE: &str = "ref pointer drops";
/// Groups of IPv6 that the loopback device is in, with their flags.
const GROUPS: [(u128, u32); 2] = [(0xff02 << 112 | 1, 0xc), (0xff01 << 112 | 1, 8)];
/// Routes of IPv6: none at the end of the table, the machine's own address between.
const ROUTES: [&str; 3] = [NO_ROUTE, OWN_ROUTE, NO_ROUTE];
const NO_ROUTE: &str = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                        00000000000000000000000000000000 ffffffff 00000001 00000000 00200200";
const OWN_ROUTE: &str = "00000000000000000000000000000001 80 00000000000000000000000000000000 00 \
                         00000000000000000000000000000000 00000000 00000002 00000000 80200001";

/// What a file says.
pub(crate) fn text(name: &str) -> Option<String> {
    Some(match name {
        "arp" => {
            String::from("IP address       HW type     Flags       HW address            Mask     Device\n")
                + &net_card::arp()
        }
        "dev" => {
            String::from(
                "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo \
             frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    lo:       0       0    0    0    0     0          \
             0         0        0       0    0    0    0     0       0          0\n",
            ) + &net_card::dev()
        }
        "if_inet6" => String::from("00000000000000000000000000000001 01 80 10 80       lo\n") + &net_card::if_inet6(),
        "pnp" => net_card::pnp()?,
        "netlink" => {
            String::from("sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n")
        }
        "packet" => String::from("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"),
        "route" => {
            padded("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT", 127)
                + &net_card::route().iter().map(|line| padded(line, 127)).collect::<String>()
        }
        "tcp" => with_lines(padded(&format!("  {SHORT}"), 149), Listed::Tcp),
        "udp" => with_lines(padded(&format!("   {SHORT} {MORE}"), 127), Listed::Udp),
        "icmp" => with_lines(padded(&format!("  {SHORT} {MORE}"), 127), Listed::Echo),
        "udplite" => padded(&format!("   {SHORT} {MORE}"), 127),
        "icmp6" => with_lines(format!("  {LONG} {MORE}\n"), Listed::Echo6),
        "anycast6" => String::new(),
        "igmp" => String::from(
            "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n1\tlo        :     1      V3\n\t\t\t\t010000E0     1 \
             0:00000000\t\t0\n",
        ),
        "igmp6" => {
            GROUPS.map(|(group, flags)| format!("1    {:<15} {group:032x}     1 {flags:08X} 0\n", "lo")).concat()
        }
        "ipv6_route" => net_card::ipv6_route() + &ROUTES.map(|route| format!("{route}       lo\n")).concat(),
        "netstat" => net_counters::netstat(),
        "snmp" => net_counters::snmp(sockets()),
        "sockstat" => net_counters::sockstat(sockets()),
        "sockstat6" => net_counters::sockstat6(sockets()),
        "raw" => format!("  {SHORT} {MORE}\n"),
        "tcp6" => with_lines(format!("  {LONG}\n"), Listed::Tcp6),
        "udp6" => with_lines(format!("  {LONG} {MORE}\n"), Listed::Udp6),
        "raw6" => format!("  {LONG} {MORE}\n"),
        "unix" => {
            with_lines(String::from("Num       RefCount Protocol Flags    Type St Inode Path\n"), Listed::Sockets)
        }
        _ => return None,
    })
}

/// How many sockets the server knows.
fn sockets() -> Sockets {
    let lines = |table| process().files.lock().lines(table).unwrap_or_default();
    let count = |lines: &[u8]| lines.iter().filter(|byte| **byte == b'\n').count();
    let [tcp, tcp6] = [Listed::Tcp, Listed::Tcp6].map(lines);
    let connected = [&tcp, &tcp6].map(|lines| String::from_utf8_lossy(lines).matches(" 01 ").count()).iter().sum();
    let [udp, udp6] = [Listed::Udp, Listed::Udp6].map(|table| count(&lines(table)));
    Sockets { tcp: count(&tcp), tcp6: count(&tcp6), udp, udp6, connected }
}

/// A table with the lines that the server knows.
fn with_lines(heading: String, table: Listed) -> String {
    let lines = process().files.lock().lines(table).unwrap_or_default();
    heading + &String::from_utf8_lossy(&lines)
}

/// A line of so many characters.
fn padded(line: &str, width: usize) -> String {
    format!("{line:<width$}\n")
}
