//! FAULTS row 58: the patterns of the known holes in Linux's verifier.
//!
//! Each program would leave its 16-byte map, or leak an address, if the verifier reasoned as Linux once did. A strict
//! context must refuse it; in one that is not strict whatever is accepted runs without a fault, on many inputs.

mod support;

use downloaded_code::interpreter::Ending;
use support::{LAX, STRICT, assemble, interpret, verify};

const INPUTS: [u64; 14] = [
    0,
    1,
    2,
    15,
    16,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// The strict context refuses; what the other accepts never faults.
fn must_not_escape(name: &str, text: &str) {
    let bytes = assemble(text);
    assert!(verify(&bytes, &STRICT).is_err(), "{name}: accepted in the strict context");
    harmless(name, &bytes);
}

fn harmless(name: &str, bytes: &[u8]) {
    if verify(bytes, &LAX).is_err() {
        return;
    }
    for number in INPUTS {
        for length in [0, 1, 40, 1514] {
            let outcome = interpret(bytes, &LAX, number, length);
            assert!(!matches!(outcome.ending, Ending::Fault(_)), "{name}: {outcome:?} with {number:#x}");
        }
    }
}

#[test]
fn fault_58_cve_2017_16995_sign_of_a_32_bit_constant() {
    must_not_escape("mov32 -1 is not -1", "mov32 r6, -1\njne r6, -1, +2\nmov r0, 0\nexit\nldxdw r0, [r1+16]\nexit");
}

#[test]
fn fault_58_cve_2017_17852_32_bit_arithmetic_wraps() {
    must_not_escape(
        "add32",
        "mov32 r6, 0x7fffffff\nmov32 r7, 0x7fffffff\nadd32 r6, r7\nadd32 r6, 2\nadd32 r6, 17\nadd r1, r6\nldxb r0, [r1]\nexit",
    );
    must_not_escape("mul32", "mov32 r6, 0x10001\nmul32 r6, r6\nadd r1, r6\nldxb r0, [r1]\nexit");
}

#[test]
fn fault_58_cve_2017_17853_signed_and_unsigned_bounds() {
    must_not_escape("negative index", "jsgt r2, 15, +4\nadd r1, r2\nldxb r0, [r1]\nexit\nexit\nmov r0, 0\nexit");
}

#[test]
fn fault_58_cve_2017_17854_pointer_offset_overflows() {
    must_not_escape(
        "huge offset",
        "lddw r6, 0x7fffffffffffffff\nadd r1, r6\nadd r1, r6\nadd r1, 18\nldxb r0, [r1]\nexit",
    );
}

#[test]
fn fault_58_cve_2017_17855_pointers_in_arithmetic() {
    for operation in
        ["mul r1, 2", "xor r1, r1", "and r1, -8", "lsh r1, 1", "neg r1", "add32 r1, 1", "mov32 r1, r1", "be64 r1"]
    {
        let bytes = assemble(&format!("{operation}\nmov r0, 0\nexit"));
        assert!(verify(&bytes, &LAX).is_err(), "{operation}");
    }
}

#[test]
fn fault_58_cve_2017_17856_stack_alignment_and_parts_of_pointers() {
    let half = "stxdw [r10-8], r1\nldxw r0, [r10-8]\nexit";
    let shifted = "stxdw [r10-16], r1\nstdw [r10-8], 0\nldxdw r0, [r10-12]\nexit";
    let patched = "stxdw [r10-8], r1\nstb [r10-8], 0\nldxdw r0, [r10-8]\nexit";
    for text in [half, shifted, patched] {
        assert!(verify(&assemble(text), &LAX).is_err(), "{text}");
    }
}

#[test]
fn fault_58_cve_2017_17857_variable_stack_access_over_a_pointer() {
    let text = "stxdw [r10-16], r1\nstdw [r10-8], 0\nand r2, 8\nmov r6, r10\nadd r6, r2\nldxdw r0, [r6-16]\nexit";
    assert!(verify(&assemble(text), &LAX).is_err());
    // Overwriting it at an unknown place must destroy the pointer.
    let text = "stxdw [r10-16], r1\nstdw [r10-8], 0\nand r2, 8\nmov r6, r10\nadd r6, r2\nstdw [r6-16], 9\nldxdw r1, [r10-16]\nldxb r0, [r1]\nexit";
    assert!(verify(&assemble(text), &LAX).is_err());
}

#[test]
fn fault_58_cve_2018_18445_32_bit_right_shift() {
    must_not_escape("rsh32", "lddw r6, 0x1fffffffff\nrsh32 r6, 27\nadd r1, r6\nldxb r0, [r1]\nexit");
}

#[test]
fn fault_58_cve_2020_8835_32_bit_jumps_say_nothing_of_the_upper_half() {
    must_not_escape("jgt32", "jgt32 r2, 15, +3\nadd r1, r2\nldxb r0, [r1]\nexit\nmov r0, 0\nexit");
    must_not_escape("jeq32", "jne32 r2, 3, +3\nadd r1, r2\nldxb r0, [r1]\nexit\nmov r0, 0\nexit");
}

#[test]
fn fault_58_cve_2020_27194_or_of_32_bit_bounds() {
    must_not_escape(
        "or",
        "lddw r6, 0x600000001\njgt r2, r6, +6\njle r2, 0, +5\nor r2, 0\nrsh r2, 1\nadd r1, r2\nldxb r0, [r1]\nexit\nmov r0, 0\nexit",
    );
}

#[test]
fn fault_58_cve_2021_3490_and_or_xor_of_32_bit_operands() {
    for operation in ["and32", "or32", "xor32"] {
        let text = format!(
            "lddw r6, 0x100000002\n{operation} r2, r6\nmov32 r7, 1\nadd32 r2, r7\nadd r1, r2\nldxb r0, [r1+13]\nexit"
        );
        must_not_escape(operation, &text);
    }
}

#[test]
fn fault_58_cve_2021_31440_bounds_from_32_to_64_bits() {
    must_not_escape(
        "signed 32",
        "jslt32 r2, 0, +5\njsgt32 r2, 8, +4\nadd r1, r2\nldxb r0, [r1]\nexit\nexit\nmov r0, 0\nexit",
    );
}

#[test]
fn fault_58_cve_2021_45402_leak_by_32_bit_move() {
    assert!(verify(&assemble("mov32 r0, r10\nexit"), &LAX).is_err());
    assert!(verify(&assemble("mov r0, r10\nexit"), &LAX).is_err());
}

#[test]
fn fault_58_cve_2021_3444_and_3600_divisor_of_which_only_the_low_half_counts() {
    for operation in ["mod32", "div32"] {
        let bytes = assemble(&format!("lddw r6, 0x100000000\nmov r0, 55\n{operation} r0, r6\nexit"));
        let outcome = interpret(&bytes, &LAX, 0, 0);
        assert!(verify(&bytes, &STRICT).is_ok());
        assert_eq!(outcome.result, if operation == "mod32" { 55 } else { 0 });
        must_not_escape(
            operation,
            &format!("lddw r6, 0x100000000\nmov r7, 20\n{operation} r7, r2\nadd r1, r7\nldxb r0, [r1]\nexit"),
        );
    }
}

#[test]
fn fault_58_cve_2022_23222_pointer_or_something_else() {
    let text = "mov r6, 0\njeq r2, 0, +1\nmov r6, r1\nadd r6, 8\nldxb r0, [r6]\nexit";
    assert!(verify(&assemble(text), &LAX).is_err());
    let text = "jeq r2, 0, +1\nmov r1, r3\nldxb r0, [r1]\nexit";
    assert!(verify(&assemble(text), &LAX).is_err(), "either of two regions");
}

#[test]
fn fault_58_cve_2023_2163_paths_that_look_alike() {
    must_not_escape(
        "pruning",
        "mov r6, 0\nmov r7, 0\njgt r2, 5, +1\nmov r7, 20\njgt r2, 3, +1\nmov r6, r7\nadd r1, r6\nldxb r0, [r1]\nexit",
    );
}

#[test]
fn fault_58_loop_counter_that_leaves_its_range() {
    must_not_escape(
        "by 3 past 16",
        "mov r0, 0\nmov r6, 0\nmov r7, r1\nadd r7, r6\nldxb r8, [r7]\nadd r6, 3\njne r6, 16, -5\nexit",
    );
    must_not_escape(
        "off by one",
        "mov r0, 0\nmov r6, 0\nmov r7, r1\nadd r7, r6\nldxb r8, [r7]\nadd r6, 1\njle r6, 16, -5\nexit",
    );
}

#[test]
fn fault_58_comparing_wild_pointers_would_tell_addresses() {
    for jump in ["jgt r1, r6, +0", "jslt r1, r6, +0", "jset r1, r6, +0", "jgt32 r1, r6, +0"] {
        let bytes = assemble(&format!("mov r6, r1\nadd r6, r2\n{jump}\nmov r0, 0\nexit"));
        assert!(verify(&bytes, &LAX).is_err(), "{jump}");
    }
    // Whether two places of one region are the same does not depend on where it lies.
    let same = assemble("mov r6, r1\nadd r6, r2\njeq r1, r6, +0\nmov r0, 0\nexit");
    assert!(verify(&same, &LAX).is_ok());
    for jump in ["jgt r1, r3, +0", "jeq r1, r10, +0", "jgt r1, 0, +0", "jeq r1, 5, +0", "jeq r1, r2, +0"] {
        let bytes = assemble(&format!("{jump}\nmov r0, 0\nexit"));
        assert!(verify(&bytes, &LAX).is_err(), "{jump}");
    }
}
