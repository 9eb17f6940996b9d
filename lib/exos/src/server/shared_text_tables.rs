//! The tables of libraries, which all processes link that map them in the same way (`memory::library`).
//!
//! A table has two links here, so that it is immutable: nobody can change what it maps, the server neither (DESIGN.md §4). Who may read
//! the file may link it: it lies under a list as the file's pages do (`audience`). Holds always: a table that is told maps the pages that the
//! file has, at the places that were asked for, to be read only; and one that does not any more is told to nobody.

use super::dispatch::{Answer, FileServer};
use super::page_acl::Access;
use crate::address_map::LIBRARY_TABLES;
use crate::errno::{Errno, Result};
use crate::hw::library_table;
use crate::vfs::inode::NodeId;
use crate::vm::shared_text::{PARTS, Part};
use crate::vm::table_scan::SPAN;
use abi::page_table::{NO_EXECUTE, PRESENT};
use alloc::vec::Vec;
use runtime::page::PageKind;
use runtime::{PageNumber, exposed};

/// Tables at most that are told, and as many that are not told any more and that somebody has.
const MOST: usize = 64;
/// Links of the server's.
const OWN_LINKS: u64 = 2;

/// A table.
#[derive(Debug)]
struct SharedTextTable {
    node: NodeId,
    parts: [u64; PARTS],
    /// The count of changes of the file's pages for which it is right.
    changes: u64,
    page: PageNumber,
    /// Which of the places it has.
    place: usize,
}

/// All of them.
#[derive(Debug, Default)]
pub struct SharedTextTables {
    known: Vec<SharedTextTable>,
    /// Files, and pages of their tables that are told to nobody any more, and that some process may still have.
    left: Vec<(NodeId, PageNumber)>,
}

impl SharedTextTables {
    /// The pages of all tables of a file that somebody may have been told of.
    pub(super) fn of(&self, node: NodeId) -> impl Iterator<Item = u64> {
        let known = self.known.iter().map(|table| (table.node, table.page));
        known.chain(self.left.iter().copied()).filter(move |(of, _)| *of == node).map(|(_, page)| page.0)
    }
}

impl SharedTextTable {
    fn is_for(&self, node: NodeId, parts: &[u64; PARTS]) -> bool {
        self.node == node && self.parts == *parts
    }

    /// How many processes have it.
    fn users(&self) -> u64 {
        exposed::page(self.page).map_or(0, |info| info.links()).saturating_sub(OWN_LINKS)
    }
}

/// Where the links of the table lie that has a place.
fn links(place: usize) -> [u64; OWN_LINKS as usize] {
    let first = LIBRARY_TABLES + place as u64 * OWN_LINKS * SPAN;
    [first, first + SPAN]
}

impl FileServer {
    /// See [`Request::SharedTextTable`](super::protocol::Request::SharedTextTable).
    pub(super) fn library_table(&mut self, caller: u64, node: NodeId, parts: [u64; PARTS]) -> Result<Answer> {
        let wanted = parts_of(&parts)?;
        // Its pages may all be in the archive yet.
        self.tree.page(node, wanted[0].index, false)?;
        let changes = self.tree.changes_of_pages(node).ok_or(Errno::EINVAL)?;
        let known = self.shared_text.known.iter().find(|table| table.is_for(node, &parts));
        let page = match known {
            Some(table) if table.changes == changes => table.page,
            _ => self.make_library_table(node, parts, &wanted)?,
        };
        self.tell(caller, node, &[page.0], Access::Read)?;
        Ok([page.0, 0, 0, 0, 0])
    }

    fn make_library_table(&mut self, node: NodeId, parts: [u64; PARTS], wanted: &[Part]) -> Result<PageNumber> {
        self.forget_libraries(|table| table.is_for(node, &parts));
        if self.shared_text.known.len() >= MOST {
            self.forget_libraries(|table| table.users() == 0);
        }
        let is_free = |place: &usize| self.shared_text.known.iter().all(|table| table.place != *place);
        let place = (0..MOST).find(is_free).filter(|_| self.shared_text.left.len() < MOST).ok_or(Errno::ENOSPC)?;
        let mut pages = Vec::new();
        for part in wanted {
            for index in 0..part.pages {
                // Past the end there is nothing.
                if let Some(page) = self.tree.page(node, part.index + index, false)? {
                    let execute = if part.executable { 0 } else { NO_EXECUTE };
                    pages.push((part.place + index, PageNumber(page).address() | PRESENT | execute));
                }
            }
        }
        let changes = self.tree.changes_of_pages(node).ok_or(Errno::EINVAL)?;
        let page = library_table::build(self.keys.acls.for_zero(), links(place), &pages).map_err(|_| Errno::ENOSPC)?;
        self.shared_text.known.push(SharedTextTable { node, parts, changes, page, place });
        Ok(page)
    }

    /// The tables of a file are not right any more.
    pub(super) fn forget_libraries_of(&mut self, node: NodeId) {
        if self.shared_text.known.iter().any(|table| table.node == node) {
            self.forget_libraries(|table| table.node == node);
        }
    }

    /// Files that are gone need no tables.
    pub(super) fn forget_libraries_that_are_gone(&mut self) {
        if self.shared_text.known.is_empty() || self.tree.changes.is_empty() {
            return;
        }
        let tree = &self.tree;
        let gone: Vec<NodeId> =
            self.shared_text.known.iter().map(|table| table.node).filter(|node| tree.node(*node).is_err()).collect();
        gone.into_iter().for_each(|node| self.forget_libraries_of(node));
    }

    fn forget_libraries(&mut self, is_gone: impl Fn(&SharedTextTable) -> bool) {
        let own = self.keys.acls.for_zero();
        let SharedTextTables { known, left } = &mut self.shared_text;
        for table in known.extract_if(.., |table| is_gone(table)) {
            links(table.place).into_iter().for_each(library_table::unlink);
            left.push((table.node, table.page));
        }
        let is_used = |page: PageNumber| exposed::page(page).is_some_and(|info| info.kind() == PageKind::PageTable);
        for (_, page) in left.extract_if(.., |(_, page)| !is_used(*page)) {
            let _ = own.free(page);
        }
    }
}

/// What words say, none of which has a place in common with the one before it.
fn parts_of(words: &[u64; PARTS]) -> Result<Vec<Part>> {
    let wanted = words.iter().take_while(|word| **word != 0);
    let parts: Vec<Part> = wanted.map(|word| Part::from_word(*word).ok_or(Errno::EINVAL)).collect::<Result<_>>()?;
    let are_in_order = parts.is_sorted_by(|one, next| one.place + one.pages <= next.place);
    if parts.is_empty() || !are_in_order { Err(Errno::EINVAL) } else { Ok(parts) }
}
