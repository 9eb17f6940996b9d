//! Slots of the key ring of a process that mean the same in each process.

use runtime::KeyIndex;

/// Slot of the session's key.
pub const SESSION_SLOT: KeyIndex = KeyIndex(3);
/// Slot of a key that a process holds in addition, from any source: see `exos_server::principals`.
pub const BORROWED_SLOT: KeyIndex = KeyIndex(4);
