//! Programs as files: hostile ELF files, scripts, and the stack that a program finds (FAULTS row 82).

use linux_abi::address_map::PROGRAM_END;
use linux_abi::errno::Errno;
use program::elf::{self, HEAD, Image};
use program::initial_stack::{self, Auxiliary, STRING_BYTES};
use program::{load_segments, shebang};
use vm::address_space::AddressSpace;
use vm::dry_run::DryRun;
use vm::vma::Backing;

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

/// Bytes of a file from an offset on, as many as there are.
fn reader(bytes: &[u8]) -> impl FnOnce(u64, usize) -> Result<Vec<u8>, Errno> {
    |offset, count| {
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        Ok(rest[..rest.len().min(count)].to_vec())
    }
}

fn read(bytes: &[u8]) -> Result<Image, Errno> {
    Image::read(&bytes[..bytes.len().min(HEAD)], reader(bytes))
}

fn read_interpreter(bytes: &[u8]) -> Result<Image, Errno> {
    Image::read_interpreter(&bytes[..bytes.len().min(HEAD)], reader(bytes))
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
fn fault_82_segments_that_cannot_be_mapped_are_found() {
    let bad: [(&str, Part); 6] = [
        ("memory smaller than file", (LOAD, 5, 0, 0x40_0000, 0x1000, 0x800)),
        ("offset wraps", (LOAD, 5, u64::MAX - 0xfff, 0x40_0000, 0x2000, 0x2000)),
        ("address wraps", (LOAD, 5, 0, u64::MAX - 0xfff, 0x1000, 0x2000)),
        ("in the library's half", (LOAD, 5, 0, PROGRAM_END, 0x1000, 0x1000)),
        ("not aligned alike", (LOAD, 5, 0x10, 0x40_0000, 0x1000, 0x1000)),
        ("nearly everything", (LOAD, 6, 0, 0, 0, PROGRAM_END - 0x40_0000)),
    ];
    for (what, part) in bad {
        let image = read(&file(3, 0x40_0100, &[TEXT, part]));
        assert!(image.is_ok_and(|image| !image.is_sound), "{what}");
    }
    let odd: [(&str, &[Part]); 5] = [
        ("none", &[(4, 4, 0, 0, 0, 0)]),
        ("empty", &[(LOAD, 5, 0, 0x40_0000, 0, 0)]),
        ("past the file", &[(LOAD, 5, 0x2000, 0x40_0000, 0x4000, 0x4000)]),
        ("overlap", &[TEXT, (LOAD, 6, 0x800, 0x40_0800, 0x800, 0x800)]),
        ("descend", &[DATA, TEXT]),
    ];
    for (what, parts) in odd {
        assert!(read(&file(2, 0, parts)).is_ok_and(|image| image.is_sound), "{what}");
    }
    assert!(read(&file(2, 0, &[TEXT, DATA])).is_ok_and(|image| image.is_in_order()));
    assert!(!read(&file(2, 0, &[DATA, TEXT])).is_ok_and(|image| image.is_in_order()));
}

#[test]
fn fault_82_bad_file_headers_are_enoexec() {
    let good = file(2, 0x40_0100, &[TEXT]);
    for (place, value) in [(0, 0), (16, 1), (18, 3), (54, 55), (56, 0), (33, 0x30), (39, 0xff)] {
        let mut bad = good.clone();
        bad[place] = value;
        assert_eq!(read(&bad), Err(Errno::ENOEXEC), "byte {place}");
        let broken = read_interpreter(&bad);
        // What kind of file it is counts later there.
        let expected = if place == 16 {
            broken.as_ref().is_ok_and(|image| !image.is_sound)
        } else {
            broken == Err(Errno::ELIBBAD)
        };
        assert!(expected, "byte {place}");
    }
    for length in [0, 1, 63, 64, 100] {
        assert_eq!(read(&good[..length]), Err(Errno::ENOEXEC), "cut to {length}");
        let error = if length < 64 { Errno::EIO } else { Errno::ELIBBAD };
        assert_eq!(read_interpreter(&good[..length]), Err(error), "cut to {length}");
    }
}

/// Wherever they stand, program headers are found; there may be 64 KiB of them.
#[test]
fn fault_82_program_headers_anywhere() {
    let mut bytes = file(2, 0x40_0100, &[TEXT]);
    let headers = bytes[HEADER..HEADER + PROGRAM_HEADER].to_vec();
    for (at, count) in [(HEADER + 1, 1), (0x2fc8, 1), (0x2fc9, 1), (0x3000, 1170), (0x3000, 1171)] {
        bytes.truncate(0x3000);
        bytes[32..40].copy_from_slice(&(at as u64).to_le_bytes());
        bytes[56..58].copy_from_slice(&(count as u16).to_le_bytes());
        if at < 0x3000 {
            bytes.resize(0x3000, 0);
            let end = (at + headers.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&headers[..end - at]);
        } else {
            (0..count).for_each(|_| bytes.extend_from_slice(&headers));
        }
        let found = read(&bytes);
        let is_there = at != 0x2fc9 && count <= 1170;
        assert_eq!(found.map(|image| image.segments.len()), if is_there { Ok(count) } else { Err(Errno::ENOEXEC) });
    }
}

#[test]
fn fault_82_the_first_interpreter_counts_and_a_long_one_is_enoexec() {
    let one: Part = (INTERPRETER, 4, 0x200, 0, 20, 20);
    let other: Part = (INTERPRETER, 4, 0x300, 0, 0, 0);
    assert!(read(&file(3, 0x40_0100, &[one, other, TEXT])).is_ok_and(|image| image.interpreter == Some((0x200, 20))));
    for bytes in [0, 1, 4097, u64::MAX] {
        assert_eq!(read(&file(3, 0x40_0100, &[(INTERPRETER, 4, 0x200, 0, bytes, 0), TEXT])), Err(Errno::ENOEXEC));
    }
}

#[test]
fn fault_82_a_part_of_a_file_is_whole_or_an_error() {
    let bytes: Vec<u8> = (0..2000u32).map(|number| number as u8).collect();
    let part = |place| elf::part(&bytes[..HEAD], place, reader(&bytes)).map(|part| part.into_owned());
    let head = HEAD as u64;
    for (offset, count) in [(0, 28), (head - 4, 4), (head - 4, 5), (head, 10), (1990, 10)] {
        assert_eq!(part((offset, count)).as_deref(), Ok(&bytes[offset as usize..(offset + count) as usize]));
    }
    assert_eq!([part((1990, 11)), part((i64::MAX as u64, 4))], [const { Err(Errno::EIO) }; 2]);
    assert_eq!(part((i64::MAX as u64 + 1, 4)), Err(Errno::EINVAL));
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
        let inside = image.segments.iter().all(|part| {
            part.file_bytes <= part.memory_bytes
                && part.file_offset.checked_add(part.file_bytes).is_some()
                && part.address + part.memory_bytes <= PROGRAM_END
        });
        let (first, last) = image.span();
        assert!(inside && (!image.is_sound || first <= last && last <= PROGRAM_END), "seed {seed}, round {round}");
    }
}

/// Segments in order, and one that lies over the end of another: what is behind the file's part of a segment is zeros.
#[test]
fn segments_go_where_they_say() {
    let code = (LOAD, READ_EXECUTE, 0, 0x40_0000, 0x1800, 0x1800);
    let data = (LOAD, READ_WRITE, 0x1800, 0x40_2800, 0x500, 0x3000);
    let over = (LOAD, READ_WRITE, 0, 0x40_2000, 0x100, 0x200);
    for (parts, zeros) in
        [(vec![code, data], vec![0x40_2d00..0x40_3000]), (vec![code, data, over], vec![0x40_2100..0x40_3000])]
    {
        let image = read(&file(2, 0x40_0100, &parts)).expect("it is good");
        let (mut space, mut draft, mut found) = (AddressSpace::default(), DryRun::default(), Vec::new());
        space.held.push(7);
        load_segments::map((&mut space, &mut draft), (7, &[(0, 70), (1, 71)]), &image, 0, &mut found).expect("it maps");
        assert_eq!(draft.is_spoilt, parts.len() == 3, "what was planned goes");
        assert_eq!(found, zeros);
        assert_eq!(load_segments::pages_of_all(&image, 0x1000), 0x40_1000..0x40_7000);
        let backing = |address: u64| space.areas.find(address).map(|area| area.backing);
        assert_eq!(backing(0x40_1000), Some(Backing::File { node: 7, offset: 0, writable: false }));
        let offset = if parts.len() == 2 { 0x1000 } else { 0 };
        assert_eq!(backing(0x40_2000), Some(Backing::File { node: 7, offset, writable: false }));
        assert_eq!((backing(0x40_3000), backing(0x40_6000)), (Some(Backing::Anonymous), None));
        let begins_as: Vec<(u64, Option<u64>)> = draft.own.iter().copied().filter(|(at, _)| *at == 0x40_2000).collect();
        assert_eq!(begins_as.last(), Some(&(0x40_2000, Some(70 + offset / 0x1000))));
    }
}

#[test]
fn scripts_are_read_as_execve_does() {
    let parsed = |line: &[u8]| {
        shebang::parse(line)
            .map(|outcome| outcome.map(|found| (found.interpreter.to_vec(), found.argument.map(<[u8]>::to_vec))))
    };
    assert_eq!(parsed(b"\x7fELF"), None);
    assert_eq!(parsed(b"#! /bin/sh\n"), Some(Ok((b"/bin/sh".to_vec(), None))));
    assert_eq!(parsed(b"#!/bin/awk -f x \nrest"), Some(Ok((b"/bin/awk".to_vec(), Some(b"-f x".to_vec())))));
    assert_eq!(parsed(b"#!  \n/bin/sh"), Some(Err(Errno::ENOEXEC)));
    assert_eq!(parsed(b"#!/bin/sh\r\n"), Some(Ok((b"/bin/sh\r".to_vec(), None))));
    assert_eq!(parsed(b"#!/bin/\0sh\n"), Some(Ok((b"/bin/".to_vec(), None))));
    assert_eq!(parsed(b"#!/bin/sh a\0b\n"), Some(Ok((b"/bin/sh".to_vec(), Some(b"a".to_vec())))));
    // Where the line does not end, the file does: what is behind it is empty.
    assert_eq!(parsed(b"#!"), Some(Ok((Vec::new(), None))));
    assert_eq!(parsed(b"#!/bin/sh "), Some(Ok((b"/bin/sh".to_vec(), Some(Vec::new())))));
    let long = |blanks: usize, name: usize| {
        let line = [b"#!".as_slice(), &vec![b' '; blanks], &vec![b'x'; name], b"\n"].concat();
        parsed(&line).map(|outcome| outcome.map(|(name, _)| name.len()))
    };
    assert_eq!(long(0, 253), Some(Ok(253)));
    assert_eq!(long(0, 254), Some(Err(Errno::ENOEXEC)));
    assert_eq!(long(300, 1), Some(Err(Errno::ENOEXEC)));
    assert_eq!(parsed(&[b"#!x ".as_slice(), &[b'y'; 300]].concat()), Some(Ok((b"x".to_vec(), Some(vec![b'y'; 251])))));
}

fn word(stack: &initial_stack::Stack, index: usize) -> u64 {
    u64::from_le_bytes(stack.bytes[index * 8..index * 8 + 8].try_into().expect("8 bytes"))
}

fn string(stack: &initial_stack::Stack, address: u64) -> &[u8] {
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
        let stack = initial_stack::build(TOP, b"/bin/x", &arguments, &environment, &auxiliary);
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
    let usual = initial_stack::room(8 << 20);
    let check = |arguments: &[Vec<u8>], room| initial_stack::check(b"x", arguments, &[], room);
    assert_eq!(check(&[vec![b'a'; STRING_BYTES - 1]], usual), Ok(()));
    assert_eq!(check(&[vec![b'a'; STRING_BYTES]], usual), Err(Errno::E2BIG));
    assert_eq!(check(&vec![vec![b'a'; 100_000]; 22], usual), Err(Errno::E2BIG));
    assert_eq!(
        [0, 64 << 10, 1 << 20, 8 << 20, u64::MAX].map(initial_stack::room),
        [128 << 10, 128 << 10, 256 << 10, 2 << 20, 6 << 20]
    );
    // The name, a string of 91 bytes and its pointer.
    assert_eq!([101, 102].map(|room| check(&[vec![b'a'; 91]], room)), [Err(Errno::E2BIG), Ok(())]);
}
