//! Each way an object can be wrong has its own refusal.

use bpf_loader::{Object, Reason, Refusal, contexts};
use object::write::Relocation;
use object::{RelocationFlags, SectionKind, SymbolScope};

use crate::compiler::compile;
use crate::synthetic::*;

fn refusal(bytes: &[u8]) -> Refusal {
    let linked = Object::parse(bytes).and_then(|object| object.link(Some("handle"), &contexts::PACKET).map(|_| ()));
    linked.expect_err("the object should be refused")
}

fn reason(made: &Synthetic) -> Reason {
    refusal(&made.bytes()).reason
}

#[test]
fn a_sound_synthetic_object_is_accepted() {
    let bytes = Synthetic::new(&[NOTHING, EXIT]).bytes();
    let object = Object::parse(&bytes).expect("sound");
    assert_eq!(object.link(None, &contexts::PACKET).expect("sound").bytes.len(), 16);
}

#[test]
fn files_that_are_no_objects() {
    assert_eq!(refusal(b"").reason, Reason::NotElf);
    assert_eq!(refusal(b"#!/bin/sh\n").reason, Reason::NotElf);
    assert_eq!(refusal(b"BC\xc0\xde5\x14").reason, Reason::Bitcode);
    assert_eq!(refusal(&vec![0; bpf_loader::OBJECT_MAX + 1]).reason, Reason::TooLarge);
    let sound = Synthetic::new(&[NOTHING, EXIT]).bytes();
    let with = |offset: usize, value: u8| {
        let mut bytes = sound.clone();
        bytes[offset] = value;
        refusal(&bytes).reason
    };
    assert_eq!(with(4, 1), Reason::NotElf, "32 bits");
    assert_eq!(with(5, 2), Reason::NotElf, "big-endian");
    assert_eq!(with(16, 2), Reason::NotRelocatable);
    assert_eq!(with(18, 62), Reason::NotBpf(62));
}

#[test]
fn truncation_anywhere_is_refused_or_leaves_a_sound_object() {
    let sound = Synthetic::new(&[NOTHING, EXIT]).bytes();
    for length in 0..sound.len() {
        if let Ok(object) = Object::parse(&sound[..length]) {
            let _ = object.link(None, &contexts::PACKET);
        }
    }
}

#[test]
fn impossible_relocations() {
    let wide = [WIDE_LOAD, SECOND_HALF, EXIT];
    let cases: [(&[[u8; 8]], u64, u32, Reason); 6] = [
        (&wide, 0, 99, Reason::UnknownRelocation(99)),
        (&wide, 0, CALL, Reason::MisplacedRelocation),
        (&wide, 4, ADDRESS, Reason::MisplacedRelocation),
        (&wide, 8, ADDRESS, Reason::MisplacedRelocation),
        (&[NOTHING, EXIT], 0, ADDRESS, Reason::MisplacedRelocation),
        (&[CALL_FUNCTION, EXIT], 0, ADDRESS, Reason::MisplacedRelocation),
    ];
    for (code, offset, number, expected) in cases {
        let mut made = Synthetic::new(code);
        let state = made.undefined("state");
        made.relocate(offset, number, state);
        assert_eq!(reason(&made), expected, "type {number} at {offset}");
    }
    let mut made = Synthetic::new(&wide);
    let state = made.undefined("state");
    made.relocate(0, ADDRESS, state);
    made.relocate(0, ADDRESS, state);
    assert_eq!(reason(&made), Reason::TwoRelocations);
}

#[test]
fn a_relocation_of_a_symbol_that_does_not_exist() {
    let mut made = Synthetic::new(&[WIDE_LOAD, SECOND_HALF, EXIT]);
    let state = made.undefined("state");
    made.relocate(0, ADDRESS, state);
    let mut bytes = made.bytes();
    let entry = bytes.windows(16).position(|window| window[..8] == [0; 8] && window[8..12] == [1, 0, 0, 0]);
    let entry = entry.expect("the relocation");
    bytes[entry + 12..entry + 16].copy_from_slice(&9999u32.to_le_bytes());
    assert_eq!(refusal(&bytes).reason, Reason::NoSuchSymbol);
}

#[test]
fn names_that_the_context_does_not_have() {
    let mut made = Synthetic::new(&[WIDE_LOAD, SECOND_HALF, EXIT]);
    let unknown = made.undefined("counters");
    made.relocate(0, ADDRESS, unknown);
    let refused = refusal(&made.bytes());
    assert_eq!(
        refused.to_string(),
        "handle, instruction 0: `counters` is neither defined here nor a region of this context, which has `packet`, `state`, `constants`"
    );
    let mut made = Synthetic::new(&[CALL_FUNCTION, EXIT]);
    let unknown = made.undefined("memcpy");
    made.relocate(0, CALL, unknown);
    assert!(matches!(reason(&made), Reason::NoSuchHelper(name, known) if name == "memcpy" && known.len() == 2));
}

#[test]
fn memory_of_its_own_and_addresses_of_functions() {
    let mut made = Synthetic::new(&[WIDE_LOAD, SECOND_HALF, EXIT]);
    let datum = made.data(".data", SectionKind::Data, &[1; 16]);
    made.relocate(0, ADDRESS, datum);
    assert_eq!(reason(&made), Reason::Variable("datum".into()));
    let mut made = Synthetic::new(&[WIDE_LOAD, SECOND_HALF, EXIT]);
    let other = made.function("other", 16, 8, SymbolScope::Dynamic);
    made.relocate(0, ADDRESS, other);
    assert_eq!(reason(&made), Reason::FunctionAddress("other".into()));
}

#[test]
fn rust_that_may_panic() {
    let called =
        ["_ZN4core9panicking18panic_bounds_check17h0E", "_RNvNtCs1vf5PXl31O4_4core9panicking18panic_bounds_check"];
    for name in called {
        let mut made = Synthetic::new(&[CALL_FUNCTION, EXIT]);
        let panic = made.undefined(name);
        made.relocate(0, CALL, panic);
        assert_eq!(reason(&made), Reason::Panics);
    }
    // Where it panics is a constant that holds the address of a file's name.
    let mut made = Synthetic::new(&[WIDE_LOAD, SECOND_HALF, EXIT]);
    let place = made.data(".data.rel.ro..Lanon.1", SectionKind::ReadOnlyDataWithRel, &[0; 24]);
    made.relocate(0, ADDRESS, place);
    let section = made.object.symbol(place).section.id().expect("a section");
    let file = made.data(".rodata.file", SectionKind::ReadOnlyData, b"lib.rs");
    let flags = RelocationFlags::Elf { r_type: object::elf::RelocationType(2) };
    let address = Relocation { offset: 0, symbol: file, addend: 0, flags };
    made.object.add_relocation(section, address).expect("written");
    assert_eq!(reason(&made), Reason::AddressInConstants(".data.rel.ro..Lanon.1".into()));
}

#[test]
fn constants_too_many_outside_or_with_addresses() {
    let mut made = Synthetic::new(&[WIDE_LOAD, SECOND_HALF, EXIT]);
    let datum = made.data(".rodata", SectionKind::ReadOnlyData, &[0; bpf_loader::CONSTANTS_MAX + 1]);
    made.relocate(0, ADDRESS, datum);
    assert_eq!(reason(&made), Reason::TooManyConstants);

    let far = [0x18, 1, 0, 0, 0, 0, 1, 0];
    let mut made = Synthetic::new(&[far, SECOND_HALF, EXIT]);
    let datum = made.data(".rodata", SectionKind::ReadOnlyData, &[0; 32]);
    made.relocate(0, ADDRESS, datum);
    assert_eq!(reason(&made), Reason::OutsideSymbol(".rodata".into()));
}

#[test]
fn calls_and_jumps_that_go_nowhere() {
    let mut made = Synthetic::new(&[CALL_FUNCTION, NOTHING, EXIT]);
    let middle = made.symbol("middle", object::write::SymbolSection::Section(made.text), 8, object::SymbolKind::Label);
    made.relocate(0, CALL, middle);
    assert_eq!(reason(&made), Reason::BadCall);
    for distance in [0, 5, -9, i32::MAX, i32::MIN] {
        let [a, b, c, d] = distance.to_le_bytes();
        let call = [0x85, 0x10, 0, 0, a, b, c, d];
        assert_eq!(reason(&Synthetic::new(&[call, EXIT])), Reason::BadCall, "without relocation, {distance}");
    }
    let jumps =
        [[0x05, 0, 1, 0, 0, 0, 0, 0], [0x05, 0, 0xf0, 0xff, 0, 0, 0, 0], [0x06, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]];
    for jump in jumps {
        assert_eq!(reason(&Synthetic::new(&[jump, EXIT])), Reason::JumpOutOfFunction);
    }
    assert_eq!(reason(&Synthetic::new(&[EXIT, WIDE_LOAD])), Reason::HalfLoad);
}

#[test]
fn functions_that_are_none() {
    for (value, size) in [(4, 8), (0, 12), (0, 0), (8, 16), (u64::MAX, 8), (0, u64::MAX), (u64::MAX - 7, 16)] {
        let mut made = Synthetic::new(&[NOTHING, EXIT]);
        let handle = made.object.symbol_id(b"handle").expect("the entry");
        made.object.symbol_mut(handle).value = value;
        made.object.symbol_mut(handle).size = size;
        assert_eq!(reason(&made), Reason::BadFunction("handle".into()), "{value} {size}");
    }
}

#[test]
fn fault_57_programs_too_long_are_refused_and_cycles_end() {
    let long = vec![NOTHING; 4097];
    assert_eq!(reason(&Synthetic::new(&long)), Reason::TooManyInstructions);
    let mut halves = vec![NOTHING; 4098];
    halves[0] = CALL_FUNCTION;
    let mut made = Synthetic::new(&halves);
    let handle = made.object.symbol_id(b"handle").expect("the entry");
    made.object.symbol_mut(handle).size = 8 * 2049;
    let other = made.function("other", 8 * 2049, 8 * 2049, SymbolScope::Compilation);
    made.relocate(0, CALL, other);
    assert_eq!(reason(&made), Reason::TooManyInstructions, "two functions of 2,049");

    let mut cycle = Synthetic::new(&[CALL_FUNCTION, EXIT]);
    let handle = cycle.object.symbol_id(b"handle").expect("the entry");
    cycle.relocate(0, CALL, handle);
    let bytes = cycle.bytes();
    let program = Object::parse(&bytes).expect("sound").link(None, &contexts::PACKET).expect("the verifier refuses it");
    assert_eq!(program.bytes.len(), 16);
}

#[test]
fn refusals_of_clangs_objects_show_the_source_line() {
    let bytes = compile(
        "typedef unsigned long long u64;
static u64 counter;
u64 handle(const u64 *packet) {
    counter += 1;
    return counter;
}",
    );
    let refused = refusal(&bytes);
    let place = refused.place.as_ref().expect("an instruction");
    let line = place.line.as_ref().expect("compiled with -g");
    assert_eq!((line.number, line.text.as_str()), (4, "counter += 1;"));
    assert_eq!(refused.reason, Reason::Variable("counter".into()));
    let shown = refused.to_string();
    assert!(shown.contains("program.c:4") && shown.contains("a program has no memory of its own"), "{shown}");
}

#[test]
fn a_function_whose_address_is_taken_is_named_though_its_section_is_what_the_relocation_names() {
    let bytes = compile(
        "typedef unsigned long long u64;
__attribute__((noinline)) static u64 twice(u64 x) { return x + x; }
__attribute__((noinline)) static u64 square(u64 x) { return x * x; }
u64 handle(const u64 *packet) { u64 (*chosen)(u64) = *packet & 1 ? square : twice; return chosen(*packet); }",
    );
    let reason = refusal(&bytes).reason;
    let named = |name: &str| reason == Reason::FunctionAddress(name.into());
    assert!(named("twice") || named("square"), "{reason:?}");
}

#[test]
fn types_of_a_linux_kernel_are_refused() {
    let bytes = compile(
        "typedef unsigned long long u64;
struct task { u64 number; u64 flags; } __attribute__((preserve_access_index));
u64 handle(const struct task *task) { return task->flags; }",
    );
    assert_eq!(refusal(&bytes).reason, Reason::NeedsKernelTypes);
}

#[test]
fn tables_of_addresses_are_refused() {
    let bytes = compile(
        "typedef unsigned long long u64;
static const char *const names[] = {\"one\", \"two\", \"three\", \"four\"};
u64 handle(const u64 *packet) { return names[*packet & 3][0]; }",
    );
    assert!(matches!(refusal(&bytes).reason, Reason::AddressInConstants(_)));
}
