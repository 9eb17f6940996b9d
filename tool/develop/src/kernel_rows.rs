//! Renders the header by which test programs in C call the kernel: the numbers of its rows.

use std::fmt::Write;

use abi::syscall::TABLE;

/// Where the header stands, from the root of the checkout.
pub const FILE: &str = "test/programs/linux/kernel_rows.h";

const INTRODUCTION: &str = "\
// The numbers of the kernel's rows, for test programs that call it behind the library.
// Made from the table in abi/src/syscall.rs by `./chitin tidy --write`; a rule of `./chitin tidy` holds the two
// together.
#pragma once

enum {
";

/// The whole header.
pub fn render() -> String {
    let mut header = String::from(INTRODUCTION);
    for row in TABLE {
        // Writing into a string cannot fail.
        let _ = writeln!(header, "    ROW_{} = {},", row.name.to_uppercase(), row.number);
    }
    let _ = writeln!(header, "    ROWS = {},\n}};", TABLE.len());
    header
}
