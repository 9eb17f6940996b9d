//! The constants of a program: sections of the object, laid one after the other.

use std::collections::HashMap;

use downloaded_code::context::{Region, RegionSize};

use crate::object_file::{Index, Object};
use crate::program::CONSTANTS_MAX;
use crate::refusal::Reason;

/// Name of the region of a context that holds the constants of its programs.
pub const CONSTANTS_REGION: &str = "constants";

/// A context's regions as a program with `length` bytes of constants has them: the
/// region of constants is exactly as long, so that accesses to it can be proven.
pub fn regions_with_constants<'a>(regions: &[Region<'a>], length: usize) -> Vec<Region<'a>> {
    let fit = |region: &Region<'a>| match region.name {
        CONSTANTS_REGION => Region { size: RegionSize::Fixed(length as u32), ..*region },
        _ => *region,
    };
    regions.iter().map(fit).collect()
}

/// Where each section begins: as aligned as any constant needs.
const ALIGNMENT: usize = 16;

/// Constants that the program was found to use.
#[derive(Default)]
pub(crate) struct Constants {
    pub(crate) bytes: Vec<u8>,
    first_byte: HashMap<Index, usize>,
}

impl Constants {
    /// The place of byte `offset` of a section of constants; the byte after the last
    /// one counts.
    pub(crate) fn place(&mut self, object: &Object<'_>, section: Index, offset: i64) -> Result<i32, Reason> {
        let source = &object.sections[section];
        let offset = usize::try_from(offset).ok().filter(|&offset| offset <= source.bytes.len());
        let offset = offset.ok_or_else(|| Reason::OutsideSymbol(source.name.into()))?;
        let first = match self.first_byte.get(&section) {
            Some(&first) => first,
            None => self.add(object, section)?,
        };
        Ok((first + offset) as i32)
    }

    fn add(&mut self, object: &Object<'_>, section: Index) -> Result<usize, Reason> {
        let source = &object.sections[section];
        if !source.relocations.is_empty() {
            return Err(Reason::AddressInConstants(source.name.into()));
        }
        let first = self.bytes.len().next_multiple_of(ALIGNMENT);
        if first + source.bytes.len() > CONSTANTS_MAX {
            return Err(Reason::TooManyConstants);
        }
        self.bytes.resize(first, 0);
        self.bytes.extend_from_slice(source.bytes);
        self.first_byte.insert(section, first);
        Ok(first)
    }
}
