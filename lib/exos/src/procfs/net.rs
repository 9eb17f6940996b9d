//! The tables of `/proc/net`. There are no devices of networks and no sockets of the Internet: those tables have their headings
//! and nothing below them. Unix-domain sockets lie with those who have them; the server knows those that have names.

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
        "if_inet6" => String::new(),
        "netlink" => {
            String::from("sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n")
        }
        "packet" => String::from("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"),
        "route" => padded("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT", 127),
        "tcp" => padded(&format!("  {SHORT}"), 149),
        "udp" => padded(&format!("   {SHORT} {MORE}"), 127),
        "icmp" => padded(&format!("  {SHORT} {MORE}"), 127),
        "raw" => format!("  {SHORT} {MORE}\n"),
        "tcp6" => format!("  {LONG}\n"),
        "udp6" | "raw6" => format!("  {LONG} {MORE}\n"),
        "unix" => {
            let sockets = process().files.lock().lines(Listed::Sockets).unwrap_or_default();
            format!("Num       RefCount Protocol Flags    Type St Inode Path\n{}", String::from_utf8_lossy(&sockets))
        }
        _ => return None,
    })
}

/// A line of so many characters.
fn padded(line: &str, width: usize) -> String {
    format!("{line:<width$}\n")
}
