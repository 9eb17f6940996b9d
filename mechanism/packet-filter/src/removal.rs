//! The steps of a removal. A refused installation ends here too.

use crate::classifier::{Classifier, Progress};
use crate::edges::Growth;
use crate::find::{Cursor, Fuel, Place};
use crate::job::{Phase, Regrowth};
use crate::refusal::Refusal;
use crate::shape;
use crate::unlink::{Cut, Severed};

type Outcome = Result<Progress, Refusal>;

impl Classifier<'_> {
    /// Finds the filter's next conjunction and cuts it out.
    pub(crate) fn locate(&mut self, fuel: &mut Fuel) -> Outcome {
        let conjunction = self.filters[self.job.filter].first_conjunction;
        if conjunction == 0 {
            return Ok(self.finish_removal());
        }
        self.job.conjunction = conjunction;
        if !self.structure.conjunctions[conjunction].linked {
            self.job.phase = Phase::Release;
            return Ok(Progress::Again);
        }
        let mut cursor = self.job.cursor.unwrap_or_else(|| Cursor::new(&self.structure, conjunction));
        let place = cursor.advance(&self.structure, fuel);
        self.job.cursor = Some(cursor);
        match place {
            None => {}
            Some(Place::End { state }) => {
                let cut = self.structure.remove_accepted(state, conjunction);
                self.after_cut(cut, None);
            }
            Some(Place::Leaf { branch, key, .. }) => {
                let cut = self.structure.remove_edge(branch, key);
                self.after_cut(cut, Some(branch));
            }
            Some(Place::NoBranch { .. } | Place::NoEdge { .. }) => unreachable!("a linked conjunction has its place"),
        }
        Ok(Progress::Again)
    }

    /// Lists the code to write again, or begins to shrink a table that has become sparse.
    fn after_cut(&mut self, cut: Cut, leaf_branch: Option<u32>) {
        self.structure.conjunctions[self.job.conjunction].linked = false;
        self.job.severed = cut.severed;
        self.job.emission.clear();
        self.job.phase = Phase::Emit;
        if let Some(branch) = cut.changed {
            let holder = self.structure.piece_holder(branch);
            self.job.emission.want_branch(holder);
        }
        let still_there = !matches!(cut.severed, Severed::Branch(_));
        if let Some(branch) = leaf_branch.filter(|_| still_there) {
            self.begin_shrinking(branch);
        }
    }

    /// A smaller table saves words; without room for one the larger stays.
    fn begin_shrinking(&mut self, branch: u32) {
        let edges = self.structure.branches[branch].edges;
        if !edges.is_sparse() {
            return;
        }
        let multiplier = self.random.next();
        if let Ok(growth) = Growth::begin(&mut self.structure.words, &edges, multiplier) {
            self.job.regrowth = Some(Regrowth { branch, growth, old: None });
            self.job.phase = Phase::Shrink;
        }
    }

    /// Fills the smaller table, then has its branch's code written again.
    pub(crate) fn shrink(&mut self, fuel: &mut Fuel) -> Outcome {
        let Some(mut regrowth) = self.job.regrowth else { return Ok(Progress::Again) };
        let edges = self.structure.branches[regrowth.branch].edges;
        let multiplier = self.random.next();
        if regrowth.growth.step(&mut self.structure.words, &edges, fuel.0 / 4, multiplier) {
            regrowth.old = Some(edges);
            self.structure.branches[regrowth.branch].edges = regrowth.growth.table;
            let holder = self.structure.piece_holder(regrowth.branch);
            self.job.emission.want_branch(holder);
            self.job.phase = Phase::Emit;
        }
        self.job.regrowth = Some(regrowth);
        Ok(Progress::Again)
    }

    /// Gives back a conjunction's shapes, its conditions, then itself.
    pub(crate) fn release(&mut self, fuel: &mut Fuel) -> Outcome {
        let index = self.job.conjunction;
        let Self { structure, accounts, filters, job, .. } = self;
        while fuel.spend(2) {
            let conjunction = &mut structure.conjunctions[index];
            if conjunction.shape != shape::ROOT {
                let shape = conjunction.shape;
                conjunction.shape = structure.shapes.pool[shape].parent;
                if let Some(owner) = structure.shapes.release(shape, fuel) {
                    accounts[owner as usize].used.shapes -= 1;
                }
            } else if conjunction.first != 0 {
                let cell = conjunction.first;
                conjunction.first = structure.cells[cell].next;
                structure.cells.give(cell);
            } else {
                filters[job.filter].first_conjunction = conjunction.next;
                structure.conjunctions.give(index);
                job.phase = Phase::Locate;
                job.cursor = None;
                break;
            }
        }
        Ok(Progress::Again)
    }

    fn finish_removal(&mut self) -> Progress {
        let slot = self.job.filter;
        let id = self.id(slot);
        let filter = self.filters[slot];
        self.accounts[filter.owner as usize].refund(filter.conjunctions, filter.atoms);
        self.filters.give(slot);
        self.filters[slot].stage = crate::classifier::Stage::Free;
        self.job.phase = Phase::Idle;
        match self.job.refusal.take() {
            Some(refusal) => Progress::Refused(refusal),
            None => Progress::Removed(id),
        }
    }
}
