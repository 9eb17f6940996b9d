//! Walking the merged structure for conjunctions that a new one might meet.
//!
//! Depth first, some edges at a time. Where the new conjunction has an `Equal` with the branch's very
//! test, from the same base, only that edge is followed; otherwise all are.

use crate::condition::{Condition, Kind};
use crate::find::Fuel;
use crate::limit;
use crate::structure::{ROOT, Structure};
use crate::target::Target;

/// A base that the new conjunction does not share.
const OTHER_BASE: u8 = u8::MAX;

/// A branch being visited, the next slot to look at, and the stretch of the new conjunction that has
/// the same base.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    branch: u32,
    slot: u32,
    stretch: u8,
}

/// How far the walk has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    levels: [Level; limit::ATOMS + 2],
    depth: usize,
    /// Conjunctions still to be reported of those that end at one state.
    accepted: u32,
}

impl Search {
    pub(crate) const EMPTY: Self =
        Self { levels: [Level { branch: 0, slot: 0, stretch: 0 }; limit::ATOMS + 2], depth: 0, accepted: 0 };

    /// Begins at the root.
    pub(crate) fn begin(&mut self, structure: &Structure<'_>) {
        self.levels[0] = Level { branch: structure.states[ROOT].first_branch, slot: 0, stretch: 0 };
        (self.depth, self.accepted) = (1, 0);
    }

    /// Whether everything was visited.
    pub(crate) fn is_done(&self) -> bool {
        self.depth == 0 && self.accepted == 0
    }

    /// The next conjunction; `None` when done or when the fuel is spent.
    pub(crate) fn next(&mut self, structure: &Structure<'_>, new: &[Condition], fuel: &mut Fuel) -> Option<u32> {
        while !self.is_done() && fuel.spend(2) {
            if self.accepted != 0 {
                let conjunction = self.accepted;
                self.accepted = structure.conjunctions[conjunction].accepted_after;
                return Some(conjunction);
            }
            match self.next_edge(structure, new) {
                Target::State(state) => self.descend(structure, new, state),
                target => {
                    if let Some(conjunction) = target.leaf() {
                        return Some(conjunction);
                    }
                }
            }
        }
        None
    }

    fn next_edge(&mut self, structure: &Structure<'_>, new: &[Condition]) -> Target {
        let level = &mut self.levels[self.depth - 1];
        if level.branch == 0 {
            self.depth -= 1;
            return Target::None;
        }
        let branch = &structure.branches[level.branch];
        if branch.shape == 0 {
            self.accepted = structure.states[branch.state].first_accepted;
            *level = Level { branch: branch.next, slot: 0, ..*level };
            return Target::None;
        }
        let slot = level.slot;
        level.slot += 1;
        if slot == 0
            && let Some(key) = named_constant(structure, branch.shape, new, level.stretch)
        {
            level.slot = branch.edges.slots();
            return structure.words.target(branch.edges.find(&structure.words, key));
        }
        if slot < branch.edges.slots() {
            return structure.words.target(branch.edges.slot(&structure.words, slot));
        }
        *level = Level { branch: branch.next, slot: 0, ..*level };
        Target::None
    }

    fn descend(&mut self, structure: &Structure<'_>, new: &[Condition], state: u32) {
        let Level { branch, stretch, .. } = self.levels[self.depth - 1];
        let test = &structure.shapes.pool[structure.branches[branch].shape].test;
        let stretch = match test.kind {
            Kind::Shift if nth_shift(new, stretch).is_some_and(|own| own.test == *test) => stretch + 1,
            Kind::Shift => OTHER_BASE,
            _ => stretch,
        };
        self.levels[self.depth] = Level { branch: structure.states[state].first_branch, slot: 0, stretch };
        self.depth += 1;
    }
}

fn nth_shift(conditions: &[Condition], index: u8) -> Option<&Condition> {
    conditions.iter().filter(|c| c.test.kind == Kind::Shift).nth(usize::from(index))
}

/// The constant with which the new conjunction makes this very test from the same base.
fn named_constant(structure: &Structure<'_>, shape: u32, new: &[Condition], stretch: u8) -> Option<u32> {
    let test = &structure.shapes.pool[shape].test;
    if test.kind != Kind::Equal || stretch == OTHER_BASE {
        return None;
    }
    let mut passed = 0;
    for condition in new {
        if passed == stretch && condition.test == *test {
            return Some(test.raw(condition.value));
        }
        passed += u8::from(condition.test.kind == Kind::Shift);
    }
    None
}
