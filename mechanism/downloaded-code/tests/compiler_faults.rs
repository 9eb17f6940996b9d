//! FAULTS rows 16, 54, 55 and 90 as far as the compiler answers for them.

mod support;

use downloaded_code::compiler::{CompileError, Compiler, Progress, Request, label_words};
use downloaded_code::context::{Argument, Context, Speculation};
use downloaded_code::x86_64::EmitError;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use support::{LAX, STRICT, assemble, verify};

const REQUEST: Request<'static> =
    Request { helpers: &[0x1234_5678_9abc, 0x1_0000_2000], code_address: None, blinding: None };

fn compile(text: &str, context: &Context<'_>, request: &Request<'_>) -> Vec<u8> {
    let bytes = assemble(text);
    let checked = verify(&bytes, context).unwrap_or_else(|refusal| panic!("{}", refusal.describe(context)));
    let mut labels = vec![0; label_words(checked.program.slots())];
    let mut code = vec![0; 1 << 16];
    let size = Compiler::run(&checked.verified(), request, &mut code, &mut labels).expect("compiles");
    code.truncate(size);
    code
}

fn mnemonics(code: &[u8]) -> Vec<Mnemonic> {
    Decoder::new(64, code, DecoderOptions::NONE).iter().map(|instruction| instruction.mnemonic()).collect()
}

#[test]
fn fault_16_a_program_changed_after_verification_does_not_compile_into_something_else_silently() {
    // The kernel verifies a copy that no one else can write. If the copy were changed all the same, compiling reads
    // it afresh. Then it either refuses or emits only what annotations of the verified program allow. Undecodable
    // bytes are refused.
    let bytes = assemble("mov r0, 1\nexit");
    let checked = verify(&bytes, &STRICT).expect("accepted");
    let changed = [0xff; 16];
    let program = downloaded_code::program::Program::new(&changed).expect("length");
    let verified = downloaded_code::verifier::Verified::new(program, &STRICT, &checked.words, checked.verdict);
    let mut labels = vec![0; label_words(2)];
    let result = Compiler::run(&verified.expect("same length"), &REQUEST, &mut [0; 256], &mut labels);
    assert_eq!(result, Err(CompileError::ProgramChanged));
}

#[test]
fn fault_54_the_size_is_known_exactly_before_anything_is_written() {
    let bytes = assemble("mov r0, 0\nadd r3, r2\nldxb r0, [r3]\njeq r0, 5, -3\nmul r0, 77\ncall 1\nexit");
    let checked = verify(&bytes, &LAX).expect("accepted");
    let mut labels = vec![0; label_words(checked.program.slots())];
    let mut code = vec![0xee; 4096];
    let size = Compiler::run(&checked.verified(), &REQUEST, &mut code, &mut labels).expect("compiles");
    for available in [0, 1, size - 1] {
        let mut small = vec![0xee; available];
        let result = Compiler::run(&checked.verified(), &REQUEST, &mut small, &mut labels);
        assert_eq!(result, Err(CompileError::Emit(EmitError::BufferFull { needed: size, available })));
        assert!(small.iter().all(|byte| *byte == 0xee), "nothing is written when it does not fit");
    }
    let mut exact = vec![0; size];
    assert_eq!(Compiler::run(&checked.verified(), &REQUEST, &mut exact, &mut labels), Ok(size));
    assert_eq!(exact, code[..size]);
    let result = Compiler::run(&checked.verified(), &REQUEST, &mut exact, &mut [0; 3]);
    assert!(matches!(result, Err(CompileError::TooFewLabels { .. })));
}

#[test]
fn fault_54_far_helpers_are_called_through_a_register_near_ones_directly() {
    let near = Request { code_address: Some(0x1_0000_0000), ..REQUEST };
    let text = "mov r1, r10\nadd r1, -8\nstdw [r10-8], 1\nmov r2, 8\ncall 2\nexit";
    let opcodes = |code: &[u8]| -> Vec<String> {
        let calls = Decoder::with_ip(64, code, 0x1_0000_0000, DecoderOptions::NONE);
        calls
            .into_iter()
            .filter(|instruction| instruction.mnemonic() == Mnemonic::Call)
            .map(|call| call.to_string())
            .collect()
    };
    assert_eq!(opcodes(&compile(text, &LAX, &near)), ["call 0000000100002000h"]);
    assert_eq!(opcodes(&compile(text, &LAX, &REQUEST)), ["call rax"]);
    assert_eq!(opcodes(&compile("call 1\nexit", &LAX, &near)), ["call rax"]);
    let none = Request { helpers: &[], ..REQUEST };
    let bytes = assemble(text);
    let checked = verify(&bytes, &LAX).expect("accepted");
    let mut labels = vec![0; label_words(checked.program.slots())];
    let result = Compiler::run(&checked.verified(), &none, &mut [0; 1024], &mut labels);
    assert_eq!(result, Err(CompileError::NoHelperAddress { number: 2 }));
}

/// Constants that would be instructions if executed from their middle.
const SPRAY: &str = "mov r0, 0x3c909090\nmov r6, 0x3cc03148\nadd r0, 0x3c050fc3\nxor r0, r6\nand r2, 0x3ceb9090\n\
                     jeq r2, 0x3c0feb90, +1\nadd r0, r2\nlddw r7, 0x3c0feb903c909090\nadd r0, r7\nstw [r1], 0x3c909091\n\
                     stdw [r1+8], 0x3c909092\nmul32 r0, 0x3c909093\nmod r0, 0x3c909094\nmov32 r8, 0x3c909095\nadd r0, r8\nexit";

#[test]
fn fault_55_hidden_constants_do_not_appear_in_the_code() {
    let plain = compile(SPRAY, &LAX, &REQUEST);
    assert!(contains_constant(&plain), "the test must be able to see them");
    for secret in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
        let hidden = compile(SPRAY, &LAX, &Request { blinding: Some(secret), ..REQUEST });
        assert!(!contains_constant(&hidden), "{hidden:02x?}");
        let other = compile(SPRAY, &LAX, &Request { blinding: Some(secret ^ 1), ..REQUEST });
        assert_ne!(hidden, other);
    }
}

/// Whether any of the program's constants stands in the code, whole.
fn contains_constant(code: &[u8]) -> bool {
    let constants = [
        0x3c90_9090u32,
        0x3cc0_3148,
        0x3c05_0fc3,
        0x3ceb_9090,
        0x3c0f_eb90,
        0x3c90_9091,
        0x3c90_9092,
        0x3c90_9093,
        0x3c90_9094,
        0x3c90_9095,
    ];
    code.windows(4).any(|window| constants.iter().any(|constant| window == constant.to_le_bytes()))
}

/// A load that is inside only because of a branch is made zero by the comparison that says whether it is; other
/// loads stand alone.
#[test]
fn fault_90_accesses_behind_branches_are_masked() {
    let mask = |text: &str, mnemonic| mnemonics(&compile(text, &LAX, &REQUEST)).contains(&mnemonic);
    let masked = |text: &str| mask(text, Mnemonic::Cmovae);
    assert!(masked("mov r0, 0\njgt r2, 15, +2\nadd r1, r2\nldxb r0, [r1]\nexit"), "index compared");
    assert!(mask("mov r0, 0\njlt r4, 20, +1\nldxb r0, [r3+19]\nexit", Mnemonic::Cmovb), "length compared");
    assert!(masked("add r3, r2\nldxb r0, [r3]\nexit"), "checked at run time");
    assert!(!masked("and r2, 15\nadd r1, r2\nldxb r0, [r1]\nexit"), "masked by the program itself");
    assert!(!masked("ldxdw r0, [r1+8]\nexit"), "always inside");
    let in_the_frame = "mov r0, 0\njgt r2, 56, +4\nmov r3, r10\nadd r3, -64\nadd r3, r2\n";
    assert!(masked(&format!("{in_the_frame}ldxb r0, [r3]\nexit")), "in the frame");
    assert!(masked(&format!("{in_the_frame}stb [r3], 1\nexit")), "written in the frame");
    let trusted = Context { speculation: Speculation::Trusted, ..LAX };
    let code = compile("mov r0, 0\njgt r2, 15, +2\nadd r1, r2\nldxb r0, [r1]\nexit", &trusted, &REQUEST);
    assert!(!mnemonics(&code).contains(&Mnemonic::Cmovae));
}

/// Between a masked load and its mask nothing stands that could use what was loaded, or change the flags.
#[test]
fn fault_90_the_mask_follows_its_load() {
    let counted = "mov r0, 0\njlt r4, 20, +3\nldxb r0, [r3+19]\nadd r0, 1\njne r0, r2, -3\nexit";
    let proven = "mov r0, 0\njlt r4, 20, +1\nldxw r0, [r3+16]\nexit";
    let unknown = "mov r0, 0\nadd r3, r2\nldxh r0, [r3-4]\nexit";
    for text in [counted, proven, unknown] {
        let code = compile(text, &LAX, &REQUEST);
        let instructions: Vec<_> = Decoder::new(64, &code, DecoderOptions::NONE).into_iter().collect();
        let is_mask = |mnemonic| matches!(mnemonic, Mnemonic::Cmovb | Mnemonic::Cmovae);
        let mask = instructions.iter().position(|instruction| is_mask(instruction.mnemonic())).expect("a mask");
        let loaded = instructions[mask].op0_register().full_register();
        let before = &instructions[..mask];
        let load = before.iter().rposition(|instruction| instruction.op0_register().full_register() == loaded);
        let load = load.expect("a load");
        assert!(instructions[load].memory_base() != Register::None, "{text}");
        let between = &instructions[load + 1..mask];
        assert!(between.iter().all(
            |instruction| instruction.mnemonic() == Mnemonic::Mov && instruction.op1_kind() == OpKind::Immediate32
        ));
        let flags = &instructions[load - 1];
        assert!(matches!(flags.mnemonic(), Mnemonic::Cmp | Mnemonic::Jae), "{text}: {flags}");
    }
}

/// A helper may change the register that holds zero for the masks.
#[test]
fn fault_90_helpers_do_not_spoil_the_masks() {
    let text = "mov r6, r3\nmov r7, r4\ncall 1\nmov r0, 0\njlt r7, 20, +1\nldxb r0, [r6+19]\nexit";
    let code = compile(text, &LAX, &REQUEST);
    let instructions: Vec<_> = Decoder::new(64, &code, DecoderOptions::NONE).into_iter().collect();
    let mask = instructions.iter().position(|instruction| instruction.mnemonic() == Mnemonic::Cmovb).expect("a mask");
    let zero = instructions[mask].op1_register().full_register();
    let written = |instruction: &&iced_x86::Instruction| instruction.op0_register().full_register() == zero;
    let call = instructions.iter().position(|instruction| instruction.mnemonic() == Mnemonic::Call).expect("a call");
    let last = instructions[..mask].iter().rfind(written).expect("it is set");
    assert!(last.ip() > instructions[call].ip() && last.immediate32() == 0, "{last}");
}

#[test]
fn fault_90_helpers_with_arguments_behind_branches_are_fenced() {
    let fenced = |text: &str| mnemonics(&compile(text, &LAX, &REQUEST)).contains(&Mnemonic::Lfence);
    assert!(fenced("mov r0, 0\njgt r2, 16, +1\ncall 2\nexit"));
    assert!(!fenced("mov r2, 16\ncall 2\nexit"));
}

#[test]
fn compiled_code_uses_no_vector_registers() {
    let code = compile(SPRAY, &LAX, &REQUEST);
    let decoder = Decoder::new(64, &code, DecoderOptions::NONE);
    for instruction in decoder {
        let vector = (0..instruction.op_count()).any(|operand| {
            let register = instruction.op_register(operand);
            register.is_xmm() || register.is_ymm() || register.is_zmm() || register.is_mm() || register.is_st()
        });
        assert!(!instruction.is_invalid() && !vector, "{instruction}");
    }
}

#[test]
fn proven_loops_are_not_counted() {
    let text = "mov r0, 0\nmov r6, 0\nadd r0, r6\nadd r6, 1\njlt r6, 100, -3\nexit";
    let code = compile(text, &LAX, &REQUEST);
    let sub_r11 = |code: &[u8]| {
        let decoder = Decoder::new(64, code, DecoderOptions::NONE);
        decoder.into_iter().filter(|instruction| instruction.to_string().starts_with("sub r11")).count()
    };
    assert_eq!(sub_r11(&code), 0);
    let code = compile("mov r0, 0\nadd r0, 1\njne r0, r2, -2\nexit", &LAX, &REQUEST);
    assert_eq!(sub_r11(&code), 2, "at the start and on the jump back");
}

#[test]
fn compiling_takes_many_small_steps() {
    let text = "add r2, 3\n".repeat(4000) + "mov r0, r2\nexit";
    let bytes = assemble(&text);
    let checked = verify(&bytes, &LAX).expect("accepted");
    let mut labels = vec![0; label_words(checked.program.slots())];
    let mut code = vec![0; 1 << 17];
    let (mut compiler, mut steps) = (Compiler::new(), 0);
    while compiler.step(&checked.verified(), &REQUEST, &mut code, &mut labels) == Ok(Progress::Again) {
        steps += 1;
    }
    assert!((500..2000).contains(&steps), "{steps}");
}

/// A sum of the packet's words, by a pointer that is compared with the end.
const SUM: &str = "mov r0, 0\nmov r3, r1\nadd r3, r2\nmov r4, r1\nadd r4, 4\njgt r4, r3, +4\nldxw r5, [r4-4]\n\
                   add r0, r5\nadd r4, 4\njle r4, r3, -4\nexit";
const PACKET: Context<'static> =
    Context { arguments: &[Argument::Pointer(1), Argument::Length(1), Argument::Length(1)], ..STRICT };

/// The same with two bytes between access and pointer: nothing that the program has is compared with the end's own
/// place.
fn with_a_gap() -> String {
    SUM.replace("[r4-4]", "[r4-6]").replace("add r4, 4\njgt", "add r4, 6\njgt")
}

/// The instructions of a program's only loop.
fn round(code: &[u8]) -> Vec<Instruction> {
    let jumps = [Mnemonic::Jbe, Mnemonic::Jb, Mnemonic::Jne];
    jumps.into_iter().map(|jump| round_of(code, jump)).find(|round| !round.is_empty()).expect("a loop")
}

/// The instructions of the loop that ends with such a jump.
fn round_of(code: &[u8], jump: Mnemonic) -> Vec<Instruction> {
    let instructions: Vec<_> = Decoder::new(64, code, DecoderOptions::NONE).into_iter().collect();
    let back = instructions.iter().find(|one| one.mnemonic() == jump && one.near_branch_target() < one.ip());
    let Some((head, back)) = back.map(|jump| (jump.near_branch_target(), jump.ip())) else { return Vec::new() };
    assert_eq!(head / 64, back / 64, "in one line");
    instructions.into_iter().filter(|instruction| (head..=back).contains(&instruction.ip())).collect()
}

fn names(instructions: &[Instruction]) -> Vec<Mnemonic> {
    instructions.iter().map(|instruction| instruction.mnemonic()).collect()
}

/// Nothing but a conditional move is added to a loop that ends where its pointer is compared with the end.
#[test]
fn fault_90_the_comparison_of_a_loop_serves_its_mask() {
    use Mnemonic::{Add, Cmova, Cmovae, Cmp, Jb, Jbe, Jne, Mov};
    let loop_of = |text: &str| names(&round(&compile(text, &PACKET, &REQUEST)));
    assert_eq!(loop_of(SUM), [Mov, Cmova, Add, Add, Cmp, Jbe]);
    let pair = SUM.replace("jle r4, r3, -4", "jgt r4, r3, +1\nja -5").replace("jgt r4, r3, +4", "jgt r4, r3, +5");
    assert_eq!(loop_of(&pair), [Mov, Cmova, Add, Add, Cmp, Jbe], "as clang ends loops");
    assert_eq!(loop_of(&SUM.replace("jle r4, r3", "jge r3, r4")), [Mov, Cmova, Add, Add, Cmp, Jbe], "the other way");
    let below = SUM.replace("ldxw r5, [r4-4]", "ldxb r5, [r4]").replace("jle", "jlt").replace("jgt", "jge");
    assert_eq!(loop_of(&below), [Mnemonic::Movzx, Cmovae, Add, Add, Cmp, Jb]);
    let until = below.replace("add r4, 4\njlt", "add r4, 1\njne").replace("add r4, 4\njge", "jge");
    assert_eq!(loop_of(&until), [Mnemonic::Movzx, Cmovae, Add, Add, Cmp, Jne]);
    let counted = Context { strict: false, budget: 20, ..PACKET };
    let counted = names(&round_of(&compile(SUM, &counted, &REQUEST), Mnemonic::Jmp));
    assert_eq!(counted[..3], [Cmp, Mov, Mov], "charging a jump changes the flags");
}

/// Elsewhere it is the comparison with a register and a conditional move.
#[test]
fn fault_90_a_pointer_that_grows_is_compared_with_one_end_in_a_register() {
    let code = compile(&with_a_gap(), &PACKET, &REQUEST);
    let round = round(&code);
    use Mnemonic::{Add, Cmova, Cmp, Jbe, Mov};
    assert_eq!(names(&round), [Cmp, Mov, Cmova, Add, Add, Cmp, Jbe]);
    assert_eq!((round[0].op0_kind(), round[0].op1_kind()), (OpKind::Register, OpKind::Register));
    let limit = round[0].op1_register();
    let instructions = Decoder::new(64, &code, DecoderOptions::NONE);
    let writes = instructions.into_iter().filter(|one| one.mnemonic() != Cmp && one.op0_register() == limit);
    let writes = names(&writes.collect::<Vec<_>>());
    assert_eq!(writes[..3], [Mnemonic::Push, Mov, Add], "loaded once");
    assert!(writes.contains(&Mnemonic::Pop), "and kept for the caller");
}

/// Where a jump taught that the access is not before its region, both ends are compared; and where so many additions
/// are allowed that the pointer could get around.
#[test]
fn fault_90_a_lower_end_that_a_jump_taught_is_compared_too() {
    let body = "ldxb r5, [r4-4]\nadd r0, r5\nadd r4, 1\njle r4, r3, -4\nexit";
    let taught =
        format!("mov r0, 0\nmov r3, r1\nadd r3, r2\nmov r4, r2\njlt r4, 4, +6\nadd r4, r1\njgt r4, r3, +4\n{body}");
    let two_ends = |text: &str, context: &Context<'_>| {
        let names = mnemonics(&compile(text, context, &REQUEST));
        (names.contains(&Mnemonic::Sub), names.contains(&Mnemonic::Cmovae))
    };
    assert_eq!(two_ends(&taught, &PACKET), (true, true));
    assert_eq!(two_ends(SUM, &Context { budget: u64::MAX, ..PACKET }), (true, true));
}

/// A program that leaves no register over, or whose helpers would change it, compares with memory.
#[test]
fn fault_90_ends_stay_in_registers_that_nothing_changes() {
    let start = "mov r0, 0\nmov r6, 0\nmov r7, 0\nmov r8, 0\nmov r9, 0\nstxdw [r10-8], r9";
    let all = with_a_gap().replace("mov r0, 0", start);
    let masks = |text: &str| -> Vec<Mnemonic> {
        let code = compile(text, &Context { deterministic: false, ..PACKET }, &REQUEST);
        let is_mask = |mnemonic: &Mnemonic| matches!(mnemonic, Mnemonic::Cmova | Mnemonic::Cmovae);
        mnemonics(&code).into_iter().filter(is_mask).collect()
    };
    assert_eq!(masks(&all.replace("mov r9, 0", "mov r9, 0\nmov r5, 0")), [Mnemonic::Cmovae]);
    let without_r5 = all.replace("r5", "r2");
    assert_eq!(masks(&without_r5), [Mnemonic::Cmova], "r5 is left over");
    assert_eq!(masks(&without_r5.replace("exit", "call 1\nexit")), [Mnemonic::Cmovae], "a helper changes r5");
}
