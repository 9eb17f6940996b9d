//! Lines of `/proc/net/tcp`, `udp`, `raw` and their kin (proc(5)).

use crate::address::{Address, Endpoint, Family};
use alloc::format;
use alloc::string::String;

/// States, as the tables have them.
pub mod state {
    #![allow(missing_docs, reason = "the names are those of tcp(7)")]
    pub const ESTABLISHED: u8 = 1;
    pub const SYN_SENT: u8 = 2;
    pub const CLOSED: u8 = 7;
    pub const LISTENS: u8 = 10;
}

/// Which table a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `tcp`
    Tcp,
    /// `udp`, `raw`, `icmp`
    Datagrams,
}

/// What a line says.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its own end.
    pub local: Endpoint,
    /// The other one.
    pub remote: Endpoint,
    /// See [`state`].
    pub state: u8,
    /// Bytes that were sent and not received, and that wait to be read.
    pub queued: [u64; 2],
    /// The user who made it.
    pub user: u32,
    /// Its number.
    pub node: u64,
}

impl Line {
    /// The line as the table has it, in its place.
    pub fn text(&self, table: Table, family: Family, place: usize) -> String {
        let Self { local, remote, state, queued: [sent, waiting], user, node } = self;
        let ends = format!("{} {}", end(*local, family), end(*remote, family));
        let queues = format!("{sent:08X}:{waiting:08X}");
        match table {
            Table::Tcp => {
                let start =
                    format!("{place:4}: {ends} {state:02X} {queues} 00:00000000 00000000 {user:5}        0 {node} ");
                match (*state, family) {
                    (state::LISTENS, Family::V4) => format!("{:<149}\n", start + "1 0000000000000000 100 0 0 10 0"),
                    (state::LISTENS, Family::V6) => start + "1 0000000000000000 100 0 0 10 0\n",
                    (_, Family::V4) => format!("{:<149}\n", start + "1 0000000000000000 20 0 0 10 -1"),
                    (_, Family::V6) => start + "1 0000000000000000 20 0 0 10 -1\n",
                }
            }
            Table::Datagrams => {
                let line = format!(
                    "{place:5}: {ends} {state:02X} {queues} 00:00000000 00000000 {user:5}        0 {node} 2 0000000000000000 0"
                );
                if family == Family::V4 { format!("{line:<127}\n") } else { line + "\n" }
            }
        }
    }
}

/// An address in words of the machine's order, and a port.
fn end(endpoint: Endpoint, family: Family) -> String {
    let Endpoint { address: Address(address), port } = endpoint;
    match family {
        Family::V4 => format!("{:08X}:{port:04X}", endpoint.address.to_v4().unwrap_or(0).swap_bytes()),
        Family::V6 => {
            let word = |index: u32| ((address >> (96 - 32 * index)) as u32).swap_bytes();
            format!("{:08X}{:08X}{:08X}{:08X}:{port:04X}", word(0), word(1), word(2), word(3))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Endpoint = Endpoint { address: Address::v4(0x7f00_0001), port: 80 };
    const LINE: Line = Line {
        local: LOCAL,
        remote: Endpoint { address: Address::v4(0), port: 0 },
        state: state::LISTENS,
        queued: [0; 2],
        user: 0,
        node: 1234,
    };

    #[test]
    fn lines_are_those_of_linux() {
        let line = LINE.text(Table::Tcp, Family::V4, 0);
        let start =
            "   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1 ";
        assert!(line.starts_with(start), "{line}");
        assert_eq!(line.len(), 150);
        let v6 = Line { local: Endpoint { address: Address(1), port: 80 }, remote: Endpoint::default(), ..LINE };
        let line = v6.text(Table::Tcp, Family::V6, 3);
        assert!(
            line.starts_with("   3: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A")
        );
        assert_eq!(LINE.text(Table::Datagrams, Family::V4, 9).len(), 128);
    }
}
