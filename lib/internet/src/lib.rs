//! Internet sockets between the processes of one machine: the pure parts. No device, no page, no process, no `unsafe`.
//!
//! A library operating system brings the pages of sockets, the transfers to its server and the memory of programs.
//! This crate
//! decides: who may have which port, where a message goes, what an option means, what a table says.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod bell;
pub mod control;
pub mod datagram;
pub mod device;
pub mod echo;
pub mod error;
pub mod listing;
pub mod netlink;
pub mod option;
pub mod page;
pub mod port_table;
pub mod ring;
