//! FAULTS rows 18, 52, 56, 57, 59, 61 and 63 as far as the verifier answers for them, and what refusals say.

mod support;

use downloaded_code::context::Context;
use downloaded_code::instruction::Slot;
use downloaded_code::interpreter::Ending;
use downloaded_code::invocation::Stop;
use downloaded_code::program::{MAX_INSTRUCTIONS, Program};
use downloaded_code::refusal::{Known, Reason};
use downloaded_code::verifier::{Progress, Protection, Space, Verifier, storage_bound};
use support::{LAX, STRICT, assemble, interpret, refusal, verify};

fn slots(slots: &[(u8, u8, u8, i16, i32)]) -> Vec<u8> {
    let slot = |&(opcode, destination, source, offset, immediate): &(u8, u8, u8, i16, i32)| {
        Slot { opcode, destination, source, offset, immediate }.to_bytes()
    };
    slots.iter().flat_map(slot).collect()
}

fn reason(bytes: &[u8], context: &Context<'_>) -> Reason {
    match verify(bytes, context) {
        Ok(_) => panic!("accepted"),
        Err(refusal) => refusal.reason,
    }
}

#[test]
fn fault_52_jumps_must_land_on_instructions_of_their_function() {
    assert_eq!(reason(&slots(&[(0x05, 0, 0, 5, 0), (0x95, 0, 0, 0, 0)]), &LAX), Reason::TargetOutside);
    assert_eq!(reason(&slots(&[(0x05, 0, 0, -2, 0), (0x95, 0, 0, 0, 0)]), &LAX), Reason::TargetOutside);
    assert_eq!(reason(&slots(&[(0x06, 0, 0, 0, i32::MAX), (0x95, 0, 0, 0, 0)]), &LAX), Reason::TargetOutside);
    let middle = slots(&[(0x05, 0, 0, 1, 0), (0x18, 0, 0, 0, 1), (0, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert_eq!(reason(&middle, &LAX), Reason::TargetInsideConstantLoad);
    let other = slots(&[(0x85, 0, 1, 0, 1), (0x05, 0, 0, 1, 0), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert_eq!(reason(&other, &LAX), Reason::JumpIntoOtherFunction);
}

#[test]
fn fault_52_backward_jump_is_proven_or_counted() {
    let endless = assemble("mov r0, 0\nja -1");
    let checked = verify(&endless, &LAX).expect("counted");
    assert_eq!(checked.verdict.worst_case, None);
    assert_eq!(reason(&endless, &STRICT), Reason::LoopNotProven);
    let bounded = assemble("mov r0, 0\nadd r0, 1\njlt r0, 100, -2\nexit");
    let checked = verify(&bounded, &STRICT).expect("proven");
    assert!(checked.verdict.worst_case.is_some_and(|cost| (200..500).contains(&cost)), "{:?}", checked.verdict);
}

#[test]
fn fault_18_endless_loops_end_with_the_budget() {
    for text in [
        "mov r0, 0\nja -1",
        "mov r0, 0\nadd r0, 1\njne r0, 0, -2\nexit",
        "mov r0, 5\nsub r0, 1\nadd r0, 1\njgt r0, 0, -3\nexit",
    ] {
        let outcome = interpret(&assemble(text), &LAX, 0, 0);
        assert_eq!(outcome.ending, Ending::Stopped(Stop::BudgetSpent), "{text}");
        assert!(outcome.executed <= LAX.budget, "{outcome:?}");
    }
}

#[test]
fn fault_56_stack_out_of_bounds() {
    for text in [
        "ldxdw r0, [r10-520]\nexit",
        "stdw [r10], 1\nmov r0, 0\nexit",
        "stdw [r10-4], 1\nmov r0, 0\nexit",
        "mov r6, r10\nadd r6, -513\nstb [r6], 0\nmov r0, 0\nexit",
        "mov r6, r10\nadd r6, 100\nstb [r6], 0\nmov r0, 0\nexit",
    ] {
        assert!(matches!(refusal(text, &LAX).reason, Reason::OutsideStack { .. }), "{text}");
    }
}

#[test]
fn fault_56_uninitialised_registers_and_stack() {
    assert_eq!(refusal("exit", &LAX).reason, Reason::NeedsInitialised);
    assert_eq!(refusal("mov r0, r6\nexit", &LAX).known, Known::Uninitialised);
    assert_eq!(refusal("mov r0, r6\nadd r0, 1\nexit", &LAX).instruction, 1);
    assert_eq!(refusal("mov32 r0, r6\nmov r0, 0\nexit", &LAX).instruction, 0);
    assert!(verify(&assemble("mov r7, r6\nmov r7, 0\nmov r0, r7\nexit"), &LAX).is_ok());
    assert_eq!(refusal("ldxdw r0, [r10-8]\nexit", &LAX).reason, Reason::StackNotInitialised);
    assert_eq!(refusal("stw [r10-8], 1\nldxdw r0, [r10-8]\nexit", &LAX).reason, Reason::StackNotInitialised);
    assert_eq!(refusal("jeq r2, 0, +1\nmov r6, r1\nmov r0, r6\nexit", &LAX).reason, Reason::NeedsInitialised);
    let after_call = assemble("mov r6, r1\nmov r2, 0\ncall 2\nmov r0, r1\nexit");
    assert_eq!(reason(&after_call, &LAX), Reason::NeedsInitialised);
    let on_one_path =
        "mov r2, 8\nmov r1, r10\nadd r1, -8\nstdw [r10-8], 0\ncall 2\njeq r0, 0, +1\nmov r3, 1\nmov r0, r3\nexit";
    assert_eq!(refusal(on_one_path, &LAX).reason, Reason::NeedsInitialised);
}

/// What one path writes and another leaves as the function found it counts as zero there; compilers make such code
/// where they know that it is not used.
#[test]
fn fault_56_registers_that_some_paths_write_start_as_zero() {
    let bytes = assemble("jeq r2, 0, +1\nmov r6, 7\nmov r7, r6\nmov r0, r7\nexit");
    assert!(verify(&bytes, &LAX).is_ok());
    for (argument, expected) in [(0, 0), (1, 7)] {
        let outcome = interpret(&bytes, &LAX, argument, 0);
        assert_eq!((outcome.ending, outcome.result), (Ending::Stopped(Stop::Finished), expected));
    }
}

#[test]
fn fault_56_pointers_do_not_leak() {
    assert_eq!(refusal("stxdw [r1], r1\nmov r0, 0\nexit", &LAX).reason, Reason::PointerWouldLeak);
    assert_eq!(refusal("stxdw [r1], r10\nmov r0, 0\nexit", &LAX).reason, Reason::PointerWouldLeak);
    assert_eq!(refusal("stxw [r10-8], r1\nmov r0, 0\nexit", &LAX).reason, Reason::PointerWouldLeak);
    assert_eq!(refusal("mov r0, r1\nexit", &LAX).reason, Reason::ReturnsPointer);
    assert_eq!(refusal("mov r6, r1\nmov r1, r3\nmov r2, r6\ncall 2\nexit", &LAX).reason, Reason::NeedsNumber);
    assert_eq!(refusal("mov r0, 1\nsub r0, r1\nexit", &LAX).reason, Reason::PointerArithmetic);
    let atomic = slots(&[(0xdb, 1, 3, 0, 0), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert_eq!(reason(&atomic, &LAX), Reason::NeedsNumber);
}

#[test]
fn fault_56_bad_map_and_other_constant_loads() {
    for (source, immediate) in [(1, 3), (2, 0), (3, 0), (4, 0), (5, 0), (7, 0)] {
        let program =
            slots(&[(0x18, 6, source, 0, immediate), (0, 0, 0, 0, 0), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
        assert_eq!(reason(&program, &LAX), Reason::UnsupportedConstantLoad);
    }
    let none = slots(&[(0x18, 6, 6, 0, 9), (0, 0, 0, 0, 0), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert_eq!(reason(&none, &LAX), Reason::NoSuchRegion);
    let constants = slots(&[(0x18, 6, 6, 0, 2), (0, 0, 0, 0, 4), (0x61, 0, 6, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert_eq!(verify(&constants, &STRICT).expect("inside").verdict.checked, 0);
    let write =
        slots(&[(0x18, 6, 6, 0, 2), (0, 0, 0, 0, 4), (0x62, 6, 0, 0, 1), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert_eq!(reason(&write, &LAX), Reason::RegionIsReadOnly);
}

#[test]
fn fault_56_unaligned_atomics() {
    let atomic = |offset| slots(&[(0xdb, 1, 2, offset, 0), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert!(verify(&atomic(8), &STRICT).is_ok());
    assert_eq!(reason(&atomic(4), &LAX), Reason::Misaligned { size: 8 });
    let unknown =
        slots(&[(0x57, 2, 0, 0, 7), (0x0f, 1, 2, 0, 0), (0xdb, 1, 2, 0, 0), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)]);
    assert_eq!(reason(&unknown, &STRICT), Reason::Misaligned { size: 8 });
    assert_eq!(interpret(&unknown, &LAX, 3, 0).ending, Ending::Stopped(Stop::Misaligned));
    assert_eq!(interpret(&unknown, &LAX, 8, 0).ending, Ending::Stopped(Stop::Finished));
}

#[test]
fn fault_56_call_depth_recursion_and_indirect_calls() {
    let chain = |functions: i32| {
        let mut program = vec![];
        for index in 0..functions {
            if index + 1 < functions {
                program.push((0x85, 0, 1, 0, 1));
            } else {
                program.push((0xb7, 0, 0, 0, 1));
            }
            program.push((0x95, 0, 0, 0, 0));
        }
        slots(&program)
    };
    assert_eq!(verify(&chain(8), &STRICT).expect("eight deep").verdict.stack, 8 * 512);
    assert_eq!(reason(&chain(9), &LAX), Reason::CallsTooDeep);
    assert_eq!(reason(&slots(&[(0x85, 0, 1, 0, -1), (0x95, 0, 0, 0, 0)]), &LAX), Reason::Recursion);
    let circle = slots(&[
        (0x85, 0, 1, 0, 1),
        (0x95, 0, 0, 0, 0),
        (0x85, 0, 1, 0, 1),
        (0x95, 0, 0, 0, 0),
        (0x85, 0, 1, 0, -3),
        (0x95, 0, 0, 0, 0),
    ]);
    assert_eq!(reason(&circle, &LAX), Reason::CallsTooDeep);
    assert_eq!(reason(&slots(&[(0x8d, 0, 0, 0, 1), (0x95, 0, 0, 0, 0)]), &LAX), Reason::IndirectCall);
}

#[test]
fn fault_59_frame_pointer_read_only_memory_and_the_end() {
    assert_eq!(refusal("mov r10, 1\nexit", &LAX).reason, Reason::FramePointerIsReadOnly);
    assert_eq!(refusal("stb [r3], 1\nmov r0, 0\nexit", &LAX).reason, Reason::RegionIsReadOnly);
    assert_eq!(refusal("mov r0, 0", &LAX).reason, Reason::FallsOffTheEnd);
    assert_eq!(refusal("stb [r1+16], 1\nmov r0, 0\nexit", &LAX).reason, Reason::OutsideRegion { size: 1 });
    assert_eq!(refusal("mov r2, 5\nldxb r0, [r2]\nexit", &LAX).reason, Reason::NeedsPointer);
}

#[test]
fn fault_61_deterministic_contexts_refuse_the_clock() {
    let clock = assemble("call 1\nexit");
    assert!(verify(&clock, &LAX).is_ok());
    assert_eq!(reason(&clock, &STRICT), Reason::HelperNotDeterministic { number: 1 });
}

#[test]
fn fault_63_reads_outside_are_checked_or_refused() {
    let unproven = assemble("add r3, r2\nldxb r0, [r3]\nexit");
    let checked = verify(&unproven, &LAX).expect("checked at run time");
    assert_eq!(checked.verified().access(1), Some((Space::Region(1), Protection::Checked)));
    assert_eq!(reason(&unproven, &STRICT), Reason::OutsideRegion { size: 1 });
    for number in [0, 99, 100, u64::MAX] {
        let expected = if number < 100 { Stop::Finished } else { Stop::OutOfBounds };
        assert_eq!(interpret(&unproven, &LAX, number, 100).ending, Ending::Stopped(expected));
    }
}

/// The kernel verifies program after program in the same words.
#[test]
fn fault_57_what_the_words_held_before_changes_no_verdict() {
    let texts = [
        "mov r0, 0\nexit",
        "mov r0, 0\njlt r4, 34, +2\nldxh r0, [r3+12]\nldxb r0, [r3+33]\nexit",
        "mov r0, 0\nadd r0, 1\njlt r0, 100, -2\nexit",
        "add r3, r2\nldxb r0, [r3]\nexit",
        "mov r0, 0\nja -1",
        // The call leaves nothing of the arguments.
        "ldxb r6, [r3]\njeq r6, 0, +1\ncall 1\nmov r0, 0\nexit",
    ];
    for text in texts {
        let bytes = assemble(text);
        let program = Program::new(&bytes).expect("whole slots");
        let outcome = |before: u64| {
            let mut words = vec![before; storage_bound(program.slots())];
            let verdict = Verifier::run(program, &LAX, &mut words);
            words.truncate(program.slots());
            (verdict, words)
        };
        let clean = outcome(0);
        assert!(clean.0.is_ok(), "{text}");
        for before in [u64::MAX, 0xaaaa_aaaa_aaaa_aaaa, 1 << 63, 4, 0x0123_4567_89ab_cdef] {
            assert!(outcome(before) == clean, "{text}, words of {before:x}: {:?}", outcome(before).0);
        }
    }
}

/// Nothing is left to checks: neither accesses nor the end.
fn must_be_proven(text: &str) {
    let bytes = assemble(text);
    let checked = verify(&bytes, &STRICT).unwrap_or_else(|refusal| panic!("{}\n{text}", refusal.describe(&STRICT)));
    assert_eq!(checked.verdict.checked, 0, "{text}");
    assert!(checked.verdict.worst_case.is_some(), "{text}");
}

#[test]
fn packet_code_that_compares_first_needs_no_check() {
    let texts = [
        "mov r0, 0\njlt r4, 34, +2\nldxh r0, [r3+12]\nldxb r0, [r3+33]\nexit",
        "mov r0, 0\nmov r6, r3\nadd r6, 34\njgt r6, r5, +1\nldxb r0, [r3+33]\nexit",
        // while (p != end) sum += *p++
        "mov r0, 0\njeq r3, r5, +4\nldxb r6, [r3]\nadd r0, r6\nadd r3, 1\njne r3, r5, -4\nexit",
        // for (i = 0; i < length; i++) sum += p[i]
        "mov r0, 0\njeq r4, 0, +7\nmov r6, 0\nmov r7, r3\nadd r7, r6\nldxb r8, [r7]\nadd r0, r8\nadd r6, 1\njne r6, r4, -6\nexit",
        // header length from the packet
        "mov r0, 0\njlt r4, 34, +8\nldxb r6, [r3+14]\nand r6, 15\nlsh r6, 2\nadd r3, r6\nmov r7, r3\nadd r7, 18\njgt r7, r5, +1\nldxh r0, [r3+16]\nexit",
    ];
    texts.into_iter().for_each(must_be_proven);
}

#[test]
fn pointers_that_move_in_step_with_a_counter_need_no_check() {
    // The map has 16 bytes.
    let texts = [
        // for (i = 0; i < n; i++) map[i] = i, n at most 4, by elements of 4 bytes
        "and r2, 3\nmov r6, 0\nmov r7, r1\nstxw [r7], r6\nadd r7, 4\nadd r6, 1\njlt r6, r2, -4\nmov r0, 0\nexit",
        // for (i = n + 1; i > 0; i--) map[i - 1] = i, with the counter in 32 bits
        "and r2, 3\nadd r2, 1\nmov r7, r2\nlsh r7, 2\nadd r7, r1\nadd r7, -4\n\
         stxw [r7], r2\nadd r7, -4\nadd32 r2, -1\njgt32 r2, 0, -4\nmov r0, 0\nexit",
        // the counter is a copy of what the pointer was made from
        "and r2, 3\nadd r2, 1\nmov r7, r2\nlsh r7, 2\nadd r7, r1\nadd r7, -4\nmov r6, r2\nmov r2, 7\n\
         stxw [r7], r2\nadd r7, -4\nsub r6, 1\njgt r6, 0, -4\nmov r0, 0\nexit",
        // an index and the counter, by which the frame is cleared
        "mov r6, 0\nmov r7, r10\nadd r7, -64\nstdw [r7], 0\nadd r7, 8\nadd r6, 1\njlt r6, 8, -4\nmov r0, 0\nexit",
    ];
    texts.into_iter().for_each(must_be_proven);
}

#[test]
fn pointers_that_leave_their_counter_are_checked() {
    let texts = [
        // one element too many
        "and r2, 3\nadd r2, 1\nmov r6, 0\nmov r7, r1\nstxw [r7], r6\nadd r7, 4\nadd r6, 1\njle r6, r2, -4\nmov r0, 0\nexit",
        // on one way through the loop the pointer moves further
        "and r2, 3\nmov r6, 0\nmov r7, r1\nstxw [r7], r6\nadd r7, 4\njne r6, 1, +1\nadd r7, 4\nadd r6, 1\njlt r6, r2, -6\nmov r0, 0\nexit",
        // the counter starts anew, the pointer does not
        "mov r6, 0\nmov r7, r1\nstxw [r7], r6\nadd r7, 4\nadd r6, 1\njlt r6, 4, -4\nmov r6, 0\njne r2, 0, -6\nmov r0, 0\nexit",
        // a multiple of 32 bits of which the index may be too large
        "mov r0, 0\nmov r6, r2\nand r6, 0x7fffffff\nmov r7, r6\nlsh32 r7, 2\njlt r6, 0x3fffffff, +6\njgt r6, 0x40000003, +5\n\
         lddw r8, 0xfffffffc\nsub r7, r8\nadd r7, r1\nldxb r0, [r7]\nexit",
        // the counter goes around in 32 bits
        "and r2, 3\nmov r7, r2\nlsh r7, 2\nadd r7, r1\nstxw [r7], r2\nadd r7, -4\nadd32 r2, -1\njne32 r2, 1, -4\nmov r0, 0\nexit",
    ];
    for text in texts {
        let bytes = assemble(text);
        let checked = verify(&bytes, &LAX).unwrap_or_else(|refusal| panic!("{}\n{text}", refusal.describe(&LAX)));
        assert_eq!(checked.verdict.checked, 1, "{text}");
    }
}

#[test]
fn refusals_name_the_register_what_is_known_and_what_is_needed() {
    let text = refusal("jlt r4, 10, +2\nldxw r0, [r3+8]\nexit\nmov r0, 0\nexit", &STRICT).describe(&STRICT).to_string();
    assert_eq!(
        text,
        "instruction 1: r3 points into packet at offset 0, of which 10 bytes are known to exist; needed: 4 bytes \
         inside the region; compare before the access"
    );
    let text = refusal("mov r2, 70\nmov r1, r10\nadd r1, -64\ncall 2\nexit", &LAX).to_string();
    assert_eq!(text, "instruction 3: r2 is the number 70; needed: an argument in 0..=64");
    let text = refusal("jlt r4, 1, +2\nldxb r0, [r3+1]\nexit\nmov r0, 0\nexit", &STRICT).to_string();
    assert!(text.contains("1 byte is known to exist; needed: 1 byte inside the region"), "{text}");
    let far = "ldxw r6, [r1]\nmov r7, r3\nadd r7, r6\nmov r0, 0\njgt r7, r5, +1\nexit\nexit";
    let text = refusal(far, &LAX).to_string();
    assert!(text.starts_with("instruction 4: r7 points into region 1 at offset 0..=4294967295,"), "{text}");
    assert!(text.ends_with("at offsets known to be within 1 GiB"), "{text}");
}

/// Runs a verifier over given storage and counts its steps.
fn steps(bytes: &[u8], context: &Context<'_>, words: &mut [u64]) -> u32 {
    let program = Program::new(bytes).expect("a program");
    let mut verifier = Verifier::new();
    let mut steps = 0;
    while let Ok(Progress::Again) = verifier.step(program, context, words) {
        steps += 1;
    }
    steps
}

/// Programs made to keep a verifier busy.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let size = MAX_INSTRUCTIONS as i32;
    let branches: Vec<_> = (0..size - 2)
        .map(|index| if index % 2 == 0 { (0x15, 2, 0, 1, index) } else { (0x07, 4, 0, 0, 1 << (index % 20)) })
        .chain([(0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)])
        .collect();
    let nest: Vec<_> = (0..size / 2 - 1)
        .map(|index| (0x07, (index % 5) as u8 + 4, 0, 0, 1))
        .chain((0..size / 2 - 1).map(|index| (0xa5, (index % 5) as u8 + 4, 0, (-2 * index - 2) as i16, 1000 + index)))
        .chain([(0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)])
        .collect();
    let start = [(0xb7, 6, 0, 0, 0), (0xb7, 7, 0, 0, 0), (0xb7, 8, 0, 0, 0), (0xb7, 5, 0, 0, 0)];
    let nested: Vec<_> = start.into_iter().chain(nest.into_iter().skip(4)).collect();
    let functions: Vec<_> = (0..size / 4)
        .flat_map(|index| {
            let next = if index < 7 { (0x85, 0, 1, 0, 3) } else { (0xb7, 0, 0, 0, index) };
            [(0xbf, 6, 1, 0, 0), next, (0x1f, 0, 6, 0, 0), (0x95, 0, 0, 0, 0)]
        })
        .collect();
    let calls: Vec<_> = (0..size - 4)
        .map(|index| (0x85, 0, 1, 0, size - 4 - index + 1))
        .chain([(0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0), (0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)])
        .collect();
    let spills: Vec<_> = (0..size - 2)
        .map(|index| match index % 3 {
            0 => (0x7b, 10, (index % 3) as u8 + 2, -8 * (1 + (index / 3 % 64) as i16), 0),
            1 => (0x2d, 2, 4, ((index * 7919) % 40) as i16, 0),
            _ => (0x1f, 4, 2, 0, 0),
        })
        .map(|row: (u8, u8, u8, i16, i32)| if row.0 == 0x2d { (0x2d, 2, 4, row.3 % 30, 0) } else { row })
        .chain([(0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)])
        .collect();
    let backwards: Vec<_> = (0..size - 2)
        .map(|index| if index % 2 == 0 { (0x0f, 4, 2, 0, 0) } else { (0x2d, 4, 2, -(index.min(32000) as i16), 0) })
        .chain([(0xb7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0)])
        .collect();
    vec![
        ("branches", slots(&branches)),
        ("nested loops", slots(&nested)),
        ("functions", slots(&functions)),
        ("calls", slots(&calls)),
        ("spills", slots(&spills)),
        ("backward jumps", slots(&backwards)),
    ]
}

#[test]
fn fault_57_verifier_bombs_take_bounded_work() {
    let mut words = vec![0; storage_bound(MAX_INSTRUCTIONS)];
    for (name, bytes) in bombs() {
        let begun = std::time::Instant::now();
        let steps = steps(&bytes, &LAX, &mut words);
        println!("{name}: {steps} steps, {:?}", begun.elapsed());
        assert!(steps > 100, "{name}: refused after {steps} steps");
        assert!(steps <= 2_000_000, "{name}: {steps} steps");
    }
}

#[test]
fn fault_57_a_pointer_to_the_end_of_all_addresses_is_refused_where_it_is_passed() {
    // r2 = r10 + (2^63 - 1), passed to a function.
    let bytes = slots(&[
        (0x18, 2, 0, 0, -1),
        (0, 0, 0, 0, i32::MAX),
        (0x0f, 2, 10, 0, 0),
        (0x85, 0, 1, 0, 1),
        (0x95, 0, 0, 0, 0),
        (0xb7, 0, 0, 0, 0),
        (0x95, 0, 0, 0, 0),
    ]);
    assert_eq!(reason(&bytes, &LAX), Reason::OutsideStack { size: 1 });
}

#[test]
fn fault_57_no_bytes_make_the_verifier_panic() {
    let full = std::env::var_os("CHITIN_FULL").is_some_and(|value| value == "1");
    let given = std::env::var("CHITIN_SEED").ok().and_then(|text| text.parse().ok());
    let mut state: u64 = given.unwrap_or(88);
    println!("seed {state}");
    let mut words = vec![0; storage_bound(64)];
    for _ in 0..if full { 10_000_000 } else { 30_000 } {
        let mut bytes = vec![0; 8 * 24];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        // Real opcodes more often than not, and an exit.
        for slot in bytes.chunks_mut(8) {
            let opcodes = [0xb7, 0xbf, 0x07, 0x0f, 0x61, 0x7b, 0x15, 0x2d, 0x85, 0xdb, 0x05, 0x18, 0x95, 0xb4, 0x8c];
            slot[0] = if slot[7] < 230 { opcodes[usize::from(slot[7]) % opcodes.len()] } else { slot[0] };
            slot[1] = ((slot[1] % 11) << 4) | (slot[2] % 11);
        }
        steps(&bytes, &LAX, &mut words);
        let length = (state % 200) as usize;
        if let Ok(program) = Program::new(&bytes[..length.min(bytes.len())]) {
            let _ = Verifier::run(program, &LAX, &mut words);
        }
    }
}

#[test]
fn too_little_storage_says_how_much_is_needed() {
    let bytes = assemble("mov r0, 0\nadd r0, 1\njlt r0, 100, -2\nexit");
    let program = Program::new(&bytes).expect("a program");
    let Err(refusal) = Verifier::run(program, &LAX, &mut [0; 12]) else { panic!("accepted without storage") };
    let Reason::StorageTooSmall { needed } = refusal.reason else { panic!("{refusal}") };
    assert!(needed <= storage_bound(program.slots()));
    assert!(Verifier::run(program, &LAX, &mut vec![0; needed]).is_ok());
    assert!(Verifier::run(program, &LAX, &mut vec![0; needed - 1]).is_err());
}

/// A length that compilers cut to 32 bits, by two shifts, stays a length: the loop that counts to it is proven.
#[test]
fn a_truncated_length_is_still_a_length() {
    let counted = |truncation: &str, jump: &str| {
        let text = format!(
            "mov r0, 0\n{truncation}\njeq r4, 0, +7\nmov r1, 0\nmov r5, r3\nadd r5, r1\nldxb r5, [r5]\nadd r0, r5\nadd r1, 1\n\
             {jump} r1, r4, -6\nexit"
        );
        verify(&assemble(&text), &STRICT).map(|checked| checked.verdict.accesses)
    };
    let truncations = ["mov32 r4, r4", "lsh r4, 32\nrsh r4, 32", "lsh r4, 32\narsh r4, 32"];
    for truncation in truncations {
        assert_eq!(counted(truncation, "jlt"), Ok(1), "{truncation}");
        assert_eq!(counted(truncation, "jslt"), Ok(1), "{truncation}");
    }
    for other in ["lsh r4, 32\nrsh r4, 31", "lsh r4, 31\nrsh r4, 31", "lsh r4, 32\nmov r5, r4\nrsh r4, 32"] {
        assert!(counted(other, "jlt").is_err(), "{other}");
    }
}

/// A jump between the two shifts finds a number, not a length.
#[test]
fn fault_58_half_a_truncation_is_none() {
    let text =
        "mov r0, 0\njeq r2, 0, +1\nlsh r4, 32\nrsh r4, 32\njeq r4, 0, +3\nadd r3, r4\nldxb r0, [r3-1]\nexit\nexit";
    assert!(verify(&assemble(text), &STRICT).is_err());
    let whole = text.replace("jeq r2, 0, +1\n", "");
    assert!(verify(&assemble(&whole), &STRICT).is_ok());
}
