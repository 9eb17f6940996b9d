//! What one relocation makes of the instruction it stands at.

use downloaded_code::context::Context;
use downloaded_code::instruction::Slot;
use object::elf::{R_BPF_64_32, R_BPF_64_64};

use crate::constant::{CONSTANTS_REGION, Constants};
use crate::object_file::{Index, Kind, Object, Relocation, Symbol};
use crate::refusal::Reason;
use crate::slot::{is_local_call, is_wide_load};

/// Type of a relocation of a 16-byte load: the address of the symbol plus the immediate.
const ADDRESS: u32 = R_BPF_64_64.0;
/// Type of a relocation of a call.
const CALL: u32 = R_BPF_64_32.0;

/// What an instruction refers to once its symbol is known.
pub(crate) enum Target {
    /// A region of the context by its index, and bytes from its start.
    Region(u32, i32),
    /// A helper of the context.
    Helper(u32),
    /// The function that begins at this place of this section.
    Function(Index, u64),
}

/// Sections whose symbols are regions though the object defines them.
const REGION_SECTIONS: [&str; 2] = ["maps", ".maps"];

/// Part of the names of functions that Rust calls in order to panic.
const PANICKING: &str = "core9panicking";

/// Resolves relocations of one object.
pub(crate) struct Resolver<'a> {
    pub(crate) object: &'a Object<'a>,
    pub(crate) context: &'a Context<'a>,
    pub(crate) constants: Constants,
}

impl Resolver<'_> {
    /// What the instruction `slot`, followed by `next`, refers to by `relocation`.
    pub(crate) fn target(&mut self, relocation: Relocation, slot: Slot, next: Option<Slot>) -> Result<Target, Reason> {
        let object = self.object;
        let symbol = object.symbols.get(relocation.symbol).ok_or(Reason::NoSuchSymbol)?;
        match relocation.number {
            ADDRESS if is_wide_load(slot) => {
                let next = next.ok_or(Reason::HalfLoad)?;
                self.address(symbol, i64::from(next.immediate) << 32 | i64::from(slot.immediate as u32))
            }
            CALL if is_local_call(slot) => self.call(symbol, slot.immediate),
            ADDRESS | CALL => Err(Reason::MisplacedRelocation),
            number => Err(Reason::UnknownRelocation(number)),
        }
    }

    /// The address of a symbol, `addend` bytes on.
    fn address(&mut self, symbol: &Symbol<'_>, addend: i64) -> Result<Target, Reason> {
        let Some(section) = symbol.section else { return self.region(symbol.name, addend) };
        match self.object.sections[section].kind {
            Kind::Code => Err(Reason::FunctionAddress(self.described(symbol, section, addend))),
            Kind::Constants => {
                let offset = i64::try_from(symbol.value).ok().and_then(|value| value.checked_add(addend));
                let offset = offset.ok_or_else(|| Reason::OutsideSymbol(self.described(symbol, section, 0)))?;
                let place = self.constants.place(self.object, section, offset)?;
                Ok(Target::Region(self.region_index(CONSTANTS_REGION).ok_or(Reason::NoConstants)?, place))
            }
            Kind::Variables if REGION_SECTIONS.contains(&self.object.sections[section].name) => {
                self.region(symbol.name, addend)
            }
            Kind::Variables | Kind::Other => Err(Reason::Variable(self.described(symbol, section, addend))),
        }
    }

    fn region(&self, name: &str, addend: i64) -> Result<Target, Reason> {
        let known = || self.context.regions.iter().map(|region| region.name.into()).collect();
        let number = self.region_index(name).ok_or_else(|| Reason::NoSuchRegion(name.into(), known()))?;
        let offset = i32::try_from(addend).map_err(|_| Reason::OutsideSymbol(name.into()))?;
        Ok(Target::Region(number, offset))
    }

    fn region_index(&self, name: &str) -> Option<u32> {
        self.context.regions.iter().position(|region| region.name == name).map(|index| index as u32)
    }

    /// The function or helper that a call goes to; the immediate counts slots from the
    /// one after the symbol's.
    fn call(&self, symbol: &Symbol<'_>, immediate: i32) -> Result<Target, Reason> {
        match symbol.section {
            Some(section) => {
                let addend = (i64::from(immediate) + 1) * 8;
                let place = symbol.value.checked_add_signed(addend).ok_or(Reason::BadCall)?;
                Ok(Target::Function(section, place))
            }
            None => {
                let known = || self.context.helpers.iter().map(|helper| helper.name.into()).collect();
                let found = self.context.helpers.iter().find(|helper| helper.name == symbol.name);
                let panics = symbol.name.contains(PANICKING);
                let missing =
                    || if panics { Reason::Panics } else { Reason::NoSuchHelper(symbol.name.into(), known()) };
                found.map(|helper| Target::Helper(helper.number)).ok_or_else(missing)
            }
        }
    }

    /// A symbol's name; for the nameless symbol of a section, the name of what lies `addend` bytes on, else the
    /// section's.
    fn described(&self, symbol: &Symbol<'_>, section: Index, addend: i64) -> String {
        if !symbol.name.is_empty() {
            return String::from(symbol.name);
        }
        let place = symbol.value.wrapping_add_signed(addend);
        let is_there = |other: &&Symbol<'_>| {
            let inside = place.checked_sub(other.value).is_some_and(|distance| distance < other.size);
            other.section == Some(section) && inside && !other.name.is_empty()
        };
        let name = self.object.symbols.iter().find(is_there).map_or(self.object.sections[section].name, |it| it.name);
        String::from(name)
    }
}
