//! What an edge of the decision structure leads to, as one word that compiled code reads too.

/// Bit that marks an index of a conjunction.
pub(crate) const ACCEPT: u32 = 1 << 31;
/// Bit that marks the word offset of a tail record.
pub(crate) const TAIL: u32 = 1 << 30;

/// The end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nothing: no such edge.
    None,
    /// A state with branches of its own.
    State(u32),
    /// The rest of one conjunction, kept as data: the word offset of its record.
    Tail(u32),
    /// A conjunction that holds with nothing left to test.
    Accept(u32),
}

impl Target {
    /// As stored in a table.
    pub(crate) fn word(self) -> u32 {
        match self {
            Self::None => 0,
            Self::State(state) => state,
            Self::Tail(record) => record | TAIL,
            Self::Accept(conjunction) => conjunction | ACCEPT,
        }
    }

    /// From a table.
    pub(crate) fn from_word(word: u32) -> Self {
        match word {
            0 => Self::None,
            _ if word & ACCEPT != 0 => Self::Accept(word & !ACCEPT),
            _ if word & TAIL != 0 => Self::Tail(word & !TAIL),
            _ => Self::State(word),
        }
    }
}
