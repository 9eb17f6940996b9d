//! Making a program ready to run: its file checked, its memory laid out, its stack built.

pub use program::{elf, initial_stack, load_segments, shebang};

#[cfg(target_os = "none")]
pub mod cpu_entry;
#[cfg(target_os = "none")]
pub mod vdso;
