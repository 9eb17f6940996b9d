//! All that kernel and user both see.
//!
//! Numbers, layouts and names only: no behaviour beyond packing and unpacking words. Every record that the kernel
//! exposes is made of aligned 64-bit words; every address, limit and number of the interface is a constant here and
//! nowhere else. A hash of these sources is the version of the interface ([`VERSION`]): the runtime refuses a kernel
//! that was built from others.

#![no_std]
#![forbid(unsafe_code)]

pub mod area;
pub mod boot;
pub mod budget;
pub mod capability;
pub mod device;
pub mod environment;
pub mod error;
pub mod exposed;
pub mod feature;
pub mod host_channel;
pub mod interface;
pub mod limits;
pub mod machine;
pub mod memory_map;
pub mod packet_filter;
pub mod packet_ring;
pub mod page;
pub mod page_table;
pub mod predicate;
pub mod region;
pub mod revocation;
pub mod storage;
pub mod syscall;
pub mod time_slice;
pub mod upcall;
pub mod word;

pub use error::{Error, Failure};
pub use word::{EnvironmentId, KeyIndex, PageNumber, UserAddress, Word};

include!(concat!(env!("OUT_DIR"), "/version.rs"));
