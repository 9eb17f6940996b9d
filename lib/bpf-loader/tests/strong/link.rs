//! What linking makes of real objects.

use bpf_loader::{Object, Program, contexts};
use downloaded_code::context::Context;
use downloaded_code::instruction::Instruction;
use downloaded_code::program;

use crate::compiler::compile;

fn link(source: &str, context: &Context<'_>) -> Program {
    let bytes = compile(source);
    let object = Object::parse(&bytes).unwrap_or_else(|refusal| panic!("{refusal}"));
    object.link(None, context).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn decode(program: &Program) -> Vec<(usize, Instruction)> {
    let code = program::Program::new(&program.bytes).expect("a legal length");
    let mut found = Vec::new();
    let mut index = 0;
    while index < code.slots() {
        let instruction = Instruction::decode(code, index).expect("clang writes instructions that are supported");
        found.push((index, instruction));
        index += instruction.slots();
    }
    found
}

const CALLS: &str = "
typedef unsigned long long u64; typedef unsigned char u8;
static __attribute__((noinline)) u64 leaf(u64 x) { return x * 7 + 1; }
static __attribute__((noinline)) u64 middle(u64 x) { return leaf(x) + leaf(x + 1); }
u64 handle(const u8 *packet, const u8 *end, u64 length) { return middle(length) + leaf(3); }";

#[test]
fn the_entry_comes_first_and_each_call_reaches_a_first_instruction() {
    let program = link(CALLS, &contexts::PACKET);
    let names: Vec<&str> = program.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["handle", "middle", "leaf"]);
    let mut calls = 0;
    for (index, instruction) in decode(&program) {
        if let Instruction::CallFunction { target } = instruction {
            calls += 1;
            let function = program.functions.iter().find(|function| function.first as i64 == target);
            let caller = program.function_of(index).expect("each instruction has a function");
            assert_ne!(function.expect("a first instruction").name, caller.name);
        }
    }
    assert_eq!(calls, 4);
}

#[test]
fn functions_of_several_sections_are_joined_and_unused_ones_left_out() {
    let program = link(
        "typedef unsigned long long u64; typedef unsigned char u8;
        __attribute__((noinline, section(\"other\"))) static u64 far(u64 x) { return x ^ 0x55; }
        static __attribute__((noinline, used)) u64 unused(u64 x) { return x + 99; }
        u64 handle(const u8 *packet, const u8 *end, u64 length) { return far(length) + far(2); }",
        &contexts::PACKET,
    );
    let names: Vec<&str> = program.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["handle", "far"]);
}

#[test]
fn helpers_regions_and_constants_are_found_by_name() {
    let program = link(
        "typedef unsigned long long u64; typedef unsigned char u8;
        extern u64 clock_now(void); extern u64 state[512];
        static const u64 table[4] = {11, 22, 33, 44};
        u64 handle(const u8 *packet, const u8 *end, u64 length) {
            state[3] = clock_now(); return table[length & 3] + state[7]; }",
        &contexts::PACKET,
    );
    let decoded = decode(&program);
    let has = |wanted: &dyn Fn(&Instruction) -> bool| decoded.iter().any(|(_, instruction)| wanted(instruction));
    assert!(has(&|found| *found == Instruction::CallHelper { number: 1 }));
    assert!(has(&|found| matches!(found, Instruction::LoadRegion { region: 1, .. })));
    assert!(has(&|found| matches!(found, Instruction::LoadRegion { region: 2, offset: 0, .. })));
    let words: Vec<u64> = program.constants.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert_eq!(words, [11, 22, 33, 44]);
}

#[test]
fn each_instruction_knows_its_line() {
    let program = link(CALLS, &contexts::PACKET);
    assert!(program.lines.known());
    for (index, _) in decode(&program) {
        let line = program.lines.line(index).expect("compiled with -g");
        assert!(line.file.ends_with("program.c") && (3..=5).contains(&line.number), "{line:?}");
        assert!(CALLS.contains(&line.text) && line.text.contains("u64"), "{line:?}");
    }
    let leaf = program.functions.iter().find(|function| function.name == "leaf").expect("linked");
    assert_eq!(program.lines.line(leaf.first).map(|line| line.number), Some(3));
}

#[test]
fn the_entry_is_chosen_by_name() {
    let bytes = compile(
        "typedef unsigned long long u64;
        u64 first(u64 x) { return x + 1; } u64 second(u64 x) { return x + 2; }",
    );
    let object = Object::parse(&bytes).expect("a sound object");
    assert_eq!(object.entries(), ["first", "second"]);
    let program = object.link(Some("second"), &contexts::PACKET).expect("linked");
    assert_eq!(program.functions[0].name, "second");
    let refusal = object.link(None, &contexts::PACKET).expect_err("which one?");
    assert_eq!(refusal.to_string(), "several functions could be the entry: choose one of `first`, `second`");
    let refusal = object.link(Some("third"), &contexts::PACKET).expect_err("no such function");
    assert_eq!(refusal.to_string(), "there is no function `third`: choose `first`, `second`");
}
