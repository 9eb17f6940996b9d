//! Loader of BPF objects: from what clang and rustc write to one plain program.
//!
//! An ELF object for BPF holds sections of code, relocations, constants and line information. [`Object::parse`] reads
//! it. [`Object::link`] lays one entry function and all functions it calls one after the other, at most 4,096
//! instructions in all, and replaces symbols. Calls of undefined functions become calls of the context's helpers, and
//! undefined data the context's regions, both found by name. Constants go to one block that travels with the program.
//!
//! Lives outside the trusted base: the kernel sees only the finished [`Program`] and
//! verifies it. Relocations and line records are those of the LLVM documentation's "BPF
//! Directives, Flag, and Attributes", "BPF Type Format" and of RFC 9669, section 5.4.
//!
//! Invariants, whatever the bytes: no panic; time linear in the object's size but for sorting; memory a small
//! multiple of it. Objects over [`OBJECT_MAX`] bytes are not looked into.

#![forbid(unsafe_code)]

mod btf;
mod constant;
pub mod contexts;
mod line;
mod link;
mod object_file;
mod program;
mod refusal;
mod relocation;
mod slot;

pub use constant::{CONSTANTS_REGION, regions_with_constants};
pub use line::{Line, Lines};
pub use object_file::{OBJECT_MAX, Object};
pub use program::{CONSTANTS_MAX, Function, Program};
pub use refusal::{Place, Reason, Refusal};
