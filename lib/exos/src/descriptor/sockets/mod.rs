//! Open sockets: Unix sockets, those of the Internet, netlink, and descriptors that travel in messages.

pub(super) mod credentials;
pub(super) mod datagram;
mod datagram_channel;
pub(super) mod device_request;
pub mod internet_datagram;
pub mod internet_socket;
pub mod internet_stream;
pub mod listen_queue;
pub mod netlink;
pub mod scm_rights;
pub mod socket;
pub mod socket_shared;
