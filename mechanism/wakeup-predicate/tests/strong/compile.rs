//! What can be said of compiled code without running it. (It is run under guard pages by
//! `test/native`.)

use abi::predicate::Term;
use fastrand::Rng;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register};
use wakeup_predicate::compile::{CODE_BYTES_MAX, INSTRUCTIONS_MAX};
use wakeup_predicate::{Predicate, TERMS_MAX};

use crate::support::*;

fn compile(array: &[Term]) -> Vec<u8> {
    let predicate = Predicate::check(array).expect("a sound array");
    let mut buffer = [0; CODE_BYTES_MAX];
    let length = predicate.compile(&mut buffer).expect("the stated maximum suffices");
    buffer[..length].to_vec()
}

fn decode(code: &[u8]) -> Vec<Instruction> {
    let instructions: Vec<_> = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter().collect();
    assert!(instructions.iter().all(|instruction| instruction.code() != Code::INVALID));
    instructions
}

#[test]
fn fault_55_what_the_user_chose_bit_by_bit_is_not_in_the_code() {
    let mut rng = Rng::with_seed(seed());
    println!("seed {}", seed());
    for _ in 0..cases(2_000, 100_000) {
        let array = array(&mut rng);
        let other: Vec<Term> = array
            .iter()
            .map(|term| Term {
                source: if term.source % 8 == 0 { rng.u64(..) & !7 } else { term.source },
                value: rng.u64(..),
                mask: if term.mask == u64::MAX { u64::MAX } else { rng.u64(1..u64::MAX) },
                ..*term
            })
            .collect();
        assert_eq!(compile(&array), compile(&other), "{array:?}");
    }
}

#[test]
fn fault_54_code_stays_within_the_stated_size_and_never_jumps_back_or_out() {
    let mut rng = Rng::with_seed(seed());
    println!("seed {}", seed());
    for _ in 0..cases(2_000, 100_000) {
        let code = compile(&array(&mut rng));
        let instructions = decode(&code);
        let starts: Vec<u64> = instructions.iter().map(Instruction::ip).collect();
        for instruction in &instructions {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch => {
                    let target = instruction.near_branch_target();
                    assert!(target > instruction.ip() && starts.contains(&target), "{instruction}");
                }
                FlowControl::Next | FlowControl::Return => {}
                other => panic!("{instruction} has the flow {other:?}"),
            }
        }
    }
}

#[test]
fn compiled_code_writes_registers_only_and_those_it_may() {
    let allowed = [Register::RAX, Register::RDI, Register::RSI, Register::RDX, Register::RSP];
    let mut rng = Rng::with_seed(seed());
    println!("seed {}", seed());
    let mut facts = InstructionInfoFactory::new();
    for _ in 0..cases(1_000, 50_000) {
        for instruction in decode(&compile(&array(&mut rng))) {
            let info = facts.info(&instruction);
            let writes = |access| !matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
            for used in info.used_registers() {
                let full = used.register().full_register();
                assert!(!writes(used.access()) || allowed.contains(&full), "{instruction}");
            }
            assert!(!info.used_memory().iter().any(|used| writes(used.access())), "{instruction}");
        }
    }
}

#[test]
fn fault_42_an_evaluation_executes_at_most_the_stated_instructions() {
    let term = Term { mask: 0xff, ..memory(0x1000, operators()[0], 1) };
    let product = vec![term; TERMS_MAX];
    let sum = vec![last(term); TERMS_MAX];
    for array in [product, sum] {
        let instructions = decode(&compile(&array));
        // The longest way tests every term and comes to the end: it leaves out what
        // answers for a product that holds (two instructions each) and for a freed word.
        let products = Predicate::check(&array).expect("a sound array").products().count();
        let longest = instructions.len() - 2 * products - 3;
        assert!(longest < INSTRUCTIONS_MAX, "{longest} instructions");
    }
}
