//! The interpreter: the reference for what a program does.
//!
//! It trusts nothing: every register carries a record of what it holds, and every access is resolved through the
//! pointer's own memory. Every use that the verifier should have refused is a [`Fault`]. Registers that a function
//! has not written hold zero. So it is also the oracle for the verifier: an accepted program never ends in a fault.
//! Regions lie at made-up addresses, which no program that ends without a fault can tell from real ones.

mod arithmetic;
mod memory;

pub use arithmetic::{arithmetic, atomic, byte_order, compare, negate, sign_extend, truncate};

use memory::{Memory, Place, STACK_TOP, Tag, Trouble, region_base};

use crate::context::{Access, Argument, Context, Extent, Parameter};
use crate::instruction::{Arithmetic, Atomic, FRAME_POINTER, Instruction, Operand, REGISTERS, Size};
use crate::invocation::{FRAME_SIZE, MAX_FRAMES, Stop};
use crate::program::{MAX_INSTRUCTIONS, Program};

/// What the verifier must never let happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are no instruction, or execution left the program.
    BadInstruction,
    /// A register is used in which a call left nothing.
    Unwritten,
    /// A pointer is used as a number, or the other way round.
    WrongKind,
    /// An address would become visible as a number.
    Leak,
    /// A read-only region would be written.
    ReadOnly,
    /// More than eight functions are active.
    TooDeep,
    /// A helper is called that does not exist.
    NoHelper,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As compiled code ends: finished with r0, or stopped by a run-time check.
    Stopped(Stop),
    /// Something happened that the verifier must prevent.
    Fault(Fault),
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// The instruction at which it ended.
    pub instruction: usize,
    /// r0 at the end, if it finished.
    pub result: u64,
    /// What is left of the budget.
    pub budget: u64,
    /// Instructions executed.
    pub executed: u64,
}

/// What a helper is called with.
pub struct HelperCall<'c, 'm, 'r> {
    /// The number of the helper.
    pub number: u32,
    /// r1 to r5; pointers among them have no meaning of their own.
    pub values: [u64; 5],
    places: [Option<Place>; 5],
    memory: &'c mut Memory<'m, 'r>,
}

impl HelperCall<'_, '_, '_> {
    /// The first `size` bytes that argument `index` (0 is r1) points to.
    pub fn bytes(&mut self, index: usize, size: usize) -> Option<&mut [u8]> {
        let place = (*self.places.get(index)?)?;
        self.memory.bytes(place, size).ok()
    }
}

/// The helpers of a context, for the interpreter.
pub trait Helpers {
    /// Runs a helper. `Err` stops the program.
    fn call(&mut self, call: &mut HelperCall<'_, '_, '_>) -> Result<u64, Stop>;
}

/// For contexts without helpers.
pub struct NoHelpers;

impl Helpers for NoHelpers {
    fn call(&mut self, _: &mut HelperCall<'_, '_, '_>) -> Result<u64, Stop> {
        Err(Stop::Helper)
    }
}

#[derive(Clone, Copy)]
struct Frame {
    return_to: usize,
    saved: [(u64, Tag); 4],
}

/// One run.
pub struct Interpreter<'a, 'm, 'r> {
    program: Program<'a>,
    context: &'a Context<'a>,
    memory: Memory<'m, 'r>,
    registers: [(u64, Tag); REGISTERS],
    frames: [Frame; MAX_FRAMES],
    depth: usize,
    budget: u64,
    executed: u64,
    /// A bit for each slot at which a function starts.
    functions: [u64; MAX_INSTRUCTIONS / 64],
}

type Step = Result<usize, Ending>;

const FAULT_BAD: Ending = Ending::Fault(Fault::BadInstruction);

impl<'a, 'm, 'r> Interpreter<'a, 'm, 'r> {
    /// Prepares a run with these regions, scalar arguments and budget.
    pub fn new(
        program: Program<'a>,
        context: &'a Context<'a>,
        regions: &'m mut [&'r mut [u8]],
        scalars: &[u64; 5],
        budget: u64,
    ) -> Self {
        let memory = Memory::new(regions);
        let mut registers = [(0, Tag::Number); REGISTERS];
        for (index, argument) in context.arguments.iter().enumerate() {
            registers[index + 1] = match *argument {
                Argument::Pointer(region) => (region_base(region.into()), Tag::Region(region)),
                Argument::End(region) => {
                    let region_index = usize::from(region);
                    (region_base(region_index) + memory.length(region_index), Tag::Region(region))
                }
                Argument::Length(region) => (memory.length(region.into()), Tag::Number),
                Argument::Scalar { .. } => (scalars[index], Tag::Number),
            };
        }
        registers[usize::from(FRAME_POINTER)] = (STACK_TOP, Tag::Frame(0));
        let frames = [Frame { return_to: 0, saved: [(0, Tag::Unwritten); 4] }; MAX_FRAMES];
        let functions = function_starts(program);
        Self { program, context, memory, registers, frames, depth: 0, budget, executed: 0, functions }
    }

    /// Runs to the end.
    pub fn run(&mut self, helpers: &mut impl Helpers) -> Outcome {
        let mut index = 0;
        let charged = self.charge(self.function_length(0));
        let mut step = charged.map(|()| 0);
        while let Ok(next) = step {
            index = next;
            step = self.step(index, helpers);
        }
        let ending = step.err().unwrap_or(FAULT_BAD);
        let result = if ending == Ending::Stopped(Stop::Finished) { self.registers[0].0 } else { 0 };
        Outcome { ending, instruction: index, result, budget: self.budget, executed: self.executed }
    }

    fn step(&mut self, index: usize, helpers: &mut impl Helpers) -> Step {
        let instruction = Instruction::decode(self.program, index).map_err(|_| FAULT_BAD)?;
        self.executed += instruction.slots() as u64;
        let next = index + instruction.slots();
        match instruction {
            Instruction::Arithmetic { operation, wide, destination, operand } => {
                let value = self.arithmetic(operation, wide, destination, operand)?;
                self.set(destination, value)?;
            }
            Instruction::Negate { wide, destination } => {
                let word = self.number(destination)?;
                self.set(destination, (negate(wide, word), Tag::Number))?;
            }
            Instruction::ByteOrder { order, size, destination } => {
                let word = self.number(destination)?;
                self.set(destination, (byte_order(order, size, word), Tag::Number))?;
            }
            Instruction::LoadConstant { destination, value } => self.set(destination, (value, Tag::Number))?,
            Instruction::LoadRegion { destination, region, offset } => {
                if region as usize >= self.context.regions.len() {
                    return Err(Ending::Fault(Fault::WrongKind));
                }
                let address = region_base(region as usize) + u64::from(offset);
                self.set(destination, (address, Tag::Region(region as u8)))?;
            }
            Instruction::Load { size, signed, destination, base, offset } => {
                let value = self.load(size, signed, base, offset)?;
                self.set(destination, value)?;
            }
            Instruction::Store { size, base, offset, operand } => self.store(size, base, offset, operand)?,
            Instruction::Atomic { operation, fetch, size, base, offset, source } => {
                self.atomic(operation, fetch, size, base, offset, source)?;
            }
            Instruction::CallHelper { number } => self.call_helper(number, helpers)?,
            other => return self.control(other, index, next),
        }
        Ok(next)
    }

    fn control(&mut self, instruction: Instruction, index: usize, next: usize) -> Step {
        match instruction {
            Instruction::Jump { target } => self.jump(index, target),
            Instruction::Branch { comparison, wide, left, right, target } => {
                let (first, second) = (self.read(left)?, self.operand(right)?);
                comparable(first, second)?;
                let taken = compare(comparison, wide, first.0, second.0);
                if taken { self.jump(index, target) } else { Ok(next) }
            }
            Instruction::CallFunction { target } => self.call_function(target, next),
            _ => self.exit(),
        }
    }

    fn jump(&mut self, index: usize, target: i64) -> Step {
        let target = usize::try_from(target).map_err(|_| FAULT_BAD)?;
        if target <= index {
            self.charge((index - target) as u64 + 1)?;
        }
        Ok(target)
    }

    fn charge(&mut self, cost: u64) -> Result<(), Ending> {
        self.budget = self.budget.checked_sub(cost).ok_or(Ending::Stopped(Stop::BudgetSpent))?;
        Ok(())
    }

    fn read(&self, register: u8) -> Result<(u64, Tag), Ending> {
        match self.registers[usize::from(register)] {
            (_, Tag::Unwritten) => Err(Ending::Fault(Fault::Unwritten)),
            value => Ok(value),
        }
    }

    fn number(&self, register: u8) -> Result<u64, Ending> {
        match self.read(register)? {
            (word, Tag::Number) => Ok(word),
            _ => Err(Ending::Fault(Fault::WrongKind)),
        }
    }

    fn operand(&self, operand: Operand) -> Result<(u64, Tag), Ending> {
        match operand {
            Operand::Register(register) => self.read(register),
            Operand::Immediate(value) => Ok((value as i64 as u64, Tag::Number)),
        }
    }

    fn set(&mut self, register: u8, value: (u64, Tag)) -> Result<(), Ending> {
        if register == FRAME_POINTER {
            return Err(FAULT_BAD);
        }
        self.registers[usize::from(register)] = value;
        Ok(())
    }

    fn arithmetic(
        &self,
        operation: Arithmetic,
        wide: bool,
        destination: u8,
        operand: Operand,
    ) -> Result<(u64, Tag), Ending> {
        if let (Arithmetic::Move, true, Operand::Register(source)) = (operation, wide, operand) {
            return Ok(self.registers[usize::from(source)]);
        }
        let right = self.operand(operand)?;
        let left = match operation {
            Arithmetic::Move if wide => return Ok(right),
            Arithmetic::Move | Arithmetic::MoveSigned(_) => (0, Tag::Number),
            _ => self.read(destination)?,
        };
        let tag = match (operation, left.1, right.1) {
            (_, Tag::Number, Tag::Number) => Tag::Number,
            (Arithmetic::Add, Tag::Number, pointer)
            | (Arithmetic::Add | Arithmetic::Subtract, pointer, Tag::Number)
                if wide =>
            {
                pointer
            }
            (Arithmetic::Subtract, first, second) if wide && same_memory(first, second) => Tag::Number,
            _ => return Err(Ending::Fault(Fault::WrongKind)),
        };
        Ok((arithmetic(operation, wide, left.0, right.0), tag))
    }

    fn place(&self, base: u8, offset: i16, size: Size) -> Result<Place, Ending> {
        let (address, tag) = self.read(base)?;
        let address = address.wrapping_add(offset as i64 as u64);
        self.memory.place(tag, address, size.bytes().into()).map_err(trouble)
    }

    fn load(&self, size: Size, signed: bool, base: u8, offset: i16) -> Result<(u64, Tag), Ending> {
        let place = self.place(base, offset, size)?;
        let (word, tag) = self.memory.read(place, size.bytes() as usize).map_err(trouble)?;
        Ok(if signed && tag == Tag::Number { (sign_extend(word, size), tag) } else { (word, tag) })
    }

    fn writable(&self, base: u8) -> Result<(), Ending> {
        if let Tag::Region(region) = self.read(base)?.1
            && self.context.regions[usize::from(region)].access == Access::ReadOnly
        {
            return Err(Ending::Fault(Fault::ReadOnly));
        }
        Ok(())
    }

    fn store(&mut self, size: Size, base: u8, offset: i16, operand: Operand) -> Result<(), Ending> {
        let (word, tag) = self.operand(operand)?;
        self.writable(base)?;
        let place = self.place(base, offset, size)?;
        self.memory.write(place, size.bytes() as usize, word, tag).map_err(trouble)
    }

    fn atomic(
        &mut self,
        operation: Atomic,
        fetch: bool,
        size: Size,
        base: u8,
        offset: i16,
        source: u8,
    ) -> Result<(), Ending> {
        self.writable(base)?;
        let operand = truncate(self.number(source)?, size);
        let expected = if operation == Atomic::CompareExchange { truncate(self.number(0)?, size) } else { 0 };
        let place = self.place(base, offset, size)?;
        let address = self.read(base)?.0.wrapping_add(offset as i64 as u64);
        if !address.is_multiple_of(size.bytes().into()) {
            return Err(Ending::Stopped(Stop::Misaligned));
        }
        let (old, tag) = self.memory.read(place, size.bytes() as usize).map_err(trouble)?;
        if tag != Tag::Number {
            return Err(Ending::Fault(Fault::Leak));
        }
        let new = truncate(atomic(operation, old, operand, expected), size);
        self.memory.write(place, size.bytes() as usize, new, Tag::Number).map_err(trouble)?;
        match operation {
            Atomic::CompareExchange => self.set(0, (old, Tag::Number)),
            _ if fetch => self.set(source, (old, Tag::Number)),
            _ => Ok(()),
        }
    }

    fn call_helper(&mut self, number: u32, helpers: &mut impl Helpers) -> Result<(), Ending> {
        let helper = self.context.helper(number).ok_or(Ending::Fault(Fault::NoHelper))?;
        self.charge(helper.cost.into())?;
        let mut values = [0; 5];
        let mut places = [None; 5];
        for (index, parameter) in helper.parameters.iter().enumerate() {
            values[index] = self.registers[index + 1].0;
            if let Parameter::Scalar { minimum, maximum } = *parameter {
                let value = self.number(index as u8 + 1)?;
                if !(minimum..=maximum).contains(&value) {
                    return Err(Ending::Stopped(Stop::BadArgument));
                }
            }
        }
        for (index, parameter) in helper.parameters.iter().enumerate() {
            if let Parameter::Readable(extent) | Parameter::Writable(extent) = *parameter {
                let write = matches!(parameter, Parameter::Writable(_));
                places[index] = Some(self.argument(index as u8 + 1, extent, write, &values)?);
            }
        }
        let mut call = HelperCall { number, values, places, memory: &mut self.memory };
        let result = helpers.call(&mut call).map_err(Ending::Stopped)?;
        self.registers[1..6].fill((0, Tag::Unwritten));
        self.registers[0] = (result, Tag::Number);
        Ok(())
    }

    fn argument(&mut self, register: u8, extent: Extent, write: bool, values: &[u64; 5]) -> Result<Place, Ending> {
        let size = match extent {
            Extent::Fixed(size) => size.into(),
            Extent::Parameter(index) => values[usize::from(index)],
        };
        if write {
            self.writable(register)?;
        }
        let (address, tag) = self.read(register)?;
        let place = self.memory.place(tag, address, size).map_err(trouble)?;
        self.memory.bytes(place, size as usize).map_err(trouble)?;
        Ok(place)
    }

    fn call_function(&mut self, target: i64, next: usize) -> Step {
        let target = usize::try_from(target).map_err(|_| FAULT_BAD)?;
        self.charge(self.function_length(target))?;
        if self.depth + 1 >= MAX_FRAMES {
            return Err(Ending::Fault(Fault::TooDeep));
        }
        let mut saved = [(0, Tag::Unwritten); 4];
        saved.copy_from_slice(&self.registers[6..10]);
        self.frames[self.depth] = Frame { return_to: next, saved };
        self.depth += 1;
        self.memory.clear_frame(self.depth);
        self.registers[0] = (0, Tag::Number);
        self.registers[6..10].fill((0, Tag::Number));
        self.set_frame_pointer();
        Ok(target)
    }

    fn exit(&mut self) -> Step {
        if self.depth == 0 {
            self.number(0)?;
            return Err(Ending::Stopped(Stop::Finished));
        }
        // A pointer into a frame that is gone, or is not the caller's to know, is no value.
        if let Tag::Frame(_) = self.registers[0].1 {
            self.registers[0].1 = Tag::Unwritten;
        }
        self.depth -= 1;
        let frame = self.frames[self.depth];
        self.registers[6..10].copy_from_slice(&frame.saved);
        self.registers[1..6].fill((0, Tag::Unwritten));
        self.set_frame_pointer();
        Ok(frame.return_to)
    }

    fn set_frame_pointer(&mut self) {
        let address = STACK_TOP - self.depth as u64 * u64::from(FRAME_SIZE);
        self.registers[usize::from(FRAME_POINTER)] = (address, Tag::Frame(self.depth as u8));
    }

    /// Slots from a function's start to the next function's.
    fn function_length(&self, start: usize) -> u64 {
        let is_start = |index: &usize| self.functions[index / 64] >> (index % 64) & 1 != 0;
        let slots = self.program.slots();
        let end = (start + 1..slots).find(is_start).unwrap_or(slots);
        (end - start.min(end)) as u64
    }
}

fn function_starts(program: Program<'_>) -> [u64; MAX_INSTRUCTIONS / 64] {
    let mut starts = [0; MAX_INSTRUCTIONS / 64];
    let mut index = 0;
    while let Ok(instruction) = Instruction::decode(program, index) {
        if let Instruction::CallFunction { target } = instruction
            && let Ok(target) = usize::try_from(target)
            && target < MAX_INSTRUCTIONS
        {
            starts[target / 64] |= 1u64 << (target % 64);
        }
        index += instruction.slots();
    }
    starts
}

fn same_memory(first: Tag, second: Tag) -> bool {
    first == second && first != Tag::Number || matches!((first, second), (Tag::Frame(_), Tag::Frame(_)))
}

/// Numbers with numbers, pointers with pointers into the same memory, anything with zero.
fn comparable(first: (u64, Tag), second: (u64, Tag)) -> Result<(), Ending> {
    let numbers = first.1 == Tag::Number && second.1 == Tag::Number;
    let with_zero = first == (0, Tag::Number) || second == (0, Tag::Number);
    if numbers || with_zero || same_memory(first.1, second.1) { Ok(()) } else { Err(Ending::Fault(Fault::WrongKind)) }
}

fn trouble(trouble: Trouble) -> Ending {
    match trouble {
        Trouble::Outside => Ending::Stopped(Stop::OutOfBounds),
        Trouble::NoPointer => Ending::Fault(Fault::WrongKind),
        Trouble::Leak => Ending::Fault(Fault::Leak),
    }
}
