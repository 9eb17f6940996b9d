//! Finding the place of a conjunction in the structure, a bounded number of hops at a time.

use crate::condition::Kind;
use crate::structure::{ROOT, Structure};
use crate::target::Target;

/// Work left in a step, in units of some tens of instructions.
#[derive(Debug)]
pub(crate) struct Fuel(pub(crate) u32);

impl Fuel {
    /// Spends units; says whether any are left.
    pub(crate) fn spend(&mut self, units: u32) -> bool {
        self.0 = self.0.saturating_sub(units);
        self.0 > 0
    }
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    state: u32,
    /// The next branch of that state to look at.
    branch: u32,
    /// The conditions that remain.
    cell: u32,
    depth: u32,
}

/// Where the conjunction is, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// All conditions are used up at this state.
    End { state: u32 },
    /// This state has no branch for the next condition.
    NoBranch { state: u32, cell: u32 },
    /// This branch has no edge for the next condition.
    NoEdge { branch: u32, cell: u32 },
    /// This edge is a leaf of one conjunction; `depth` conditions lead to it, `cell` remain.
    Leaf { branch: u32, key: u32, depth: u32, cell: u32 },
}

impl Cursor {
    /// At the root, with all conditions of a conjunction ahead.
    pub(crate) fn new(structure: &Structure<'_>, conjunction: u32) -> Self {
        Self {
            state: ROOT,
            branch: structure.states[ROOT].first_branch,
            cell: structure.conjunctions[conjunction].first,
            depth: 0,
        }
    }

    /// Searches until the place is found or the fuel is spent.
    pub(crate) fn advance(&mut self, structure: &Structure<'_>, fuel: &mut Fuel) -> Option<Place> {
        while fuel.spend(1) {
            if self.cell == 0 {
                return Some(Place::End { state: self.state });
            }
            if self.branch == 0 {
                return Some(Place::NoBranch { state: self.state, cell: self.cell });
            }
            let branch = &structure.branches[self.branch];
            if branch.shape != structure.cells[self.cell].shape {
                self.branch = branch.next;
            } else if let Some(place) = self.follow(structure) {
                return Some(place);
            }
        }
        None
    }

    fn follow(&mut self, structure: &Structure<'_>) -> Option<Place> {
        let cell = &structure.cells[self.cell];
        let branch = self.branch;
        let key = edge_key(structure, self.cell);
        self.depth += 1;
        let record = structure.branches[branch].edges.find(&structure.words, key);
        match structure.words.target(record) {
            Target::None => return Some(Place::NoEdge { branch, cell: self.cell }),
            Target::State(state) => {
                self.state = state;
                self.branch = structure.states[state].first_branch;
                self.cell = cell.next;
            }
            Target::Tail { .. } | Target::Accept(_) => {
                return Some(Place::Leaf { branch, key, depth: self.depth, cell: cell.next });
            }
        }
        None
    }
}

/// The constant by which a condition's edge is known.
pub(crate) fn edge_key(structure: &Structure<'_>, cell: u32) -> u32 {
    let condition = &structure.cells[cell].condition;
    if condition.test.kind == Kind::Equal { condition.test.raw(condition.value) } else { 0 }
}
