//! The pcap filter expression language (tcpdump's), translated to packet-filter.
//!
//! [`parse`] makes a syntax tree of the text, and [`meaning`] a formula over tests of the packet's bytes.
//! [`normal_form`] makes a sum of products of such tests, and [`compile`] hands those to `packet-filter`. Frames are
//! Ethernet frames. What a primitive means is what libpcap makes of it (pcap-filter(7)); what is outside the part
//! that is translated is refused with its place and what to write instead.
//!
//! Lives outside the trusted base: the kernel sees only the finished filter, and
//! checks it.
//!
//! What always holds: nothing panics or recurses deeply, whatever the text; time and
//! memory are bounded by the limits on text, nesting and products.

#![forbid(unsafe_code)]

pub mod expression;
pub mod meaning;
pub mod normal_form;
pub mod test;

mod address;
mod compile;
mod cursor;
mod field;
mod name;
mod parse;
mod primitive;
mod qualifier;
mod refusal;
mod token;

pub use compile::compile;
pub use parse::parse;
pub use refusal::Refusal;
