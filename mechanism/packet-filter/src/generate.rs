//! Machine code for branches, tails and the entry.
//!
//! Compiled code is called where [`Classifier::entry`](crate::Classifier::entry) says, for packets shorter than 2^63
//! bytes. Its type is
//! `extern "sysv64" fn(packet: *const u8, length: usize, words: *const u32, code: *const u8) -> u32`. It returns a
//! conjunction, 0 for none. It keeps to five registers: rdi the base in the packet, rsi what is left from there, rdx
//! the words, rcx the code, rax the best conjunction so far. r8 to r11 are scratch, but r10 names the edge's record
//! where its code begins. To return means: nothing (more) in this part matches. It holds no absolute address and
//! reads a packet only behind a comparison with what is left. It writes no memory but its stack (24 bytes for each
//! test at which there is a choice). Behind each comparison a conditional move makes the base harmless on the path
//! that is only speculated (FAULTS row 90).
//!
//! Constants that a filter chooses and that are longer than a byte never stand in the code as they are, whether
//! values, masks, bounds or offsets. They are combined with secret random ones (row 55).

use crate::condition::{Kind, Test};
use crate::edges::{Edges, LIST};
use crate::limit;
use crate::publish::Emission;
use crate::random::Random;
use crate::record;
use crate::structure::{ROOT, Structure};
use crate::target::{INDEX, Target};
use crate::words::Words;
use downloaded_code::x86_64::{
    Arithmetic, Assembler, Condition, EmitError, Label, Memory, Register, Scale, Shift, Width,
};

const PACKET: Register = Register::Rdi;
const LEFT: Register = Register::Rsi;
const WORDS: Register = Register::Rdx;
const CODE: Register = Register::Rcx;
const BEST: Register = Register::Rax;
const VALUE: Register = Register::R8;
const TARGET: Register = Register::R9;
const RECORD: Register = Register::R10;
const SPARE: Register = Register::R11;

/// Labels of one piece.
const FAIL: Label = Label(1);
const BODY: Label = Label(2);
const SETTLE: Label = Label(3);
const CONTEST: Label = Label(4);
const PROBE: Label = Label(5);
const FOUND: Label = Label(6);
const FIRST_EDGE: u32 = 7;
const LABELS: usize = 16;

/// Offsets of the fixed parts, in the piece at offset 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stubs {
    /// Returns.
    pub(crate) done: u32,
    /// Continues from an edge to a state.
    pub(crate) enter: u32,
    /// Continues from an edge to a conjunction.
    pub(crate) accept: u32,
    /// Continues from what a table shows of an edge to its record.
    pub(crate) far: u32,
    /// Keeps the better of the best conjunction and another.
    pub(crate) contest: u32,
}

/// Bytes by which a packet's first piece begins before the same piece as the next one of others.
pub(crate) const BEGINNING: u32 = 2;

/// Where classification begins there is no conjunction yet.
fn begin(code: &mut Assembler<'_>) {
    code.arithmetic(Arithmetic::Xor, Width::Bits32, BEST, BEST);
    debug_assert_eq!(code.position(), BEGINNING as usize);
}

/// Writes the entry of a classifier without filters and the fixed parts; returns their size and places.
pub(crate) fn stubs(structure: &Structure<'_>, buffer: &mut [u8]) -> Option<(usize, Stubs)> {
    let mut labels = [0; LABELS];
    let mut code = Assembler::new(buffer, &mut labels);
    begin(&mut code);
    let done = code.position() as u32;
    code.return_();
    let enter = code.position() as u32;
    code.load(Width::Bits32, TARGET, in_record(record::TARGET));
    jump_by_word(&mut code, Memory::indexed(WORDS, TARGET, Scale::Four, 0));
    let far = code.position() as u32;
    code.load(Width::Bits32, RECORD, in_record(record::CONSTANTS));
    jump_by_word(&mut code, in_record(record::CODE));
    let accept = code.position() as u32;
    settle_record(&mut code);
    code.bind(CONTEST);
    let contest = code.position() as u32;
    write_contest(&mut code, bytes(structure.words.ranks()));
    code.finish().ok().map(|size| (size, Stubs { done, enter, accept, far, contest }))
}

/// Takes the conjunction that the record names.
fn settle_record(code: &mut Assembler<'_>) {
    code.load(Width::Bits32, TARGET, in_record(record::TARGET));
    code.arithmetic_immediate(Arithmetic::And, Width::Bits32, TARGET, INDEX as i32);
    settle(code);
}

/// Takes the conjunction that was found, which contends if there is one already.
fn settle(code: &mut Assembler<'_>) {
    code.test(Width::Bits32, BEST, BEST);
    code.jump_if(Condition::NotEqual, CONTEST);
    code.move_register(Width::Bits32, BEST, TARGET);
    code.return_();
}

/// A word of the record.
fn in_record(word: u32) -> Memory {
    Memory::indexed(WORDS, RECORD, Scale::Four, bytes(word))
}

/// Ranks are 16 bytes, the more significant half first.
fn write_contest(code: &mut Assembler<'_>, ranks: i32) {
    let rank = |conjunction, half| Memory::indexed(WORDS, conjunction, Scale::One, ranks + 8 * half);
    for (copy, conjunction) in [(RECORD, TARGET), (SPARE, BEST)] {
        code.move_register(Width::Bits64, copy, conjunction);
        code.shift_immediate(Shift::Left, Width::Bits64, copy, 4);
    }
    code.load(Width::Bits64, VALUE, rank(RECORD, 0));
    code.arithmetic_load(Arithmetic::Compare, Width::Bits64, VALUE, rank(SPARE, 0));
    code.jump_if(Condition::Below, FAIL);
    code.jump_if(Condition::Above, BODY);
    code.load(Width::Bits64, VALUE, rank(RECORD, 1));
    code.arithmetic_load(Arithmetic::Compare, Width::Bits64, VALUE, rank(SPARE, 1));
    code.jump_if(Condition::BelowOrEqual, FAIL);
    code.bind(BODY);
    code.move_register(Width::Bits32, BEST, TARGET);
    code.bind(FAIL);
    code.return_();
}

/// How much a test loads.
fn width(test: &Test) -> Width {
    match test.size {
        1 => Width::Bits8,
        2 => Width::Bits16,
        _ => Width::Bits32,
    }
}

/// A word offset as a displacement; `limit::WORDS` keeps it in range.
fn bytes(words: u32) -> i32 {
    (words * 4) as i32
}

/// Jumps to where a word says, counted from the start of the code.
fn jump_by_word(code: &mut Assembler<'_>, word: Memory) {
    code.load(Width::Bits32, TARGET, word);
    code.arithmetic(Arithmetic::Add, Width::Bits64, TARGET, CODE);
    code.jump_register(TARGET);
}

/// A piece under construction.
pub(crate) struct Generator<'g, 'a> {
    structure: &'g Structure<'a>,
    emission: &'g mut Emission,
    random: &'g mut Random,
    code: Assembler<'g>,
    /// Bytes from the base that are known to be there.
    known: u32,
    /// The base was moved, and may be outside: what is left may be negative.
    moved: bool,
    /// Something jumps to the part that settles what was found.
    settles: bool,
    /// Tests that this piece holds so far.
    tests: usize,
}

/// How far a tail is written: it is done in several steps when it is long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailProgress {
    labels: [u64; LABELS],
    position: usize,
    /// The test to write next, and where its constant stands in the record.
    test: usize,
    constant: u32,
    known: u32,
}

impl TailProgress {
    pub(crate) const EMPTY: Self = Self { labels: [0; LABELS], position: 0, test: 0, constant: 0, known: 0 };
}

impl<'g, 'a> Generator<'g, 'a> {
    /// Writes the piece of a branch, with all that belongs in it.
    pub(crate) fn branch(
        structure: &'g Structure<'a>,
        emission: &'g mut Emission,
        random: &'g mut Random,
        buffer: &'g mut [u8],
        branch: u32,
    ) -> Option<usize> {
        let mut labels = [0; LABELS];
        let code = Assembler::new(buffer, &mut labels);
        let mut generator =
            Generator { structure, emission, random, code, known: 0, moved: false, settles: false, tests: 0 };
        if structure.branches[branch].state == ROOT {
            begin(&mut generator.code);
        }
        generator.write_branch(branch);
        generator.finish()
    }

    /// Writes some of a tail's tests; its size when that was the last.
    pub(crate) fn tail(
        structure: &'g Structure<'a>,
        emission: &'g mut Emission,
        random: &'g mut Random,
        buffer: &'g mut [u8],
        tail: u32,
        progress: &mut TailProgress,
    ) -> Result<Option<usize>, EmitError> {
        let mut labels = progress.labels;
        let code = Assembler::resume(buffer, &mut labels, progress.position);
        let mut generator = Generator {
            structure,
            emission,
            random,
            code,
            known: progress.known,
            moved: false,
            settles: false,
            tests: 0,
        };
        if generator.write_tail(tail, progress) {
            return generator.finish().map(Some).ok_or(EmitError::BadOperand { position: 0 });
        }
        progress.known = generator.known;
        progress.position = generator.code.finish_part()?;
        progress.labels = labels;
        Ok(None)
    }
}

impl Generator<'_, '_> {
    /// The parts that several places jump to.
    fn finish(mut self) -> Option<usize> {
        if self.settles {
            self.code.bind(SETTLE);
            settle(&mut self.code);
        }
        self.code.bind(FAIL);
        self.code.return_();
        self.code.bind(CONTEST);
        self.code.load_effective_address(RECORD, Memory::at(CODE, self.structure.words.stubs.contest as i32));
        self.code.jump_register(RECORD);
        self.code.finish().ok()
    }

    fn write_branch(&mut self, branch: u32) {
        if self.structure.branches[branch].next != 0 {
            self.write_choice(branch);
        }
        self.code.bind(BODY);
        self.known = self.known_before(self.structure.branches[branch].shape);
        let mut here = branch;
        while let Some(below) = self.write_test(here) {
            here = below;
        }
    }

    /// Runs the branch as a procedure, then continues with the branches after it.
    fn write_choice(&mut self, branch: u32) {
        self.code.push(PACKET);
        self.code.push(LEFT);
        self.code.call(BODY);
        self.code.pop(LEFT);
        self.code.pop(PACKET);
        jump_by_word(&mut self.code, Memory::at(WORDS, bytes(self.structure.words.next_of(branch))));
    }

    /// Bytes that the tests before this shape have proven to be there.
    fn known_before(&self, shape: u32) -> u32 {
        let mut known = 0;
        let mut shape = self.structure.shapes.pool[shape].parent;
        while shape > crate::shape::ROOT {
            let node = &self.structure.shapes.pool[shape];
            if node.test.kind == Kind::Shift {
                break;
            }
            known = known.max(node.test.end());
            shape = node.parent;
        }
        known
    }

    /// Writes one branch's test; returns the branch below when that belongs to this piece.
    fn write_test(&mut self, branch: u32) -> Option<u32> {
        let structure = self.structure;
        let Some(kind) = structure.kind(branch) else {
            self.go(structure.branches[branch].edges.only(&structure.words));
            return None;
        };
        let test = structure.shapes.pool[structure.branches[branch].shape].test;
        let edges = structure.branches[branch].edges;
        self.need(self.end_of_chain(branch));
        if kind == Kind::Equal && edges.is_table() {
            self.load_raw(&test);
            self.look_up(&edges);
            return None;
        }
        if kind == Kind::Equal && edges.count > 1 {
            self.load_raw(&test);
            self.choose(&edges);
            return None;
        }
        self.test_one(&test, &edges);
        self.go_or_continue(branch, edges.only(&structure.words))
    }

    /// One past the last byte that the tests of this piece look at before the next shift.
    fn end_of_chain(&self, branch: u32) -> u32 {
        let (mut here, mut end) = (Some(branch), 0);
        for _ in self.tests..limit::PIECE_TESTS {
            let Some(branch) = here else { break };
            let shape = self.structure.branches[branch].shape;
            if shape == 0 {
                break;
            }
            let test = &self.structure.shapes.pool[shape].test;
            end = end.max(test.end());
            here = if test.kind == Kind::Shift { None } else { self.inlined_below(branch) };
        }
        end
    }

    fn inlined_below(&self, branch: u32) -> Option<u32> {
        self.structure
            .only_branch_below(branch)
            .filter(|below| self.structure.branches[*below].code.offset == 0 && !self.emission.has_branch(*below))
    }

    fn go_or_continue(&mut self, branch: u32, record: u32) -> Option<u32> {
        self.tests += 1;
        let below = self.inlined_below(branch).filter(|_| self.tests < limit::PIECE_TESTS);
        if below.is_none() {
            self.go(record);
        }
        below
    }

    /// Makes sure that so many bytes are left, or fails.
    fn need(&mut self, end: u32) {
        if end <= self.known && !self.moved {
            return;
        }
        let fails = if self.moved { Condition::Less } else { Condition::Below };
        self.with_constant(Arithmetic::Compare, Width::Bits64, LEFT, end);
        self.code.jump_if(fails, FAIL);
        self.code.move_if(fails, Width::Bits64, PACKET, WORDS);
        (self.known, self.moved) = (end, false);
    }

    /// Loads a field as it stands in the packet, under its mask.
    fn load_raw(&mut self, test: &Test) {
        let place = self.place(test.offset);
        self.code.load(width(test), VALUE, place);
        if test.mask != test.all_bits() {
            self.with_constant(Arithmetic::And, Width::Bits32, VALUE, test.raw(test.mask));
        }
    }

    /// A place in the packet. A long distance from the base goes through scratch.
    fn place(&mut self, offset: u32) -> Memory {
        match i8::try_from(offset) {
            Ok(short) => Memory::at(PACKET, short.into()),
            Err(_) => {
                self.load_blinded(SPARE, offset);
                Memory::indexed(PACKET, SPARE, Scale::One, 0)
            }
        }
    }

    /// Loads a field in the machine's order, under its mask.
    fn load_value(&mut self, test: &Test) {
        self.load_raw(test);
        if test.size > 1 {
            self.code.byte_swap(Width::Bits32, VALUE);
        }
        if test.size == 2 {
            self.code.shift_immediate(Shift::Right, Width::Bits32, VALUE, 16);
        }
    }

    /// An operation with a constant that the filter chose: only a byte stands in the code as it is.
    fn with_constant(&mut self, operation: Arithmetic, width: Width, register: Register, constant: u32) {
        if constant <= u32::from(u8::MAX) {
            self.code.arithmetic_immediate(operation, width, register, constant as i32);
        } else {
            self.load_blinded(SPARE, constant);
            self.code.arithmetic(operation, width, register, SPARE);
        }
    }

    /// A secret with which none of these constants is short, so that the size of the code does not depend on it.
    fn blind(&mut self, constants: &[u32]) -> u32 {
        loop {
            let secret = self.random.next();
            let long = |constant: u32| i8::try_from((constant ^ secret) as i32).is_err();
            if long(0) && constants.iter().all(|constant| long(*constant)) {
                return secret;
            }
        }
    }

    fn load_blinded(&mut self, register: Register, constant: u32) {
        let secret = self.blind(&[constant]);
        self.code.move_immediate_32(register, constant ^ secret);
        self.code.arithmetic_immediate(Arithmetic::Xor, Width::Bits32, register, secret as i32);
    }

    /// The test of a branch with one edge.
    fn test_one(&mut self, test: &Test, edges: &Edges) {
        match test.kind {
            Kind::Equal if test.mask == 0 => {}
            Kind::Equal => {
                self.compare(test, self.structure.words.key(edges.slot(&self.structure.words, 0)));
                self.code.jump_if(Condition::NotEqual, FAIL);
            }
            _ => self.test_rest(test),
        }
    }

    /// Compares a field with a constant; with a byte where it stands.
    fn compare(&mut self, test: &Test, key: u32) {
        let short = key <= i8::MAX as u32 || test.size == 1;
        if short && test.mask == test.all_bits() {
            let place = self.place(test.offset);
            return self.code.arithmetic_memory_immediate(Arithmetic::Compare, width(test), place, key as i32);
        }
        self.load_raw(test);
        let secret = if short { 0 } else { self.blind(&[key]) };
        if secret != 0 {
            self.code.arithmetic_immediate(Arithmetic::Xor, Width::Bits32, VALUE, secret as i32);
        }
        self.code.arithmetic_immediate(Arithmetic::Compare, Width::Bits32, VALUE, (key ^ secret) as i32);
    }

    /// The test of a range or a shift.
    fn test_rest(&mut self, test: &Test) {
        self.load_value(test);
        if test.kind == Kind::Shift {
            self.move_base(test);
            return;
        }
        self.with_constant(Arithmetic::Subtract, Width::Bits32, VALUE, test.low);
        self.with_constant(Arithmetic::Compare, Width::Bits32, VALUE, test.high - test.low);
        let fails = if test.kind == Kind::Within { Condition::Above } else { Condition::BelowOrEqual };
        self.code.jump_if(fails, FAIL);
    }

    fn move_base(&mut self, test: &Test) {
        let direction = if test.shift >= 0 { Shift::Left } else { Shift::Right };
        if test.shift != 0 {
            self.code.shift_immediate(direction, Width::Bits32, VALUE, test.shift.unsigned_abs());
        }
        self.code.arithmetic(Arithmetic::Subtract, Width::Bits64, LEFT, VALUE);
        self.code.load_effective_address(PACKET, Memory::indexed(PACKET, VALUE, Scale::One, 0));
        (self.known, self.moved) = (0, true);
    }

    /// Up to four constants, compared one after the other.
    fn choose(&mut self, edges: &Edges) {
        let words = &self.structure.words;
        let mut keys = [0; LIST as usize];
        for slot in 0..edges.count {
            keys[slot as usize] = words.key(edges.slot(words, slot));
        }
        let secret = self.blind(&keys);
        self.code.arithmetic_immediate(Arithmetic::Xor, Width::Bits32, VALUE, secret as i32);
        for slot in 0..edges.count {
            let constant = (keys[slot as usize] ^ secret) as i32;
            self.code.arithmetic_immediate(Arithmetic::Compare, Width::Bits32, VALUE, constant);
            self.code.jump_if(Condition::Equal, Label(FIRST_EDGE + slot));
        }
        self.code.jump(FAIL);
        for slot in 0..edges.count {
            self.code.bind(Label(FIRST_EDGE + slot));
            self.go(edges.slot(&self.structure.words, slot));
        }
    }

    /// A hash table, probed linearly; there is an empty slot in every table. A packet for no one that meets one at once
    /// takes no jump.
    fn look_up(&mut self, edges: &Edges) {
        let shown = |word| Memory::indexed(WORDS, RECORD, Scale::Four, bytes(edges.heads + word));
        let (slot, all) = (record::HEAD as i32, (record::HEAD << edges.order) as i32);
        self.code.multiply_immediate(Width::Bits32, RECORD, VALUE, edges.multiplier as i32);
        self.code.shift_immediate(Shift::Right, Width::Bits32, RECORD, (32 - record::HEAD.ilog2() - edges.order) as u8);
        self.code.arithmetic_immediate(Arithmetic::And, Width::Bits32, RECORD, -slot);
        self.code.bind(PROBE);
        self.code.arithmetic_load(Arithmetic::Compare, Width::Bits32, VALUE, shown(record::KEY));
        self.code.jump_if(Condition::Equal, FOUND);
        let done = self.structure.words.stubs.done as i32;
        self.code.arithmetic_memory_immediate(Arithmetic::Compare, Width::Bits32, shown(record::CODE), done);
        let occupied = self.code.skip_if(Condition::NotEqual);
        self.code.return_();
        self.code.land(occupied);
        self.code.arithmetic_immediate(Arithmetic::Add, Width::Bits32, RECORD, slot);
        self.code.arithmetic_immediate(Arithmetic::And, Width::Bits32, RECORD, all - 1);
        self.code.jump(PROBE);
        self.code.bind(FOUND);
        self.code.arithmetic_immediate(Arithmetic::Add, Width::Bits32, RECORD, edges.heads as i32);
        jump_by_word(&mut self.code, in_record(record::CODE));
    }

    /// Goes where an edge known now leads.
    fn go(&mut self, record: u32) {
        self.need(0);
        match self.structure.words.target(record) {
            Target::None => self.code.jump(FAIL),
            Target::State(state) => {
                self.emission.want_branches_of(self.structure, state);
                jump_by_word(&mut self.code, Memory::at(WORDS, bytes(Words::entry_of(state))));
            }
            Target::Tail { .. } => {
                self.code.move_immediate_32(RECORD, record);
                jump_by_word(&mut self.code, in_record(record::CODE));
            }
            Target::Accept(conjunction) => {
                self.code.move_immediate_32(TARGET, conjunction);
                self.code.jump(SETTLE);
                self.settles = true;
            }
        }
    }

    /// The next of the last tests of a shape, their constants in the record; `true` after the last.
    fn write_tail(&mut self, tail: u32, progress: &mut TailProgress) -> bool {
        let tail = self.structure.tails[tail];
        let mut tests = [Test::default(); limit::ATOMS];
        let length = tail.length as usize;
        let (mut shape, mut first) = (tail.shape, 0);
        for test in tests[..length].iter_mut().rev() {
            *test = self.structure.shapes.pool[shape].test;
            (first, shape) = (shape, self.structure.shapes.pool[shape].parent);
        }
        if progress.test == 0 {
            (self.known, progress.constant) = (self.known_before(first), record::CONSTANTS);
        }
        let end = length.min(progress.test + limit::PIECE_TESTS);
        for index in progress.test..end {
            let stretch = tests[index..length].iter().take_while(|test| test.kind != Kind::Shift);
            let reach = stretch.map(Test::end).max().unwrap_or(0);
            self.need(reach.max(tests[index].end()));
            self.write_tail_test(&tests[index], &mut progress.constant);
        }
        self.need(0);
        progress.test = end;
        if end == length {
            settle_record(&mut self.code);
        }
        end == length
    }

    fn write_tail_test(&mut self, test: &Test, constant: &mut u32) {
        if test.kind != Kind::Equal {
            return self.test_rest(test);
        }
        if test.mask != 0 {
            self.load_raw(test);
            self.code.arithmetic_load(Arithmetic::Compare, Width::Bits32, VALUE, in_record(*constant));
            self.code.jump_if(Condition::NotEqual, FAIL);
        }
        *constant += 1;
    }
}
