//! The page tables of a program: which are linked, which are shared with relatives since a fork.
//!
//! The kernel's rule: a table with more than one link is immutable, and read-only through each. A process that needs
//! to change an entry copies the tables on the way first. This record knows every table below the root, so that fork
//! can link the uppermost and exec can unlink them all.

use abi::limits::MAP_ROWS;
use abi::page_table::{MapRow, PRESENT};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use runtime::page::{Allocator, Rows};
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, area, critical_section, exposed, syscall};
use vm::address_space::run;
use vm::fault_around::READAHEAD;

/// Tables that stay for the next program at most.
const KEPT: usize = 12;

/// Keys and places that tables are edited with.
#[derive(Clone, Copy, Debug)]
pub struct TableEditor {
    /// Root of the address space.
    pub root: PageNumber,
    /// Key to the root, to the tables, and to every page that is mapped.
    pub key: KeyIndex,
    /// Where new tables come from.
    pub tables: Allocator,
}

/// The tables below a root, by level and first address.
#[derive(Clone, Debug, Default)]
pub struct PageTables {
    linked: BTreeMap<(u64, u64), Link>,
    /// Pages to make tables of before others are allocated.
    spare: Vec<PageNumber>,
}

/// A link to a table.
#[derive(Clone, Copy, Debug)]
struct Link {
    page: PageNumber,
    /// Known to be writable: no other process can have come to share it since.
    own: bool,
}

/// Bytes that one entry of a table at `level` covers, and so its whole table of the level below.
const fn span(level: u64) -> u64 {
    PAGE_SIZE << (9 * level)
}

impl PageTables {
    /// The uppermost tables, with the addresses where they begin: what a child links.
    pub fn uppermost(&self) -> impl Iterator<Item = (u64, PageNumber)> {
        self.linked.range((3, 0)..).map(|((_, base), link)| (*base, link.page))
    }

    /// Pages to make further ones of.
    pub fn give_spare(&mut self, spare: Vec<PageNumber>) {
        self.spare = spare;
    }

    /// The pages that no table was made of.
    pub fn take_spare(&mut self) -> Vec<PageNumber> {
        core::mem::take(&mut self.spare)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.linked.is_empty()
    }

    /// Every table.
    pub fn pages(&self) -> impl Iterator<Item = PageNumber> {
        self.linked.values().map(|link| link.page)
    }

    /// The first address that a table translates.
    pub fn base_of(&self, table: PageNumber) -> Option<u64> {
        self.linked.iter().find(|(_, link)| link.page == table).map(|((_, base), _)| *base)
    }

    /// Whether it takes less to empty these tables than to make others.
    pub fn are_own_and_few(&self) -> bool {
        self.linked.len() <= KEPT && self.linked.values().all(|link| link.own)
    }

    /// Sets entries of the own address space: links tables that are missing, copies tables that are shared.
    pub fn edit(&mut self, editor: &TableEditor, rows: &[MapRow]) -> Result<()> {
        let mut left = rows;
        while !left.is_empty() {
            let done = self.edit_rows(editor, &left[..left.len().min(MAP_ROWS)]);
            // A process that changes a hundred thousand pages in one critical section would be taken for one that
            // keeps the CPU.
            critical_section::give_way();
            left = &left[done?..];
        }
        Ok(())
    }

    /// The same for pages in a row from an address on that lie in one table, but for those whose entry is 0.
    pub fn edit_run(&mut self, editor: &TableEditor, start: u64, entries: &[u64]) -> Result<()> {
        self.prepare(editor, start, true)?;
        let mut rows = [MapRow::default(); READAHEAD];
        for (first, entries) in (start..).step_by(READAHEAD * PAGE_SIZE as usize).zip(entries.chunks(READAHEAD)) {
            let mut count = 0;
            for (place, row) in rows.iter_mut().zip(run(first, entries)) {
                *place = MapRow { address: row.address | editor.key.0, ..row };
                count += 1;
            }
            let mut left = &rows[..count];
            while !left.is_empty() {
                left = &left[self.edit_some(editor, left)?..];
            }
        }
        Ok(())
    }

    /// At most [`MAP_ROWS`] of them; how many are done.
    fn edit_rows(&mut self, editor: &TableEditor, rows: &[MapRow]) -> Result<usize> {
        // What is ready: the address where a table begins, and whether something is mapped into it.
        let (mut ready, mut outcome) = (u64::MAX, Ok(()));
        let keyed = rows.iter().map_while(|row| {
            let mapped = row.entry & PRESENT;
            let wanted = row.address & !(span(1) - 1) | mapped;
            if ready != wanted {
                outcome = self.prepare(editor, row.address, mapped != 0);
                outcome.is_ok().then_some(())?;
                ready = wanted;
            }
            Some(MapRow { address: row.address | editor.key.0, entry: if mapped == 0 { 0 } else { row.entry } })
        });
        let mut copy = Rows::<MapRow, MAP_ROWS>::new();
        let keyed = copy.fill(keyed);
        outcome?;
        self.edit_some(editor, keyed)
    }

    /// Makes the tables on the way to an address changeable; if something will be mapped there, makes missing tables.
    pub fn prepare(&mut self, editor: &TableEditor, address: u64, mapped: bool) -> Result<()> {
        if self.linked.get(&(1, address & !(span(1) - 1))).is_some_and(|link| link.own) {
            return Ok(());
        }
        self.make_own(editor, address)?;
        if mapped { self.link_missing(editor, address, 1) } else { Ok(()) }
    }

    /// How many rows are done, or the error. The kernel stops where one entry has done enough: the caller resumes
    /// there.
    fn edit_some(&mut self, editor: &TableEditor, rows: &[MapRow]) -> Result<usize> {
        let at = UserAddress(rows.as_ptr() as u64);
        // SAFETY: the rows are as many as we say. Their addresses are the program's, by the checks of `vm`, so that
        // no object of ExOS changes its place.
        match unsafe { syscall::page_map(editor.key, editor.root, at, rows.len() as u64) } {
            Ok(_) => Ok(rows.len()),
            Err(Failure { error: Error::NotMapped, detail })
                if rows.get(detail as usize).is_some_and(|row| row.entry == 0) =>
            {
                Ok(detail as usize + 1)
            }
            Err(Failure { error: Error::Again, detail }) => Ok(detail as usize),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Makes every table this process's own, on its account and under its list: those, too, that relatives have left
    /// to it.
    pub fn own_all(&mut self, editor: &TableEditor) -> Result<()> {
        let lowest: Vec<u64> = self.linked.range((1, 0)..(2, 0)).map(|((_, base), _)| *base).collect();
        lowest.into_iter().try_for_each(|base| self.make_own(editor, base))?;
        let Allocator { key, list } = editor.tables;
        let is_foreign = |table: &PageNumber| exposed::page(*table).is_none_or(|info| info.access() != list);
        let claim = |table| Ok(syscall::page_claim(editor.key, table, key, list)?);
        self.pages().filter(is_foreign).try_for_each(claim)
    }

    /// Links the uppermost tables into the root of a child, which has none there. From then on all of them are shared.
    pub fn link_into(&mut self, editor: &TableEditor) -> Result<()> {
        self.linked.values_mut().for_each(|link| link.own = false);
        for (address, table) in self.uppermost() {
            // SAFETY: the address space is another one, in which no program runs yet.
            unsafe { link(editor, address, 3, table, editor.key) }?;
        }
        Ok(())
    }

    /// Unlinks everything: the program's memory is gone. The result is the tables that are unused now.
    pub fn unlink_all(&mut self, editor: &TableEditor) -> Result<Vec<u64>> {
        let mut free = Vec::new();
        let uppermost: Vec<u64> = self.uppermost().map(|(base, _)| base).collect();
        for base in uppermost {
            self.unlink_tree(editor, 3, base, &mut free)?;
        }
        Ok(free)
    }

    fn unlink_tree(&mut self, editor: &TableEditor, level: u64, base: u64, free: &mut Vec<u64>) -> Result<()> {
        match unlink(editor, base, level) {
            Ok(page) => {
                free.push(page.0);
                self.forget_below(level, base);
                Ok(())
            }
            Err(Failure { error: Error::InUse, .. }) if level > 1 => {
                for below in self.children(level, base) {
                    self.unlink_tree(editor, level - 1, below, free)?;
                }
                let page = unlink(editor, base, level)?;
                free.push(page.0);
                self.linked.remove(&(level, base));
                Ok(())
            }
            Err(failure) => Err(failure.into()),
        }
    }

    fn children(&self, level: u64, base: u64) -> Vec<u64> {
        let end = base + span(level);
        self.linked.range((level - 1, base)..(level - 1, end)).map(|((_, base), _)| *base).collect()
    }

    fn forget_below(&mut self, level: u64, base: u64) {
        let end = base + span(level);
        for lower in 1..=level {
            let gone: Vec<u64> = self.linked.range((lower, base)..(lower, end)).map(|((_, base), _)| *base).collect();
            for base in gone {
                self.linked.remove(&(lower, base));
            }
        }
    }

    /// Links tables that are missing on the way to an address, down to one of a level.
    fn link_missing(&mut self, editor: &TableEditor, address: u64, lowest: u64) -> Result<()> {
        for level in (lowest..=3).rev() {
            let base = address & !(span(level) - 1);
            if self.linked.contains_key(&(level, base)) {
                continue;
            }
            let page = self.spare.pop().map_or_else(|| editor.tables.allocate(), Ok)?;
            // SAFETY: a new table is empty: nothing appears at any address.
            unsafe { link(editor, base, level, page, editor.tables.key) }?;
            self.linked.insert((level, base), Link { page, own: true });
        }
        Ok(())
    }

    /// Makes every table on the way to an address this process's own. It copies those that relatives have too, and
    /// makes the link writable again to those that no other process has any more.
    fn make_own(&mut self, editor: &TableEditor, address: u64) -> Result<()> {
        for level in [3, 2, 1] {
            let base = address & !(span(level) - 1);
            let Some(link) = self.linked.get(&(level, base)).copied() else { break };
            if link.own {
                continue;
            }
            let shared = exposed::page(link.page).is_none_or(|info| info.links() > 1);
            let fresh = if shared { editor.tables.allocate()? } else { PageNumber::NONE };
            let copied = copy(editor, base, level, fresh);
            if shared && !matches!(copied, Ok(true)) {
                editor.tables.free(fresh)?;
            }
            let page = if copied? { fresh } else { link.page };
            if page != link.page {
                give_up(link.page);
            }
            self.linked.insert((level, base), Link { page, own: true });
        }
        Ok(())
    }
}

/// # Safety
/// No live object of the running program changes by what appears at `address`.
unsafe fn link(
    editor: &TableEditor,
    address: u64,
    level: u64,
    table: PageNumber,
    key: KeyIndex,
) -> core::result::Result<(), Failure> {
    // SAFETY: as the caller says.
    unsafe { syscall::page_table_link(editor.key, editor.root, UserAddress(address), level, table, key) }
}

/// Links an existing table of another address space, such as the one that maps the ExOS image.
pub fn link_common(editor: &TableEditor, address: u64, level: u64, table: PageNumber) -> Result<()> {
    if editor.root == area::root() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the address space is another one, in which no program runs yet.
    unsafe { link(editor, address, level, table, editor.key) }?;
    Ok(())
}

/// Links an empty table in an address space that is not the own one.
pub fn link_fresh(editor: &TableEditor, address: u64, level: u64) -> Result<PageNumber> {
    let table = editor.tables.allocate()?;
    if editor.root == area::root() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: a new table is empty, and the address space another one.
    unsafe { link(editor, address, level, table, editor.tables.key) }?;
    Ok(table)
}

/// Removes a link. A full table is emptied in several steps of the kernel's.
fn unlink(editor: &TableEditor, address: u64, level: u64) -> core::result::Result<PageNumber, Failure> {
    loop {
        // SAFETY: the tables are the program's, in which no object of ExOS lies.
        match unsafe { syscall::page_table_unlink(editor.key, editor.root, UserAddress(address), level) } {
            Err(Failure { error: Error::Again, .. }) => {}
            outcome => return outcome,
        }
    }
}

/// Gives up a table that a copy took the place of, if it is on the own account; relatives use it as long as they need
/// it.
fn give_up(table: PageNumber) {
    let own = Allocator::own();
    if exposed::page(table).is_some_and(|info| info.access() == own.list && !info.is_orphan()) {
        let _ = own.free(table);
    }
}

/// Ends the sharing of one table; whether `fresh` is in use now.
fn copy(editor: &TableEditor, address: u64, level: u64, fresh: PageNumber) -> Result<bool> {
    loop {
        match syscall::page_table_copy(editor.key, editor.root, UserAddress(address), level, fresh, editor.key) {
            Ok(used) => return Ok(used == 1),
            Err(Failure { error: Error::Again, .. }) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// Maps fresh pages at addresses of the program, as far as nothing has to be seen to; how many, and what has to.
#[inline(always)]
pub fn supply(pages: Allocator, root: PageNumber, start: u64, entries: &mut [u64]) -> (usize, Option<Error>) {
    // SAFETY: the addresses are the program's, by the checks of `vm`, so that no object of ExOS changes its place.
    let (done, ended) = unsafe { pages.supply_run((pages.key, root), start, entries) };
    (done, ended.err().map(|failure| failure.error))
}
