//! Unwind rules of the entries in assembly. With them the back trace of a debugger continues from a handler to the
//! code that the upcall interrupted.
//!
//! A rule covers the instructions between [`unwind_begin`] and [`unwind_end`]. There the registers lie saved below the
//! frame that the kernel pushed. The rule is a record of the section `.debug_frame` (DWARF 5, section 6.4), not
//! loaded. The record says that the frame is one of a signal (augmentation `S`). A debugger accepts a change of stacks
//! only there, and the assembler's `.cfi_signal_frame` does not reach this section.
//!
//! The canonical frame address is where the frame of the kernel ends. The registers lie below it in this order: RAX as
//! padding, RAX, RCX, RDX, RSI, RDI, R8 to R11. Where the entry saves all registers, RBX, RBP and R12 to R15 follow.

/// Begins the instructions of a rule.
#[macro_export]
macro_rules! unwind_begin {
    () => {
        "771:"
    };
}

/// Ends them. `from_stack_pointer`: bytes from RSP to the end of the frame. The entry saves `all` registers, or those
/// that functions of Rust do not `keep`.
#[macro_export]
macro_rules! unwind_end {
    ($from_stack_pointer:literal, all) => {
        $crate::unwind_end!($from_stack_pointer, "0x83,20, 0x86,21, 0x8c,22, 0x8d,23, 0x8e,24, 0x8f,25")
    };
    ($from_stack_pointer:literal, keep) => {
        $crate::unwind_end!($from_stack_pointer, "0")
    };
    ($from_stack_pointer:literal, $rest:literal) => {
        concat!(
            "772:
             .pushsection .debug_frame, \"\", @progbits
             .balign 8
             773: .long 775f - 774f
             774: .long 0xffffffff
             .byte 1
             .asciz \"S\"
             .byte 1, 0x78, 16
             .byte 0x0c, 7
             .uleb128 ",
            $from_stack_pointer,
            "
             .byte 0x90,5, 0x87,2, 0x80,11, 0x82,12, 0x81,13, 0x84,14, 0x85,15, 0x88,16, 0x89,17, 0x8a,18, 0x8b,19
             .byte ",
            $rest,
            "
             .balign 8
             775: .long 777f - 776f
             776: .long 773b
             .quad 771b
             .quad 772b - 771b
             .balign 8
             777:
             .popsection"
        )
    };
}
