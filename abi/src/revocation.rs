//! Revocation and the abort protocol (exokernel-sosp95 §3.3, §3.4): ask, insist, take, and say what was taken.

use core::sync::atomic::AtomicU64;

/// One entry of a repossession vector: what was taken by force. 16 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct Repossessed {
    /// The resource ([`crate::budget::Resource`]).
    pub resource: AtomicU64,
    /// Which one: a page number, and in bits 32 to 63 the page into which its contents were saved (0: none); a slice
    /// as `cpu << 32 | position`.
    pub name: AtomicU64,
}

const _: () = assert!(size_of::<Repossessed>() == 16);
