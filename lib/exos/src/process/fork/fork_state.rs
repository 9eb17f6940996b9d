//! State that a parent prepares for its child.
//!
//! That is the options of `clone`, what the child finds in its copy of the heap, and a deferred vfork child.
//!
//! Invariant: this is data of the record of a process. The functions that make and use it are in `fork`, `child_start`
//! and `vfork_deferred`, which import this file; it imports none of them.

use super::vfork_sharing::SharedMemoryLink;
use crate::hw::page_tables::PageTables;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;
use runtime::PageNumber;
use runtime::upcall::Context;
use runtime::vector::State;

/// How a child differs from a plain copy.
#[derive(Clone, Debug)]
pub struct Options {
    /// Signal that tells the parent of its end.
    pub exit_signal: u32,
    /// Base of FS, if it gets another one.
    pub segment_base: Option<u64>,
    /// Where its number is stored in its memory; 0: nowhere.
    pub set_number: u64,
    /// Where its number is cleared in its memory when it ends; 0: nowhere.
    pub clear_number: u64,
    /// Whether no function of the program handles its signals (`CLONE_CLEAR_SIGHAND`).
    pub clears_handlers: bool,
    /// What its parent waits for, if it does.
    pub vfork_link: Option<SharedMemoryLink>,
    /// Whether it begins with the program in `Process::exec`; another thread may have left that there for its own
    /// process.
    pub executes: bool,
}

impl Options {
    /// A plain copy.
    pub const PLAIN: Self = Self {
        exit_signal: linux::SIGCHLD,
        segment_base: None,
        set_number: 0,
        clear_number: 0,
        clears_handlers: false,
        vfork_link: None,
        executes: false,
    };
}

/// What a child finds in its copy of the heap.
#[derive(Debug)]
pub struct ForkState {
    pub(super) context: Context,
    pub(super) mailbox: PageNumber,
    pub(super) options: Options,
    pub(super) parent: u64,
    pub(super) parent_mailbox: PageNumber,
    pub(super) memory: Option<ChildMemory>,
    /// Pages of the window that the server and the child have, and where its parent has its own.
    pub(super) window: Option<(u64, Vec<PageNumber>)>,
}

/// The memory of a child that does not share its parent's page tables; without any there is nothing in it.
#[derive(Clone, Debug, Default)]
pub struct ChildMemory {
    /// Its tables.
    pub tables: PageTables,
    /// Pages that are copies: address, and entry in the table.
    pub copied: Vec<(u64, u64)>,
    /// Whether they map the pages of files, too, that its parent's do.
    pub has_files: bool,
}

impl ForkState {
    /// For a child whose program resumes at `context`, if it does. The child has a mailbox of its own, and finds the
    /// number and the mailbox of its `parent`.
    pub fn new(context: &Context, mailbox: PageNumber, options: Options, parent: (u64, PageNumber)) -> Self {
        let (parent, parent_mailbox) = parent;
        Self { context: *context, mailbox, options, parent, parent_mailbox, memory: None, window: None }
    }

    /// Whether the child borrows its parent's memory: what it writes is the parent's.
    pub fn borrows_memory(&self) -> bool {
        self.options.vfork_link.as_ref().is_some_and(SharedMemoryLink::shares)
    }

    /// Whether the child begins with another program than its parent's.
    pub fn executes(&self) -> bool {
        self.options.executes
    }

    /// The child has tables of its own.
    pub fn set_memory(&mut self, memory: ChildMemory) {
        self.memory = Some(memory);
    }
}

/// The state that its parent resumes with, and the one that the child begins with.
#[derive(Debug)]
pub struct DeferredChild {
    /// Where the parent resumes.
    pub(super) parent: Context,
    /// Its vector registers.
    pub(super) vectors: State,
    /// Signals that the parent blocks.
    pub(super) blocked_by_parent: u64,
    /// Signals that the child blocks.
    pub(super) blocked: u64,
    /// Signal that tells the parent of its end.
    pub(super) exit_signal: u32,
}
