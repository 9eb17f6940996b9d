//! Keys: the ring of each environment, and what a key opens (xok-exos-sosp97 §5.1; DESIGN.md §4, "Capability").
//!
//! The ring lies in a donated page, with what else only the kernel knows of the environment ([`Secrets`]). Slot 0 holds
//! the well-known name, always.

use crate::destruction::Progress;
use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::predicate::Watched;
use crate::revocation::Taking;
use abi::capability::{Capability, Rights};
use abi::limits::{KEYS, PRIVATE_PAGES};
use abi::{EnvironmentId, Error, Failure, KeyIndex};
use core::sync::atomic::Ordering;
use wakeup_predicate::Predicate;

/// What the kernel keeps of an environment where no program sees it.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    /// The keys.
    pub(crate) keys: [Capability; KEYS],
    /// Pages of the private part of its area.
    pub(crate) private: [u32; PRIVATE_PAGES],
    /// How many of them.
    pub(crate) private_count: u8,
    /// What it waits for, if it waits.
    pub(crate) predicate: Predicate,
    /// The words that it watches.
    pub(crate) watched: Watched,
    /// How far the taking of a page from it has come.
    pub(crate) taking: Taking,
    /// How far its destruction has come.
    pub(crate) destruction: Progress,
    /// CPUs on which it had a position of its own or another's, as bits.
    pub(crate) homes: u16,
}

impl Secrets {
    /// Those of an environment that has just begun, but for its name and its private pages: copied as a whole, which is
    /// quicker than made.
    pub(crate) const FRESH: Self = Self {
        keys: {
            let mut keys = [capability::empty(); KEYS];
            keys[KeyIndex::WELL_KNOWN.0 as usize] = capability::well_known();
            keys
        },
        private: [0; PRIVATE_PAGES],
        private_count: 0,
        predicate: Predicate::NONE,
        watched: Watched::NOTHING,
        taking: Taking::NONE,
        destruction: Progress::Filters,
        homes: 0,
    };

    /// Pages of the private part of its area.
    pub(crate) fn private(&self) -> &[u32] {
        &self.private[..usize::from(self.private_count)]
    }

    /// The keys of an environment that is gone become those of the next one in the same pages. Destruction has left it
    /// without a predicate.
    pub(crate) fn begin_again(&mut self, name: Capability) {
        let own = &mut self.keys[KeyIndex::WELL_KNOWN.0 as usize + 1..];
        own.iter_mut().filter(|key| !capability::is_empty(key)).for_each(|key| *key = capability::empty());
        self.keys[KeyIndex::FIRST.0 as usize] = name;
        (self.taking, self.destruction, self.homes) = (Taking::NONE, Progress::Filters, 0);
    }
}

impl Kernel {
    /// What the kernel keeps of a living or dying environment.
    pub(crate) fn secrets(&self, environment: Environment) -> &Secrets {
        self.memory.get(environment.key_ring()).expect("an environment has its secrets")
    }

    /// The same, to change it.
    pub(crate) fn secrets_mut(&mut self, environment: Environment) -> &mut Secrets {
        self.memory.get_mut(environment.key_ring()).expect("an environment has its secrets")
    }

    /// The caller's key at an index.
    pub(crate) fn key(&self, index: KeyIndex) -> Result<&Capability, Failure> {
        self.key_of(self.caller(), index)
    }

    pub(crate) fn key_of(&self, environment: Environment, index: KeyIndex) -> Result<&Capability, Failure> {
        let slot = usize::try_from(index.0).ok().and_then(|slot| self.secrets(environment).keys.get(slot));
        match slot {
            Some(key) if !capability::is_empty(key) => Ok(key),
            _ => Err(Error::NoSuchKey.about(index.0)),
        }
    }

    /// Whether the caller's key dominates a name with this right.
    pub(crate) fn require(&self, key: KeyIndex, name: &Capability, right: Rights) -> Result<(), Failure> {
        permit(capability::rights_under(self.key(key)?, name), right)
    }

    /// Derives a key (see `abi::syscall`).
    pub(crate) fn derive_key(&mut self, key: KeyIndex, slot: KeyIndex, rights: u64, component: u64) -> Outcome<u64> {
        let source = *self.key(key)?;
        let fresh = self.fresh;
        let child = match capability::derive(&source, rights_from(rights, 2)?, component, fresh) {
            Ok(child) => child,
            Err(capability::Refusal::ComponentOutOfRange) => return refuse(Error::BadArgument, 3),
            Err(capability::Refusal::NameTooLong) => {
                return refuse(Error::TooMany, abi::limits::NAME_COMPONENTS as u64);
            }
            Err(capability::Refusal::NoKey) => return refuse(Error::NoSuchKey, key.0),
        };
        if capability::is_empty(&child) {
            return refuse(Error::BadArgument, 2);
        }
        let caller = self.caller();
        *self.empty_slot(caller, slot, 1)? = child;
        if component == 0 {
            self.fresh += 1;
        }
        Ok(if component == 0 { fresh } else { component })
    }

    /// Copies a key into a ring (see `abi::syscall`).
    pub(crate) fn copy_key(
        &mut self,
        key: KeyIndex,
        rights: u64,
        to: EnvironmentId,
        slot: KeyIndex,
        control: KeyIndex,
    ) -> Outcome<()> {
        let copy = capability::narrowed(self.key(key)?, rights_from(rights, 1)?);
        if capability::is_empty(&copy) {
            return refuse(Error::BadArgument, 1);
        }
        let receiver = self.living(to)?;
        let expected = self.inbox_expects(receiver, slot);
        if receiver != self.caller() && !expected {
            self.require(control, &receiver.name(), Rights::OWN)?;
        }
        *self.empty_slot(receiver, slot, 3)? = copy;
        if expected {
            self.context_of(receiver).private_words().key_inbox.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the receiver has declared that it takes a key from the caller into this slot.
    fn inbox_expects(&self, receiver: Environment, slot: KeyIndex) -> bool {
        let words = self.context_of(receiver).private_words();
        words.key_inbox.load(Ordering::Relaxed) == slot.0.wrapping_add(1)
            && words.key_sender.load(Ordering::Relaxed) == self.caller().number().0
    }

    /// Empties a slot (see `abi::syscall`).
    pub(crate) fn drop_key(&mut self, from: EnvironmentId, slot: KeyIndex, control: KeyIndex) -> Outcome<()> {
        let environment = self.living(from)?;
        if environment != self.caller() {
            self.require(control, &environment.name(), Rights::OWN)?;
        }
        if slot == KeyIndex::WELL_KNOWN {
            return refuse(Error::NotPermitted, 0);
        }
        self.key_of(environment, slot)?;
        self.secrets_mut(environment).keys[slot.0 as usize] = capability::empty();
        self.forget_key(environment.number(), slot);
        Ok(())
    }

    /// An empty slot of a ring, to be filled; `argument` is its position among the arguments.
    fn empty_slot(&mut self, owner: Environment, slot: KeyIndex, argument: u64) -> Result<&mut Capability, Failure> {
        let keys = &mut self.secrets_mut(owner).keys;
        let found = usize::try_from(slot.0).ok().and_then(|slot| keys.get_mut(slot));
        match found {
            Some(key) if capability::is_empty(key) => Ok(key),
            Some(_) => Err(Error::NotFree.about(slot.0)),
            None => Err(Error::BadArgument.about(argument)),
        }
    }
}

/// Fails unless `right` is among the rights that a key gives.
pub(crate) fn permit(given: Rights, right: Rights) -> Result<(), Failure> {
    if given.contains(right) { Ok(()) } else { Err(Error::NotPermitted.about(u64::from(given.0))) }
}

/// Rights from an argument; unknown bits are refused.
pub(crate) fn rights_from(word: u64, argument: u64) -> Result<Rights, Failure> {
    match u32::try_from(word) {
        Ok(bits) if Rights::ALL.contains(Rights(bits)) => Ok(Rights(bits)),
        _ => Err(Error::BadArgument.about(argument)),
    }
}
