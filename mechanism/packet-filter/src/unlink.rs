//! Taking a conjunction out of the structure, and taking apart what nothing reaches.
//!
//! What is cut off is a chain: every state on it has one branch and every branch one edge. The cut is made at the
//! first place where that is not so.

use crate::link::Attachment;
use crate::record;
use crate::structure::{ROOT, Structure};
use crate::target::Target;
use crate::words::Words;

/// What a cut has separated from the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severed {
    /// Nothing.
    Nothing,
    /// An edge and all behind it.
    Edge(u32),
    /// A branch and all behind it.
    Branch(u32),
}

/// A cut: what was separated, and the branch whose code must be written again, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) severed: Severed,
    pub(crate) changed: Option<u32>,
}

impl Structure<'_> {
    /// Removes a conjunction that is one of those accepted at this state.
    pub(crate) fn remove_accepted(&mut self, state: u32, conjunction: u32) -> Cut {
        let was_first = self.states[state].first_accepted == conjunction;
        self.unlist_accepted(state, conjunction);
        let Some(branch) = self.branch_with_shape(state, 0).filter(|_| was_first) else {
            return Cut { severed: Severed::Nothing, changed: None };
        };
        match self.states[state].first_accepted {
            0 => self.remove_branch(branch, Severed::Branch(branch)),
            first => {
                let record = self.branches[branch].edges.only(&self.words);
                self.words.set(record + record::TARGET, Target::Accept(first).word());
                Cut { severed: Severed::Nothing, changed: Some(branch) }
            }
        }
    }

    fn unlist_accepted(&mut self, state: u32, conjunction: u32) {
        let (before, after) = {
            let installed = &self.conjunctions[conjunction];
            (installed.accepted_before, installed.accepted_after)
        };
        match before {
            0 => self.states[state].first_accepted = after,
            _ => self.conjunctions[before].accepted_after = after,
        }
        match after {
            0 => self.states[state].last_accepted = before,
            _ => self.conjunctions[after].accepted_before = before,
        }
    }

    /// Removes an edge, and what has no other edge above it.
    pub(crate) fn remove_edge(&mut self, branch: u32, key: u32) -> Cut {
        if self.branches[branch].edges.count == 1 {
            return self.remove_branch(branch, Severed::Branch(branch));
        }
        self.cut_edge(branch, key)
    }

    /// Removes one of several edges.
    fn cut_edge(&mut self, branch: u32, key: u32) -> Cut {
        let Self { branches, words, .. } = self;
        let edges = &mut branches[branch].edges;
        let severed = Severed::Edge(edges.find(words, key));
        edges.remove(words, key);
        Cut { severed, changed: (!edges.is_table()).then_some(branch) }
    }

    fn remove_branch(&mut self, branch: u32, severed: Severed) -> Cut {
        let state = self.branches[branch].state;
        let alone = self.states[state].first_branch == branch && self.branches[branch].next == 0;
        if alone && state != ROOT {
            let (parent, key) = self.states[state].parent;
            return self.cut_upwards(parent, key);
        }
        self.unlist_branch(branch);
        Cut { severed, changed: None }
    }

    /// Cuts the edge that leads to a state which is about to go.
    fn cut_upwards(&mut self, mut branch: u32, mut key: u32) -> Cut {
        loop {
            if self.branches[branch].edges.count > 1 {
                return self.cut_edge(branch, key);
            }
            let state = self.branches[branch].state;
            let alone = self.states[state].first_branch == branch && self.branches[branch].next == 0;
            if !alone || state == ROOT {
                self.unlist_branch(branch);
                return Cut { severed: Severed::Branch(branch), changed: None };
            }
            (branch, key) = self.states[state].parent;
        }
    }

    /// Takes a branch out of its state's list; compiled code then passes it by.
    pub(crate) fn unlist_branch(&mut self, branch: u32) {
        let (state, next) = (self.branches[branch].state, self.branches[branch].next);
        if self.states[state].first_branch == branch {
            self.states[state].first_branch = next;
            self.words.set(Words::entry_of(state), self.entry_code(state, next));
        } else {
            let before = self.branch_before(branch);
            self.branches[before].next = next;
            self.words.set(self.words.next_of(before), self.code_after(state, next));
        }
    }

    /// The branch before this one in its state's list.
    pub(crate) fn branch_before(&self, branch: u32) -> u32 {
        let mut before = self.states[self.branches[branch].state].first_branch;
        while self.branches[before].next != branch {
            before = self.branches[before].next;
        }
        before
    }

    /// Undoes an attachment that has just been made.
    pub(crate) fn detach(&mut self, attachment: Attachment) {
        match attachment {
            Attachment::Branch { branch } => {
                self.unlist_branch(branch);
                if self.branches[branch].shape == 0 {
                    let state = self.branches[branch].state;
                    self.states[state].first_accepted = 0;
                    self.states[state].last_accepted = 0;
                }
            }
            Attachment::Edge { branch, record } => {
                let Self { branches, words, .. } = self;
                branches[branch].edges.remove(words, words.key(record));
            }
            Attachment::Replace { branch, old, .. } => self.branches[branch].edges.replace(&mut self.words, old),
            Attachment::Accept { state, conjunction } => self.unlist_accepted(state, conjunction),
        }
    }

    /// What an attachment has brought, once it is detached or was never made.
    pub(crate) fn brought_by(attachment: Attachment) -> Severed {
        match attachment {
            Attachment::Branch { branch } => Severed::Branch(branch),
            Attachment::Edge { record, .. } | Attachment::Replace { record, .. } => Severed::Edge(record),
            Attachment::Accept { .. } => Severed::Nothing,
        }
    }
}

/// What taking apart needs from the owner of the code arena.
pub(crate) trait CodeBlocks {
    /// Gives a piece of code back; none is fine.
    fn give_piece(&mut self, piece: crate::structure::Piece);
}

impl Structure<'_> {
    /// Takes apart what nothing reaches any more: a chain that may fork at its end.
    pub(crate) fn discard(&mut self, severed: Severed, code: &mut impl CodeBlocks) {
        let mut waiting = [Severed::Nothing; 4];
        let mut count = 1;
        waiting[0] = severed;
        while count > 0 {
            count -= 1;
            match waiting[count] {
                Severed::Nothing => {}
                Severed::Edge(record) => {
                    let Target::State(state) = self.words.target(record) else {
                        self.release_leaf_code(record, code);
                        continue;
                    };
                    let mut branch = self.states[state].first_branch;
                    while branch != 0 && count < waiting.len() {
                        waiting[count] = Severed::Branch(branch);
                        count += 1;
                        branch = self.branches[branch].next;
                    }
                    self.states.give(state);
                    self.words.give(record, record::HEAD);
                }
                Severed::Branch(branch) => {
                    let edges = self.branches[branch].edges;
                    let ends = if edges.is_table() { 1 } else { edges.count.min(2) };
                    for slot in 0..ends {
                        let record =
                            if edges.is_table() { edges.only(&self.words) } else { edges.slot(&self.words, slot) };
                        waiting[count] = Severed::Edge(record);
                        count += 1;
                    }
                    edges.release(&mut self.words);
                    code.give_piece(self.branches[branch].code);
                    self.branches.give(branch);
                }
            }
        }
    }

    /// Gives back a leaf that no code was made for.
    pub(crate) fn release_leaf(&mut self, record: u32) {
        struct NoCode;
        impl CodeBlocks for NoCode {
            fn give_piece(&mut self, piece: crate::structure::Piece) {
                debug_assert_eq!(piece.offset, 0);
            }
        }
        self.release_leaf_code(record, &mut NoCode);
    }

    /// Gives back a leaf: its record, and its tail when no other record uses it.
    pub(crate) fn release_leaf_code(&mut self, record: u32, code: &mut impl CodeBlocks) {
        let Target::Tail { conjunction, length, .. } = self.words.target(record) else {
            return self.words.give(record, record::HEAD);
        };
        let tail = self.find_tail(self.conjunctions[conjunction].shape, length);
        let (_, constants) = self.measure(self.last_conditions(conjunction, length));
        self.words.give(record, record::CONSTANTS + constants);
        self.tails[tail].references -= 1;
        if self.tails[tail].references == 0 {
            code.give_piece(self.tails[tail].code);
            self.unlist_tail(tail);
            self.tails.give(tail);
        }
    }

    fn unlist_tail(&mut self, tail: u32) {
        let (shape, next) = (self.tails[tail].shape, self.tails[tail].next);
        let mut before = self.shapes.pool[shape].tails;
        if before == tail {
            self.shapes.pool[shape].tails = next;
            return;
        }
        while self.tails[before].next != tail {
            before = self.tails[before].next;
        }
        self.tails[before].next = next;
    }
}
