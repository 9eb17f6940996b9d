//! Programs as files: ELF (`elf`), scripts (`shebang`), what of a file lies where (`load_segments`), the stack that a
//! program finds (`initial_stack`), and which of its instructions are rewritten (`patch_site`, `hot_sites`).
//!
//! Pure. Files come from anywhere: each byte is checked before it is believed.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod elf;
pub mod hot_sites;
pub mod initial_stack;
pub mod load_segments;
pub mod patch_site;
pub mod shebang;
