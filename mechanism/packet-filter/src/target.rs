//! What an edge of the decision structure leads to, as one word that compiled code reads too.

/// Bit that marks an index of a conjunction.
const ACCEPT: u32 = 1 << 31;
/// Bit that marks a tail.
const TAIL: u32 = 1 << 30;
/// Bit that marks a tail with more constants than one.
const LONG: u32 = 1 << 29;
/// Where the length of a tail stands.
const LENGTH: u32 = 24;
/// The bits of an index.
pub(crate) const INDEX: u32 = (1 << LENGTH) - 1;

const _: () = assert!(crate::limit::ALL_CONJUNCTIONS <= 1 << LENGTH && crate::limit::ATOMS < 1 << (29 - LENGTH));

/// The end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nothing: no such edge.
    None,
    /// A state with branches of its own.
    State(u32),
    /// The last `length` conditions of one conjunction, their constants kept as data in the edge's record; `long`
    /// if there is more than one constant.
    Tail { conjunction: u32, length: u32, long: bool },
    /// A conjunction that holds with nothing left to test.
    Accept(u32),
}

impl Target {
    /// As stored in a record.
    pub(crate) fn word(self) -> u32 {
        match self {
            Self::None => 0,
            Self::State(state) => state,
            Self::Tail { conjunction, length, long } => {
                TAIL | if long { LONG } else { 0 } | length << LENGTH | conjunction
            }
            Self::Accept(conjunction) => ACCEPT | conjunction,
        }
    }

    /// From a record.
    pub(crate) fn from_word(word: u32) -> Self {
        let index = word & INDEX;
        match word {
            0 => Self::None,
            _ if word & ACCEPT != 0 => Self::Accept(index),
            _ if word & TAIL != 0 => {
                Self::Tail { conjunction: index, length: (word & !(TAIL | LONG)) >> LENGTH, long: word & LONG != 0 }
            }
            _ => Self::State(index),
        }
    }

    /// The conjunction that alone continues from here.
    pub(crate) fn leaf(self) -> Option<u32> {
        match self {
            Self::Accept(conjunction) | Self::Tail { conjunction, .. } => Some(conjunction),
            Self::None | Self::State(_) => None,
        }
    }
}
