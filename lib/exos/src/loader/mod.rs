//! Making a program ready to run: its file checked, its memory laid out, its stack built.

#[cfg(target_os = "none")]
pub mod enter;
pub mod image;
pub mod script;
pub mod segments;
pub mod stack;
#[cfg(target_os = "none")]
pub mod vdso;
