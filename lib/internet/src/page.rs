//! The page of a socket: which word says what. Its holders and the server write it; the other side of a connection
//! reads it.
//!
//! The page of a channel has the counts, the hint of its reader, and bytes at the same places. Its sender and its
//! receiver write it.
//!
//! A stream's bytes lie at [`RING`] until its sender has a larger area; so do the datagrams that a socket received.
//! Invariant: nothing here is believed: counts go through [`crate::ring`], and what a word leads to the server says.

use crate::ring::INLINE;

/// Lock of those who read, and of those who write, among the holders.
pub const READ_LOCK: usize = 0;
/// See [`READ_LOCK`].
pub const WRITE_LOCK: usize = 1;
/// Bytes ever sent, with the flags of [`crate::ring`]; of a socket for datagrams, bytes that the server ever put here.
pub const SENT: usize = 2;
/// Bytes ever read, with [`crate::ring::RESET`] once nothing more is going to be.
pub const TAKEN: usize = 3;
/// Position and one from which on what is sent lies in the larger area; 0: there is none.
pub const LARGE_FROM: usize = 4;
/// Thread that waits for bytes, and one that waits for room; 0: none. A hint.
pub const READER: usize = 5;
/// See [`READER`].
pub const WRITER: usize = 6;
/// The state, below [`GENERATION`], and above it how often that changed.
pub const STATE: usize = 7;
/// Error that waits to be told, by the number of Linux; 0: none.
pub const ERROR: usize = 8;
/// Bits of [`done`].
pub const DONE: usize = 9;
/// Connections that ever came, or datagrams that wait with the server.
pub const CAME: usize = 10;
/// Connections that were ever accepted.
pub const ACCEPTED: usize = 11;
/// Position and one of the urgent byte that was sent last; 0: none.
pub const URGENT: usize = 12;
/// The same of the one that was received last.
pub const URGENT_TAKEN: usize = 13;
/// How often a writer found no room.
pub const FULL: usize = 14;
/// Nanoseconds that a reader and a writer wait; 0: for ever.
pub const PATIENCE: usize = 15;
/// Whether closing waits, and for how many seconds.
pub const LINGER: usize = 17;
/// The urgent byte that was sent last.
pub const URGENT_BYTE: usize = 18;
/// The filter of a raw socket (`ICMP_FILTER`).
pub const FILTER: usize = 19;
/// Position behind an urgent byte that its reader had reached when the next one was sent: the reader leaves it out.
pub const URGENT_SKIPPED: usize = 20;
/// The filter of a raw socket of IPv6 (`ICMP6_FILTER`): four words.
pub const FILTER_V6: usize = 21;
/// What the holders, or the keeper of the wire, want to be told of by the server: see [`crate::bell::Watch`].
/// 0: nothing.
pub const WATCH: usize = 25;
/// Of a socket for datagrams: how often its channels have changed, or it was shut down.
pub const CHANGES: usize = 26;
/// Number of the channel that its holders send by; 0: the server sends.
pub const CHANNEL: usize = 27;
/// When the first datagram was sent that waits with the server, in ticks.
pub const OLDEST: usize = 28;
/// When the first came of what the other side can read, in ticks: a byte, or the end of them. Of a socket that listens:
/// a connection.
pub const FILLED_AT: usize = 29;
/// Where the keeper of the wire writes `struct tcp_info` of a connection, in the page of the other machine's side. The
/// first word is 0 where no keeper does.
pub const INFORMATION: usize = 192;
/// Bytes of it.
pub const INFORMATION_BYTES: usize = 232;
/// Where the options lie.
pub const OPTIONS: usize = 64;
/// Where the bytes lie: the second half.
pub const RING: usize = 256;

const _: () = assert!(OPTIONS + crate::option::WORDS <= INFORMATION && INFORMATION * 8 + INFORMATION_BYTES <= RING * 8);
const _: () = assert!(RING * 8 + INLINE as usize == 4096);

/// One more change of the state.
pub const GENERATION: u64 = 256;

/// The states of a socket.
pub mod state {
    /// It has no connection.
    pub const CLOSED: u64 = 0;
    /// It listens.
    pub const LISTENING: u64 = 1;
    /// It waits until its connection comes about.
    pub const CONNECTING: u64 = 2;
    /// It has a connection, or did.
    pub const CONNECTED: u64 = 3;
}

/// What a sleeper that has no predicate for each of its sockets is told of: the keeper of the wire, and a thread that
/// waits for many.
pub mod watch {
    /// The other side sent something, or nothing more; of a socket that listens: a connection came.
    pub const SENT: u64 = 1;
    /// The other side read something, or nothing more.
    pub const TAKEN: u64 = 2;
    /// A holder of the socket itself shut it, or changed what it waits for.
    pub const OWN: u64 = 8;
    /// The one bell need not ring again once it has.
    pub const ONCE: u64 = 4;
    /// The first bit of the bells.
    pub const BELLS: u32 = 8;
}

/// What happened to a socket that its holders keep in mind.
pub mod done {
    /// It reads no more (`shutdown`).
    pub const READ_SHUT: u64 = 1;
    /// It was told that the connection was reset.
    pub const RESET_TOLD: u64 = 2;
    /// It wrote to a peer that had closed its socket: from now on that is an error.
    pub const BROKEN: u64 = 4;
    /// `connect` has told, or is going to tell, how its attempt came out.
    pub const CONNECT_BEGUN: u64 = 8;
    /// It sends no datagrams any more (`shutdown`).
    pub const WRITE_SHUT: u64 = 16;
    /// It was shut down both ways by `shutdown` while it listened.
    pub const STOPPED: u64 = 32;
}
