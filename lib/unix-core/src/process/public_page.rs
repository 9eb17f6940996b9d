//! Layout of the public page of a process: the words by which relatives, the server and the session read it.
//!
//! The library's half of the page holds facts that every process may read and only the process and its maker write.

use abi::area::{PUBLIC_LIBRARY, PUBLIC_STATUS};
use core::ops::Range;

/// Word of the public page that tells how the process ended; see `exit_status::Status::to_word`.
pub const STATUS_WORD: usize = (PUBLIC_STATUS / 8) as usize + 1;
/// Index in the page of the first of them.
pub const BASE: usize = (PUBLIC_LIBRARY / 8) as usize;
/// Marks the page of a process of ExOS.
pub const MAGIC: usize = BASE;
/// Number of the parent.
pub const PARENT: usize = BASE + 1;
/// Number of the process that a thread belongs to; 0 in the page of a process's first thread.
pub const PROCESS: usize = BASE + 2;
/// Session.
pub const SESSION: usize = BASE + 3;
/// Page of the mailbox.
pub const MAILBOX: usize = BASE + 4;
/// Short name of the program, 16 bytes.
pub const NAME: usize = BASE + 5;
/// The last change that was no end: how many there were (32..64) and what it was (0..32), see `status::Change`.
pub const CHANGE: usize = BASE + 7;
/// Signal that it wants when its parent ends; 0: none.
pub const DEATH_SIGNAL: usize = BASE + 8;
/// Not 0 once the process needs nothing of its parent any more.
pub const BEGUN: usize = BASE + 9;
/// What it has used beyond what the kernel measures of its first thread, as `Rusage::to_words`, once it has ended.
pub const USAGE: usize = BASE + 10;
/// Its priority and policy: see `Attributes::to_word`.
pub const PRIORITY: usize = BASE + 16;
/// The environment that it stands in for, once it sees how that one will end; 0: none.
pub const STANDS_IN: usize = BASE + 17;
/// Not 0: the process is exiting, and a subreaper may adopt its children.
pub const GIVES_UP: usize = BASE + 19;
/// Real (0..32) and effective user.
pub const USER: usize = BASE + 20;
/// Real (0..32) and effective group.
pub const GROUP: usize = BASE + 21;
/// Addresses of pages that it wrote of those that it shared with its parent: see `Space::written`.
pub const WRITTEN: usize = BASE + 32;
/// How many of these.
pub const WRITTEN_WORDS: usize = vm::address_space::COPIED_AT_FORK;
/// Ranges of the pages of files that it touched: see `Space::touched`.
pub const TOUCHED: usize = WRITTEN + WRITTEN_WORDS;
/// How many of these.
pub const TOUCHED_WORDS: usize = vm::address_space::TOUCHED_AT_FORK;
/// When the process began, nanoseconds since boot.
pub const START: usize = BASE + 22;
/// Number of the terminal that controls it, as `stat` has it, and its first page; 0: there is none.
pub const TERMINAL: usize = BASE + 23;
/// Its threads.
pub const THREADS: usize = BASE + 25;
/// Signals that its first thread blocks.
pub const BLOCKED: usize = BASE + 26;
/// Signals that it ignores.
pub const IGNORED: usize = BASE + 27;
/// Signals that functions of its program handle.
pub const CAUGHT: usize = BASE + 28;
/// Not 0 once it has executed a program.
pub const EXECUTED: usize = BASE + 29;
/// The process that adopted it when its parent ended, written by the adopter; 0: none.
pub const ADOPTED: usize = BASE + 30;
/// Not 0: it adopts those below it whose parents end.
pub const REAPS: usize = BASE + 31;
/// Bytes of the arguments, then the arguments themselves.
pub const ARGUMENTS: usize = BASE + 128;
/// Bytes of arguments that there is room for.
pub const ARGUMENT_BYTES: usize = 120 * 8;
/// Address of the list of robust futexes of a thread; 0: none.
pub const ROBUST_LIST: usize = TOUCHED + TOUCHED_WORDS;
/// Words that describe a process unless they are 0. Among them are those in which the kernel and the runtime
/// record its end. All other words mean nothing as long as these are 0.
pub const TELLING: [Range<usize>; 3] = [0..STATUS_WORD + 1, BASE..ROBUST_LIST + 1, ARGUMENTS..ARGUMENTS + 1];
/// Value of [`MAGIC`].
pub const MAGIC_VALUE: u64 = 0x736f_7845_6e69_7468;
/// Value of [`MAGIC`] for an environment that is going to be a child of [`PARENT`].
pub const MAGIC_READY: u64 = 0x736f_7845_7964_6165;
