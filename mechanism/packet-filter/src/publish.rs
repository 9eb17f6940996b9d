//! From a changed structure to code that runs: emit, commit, publish.

use crate::classifier::{Classifier, Patch, Progress};
use crate::generate::{self, Generator, TailProgress};
use crate::job::Phase;
use crate::link::Attachment;
use crate::record;
use crate::refusal::{Reason, Refusal, Resource};
use crate::storage::CODE_UNIT;
use crate::structure::{Piece, ROOT, Structure};
use crate::target::Target;
use crate::unlink::{CodeBlocks, Severed};
use crate::words::Words;

/// Pieces that one change emits at most: two tails, two branches where they part, the branch leading there, and
/// those of a state that was part of a larger piece. The rest is room to spare.
const PIECES: usize = 16;

/// What a piece of code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Branch(u32),
    Tail(u32),
}

/// The pieces that a change needs, and those that are emitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emission {
    works: [Work; PIECES],
    pieces: [Piece; PIECES],
    wanted: usize,
    emitted: usize,
    /// The size of the last one, for its commit.
    size: usize,
    /// How far the tail being written is.
    tail: TailProgress,
}

impl Emission {
    pub(crate) const EMPTY: Self = Self {
        works: [Work::Branch(0); PIECES],
        pieces: [Piece { offset: 0, order: 0 }; PIECES],
        wanted: 0,
        emitted: 0,
        size: 0,
        tail: TailProgress::EMPTY,
    };

    pub(crate) fn clear(&mut self) {
        (self.wanted, self.emitted, self.size) = (0, 0, 0);
        self.tail = TailProgress::EMPTY;
    }

    fn want(&mut self, work: Work) {
        if !self.works[..self.wanted].contains(&work) {
            self.works[self.wanted] = work;
            self.wanted += 1;
        }
    }

    pub(crate) fn want_branch(&mut self, branch: u32) {
        self.want(Work::Branch(branch));
    }

    /// Whether a branch gets a piece of its own.
    pub(crate) fn has_branch(&self, branch: u32) -> bool {
        self.works[..self.wanted].contains(&Work::Branch(branch))
    }

    /// All branches of a state that have no code yet.
    pub(crate) fn want_branches_of(&mut self, structure: &Structure<'_>, state: u32) {
        let mut branch = structure.states[state].first_branch;
        while branch != 0 && structure.branches[branch].code.offset == 0 {
            self.want_branch(branch);
            branch = structure.branches[branch].next;
        }
    }

    fn done(&self) -> impl Iterator<Item = (Work, Piece)> + '_ {
        self.works[..self.emitted].iter().copied().zip(self.pieces[..self.emitted].iter().copied())
    }
}

impl Classifier<'_> {
    /// Puts the entry together; it waits to be committed.
    pub(crate) fn write_stubs(&mut self) -> Result<(), Refusal> {
        let full = Refusal::whole(Reason::Storage(Resource::Code));
        let (size, stubs) = generate::stubs(&self.structure, self.staging).ok_or(full)?;
        let order = code_order(size);
        self.arena.0.take(order).ok_or(full)?;
        self.stub_units = self.arena.0.taken();
        self.structure.words.stubs = stubs;
        self.structure.words.set(Words::entry_of(0), stubs.done);
        self.structure.words.set(Words::entry_of(ROOT), self.structure.entry_code(ROOT, 0));
        self.job.emission.pieces[0] = Piece { offset: 0, order };
        (self.job.emission.emitted, self.job.emission.size) = (1, size);
        self.job.phase = Phase::Boot;
        Ok(())
    }

    pub(crate) fn finish_boot(&mut self) -> Progress {
        self.job.phase = Phase::Idle;
        Progress::Commit
    }

    /// The bytes to commit after [`Progress::Commit`].
    #[must_use]
    pub fn patch(&self) -> Patch<'_> {
        let emission = &self.job.emission;
        let offset = emission.pieces[emission.emitted.saturating_sub(1)].offset as usize;
        Patch { offset, bytes: &self.staging[..emission.size] }
    }

    /// Emits the next piece, or publishes when there is none.
    pub(crate) fn emit(&mut self) -> Result<Progress, Refusal> {
        let index = self.job.emission.emitted;
        if index == self.job.emission.wanted {
            return Ok(self.publish());
        }
        let work = self.job.emission.works[index];
        let size = match self.generate(work) {
            Some(Some(size)) => Some(size),
            Some(None) => return Ok(Progress::Again),
            None => None,
        };
        let full = Refusal::whole(Reason::Full(Resource::Code));
        let placed = size.ok_or(full).and_then(|size| self.place(work, size).map(|piece| (piece, size)));
        let (piece, size) = placed.inspect_err(|_| self.drop_attachment())?;
        self.job.emission.pieces[index] = piece;
        self.job.emission.emitted += 1;
        self.job.emission.size = size;
        self.job.emission.tail = TailProgress::EMPTY;
        Ok(Progress::Commit)
    }

    /// Writes a piece: its size, or nothing yet when there is more to write; `None` when it is too long.
    fn generate(&mut self, work: Work) -> Option<Option<usize>> {
        let (structure, emission, random) = (&self.structure, &mut self.job.emission, &mut self.random);
        match work {
            Work::Branch(branch) => Generator::branch(structure, emission, random, self.staging, branch).map(Some),
            Work::Tail(tail) => {
                let mut progress = emission.tail;
                let size = Generator::tail(structure, emission, random, self.staging, tail, &mut progress);
                self.job.emission.tail = progress;
                size.ok()
            }
        }
    }

    /// A block for a piece. A removal that finds none writes over the piece it replaces, which is not shorter.
    fn place(&mut self, work: Work, size: usize) -> Result<Piece, Refusal> {
        let order = code_order(size);
        if let Some(unit) = self.arena.0.take(order) {
            return Ok(Piece { offset: unit * CODE_UNIT, order });
        }
        match work {
            Work::Branch(branch) if self.job.attachment.is_none() => {
                let piece = self.structure.branches[branch].code;
                assert!(piece.offset != 0 && piece.order >= order, "a removal makes code no longer");
                Ok(piece)
            }
            _ => Err(Refusal::whole(Reason::Full(Resource::Code))),
        }
    }

    /// Undoes a change that is not published: whatever was attached, built and emitted.
    pub(crate) fn drop_attachment(&mut self) {
        for (_, piece) in self.job.emission.done() {
            self.arena.give_piece(piece);
        }
        let attached = self.job.phase == Phase::Emit && !self.job.deferred;
        let Some(attachment) = self.job.attachment.take() else { return };
        match self.job.regrowth.take() {
            Some(regrowth) => {
                if let Some(old) = regrowth.old {
                    self.structure.branches[regrowth.branch].edges = old;
                }
                regrowth.growth.table.release(&mut self.structure.words);
            }
            None if attached => self.structure.detach(attachment),
            None => {}
        }
        self.structure.discard(Structure::brought_by(attachment), &mut self.arena);
        self.job.emission.clear();
    }

    /// Makes the emitted code the one that runs, and gives back what it replaces.
    fn publish(&mut self) -> Progress {
        let emission = self.job.emission;
        let mut replaced = [Piece::default(); PIECES];
        for ((work, piece), old) in emission.done().zip(&mut replaced) {
            let code = match work {
                Work::Branch(branch) => &mut self.structure.branches[branch].code,
                Work::Tail(tail) => &mut self.structure.tails[tail].code,
            };
            *old = core::mem::replace(code, piece);
        }
        for (work, _) in emission.done() {
            if let Work::Branch(branch) = work {
                self.structure.lead_to(branch);
            }
        }
        for ((_, piece), old) in emission.done().zip(replaced) {
            if old != piece {
                self.arena.give_piece(old);
            }
        }
        self.finish_change()
    }

    /// What remains after the code is in place.
    fn finish_change(&mut self) -> Progress {
        if let Some(old) = self.job.regrowth.take().and_then(|regrowth| regrowth.old) {
            old.release(&mut self.structure.words);
        }
        match self.job.attachment.take() {
            Some(attachment) => self.finish_attachment(attachment),
            None => {
                let severed = core::mem::replace(&mut self.job.severed, Severed::Nothing);
                self.structure.discard(severed, &mut self.arena);
                self.job.phase = Phase::Release;
            }
        }
        self.job.emission.clear();
        self.job.cursor = None;
        Progress::Again
    }

    fn finish_attachment(&mut self, attachment: Attachment) {
        let Self { structure, arena, job, .. } = self;
        for_new_leaves(structure, attachment, |structure, leaf| {
            if let Some(tail) = structure.tail_of(leaf) {
                structure.words.set(leaf + record::CODE, structure.tails[tail].code.offset);
            }
        });
        if job.deferred {
            structure.attach(attachment);
        } else {
            structure.show(attachment);
        }
        if let Attachment::Replace { old, .. } = attachment {
            structure.release_leaf_code(old, arena);
        }
        structure.conjunctions[job.conjunction].linked = true;
        job.conjunction = structure.conjunctions[job.conjunction].next;
        job.phase = Phase::Find;
    }

    /// Lists the tails of what was built that have no code.
    pub(crate) fn list_new_tails(&mut self, attachment: Attachment) {
        let Self { structure, job, .. } = self;
        for_new_leaves(structure, attachment, |structure, leaf| {
            if let Some(tail) = structure.tail_of(leaf)
                && structure.tails[tail].code.offset == 0
            {
                job.emission.want(Work::Tail(tail));
            }
        });
    }

    /// Lists the branches that an edge in a hash table will lead to.
    pub(crate) fn list_new_branches(&mut self, attachment: Attachment) {
        if let Severed::Edge(record) = Structure::brought_by(attachment)
            && let Target::State(state) = self.structure.words.target(record)
        {
            self.job.emission.want_branches_of(&self.structure, state);
        }
    }
}

impl Structure<'_> {
    /// Makes compiled code find a branch's piece, and behind it the next one.
    fn lead_to(&mut self, branch: u32) {
        let (state, next) = (self.branches[branch].state, self.branches[branch].next);
        self.words.set(self.words.next_of(branch), self.code_after(state, next));
        if self.states[state].first_branch == branch {
            self.words.set(Words::entry_of(state), self.entry_code(state, branch));
        } else {
            self.words.set(self.words.next_of(self.branch_before(branch)), self.code_after(state, branch));
        }
    }
}

/// Visits the leaves of what was built: a chain that may fork at its end.
fn for_new_leaves(
    structure: &mut Structure<'_>,
    attachment: Attachment,
    mut visit: impl FnMut(&mut Structure<'_>, u32),
) {
    let mut waiting = [0; 6];
    let mut count = 0;
    let list = |structure: &Structure<'_>, branch: u32, waiting: &mut [u32; 6], count: &mut usize| {
        let edges = structure.branches[branch].edges;
        for slot in 0..edges.count.min(2) {
            waiting[*count] = edges.slot(&structure.words, slot);
            *count += 1;
        }
    };
    match Structure::brought_by(attachment) {
        Severed::Branch(branch) => list(structure, branch, &mut waiting, &mut count),
        Severed::Edge(record) => (waiting[0], count) = (record, 1),
        Severed::Nothing => {}
    }
    while count > 0 {
        count -= 1;
        let record = waiting[count];
        let Target::State(state) = structure.words.target(record) else {
            visit(structure, record);
            continue;
        };
        let mut branch = structure.states[state].first_branch;
        while branch != 0 {
            list(structure, branch, &mut waiting, &mut count);
            branch = structure.branches[branch].next;
        }
    }
}

/// The order of the block for so many bytes.
fn code_order(size: usize) -> u32 {
    (size as u32).div_ceil(CODE_UNIT).next_power_of_two().ilog2()
}
