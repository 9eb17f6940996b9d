//! Request for `execve`: the files of a program, its arguments and its environment.
//!
//! `exec` makes a request and executes it. A thread that is not the first leaves its request to the first one, and a
//! parent leaves that of a deferred vfork child to the child: so a request is part of the record of a process.
//!
//! Invariant: a request holds its files until [`ExecRequest::close`] or until the program runs.

use super::exec_file::{ElfFile, ExecFile};
use crate::server::client::Client;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE, STACK_TOP};
use linux_abi::errno::{Errno, Result};
use program::elf::Image;
use program::initial_stack;

/// A program that can be loaded: itself, and its interpreter.
pub(super) struct ExecPlan {
    pub(super) program: Arc<ElfFile>,
    pub(super) interpreter: Option<Arc<ElfFile>>,
    pub(super) arguments: Vec<Vec<u8>>,
    pub(super) preloaded: Vec<PreloadedObject>,
}

/// An object to be loaded before the program begins (`interpose`).
pub(super) struct PreloadedObject {
    pub(super) file: ExecFile,
    pub(super) image: Image,
}

impl PreloadedObject {
    /// Lets the file go.
    pub(super) fn close(&self) {
        self.file.close();
    }
}

impl ExecPlan {
    /// Of the program, and of its interpreter.
    pub(super) fn of(files: impl IntoIterator<Item = Arc<ElfFile>>, arguments: Vec<Vec<u8>>) -> Result<Self> {
        let mut files = files.into_iter();
        let program = files.next().ok_or(Errno::ENOEXEC)?;
        Ok(Self { program, interpreter: files.next(), arguments, preloaded: Vec::new() })
    }

    /// Its files but for what is preloaded, with what they say of themselves.
    pub(super) fn files(&self) -> impl Iterator<Item = &Arc<ElfFile>> {
        core::iter::once(&self.program).chain(&self.interpreter)
    }

    /// The nodes of these.
    pub(super) fn nodes(&self) -> Vec<u64> {
        self.files().map(|one| one.file.opened.node).collect()
    }

    /// Lets the files go.
    pub(super) fn close(&self) {
        self.files().for_each(|one| one.file.close());
        self.preloaded.iter().for_each(PreloadedObject::close);
    }
}

/// A program that can be loaded, with all that it is to find: what a thread that is not the first leaves to the first.
pub struct ExecRequest {
    pub(super) plan: ExecPlan,
    pub(super) path: Vec<u8>,
    pub(super) environment: Vec<Vec<u8>>,
    /// Whether another environment is to run it.
    pub(super) is_for_another: bool,
}

impl ExecRequest {
    /// Whether another environment is to run it than that of who asks.
    pub const fn is_for_another(&self) -> bool {
        self.is_for_another
    }

    /// Whether what is known of its files' pages is so still, as `files` says.
    pub(super) fn is_current(&self, files: &Client) -> bool {
        self.plan.files().all(|one| files.are_current(&one.file.touched))
    }

    /// The lowest page of its stack that it is sure to write: the program soon writes below its initial stack.
    pub(super) fn stack(&self) -> u64 {
        let [_, pointer] = initial_stack::measure(STACK_TOP, &self.path, &self.plan.arguments, &self.environment);
        (pointer & PAGE_MASK) - PAGE_SIZE
    }

    /// Lets its files go.
    pub fn close(&self) {
        self.plan.close();
    }

    /// Node of the program.
    pub(super) fn node(&self) -> u64 {
        self.plan.program.file.opened.node
    }

    /// Its arguments.
    pub(super) fn arguments(&self) -> &[Vec<u8>] {
        &self.plan.arguments
    }
}

impl core::fmt::Debug for ExecRequest {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Request").field("path", &self.path).finish_non_exhaustive()
    }
}
