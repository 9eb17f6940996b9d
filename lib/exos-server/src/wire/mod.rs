//! The wire: what programs send to other machines and receive from them.
//!
//! The keeper of the wire is an environment in the server's address space (`keeper`). It alone uses the card, and runs
//! the stack of `lib/network` over it (`link`). Sockets and ports stay with the server, which hands commands to the
//! keeper (`requests`). `streams` moves bytes between the pages of sockets and connections of the stack.

mod convert;
mod information;
pub mod keeper;
mod link;
pub mod requests;
mod streams;
mod urgent;
