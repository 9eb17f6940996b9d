//! Calls of helpers, and what crosses a call between functions of the program.

use super::super::annotation::{Protection, Space};
use super::super::guarded::Guarded;
use super::super::scalar::Scalar;
use super::super::state::State;
use super::super::value::{Kind, Value};
use super::memory::Place;
use super::{Annotation, Transfer};
use crate::context::{Extent, Helper, Parameter, Speculation};
use crate::invocation::FRAME_SIZE;
use crate::refusal::{Reason, Refusal};

impl Transfer<'_> {
    pub(super) fn call_helper(&mut self, number: u32) -> Result<(), Refusal> {
        let context = self.context;
        let helper = context.helper(number).ok_or_else(|| Refusal::at(self.index, Reason::NoSuchHelper { number }))?;
        if context.deterministic && !helper.deterministic {
            return Err(Refusal::at(self.index, Reason::HelperNotDeterministic { number }));
        }
        // Numbers first, as at run time: they may be the sizes of memory.
        for numbers in [true, false] {
            for (index, parameter) in helper.parameters.iter().enumerate() {
                if numbers == matches!(parameter, Parameter::Scalar { .. }) {
                    self.argument(helper, index)?;
                }
            }
        }
        self.state.forget_arguments();
        let result = Value::number(Scalar::range(helper.result.0, helper.result.1));
        self.state.set_register(0, result);
        Ok(())
    }

    fn argument(&mut self, helper: &Helper<'_>, index: usize) -> Result<(), Refusal> {
        let register = index as u8 + 1;
        match helper.parameters[index] {
            Parameter::Scalar { minimum, maximum } => {
                let value = self.read_number(register)?;
                self.scalar_argument(register, index, &value, minimum, maximum)
            }
            Parameter::Readable(extent) => self.pointer_argument(helper, register, index, extent, false),
            Parameter::Writable(extent) => self.pointer_argument(helper, register, index, extent, true),
        }
    }

    fn scalar_argument(
        &mut self,
        register: u8,
        index: usize,
        value: &Value,
        minimum: u64,
        maximum: u64,
    ) -> Result<(), Refusal> {
        let scalar = &value.scalar;
        if scalar.minimum >= minimum && scalar.maximum <= maximum {
            if value.guarded != Guarded::Nothing {
                self.fence();
            }
            return Ok(());
        }
        let never = scalar.minimum > maximum || scalar.maximum < minimum;
        if self.settled && (never || self.context.strict) {
            return Err(self.refuse(register, Reason::ArgumentOutOfRange { minimum, maximum }));
        }
        self.note.set_argument_check(index);
        self.fence();
        Ok(())
    }

    fn pointer_argument(
        &mut self,
        helper: &Helper<'_>,
        register: u8,
        index: usize,
        extent: Extent,
        write: bool,
    ) -> Result<(), Refusal> {
        let value = self.read(register)?;
        let (least, size) = self.extents(helper, extent)?;
        let (space, protection, place) = self.locate(register, &value, 0, (least, size), write)?;
        if matches!(space, Space::Stack) && protection == Protection::Checked {
            return Err(self.refuse(register, Reason::OutsideStack { size }));
        }
        if let Place::Frame { first, last } = place {
            self.frame_argument(register, first, last - first + i64::from(size), write)?;
        }
        self.note.set_argument_space(index, space);
        match protection {
            Protection::Proven => {}
            Protection::Masked => self.fence(),
            Protection::Checked => {
                self.note.set_argument_check(index);
                self.fence();
            }
        }
        Ok(())
    }

    /// The fewest and most bytes that a pointer parameter can mean: a size that is checked at run time is at most what
    /// the parameter allows.
    fn extents(&self, helper: &Helper<'_>, extent: Extent) -> Result<(u32, u32), Refusal> {
        match extent {
            Extent::Fixed(size) => Ok((size, size)),
            Extent::Parameter(index) => {
                let value = self.read_number(index + 1)?;
                let most = match helper.parameters.get(usize::from(index)) {
                    Some(Parameter::Scalar { maximum, .. }) => *maximum,
                    _ => 0,
                };
                let least = value.scalar.minimum.min(most);
                Ok((least as u32, value.scalar.maximum.min(most) as u32))
            }
        }
    }

    /// A helper sees bytes of the frame: none may be part of a pointer, and what was never written reads as zero.
    fn frame_argument(&mut self, register: u8, first: i64, span: i64, write: bool) -> Result<(), Refusal> {
        if self.state.has_pointer(first, span) {
            return Err(self.refuse(register, Reason::PartOfPointer));
        }
        if !self.state.all_written(first, span) {
            self.start_with(Annotation::ZERO_FRAME);
        }
        if write {
            self.state.write_plain(first, span);
        }
        Ok(())
    }

    /// No speculation past this call: its arguments hold only because of branches.
    fn fence(&mut self) {
        if self.context.speculation == Speculation::Masked {
            self.note.set(Annotation::FENCE);
        }
    }

    /// Turns the state before a call into the state at the start of the called function. Records in the caller's
    /// state that the callee may have written the objects whose addresses it gets.
    pub(crate) fn enter_function(&mut self, callee: &mut State) -> Result<(), Refusal> {
        *callee = State::EMPTY;
        callee.proven = self.state.proven;
        let arguments: [Value; 5] = core::array::from_fn(|index| self.state.register(index as u8 + 1));
        let mut passed = [None; 5];
        for (index, value) in arguments.iter().enumerate() {
            let register = index as u8 + 1;
            let (seen, window) = match value.kind {
                Kind::Stack => self.pass_frame(register, value)?,
                _ => (value.seen_outside(), None),
            };
            passed[index] = window;
            callee.set_register(register, seen);
        }
        for (start, end) in passed.into_iter().flatten() {
            self.state.write_plain(start, end - start);
        }
        self.state.forget_arguments();
        Ok(())
    }

    /// How a pointer into the own frame looks to a called function, and which bytes it makes reachable. They read as
    /// zero where they were not written.
    fn pass_frame(&mut self, register: u8, value: &Value) -> Result<(Value, Option<(i64, i64)>), Refusal> {
        let place = value.scalar.as_constant().and_then(|offset| (offset as i64).checked_add(i64::from(FRAME_SIZE)));
        let Some(byte) = place.filter(|byte| (0..=i64::from(FRAME_SIZE)).contains(byte)) else {
            return Err(self.refuse(register, Reason::OutsideStack { size: 1 }));
        };
        let (start, end) = self.state.plain_window(byte);
        let (before, after) = ((byte - start) as u16, (end - byte) as u16);
        if !self.state.all_written(start, end - start) {
            self.start_with(Annotation::ZERO_FRAME);
        }
        let guarded = value.guarded.altered();
        let seen = Value { guarded, ..Value::pointer(Kind::CallersStack { before, after }, 0) };
        Ok((seen, Some((start, end))))
    }
}
