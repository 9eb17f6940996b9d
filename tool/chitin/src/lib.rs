//! What the host command's two programs share: this package's own, which runs programs on Chitin and makes what they
//! need, and `tool/develop`, which measures and tests.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "the two programs of the host command are all that links this")]

pub mod answer;
pub mod archive;
pub mod boot_archive;
pub mod build;
pub mod cargo;
pub mod channel;
pub mod children;
pub mod clean;
pub mod command_line;
pub mod command_record;
pub mod developer;
pub mod doctor;
pub mod elf;
pub mod failure;
pub mod fs;
pub mod interrupt;
pub mod kernel_trace;
pub mod kvm;
pub mod metadata;
pub mod package;
pub mod progress;
pub mod qemu;
pub mod root;
pub mod run;
pub mod scratch;
pub mod seal;
pub mod size;
pub mod terminal;
pub mod toolchain;
pub mod version;
pub mod workspace;
