//! Layout of a program in memory: where its files, its interpreter and its stack lie, and their mapping.
//!
//! The functions map into an address space that the caller names. It is that of the running process (`exec`), or of a
//! program that a parent prepares for its child (`exec_template`).

use super::exec_file::ElfFile;
use super::exec_request::ExecPlan;
use crate::server::client::PrefaultSet;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::address_map::{MOVABLE_BASE, PAGE_SIZE, STACK_TOP, page_up};
use linux_abi::errno::{Errno, Result};
use program::elf::Image;
use program::load_segments;
use vm::address_space::{AddressSpace, PageOps};
use vm::table_scan::SPAN;
use vm::vma::{Protection, Vma};

/// Pages that the stack begins with; it grows as it is touched.
const FIRST_STACK: u64 = 33 * PAGE_SIZE;

/// Where a program that begins has everything.
#[derive(Clone, Debug)]
pub struct LoadedLayout {
    /// How far it lies from where its file would have it.
    pub(super) bias: u64,
    /// The same of its interpreter; 0 where it has none.
    pub(super) interpreter_base: u64,
    /// First instruction.
    pub(super) entry: u64,
    /// Ranges that still need to be filled with zeros.
    pub(super) zeros: Vec<Range<u64>>,
}

/// Says where everything of a program lies, and maps it: of its files the pages that were `touched`, and its stack from
/// `stack` on.
pub(super) fn lay_out(
    (space, pages): (&mut AddressSpace, &mut impl PageOps),
    plan: &ExecPlan,
    touched: &[Cow<'_, PrefaultSet>],
    stack: u64,
) -> Result<LoadedLayout> {
    let ElfFile { file, image } = &*plan.program;
    let touched = |index: usize| touched.get(index).map_or(&[][..], |touched| &touched.pages);
    let (first, last) = image.span();
    let bias = if image.movable { MOVABLE_BASE - first } else { 0 };
    let mut zeros = Vec::new();
    load_segments::map((space, pages), (file.opened.node, touched(0)), image, bias, &mut zeros)?;
    let end = page_up(last + bias).ok_or(Errno::ENOMEM)?;
    space.brk = (end, end);
    map_stack(space, pages, image.executable_stack)?;
    let (entry, interpreter_base) = match &plan.interpreter {
        None => (image.entry.wrapping_add(bias), 0),
        Some(interpreter) => {
            let ElfFile { file, image } = &**interpreter;
            let base = place_interpreter(space, image)?;
            load_segments::map((space, pages), (file.opened.node, touched(1)), image, base, &mut zeros)?;
            (image.entry.wrapping_add(base), base)
        }
    };
    space.fill_with_few_zeros(pages, stack..STACK_TOP);
    Ok(LoadedLayout { bias, interpreter_base, entry, zeros })
}

/// Where an interpreter or an object goes, as a distance from where its file would have it.
pub(super) fn place_movable(space: &AddressSpace, image: &Image) -> Result<u64> {
    let (first, last) = image.span();
    if !image.movable {
        return Ok(0);
    }
    let bytes = page_up(last - first).ok_or(Errno::ENOMEM)?;
    Ok(space.areas.find_place(bytes)? - first)
}

/// The same of an interpreter, at the beginning of what a table translates. The libraries below it have tables of their
/// own, which go as a whole when the program does.
fn place_interpreter(space: &AddressSpace, image: &Image) -> Result<u64> {
    let base = place_movable(space, image)?;
    let (first, last) = image.span();
    let lower = (base + first) & !(SPAN - 1);
    let is_free = image.movable && space.areas.within(lower, base + last).is_empty();
    Ok(if is_free { lower - first } else { base })
}

fn map_stack(space: &mut AddressSpace, pages: &mut impl PageOps, executable: bool) -> Result<()> {
    let protection = if executable { Protection(7) } else { Protection::READ_WRITE };
    let area = Vma { grows: true, ..Vma::anonymous(STACK_TOP - FIRST_STACK, STACK_TOP, protection) };
    space.map(pages, area)
}
