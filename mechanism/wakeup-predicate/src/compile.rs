//! Compilation to x86-64 machine code through downloaded-code's emitter.
//!
//! The code is specific to the predicate's shape: which terms there are, their
//! operators, and which masks matter. What the user chose bit by bit (addresses, masks, values) is not in the code
//! but in a table ([`Operand`]). So no user can plant instructions inside constants of kernel code (FAULTS 55).
//!
//! The code is a function with the System V calling convention: `(table: rdi, now: rsi, gone: rdx) -> rax`. `table`
//! points to one [`Operand`] a term, and `now` is the clock. `gone` is what [`crate::Words::gone`] would say, with
//! the bits of clock terms clear. The answer is read by [`Outcome::from_word`]. It changes rax, rdi, rsi, rdx and the
//! flags only, uses no stack but for its return address, and has no backward jump: at most [`INSTRUCTIONS_MAX`]
//! instructions an evaluation.

use abi::predicate::Operator;
use downloaded_code::x86_64::{Arithmetic, Assembler, Condition, EmitError, Label, Memory, Register, Width};

use crate::{Outcome, Predicate, Source, TERMS_MAX, Term};

/// A buffer of this many bytes holds the code of any predicate.
pub const CODE_BYTES_MAX: usize = 640;

/// The most instructions one evaluation executes: five a term, and five besides.
pub const INSTRUCTIONS_MAX: usize = 5 * TERMS_MAX + 5;

/// What one term's comparison needs at run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Operand {
    /// The kernel's own address of the watched word; not used for the clock.
    pub word: u64,
    /// The term's mask; not used when it is all ones.
    pub mask: u64,
    /// The term's value.
    pub value: u64,
}

const OPERAND_BYTES: i32 = size_of::<Operand>() as i32;
const MASK: i32 = 8;
const VALUE: i32 = 16;

const TABLE: Register = Register::Rdi;
const NOW: Register = Register::Rsi;
const GONE: Register = Register::Rdx;
const WORD: Register = Register::Rax;

/// The answer for a word that is gone, before the term's number is added.
const GONE_ANSWER: u32 = 0x1_0000;

/// The label of the code for a gone word; label `n` below it begins product `n + 1`.
const GONE_LABEL: Label = Label(TERMS_MAX as u32);

impl Predicate {
    /// The table that the compiled code takes. `address` gives the kernel's own address of
    /// the word that a term watches; it is asked for each term of [`Predicate::watched`].
    pub fn operands(&self, mut address: impl FnMut(usize) -> u64) -> [Operand; TERMS_MAX] {
        let mut table = [Operand::default(); TERMS_MAX];
        for (index, (operand, term)) in table.iter_mut().zip(self.terms()).enumerate() {
            let word = if term.source == Source::Clock { 0 } else { address(index) };
            *operand = Operand { word, mask: term.mask, value: term.value };
        }
        table
    }

    /// Compiles the predicate into `buffer` and says how many bytes the code has.
    ///
    /// # Errors
    /// [`EmitError::BufferFull`] when the buffer is too small; [`CODE_BYTES_MAX`] always
    /// suffices.
    pub fn compile(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut labels = [0; TERMS_MAX + 1];
        let mut code = Assembler::new(buffer, &mut labels);
        code.test(Width::Bits32, GONE, GONE);
        code.jump_if(Condition::NotEqual, GONE_LABEL);
        let mut first = 0;
        for (product, terms) in self.products().enumerate() {
            let otherwise = Label(product as u32);
            for (index, term) in terms.iter().enumerate() {
                compile_term(&mut code, first + index, term, otherwise);
            }
            first += terms.len();
            code.move_immediate_32(Register::Rax, fired_answer(product, first - 1));
            code.return_();
            code.bind(otherwise);
        }
        code.move_immediate_32(Register::Rax, 0);
        code.return_();
        compile_gone(&mut code);
        code.finish()
    }
}

/// Compares one word and goes to `otherwise` when the term does not hold.
fn compile_term(code: &mut Assembler<'_>, index: usize, term: &Term, otherwise: Label) {
    let operand = OPERAND_BYTES * index as i32;
    let compared = match term.source {
        Source::Clock => NOW,
        Source::Memory(_) => {
            code.load(Width::Bits64, WORD, Memory::at(TABLE, operand));
            code.load(Width::Bits64, WORD, Memory::at(WORD, 0));
            WORD
        }
    };
    if term.mask != u64::MAX {
        code.arithmetic_load(Arithmetic::And, Width::Bits64, compared, Memory::at(TABLE, operand + MASK));
    }
    code.arithmetic_load(Arithmetic::Compare, Width::Bits64, compared, Memory::at(TABLE, operand + VALUE));
    code.jump_if(condition(term.operator).negated(), otherwise);
}

/// Answers with the lowest bit of the mask of words that are gone.
fn compile_gone(code: &mut Assembler<'_>) {
    const BIT_SCAN_FORWARD_EAX_EDX: [u8; 3] = [0x0f, 0xbc, 0xc2];
    code.bind(GONE_LABEL);
    code.bytes(&BIT_SCAN_FORWARD_EAX_EDX);
    code.arithmetic_immediate(Arithmetic::Or, Width::Bits32, Register::Rax, GONE_ANSWER as i32);
    code.return_();
}

fn condition(operator: Operator) -> Condition {
    match operator {
        Operator::Equal => Condition::Equal,
        Operator::NotEqual => Condition::NotEqual,
        Operator::Less => Condition::Below,
        Operator::LessOrEqual => Condition::BelowOrEqual,
        Operator::Greater => Condition::Above,
        Operator::GreaterOrEqual => Condition::AboveOrEqual,
    }
}

fn fired_answer(product: usize, term: usize) -> u32 {
    (product as u32 + 1) << 8 | term as u32
}

impl Outcome {
    /// The outcome that compiled code answered with.
    pub fn from_word(answer: u64) -> Outcome {
        let term = (answer & 0xff) as usize;
        match answer >> 8 {
            0 => Outcome::False,
            above if answer & u64::from(GONE_ANSWER) == 0 => Outcome::Fired { product: above as usize - 1, term },
            _ => Outcome::Gone { term },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_back() {
        assert_eq!(Outcome::from_word(0), Outcome::False);
        assert_eq!(Outcome::from_word(fired_answer(0, 0).into()), Outcome::Fired { product: 0, term: 0 });
        assert_eq!(Outcome::from_word(fired_answer(15, 15).into()), Outcome::Fired { product: 15, term: 15 });
        assert_eq!(Outcome::from_word(u64::from(GONE_ANSWER) | 7), Outcome::Gone { term: 7 });
    }

    #[test]
    fn a_buffer_too_small_is_refused_with_the_size_needed() {
        let predicate = Predicate { count: TERMS_MAX, ..Predicate::NONE };
        let mut buffer = [0; CODE_BYTES_MAX];
        let size = predicate.compile(&mut buffer).expect("the stated maximum suffices");
        let refused = predicate.compile(&mut buffer[..size - 1]);
        assert_eq!(refused, Err(EmitError::BufferFull { needed: size, available: size - 1 }));
    }
}
