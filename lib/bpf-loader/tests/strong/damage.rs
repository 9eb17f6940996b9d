//! Objects damaged at random: a refusal or a program, never a panic, in bounded time.

use std::time::{Duration, Instant};

use bpf_loader::{CONSTANTS_MAX, Object, contexts};
use fastrand::Rng;
use object::SectionKind;

use crate::compiler::compile;
use crate::synthetic::*;
use crate::{cases, seed};

/// A synthetic object with something of everything.
fn rich() -> Vec<u8> {
    let code = [WIDE_LOAD, SECOND_HALF, CALL_FUNCTION, WIDE_LOAD, SECOND_HALF, CALL_FUNCTION, NOTHING, EXIT];
    let mut made = Synthetic::new(&code);
    let handle = made.object.symbol_id(b"handle").expect("the entry");
    made.object.symbol_mut(handle).size = 48;
    let other = made.function("other", 48, 16, object::SymbolScope::Compilation);
    let helper = made.undefined("clock_now");
    let state = made.undefined("state");
    let datum = made.data(".rodata", SectionKind::ReadOnlyData, &[7; 64]);
    made.relocate(0, ADDRESS, state);
    made.relocate(16, CALL, other);
    made.relocate(24, ADDRESS, datum);
    made.relocate(40, CALL, helper);
    made.bytes()
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const VALUES: [u64; 12] =
        [0, 1, 7, 8, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 32, 1 << 63, u64::MAX - 7, u64::MAX];
    for _ in 0..rng.usize(1..6) {
        let place = rng.usize(0..bytes.len());
        match rng.u8(0..8) {
            0 => bytes[place] ^= 1 << rng.u8(0..8),
            1 => bytes[place] = rng.u8(..),
            2 => bytes.truncate(place.max(1)),
            3..6 => {
                let place = place & !7;
                let size = [1, 2, 4, 8][rng.usize(0..4)];
                let value = VALUES[rng.usize(0..VALUES.len())].wrapping_add(rng.u64(0..3));
                let end = (place + size).min(bytes.len());
                bytes[place..end].copy_from_slice(&value.to_le_bytes()[..end - place]);
            }
            6 => {
                let from = rng.usize(0..bytes.len()) & !7;
                let length = rng.usize(1..65).min(bytes.len() - from.max(place & !7));
                bytes.copy_within(from..from + length, place & !7);
            }
            _ => bytes.extend(std::iter::repeat_n(rng.u8(..), rng.usize(0..64))),
        }
    }
}

/// Time for one object: hundreds of times what it takes, as the machine may be busy.
const LIMIT: Duration = Duration::from_secs(10);

/// What a program must be whatever the object was.
fn check(bytes: &[u8]) {
    let begun = Instant::now();
    if let Ok(object) = Object::parse(bytes) {
        for entry in [None, Some("handle"), Some("other")] {
            match object.link(entry, &contexts::PACKET) {
                Ok(program) => {
                    assert!(!program.bytes.is_empty() && program.bytes.len().is_multiple_of(8));
                    assert!(program.bytes.len() <= 8 * 4096 && program.constants.len() <= CONSTANTS_MAX);
                    let total: usize = program.functions.iter().map(|function| function.length).sum();
                    assert_eq!(total, program.bytes.len() / 8);
                }
                Err(refusal) => assert!(!refusal.to_string().is_empty()),
            }
        }
    }
    assert!(begun.elapsed() < LIMIT, "{} bytes took {:?}", bytes.len(), begun.elapsed());
}

#[test]
fn damaged_synthetic_objects() {
    let mut rng = Rng::with_seed(seed());
    let sound = rich();
    check(&sound);
    assert!(Object::parse(&sound).expect("sound").link(Some("handle"), &contexts::PACKET).is_ok());
    for _ in 0..cases(40_000, 8_000_000) {
        let mut bytes = sound.clone();
        damage(&mut rng, &mut bytes);
        check(&bytes);
    }
}

#[test]
fn damaged_objects_of_clang() {
    let sound = compile(
        "typedef unsigned long long u64; typedef unsigned char u8;
extern u64 clock_now(void); extern u64 state[512];
static const u64 table[4] = {11, 22, 33, 44};
static __attribute__((noinline)) u64 other(u64 x) { return x * 7 + table[x & 3]; }
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    state[3] = clock_now();
    return other(length) + state[7];
}",
    );
    let mut rng = Rng::with_seed(seed());
    for _ in 0..cases(20_000, 2_000_000) {
        let mut bytes = sound.clone();
        damage(&mut rng, &mut bytes);
        check(&bytes);
    }
}

#[test]
fn many_symbols_and_relocations_take_linear_time() {
    let mut made = Synthetic::new(&[NOTHING, EXIT]);
    let handle = made.object.symbol_id(b"handle").expect("the entry");
    for index in 0..20_000 {
        made.function(&format!("f{index}"), 0, 16, object::SymbolScope::Dynamic);
        made.relocate(8 * (index % 2), CALL, handle);
    }
    let bytes = made.bytes();
    check(&bytes);
}

const HEADER: usize = 64;

/// A number of eight bytes in an object.
fn word(bytes: &[u8], offset: usize) -> usize {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes")) as usize
}

/// The offset of the first section header of a type.
fn section_header(bytes: &[u8], kind: u8) -> usize {
    let table = word(bytes, 0x28);
    let found = bytes[table..].chunks(HEADER).position(|header| header[4] == kind);
    table + HEADER * found.expect("such a section")
}

/// Twenty thousand symbols that share one name of a megabyte.
#[test]
fn long_names_that_many_symbols_share_are_refused_quickly() {
    const SYMBOLS: u8 = 2;
    const STRINGS: u8 = 3;
    let mut made = Synthetic::new(&[NOTHING, EXIT]);
    made.function(&"n".repeat(1 << 20), 0, 16, object::SymbolScope::Dynamic);
    for index in 0..20_000 {
        made.function(&format!("f{index}"), 0, 16, object::SymbolScope::Dynamic);
    }
    let mut bytes = made.bytes();
    let long = bytes.windows(4).position(|window| window == b"nnnn").expect("the name");
    let strings = section_header(&bytes, STRINGS);
    let name = (long - word(&bytes, strings + 24)) as u32;
    let symbols = section_header(&bytes, SYMBOLS);
    let (first, size) = (word(&bytes, symbols + 24), word(&bytes, symbols + 32));
    for symbol in bytes[first + 24..first + size].chunks_mut(24) {
        symbol[..4].copy_from_slice(&name.to_le_bytes());
    }
    check(&bytes);
    let refusal = Object::parse(&bytes).expect_err("names too long");
    assert!(refusal.to_string().contains("longer than 4,096 bytes"), "{refusal}");
}

/// Thousands of section headers that all describe the same relocations.
#[test]
fn relocations_that_lie_over_each_other_take_no_more_memory_than_an_object_could_hold() {
    let mut made = Synthetic::new(&[NOTHING, EXIT]);
    let handle = made.object.symbol_id(b"handle").expect("the entry");
    for _ in 0..10_000 {
        made.relocate(8, CALL, handle);
    }
    let mut bytes = made.bytes();
    let table = word(&bytes, 0x28);
    let count = usize::from(u16::from_le_bytes([bytes[0x3c], bytes[0x3d]]));
    let headers = bytes[table..table + count * HEADER].to_vec();
    let relocations = section_header(&bytes, 9);
    let relocations = bytes[relocations..relocations + HEADER].to_vec();
    let place = bytes.len() as u64;
    bytes.extend(&headers);
    (0..5_000).for_each(|_| bytes.extend(&relocations));
    bytes[0x28..0x30].copy_from_slice(&place.to_le_bytes());
    bytes[0x3c..0x3e].copy_from_slice(&(count as u16 + 5_000).to_le_bytes());
    check(&bytes);
    let refusal = Object::parse(&bytes).expect_err("fifty million relocations");
    assert!(refusal.to_string().contains("lie over each other"), "{refusal}");
}
