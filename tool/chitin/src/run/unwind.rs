//! Stack unwinder: the registers of a caller from those of its callee.
//!
//! The rules stand in the unwind table of an ELF file (`.eh_frame`).

use gimli::{
    BaseAddresses, CfaRule, EhFrame, Encoding, EvaluationResult, Format, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value,
};
use object::{Object, ObjectSection};

/// Registers that are followed: the general ones and the return address.
pub const COUNT: usize = 17;
/// DWARF numbers of the stack pointer, and of the return address, which is the instruction pointer of the frame.
pub const STACK_POINTER: u16 = 7;
pub const RETURN_ADDRESS: u16 = 16;

const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };

type Section<'a> = EhFrame<gimli::EndianSlice<'a, LittleEndian>>;

/// Registers of a frame, as far as they are known, by DWARF number.
#[derive(Clone, Debug, PartialEq)]
pub struct Registers([Option<u64>; COUNT]);

impl Registers {
    /// `None` where there are too few.
    pub fn new(values: &[u64]) -> Option<Self> {
        values.first_chunk::<COUNT>().map(|values| Self(values.map(Some)))
    }

    pub fn get(&self, number: u16) -> Option<u64> {
        self.0.get(usize::from(number)).copied().flatten()
    }

    /// The registers of the caller right after its call instruction.
    pub fn after_call(&self, read: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        let stack = self.get(STACK_POINTER)?;
        let mut caller = self.clone();
        caller.0[usize::from(RETURN_ADDRESS)] = Some(read(stack)?);
        caller.0[usize::from(STACK_POINTER)] = Some(stack + 8);
        Some(caller)
    }
}

/// The registers of the caller of the function at `address`; `read` gives words of the stack.
///
/// `None` where the file has no rule for it.
pub fn caller(
    object: &object::File<'_>,
    address: u64,
    registers: &Registers,
    read: impl Fn(u64) -> Option<u64>,
) -> Option<Registers> {
    let section = object.section_by_name(".eh_frame")?;
    let data = section.uncompressed_data().ok()?;
    let frame = EhFrame::new(&data, LittleEndian);
    let text = object.section_by_name(".text").map_or(0, |text| text.address());
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text);
    let mut context = UnwindContext::new();
    let row = frame.unwind_info_for_address(&bases, &mut context, address, EhFrame::cie_from_offset).ok()?;
    apply(row, &frame, registers, &read)
}

fn apply(
    row: &UnwindTableRow<usize>,
    frame: &Section<'_>,
    registers: &Registers,
    read: &impl Fn(u64) -> Option<u64>,
) -> Option<Registers> {
    let evaluate = |expression: &UnwindExpression<usize>, start| evaluate(expression, frame, registers, read, start);
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => registers.get(register.0)?.wrapping_add_signed(*offset),
        CfaRule::Expression(expression) => evaluate(expression, None)?,
    };
    let mut caller = registers.clone();
    caller.0[usize::from(STACK_POINTER)] = Some(cfa);
    for number in (0..=RETURN_ADDRESS).filter(|number| *number != STACK_POINTER) {
        let value = match row.register(Register(number)) {
            // A register without a rule: a callee preserves it. The return address always has one.
            None | Some(RegisterRule::Undefined) if number == RETURN_ADDRESS => None,
            None | Some(RegisterRule::SameValue) => registers.get(number),
            Some(RegisterRule::Offset(offset)) => read(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => registers.get(other.0),
            Some(RegisterRule::Expression(expression)) => evaluate(&expression, Some(cfa)).and_then(read),
            Some(RegisterRule::ValExpression(expression)) => evaluate(&expression, Some(cfa)),
            Some(_) => None,
        };
        caller.0[usize::from(number)] = value;
    }
    // The stack pointer itself may have a rule: a signal frame restores it.
    if let Some(RegisterRule::Expression(expression)) = row.register(Register(STACK_POINTER)) {
        caller.0[usize::from(STACK_POINTER)] = evaluate(&expression, Some(cfa)).and_then(read);
    }
    Some(caller)
}

/// The value of an expression, with `start` on its stack.
fn evaluate(
    expression: &UnwindExpression<usize>,
    frame: &Section<'_>,
    registers: &Registers,
    read: &impl Fn(u64) -> Option<u64>,
    start: Option<u64>,
) -> Option<u64> {
    let mut evaluation = expression.get(frame).ok()?.evaluation(ENCODING);
    if let Some(start) = start {
        evaluation.set_initial_value(start);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => return evaluation.value_result()?.to_u64(u64::MAX).ok(),
            EvaluationResult::RequiresRegister { register, .. } => {
                evaluation.resume_with_register(Value::Generic(registers.get(register.0)?)).ok()?
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(read(address)?)).ok()?
            }
            _ => return None,
        };
    }
}
