//! Calls on sockets: Unix sockets, and `internet` for those of the Internet.

pub(super) mod internet;
pub(super) mod internet_message;
pub(super) mod internet_option;
pub(super) mod socket;
pub(super) mod socket_message;
pub(super) mod socket_option;
