//! What each owner may use of the structures that all share, and what it uses.

use crate::refusal::{Reason, Refusal, Resource};

/// Amounts of what a filter uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Filters.
    pub filters: u32,
    /// Conjunctions of all its filters.
    pub conjunctions: u32,
    /// Atoms of all its filters.
    pub atoms: u32,
    /// Shapes that its filters were the first to have. They bound everyone's time of classification.
    pub shapes: u32,
}

/// One owner's account.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// The most it may use.
    pub quota: Quota,
    /// What it uses now.
    pub used: Quota,
}

impl Account {
    /// An account with nothing in use.
    #[must_use]
    pub const fn new(quota: Quota) -> Self {
        Self { quota, used: Quota { filters: 0, conjunctions: 0, atoms: 0, shapes: 0 } }
    }

    /// Charges a filter, or says what the quota lacks.
    pub(crate) fn charge(&mut self, conjunctions: u32, atoms: u32) -> Result<(), Refusal> {
        let lacks = |what| Err(Refusal::whole(Reason::Quota(what)));
        if self.used.filters >= self.quota.filters {
            return lacks(Resource::Filters);
        }
        if self.used.conjunctions + conjunctions > self.quota.conjunctions {
            return lacks(Resource::Conjunctions);
        }
        if self.used.atoms + atoms > self.quota.atoms {
            return lacks(Resource::Atoms);
        }
        self.used.filters += 1;
        self.used.conjunctions += conjunctions;
        self.used.atoms += atoms;
        Ok(())
    }

    /// Takes a charge back.
    pub(crate) fn refund(&mut self, conjunctions: u32, atoms: u32) {
        self.used.filters -= 1;
        self.used.conjunctions -= conjunctions;
        self.used.atoms -= atoms;
    }
}
