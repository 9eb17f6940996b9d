//! The tables of `/proc/net`. There is the loopback device, and no other. The server knows
//! the sockets of the Internet, and of the Unix-domain sockets those that have names.

use crate::hw::current::process;
use crate::server::protocol::Listed;
use alloc::format;
use alloc::string::String;

/// The files.
pub(super) const FILES: [&str; 14] = [
    "arp", "dev", "icmp", "if_inet6", "netlink", "packet", "raw", "raw6", "route", "tcp", "tcp6", "udp", "udp6", "unix",
];
/// Columns of sockets of the Internet, the shorter and the longer form of their addresses.
const SHORT: &str = "sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const LONG: &str = "sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when \
                    retrnsmt   uid  timeout inode";
const MORE: &str = "ref pointer drops";

/// What a file says.
pub(super) fn text(name: &str) -> Option<String> {
    Some(match name {
        "arp" => String::from("IP address       HW type     Flags       HW address            Mask     Device\n"),
        "dev" => String::from(
            "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo \
             frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n",
        ),
        "if_inet6" => String::from("00000000000000000000000000000001 01 80 10 80       lo\n"),
        "netlink" => {
            String::from("sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n")
        }
        "packet" => String::from("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"),
        "route" => padded("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT", 127),
        "tcp" => with_lines(padded(&format!("  {SHORT}"), 149), Listed::Tcp),
        "udp" => with_lines(padded(&format!("   {SHORT} {MORE}"), 127), Listed::Udp),
        "icmp" => with_lines(padded(&format!("  {SHORT} {MORE}"), 127), Listed::Echo),
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

/// A table with the lines that the server knows.
fn with_lines(heading: String, table: Listed) -> String {
    let lines = process().files.lock().lines(table).unwrap_or_default();
    heading + &String::from_utf8_lossy(&lines)
}

/// A line of so many characters.
fn padded(line: &str, width: usize) -> String {
    format!("{line:<width$}\n")
}
