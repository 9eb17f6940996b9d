//! The merged decision structure: a trie of tests with shared prefixes.
//!
//! A *state* is reached by one sequence of conditions. Its *branches* are the tests that some
//! conjunction makes next (or the acceptance of those that end here); all are tried, because conjunctions may
//! overlap. A branch leads by its *edges*, one for each constant. An edge leads to a state, to the one conjunction
//! that continues from there (its *tail*, kept as data), or to acceptance.
//!
//! Always: no state but the root is without branches, and no branch without edges; siblings have different shapes. A
//! branch has code of its own, or is part of its parent's piece. In that case it is the only branch of its state,
//! which is the only target of its parent. Newer branches stand first.

use crate::condition::Condition;
use crate::condition::Kind;
use crate::edges::Edges;
use crate::generate::BEGINNING;
use crate::pool::{Linked, Pool};
use crate::shape::Shapes;
use crate::specificity::Rank;
use crate::target::Target;
use crate::words::Words;

/// The state before any test.
pub(crate) const ROOT: u32 = 1;

/// A state.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Its branches, as a list.
    pub(crate) first_branch: u32,
    /// The branch and constant that lead here.
    pub(crate) parent: (u32, u32),
    /// The conjunctions that end here, oldest first.
    pub(crate) first_accepted: u32,
    pub(crate) last_accepted: u32,
    pub(crate) link: u32,
}

/// A branch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Branch {
    /// The sequence of tests up to and with its own; 0 for acceptance.
    pub(crate) shape: u32,
    /// The state it belongs to.
    pub(crate) state: u32,
    /// The next branch of that state.
    pub(crate) next: u32,
    pub(crate) edges: Edges,
    /// Its own piece of code; none when it is part of its parent's.
    pub(crate) code: Piece,
}

/// A conjunction that is installed, or about to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Installed {
    pub(crate) filter: u32,
    /// Which of the filter's conjunctions it is.
    pub(crate) number: u8,
    /// Whether it is part of the structure.
    pub(crate) linked: bool,
    pub(crate) rank: Rank,
    /// Its conditions, as a list.
    pub(crate) first: u32,
    /// Its whole sequence of tests.
    pub(crate) shape: u32,
    /// The next conjunction of its filter.
    pub(crate) next: u32,
    /// Its neighbours among those that end at the same state.
    pub(crate) accepted_before: u32,
    pub(crate) accepted_after: u32,
}

/// A condition in a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    pub(crate) condition: Condition,
    /// How narrow it is, if it is a range: see [`crate::specificity::range_bits`].
    pub(crate) narrowness: u64,
    /// The sequence of tests up to and with this one.
    pub(crate) shape: u32,
    pub(crate) next: u32,
}

/// The compiled end of a shape: tests its last `length` conditions against a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    pub(crate) shape: u32,
    pub(crate) length: u32,
    pub(crate) references: u32,
    pub(crate) next: u32,
    pub(crate) code: Piece,
}

/// A block of code. Offset 0 is the entry, so it means "none" here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u32,
    /// The size of its block, as a power of two of units.
    pub(crate) order: u32,
}

impl Linked for State {
    fn link(&mut self) -> &mut u32 {
        &mut self.link
    }
}

impl Linked for Branch {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Linked for Installed {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Linked for Cell {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Linked for Tail {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// The structure, its pools and its words.
#[derive(Debug)]
pub(crate) struct Structure<'a> {
    pub(crate) states: Pool<'a, State>,
    pub(crate) branches: Pool<'a, Branch>,
    pub(crate) conjunctions: Pool<'a, Installed>,
    pub(crate) cells: Pool<'a, Cell>,
    pub(crate) tails: Pool<'a, Tail>,
    pub(crate) shapes: Shapes<'a>,
    pub(crate) words: Words<'a>,
}

impl Structure<'_> {
    /// The branch of a state with this shape.
    pub(crate) fn branch_with_shape(&self, state: u32, shape: u32) -> Option<u32> {
        let mut branch = self.states[state].first_branch;
        while branch != 0 {
            if self.branches[branch].shape == shape {
                return Some(branch);
            }
            branch = self.branches[branch].next;
        }
        None
    }

    /// The kind of a branch's test; `None` for acceptance.
    pub(crate) fn kind(&self, branch: u32) -> Option<Kind> {
        let shape = self.branches[branch].shape;
        (shape != 0).then(|| self.shapes.pool[shape].test.kind)
    }

    /// The state that a branch leads to, when that is all it leads to and it has one branch only.
    pub(crate) fn only_branch_below(&self, branch: u32) -> Option<u32> {
        let edges = &self.branches[branch].edges;
        if edges.count != 1 || edges.is_table() {
            return None;
        }
        let Target::State(state) = self.words.target(edges.only(&self.words)) else { return None };
        let below = self.states[state].first_branch;
        (self.branches[below].next == 0).then_some(below)
    }

    /// The branch whose piece of code holds this one.
    pub(crate) fn piece_holder(&self, mut branch: u32) -> u32 {
        while self.branches[branch].code.offset == 0 {
            let (parent, _) = self.states[self.branches[branch].state].parent;
            if parent == 0 {
                break;
            }
            branch = parent;
        }
        branch
    }

    /// The code offset at which a state begins that has this first branch.
    pub(crate) fn entry_code(&self, state: u32, branch: u32) -> u32 {
        if state == ROOT { self.branches[branch].code.offset } else { self.code_after(state, branch) }
    }

    /// The code offset of the next branch of a state, or of where to go when there is none.
    pub(crate) fn code_after(&self, state: u32, branch: u32) -> u32 {
        match (branch, state) {
            (0, _) => self.words.stubs.done,
            (_, ROOT) => self.branches[branch].code.offset + BEGINNING,
            _ => self.branches[branch].code.offset,
        }
    }

    /// The list of a conjunction's conditions from the `depth`-th on.
    pub(crate) fn conditions_from(&self, conjunction: u32, depth: u32) -> u32 {
        let mut cell = self.conjunctions[conjunction].first;
        for _ in 0..depth {
            cell = self.cells[cell].next;
        }
        cell
    }

    /// The list of a conjunction's last `length` conditions.
    pub(crate) fn last_conditions(&self, conjunction: u32, length: u32) -> u32 {
        let (all, _) = self.measure(self.conjunctions[conjunction].first);
        self.conditions_from(conjunction, all - length)
    }

    /// Conditions in a list, and how many of them have a constant in a tail record.
    pub(crate) fn measure(&self, mut cell: u32) -> (u32, u32) {
        let (mut length, mut constants) = (0, 0);
        while cell != 0 {
            length += 1;
            constants += u32::from(self.cells[cell].condition.test.kind == Kind::Equal);
            cell = self.cells[cell].next;
        }
        (length, constants)
    }
}
