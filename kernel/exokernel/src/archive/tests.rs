//! Archives and programs made by hand, damaged in every byte.

extern crate std;

use super::*;
use std::format;
use std::vec::Vec;

fn entry(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut out = Vec::from(b"070701");
    let fields = [1, 0o100644, 0, 0, 1, 0, contents.len(), 0, 0, 0, 0, name.len() + 1, 0];
    fields.iter().for_each(|field| out.extend(format!("{field:08x}").bytes()));
    out.extend(name.bytes().chain([0]));
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(contents);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn archive() -> Vec<u8> {
    [entry("command", b"a/bin/sh\0"), entry("init", b"program"), entry("TRAILER!!!", b"")].concat()
}

/// An ELF with one segment of `bytes`.
fn program(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::from(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    out.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    out.extend(0x40_0000u64.to_le_bytes());
    out.extend(64u64.to_le_bytes());
    out.extend([0; 12]);
    out.extend([64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    out.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [120, 0x40_0000, 0x40_0000, bytes.len() as u64, bytes.len() as u64 + 10, 4096] {
        out.extend(u64::to_le_bytes(word));
    }
    out.extend(bytes);
    out
}

#[test]
fn files_are_found_by_name() {
    assert_eq!(find(&archive(), "init").unwrap().bytes, b"program");
    assert_eq!(find(&archive(), "nothing"), None);
}

#[test]
fn segments_are_read() {
    let file = program(b"code");
    let program = Program::new(&file).unwrap();
    let segments: Vec<_> = program.segments().map(Result::unwrap).collect();
    assert_eq!(program.entry, 0x40_0000);
    let expected = Segment { address: 0x40_0000, bytes: b"code", memory: 14, write: false, execute: true };
    assert_eq!(segments, [expected]);
}

#[test]
fn fault_93_damaged_archives_and_programs_are_refused_without_a_panic() {
    let (archive, file) = (archive(), program(b"code"));
    for length in 0..archive.len() {
        let _ = find(&archive[..length], "init");
    }
    for index in 0..archive.len() {
        let mut damaged = archive.clone();
        damaged[index] = damaged[index].wrapping_add(0x55);
        let _ = find(&damaged, "init");
    }
    for index in 0..file.len() {
        for value in [0, 0x7f, 0xff] {
            let mut damaged = file.clone();
            damaged[index] = value;
            if let Ok(program) = Program::new(&damaged) {
                for segment in program.segments().flatten() {
                    assert!(in_user_half(segment.address, segment.memory));
                    assert!(segment.bytes.len() as u64 <= segment.memory);
                }
            }
        }
    }
}
