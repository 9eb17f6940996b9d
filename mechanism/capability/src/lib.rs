//! Capabilities: hierarchical names, dominance, derivation, access lists (xok-exos-sosp97 §5.1; DESIGN.md §4).
//!
//! Owns the rules by which a key opens something. Invariants:
//!
//! - a name dominates exactly the names that it is a prefix of, itself included;
//! - a derived key is dominated by its source and has no right that the source lacks;
//! - what a key may do under an access list is, for each entry that its name dominates, what both allow, taken
//!   together.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate std;

use abi::capability::{Capability, FIRST_FRESH, Rights, WELL_KNOWN};
use abi::limits::NAME_COMPONENTS;

/// Why a key could not be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The source is an empty slot.
    NoKey,
    /// The name already has [`NAME_COMPONENTS`] components.
    NameTooLong,
    /// A component chosen by the holder must be from 1 to below [`FIRST_FRESH`].
    ComponentOutOfRange,
}

/// The root: the empty name, with every right.
pub const fn root() -> Capability {
    Capability { length: 0, rights: Rights::ALL, components: [0; NAME_COMPONENTS] }
}

/// The name that all environments hold, with every right.
pub const fn well_known() -> Capability {
    named([WELL_KNOWN])
}

/// The capability with this name and every right.
pub const fn named<const N: usize>(name: [u64; N]) -> Capability {
    let mut components = [0; NAME_COMPONENTS];
    let mut index = 0;
    while index < N {
        components[index] = name[index];
        index += 1;
    }
    Capability { length: N as u32, rights: Rights::ALL, components }
}

/// An empty slot.
pub const fn empty() -> Capability {
    Capability { length: 0, rights: Rights::NONE, components: [0; NAME_COMPONENTS] }
}

/// Whether the slot holds anything.
pub const fn is_empty(slot: &Capability) -> bool {
    slot.rights.0 == 0
}

/// Whether the name of `key` is a prefix of the name of `other`. Rights do not matter here.
pub fn dominates(key: &Capability, other: &Capability) -> bool {
    let length = key.length as usize;
    // Names are short: comparing them takes less than a call that compares memory.
    let mut components = key.components.iter().zip(&other.components).take(length);
    length <= NAME_COMPONENTS && key.length <= other.length && components.all(|(own, theirs)| own == theirs)
}

/// What `key` may do with something named by one `entry`.
pub fn rights_under(key: &Capability, entry: &Capability) -> Rights {
    if dominates(key, entry) { key.rights.both(entry.rights) } else { Rights::NONE }
}

/// What `key` may do with something that these entries name.
pub fn rights_on(key: &Capability, entries: &[Capability]) -> Rights {
    entries.iter().fold(Rights::NONE, |rights, entry| rights.either(rights_under(key, entry)))
}

/// The same name with at most these rights; unknown bits are dropped.
pub fn narrowed(key: &Capability, rights: Rights) -> Capability {
    let rights = key.rights.both(rights);
    if rights == Rights::NONE { empty() } else { Capability { rights, ..*key } }
}

/// Derives a key: one more component, at most the rights of the source. `fresh` is the kernel's next unused
/// component, taken when `component` is 0.
pub fn derive(key: &Capability, rights: Rights, component: u64, fresh: u64) -> Result<Capability, Refusal> {
    if is_empty(key) {
        return Err(Refusal::NoKey);
    }
    let component = match component {
        0 => fresh,
        chosen if chosen < FIRST_FRESH => chosen,
        _ => return Err(Refusal::ComponentOutOfRange),
    };
    let mut child = narrowed(key, rights);
    let length = key.length as usize;
    if length >= NAME_COMPONENTS {
        return Err(Refusal::NameTooLong);
    }
    if !is_empty(&child) {
        child.components[length] = component;
        child.length += 1;
    }
    Ok(child)
}

#[cfg(test)]
mod tests;
