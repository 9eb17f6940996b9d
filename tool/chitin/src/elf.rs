//! Just enough of the ELF format to tell, before a machine is started, that a
//! file is what it should be, and to leave out what is not loaded.

use crate::failure::{CANNOT_EXECUTE, Failure, Result};

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const MACHINE_X86_64: u16 = 62;
const SEGMENT_LOAD: u32 = 1;
const SEGMENT_NOTE: u32 = 4;
/// Type of the note that holds the PVH entry point.
const PVH_ENTRY: u32 = 18;

/// Checks that `bytes` are a whole executable for this machine; `what` names
/// it in the error.
///
/// # Errors
/// Not an ELF, for another machine, no executable, or cut off.
pub fn check(bytes: &[u8], what: &str) -> Result<()> {
    let fail = |reason: String| Err(Failure::with_status(CANNOT_EXECUTE, format!("{what} {reason}")));
    if bytes.get(..4) != Some(b"\x7fELF") {
        return fail("is not an ELF program".into());
    }
    if bytes.len() < HEADER {
        return fail("is damaged: its header is cut off".into());
    }
    let machine = half(bytes, 18);
    if bytes[4] != 2 || bytes[5] != 1 || machine != MACHINE_X86_64 {
        return fail(format!("is for another machine ({}), not x86-64", machine_name(bytes)));
    }
    if !matches!(half(bytes, 16), 2 | 3) {
        return fail("is an ELF file but no executable".into());
    }
    match segments(bytes) {
        Some(segments) if !segments.iter().any(|segment| segment.kind == SEGMENT_LOAD) => {
            fail("is damaged: it has nothing to load".into())
        }
        Some(segments) if segments.iter().all(|segment| segment.end <= bytes.len() as u64) => Ok(()),
        _ => fail("is damaged: it is shorter than its headers say".into()),
    }
}

/// Checks that an executable can be booted by PVH.
///
/// # Errors
/// When it lacks the note with the entry point, or is no executable at all.
pub fn check_kernel(bytes: &[u8], what: &str) -> Result<()> {
    check(bytes, what)?;
    let notes = segments(bytes).unwrap_or_default();
    let has_entry = notes.iter().filter(|segment| segment.kind == SEGMENT_NOTE).any(|segment| {
        let range = usize::try_from(segment.start).ok().zip(usize::try_from(segment.end).ok());
        range.and_then(|(start, end)| bytes.get(start..end)).is_some_and(holds_pvh_entry)
    });
    if has_entry { Ok(()) } else { Err(Failure::new(format!("{what} is damaged: it has no PVH entry point"))) }
}

/// The file up to the end of its last loaded segment, without the sections
/// behind it (symbols, debugging information), which nothing in the machine
/// reads. `bytes` have been checked.
pub fn loadable(bytes: &[u8]) -> Vec<u8> {
    let ends = segments(bytes).unwrap_or_default().into_iter().map(|segment| segment.end);
    let end = ends.max().and_then(|end| usize::try_from(end).ok()).unwrap_or(bytes.len());
    let mut kept = bytes[..end.clamp(HEADER, bytes.len())].to_vec();
    // No section table any more: its offset, entry count and name index.
    kept[40..48].fill(0);
    kept[60..64].fill(0);
    kept
}

/// A stretch of the file that a program header names.
struct Segment {
    kind: u32,
    start: u64,
    end: u64,
}

/// All program headers; `None` where they are out of bounds.
fn segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    let table = usize::try_from(word(bytes, 32)).ok()?;
    let (size, count) = (usize::from(half(bytes, 54)), usize::from(half(bytes, 56)));
    if count > 0 && size != PROGRAM_HEADER {
        return None;
    }
    let end = table.checked_add(size * count)?;
    let headers = bytes.get(table..end)?.chunks_exact(PROGRAM_HEADER);
    headers
        .map(|header| {
            let (kind, start) = (quarter(header, 0), word(header, 8));
            Some(Segment { kind, start, end: start.checked_add(word(header, 32))? })
        })
        .collect()
}

/// Whether a note of the PVH entry's type stands among `notes`.
fn holds_pvh_entry(mut notes: &[u8]) -> bool {
    while notes.len() >= 12 {
        let (name, value) = (quarter(notes, 0) as usize, quarter(notes, 4) as usize);
        if quarter(notes, 8) == PVH_ENTRY {
            return true;
        }
        let length = 12 + name.next_multiple_of(4) + value.next_multiple_of(4);
        notes = notes.get(length..).unwrap_or_default();
    }
    false
}

fn machine_name(bytes: &[u8]) -> String {
    match half(bytes, 18) {
        3 => "32-bit x86".into(),
        40 => "Arm".into(),
        62 => "32-bit programs of x86-64".into(),
        183 => "AArch64".into(),
        243 => "RISC-V".into(),
        258 => "LoongArch".into(),
        other => format!("ELF machine {other}"),
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn quarter(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(quarter(bytes, at)) | u64::from(quarter(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test itself is an executable for this machine.
    fn own_image() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    fn complaint(bytes: &[u8]) -> String {
        check(bytes, "it").unwrap_err().to_string()
    }

    #[test]
    fn a_whole_program_passes_and_loses_only_what_is_not_loaded() {
        let image = own_image();
        check(&image, "it").unwrap();
        let kept = loadable(&image);
        assert!(kept.len() < image.len());
        check(&kept, "it").unwrap();
        assert_eq!(kept[HEADER..], image[HEADER..kept.len()]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let image = own_image();
        assert_eq!(complaint(b"#!/bin/sh\n"), "it is not an ELF program");
        assert_eq!(complaint(b""), "it is not an ELF program");
        assert!(complaint(&image[..40]).contains("cut off"));
        assert!(complaint(&image[..5000]).contains("shorter than its headers say"));
        let mut other = image.clone();
        other[18] = 183;
        assert_eq!(complaint(&other), "it is for another machine (AArch64), not x86-64");
        assert!(check_kernel(&image, "it").unwrap_err().to_string().contains("no PVH entry"));
    }

    #[test]
    fn fault_82_no_damage_to_the_headers_brings_this_down() {
        let image = &own_image()[..8192];
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..20_000 {
            let mut damaged = image.to_vec();
            for _ in 0..4 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                damaged[(seed as usize >> 8) % 1024] = seed as u8;
            }
            let _ = check_kernel(&damaged, "it");
            let _ = loadable(&damaged);
        }
    }
}
