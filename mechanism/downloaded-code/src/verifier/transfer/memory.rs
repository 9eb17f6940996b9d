//! Loads, stores and atomic operations: is every byte inside its memory, and what does the stack hold?

use super::super::annotation::{Protection, Space};
use super::super::guarded::Guarded;
use super::super::scalar::Scalar;
use super::super::value::{Kind, Value};
use super::{Annotation, Transfer};
use crate::context::{Access, Speculation};
use crate::instruction::{Atomic, FRAME_POINTER, Instruction, Operand, Size};
use crate::invocation::FRAME_SIZE;
use crate::refusal::{Reason, Refusal};

/// Offsets beyond this are taken as unknown: sums of two of them cannot overflow.
const MOST_OFFSET: i64 = 1 << 40;
const FRAME: i64 = FRAME_SIZE as i64;
/// Where an access may end for its end to stand in the code: no longer than a displacement.
const MOST_FIXED_END: i64 = i16::MAX as i64;

/// Where an access lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a region or a caller's frame.
    Memory,
    /// In the own frame, in `size` bytes starting at a byte (from the frame's lowest) between the two.
    Frame { first: i64, last: i64 },
}

impl Transfer<'_> {
    pub(super) fn load(
        &mut self,
        size: Size,
        signed: bool,
        destination: u8,
        base: u8,
        offset: i16,
    ) -> Result<(), Refusal> {
        let bytes = size.bytes();
        let loaded = match self.access(base, i64::from(offset), bytes, false)? {
            Place::Memory => Value::number(Scalar::of_bits(size.bits())),
            Place::Frame { first, last } => self.load_from_frame(base, first, last, bytes)?,
        };
        let value = match loaded.kind {
            Kind::Number if signed => {
                Value { scalar: loaded.scalar.sign_extended(size.bits()), relation: None, origin: None, ..loaded }
            }
            _ => loaded,
        };
        self.state.set_register(destination, value);
        Ok(())
    }

    fn load_from_frame(&mut self, base: u8, first: i64, last: i64, bytes: u32) -> Result<Value, Refusal> {
        let slot = (first / 8) as u8;
        if first == last
            && bytes == 8
            && first % 8 == 0
            && let Some(value) = self.state.slot(slot)
        {
            return Ok(value);
        }
        self.read_frame(base, first, last, i64::from(bytes))?;
        let value = Value::number(Scalar::of_bits(bytes * 8));
        let known = if first == last && first % 8 == 0 { self.state.slot(slot) } else { None };
        Ok(match known {
            Some(whole) => {
                Value { scalar: whole.scalar.zero_extended(bytes * 8), guarded: whole.guarded.altered(), ..value }
            }
            None => value,
        })
    }

    /// Bytes of the frame are read as numbers: they must be written and not part of a pointer. Where reading or writing
    /// happens at a place that is not constant, unwritten ones read as zero: the frame is cleared when the function
    /// starts.
    pub(super) fn read_frame(&mut self, base: u8, first: i64, last: i64, size: i64) -> Result<(), Refusal> {
        let span = last - first + size;
        if self.state.has_pointer(first, span) {
            return Err(self.refuse(base, Reason::PartOfPointer));
        }
        if !self.state.all_written(first, span) {
            if self.settled && first == last && !self.state.all_touched(first, span) {
                return Err(self.refuse(base, Reason::StackNotInitialised));
            }
            self.start_with(Annotation::ZERO_FRAME);
        }
        Ok(())
    }

    pub(super) fn store(&mut self, size: Size, base: u8, offset: i16, operand: Operand) -> Result<(), Refusal> {
        let value = match operand {
            Operand::Register(register) => {
                self.read(register)?;
                self.state.register(register)
            }
            Operand::Immediate(_) => self.operand(operand)?,
        };
        let place = self.access(base, i64::from(offset), size.bytes(), true)?;
        let leaks = |register: Operand| match register {
            Operand::Register(register) => self.refuse(register, Reason::PointerWouldLeak),
            Operand::Immediate(_) => self.refuse_about(base, Reason::PointerWouldLeak),
        };
        match place {
            Place::Frame { first, last } if first == last && first % 8 == 0 && size == Size::Double => {
                if !self.state.set_slot((first / 8) as u8, value) {
                    return Err(Refusal::at(self.index, Reason::TooManyPointersOnStack));
                }
            }
            _ if !value.is_number() => return Err(leaks(operand)),
            Place::Memory => {}
            Place::Frame { first, last } => self.write_frame(first, last, i64::from(size.bytes())),
        }
        Ok(())
    }

    /// Numbers are written to `size` bytes of the frame that start between `first` and `last`.
    pub(super) fn write_frame(&mut self, first: i64, last: i64, size: i64) {
        if first == last {
            self.state.write_plain(first, size);
        } else {
            self.state.spoil(first, last - first + size);
        }
    }

    pub(super) fn atomic(&mut self, instruction: &Instruction) -> Result<(), Refusal> {
        let Instruction::Atomic { operation, fetch, size, base, offset, source } = *instruction else {
            return Ok(());
        };
        self.read_number(source)?;
        if operation == Atomic::CompareExchange {
            self.read_number(0)?;
        }
        let offset = i64::from(offset);
        let place = self.access(base, offset, size.bytes(), true)?;
        self.require_alignment(base, offset, size.bytes())?;
        if let Place::Frame { first, last } = place {
            let bytes = i64::from(size.bytes());
            self.read_frame(base, first, last, bytes)?;
            self.write_frame(first, last, bytes);
        }
        let old = Value::number(Scalar::of_bits(size.bits()));
        if operation == Atomic::CompareExchange {
            self.state.set_register(0, old);
        } else if fetch {
            self.state.set_register(source, old);
        }
        Ok(())
    }

    /// Atomic operations need aligned addresses: proven, or checked at run time.
    fn require_alignment(&mut self, base: u8, offset: i64, size: u32) -> Result<(), Refusal> {
        let value = self.read(base)?;
        let low = u64::from(size - 1);
        let sum = Scalar::constant(offset as u64).bits.add(value.scalar.bits);
        let (aligned_base, known) = match value.kind {
            Kind::Region(region) => {
                let alignment = self.context.regions.get(usize::from(region)).map_or(1, |region| region.alignment);
                (alignment >= size, true)
            }
            Kind::CallersStack { .. } => (true, false),
            _ => (true, true),
        };
        let misaligned = known && sum.value & low != 0;
        if !aligned_base || misaligned {
            return Err(self.refuse(base, Reason::Misaligned { size }));
        }
        if !known || sum.mask & low != 0 {
            if self.context.strict {
                return Err(self.refuse(base, Reason::Misaligned { size }));
            }
            self.note.set(Annotation::ALIGNMENT);
        }
        Ok(())
    }

    /// Decides whether an access stays inside its memory, and records for the compiler how to keep it there.
    fn access(&mut self, base: u8, offset: i64, size: u32, write: bool) -> Result<Place, Refusal> {
        let value = self.read(base)?;
        let (space, protection, place) = self.locate(base, &value, offset, (size, size), write)?;
        self.note.set_access(space, protection);
        if let Place::Frame { first, last } = place {
            self.note.set_frame_places(first as u16, last as u16);
        } else if let (Space::Region(_), Some(end)) = (space, fixed_end(&value, offset, size)) {
            self.note.set_upper(Annotation::FIXED_END, end);
        } else if matches!(space, Space::Region(_)) && self.starts_inside(&value, offset) {
            self.note.set(Annotation::STARTS_INSIDE);
            self.note_end(space, offset + i64::from(size));
        }
        Ok(place)
    }

    /// Memory at `value + offset`, of at least and at most so many bytes: which it is, what protects it, and where in
    /// the frame it lies.
    pub(super) fn locate(
        &mut self,
        register: u8,
        value: &Value,
        offset: i64,
        (least_size, size): (u32, u32),
        write: bool,
    ) -> Result<(Space, Protection, Place), Refusal> {
        match value.kind {
            Kind::Region(region) => {
                let protection = self.in_region(register, value, region, offset, size, write)?;
                self.learn_length(region, value, offset, least_size);
                Ok((Space::Region(region), protection, Place::Memory))
            }
            Kind::Stack => {
                let (protection, place) = self.in_frame(register, value, offset, size)?;
                Ok((Space::Stack, protection, place))
            }
            Kind::CallersStack { before, after } => {
                let (least, greatest) = self.bounds(value).unwrap_or((i64::MIN / 2, i64::MAX / 2));
                let inside =
                    least + offset >= -i64::from(before) && greatest + offset + i64::from(size) <= i64::from(after);
                if !inside {
                    return Err(self.refuse(register, Reason::OutsideCallersStack { size }));
                }
                Ok((Space::CallersStack, self.unless_guarded(value.guarded != Guarded::Nothing), Place::Memory))
            }
            _ => Err(self.refuse(register, Reason::NeedsPointer)),
        }
    }

    fn in_region(
        &mut self,
        register: u8,
        value: &Value,
        region: u8,
        offset: i64,
        size: u32,
        write: bool,
    ) -> Result<Protection, Refusal> {
        let index = usize::from(region);
        let Some(described) = self.context.regions.get(index) else {
            return Err(self.refuse(register, Reason::NoSuchRegion));
        };
        if write && described.access == Access::ReadOnly {
            return Err(self.refuse(register, Reason::RegionIsReadOnly));
        }
        let bounds = self.bounds(value).map(|(least, greatest)| (least + offset, greatest + offset + i64::from(size)));
        let proven = i64::from(self.state.proven[index]);
        let related = value
            .relation
            .is_some_and(|relation| relation.region == region && i64::from(relation.slack) >= offset + i64::from(size));
        let protection = match bounds {
            Some((start, end)) if start >= 0 && end <= proven => {
                self.unless_guarded(value.guarded != Guarded::Nothing || end > i64::from(described.minimum()))
            }
            Some((start, _)) if start >= 0 && related => self.unless_guarded(true),
            _ => Protection::Checked,
        };
        if protection == Protection::Checked {
            let never = bounds.is_some_and(|(start, end)| {
                let latest_start = end - i64::from(size);
                latest_start < 0 || start + i64::from(size) > i64::from(described.maximum())
            });
            if self.settled && (never || self.context.strict) {
                return Err(self.refuse(register, Reason::OutsideRegion { size }));
            }
        }
        Ok(protection)
    }

    /// After the access it is known that the region reaches at least as far as the lowest address it can have had.
    fn learn_length(&mut self, region: u8, value: &Value, offset: i64, size: u32) {
        let Some(described) = self.context.regions.get(usize::from(region)) else { return };
        let start = self.bounds(value).map(|(least, _)| least + offset);
        if let Some(start) = start.filter(|start| *start >= 0) {
            let reached = (start + i64::from(size)).min(i64::from(described.maximum()));
            let proven = &mut self.state.proven[usize::from(region)];
            *proven = (*proven).max(reached as u32);
        }
    }

    /// Frames have a fixed size; what is not proven inside is compared with the whole frame at run time. What is
    /// proven only because of jumps is kept to these places whatever jumps do, so that what is known of others
    /// stays true.
    fn in_frame(
        &mut self,
        register: u8,
        value: &Value,
        offset: i64,
        size: u32,
    ) -> Result<(Protection, Place), Refusal> {
        let last_start = FRAME - i64::from(size);
        let bounds = self.bounds(value).map(|(least, greatest)| (least + offset + FRAME, greatest + offset + FRAME));
        match bounds {
            Some((first, last)) if first >= 0 && last <= last_start => {
                let protection = self.unless_guarded(value.guarded != Guarded::Nothing);
                Ok((protection, Place::Frame { first, last }))
            }
            Some((first, last)) if last < 0 || first > last_start => {
                Err(self.refuse(register, Reason::OutsideStack { size }))
            }
            _ if self.context.strict => Err(self.refuse(register, Reason::OutsideStack { size })),
            _ => Ok((Protection::Checked, Place::Frame { first: 0, last: last_start })),
        }
    }

    /// The offset of a pointer as a signed range, when it is reasonably small.
    fn bounds(&self, value: &Value) -> Option<(i64, i64)> {
        let (least, greatest) = value.offsets();
        (least >= -MOST_OFFSET && greatest <= MOST_OFFSET).then_some((least, greatest))
    }

    /// The end of an access may be compared with a register of the program that holds its region's end. The register
    /// must differ from the end by as much as the access's end from the address, or by one less.
    fn note_end(&mut self, space: Space, end: i64) {
        let Space::Region(region) = space else { return };
        let distance = |register: &u8| {
            let value = self.state.register(*register);
            let relation = value.relation.filter(|relation| relation.exact && relation.untaught)?;
            let of_region = value.kind == Kind::Region(region) && relation.region == region;
            of_region.then(|| end - i64::from(relation.slack)).filter(|distance| (0..=1).contains(distance))
        };
        let found = (0..FRAME_POINTER).find_map(|register| Some((register, distance(&register)?)));
        if let Some((register, distance)) = found {
            self.note.set_end_register(register, distance == 1);
        }
    }

    /// Whether an access starts nowhere before its region, whatever jumps do.
    fn starts_inside(&self, value: &Value, offset: i64) -> bool {
        let least = self.bounds(value).map(|(least, _)| least + offset);
        least.is_some_and(|least| least >= 0) && value.guarded.lower_end_holds(&value.scalar)
    }

    fn unless_guarded(&self, guarded: bool) -> Protection {
        let masked = guarded && self.context.speculation == Speculation::Masked;
        if masked { Protection::Masked } else { Protection::Proven }
    }
}

/// Where in its region an access ends, if that is one place whatever branches do.
fn fixed_end(value: &Value, offset: i64, size: u32) -> Option<u32> {
    let start = value.scalar.as_constant().filter(|_| value.guarded == Guarded::Nothing)? as i64;
    let start = start.checked_add(offset).filter(|start| *start >= 0)?;
    start.checked_add(size.into()).filter(|end| *end <= MOST_FIXED_END).map(|end| end as u32)
}
