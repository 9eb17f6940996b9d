//! Kinds of Unix sockets, as the server tells them apart.

/// Kinds of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream of bytes.
    Stream = 1,
    /// Messages without a connection.
    Datagram = 2,
    /// Messages over a connection.
    Packets = 5,
}
