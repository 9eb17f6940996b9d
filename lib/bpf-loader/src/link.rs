//! Laying out the entry function and all it calls as one program.

use std::collections::HashMap;

use downloaded_code::context::Context;
use downloaded_code::instruction::Slot;
use downloaded_code::program::MAX_INSTRUCTIONS;

use crate::constant::Constants;
use crate::line::Lines;
use crate::object_file::{Index, Kind, Object, Relocation};
use crate::program::{Function, Program};
use crate::refusal::{Place, Reason, Refusal};
use crate::relocation::{Resolver, Target};
use crate::slot::{is_local_call, is_wide_load, jump};

/// Source-register number of a 16-byte load of the address of a byte of a region, by the
/// region's number: `map_val(map_by_idx(imm)) + next_imm` of RFC 9669, section 5.4.
const REGION_ADDRESS: u8 = 6;

impl Object<'_> {
    /// Links the function `entry` (or the only global one) and all functions it calls.
    ///
    /// # Errors
    /// What is wrong, at which instruction of which function, with the source line when
    /// the object was compiled with `-g`.
    pub fn link(&self, entry: Option<&str>, context: &Context<'_>) -> Result<Program, Refusal> {
        let entry = self.entry(entry)?;
        let resolver = Resolver { object: self, context, constants: Constants::default() };
        let mut linker = Linker {
            resolver,
            placed: HashMap::new(),
            queue: Vec::new(),
            instructions: Vec::new(),
            functions: Vec::new(),
            origins: Vec::new(),
            calls: Vec::new(),
        };
        linker.enqueue(entry);
        let mut next = 0;
        while let Some(&symbol) = linker.queue.get(next) {
            linker.place(symbol)?;
            next += 1;
        }
        linker.resolve_calls();
        Ok(linker.finish())
    }
}

struct Linker<'a> {
    resolver: Resolver<'a>,
    /// The place in `queue` and `functions` of each function's symbol.
    placed: HashMap<Index, usize>,
    /// Symbols of the functions, in the order of the program.
    queue: Vec<Index>,
    instructions: Vec<Slot>,
    functions: Vec<Function>,
    /// Section and slot of the object that each instruction comes from.
    origins: Vec<(Index, usize)>,
    /// Calls and the places in `functions` they go to.
    calls: Vec<(usize, usize)>,
}

/// The code of one function in its section.
struct Code<'a> {
    name: &'a str,
    section: Index,
    /// Its first slot in the section.
    first: usize,
    slots: Vec<Slot>,
}

impl<'a> Linker<'a> {
    /// The place of a function among the program's, which it joins if it is new.
    fn enqueue(&mut self, symbol: Index) -> usize {
        let next = self.queue.len();
        let place = *self.placed.entry(symbol).or_insert(next);
        if place == next {
            self.queue.push(symbol);
        }
        place
    }

    /// Copies a function to the end of the program.
    fn place(&mut self, symbol: Index) -> Result<(), Refusal> {
        let code = self.code(symbol).map_err(Refusal::whole)?;
        if self.instructions.len() + code.slots.len() > MAX_INSTRUCTIONS {
            return Err(Refusal::whole(Reason::TooManyInstructions));
        }
        let (first, length) = (self.instructions.len(), code.slots.len());
        self.functions.push(Function { name: code.name.into(), first, length });
        self.origins.extend((0..length).map(|slot| (code.section, code.first + slot)));
        self.instructions.extend_from_slice(&code.slots);
        let mut slot = 0;
        while slot < length {
            let width = if is_wide_load(code.slots[slot]) { 2 } else { 1 };
            self.instruction(&code, slot, first + slot).map_err(|reason| self.refuse(&code, slot, reason))?;
            slot += width;
        }
        Ok(())
    }

    fn code(&self, symbol: Index) -> Result<Code<'a>, Reason> {
        let object = self.resolver.object;
        let symbol = &object.symbols[symbol];
        let bad = || Reason::BadFunction(symbol.name.into());
        let section = symbol.section.ok_or_else(bad)?;
        let source = &object.sections[section];
        let start = usize::try_from(symbol.value).map_err(|_| bad())?;
        let size = usize::try_from(symbol.size).map_err(|_| bad())?;
        let bytes = start.checked_add(size).and_then(|end| source.bytes.get(start..end)).ok_or_else(bad)?;
        let (slots, rest) = bytes.as_chunks::<8>();
        if source.kind != Kind::Code || start % 8 != 0 || slots.is_empty() || !rest.is_empty() {
            return Err(bad());
        }
        if slots.len() > MAX_INSTRUCTIONS {
            return Err(Reason::TooManyInstructions);
        }
        Ok(Code {
            name: symbol.name,
            section,
            first: start / 8,
            slots: slots.iter().map(|bytes| Slot::from_bytes(*bytes)).collect(),
        })
    }

    /// Checks and resolves the instruction at `slot` of `code`, which is at `place` in the
    /// program.
    fn instruction(&mut self, code: &Code<'a>, slot: usize, place: usize) -> Result<(), Reason> {
        let (instruction, next) = (code.slots[slot], code.slots.get(slot + 1).copied());
        if is_wide_load(instruction) && next.is_none() {
            return Err(Reason::HalfLoad);
        }
        if let Some(distance) = jump(instruction) {
            let target = slot as i64 + 1 + distance;
            if !(0..code.slots.len() as i64).contains(&target) {
                return Err(Reason::JumpOutOfFunction);
            }
        }
        match self.relocation(code, slot, if is_wide_load(instruction) { 2 } else { 1 })? {
            Some(relocation) => {
                let target = self.resolver.target(relocation, instruction, next)?;
                self.apply(target, place)
            }
            None if is_local_call(instruction) => {
                let target = (code.first + slot) as i64 + 1 + i64::from(instruction.immediate);
                let offset = u64::try_from(target * 8).map_err(|_| Reason::BadCall)?;
                self.apply(Target::Function(code.section, offset), place)
            }
            None => Ok(()),
        }
    }

    /// The one relocation of the instruction of `width` slots at `slot`, if it has any.
    fn relocation(&self, code: &Code<'_>, slot: usize, width: usize) -> Result<Option<Relocation>, Reason> {
        let all = &self.resolver.object.sections[code.section].relocations;
        let start = (code.first + slot) as u64 * 8;
        let first = all.partition_point(|relocation| relocation.offset < start);
        let end = start + width as u64 * 8;
        let mut here = all[first..].iter().take_while(|relocation| relocation.offset < end);
        match (here.next(), here.next()) {
            (None, _) => Ok(None),
            (Some(one), None) if one.offset == start => Ok(Some(*one)),
            (Some(_), None) => Err(Reason::MisplacedRelocation),
            (Some(_), Some(_)) => Err(Reason::TwoRelocations),
        }
    }

    /// Writes what the instruction at `place` refers to into it.
    fn apply(&mut self, target: Target, place: usize) -> Result<(), Reason> {
        let instruction = self.instructions[place];
        match target {
            Target::Helper(number) => {
                self.instructions[place] = Slot { source: 0, immediate: number as i32, ..instruction };
            }
            Target::Region(number, offset) => self.write_address(place, number, offset),
            Target::Function(section, offset) => {
                let symbol = *self.resolver.object.function_at.get(&(section, offset)).ok_or(Reason::BadCall)?;
                let function = self.enqueue(symbol);
                self.calls.push((place, function));
            }
        }
        Ok(())
    }

    fn write_address(&mut self, place: usize, region: u32, offset: i32) {
        let load = &mut self.instructions[place];
        load.source = REGION_ADDRESS;
        load.immediate = region as i32;
        self.instructions[place + 1].immediate = offset;
    }

    fn resolve_calls(&mut self) {
        for &(place, function) in &self.calls {
            let distance = self.functions[function].first as i64 - (place as i64 + 1);
            self.instructions[place].immediate = distance as i32;
        }
    }

    fn refuse(&self, code: &Code<'_>, slot: usize, reason: Reason) -> Refusal {
        let line = self.resolver.object.debug.line(code.section, code.first + slot);
        let place = Place { function: code.name.into(), instruction: slot, line };
        Refusal { place: Some(Box::new(place)), reason }
    }

    fn finish(self) -> Program {
        let debug = &self.resolver.object.debug;
        let lines = Lines::new(self.origins.iter().map(|&(section, slot)| debug.line(section, slot)));
        Program {
            bytes: self.instructions.into_iter().flat_map(Slot::to_bytes).collect(),
            functions: self.functions,
            constants: self.resolver.constants.bytes,
            lines,
        }
    }
}
