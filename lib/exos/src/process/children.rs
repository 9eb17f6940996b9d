//! The children of a process: what it keeps of each until it was waited for.

use super::create::Made;
use super::status::{DESTROYED, Status};
use crate::user_memory::shared::Shared;
use abi::area::{PUBLIC_LIBRARY, PUBLIC_STATUS};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use runtime::KeyIndex;

/// Word of the public page that tells how the process ended; see [`Status::to_word`].
pub const STATUS_WORD: usize = (PUBLIC_STATUS / 8) as usize + 1;
/// Words of the library's half of the public page: what anybody may know of a process.
pub mod public {
    use super::PUBLIC_LIBRARY;
    /// Index in the page of the first of them.
    pub const BASE: usize = (PUBLIC_LIBRARY / 8) as usize;
    /// Marks the page of a process of ExOS.
    pub const MAGIC: usize = BASE;
    /// Number of the parent.
    pub const PARENT: usize = BASE + 1;
    /// Process group.
    pub const GROUP: usize = BASE + 2;
    /// Session.
    pub const SESSION: usize = BASE + 3;
    /// Page of the mailbox.
    pub const MAILBOX: usize = BASE + 4;
    /// Short name of the program, 16 bytes.
    pub const NAME: usize = BASE + 5;
    /// Value of [`MAGIC`].
    pub const MAGIC_VALUE: u64 = 0x736f_7845_6e69_7468;
}

/// A child.
#[derive(Clone, Debug)]
pub struct Child {
    /// Its environment.
    pub made: Made,
    /// Its public page, mapped here.
    pub public: Shared,
    /// Signal that tells of its end.
    pub exit_signal: u32,
}

/// All children that were not waited for.
#[derive(Clone, Debug, Default)]
pub struct Children {
    /// In the order of their making.
    pub all: Vec<Child>,
}

impl Child {
    /// Its number.
    pub const fn number(&self) -> u64 {
        self.made.number.0
    }

    /// Its process group, as it says.
    pub fn group(&self) -> u64 {
        self.public.words()[public::GROUP].load(Acquire)
    }

    /// How it ended, if it did.
    pub fn status(&self) -> Option<Status> {
        let said = Status::from_word(self.public.words()[STATUS_WORD].load(Acquire));
        let by_runtime = self.public.words()[(PUBLIC_STATUS / 8) as usize].load(Acquire);
        match said {
            Some(status) if self.made.is_over() => Some(status),
            None if self.made.is_over() && by_runtime != 0 => Some(Status::Exited((by_runtime - 1) as u8)),
            None if self.made.is_over() => Some(DESTROYED),
            _ => None,
        }
    }

    /// Takes back what it was made of.
    pub fn bury(&self, session: KeyIndex) {
        crate::user_memory::current::process().windows.lock().close(&self.public);
        self.made.bury(session);
        crate::budget::give_back();
    }
}
