//! Machine code for branches, tails and the entry.
//!
//! Compiled code is called as `extern "sysv64" fn(packet: *const u8, length: usize, words: *const u32,
//! code: *const u8) -> u32` for packets shorter than 2^63 bytes, and returns a conjunction, 0 for none. It keeps to five registers: rdi the base in the packet,
//! rsi what is left from there, rdx the words, rcx the code, rax the best conjunction so far; r8 to r11 are
//! scratch. To return means: nothing (more) in this part matches. It holds no absolute address,
//! writes no memory but its stack (24 bytes for each test at which there is a choice), and reads a packet
//! only behind a comparison with what is left. Behind each comparison a conditional move makes the base harmless on the
//! path that is only speculated (FAULTS row 90).
//!
//! Constants that a filter chooses and that are longer than a byte never stand in the code as they are, whether values,
//! masks, bounds or offsets: they are combined with secret random ones (row 55).

use crate::condition::{Kind, Test};
use crate::edges::Edges;
use crate::limit;
use crate::publish::Emission;
use crate::random::Random;
use crate::structure::{RECORD_HEAD, ROOT, Structure};
use crate::target::{ACCEPT, TAIL, Target};
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
const MISS: Label = Label(6);
const INNER: Label = Label(7);
const TAIL_LEAF: Label = Label(8);
const FIRST_EDGE: u32 = 9;
const LABELS: usize = 16;

/// Offsets of the fixed parts, in the piece at offset 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stubs {
    /// Returns.
    pub(crate) done: u32,
    /// Keeps the better of the best conjunction and another.
    pub(crate) contest: u32,
}

/// Writes the entry and the fixed parts; returns their size and places.
pub(crate) fn stubs(structure: &Structure<'_>, buffer: &mut [u8]) -> Option<(usize, Stubs)> {
    let mut labels = [0; LABELS];
    let mut code = Assembler::new(buffer, &mut labels);
    code.arithmetic(Arithmetic::Xor, Width::Bits32, BEST, BEST);
    jump_by_word(&mut code, Memory::at(WORDS, bytes(Words::entry_of(ROOT))));
    let done = code.position() as u32;
    code.return_();
    let contest = code.position() as u32;
    write_contest(&mut code, bytes(structure.words.ranks()));
    code.finish().ok().map(|size| (size, Stubs { done, contest }))
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
    stubs: Stubs,
    code: Assembler<'g>,
    /// Bytes from the base that are known to be there.
    known: u32,
    /// The base was moved, and may be outside: what is left may be negative.
    moved: bool,
    /// The part that settles what was found is still to be written.
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
        stubs: Stubs,
        buffer: &'g mut [u8],
        branch: u32,
    ) -> Option<usize> {
        let mut labels = [0; LABELS];
        let code = Assembler::new(buffer, &mut labels);
        let mut generator =
            Generator { structure, emission, random, stubs, code, known: 0, moved: false, settles: true, tests: 0 };
        generator.write_branch(branch);
        generator.finish()
    }

    /// Writes some of a tail's tests; its size when that was the last.
    pub(crate) fn tail(
        structure: &'g Structure<'a>,
        emission: &'g mut Emission,
        random: &'g mut Random,
        stubs: Stubs,
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
            stubs,
            code,
            known: progress.known,
            moved: false,
            settles: true,
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
            self.settle();
        }
        self.code.bind(FAIL);
        self.code.return_();
        self.code.bind(CONTEST);
        self.code.load_effective_address(RECORD, Memory::at(CODE, self.stubs.contest as i32));
        self.code.jump_register(RECORD);
        self.code.finish().ok()
    }

    /// Takes the conjunction that was found, which contends if there is one already.
    fn settle(&mut self) {
        self.settles = false;
        self.code.bind(SETTLE);
        self.code.test(Width::Bits32, BEST, BEST);
        self.code.jump_if(Condition::NotEqual, CONTEST);
        self.code.move_register(Width::Bits32, BEST, TARGET);
        self.code.return_();
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

    /// Runs the branch as a procedure, then goes on with the branches after it.
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

    fn go_or_continue(&mut self, branch: u32, target: Target) -> Option<u32> {
        self.tests += 1;
        let below = self.inlined_below(branch).filter(|_| self.tests < limit::PIECE_TESTS);
        if below.is_none() {
            self.go(target);
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
                self.compare(test, edges.slot(&self.structure.words, 0).0);
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
        let mut keys = [0; crate::edges::LIST as usize];
        for slot in 0..edges.count {
            keys[slot as usize] = edges.slot(words, slot).0;
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
            self.go(edges.slot(&self.structure.words, slot).1);
        }
    }

    /// A hash table, probed linearly; the words hold an empty slot in every table.
    fn look_up(&mut self, edges: &Edges) {
        let place = bytes(edges.block);
        let key = Memory::indexed(WORDS, TARGET, Scale::Eight, place);
        let target = Memory::indexed(WORDS, TARGET, Scale::Eight, place + 4);
        self.code.multiply_immediate(Width::Bits32, TARGET, VALUE, edges.multiplier as i32);
        self.code.shift_immediate(Shift::Right, Width::Bits32, TARGET, (32 - edges.order) as u8);
        self.code.bind(PROBE);
        self.code.arithmetic_load(Arithmetic::Compare, Width::Bits32, VALUE, key);
        self.code.jump_if(Condition::NotEqual, MISS);
        self.code.load(Width::Bits32, TARGET, target);
        self.go_by_target();
        self.code.bind(MISS);
        self.code.arithmetic_memory_immediate(Arithmetic::Compare, Width::Bits32, target, 0);
        let occupied = self.code.skip_if(Condition::NotEqual);
        self.code.return_();
        self.code.land(occupied);
        self.code.arithmetic_immediate(Arithmetic::Add, Width::Bits32, TARGET, 1);
        self.code.arithmetic_immediate(Arithmetic::And, Width::Bits32, TARGET, (1 << edges.order) - 1);
        self.code.jump(PROBE);
    }

    /// Goes where a word from a table says. Nothing stands for state 0, whose code returns.
    fn go_by_target(&mut self) {
        self.code.test(Width::Bits32, TARGET, TARGET);
        self.code.jump_if(Condition::NotSign, INNER);
        self.code.arithmetic_immediate(Arithmetic::And, Width::Bits32, TARGET, !ACCEPT as i32);
        self.settle();
        self.code.bind(INNER);
        self.code.test_immediate(Width::Bits32, TARGET, TAIL as i32);
        self.code.jump_if(Condition::NotEqual, TAIL_LEAF);
        jump_by_word(&mut self.code, Memory::indexed(WORDS, TARGET, Scale::Four, 0));
        self.code.bind(TAIL_LEAF);
        self.code.arithmetic_immediate(Arithmetic::And, Width::Bits32, TARGET, !TAIL as i32);
        self.code.load_effective_address(RECORD, Memory::indexed(WORDS, TARGET, Scale::Four, 0));
        jump_by_word(&mut self.code, Memory::at(RECORD, 0));
    }

    /// Goes to a target known now.
    fn go(&mut self, target: Target) {
        self.need(0);
        match target {
            Target::None => self.code.jump(FAIL),
            Target::State(state) => {
                self.emission.want_branches_of(self.structure, state);
                jump_by_word(&mut self.code, Memory::at(WORDS, bytes(Words::entry_of(state))));
            }
            Target::Tail(record) => {
                self.code.load_effective_address(RECORD, Memory::at(WORDS, bytes(record)));
                jump_by_word(&mut self.code, Memory::at(RECORD, 0));
            }
            Target::Accept(conjunction) => {
                self.code.move_immediate_32(TARGET, conjunction);
                self.code.jump(SETTLE);
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
            (self.known, progress.constant) = (self.known_before(first), RECORD_HEAD);
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
            self.code.load(Width::Bits32, TARGET, Memory::at(RECORD, 4));
            self.code.jump(SETTLE);
        }
        end == length
    }

    fn write_tail_test(&mut self, test: &Test, constant: &mut u32) {
        if test.kind != Kind::Equal {
            return self.test_rest(test);
        }
        if test.mask != 0 {
            self.load_raw(test);
            self.code.arithmetic_load(Arithmetic::Compare, Width::Bits32, VALUE, Memory::at(RECORD, bytes(*constant)));
            self.code.jump_if(Condition::NotEqual, FAIL);
        }
        *constant += 1;
    }
}
