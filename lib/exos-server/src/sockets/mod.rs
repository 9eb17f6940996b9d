//! Sockets in the server: names of Unix sockets, sockets of the Internet on loopback, and those on the wire.

mod datagram_channels;
mod internet_connect;
pub(super) mod internet_datagrams;
pub(super) mod internet_sockets;
pub(super) mod socket_names;
mod socket_page;
pub(super) mod unaccepted;
pub(crate) mod wire_sockets;
