//! Crash-consistency harness for XN and C-FFS ([`cffs`]).
//!
//! A hostile client ([`adversary`], [`reuse`]) drives XN over a recording disk ([`disk`]). Each state that a power cut
//! can leave ([`states`]) is judged by a decoder that was written from the description of the format ([`decoder`]), and
//! recovered by XN ([`machine`]).

#![forbid(unsafe_code)]

pub mod adversary;
pub mod campaign;
pub mod cffs;
pub mod decoder;
pub mod disk;
pub mod machine;
pub mod random;
pub mod reuse;
pub mod states;
pub mod templates;
