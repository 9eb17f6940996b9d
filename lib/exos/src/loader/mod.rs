//! Making a program ready to run: its file checked, its memory laid out, its stack built.

pub mod cpu_entry;
pub mod vdso;
