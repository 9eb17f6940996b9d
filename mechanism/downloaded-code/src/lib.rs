//! Downloaded code: the BPF instruction set (RFC 9669) as the one language for code that the kernel runs for others.
//!
//! A [`program::Program`] is bytes that nothing else can change. A [`context::Context`] says what it may see and do.
//! The verifier decides whether it may run at all and which run-time checks it needs. The compiler turns it into
//! x86-64 code that talks to its caller through an [`invocation::Invocation`]. The interpreter is the reference for
//! what it must do. [`x86_64`] is the back end, which the packet filters and the wakeup predicates use too.
//!
//! Nothing here allocates, recurses or panics on any input; storage is words that the caller gives.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod compiler;
pub mod context;
pub mod instruction;
pub mod interpreter;
pub mod invocation;
pub mod program;
pub mod refusal;
pub mod verifier;
pub mod x86_64;
