//! The wire: what programs send to other machines and receive from them.
//!
//! The keeper of the wire is an environment in the server's address space (`keeper`). It alone uses the card, and runs
//! the stack of `lib/network` over it (`link`). Sockets and ports stay with the server, which hands commands to the
//! keeper (`requests`). `streams` moves bytes between the pages of sockets and connections of the stack.

#[cfg(target_os = "none")]
mod convert;
#[cfg(target_os = "none")]
mod information;
#[cfg(target_os = "none")]
pub mod keeper;
#[cfg(target_os = "none")]
mod link;
#[cfg(target_os = "none")]
pub mod requests;
#[cfg(target_os = "none")]
mod streams;
