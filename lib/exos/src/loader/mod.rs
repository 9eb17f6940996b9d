//! Making a program ready to run: its file checked, its memory laid out, its stack built.

#[cfg(target_os = "none")]
pub mod cpu_entry;
pub mod elf;
pub mod initial_stack;
pub mod load_segments;
pub mod shebang;
#[cfg(target_os = "none")]
pub mod vdso;
