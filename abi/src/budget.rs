//! Budgets: how much of each resource an environment may hold.
//!
//! `limit` is what it may use at most, `reserved` what it is sure to get. When there is too little, an environment that
//! holds more than its reservation is asked first (the kernel's only policy). Both are taken from the creator's at the
//! call
//! `budget_move` and go back to it when the environment dies, together with the charge for what is still in use.

/// What is counted.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Physical pages.
    Page = 0,
    /// Positions of slice vectors.
    Slice = 1,
    /// Packet filters. What their atoms, conjunctions and shapes may come to follows from the limit.
    Filter = 2,
    /// Pages watched by wakeup predicates.
    Predicate = 3,
    /// Pins of pages: explicit ones, and device pins of requests in flight.
    Pin = 4,
    /// Environments created and not yet gone.
    Environment = 5,
}

impl Resource {
    /// How many there are.
    pub const COUNT: usize = 6;
    /// Every resource, in the order of the numbers.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Page, Self::Slice, Self::Filter, Self::Predicate, Self::Pin, Self::Environment];

    /// The resource with this number, if there is one.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number < Self::COUNT as u64 { Some(Self::ALL[number as usize]) } else { None }
    }
}

/// Which of the two figures of a budget moves.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The most that may be used.
    Limit = 0,
    /// What is sure to be had.
    Reserved = 1,
}
