//! Putting one conjunction into the structure: build first, attach last.
//!
//! What is new is built where nothing reaches it; this may fail, and then it is taken apart again.
//! Attaching is one change at one place: a new branch, a new edge, or an edge that leads elsewhere. A
//! leaf in the way is split: what both conjunctions have in common becomes a chain of states, at
//! whose end they part.

use crate::edges::{Edges, LIST};
use crate::find::{Place, edge_key};
use crate::limit;
use crate::record;
use crate::refusal::{Reason, Refusal, Resource};
use crate::structure::{Branch, State, Structure, Tail};
use crate::target::Target;

/// The one change that puts something into the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// A new first branch of its state.
    Branch { branch: u32 },
    /// A new edge.
    Edge { branch: u32, record: u32 },
    /// An edge in the place of `old`.
    Replace { branch: u32, record: u32, old: u32 },
    /// One more conjunction that ends where another does.
    Accept { state: u32, conjunction: u32 },
}

/// Blocks for lists and for the records of edges that lead to no tail, taken in advance, so that building cannot stop
/// half way.
struct Supply {
    next: u32,
    left: u32,
}

impl Supply {
    const BLOCK: u32 = LIST;

    fn take(structure: &mut Structure<'_>, count: usize) -> Result<Self, Refusal> {
        let left = count as u32;
        Ok(Self { next: structure.words.take_run(Self::BLOCK, left)?, left })
    }

    /// Gives back what was not used.
    fn release(&self, structure: &mut Structure<'_>) {
        for index in 0..self.left {
            structure.words.give(self.next + Self::BLOCK * index, Self::BLOCK);
        }
    }

    fn block(&mut self) -> u32 {
        let block = self.next;
        self.next += Self::BLOCK;
        self.left -= 1;
        block
    }

    fn list(&mut self) -> Edges {
        Edges { block: self.block(), order: LIST.ilog2(), ..Edges::default() }
    }
}

const _: () = assert!(record::HEAD <= Supply::BLOCK);

/// Two conjunctions that share an edge, and what remains of each.
#[derive(Clone, Copy)]
struct Fork {
    old: (u32, u32),
    new: (u32, u32),
}

impl Structure<'_> {
    /// Builds what a place lacks for this conjunction.
    pub(crate) fn build(&mut self, place: Place, conjunction: u32) -> Result<Attachment, Refusal> {
        self.check_room()?;
        match place {
            Place::End { state } if self.states[state].first_accepted != 0 => {
                Ok(Attachment::Accept { state, conjunction })
            }
            Place::End { state } => {
                let mut supply = Supply::take(self, 2)?;
                Ok(Attachment::Branch { branch: self.accepting_branch(state, conjunction, &mut supply) })
            }
            Place::NoBranch { state, cell } => {
                let mut supply = Supply::take(self, 1)?;
                let record = self.leaf_for(conjunction, cell).inspect_err(|_| supply.release(self))?;
                let branch = self.new_branch(state, self.cells[cell].shape, &mut supply);
                self.add_edge(branch, record);
                Ok(Attachment::Branch { branch })
            }
            Place::NoEdge { branch, cell } => {
                Ok(Attachment::Edge { branch, record: self.leaf_for(conjunction, cell)? })
            }
            Place::Leaf { branch, key, depth, cell } => {
                let old = self.branches[branch].edges.find(&self.words, key);
                let other = self.words.target(old).leaf().unwrap_or(0);
                let fork = Fork { old: (other, self.conditions_from(other, depth)), new: (conjunction, cell) };
                Ok(Attachment::Replace { branch, record: self.split(fork, (branch, key))?, old })
            }
        }
    }

    /// Enough records for the longest chain.
    fn check_room(&self) -> Result<(), Refusal> {
        let most = limit::ATOMS as u32 + 2;
        if self.states.left() < most {
            return Err(Refusal::whole(Reason::Full(Resource::States)));
        }
        if self.branches.left() < most {
            return Err(Refusal::whole(Reason::Full(Resource::Branches)));
        }
        Ok(())
    }

    /// The edge for one condition of a conjunction, to what remains behind it.
    fn leaf_for(&mut self, conjunction: u32, cell: u32) -> Result<u32, Refusal> {
        let (key, rest) = (edge_key(self, cell), self.cells[cell].next);
        let (length, constants) = self.measure(rest);
        let record = self.words.take(record::CONSTANTS + constants)?;
        if rest == 0 {
            self.words.set_record(record, key, self.words.stubs.accept, Target::Accept(conjunction));
            return Ok(record);
        }
        let tail = self.tail_for(self.conjunctions[conjunction].shape, length).inspect_err(|_| {
            self.words.give(record, record::CONSTANTS + constants);
        })?;
        let target = Target::Tail { conjunction, length, long: constants > record::HEAD - record::CONSTANTS };
        self.words.set_record(record, key, self.tails[tail].code.offset, target);
        self.write_constants(record + record::CONSTANTS, rest);
        Ok(record)
    }

    fn write_constants(&mut self, mut at: u32, mut cell: u32) {
        while cell != 0 {
            let condition = self.cells[cell].condition;
            if condition.test.kind == crate::condition::Kind::Equal {
                self.words.set(at, condition.test.raw(condition.value));
                at += 1;
            }
            cell = self.cells[cell].next;
        }
    }

    /// The tail of a shape with this length, with one reference more.
    fn tail_for(&mut self, shape: u32, length: u32) -> Result<u32, Refusal> {
        let mut tail = self.find_tail(shape, length);
        if tail == 0 {
            tail = self.tails.take().ok_or(Refusal::whole(Reason::Full(Resource::Tails)))?;
            let next = self.shapes.pool[shape].tails;
            self.tails[tail] = Tail { shape, length, next, ..Tail::default() };
            self.shapes.pool[shape].tails = tail;
        }
        self.tails[tail].references += 1;
        Ok(tail)
    }

    /// The tail of a shape with this length; 0 for none.
    pub(crate) fn find_tail(&self, shape: u32, length: u32) -> u32 {
        let mut tail = self.shapes.pool[shape].tails;
        while tail != 0 && self.tails[tail].length != length {
            tail = self.tails[tail].next;
        }
        tail
    }

    /// The tail that an edge leads to; `None` if it leads to something else.
    pub(crate) fn tail_of(&self, record: u32) -> Option<u32> {
        let Target::Tail { conjunction, length, .. } = self.words.target(record) else { return None };
        Some(self.find_tail(self.conjunctions[conjunction].shape, length))
    }

    /// A branch of a state, not yet in its list.
    fn new_branch(&mut self, state: u32, shape: u32, supply: &mut Supply) -> u32 {
        let branch = self.branches.take().unwrap_or_default();
        self.branches[branch] = Branch { shape, state, edges: supply.list(), ..Branch::default() };
        branch
    }

    fn add_edge(&mut self, branch: u32, record: u32) {
        let Self { branches, words, .. } = self;
        branches[branch].edges.add(words, record);
    }

    /// An edge to a state.
    fn edge_to_state(&mut self, key: u32, state: u32, supply: &mut Supply) -> u32 {
        let record = supply.block();
        self.words.set_record(record, key, self.words.stubs.enter, Target::State(state));
        record
    }

    fn accepting_branch(&mut self, state: u32, conjunction: u32, supply: &mut Supply) -> u32 {
        let branch = self.new_branch(state, 0, supply);
        let record = supply.block();
        self.words.set_record(record, 0, self.words.stubs.accept, Target::Accept(conjunction));
        self.add_edge(branch, record);
        branch
    }

    /// Puts a branch first in its state's list.
    fn push_branch(&mut self, branch: u32) {
        let state = &mut self.states[self.branches[branch].state];
        self.branches[branch].next = state.first_branch;
        state.first_branch = branch;
    }

    /// An edge to a chain of states for what two conjunctions have in common, and their parting.
    fn split(&mut self, fork: Fork, parent: (u32, u32)) -> Result<u32, Refusal> {
        let (common, last) = self.common_prefix(fork);
        let mut supply = Supply::take(self, 2 * common + 4)?;
        let leaves = self.leaves_after(last).inspect_err(|_| supply.release(self))?;
        let top = self.new_state(parent);
        let (mut state, mut cell) = (top, fork.new.1);
        for _ in 0..common {
            let branch = self.new_branch(state, self.cells[cell].shape, &mut supply);
            self.push_branch(branch);
            let key = edge_key(self, cell);
            state = self.new_state((branch, key));
            let record = self.edge_to_state(key, state, &mut supply);
            self.add_edge(branch, record);
            cell = self.cells[cell].next;
        }
        self.part(state, last, leaves, &mut supply);
        let record = self.edge_to_state(parent.1, top, &mut supply);
        supply.release(self);
        Ok(record)
    }

    fn new_state(&mut self, parent: (u32, u32)) -> u32 {
        let state = self.states.take().unwrap_or_default();
        self.states[state] = State { parent, ..State::default() };
        state
    }

    /// How many conditions are the same, and what remains after them.
    fn common_prefix(&self, mut fork: Fork) -> (usize, Fork) {
        let mut common = 0;
        while fork.old.1 != 0 && fork.new.1 != 0 && self.same_edge(fork.old.1, fork.new.1) {
            common += 1;
            fork.old.1 = self.cells[fork.old.1].next;
            fork.new.1 = self.cells[fork.new.1].next;
        }
        (common, fork)
    }

    fn same_edge(&self, a: u32, b: u32) -> bool {
        self.cells[a].shape == self.cells[b].shape && edge_key(self, a) == edge_key(self, b)
    }

    /// The edges for the condition in which they differ; none for one that ends before it.
    fn leaves_after(&mut self, fork: Fork) -> Result<[u32; 2], Refusal> {
        let leaf = |structure: &mut Self, (conjunction, cell): (u32, u32)| {
            if cell == 0 { Ok(0) } else { structure.leaf_for(conjunction, cell) }
        };
        let old = leaf(self, fork.old)?;
        let new = leaf(self, fork.new).inspect_err(|_| {
            if old != 0 {
                self.release_leaf(old);
            }
        })?;
        Ok([old, new])
    }

    /// Lets two conjunctions part at a state: older first, so that the newer branch stands first.
    fn part(&mut self, state: u32, fork: Fork, leaves: [u32; 2], supply: &mut Supply) {
        for ((conjunction, cell), leaf) in [fork.old, fork.new].into_iter().zip(leaves) {
            if cell == 0 {
                self.accept_at(state, conjunction, supply);
                continue;
            }
            let shape = self.cells[cell].shape;
            let branch = match self.branch_with_shape(state, shape) {
                Some(branch) => branch,
                None => {
                    let branch = self.new_branch(state, shape, supply);
                    self.push_branch(branch);
                    branch
                }
            };
            self.add_edge(branch, leaf);
        }
    }

    fn accept_at(&mut self, state: u32, conjunction: u32, supply: &mut Supply) {
        if self.states[state].first_accepted == 0 {
            let branch = self.accepting_branch(state, conjunction, supply);
            self.push_branch(branch);
        }
        self.append_accepted(state, conjunction);
    }

    fn append_accepted(&mut self, state: u32, conjunction: u32) {
        let last = self.states[state].last_accepted;
        self.conjunctions[conjunction].accepted_before = last;
        self.conjunctions[conjunction].accepted_after = 0;
        if last == 0 {
            self.states[state].first_accepted = conjunction;
        } else {
            self.conjunctions[last].accepted_after = conjunction;
        }
        self.states[state].last_accepted = conjunction;
    }

    /// Shows an edge again in its table: it was attached before its code was made.
    pub(crate) fn show(&mut self, attachment: Attachment) {
        if let Attachment::Edge { branch, record } | Attachment::Replace { branch, record, .. } = attachment {
            self.branches[branch].edges.replace(&mut self.words, record);
        }
    }

    /// Makes the change. Cannot fail: an edge's table has room.
    pub(crate) fn attach(&mut self, attachment: Attachment) {
        match attachment {
            Attachment::Branch { branch } => {
                self.push_branch(branch);
                if self.branches[branch].shape == 0 {
                    let record = self.branches[branch].edges.only(&self.words);
                    let conjunction = self.words.target(record).leaf().unwrap_or(0);
                    self.append_accepted(self.branches[branch].state, conjunction);
                }
            }
            Attachment::Edge { branch, record } => self.add_edge(branch, record),
            Attachment::Replace { branch, record, .. } => {
                self.branches[branch].edges.replace(&mut self.words, record);
            }
            Attachment::Accept { state, conjunction } => self.append_accepted(state, conjunction),
        }
    }
}
