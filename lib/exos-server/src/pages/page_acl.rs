//! Access control of the pages that the server keeps for others: those of files, of FIFOs and of pseudo-terminals.
//!
//! The kernel lets a principal on a page's access list map it, and knows nothing of files. So each page lies under a
//! list of those who were told its number, because they held what it belongs to: its audience. Pages of one audience
//! have one list. Pages of a world-readable file that every user finds move to one list of all principals, once a user
//! other than user 0 was told of them.
//!
//! Invariants: a page comes into a file under the list that only user 0 reads; a principal is put on the list before
//! its client is told the number. Where fewer may read a file than before, its pages stay open to who holds it, or may
//! still read it.

use crate::dispatch::{Client, FileServer};
use crate::main_loop::OWN_KEY;
use crate::principals::{FIRST_SHARER_ENTRY, READ_WRITE, with_key_of};
use abi::capability::Rights;
use abi::limits::ACCESS_LIST_ENTRIES;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use exos::process::environment::SESSION_SLOT;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::page::{self, Allocator};
use runtime::{EnvironmentId, KeyIndex, PageNumber, exposed, syscall};
use vfs::handle::{Handle, node_of, right};
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::access;

/// Principals in ascending order, user 0 first, and what each may do. In addition, the server may do everything.
pub(crate) type PageAcl = BTreeMap<u64, Access>;

/// What a principal may do with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
    /// Everything: the maker of a page may put it there.
    Own,
}

impl Access {
    const fn rights(self) -> Rights {
        match self {
            Self::Read => Rights::READ,
            Self::Write => READ_WRITE,
            Self::Own => Rights::ALL,
        }
    }
}

/// The lists of the audiences that there are.
#[derive(Debug)]
pub(crate) struct PageAcls {
    /// That of what only user 0 reads.
    of_zero: PageNumber,
    /// That of what everybody reads.
    of_all: PageNumber,
    lists: BTreeMap<u64, PageAcl>,
    /// Files whose pages others than user 0 were told of.
    told: BTreeSet<NodeId>,
}

impl PageAcls {
    /// None but these two.
    pub(crate) fn new(of_zero: PageNumber, of_all: PageNumber) -> Self {
        let lists = BTreeMap::from([(of_zero.0, PageAcl::from([(0, Access::Read)]))]);
        Self { of_zero, of_all, lists, told: BTreeSet::new() }
    }

    /// Where pages come from that only user 0 reads.
    pub(crate) const fn for_zero(&self) -> Allocator {
        Allocator { key: OWN_KEY, list: self.of_zero }
    }

    /// The principals that may use pages under a list, if that is one for several.
    pub(crate) fn of(&self, list: PageNumber) -> Option<&PageAcl> {
        self.lists.get(&list.0)
    }

    /// The list for an audience.
    ///
    /// # Errors
    /// `EAGAIN` where it is too large, or there is no page for a list.
    pub(crate) fn list_for(&mut self, audience: PageAcl) -> Result<PageNumber> {
        if let Some((list, _)) = self.lists.iter().find(|(_, known)| **known == audience) {
            return Ok(PageNumber(*list));
        }
        let of_zero = self.of_zero.0;
        self.forget(|list| list.0 != of_zero && crate::principals::is_unused(list));
        if audience.len() > ACCESS_LIST_ENTRIES - FIRST_SHARER_ENTRY as usize {
            return Err(Errno::EAGAIN);
        }
        let list = Allocator::own().allocate()?;
        name_all(list, &audience).inspect_err(|_| _ = Allocator::own().free(list))?;
        self.lists.insert(list.0, audience);
        Ok(list)
    }

    /// Gives up lists.
    fn forget(&mut self, is_gone: impl Fn(PageNumber) -> bool) {
        let gone: Vec<PageNumber> = self.lists.keys().copied().map(PageNumber).filter(|list| is_gone(*list)).collect();
        gone.iter().for_each(|list| drop(self.lists.remove(&list.0)));
        Allocator::own().free_many(&gone);
    }

    /// Whether a principal may do that with what is under a list.
    fn allows(&self, list: PageNumber, principal: u64, access: Access) -> bool {
        let may = self.lists.get(&list.0).and_then(|audience| audience.get(&principal));
        may.is_some_and(|may| *may >= access) || list == self.of_all && access == Access::Read
    }
}

/// Makes a page the list of an audience.
fn name_all(list: PageNumber, audience: &PageAcl) -> Result<()> {
    page::become_list(KeyIndex::FIRST, list, OWN_KEY)?;
    (FIRST_SHARER_ENTRY..).zip(audience).try_for_each(|(entry, (principal, access))| {
        let rights = u64::from(access.rights().0);
        with_key_of(SESSION_SLOT, *principal, |key| Ok(syscall::access_list_set(OWN_KEY, list, entry, key, rights)?))
    })
}

/// The list that a page is under.
fn list_of(page: u64) -> PageNumber {
    exposed::page(PageNumber(page)).map_or(PageNumber::NONE, |info| info.access())
}

pub(crate) fn put_under(page: u64, list: PageNumber) -> Result<()> {
    Ok(syscall::page_claim(OWN_KEY, PageNumber(page), OWN_KEY, list)?)
}

impl FileServer {
    pub(crate) fn principal_of(&self, caller: u64) -> u64 {
        self.clients.get(&caller).map_or(0, |client| client.credentials.principal())
    }

    /// Whether a client may not open whatever user 0 opens.
    pub(crate) fn is_other_than_zero(&self, caller: u64) -> bool {
        self.principal_of(caller) != 0
    }

    /// Where pages come from that user 0 and a client are to read and write.
    ///
    /// # Errors
    /// As [`PageAcls::list_for`].
    pub(crate) fn pages_for(&mut self, caller: u64) -> Result<Allocator> {
        let audience = [0, self.principal_of(caller)].map(|principal| (principal, Access::Write));
        let list = self.keys.acls.list_for(PageAcl::from(audience))?;
        Ok(Allocator { key: OWN_KEY, list })
    }

    /// Sees to it that a client may open pages of a file whose numbers it is going to be told; 0 stands for none.
    ///
    /// # Errors
    /// As [`PageAcls::list_for`].
    #[inline]
    pub(crate) fn tell(&mut self, caller: u64, id: NodeId, pages: &[u64], access: Access) -> Result<()> {
        match self.principal_of(caller) {
            0 if access == Access::Read => Ok(()),
            principal => self.tell_of_file(principal, id, pages, access),
        }
    }

    #[cold]
    fn tell_of_file(&mut self, principal: u64, id: NodeId, pages: &[u64], access: Access) -> Result<()> {
        let is_for_all = access == Access::Read && self.is_for_all(id);
        let (of_zero, of_all) = (self.keys.acls.of_zero, self.keys.acls.of_all);
        for page in pages.iter().copied().filter(|page| *page != 0) {
            if is_for_all && list_of(page) == of_zero {
                put_under(page, of_all)?;
            }
            self.open_to(principal, page, access)?;
        }
        if principal != 0 {
            self.keys.acls.told.insert(id);
        }
        Ok(())
    }

    /// Ensures that a principal may use a page, in addition to those that may already.
    pub(crate) fn open_to(&mut self, principal: u64, page: u64, access: Access) -> Result<()> {
        let under = list_of(page);
        if self.keys.acls.allows(under, principal, access) {
            return Ok(());
        }
        let mut audience = self.audience_of(under);
        // A principal without processes needs no place any more.
        audience
            .retain(|known, _| *known == 0 || self.clients.values().any(|one| one.credentials.principal() == *known));
        let may = audience.entry(principal).or_insert(access);
        *may = access.max(*may);
        put_under(page, self.keys.acls.list_for(audience)?)
    }

    /// The principals that may use pages under one of the server's lists.
    fn audience_of(&self, list: PageNumber) -> PageAcl {
        match self.keys.acls.of(list) {
            Some(audience) => audience.clone(),
            None => self.keys.principals().map(|principal| (principal, Access::Read)).collect(),
        }
    }

    /// Sees to it that a client may open the pages of a FIFO or of a pseudo-terminal that it is told of.
    ///
    /// # Errors
    /// As [`PageAcls::list_for`].
    pub(crate) fn tell_of_stream(&mut self, caller: u64, pages: &[PageNumber]) -> Result<()> {
        let principal = self.principal_of(caller);
        pages.iter().try_for_each(|page| self.open_to(principal, page.0, Access::Write))
    }

    /// What a client has open in windows, its children are to have too, whose principal is going to be another one.
    ///
    /// # Errors
    /// As [`PageAcls::list_for`].
    pub(crate) fn tell_of_held(&mut self, caller: u64, principal: u64) -> Result<()> {
        let held = self.clients.get(&caller).into_iter().flat_map(|client| client.holds.keys());
        let streams = held.filter_map(|word| {
            let node = node_of(*word);
            self.fifos.get(&node).map(|pages| &**pages).or_else(|| self.pages_of_terminal(node))
        });
        let pages: Vec<PageNumber> = streams.flatten().copied().collect();
        pages.iter().try_for_each(|page| self.open_to(principal, page.0, Access::Write))?;
        self.open_internet_sockets_to(caller, principal)?;
        // The pages of files, which it asks for anew.
        self.tell_of_cut();
        Ok(())
    }

    /// Whether everybody finds a file, and may read it.
    fn is_for_all(&self, id: NodeId) -> bool {
        let may_all = self.tree.node(id).is_ok_and(|node| node.is_file() && node.mode & linux::S_IROTH != 0);
        may_all && self.tree.is_found_by_all(Location::first(id)).unwrap_or(false)
    }

    /// Takes files back from whom they were told to, as far as what changed says that fewer may read them.
    pub(crate) fn revoke_where_narrowed(&mut self) {
        let told = &self.keys.acls.told;
        if told.is_empty() {
            return;
        }
        let changed: Vec<NodeId> = match self.tree.changes.nodes() {
            Some(nodes) => nodes.iter().copied().filter(|id| told.contains(id)).collect(),
            None => told.iter().copied().collect(),
        };
        for id in changed {
            if self.tree.node(id).is_err() {
                self.keys.acls.told.remove(&id);
            } else if !self.is_for_all(id) {
                self.revoke(id);
            }
        }
    }

    fn revoke(&mut self, id: NodeId) {
        let of_zero = self.keys.acls.of_zero;
        let pages: Vec<u64> = self.tree.pages_of(id).filter(|page| list_of(*page) != of_zero).collect();
        // Mostly all are under one list.
        let (mut last, mut is_other) = ((of_zero, of_zero), false);
        for page in pages {
            let under = list_of(page);
            if under != last.0 {
                last = (under, self.list_of_who_stays(id, under));
            }
            is_other |= under != last.1 && put_under(page, last.1).is_ok();
        }
        if is_other {
            self.tell_of_cut();
        }
    }

    /// The list for those who may go on using pages of a file that are under a list now.
    fn list_of_who_stays(&mut self, id: NodeId, under: PageNumber) -> PageNumber {
        let mut audience = self.audience_of(under);
        let was_for_all = under == self.keys.acls.of_all;
        audience.retain(|principal, _| *principal == 0 || self.may_go_on(*principal, id, was_for_all));
        self.keys.acls.list_for(audience).unwrap_or(self.keys.acls.of_zero)
    }

    /// Whether a client of a principal holds a file. Where its pages were not open to all, a right to read it counts,
    /// too.
    fn may_go_on(&self, principal: u64, id: NodeId, was_for_all: bool) -> bool {
        let is_of_it = |(number, client): &(&u64, &Client)| {
            client.credentials.principal() == principal && exposed::lives(EnvironmentId(**number))
        };
        let opened = |word: &u64| Handle::from_word(*word).rights & (right::READ | right::WRITE) != 0;
        let holds = |client: &Client| client.holds.keys().any(|word| node_of(*word) == id && opened(word));
        let may_read = |client: &Client| {
            let node = self.tree.node(id);
            node.is_ok_and(|node| {
                node.permits(client.credentials.acting_on_files(), &client.credentials.groups, access::READ)
            })
        };
        let mut all = self.clients.iter().filter(is_of_it);
        all.any(|(_, client)| holds(client) || !was_for_all && may_read(client))
    }
}
