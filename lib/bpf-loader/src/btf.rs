//! Line information in the BPF Type Format (`.BTF.ext`), which clang and rustc write
//! under `-g`. Damaged line information is as good as none: it only serves messages.

use std::collections::HashMap;

use crate::line::Line;
use crate::object_file::{Index, Section};
use crate::refusal::{Reason, Refusal};

const MAGIC: u32 = 0xeb9f;

/// Texts longer than this are cut, so that messages stay readable and memory small.
const TEXT_MAX: usize = 160;

/// One record: instruction, then where the texts lie among the strings.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Slot of the section.
    slot: u32,
    file: u32,
    text: u32,
    line_and_column: u32,
}

/// The line records of an object, by section.
#[derive(Debug, Default)]
pub(crate) struct DebugInfo<'a> {
    strings: &'a [u8],
    /// In the order of slots.
    records: HashMap<Index, Vec<Record>>,
}

impl DebugInfo<'_> {
    /// The line that the instruction at a slot of a section was made from.
    pub(crate) fn line(&self, section: Index, slot: usize) -> Option<Line> {
        let records = self.records.get(&section)?;
        let after = records.partition_point(|record| record.slot as usize <= slot);
        let record = records[..after].last()?;
        let text = |offset| string(self.strings, offset).map(cut).unwrap_or_default();
        let (number, column) = (record.line_and_column >> 10, record.line_and_column & 0x3ff);
        Some(Line { file: text(record.file), number, column, text: text(record.text) })
    }
}

/// Reads the line records of an object.
///
/// # Errors
/// The object wants types of a Linux kernel filled in, which cannot be left out.
pub(crate) fn read<'a>(sections: &[Section<'a>]) -> Result<DebugInfo<'a>, Refusal> {
    let named = |name| sections.iter().find(|section| section.name == name).map(|section| section.bytes);
    let (Some(types), Some(extended)) = (named(".BTF"), named(".BTF.ext")) else { return Ok(DebugInfo::default()) };
    if needs_kernel_types(extended) {
        return Err(Refusal::whole(Reason::NeedsKernelTypes));
    }
    Ok(read_lines(types, extended, sections).unwrap_or_default())
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn part(bytes: &[u8], offset: u32, length: u32) -> Option<&[u8]> {
    bytes.get(offset as usize..(offset as usize).checked_add(length as usize)?)
}

/// The text at an offset of a table of strings that end with zeros.
fn string(strings: &[u8], offset: u32) -> Option<&str> {
    let rest = strings.get(offset as usize..)?;
    let limit = rest.len().min(4 * TEXT_MAX);
    let end = rest[..limit].iter().position(|&byte| byte == 0).unwrap_or(limit);
    std::str::from_utf8(&rest[..end]).ok()
}

fn cut(text: &str) -> String {
    text.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(TEXT_MAX).collect()
}

/// Whether the header of `.BTF.ext` announces CO-RE relocations.
fn needs_kernel_types(extended: &[u8]) -> bool {
    let header_length = word(extended, 4).unwrap_or(0);
    header_length >= 32 && word(extended, 28).unwrap_or(0) > 0
}

fn read_lines<'a>(types: &'a [u8], extended: &[u8], sections: &[Section<'_>]) -> Option<DebugInfo<'a>> {
    if word(types, 0)? & 0xffff != MAGIC || word(extended, 0)? & 0xffff != MAGIC {
        return None;
    }
    let strings = part(types.get(word(types, 4)? as usize..)?, word(types, 16)?, word(types, 20)?)?;
    let after_header = extended.get(word(extended, 4)? as usize..)?;
    let lines = part(after_header, word(extended, 16)?, word(extended, 20)?)?;
    let record_size = word(lines, 0)? as usize;
    if record_size < 16 {
        return None;
    }
    let by_name: HashMap<&str, Index> =
        sections.iter().enumerate().map(|(index, section)| (section.name, index)).collect();
    let mut debug = DebugInfo { strings, records: HashMap::new() };
    let mut offset = 4;
    while offset < lines.len() {
        let section = string(strings, word(lines, offset)?)?;
        let bytes = (word(lines, offset + 4)? as usize).checked_mul(record_size)?;
        let records = lines.get(offset + 8..offset.checked_add(8)?.checked_add(bytes)?)?;
        let mut found: Vec<Record> = records.chunks_exact(record_size).map(record).collect();
        found.sort_by_key(|record| record.slot);
        debug.records.insert(*by_name.get(section)?, found);
        offset += 8 + bytes;
    }
    Some(debug)
}

/// One record of at least 16 bytes.
fn record(bytes: &[u8]) -> Record {
    let field = |index: usize| word(bytes, 4 * index).unwrap_or(0);
    Record { slot: field(0) / 8, file: field(1), text: field(2), line_and_column: field(3) }
}
