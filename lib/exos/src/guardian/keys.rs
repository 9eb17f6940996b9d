//! Users as names on the key ring (DESIGN.md §5: uids are capability names; xok-exos-sosp97 §5.1).
//!
//! The session's name is followed by [`USERS`] and the number of a user: who holds the key of that name reaches what is
//! that user's, who holds the session's key, as user 0 does, reaches all. Here is the one place where processes' rings
//! change after they began: a process that stops being a user loses the key, in every thread of it at once, whatever its
//! library does.
//!
//! Holds always: a user stands on the lists of what the whole session shares before any process holds its key, and a
//! process's own list names the user whose key the process holds.

use super::service::OWN_KEY;
use crate::errno::{Errno, Result};
use crate::process::create::SESSION_SLOT;
use abi::capability::Rights;
use abi::limits::ACCESS_LIST_ENTRIES;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use runtime::area::Area;
use runtime::page::Allocator;
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed, key, syscall};

/// Component behind the session's name, above those of the users.
const USERS: u64 = 1;
/// Entry of a process's own list for the user whose key it holds, where that is not the one that made it.
const USER_ENTRY: u64 = 2;
/// First entry for users of the lists that the whole session shares.
const FIRST_USER_ENTRY: u64 = 3;
const READ_WRITE: Rights = Rights::READ.either(Rights::WRITE);

/// Lists for what belongs to one user.
#[derive(Clone, Copy, Debug)]
pub struct Lists {
    /// For windows to the guardian, and what processes of this user share with relatives of other users: the user may
    /// read and write it.
    pub window: PageNumber,
    /// For public pages and mailboxes: the user may do everything, and all others of the session may read.
    pub public: PageNumber,
}

/// The users that the guardian knows.
#[derive(Debug)]
pub struct Keys {
    /// Lists of what the whole session shares, with what each user may do there.
    shared: [(PageNumber, Rights); 2],
    /// The lists of each user, and its entry in the lists of all others.
    users: BTreeMap<u32, (Lists, u64)>,
}

impl Lists {
    /// Lists for a user whose key this is, below or like the session's in `session`. The guardian, whose key is the third,
    /// may do everything.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn make([session, user, guardian]: [KeyIndex; 3]) -> Result<Self> {
        let list = |entries: &[(KeyIndex, Rights)]| {
            let list = Allocator::own().allocate()?;
            syscall::access_list_create(KeyIndex::FIRST, list, session)?;
            for (entry, (key, rights)) in (1..).zip(entries) {
                syscall::access_list_set(session, list, entry, *key, u64::from(rights.0))?;
            }
            Result::Ok(list)
        };
        let guardian = (guardian, Rights::ALL);
        let window = list(&[guardian, (user, READ_WRITE)])?;
        let public = list(&[guardian, (user, Rights::ALL)])?;
        Ok(Self { window, public })
    }
}

impl Keys {
    /// Those of a session whose pages to read, and to read and write, are under these lists, and which has user 0 only.
    pub fn new([readable, writable]: [PageNumber; 2], zero: Lists) -> Self {
        Self { shared: [(readable, Rights::READ), (writable, READ_WRITE)], users: BTreeMap::from([(0, (zero, 0))]) }
    }

    /// Lists for a user, who may use what the session shares from now on.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many users, or no pages for the lists.
    pub fn admit(&mut self, user: u32) -> Result<Lists> {
        if let Some(known) = self.users.get(&user) {
            return Ok(known.0);
        }
        let entry = FIRST_USER_ENTRY + self.users.len() as u64;
        if entry >= ACCESS_LIST_ENTRIES as u64 {
            return Err(Errno::EAGAIN);
        }
        let readable = self.users.values().map(|(lists, _)| (lists.public, Rights::READ));
        let shared: Vec<(PageNumber, Rights)> = self.shared.into_iter().chain(readable).collect();
        let lists = with_key_of(user, |key| {
            let lists = Lists::make([SESSION_SLOT, key, OWN_KEY])?;
            for (list, rights) in shared {
                syscall::access_list_set(OWN_KEY, list, entry, key, u64::from(rights.0))?;
            }
            Ok(lists)
        })?;
        for (other, (_, entry)) in self.users.iter().filter(|(other, _)| **other != 0) {
            let may_read =
                |key| syscall::access_list_set(OWN_KEY, lists.public, *entry, key, u64::from(Rights::READ.0));
            with_key_of(*other, |key| Ok(may_read(key)?))?;
        }
        self.users.insert(user, (lists, entry));
        Ok(lists)
    }

    /// Where the windows of clients come from that hold the key of a user.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn windows(&mut self, user: u32) -> Result<Allocator> {
        Ok(Allocator { list: self.admit(user)?.window, ..ANY_WINDOW })
    }

    /// Takes the key that each of these environments has for its session or its user, and gives them the one of `user`;
    /// the first of them is a process, whose own list is to name the user.
    ///
    /// # Errors
    /// As [`Self::admit`]; then nothing has changed.
    pub fn give(&mut self, user: u32, environments: &[EnvironmentId]) -> Result<()> {
        self.admit(user)?;
        let own = environments.first().and_then(|process| own_list(*process)).ok_or(Errno::ESRCH)?;
        with_key_of(user, |key| {
            syscall::access_list_set(SESSION_SLOT, own, USER_ENTRY, key, u64::from(Rights::ALL.0))?;
            for environment in environments {
                // Who is just dying keeps what it has.
                let _ = syscall::key_drop(*environment, SESSION_SLOT, SESSION_SLOT);
                let _ = syscall::key_copy(key, u64::from(Rights::ALL.0), *environment, SESSION_SLOT, SESSION_SLOT);
            }
            Ok(())
        })
    }
}

/// Opens and frees windows under any list.
pub const ANY_WINDOW: Allocator = Allocator { key: OWN_KEY, list: PageNumber::NONE };

/// The guardian's own ring holds the session's key where those of processes do.
pub fn begin() {
    Area::current().library().keys.fetch_or(1 << SESSION_SLOT.0, SeqCst);
}

/// The access list that a process's own pages are under: that of its page-table root.
fn own_list(process: EnvironmentId) -> Option<PageNumber> {
    let root = PageNumber(exposed::environment(process)?.root.load(Acquire));
    Some(exposed::page(root)?.access())
}

/// Does something with the key of a user; that of user 0 is the session's.
fn with_key_of<T>(user: u32, action: impl FnOnce(KeyIndex) -> Result<T>) -> Result<T> {
    if user == 0 {
        return action(SESSION_SLOT);
    }
    let users = key::derive(SESSION_SLOT, Rights::ALL, USERS)?;
    let outcome = key::derive(users, Rights::ALL, u64::from(user)).map_err(Errno::from).and_then(|key| {
        let outcome = action(key);
        let _ = key::discard(key);
        outcome
    });
    let _ = key::discard(users);
    outcome
}
