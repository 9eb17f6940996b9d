//! Users as names on the key ring (DESIGN.md §5: uids are capability names; xok-exos-sosp97 §5.1).
//!
//! The session's name is followed by `USERS` and the number of a user, or by `ISOLATED` and that of processes which
//! a program has set apart from their user (`process::credentials`). Both are principals here. A holder of the key of
//! that name reaches the pages of that principal; a holder of the session's key, such as user 0, reaches all. Only here
//! do processes' rings change after they began: a process that stops being a user loses the key, in every thread of it
//! at once, whatever its library does.
//!
//! Invariant: a user stands on the lists of what the whole session shares before any process holds its key. A process's
//! own list names the user whose key the process holds.

use super::main_loop::OWN_KEY;
use super::pages::page_acl::{Access, PageAcl, PageAcls};
use abi::capability::Rights;
use abi::limits::ACCESS_LIST_ENTRIES;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
pub use exos::hw::key_slots::with_key_of;
use exos::process::environment::{BORROWED_SLOT, SESSION_SLOT};
use linux_abi::errno::{Errno, Result};
use runtime::area::Area;
use runtime::page::{self, Allocator};
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed, syscall};
use unix_core::process::credentials::FIRST_APART;

/// Entry of a process's own list for the user whose key it holds, where that is not the one that made it.
const USER_ENTRY: u64 = 2;
/// Entry for the principal that the processes of another one came from, in a list of what both share.
const ORIGIN_ENTRY: u64 = 3;
/// First entry for principals of a list of what several share: the first one is the server's.
pub(super) const FIRST_SHARER_ENTRY: u64 = 1;
/// First entry for principals of the lists that the whole session shares.
const FIRST_USER_ENTRY: u64 = 3;
pub(super) const READ_WRITE: Rights = Rights::READ.either(Rights::WRITE);

/// Lists for what belongs to one user.
#[derive(Clone, Copy, Debug)]
pub struct Lists {
    /// For windows to the server, and what processes of this user share with relatives of other users: the user may
    /// read and write it.
    pub window: PageNumber,
    /// For public pages and mailboxes: the user may do everything, and all others of the session may read.
    pub public: PageNumber,
    /// For what its processes share with those that they came from: the same as `window` for a user.
    pub common: PageNumber,
}

/// A principal that the server knows.
#[derive(Debug)]
struct Known {
    lists: Lists,
    /// Its entry in the lists of all others.
    entry: u64,
}

/// The users that the server knows.
#[derive(Debug)]
pub struct Principals {
    /// Lists of what the whole session shares, with what each user may do there.
    shared: [(PageNumber, Rights); 2],
    /// The principals; 0 stands for the session.
    principals: BTreeMap<u64, Known>,
    /// Lists of what several principals share.
    pub(super) acls: PageAcls,
    /// Lists of principals that are gone, while pages are under them.
    left: Vec<PageNumber>,
}

impl Lists {
    /// Lists for a user whose key this is, below or like the session's in `init`. The server, whose key is the third,
    /// may do everything.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn make([session, user, server]: [KeyIndex; 3]) -> Result<Self> {
        let list = |entries: &[(KeyIndex, Rights)]| {
            let list = Allocator::own().allocate()?;
            page::become_list(KeyIndex::FIRST, list, session)?;
            for (entry, (key, rights)) in (1..).zip(entries) {
                syscall::access_list_set(session, list, entry, *key, u64::from(rights.0))?;
            }
            Result::Ok(list)
        };
        let server = (server, Rights::ALL);
        let window = list(&[server, (user, READ_WRITE)])?;
        let public = list(&[server, (user, Rights::ALL)])?;
        Ok(Self { window, public, common: window })
    }
}

impl Principals {
    /// The principals of a session that has only user 0. The session's readable and writable pages are under the first
    /// two lists, and pages for user 0 alone under the third.
    pub fn new([readable, writable, of_zero]: [PageNumber; 3], zero: Lists) -> Self {
        let shared = [(readable, Rights::READ), (writable, READ_WRITE)];
        Self {
            shared,
            principals: BTreeMap::from([(0, Known { lists: zero, entry: 0 })]),
            acls: PageAcls::new(of_zero, readable),
            left: Vec::new(),
        }
    }

    /// Lists for a principal, who may use what the session shares from now on. `origin` is who else reaches what its
    /// processes have from those that they came from.
    ///
    /// # Errors
    /// `EAGAIN` where there are too many principals, or no pages for the lists.
    pub fn admit(&mut self, principal: u64, origin: Option<u64>) -> Result<Lists> {
        if let Some(known) = self.principals.get(&principal) {
            return Ok(known.lists);
        }
        let is_free = |entry: &u64| self.principals.values().all(|known| known.entry != *entry);
        let entry = (FIRST_USER_ENTRY..ACCESS_LIST_ENTRIES as u64).find(is_free).ok_or(Errno::EAGAIN)?;
        let readable = self.principals.values().map(|known| (known.lists.public, Rights::READ));
        let shared: Vec<(PageNumber, Rights)> = self.shared.into_iter().chain(readable).collect();
        let mut lists = with_key_of(SESSION_SLOT, principal, |key| {
            let lists = Lists::make([SESSION_SLOT, key, OWN_KEY])?;
            for (list, rights) in shared {
                syscall::access_list_set(OWN_KEY, list, entry, key, u64::from(rights.0))?;
            }
            Ok(lists)
        })?;
        if let Some(origin) = origin {
            lists.common =
                with_key_of(SESSION_SLOT, principal, |key| Ok(Lists::make([SESSION_SLOT, key, OWN_KEY])?.window))?;
            let both =
                |key| syscall::access_list_set(OWN_KEY, lists.common, ORIGIN_ENTRY, key, u64::from(READ_WRITE.0));
            with_key_of(SESSION_SLOT, origin, |key| Ok(both(key)?))?;
        }
        for (other, known) in self.principals.iter().filter(|(other, _)| **other != 0) {
            let may_read =
                |key| syscall::access_list_set(OWN_KEY, lists.public, known.entry, key, u64::from(Rights::READ.0));
            with_key_of(SESSION_SLOT, *other, |key| Ok(may_read(key)?))?;
        }
        self.principals.insert(principal, Known { lists, entry });
        Ok(lists)
    }

    /// The list for pages that a principal shares with those that use them now: its own, where only user 0 does.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn admit_beside(&mut self, principal: u64, under: PageNumber) -> Result<PageNumber> {
        let own = self.admit(principal, None)?.common;
        let mut audience: PageAcl = self.sharers(under).map(|sharer| (sharer, Access::Write)).collect();
        if audience.keys().all(|sharer| *sharer == principal) {
            return Ok(own);
        }
        audience.extend([(principal, Access::Write), (0, Access::Own)]);
        self.acls.list_for(audience)
    }

    /// The list for pages that a principal leaves to those who shared them until now: they are under the other list.
    ///
    /// # Errors
    /// As [`PageAcls::list_for`].
    pub(super) fn list_for_sharers(&mut self, principal: u64, under: PageNumber) -> Result<PageNumber> {
        let mut audience: PageAcl = self.sharers(under).map(|sharer| (sharer, Access::Own)).collect();
        audience.extend([(0, Access::Own), (principal, Access::Own)]);
        self.acls.list_for(audience)
    }

    /// Whether a list is one for heirs: what else of the server's is under a list for several, none of them owns.
    pub(super) fn is_for_heirs(&self, list: PageNumber) -> bool {
        self.acls.of(list).is_some_and(|audience| audience.values().all(|access| *access == Access::Own))
    }

    /// Whether one of two principals may use what is under a list for heirs.
    pub(super) fn may_use_bequest(&self, list: PageNumber, principals: [u64; 2]) -> bool {
        self.acls.of(list).is_some_and(|audience| principals.iter().any(|one| audience.contains_key(one)))
    }

    /// Whether all who may use what is under a list of one principal, or of several, may use what is under a list for
    /// heirs. No other list is known well enough.
    pub(super) fn may_all_use_bequest(&self, list: PageNumber, users_of: PageNumber) -> bool {
        let Some(audience) = self.acls.of(list) else { return false };
        let of_one = self.principals.iter().find(|(_, known)| known.lists.window == users_of);
        match (of_one, self.acls.of(users_of)) {
            (Some((principal, _)), _) => audience.contains_key(principal),
            (None, Some(users)) => users.keys().all(|user| audience.contains_key(user)),
            (None, None) => false,
        }
    }

    /// The principals that share pages under a list, in addition to user 0.
    pub(super) fn sharers(&self, list: PageNumber) -> impl Iterator<Item = u64> {
        let is_of = move |known: &Known| [known.lists.window, known.lists.common].contains(&list);
        let one = self.principals.iter().find(|(_, known)| is_of(known)).map(|(principal, _)| *principal);
        let several = self.acls.of(list).into_iter().flat_map(|audience| audience.keys().copied());
        one.into_iter().chain(several).filter(|principal| *principal != 0)
    }

    /// The principals.
    pub(super) fn principals(&self) -> impl Iterator<Item = u64> {
        self.principals.keys().copied()
    }

    /// Principals of their own whose processes are gone: their places are for others, who have other names.
    pub fn forget_unused(&mut self, is_used: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self
            .principals
            .keys()
            .copied()
            .filter(|principal| *principal >= FIRST_APART && !is_used(*principal))
            .collect();
        for principal in gone {
            let Some(Known { lists, .. }) = self.principals.remove(&principal) else { continue };
            self.left.extend([lists.window, lists.public, lists.common]);
        }
        let (free, still): (Vec<PageNumber>, Vec<PageNumber>) = self.left.iter().partition(|list| is_unused(**list));
        self.left = still;
        Allocator::own().free_many(&free);
    }

    /// Where the windows of clients come from that hold the key of a principal.
    ///
    /// # Errors
    /// As [`Self::admit`].
    pub fn windows(&mut self, principal: u64) -> Result<Allocator> {
        Ok(Allocator { list: self.admit(principal, None)?.window, ..ANY_WINDOW })
    }

    /// Takes the key that each of these environments has for its session or its principal, and gives them the one of
    /// `principal`; the first of them is a process, whose own list is to name it.
    ///
    /// # Errors
    /// As [`Self::admit`]; then nothing has changed.
    pub fn give(&mut self, principal: u64, environments: &[EnvironmentId]) -> Result<()> {
        self.admit(principal, None)?;
        let own = environments.first().and_then(|process| own_list(*process)).ok_or(Errno::ESRCH)?;
        with_key_of(SESSION_SLOT, principal, |key| {
            syscall::access_list_set(SESSION_SLOT, own, USER_ENTRY, key, u64::from(Rights::ALL.0))?;
            for environment in environments {
                // A process that is just dying keeps its keys.
                let _ = syscall::key_drop(*environment, SESSION_SLOT, SESSION_SLOT);
                if principal < FIRST_APART {
                    let _ = syscall::key_drop(*environment, BORROWED_SLOT, SESSION_SLOT);
                }
                let _ = syscall::key_copy(key, u64::from(Rights::ALL.0), *environment, SESSION_SLOT, SESSION_SLOT);
            }
            Ok(())
        })
    }
}

/// Whether no page is under a list.
pub(super) fn is_unused(list: PageNumber) -> bool {
    exposed::page(list).is_none_or(|info| info.links() == 0)
}

/// Opens and frees windows under any list.
pub const ANY_WINDOW: Allocator = Allocator { key: OWN_KEY, list: PageNumber::NONE };

/// The server's own ring holds the session's key where those of processes do.
pub fn begin() {
    Area::current().library().keys.fetch_or(1 << SESSION_SLOT.0, SeqCst);
}

/// The access list that a process's own pages are under: that of its page-table root.
pub(super) fn own_list(process: EnvironmentId) -> Option<PageNumber> {
    let root = PageNumber(exposed::environment(process)?.root.load(Acquire));
    Some(exposed::page(root)?.access())
}
