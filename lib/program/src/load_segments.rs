//! Where the segments of a file go in a program's memory, and what they begin with.
//!
//! Pure. Segments are mapped in the order in which they stand, one over the other if need be, with fresh memory
//! behind what the file has of them. The pages that programs touch come at once (`vm::exec_prefault`).

use super::elf::{Image, Segment};
use alloc::vec::Vec;
use core::ops::Range;
use linux_abi::address_map::{PAGE_MASK, page_up};
use linux_abi::errno::{Errno, Result};
use vm::address_space::{AddressSpace, PageOps};
use vm::vma::{Backing, Protection, Vma};

/// A file, and the pages that programs touch of it, in ascending order: index and number.
pub type Source<'a> = (u64, &'a [(u64, u64)]);

/// Maps what a file has of its segments, `bias` bytes from where it would have them. The ranges left to fill with
/// zeros then go into `zeros`.
///
/// # Errors
/// `ENOEXEC` where the file cannot be loaded; what [`Space::map`] refuses.
pub fn map(
    (space, pages): (&mut AddressSpace, &mut impl PageOps),
    source: Source<'_>,
    image: &Image,
    bias: u64,
    zeros: &mut Vec<Range<u64>>,
) -> Result<()> {
    if !image.is_sound {
        return Err(Errno::ENOEXEC);
    }
    if image.is_in_order() {
        return map_together((space, pages), source, &image.segments, bias, zeros);
    }
    let mut one = |segment| map_together((space, pages), source, core::slice::from_ref(segment), bias, zeros);
    image.segments.iter().try_for_each(&mut one)
}

/// The addresses of an image's pages.
pub fn pages_of_all(image: &Image, bias: u64) -> Range<u64> {
    let (first, last) = image.span();
    first.wrapping_add(bias)..page_up(last.wrapping_add(bias)).unwrap_or(u64::MAX)
}

/// Maps segments that have no page in common.
fn map_together(
    (space, pages): (&mut AddressSpace, &mut impl PageOps),
    (node, touched): Source<'_>,
    segments: &[Segment],
    bias: u64,
    zeros: &mut Vec<Range<u64>>,
) -> Result<()> {
    segments.iter().try_for_each(|segment| map_segment(space, pages, node, segment, bias))?;
    if let (Some(first), Some(last)) = (segments.first(), segments.last()) {
        let place = places(first, bias)?[0]..places(last, bias)?[2];
        // What lay there before is gone, and what was to be done with it.
        zeros.retain(|range| !place.contains(&range.start));
        space.fill_for_start(pages, node, touched, place);
    }
    for segment in segments {
        zeros.extend(behind(segment, bias)?);
    }
    Ok(())
}

/// Where the pages of a segment begin, where those that its file has end, and where all end.
fn places(segment: &Segment, bias: u64) -> Result<[u64; 3]> {
    let address = segment.address + bias;
    let start = address & PAGE_MASK;
    let file_end = if segment.file_bytes == 0 { Some(start) } else { page_up(address + segment.file_bytes) };
    let end = page_up(address + segment.memory_bytes);
    Ok([start, file_end.ok_or(Errno::ENOMEM)?, end.ok_or(Errno::ENOMEM)?])
}

fn map_segment(
    space: &mut AddressSpace,
    pages: &mut impl PageOps,
    node: u64,
    segment: &Segment,
    bias: u64,
) -> Result<()> {
    let mut protection = Protection::READ;
    if segment.write {
        protection = Protection(protection.0 | Protection::WRITE.0);
    }
    if segment.execute {
        protection = Protection(protection.0 | Protection::EXECUTE.0);
    }
    let [start, mapped_end, end] = places(segment, bias)?;
    if mapped_end > start {
        let backing = Backing::File { node, offset: segment.file_offset & PAGE_MASK, writable: false };
        space.map(pages, Vma { backing, ..Vma::anonymous(start, mapped_end, protection) })?;
    }
    if end > mapped_end {
        space.map(pages, Vma::anonymous(mapped_end, end, protection))?;
    }
    Ok(())
}

/// What lies behind the file's part of a segment, in its last page: zeros.
fn behind(segment: &Segment, bias: u64) -> Result<Option<Range<u64>>> {
    let [_, mapped_end, end] = places(segment, bias)?;
    let file_end = segment.address + bias + segment.file_bytes;
    let is_there = segment.memory_bytes > segment.file_bytes && segment.write && mapped_end > file_end;
    Ok(is_there.then_some(file_end..mapped_end.min(end)))
}
