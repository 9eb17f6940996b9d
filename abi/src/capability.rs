//! Capabilities: hierarchical names with rights (xok-exos-sosp97 §5.1; DESIGN.md §4).
//!
//! A name is a list of components. It dominates every name that it is a prefix of; the empty name is the root.
//! Components below [`FIRST_FRESH`] are chosen by the holder; the kernel gives out the others, each once.

use crate::limits::NAME_COMPONENTS;

/// Smallest component that the kernel gives out as fresh; an environment that derives a key chooses smaller ones.
pub const FIRST_FRESH: u64 = 1 << 32;
/// First component of the well-known name, which everybody holds with every right.
pub const WELL_KNOWN: u64 = 1;
/// First component of the names of devices: `[DEVICE, kind, n]` is the n-th of a [`crate::device::kind`].
pub const DEVICE: u64 = 2;
/// Second component of the host channel's name: `[DEVICE, HOST_CHANNEL]`.
pub const HOST_CHANNEL: u64 = 1;

/// What a key or an entry of an access list allows, as bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rights(pub u32);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Map or read.
    pub const READ: Self = Self(1);
    /// Map or write; send.
    pub const WRITE: Self = Self(2);
    /// Free, rename, destroy, change who may do what.
    pub const OWN: Self = Self(4);
    /// All of them.
    pub const ALL: Self = Self(7);

    /// Whether all of `other` is in here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// What both allow.
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// What either allows.
    pub const fn either(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A name and what its holder may do: one slot of a key ring, one entry of an access list. 64 bytes.
///
/// An unused slot has no rights. Components past `length` are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Capability {
    /// Components in use.
    pub length: u32,
    /// What it allows; none in an unused slot.
    pub rights: Rights,
    /// The name.
    pub components: [u64; NAME_COMPONENTS],
}

const _: () = assert!(size_of::<Capability>() == 64);
