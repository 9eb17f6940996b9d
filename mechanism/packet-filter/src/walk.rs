//! Classification by interpreting the merged structure: what compiled code must agree with, and
//! what runs where code cannot be compiled. (It stands for PATHFINDER in the benchmark.)

use crate::condition::{Kind, View};
use crate::limit;
use crate::structure::{Installed, ROOT, Structure};
use crate::target::Target;

/// A branch still to be tried, and the view it begins from.
#[derive(Clone, Copy)]
struct Pending<'p> {
    branch: u32,
    view: View<'p>,
}

impl Structure<'_> {
    /// The conjunction that wins this packet; 0 for none.
    pub(crate) fn classify(&self, packet: &[u8]) -> u32 {
        let view = View { rest: packet };
        let mut stack = [Pending { branch: 0, view }; limit::ATOMS + 2];
        let mut depth = 0;
        let mut best = 0;
        let mut here = Pending { branch: self.states[ROOT].first_branch, view };
        loop {
            if here.branch == 0 {
                if depth == 0 {
                    return best;
                }
                depth -= 1;
                here = stack[depth];
                continue;
            }
            let next = self.branches[here.branch].next;
            let reached = self.try_branch(here);
            here.branch = next;
            match reached {
                Some((Target::State(state), view)) => {
                    if next != 0 {
                        stack[depth] = here;
                        depth += 1;
                    }
                    here = Pending { branch: self.states[state].first_branch, view };
                }
                Some((target, view)) => best = self.better(best, self.settle(target, view)),
                None => {}
            }
        }
    }

    /// Where a branch leads this packet.
    fn try_branch<'p>(&self, at: Pending<'p>) -> Option<(Target, View<'p>)> {
        let branch = &self.branches[at.branch];
        if branch.shape == 0 {
            return Some((self.words.target(branch.edges.only(&self.words)), at.view));
        }
        let test = &self.shapes.pool[branch.shape].test;
        let masked = test.load(at.view)?;
        let record = match test.kind {
            Kind::Equal => branch.edges.find(&self.words, test.raw(masked)),
            _ if test.passes(masked) => branch.edges.only(&self.words),
            _ => 0,
        };
        let target = self.words.target(record);
        if target == Target::None { None } else { Some((target, test.advance(at.view, masked)?)) }
    }

    /// The conjunction at a leaf if the rest of it holds; 0 otherwise.
    fn settle(&self, target: Target, view: View<'_>) -> u32 {
        match target {
            Target::Accept(conjunction) => conjunction,
            Target::Tail { conjunction, length, .. } if self.tail_holds(conjunction, length, view) => conjunction,
            _ => 0,
        }
    }

    fn tail_holds(&self, conjunction: u32, length: u32, mut view: View<'_>) -> bool {
        let mut cell = self.last_conditions(conjunction, length);
        while cell != 0 {
            match self.cells[cell].condition.apply(view) {
                Some(next) => view = next,
                None => return false,
            }
            cell = self.cells[cell].next;
        }
        true
    }

    /// The one of two conjunctions that wins; 0 never does.
    pub(crate) fn better(&self, a: u32, b: u32) -> u32 {
        let rank = |conjunction: u32| {
            let Installed { rank, .. } = self.conjunctions[conjunction];
            rank
        };
        match (a, b) {
            (0, other) | (other, 0) => other,
            _ if rank(b) > rank(a) => b,
            _ => a,
        }
    }
}
