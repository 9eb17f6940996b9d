//! Programs as files: hostile ELF files, scripts, and the stack that a program finds (FAULTS row 82).

use exos::errno::Errno;
use exos::layout::PROGRAM_END;
use exos::loader::image::{HEAD, Image};
use exos::loader::script;
use exos::loader::stack::{self, Auxiliary, STRING_BYTES};

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// A program header: type, flags, offset, address, file bytes, memory bytes.
type Part = (u32, u32, u64, u64, u64, u64);

fn file(kind: u16, entry: u64, parts: &[Part]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    bytes[16..18].copy_from_slice(&kind.to_le_bytes());
    bytes[18..20].copy_from_slice(&62u16.to_le_bytes());
    bytes[20..24].copy_from_slice(&1u32.to_le_bytes());
    bytes[24..32].copy_from_slice(&entry.to_le_bytes());
    bytes[32..40].copy_from_slice(&(HEADER as u64).to_le_bytes());
    bytes[52..54].copy_from_slice(&64u16.to_le_bytes());
    bytes[54..56].copy_from_slice(&(PROGRAM_HEADER as u16).to_le_bytes());
    bytes[56..58].copy_from_slice(&(parts.len() as u16).to_le_bytes());
    for (kind, flags, offset, address, file_bytes, memory_bytes) in parts {
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        for word in [offset, address, address, file_bytes, memory_bytes, &4096] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    bytes.resize(0x3000, 0);
    bytes
}

const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;
const READ_EXECUTE: u32 = 5;
const READ_WRITE: u32 = 6;
const TEXT: Part = (LOAD, READ_EXECUTE, 0, 0x40_0000, 0x1000, 0x1000);
const DATA: Part = (LOAD, READ_WRITE, 0x1000, 0x40_1000, 0x800, 0x2000);

fn read(bytes: &[u8]) -> Result<Image, Errno> {
    Image::read(&bytes[..bytes.len().min(HEAD)], bytes.len() as u64)
}

#[test]
fn a_good_program_is_read() {
    let image = read(&file(2, 0x40_0100, &[TEXT, DATA])).expect("a good program");
    assert_eq!(image.span(), (0x40_0000, 0x40_3000));
    assert_eq!(image.headers_address, 0x40_0040);
    assert!(!image.movable && image.interpreter.is_none() && !image.executable_stack);
    assert!(image.segments[1].write && !image.segments[1].execute);
}

#[test]
fn fault_82_bad_program_headers_are_enoexec() {
    let bad: [(&str, Vec<Part>, u64); 9] = [
        ("no segment", vec![], 0x40_0100),
        ("memory smaller than file", vec![(LOAD, 5, 0, 0x40_0000, 0x1000, 0x800)], 0x40_0100),
        ("past the file", vec![(LOAD, 5, 0x2000, 0x40_0000, 0x4000, 0x4000)], 0x40_0100),
        ("offset wraps", vec![(LOAD, 5, u64::MAX - 0xfff, 0x40_0000, 0x2000, 0x2000)], 0x40_0100),
        ("address wraps", vec![(LOAD, 5, 0, u64::MAX - 0xfff, 0x1000, 0x2000)], 0x40_0100),
        ("in the library's half", vec![(LOAD, 5, 0, PROGRAM_END, 0x1000, 0x1000)], PROGRAM_END),
        ("not aligned alike", vec![(LOAD, 5, 0x10, 0x40_0000, 0x1000, 0x1000)], 0x40_0100),
        ("overlap", vec![TEXT, (LOAD, 6, 0x800, 0x40_0800, 0x800, 0x800)], 0x40_0100),
        ("entry in data", vec![TEXT, DATA], 0x40_1100),
    ];
    for (what, parts, entry) in bad {
        assert_eq!(read(&file(2, entry, &parts)), Err(Errno::ENOEXEC), "{what}");
    }
}

#[test]
fn fault_82_bad_file_headers_are_enoexec() {
    let good = file(2, 0x40_0100, &[TEXT]);
    for (place, value) in [(0, 0), (4, 1), (5, 2), (16, 1), (18, 3), (54, 55), (56, 0), (32, 0xff), (39, 0xff)] {
        let mut bad = good.clone();
        bad[place] = value;
        assert_eq!(read(&bad), Err(Errno::ENOEXEC), "byte {place}");
    }
    for length in [0, 1, 63, 64, 100] {
        assert_eq!(read(&good[..length]), Err(Errno::ENOEXEC), "cut to {length}");
    }
}

#[test]
fn fault_82_two_interpreters_or_a_long_one_are_enoexec() {
    let one: Part = (INTERPRETER, 4, 0x200, 0, 20, 20);
    assert!(read(&file(3, 0x40_0100, &[one, TEXT])).is_ok_and(|image| image.interpreter == Some((0x200, 20))));
    assert_eq!(read(&file(3, 0x40_0100, &[one, one, TEXT])), Err(Errno::ENOEXEC));
    for bytes in [0, 1, 4097, u64::MAX] {
        assert_eq!(read(&file(3, 0x40_0100, &[(INTERPRETER, 4, 0x200, 0, bytes, 0), TEXT])), Err(Errno::ENOEXEC));
    }
}

#[test]
fn fault_82_random_damage_never_panics_and_keeps_the_promises() {
    let seed = 0x82;
    let mut random = fastrand::Rng::with_seed(seed);
    let good = file(2, 0x40_0100, &[TEXT, DATA, (0x6474_e551, 7, 0, 0, 0, 0)]);
    for round in 0..20_000 {
        let mut bad = good.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..300);
            bad[at] = random.u8(..);
        }
        let Ok(image) = read(&bad) else { continue };
        let apart = image.segments.windows(2).all(|two| two[0].address + two[0].memory_bytes <= two[1].address);
        let inside = image.segments.iter().all(|part| {
            part.file_bytes <= part.memory_bytes
                && part.file_offset + part.file_bytes <= bad.len() as u64
                && part.address + part.memory_bytes <= PROGRAM_END
        });
        assert!(apart && inside && !image.segments.is_empty(), "seed {seed}, round {round}");
    }
}

#[test]
fn scripts_are_read_as_execve_does() {
    let parsed = |line: &[u8]| {
        script::parse(line)
            .map(|outcome| outcome.map(|found| (found.interpreter.to_vec(), found.argument.map(<[u8]>::to_vec))))
    };
    assert_eq!(parsed(b"\x7fELF"), None);
    assert_eq!(parsed(b"#! /bin/sh\n"), Some(Ok((b"/bin/sh".to_vec(), None))));
    assert_eq!(parsed(b"#!/bin/awk -f x \nrest"), Some(Ok((b"/bin/awk".to_vec(), Some(b"-f x".to_vec())))));
    assert_eq!(parsed(b"#!  \n/bin/sh"), Some(Err(Errno::ENOEXEC)));
    assert_eq!(parsed(b"#!/bin/\0sh\n"), Some(Err(Errno::ENOEXEC)));
}

fn word(stack: &stack::Stack, index: usize) -> u64 {
    u64::from_le_bytes(stack.bytes[index * 8..index * 8 + 8].try_into().expect("8 bytes"))
}

fn string(stack: &stack::Stack, address: u64) -> &[u8] {
    let bytes = &stack.bytes[(address - stack.pointer) as usize..];
    &bytes[..bytes.iter().position(|byte| *byte == 0).expect("a NUL")]
}

#[test]
fn the_stack_is_laid_out_as_the_supplement_says() {
    const TOP: u64 = 0x7f_ffff_0000;
    for count in 0..9 {
        let arguments: Vec<Vec<u8>> = (0..count).map(|index| vec![b'a'; index]).collect();
        let environment = vec![b"A=1".to_vec(), b"B=".to_vec()];
        let auxiliary = Auxiliary { entry: 0x1234, vdso: 0x5678, random: [7; 16], ..Auxiliary::default() };
        let stack = stack::build(TOP, b"/bin/x", &arguments, &environment, &auxiliary).expect("it fits");
        assert!(stack.pointer.is_multiple_of(16));
        assert_eq!(stack.pointer + stack.bytes.len() as u64, TOP);
        assert_eq!(word(&stack, 0), count as u64);
        for (index, argument) in arguments.iter().enumerate() {
            assert_eq!(string(&stack, word(&stack, 1 + index)), argument.as_slice());
        }
        assert_eq!(word(&stack, 1 + count), 0);
        assert_eq!(string(&stack, word(&stack, 2 + count)), b"A=1");
        assert_eq!(word(&stack, 4 + count), 0);
        let vector: Vec<(u64, u64)> =
            (0..20).map(|pair| (word(&stack, 5 + count + pair * 2), word(&stack, 6 + count + pair * 2))).collect();
        let value = |kind: u64| vector.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value);
        assert_eq!((value(9), value(33)), (Some(0x1234), Some(0x5678)));
        assert_eq!(value(6), Some(4096));
        assert_eq!(string(&stack, value(31).expect("AT_EXECFN")), b"/bin/x");
        let random = (value(25).expect("AT_RANDOM") - stack.pointer) as usize;
        assert_eq!(stack.bytes[random..random + 16], [7; 16]);
        assert_eq!(vector.last(), Some(&(0, 0)));
    }
}

#[test]
fn fault_83_arguments_beyond_the_limit_are_e2big() {
    let build = |arguments: &[Vec<u8>]| stack::build(0x7f_ffff_0000, b"x", arguments, &[], &Auxiliary::default());
    assert!(build(&[vec![b'a'; STRING_BYTES - 1]]).is_ok());
    assert_eq!(build(&[vec![b'a'; STRING_BYTES]]), Err(Errno::E2BIG));
    assert_eq!(build(&vec![vec![b'a'; 100_000]; 22]), Err(Errno::E2BIG));
}
