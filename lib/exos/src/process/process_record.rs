//! The record of a process.

use super::call::{CallTable, Summary};
use super::pager::OwnPages;
use crate::attributes::ProcessAttributes;
use crate::descriptor::exported_pages::ExportedPages;
use crate::descriptor::fd_pins::Descriptors;
use crate::descriptor::open_file::OpenFileTable;
use crate::hw::cpu_time::Transferred;
use crate::hw::domain::Domain;
use crate::hw::page_tables::PageTables;
use crate::process::children::Children;
use crate::process::exec_file::ElfFile;
use crate::process::exec_request::ExecRequest;
use crate::process::fork::fork_state::DeferredChild;
use crate::process::fork::vfork_sharing::SharedMemoryLink;
use crate::process::futex::Futexes;
use crate::process::spawn_cache::SpawnCache;
use crate::process::thread::{DeadThread, Thread};
use crate::server::client::Client;
use crate::signal::{ExpiryTimers, SignalState};
use crate::terminal::Terminal;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::{Any, TypeId};
use core::cell::Cell;
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use linux_abi::errno::Result;
use program::hot_sites::TrapCounts;
use runtime::lock::Lock;
use runtime::page::Allocator;
use runtime::{KeyIndex, PageNumber};
use unix_core::ipc::attachments::Holdings;
use unix_core::process::fs_context::FsContext;
use unix_core::process::rusage::Rusage;
use vm::address_space::AddressSpace;

/// The program's memory: what it means, and the tables that hold it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Areas and frames.
    pub space: AddressSpace,
    /// Page tables.
    pub tables: PageTables,
    /// Pages for the program that is about to begin, with whatever was in them.
    pub at_hand: Vec<u64>,
}

/// What runs.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Absolute path of the file when it was executed.
    pub path: Vec<u8>,
    /// The file.
    pub node: u64,
    /// The file of its interpreter, and what that says of itself.
    pub(super) interpreter: Option<Arc<ElfFile>>,
    /// Its short name.
    pub name: Vec<u8>,
    /// Its arguments, each with its NUL, as it began with them.
    pub arguments: Vec<u8>,
    /// Where they lie in its memory, its environment behind them: it may have written something else there.
    pub arguments_at: u64,
    /// Its environment, each string with its NUL.
    pub environment: Vec<u8>,
    /// The auxiliary vector that it began with.
    pub auxiliary: Vec<u8>,
}

/// Access lists of a process other than its own.
#[derive(Debug)]
pub struct Lists {
    /// Those of pages that the whole session shares: it reads those under the first, and writes those under the second.
    pub shared: [PageNumber; 2],
    /// That of the publicly readable pages of a process of this user: its public page and its mailbox.
    pub public: AtomicU64,
}

impl Lists {
    /// Where public pages and mailboxes come from.
    pub fn public(&self, key: KeyIndex) -> Allocator {
        Allocator { key, list: PageNumber(self.public.load(Relaxed)) }
    }
}

/// What replaced operations keep for themselves, by its type.
pub type Extensions = BTreeMap<TypeId, Box<dyn Any + Send>>;

/// A process: a protection domain, and what Unix adds. The parts that layers below work on have words of their own
/// (`process::current`). Locks are taken in the order of `doc/exos/locks-and-lifecycle.md`; none is held while the
/// process waits.
#[derive(Debug)]
pub struct Process {
    /// Its protection domain.
    pub domain: Domain,
    /// What is ready for its next child, and what it makes a child of.
    pub spawn_cache: Lock<SpawnCache>,
    /// Its children.
    pub children: Lock<Children>,
    /// Its threads.
    pub threads: Lock<Vec<&'static Thread>>,
    /// Its signals.
    pub signal: SignalState,
    /// What runs.
    pub program: Lock<Program>,
    /// Its descriptors.
    pub descriptors: Descriptors,
    /// Its place in the file system.
    pub fs: Lock<FsContext>,
    /// What those of its threads used that ended.
    pub ended: Lock<Rusage>,
    /// The same of what they read and wrote.
    pub moved_by_ended: Lock<Transferred>,
    /// What it has of System V objects.
    pub holdings: Lock<Holdings>,
    /// Its credentials, limits and the like.
    pub attributes: ProcessAttributes,
    /// The program's memory.
    pub memory: Lock<Memory>,
    /// The connection to the server of the file system.
    pub files: Lock<Client>,
    /// Records of open descriptions.
    pub records: Lock<OpenFileTable>,
    /// Pages that it closed while relatives still use them.
    pub exported: Lock<ExportedPages>,
    /// Pages that held the copies of ExOS's data for children that are gone, for the next child.
    pub heap_pages: Lock<Vec<PageNumber>>,
    /// What its parent waits for, if it does.
    pub vfork_link: Lock<Option<SharedMemoryLink>>,
    /// The child that its program is for the moment, if it is one: see `process::vfork_deferred`.
    pub deferred_child: Lock<Option<Box<DeferredChild>>>,
    /// The terminal that controls it, if there is one.
    pub terminal: Lock<Option<Terminal>>,
    /// How it ends, once it does, as `Status::to_word`; 0 before.
    pub ending: AtomicU64,
    /// Threads that have ended, or are about to by themselves, for what they were made of.
    pub remains: Lock<Vec<DeadThread>>,
    /// Records of threads that ended, to be used again.
    pub spare_threads: Lock<Vec<&'static Thread>>,
    /// The program that the first thread is to go on in, because another one asked for it.
    pub exec: Lock<Option<Box<ExecRequest>>>,
    /// Its timers.
    pub alarms: ExpiryTimers,
    /// Threads that wait for a word of the program.
    pub futexes: Lock<Futexes>,
    /// Access lists that say who may what: see [`Lists`].
    pub lists: Lists,
    /// Table that maps the ExOS image.
    pub image_table: PageNumber,
    /// Calls that it made and ExOS does not have, by number.
    pub summary: Summary,
    /// Whether the host wants to know of them.
    pub options: AtomicU32,
    /// The calls that it works by.
    pub calls: CallTable,
    /// What replaced operations keep: see [`Process::with_extension`].
    pub extensions: Lock<Extensions>,
    /// How often each of the program's `syscall`s came by the gate.
    pub traps: TrapCounts,
    /// Whether it has made children, which may have ended since.
    pub has_made_children: AtomicBool,
    /// Whether rewriting is off, because the program sets GS base itself.
    pub gate_only: AtomicBool,
}

impl Deref for Process {
    type Target = Domain;
    fn deref(&self) -> &Domain {
        &self.domain
    }
}

impl Process {
    /// The path of its working directory.
    ///
    /// # Errors
    /// `ENOENT` when it was removed.
    pub fn working_directory(&self) -> Result<Vec<u8>> {
        let place = self.fs.lock().clone();
        match place.below_proc {
            Some(folder) => Ok(unix_core::process::fs_context::in_proc(&folder, b"")),
            None => self.files.lock().path_of(place.directory),
        }
    }

    /// Whether one of its users is user 0, and this capability of Linux counts.
    pub fn may(&self, capability: u32) -> bool {
        self.attributes.credentials.lock().has(capability)
    }

    /// Does something to its memory.
    pub fn with_memory<T>(&self, action: impl FnOnce(&mut AddressSpace, &mut OwnPages<'_>) -> T) -> T {
        self.with_memory_inline(action)
    }

    /// The same inlined into the caller, which must be short: a fault that is repaired.
    #[inline(always)]
    pub fn with_memory_inline<T>(&self, action: impl FnOnce(&mut AddressSpace, &mut OwnPages<'_>) -> T) -> T {
        let mut memory = self.memory.lock();
        let Memory { space, tables, at_hand } = &mut *memory;
        action(
            space,
            &mut OwnPages { tables, at_hand, key: self.session_key, files: &self.files, list: Cell::default() },
        )
    }

    /// Whether the running environment holds the lock of its memory: a fault now is not to be mended.
    #[inline(always)]
    pub fn memory_is_mine(&self) -> bool {
        self.memory.owner() == runtime::area::number() || self.files.owner() == runtime::area::number()
    }

    /// What replaced operations keep for themselves in this process: a `T` of its own, which begins as the default.
    /// Fork copies it, `execve` leaves it.
    pub fn with_extension<T: Any + Default + Send, R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        let mut extensions = self.extensions.lock();
        let own = extensions.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        action(own.downcast_mut().expect("what stands under a type is of this type"))
    }

    /// An option that the host gave.
    pub fn has_option(&self, option: u32) -> bool {
        self.options.load(Relaxed) & option != 0
    }
}

/// Options of the host, as bits.
pub mod option {
    /// Count unknown calls and tell at the end.
    pub const SYSCALL_SUMMARY: u32 = 1;
    /// Tell of files that were not there.
    pub const MISSING_FILES: u32 = 2;
    /// The standard descriptors are a terminal.
    pub const TERMINAL: u32 = 4;
    /// Tell of each call.
    pub const TRACE_CALLS: u32 = 8;
    /// Send what the process cost to the host at its end.
    pub const STATS: u32 = 16;
    /// Log registers, mappings and the stack of a process that a fault ends.
    pub const CRASH: u32 = 32;
}
