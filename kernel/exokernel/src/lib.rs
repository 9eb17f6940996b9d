//! The exokernel proper: safe code only, one file per noun (DESIGN.md §4).
//!
//! Every system call but the null call comes through `system_call`, takes the one lock, and works on the one
//! [`Kernel`]. Public state lives in the exposed structures themselves; [`Kernel`] holds only what no program may see.

#![no_std]
#![forbid(unsafe_code)]

mod access_list;
mod address_space;
mod archive;
mod batch;
mod block;
mod boot;
mod budget;
mod card;
mod channel;
mod context;
mod cost;
mod destruction;
mod device;
mod disk;
mod environment;
mod event;
mod force;
mod free_list;
mod interface;
mod interrupt;
mod kernel;
mod key;
mod object;
mod packet_filter;
mod packet_flight;
mod packet_ring;
mod packet_send;
mod page;
mod page_allocation;
mod page_map;
mod parts;
mod predicate;
mod processor;
mod program;
mod region;
mod revocation;
mod scheduler;
mod settings;
mod storage;
mod sweep;
mod system_call;
mod time_slice;
mod transfer;
mod volume;

pub use boot::{start, start_secondary};
