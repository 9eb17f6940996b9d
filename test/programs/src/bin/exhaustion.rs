//! What happens when pages run out: the budget's, or the machine's; at the n-th page that is asked for, for every n;
//! for ever, or only once. The kernel allocates nothing by itself: every object of it is made of pages that its caller
//! had before. So a caller runs out at `page_allocate`, and has only to give back what it has.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::environment::Specification;
use abi::page_table::MapRow;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{self, Access};
use runtime::page::{self, Allocator, PageKind};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, area, exposed, syscall};
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Child fault_49_every_page_beyond_the_budget_is_refused_cleanly;
    Child fault_49_runtime_gives_back_what_it_has;
    Here fault_49_every_page_beyond_the_machines_is_refused_cleanly;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// Where nothing lies, not even a table.
const FAR: u64 = 0x2000_0000 + (7 << 39);
/// Private pages of the environment that is made.
const PRIVATE: usize = 4;
/// Pages that [`Things::make_all`] asks for: each allocation can fail.
const ASKED: usize = 2 + 3 + 3 + 3 + PRIVATE;

/// Things made of pages, as far as there were pages; and where more come from when there are none.
struct Things<'reserve> {
    pages: Vec<PageNumber>,
    environment: Option<EnvironmentId>,
    tables: u64,
    /// Asked after a refusal: whether to ask again.
    again: &'reserve mut dyn FnMut(Failure) -> bool,
}

impl Things<'_> {
    fn take(&mut self, mut allocate: impl FnMut() -> Result<PageNumber, Failure>) -> Result<PageNumber, Failure> {
        loop {
            match allocate() {
                Ok(page) => {
                    self.pages.push(page);
                    return Ok(page);
                }
                Err(failure) if !(self.again)(failure) => return Err(failure),
                Err(_) => {}
            }
        }
    }

    fn fresh(&mut self) -> Result<PageNumber, Failure> {
        self.take(|| Allocator::own().allocate())
    }

    /// One of everything that is made of pages: a mapping with tables of its own, a copy, an access list, a page of
    /// regions, an address space, an environment.
    fn make_all(&mut self) -> Result<(), Failure> {
        let page = self.fresh()?;
        for level in (1..=3).rev() {
            let table = self.fresh()?;
            // SAFETY: nothing of the program lies in the half terabyte around this address.
            unsafe { syscall::page_table_link(KEY, area::root(), UserAddress(FAR), level, table, KEY) }?;
            self.tables += 1;
        }
        map(page.address() | Access::WRITE.0)?;
        self.take(|| Allocator::own().copy(KEY, page))?;
        let list = self.fresh()?;
        page::become_list(KEY, list, KEY)?;
        let region = self.fresh()?;
        page::become_regions(KEY, region)?;
        let root = self.fresh()?;
        page::become_root(KEY, root)?;
        self.make_environment(root)
    }

    fn make_environment(&mut self, root: PageNumber) -> Result<(), Failure> {
        let [control, key_ring, public] = [self.fresh()?.0, self.fresh()?.0, self.fresh()?.0];
        let mut private = [0; abi::limits::PRIVATE_PAGES];
        for page in &mut private[..PRIVATE] {
            *page = self.fresh()?.0;
        }
        let (name_key, private_count) = (KEY.0, PRIVATE as u64);
        let area = 0x1000_0000;
        let specification = Specification {
            name_key,
            control,
            key_ring,
            public,
            root: root.0,
            area,
            private_count,
            private,
            ..Specification::default()
        };
        // SAFETY: the kernel reads the specification; nothing maps the private pages.
        let made = unsafe { syscall::environment_create(KEY, UserAddress(&raw const specification as u64)) };
        self.environment = Some(made?);
        Ok(())
    }

    /// Gives everything back, whatever there is.
    fn undo(self) -> Result<(), Failure> {
        if let Some(environment) = self.environment {
            destroy(environment)?;
        }
        if self.tables == 3 {
            map(0)?;
        }
        for level in 4 - self.tables..4 {
            // SAFETY: nothing of the program lies there.
            unsafe { syscall::page_table_unlink(KEY, area::root(), UserAddress(FAR), level) }?;
        }
        self.pages.iter().try_for_each(|page| Allocator::own().free(*page))
    }
}

fn destroy(environment: EnvironmentId) -> Result<(), Failure> {
    loop {
        match syscall::environment_destroy(KEY, environment) {
            Err(Failure { error: Error::Again, .. }) => {}
            done => return done,
        }
    }
}

fn map(entry: u64) -> Result<(), Failure> {
    address_space::own().apply(&[MapRow { address: FAR | KEY.0, entry }])
}

/// Leaves so many pages, for every number up to what is needed, and makes everything. Once it gives up at the first
/// refusal, which has to be `expected`; once it asks again after one page more was given back.
fn with_few_pages(mut hoard: Vec<PageNumber>, expected: Error) -> Outcome {
    let own = exposed::environment(area::number()).ok_or("no record")?;
    let used =
        || (own.budget.each_ref().map(|budget| budget.used.load(SeqCst)), exposed::kernel().free_pages.load(SeqCst));
    for allowed in 0..=ASKED {
        let before = used();
        let refusal = make_and_undo(&mut |_| false)?;
        let wanted = (allowed < ASKED).then_some(expected);
        check!(refusal.map(|failure| failure.error) == wanted, "with {allowed} pages left it came out as {refusal:?}");
        check!(used() == before, "with {allowed} pages left {before:?} became {:?}", used());
        let mut refusals = 0;
        let once = make_and_undo(&mut |_| {
            refusals += 1;
            // Everything else that is missing comes with it: only this one allocation fails.
            (allowed..ASKED).all(|_| hoard.pop().is_some_and(|page| Allocator::own().free(page).is_ok()))
        })?;
        check!(once.is_none(), "with {allowed} pages, and more after the first refusal, it came out as {once:?}");
        check!(refusals == u64::from(allowed < ASKED), "with {allowed} pages {refusals} were refused");
        for _ in (allowed + 1).min(ASKED)..ASKED {
            hoard.push(granted!(Allocator::own().allocate()));
        }
    }
    check!(Allocator::own().free_many(&hoard) == hoard.len(), "not all pages came back");
    Ok(())
}

/// The refusal at which it gave up, if it did.
fn make_and_undo(again: &mut dyn FnMut(Failure) -> bool) -> Result<Option<Failure>, String> {
    let mut things = Things { pages: Vec::with_capacity(ASKED), environment: None, tables: 0, again };
    let refusal = things.make_all().err();
    granted!(things.undo());
    Ok(refusal)
}

/// All pages that this environment can have, and nothing that needs more.
fn hoard_all(most: u64) -> Vec<PageNumber> {
    let mut hoard = Vec::with_capacity(most as usize);
    // The heap must not need a page when there is none.
    let spare = core::hint::black_box(Vec::<PageNumber>::with_capacity(4096));
    hoard.extend(core::iter::from_fn(|| Allocator::own().allocate().ok()));
    drop(spare);
    hoard
}

fn fault_49_every_page_beyond_the_budget_is_refused_cleanly() -> Outcome {
    let own = exposed::environment(area::number()).ok_or("no record")?;
    let budget = &own.budget[Resource::Page as usize];
    let hoard = hoard_all(budget.limit.load(SeqCst));
    check!(budget.used.load(SeqCst) == budget.limit.load(SeqCst), "pages are left of the budget");
    with_few_pages(hoard, Error::OverBudget)
}

fn fault_49_every_page_beyond_the_machines_is_refused_cleanly(_: &World) -> Outcome {
    let free = || exposed::kernel().free_pages.load(SeqCst);
    let hoard = hoard_all(free());
    check!(free() == 0, "{} pages of the machine are left", free());
    let is_free = |number: &u64| exposed::page(PageNumber(*number)).is_some_and(|info| info.kind() == PageKind::Free);
    let found = (0..exposed::kernel().pages.load(SeqCst)).find(is_free);
    check!(found.is_none(), "page {found:?} is free, and was not given");
    with_few_pages(hoard, Error::Exhausted)
}

/// The same with what the runtime does on the way: it links tables as it needs them.
fn fault_49_runtime_gives_back_what_it_has() -> Outcome {
    let own = exposed::environment(area::number()).ok_or("no record")?;
    let budget = &own.budget[Resource::Page as usize];
    let mut hoard = hoard_all(budget.limit.load(SeqCst));
    for allowed in 0..12 {
        let before = budget.used.load(SeqCst);
        let done = map_and_unmap();
        let after = budget.used.load(SeqCst);
        check!(before == after, "with {allowed} pages left {before} pages became {after} ({done:?})");
        check!(done.is_ok() == (allowed >= 4), "with {allowed} pages left it came out as {done:?}");
        granted!(Allocator::own().free(hoard.pop().ok_or("too few pages")?));
    }
    Allocator::own().free_many(&hoard);
    Ok(())
}

/// Maps a page far from all others, then takes all apart again.
fn map_and_unmap() -> Result<(), Failure> {
    let own = Allocator::own();
    let page = own.allocate()?;
    let mapped = map(page.address() | Access::WRITE.0);
    let _ = map(0);
    for level in 1..=3 {
        // SAFETY: nothing lies at this address any more.
        let table = unsafe { syscall::page_table_unlink(KEY, area::root(), UserAddress(FAR), level) };
        if let Ok(table) = table {
            own.free(table)?;
        }
    }
    own.free(page)?;
    mapped
}
