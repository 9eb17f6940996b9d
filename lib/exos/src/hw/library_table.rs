//! The tables of libraries in the server's address space (`server::library_tables`): no object lies where they are.

use crate::address_map::PAGE_SIZE;
use abi::page_table::MapRow;
use alloc::vec::Vec;
use runtime::address_space::{self, AddressSpace};
use runtime::page::Allocator;
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, syscall};

/// The server's key.
const KEY: KeyIndex = KeyIndex::FIRST;

/// Makes a table of a page that comes from `pages`, with these entries by their indices, and links it twice, each where nothing is.
///
/// # Errors
/// The kernel's refusals: nothing is there then.
pub fn build(pages: Allocator, [first, second]: [u64; 2], entries: &[(u64, u64)]) -> Result<PageNumber, Failure> {
    let space = AddressSpace { key: KEY, tables: Allocator::own(), ..address_space::own() };
    space.link_tables(first, true)?;
    space.link_tables(second, true)?;
    let page = pages.allocate()?;
    let row = |(index, entry): &(u64, u64)| MapRow { address: first + index * PAGE_SIZE | KEY.0, entry: *entry };
    let outcome = link(first, page).and_then(|()| {
        let rows: Vec<MapRow> = entries.iter().map(row).collect();
        // SAFETY: the layout keeps these addresses for such tables: no object lies there.
        unsafe { space.edit(&rows) }?;
        link(second, page)
    });
    outcome.map(|()| page).inspect_err(|_| {
        unlink(first);
        let _ = pages.free(page);
    })
}

fn link(address: u64, table: PageNumber) -> Result<(), Failure> {
    let root = address_space::own().root;
    // SAFETY: as in `build`.
    unsafe { syscall::page_table_link(KEY, root, UserAddress(address), 1, table, KEY) }
}

/// Takes a link out, if there is one.
pub fn unlink(address: u64) {
    let root = address_space::own().root;
    loop {
        // SAFETY: as in `build`.
        match unsafe { syscall::page_table_unlink(KEY, root, UserAddress(address), 1) } {
            Err(Failure { error: Error::Again, .. }) => {}
            _ => return,
        }
    }
}
