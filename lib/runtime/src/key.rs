//! The key ring: which slots are in use, and what goes into them.
//!
//! The kernel does not show a ring; its owner knows what it put where. Slots are counted in one word of the area.

use crate::area::Area;
use crate::syscall;
use abi::capability::Rights;
use abi::{EnvironmentId, Error, Failure, KeyIndex};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Takes an empty slot of the own ring.
///
/// # Errors
/// `TooMany` where all are in use.
pub fn reserve_slot() -> Result<KeyIndex, Failure> {
    let keys = &Area::current().library().keys;
    loop {
        let used = keys.load(Relaxed);
        let slot = used.trailing_ones();
        if slot as usize >= abi::limits::KEYS {
            return Err(Error::TooMany.about(abi::limits::KEYS as u64));
        }
        if keys.compare_exchange(used, used | 1 << slot, SeqCst, Relaxed).is_ok() {
            return Ok(KeyIndex(u64::from(slot)));
        }
    }
}

/// Marks a slot as empty again.
pub fn release_slot(slot: KeyIndex) {
    Area::current().library().keys.fetch_and(!(1 << (slot.0 & 63)), SeqCst);
}

/// A key with a longer name than `key`, and no more rights, in a slot of its own. The component that makes the name
/// longer is a fresh one (0), or one that the caller chooses.
///
/// # Errors
/// The kernel's refusals of `key_derive`; `TooMany` where the ring is full.
pub fn derive(key: KeyIndex, rights: Rights, component: u64) -> Result<KeyIndex, Failure> {
    let slot = reserve_slot()?;
    match syscall::key_derive(key, slot, u64::from(rights.0), component) {
        Ok(_) => Ok(slot),
        Err(failure) => {
            release_slot(slot);
            Err(failure)
        }
    }
}

/// Empties a slot of the own ring.
///
/// # Errors
/// `NoSuchKey` where it is empty.
pub fn discard(slot: KeyIndex) -> Result<(), Failure> {
    syscall::key_drop(crate::area::number(), slot, KeyIndex::FIRST)?;
    release_slot(slot);
    Ok(())
}

/// Gives an environment that the own first key controls a copy of a key, with no more than `rights`.
///
/// # Errors
/// The kernel's refusals of `key_copy`.
pub fn grant(key: KeyIndex, rights: Rights, environment: EnvironmentId, slot: KeyIndex) -> Result<(), Failure> {
    syscall::key_copy(key, u64::from(rights.0), environment, slot, KeyIndex::FIRST)
}
