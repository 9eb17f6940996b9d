//! The steps of an installation, up to the code.

use crate::classifier::{Classifier, FilterId, Progress, Stage};
use crate::conjunction::Conjunction;
use crate::containment::is_contained;
use crate::edges::Growth;
use crate::find::{Cursor, Fuel, Place};
use crate::job::{Bound, Phase, Regrowth};
use crate::limit;
use crate::link::Attachment;
use crate::overlap::Verdict;
use crate::refusal::{Reason, Refusal, Resource};
use crate::shape;
use crate::specificity::{Rank, age, range_bits};
use crate::structure::{Cell, Installed};

type Outcome = Result<Progress, Refusal>;

impl Classifier<'_> {
    /// Checks one conjunction and copies it into cells.
    pub(crate) fn check_next(&mut self) -> Outcome {
        let filter = self.filters[self.job.filter];
        if self.job.number == filter.conjunctions as usize {
            return Ok(self.begin_containment());
        }
        let rest = &self.incoming[self.job.atom..filter.atoms as usize];
        let length = rest.iter().take_while(|atom| usize::from(atom.conjunction) == self.job.number).count();
        let checked = Conjunction::check(self.job.number, &rest[..length])?;
        let index = self.structure.conjunctions.take().ok_or(Refusal::whole(Reason::Full(Resource::Conjunctions)))?;
        self.structure.conjunctions[index] = Installed {
            filter: self.job.filter,
            number: self.job.number as u8,
            shape: shape::ROOT,
            ..Installed::default()
        };
        match self.job.conjunction {
            0 => self.filters[self.job.filter].first_conjunction = index,
            last => self.structure.conjunctions[last].next = index,
        }
        self.job.conjunction = index;
        self.job.number += 1;
        self.job.atom += length;
        self.copy_conditions(index, &checked)?;
        self.job.cell = self.structure.conjunctions[index].first;
        self.job.phase = Phase::Intern;
        Ok(Progress::Again)
    }

    fn copy_conditions(&mut self, index: u32, checked: &Conjunction) -> Result<(), Refusal> {
        for condition in checked.conditions().iter().rev() {
            let cell = self.structure.cells.take().ok_or(Refusal::whole(Reason::Full(Resource::Atoms)))?;
            let next = self.structure.conjunctions[index].first;
            self.structure.cells[cell] = Cell { condition: *condition, next, ..Cell::default() };
            self.structure.conjunctions[index].first = cell;
        }
        Ok(())
    }

    /// Interns the tests of the conjunction just checked.
    pub(crate) fn intern(&mut self, fuel: &mut Fuel) -> Outcome {
        let owner = self.filters[self.job.filter].owner;
        let account = &mut self.accounts[owner as usize];
        let structure = &mut self.structure;
        while self.job.cell != 0 && fuel.spend(1) {
            let cell = &mut structure.cells[self.job.cell];
            let conjunction = &mut structure.conjunctions[self.job.conjunction];
            let limit = account.quota.shapes;
            let shape = structure.shapes.intern(
                conjunction.shape,
                &cell.condition.test,
                owner,
                limit,
                &mut account.used.shapes,
                fuel,
            );
            let shape = shape.map_err(|refusal| Refusal { conjunction: Some(conjunction.number), ..refusal })?;
            (cell.shape, conjunction.shape) = (shape, shape);
            if cell.condition.is_range() {
                cell.narrowness = range_bits(&cell.condition);
                fuel.spend(50);
            }
            self.job.cell = cell.next;
        }
        if self.job.cell == 0 {
            self.job.phase = Phase::Rate;
        }
        Ok(Progress::Again)
    }

    /// Computes the rank of the conjunction just interned.
    pub(crate) fn rate(&mut self) -> Outcome {
        let Self { structure, job, filters, .. } = self;
        let index = job.conjunction;
        job.pair.new.set(conditions(structure, index));
        let age = age(filters[job.filter].serial, structure.conjunctions[index].number);
        let mut narrowness = [0; limit::ATOMS];
        let mut cell = structure.conjunctions[index].first;
        for place in &mut narrowness[..job.pair.new.conditions().len()] {
            *place = structure.cells[cell].narrowness;
            cell = structure.cells[cell].next;
        }
        let rank = Rank::new(job.pair.new.conditions(), |index| narrowness[index], age);
        structure.conjunctions[index].rank = rank;
        structure.words.set_rank(index, rank);
        job.phase = Phase::Check;
        Ok(Progress::Again)
    }

    fn begin_containment(&mut self) -> Progress {
        if matches!(self.job.bound, Bound::Nothing) {
            return self.begin_search();
        }
        self.job.conjunction = self.filters[self.job.filter].first_conjunction;
        self.job.phase = Phase::Contain;
        self.begin_parent();
        Progress::Again
    }

    /// Begins with the first conjunction of the parent.
    fn begin_parent(&mut self) {
        if let Bound::Conjunctions(first) = self.job.bound {
            self.job.against = first;
        }
    }

    /// Compares the current conjunction with one after the other of the parent's.
    pub(crate) fn contain(&mut self, fuel: &mut Fuel) -> Outcome {
        let Self { structure, job, .. } = self;
        while job.conjunction != 0 {
            let Installed { number, next, .. } = structure.conjunctions[job.conjunction];
            job.pair.new.set(conditions(structure, job.conjunction));
            let (condition, after) = match job.bound {
                Bound::Condition(condition) => (Some(condition), 0),
                _ => (None, structure.conjunctions[job.against].next),
            };
            match condition {
                Some(condition) => job.pair.installed.set(core::iter::once(condition)),
                None => job.pair.installed.set(conditions(structure, job.against)),
            }
            let (inner, outer) = (job.pair.new.conditions(), job.pair.installed.conditions());
            if is_contained(inner, outer) {
                job.conjunction = next;
                if let Bound::Conjunctions(first) = job.bound {
                    job.against = first;
                }
            } else if after == 0 {
                return Err(Refusal::in_conjunction(number, Reason::NotContained));
            } else {
                job.against = after;
            }
            if !fuel.spend(12 + (inner.len() * outer.len()) as u32 / 2) {
                return Ok(Progress::Again);
            }
        }
        Ok(self.begin_search())
    }

    fn begin_search(&mut self) -> Progress {
        self.job.conjunction = self.filters[self.job.filter].first_conjunction;
        self.job.phase = Phase::Search;
        self.job.searching = false;
        Progress::Again
    }

    /// Looks for an installed conjunction of another owner that the current one might meet.
    pub(crate) fn search(&mut self, fuel: &mut Fuel) -> Outcome {
        if self.job.conjunction == 0 {
            return Ok(self.begin_find());
        }
        self.spend_budget(fuel)?;
        let Self { structure, job, filters, .. } = self;
        if !job.searching {
            job.pair.new.set(conditions(structure, job.conjunction));
            job.search.begin(structure);
            job.searching = true;
        }
        while let Some(found) = job.search.next(structure, job.pair.new.conditions(), fuel) {
            let filter = &filters[structure.conjunctions[found].filter];
            if filter.owner != filters[job.filter].owner {
                job.against = found;
                job.pair.installed.set(conditions(structure, found));
                job.phase = Phase::Compare;
                match job.pair.begin() {
                    Some(Verdict::Apart) => job.phase = Phase::Search,
                    Some(_) => return self.may_overlap(),
                    None => return Ok(Progress::Again),
                }
                let atoms = job.pair.new.conditions().len() * job.pair.installed.conditions().len();
                if !fuel.spend(12 + atoms as u32 / 2) {
                    return Ok(Progress::Again);
                }
            }
        }
        if self.job.search.is_done() {
            self.job.conjunction = self.structure.conjunctions[self.job.conjunction].next;
            self.job.searching = false;
        }
        Ok(Progress::Again)
    }

    /// What a step may spend on looking for overlaps is spent beforehand.
    fn spend_budget(&mut self, fuel: &Fuel) -> Result<(), Refusal> {
        let number = self.structure.conjunctions[self.job.conjunction].number;
        let left = self.job.budget.checked_sub(fuel.0);
        self.job.budget = left.ok_or(Refusal::in_conjunction(number, Reason::TooCostly))?;
        Ok(())
    }

    /// A pair that is too much to decide: an overlap, unless a key is held, which the next step asks.
    fn may_overlap(&mut self) -> Outcome {
        self.job.pair.leave_undecided();
        Ok(Progress::Again)
    }

    /// Decides about the pair found.
    pub(crate) fn compare(&mut self, fuel: &mut Fuel, holds_key: &mut dyn FnMut(FilterId, u32) -> bool) -> Outcome {
        self.spend_budget(fuel)?;
        let Some(verdict) = self.job.pair.run(fuel, &mut self.job.witness) else { return Ok(Progress::Again) };
        self.job.phase = Phase::Search;
        let slot = self.structure.conjunctions[self.job.against].filter;
        let filter = self.id(slot);
        if verdict == Verdict::Apart || holds_key(filter, self.filters[slot].owner) {
            return Ok(Progress::Again);
        }
        let number = self.structure.conjunctions[self.job.conjunction].number;
        Err(Refusal::in_conjunction(number, Reason::Overlap { filter, exact: verdict == Verdict::Meet }))
    }

    fn begin_find(&mut self) -> Progress {
        self.job.conjunction = self.filters[self.job.filter].first_conjunction;
        self.job.phase = Phase::Find;
        self.job.cursor = None;
        Progress::Again
    }

    /// Finds the place of the current conjunction.
    pub(crate) fn find(&mut self, fuel: &mut Fuel) -> Outcome {
        if self.job.conjunction == 0 {
            let slot = self.job.filter;
            self.filters[slot].stage = Stage::Installed;
            self.job.phase = Phase::Idle;
            return Ok(Progress::Installed(self.id(slot)));
        }
        let mut cursor = self.job.cursor.unwrap_or_else(|| Cursor::new(&self.structure, self.job.conjunction));
        let place = cursor.advance(&self.structure, fuel);
        self.job.cursor = Some(cursor);
        if let Some(place) = place {
            self.job.phase = Phase::Build(place);
        }
        Ok(Progress::Again)
    }

    /// Builds what the place lacks, and attaches it unless a table must grow first.
    pub(crate) fn build(&mut self, place: Place) -> Outcome {
        let attachment = self.structure.build(place, self.job.conjunction)?;
        self.job.attachment = Some(attachment);
        match attachment {
            Attachment::Edge { branch, record }
                if !self.structure.branches[branch]
                    .edges
                    .has_room(&self.structure.words, self.structure.words.key(record)) =>
            {
                self.begin_growth(branch)
            }
            _ => Ok(self.attach()),
        }
    }

    fn begin_growth(&mut self, branch: u32) -> Outcome {
        let edges = self.structure.branches[branch].edges;
        let multiplier = self.random.next();
        match Growth::begin(&mut self.structure.words, &edges, multiplier) {
            Ok(growth) => {
                self.job.regrowth = Some(Regrowth { branch, growth, old: None });
                self.job.phase = Phase::Grow;
                Ok(Progress::Again)
            }
            Err(refusal) => {
                self.drop_attachment();
                Err(refusal)
            }
        }
    }

    /// Fills the larger table; when it is full of all, attaches.
    pub(crate) fn grow(&mut self, fuel: &mut Fuel) -> Outcome {
        let (Some(mut regrowth), Some(Attachment::Edge { branch, record })) = (self.job.regrowth, self.job.attachment)
        else {
            return Ok(Progress::Again);
        };
        let edges = self.structure.branches[branch].edges;
        let key = self.structure.words.key(record);
        let multiplier = self.random.next();
        let filled = regrowth.growth.step(&mut self.structure.words, &edges, fuel.0 / 4, multiplier);
        if filled && !regrowth.growth.table.has_room(&self.structure.words, key) {
            regrowth.growth.restart(multiplier);
        } else if filled {
            regrowth.old = Some(edges);
            self.structure.branches[branch].edges = regrowth.growth.table;
        }
        self.job.regrowth = Some(regrowth);
        match regrowth.old {
            Some(_) => Ok(self.attach()),
            None => Ok(Progress::Again),
        }
    }

    /// Attaches what was built, at once or when its code is published, and lists the code to emit.
    fn attach(&mut self) -> Progress {
        let Some(attachment) = self.job.attachment else { return Progress::Again };
        self.job.emission.clear();
        self.list_new_tails(attachment);
        let grown = self.job.regrowth.is_some();
        self.job.deferred = false;
        match attachment {
            Attachment::Branch { branch } => self.attach_branch(branch, attachment),
            Attachment::Edge { branch, .. } | Attachment::Replace { branch, .. } => {
                if self.structure.branches[branch].edges.is_table() && !grown {
                    self.job.deferred = true;
                    self.list_new_branches(attachment);
                } else {
                    self.structure.attach(attachment);
                    let holder = self.structure.piece_holder(branch);
                    self.job.emission.want_branch(holder);
                }
            }
            Attachment::Accept { .. } => self.structure.attach(attachment),
        }
        self.job.phase = Phase::Emit;
        Progress::Again
    }

    /// A state that was part of its parent's piece stops being so when it gets a second branch.
    fn attach_branch(&mut self, branch: u32, attachment: Attachment) {
        let state = self.structure.branches[branch].state;
        let sibling = self.structure.states[state].first_branch;
        let wanted = match sibling {
            0 => branch,
            _ if self.structure.branches[sibling].code.offset != 0 => branch,
            _ => self.structure.piece_holder(sibling),
        };
        self.structure.attach(attachment);
        self.job.emission.want_branch(wanted);
    }
}

/// The conditions of an installed conjunction.
fn conditions<'s>(
    structure: &'s crate::structure::Structure<'_>,
    conjunction: u32,
) -> impl Iterator<Item = crate::condition::Condition> + 's {
    let mut cell = structure.conjunctions[conjunction].first;
    core::iter::from_fn(move || {
        let here = (cell != 0).then(|| structure.cells[cell])?;
        cell = here.next;
        Some(here.condition)
    })
}
