//! Objects made of donated pages: one call, by kind.

use crate::kernel::{Kernel, Outcome, refuse};
use abi::page::PageKind;
use abi::{Error, KeyIndex, PageNumber, UserAddress};
use machine::page_table::ROOT_LEVEL;

impl Kernel {
    /// Makes a page an object of another kind (see `abi::syscall`).
    pub(crate) fn become_object(&mut self, key: KeyIndex, page: PageNumber, kind: u64, argument: u64) -> Outcome<()> {
        self.key(key)?;
        let kind = u8::try_from(kind).map_or(PageKind::Absent, PageKind::from_number);
        match kind {
            PageKind::AccessList => self.create_access_list(key, page, KeyIndex(argument)),
            PageKind::PageTable if argument == u64::from(ROOT_LEVEL) => self.create_address_space(key, page),
            PageKind::Region if argument == 0 => self.create_regions(key, page),
            PageKind::PacketRing => self.create_ring(key, page, UserAddress(argument)),
            PageKind::PageTable | PageKind::Region => refuse(Error::BadArgument, 3),
            _ => refuse(Error::BadArgument, 2),
        }
    }
}
