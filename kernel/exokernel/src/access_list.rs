//! Access lists: who may do what with the pages that name them (DESIGN.md §4, "Page").
//!
//! A list is a small object in a donated page. It is named by any number of pages, so that giving a relative access to
//! all of them is one entry. A list governs itself: an environment that may own what it names may change it.

use crate::cost;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::key::{permit, rights_from};
use abi::capability::{Capability, Rights};
use abi::limits::ACCESS_LIST_ENTRIES;
use abi::page::PageKind;
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use machine::memory;

/// The entries; an empty one has no rights. All from `used` on are empty.
#[derive(Clone, Debug)]
pub(crate) struct AccessList {
    entries: [Capability; ACCESS_LIST_ENTRIES],
    used: usize,
}

impl AccessList {
    /// A list with one entry.
    pub(crate) fn of(entry: Capability) -> Self {
        let mut entries = [capability::empty(); ACCESS_LIST_ENTRIES];
        entries[0] = entry;
        Self { entries, used: 1 }
    }

    /// The entries up to the last that is not empty.
    fn used(&self) -> &[Capability] {
        &self.entries[..self.used]
    }

    fn set(&mut self, index: usize, entry: Capability) {
        self.entries[index] = entry;
        self.used = self.used.max(index + 1);
        while self.used().last().is_some_and(capability::is_empty) {
            self.used -= 1;
        }
    }
}

impl Kernel {
    /// What a key of the caller's may do with what a list names.
    #[inline(always)]
    pub(crate) fn rights_on_list(&self, key: KeyIndex, list: PageNumber) -> Result<Rights, Failure> {
        match self.remembered(self.last_rights_of(key, list), key, list) {
            Some(rights) => Ok(rights),
            None => self.find_rights_on_list(key, list),
        }
    }

    #[inline(never)]
    fn find_rights_on_list(&self, key: KeyIndex, list: PageNumber) -> Result<Rights, Failure> {
        let key_index = key;
        let key = self.key(key)?;
        let Some(entries) = self.memory.get::<AccessList>(list) else {
            let Some(info) = memory::info(list) else { return Err(Error::NoSuchPage.about(list.0)) };
            return Err(Error::WrongKind.about(memory::state(info).kind as u64));
        };
        let entries = entries.used();
        self.spend(1 + entries.len() as u32 / cost::LIST_ENTRIES_PER_UNIT);
        let rights = capability::rights_on(key, entries);
        self.remember(self.last_rights_of(key_index, list), key_index, list, rights);
        Ok(rights)
    }

    /// What a key of an environment may do with what a list names; nothing, if that is gone or has no such key.
    pub(crate) fn rights_of(&self, environment: EnvironmentId, key: KeyIndex, list: PageNumber) -> Rights {
        let holder = self.living(environment).ok();
        let key = holder.and_then(|holder| self.key_of(holder, key).ok());
        let (Some(key), Some(entries)) = (key, self.memory.get::<AccessList>(list)) else { return Rights::NONE };
        capability::rights_on(key, entries.used())
    }

    /// Makes a page an access list whose first entry is the name of `source`.
    pub(crate) fn create_access_list(&mut self, key: KeyIndex, page: PageNumber, source: KeyIndex) -> Outcome<()> {
        let entry = Capability { rights: Rights::ALL, ..*self.key(source)? };
        self.donatable(key, page)?;
        self.set_access_list(page, None);
        self.memory.create(page, PageKind::AccessList, AccessList::of(entry));
        self.set_access_list(page, Some(page));
        Ok(())
    }

    /// Sets an entry (see `abi::syscall`).
    pub(crate) fn set_access_list_entry(
        &mut self,
        key: KeyIndex,
        list: PageNumber,
        index: u64,
        source: KeyIndex,
        rights: u64,
    ) -> Outcome<()> {
        permit(self.rights_on_list(key, list)?, Rights::OWN)?;
        let rights = rights_from(rights, 4)?;
        let entry = match rights {
            Rights::NONE => capability::empty(),
            rights => Capability { rights, ..*self.key(source)? },
        };
        let entries = self.memory.get_mut::<AccessList>(list).expect("its rights were read");
        match usize::try_from(index) {
            Ok(index) if index < ACCESS_LIST_ENTRIES => entries.set(index, entry),
            _ => return refuse(Error::BadArgument, 2),
        }
        memory::note_edit(memory::info(list).expect("an access list has a record"));
        self.forget_list(list);
        Ok(())
    }
}
