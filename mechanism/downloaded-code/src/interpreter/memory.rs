//! The interpreter's memory: regions and stack at made-up addresses, with a note of what each word is.

use crate::context::MAX_REGIONS;
use crate::invocation::{FRAME_SIZE, STACK_SIZE};

/// Address of the first byte of the first region; the others follow at the same distance.
const REGION_STRIDE: u64 = 1 << 40;
/// Address of the byte after the stack.
pub(super) const STACK_TOP: u64 = 1 << 50;

/// What a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// Nothing: a call left it.
    Unwritten,
    /// A number.
    Number,
    /// A pointer into the region with this index.
    Region(u8),
    /// A pointer into the frame of the function at this depth, 0 being the first.
    Frame(u8),
}

/// What went wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Outside the memory that the pointer points into.
    Outside,
    /// The register is no pointer.
    NoPointer,
    /// Part of a pointer would be read as a number, or a pointer stored where it may not be.
    Leak,
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Region(usize, usize),
    Stack(usize),
}

/// Address of the first byte of a region.
pub(super) fn region_base(region: usize) -> u64 {
    REGION_STRIDE * (region as u64 + 1)
}

/// The memory of one run.
pub(super) struct Memory<'m, 'r> {
    regions: &'m mut [&'r mut [u8]],
    stack: [u8; STACK_SIZE],
    /// For each slot of the stack, what it holds; bytes of a pointer that is partly overwritten stay unreadable.
    slots: [Tag; STACK_SIZE / 8],
    pointer_bytes: [bool; STACK_SIZE],
}

impl<'m, 'r> Memory<'m, 'r> {
    pub(super) fn new(regions: &'m mut [&'r mut [u8]]) -> Self {
        Self {
            regions,
            stack: [0; STACK_SIZE],
            slots: [Tag::Number; STACK_SIZE / 8],
            pointer_bytes: [false; STACK_SIZE],
        }
    }

    /// Length of a region.
    pub(super) fn length(&self, region: usize) -> u64 {
        self.regions.get(region).map_or(0, |bytes| bytes.len() as u64)
    }

    /// The frame at `depth` starts out as zeros.
    pub(super) fn clear_frame(&mut self, depth: usize) {
        let frame = frame_bytes(depth);
        self.stack[frame.clone()].fill(0);
        self.pointer_bytes[frame.clone()].fill(false);
        self.slots[frame.start / 8..frame.end / 8].fill(Tag::Number);
    }

    /// Finds `size` bytes at an address that a pointer with this tag holds.
    pub(super) fn place(&self, tag: Tag, address: u64, size: u64) -> Result<Place, Trouble> {
        match tag {
            Tag::Region(region) if usize::from(region) < MAX_REGIONS => {
                let region = usize::from(region);
                let offset = address.wrapping_sub(region_base(region));
                let end = offset.checked_add(size).ok_or(Trouble::Outside)?;
                if end > self.length(region) {
                    return Err(Trouble::Outside);
                }
                Ok(Place::Region(region, offset as usize))
            }
            Tag::Frame(depth) => {
                let frame = frame_bytes(usize::from(depth));
                let offset = address.wrapping_sub(STACK_TOP - STACK_SIZE as u64);
                let inside =
                    offset >= frame.start as u64 && offset.checked_add(size).is_some_and(|end| end <= frame.end as u64);
                if inside { Ok(Place::Stack(offset as usize)) } else { Err(Trouble::Outside) }
            }
            _ => Err(Trouble::NoPointer),
        }
    }

    /// Reads up to eight bytes as a number, or a whole slot as what it is.
    pub(super) fn read(&self, place: Place, size: usize) -> Result<(u64, Tag), Trouble> {
        let mut word = [0; 8];
        let tag = match place {
            Place::Region(region, offset) => {
                word[..size].copy_from_slice(&self.regions[region][offset..offset + size]);
                Tag::Number
            }
            Place::Stack(offset) => {
                word[..size].copy_from_slice(&self.stack[offset..offset + size]);
                self.stack_tag(offset, size)?
            }
        };
        Ok((u64::from_le_bytes(word), tag))
    }

    fn stack_tag(&self, offset: usize, size: usize) -> Result<Tag, Trouble> {
        let whole = size == 8 && offset.is_multiple_of(8);
        match self.slots[offset / 8] {
            tag @ (Tag::Region(_) | Tag::Frame(_)) if whole => Ok(tag),
            _ if self.pointer_bytes[offset..offset + size].contains(&true) => Err(Trouble::Leak),
            _ => Ok(Tag::Number),
        }
    }

    /// Writes the low bytes of a word.
    pub(super) fn write(&mut self, place: Place, size: usize, word: u64, tag: Tag) -> Result<(), Trouble> {
        let bytes = &word.to_le_bytes()[..size];
        match place {
            Place::Region(..) if tag != Tag::Number => return Err(Trouble::Leak),
            Place::Region(region, offset) => self.regions[region][offset..offset + size].copy_from_slice(bytes),
            Place::Stack(offset) => {
                let whole = size == 8 && offset.is_multiple_of(8);
                if tag != Tag::Number && !whole {
                    return Err(Trouble::Leak);
                }
                self.stack[offset..offset + size].copy_from_slice(bytes);
                self.pointer_bytes[offset..offset + size].fill(tag != Tag::Number);
                self.slots[offset / 8] = if whole { tag } else { Tag::Number };
                self.slots[(offset + size - 1) / 8] = if whole { tag } else { Tag::Number };
            }
        }
        Ok(())
    }

    /// Bytes for a helper, none of which may be part of a pointer.
    pub(super) fn bytes(&mut self, place: Place, size: usize) -> Result<&mut [u8], Trouble> {
        match place {
            Place::Region(region, offset) => Ok(&mut self.regions[region][offset..offset + size]),
            Place::Stack(offset) => {
                if self.pointer_bytes[offset..offset + size].contains(&true) {
                    return Err(Trouble::Leak);
                }
                Ok(&mut self.stack[offset..offset + size])
            }
        }
    }
}

/// The bytes of the frame at a depth, counted from the stack's lowest.
fn frame_bytes(depth: usize) -> core::ops::Range<usize> {
    let end = STACK_SIZE.saturating_sub(depth * FRAME_SIZE as usize);
    end.saturating_sub(FRAME_SIZE as usize)..end
}
