//! Slots of the key ring of a process that mean the same in each process, and the keys of users.

use abi::capability::Rights;
use linux_abi::errno::{Errno, Result};
use runtime::{KeyIndex, key};
use unix_core::process::credentials::FIRST_APART;

/// Slot of the session's key.
pub const SESSION_SLOT: KeyIndex = KeyIndex(3);
/// Slot of a key that a process holds in addition, from any source: see `exos_server::principals`.
pub const BORROWED_SLOT: KeyIndex = KeyIndex(4);

/// Component behind the session's name, above those of the users.
const USERS: u64 = 1;
/// Component behind the session's name, above those of principals that are no users.
const ISOLATED: u64 = 2;

/// Does something with the key of a principal; that of 0 is the session's, which lies at `init` in the own ring.
pub fn with_key_of<T>(session: KeyIndex, principal: u64, action: impl FnOnce(KeyIndex) -> Result<T>) -> Result<T> {
    if principal == 0 {
        return action(session);
    }
    let (branch, component) = match principal.checked_sub(FIRST_APART) {
        None => (USERS, principal),
        Some(number) => (ISOLATED, number),
    };
    let users = key::derive(session, Rights::ALL, branch)?;
    let outcome = key::derive(users, Rights::ALL, component).map_err(Errno::from).and_then(|key| {
        let outcome = action(key);
        let _ = key::discard(key);
        outcome
    });
    let _ = key::discard(users);
    outcome
}
