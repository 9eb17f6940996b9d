//! Pages that are allocated, filled and mapped by one call: what a row gives, what refuses it, and that nothing is half
//! done.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::capability::Rights;
use abi::limits::MAP_ROWS;
use abi::page_table::{CACHE_DISABLE, LARGE, MapRow, NO_EXECUTE, PAGE, PRESENT, WRITE};
use abi::syscall::number;
use abi::upcall::kind;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::page::{self, Allocator, PageKind};
use runtime::upcall::{Context, set_handler};
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, area, clock, exposed, key, syscall, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{death, eventually, launch, prepare, status};
use test_programs::snapshot::Snapshot;
use test_programs::writer::{self, Writer};
use test_programs::{Outcome, World, attempt, check, granted, guest, level_one_of, refused};

guest! {
    Child zeros_and_copies_come_where_rows_say;
    Child what_was_mapped_there_gives_way;
    Child a_copy_of_what_it_replaces;
    Child nothing_is_mapped_without_a_root;
    Child a_row_names_the_page_that_it_wants;
    Child another_address_space_of_ones_own;
    Child rows_before_a_refused_one_are_done;
    Child more_rows_than_one_entry_does;
    Child fault_04_keys_that_do_not_open;
    Child fault_05_sources_that_are_not_ordinary;
    Child fault_06_entries_that_cannot_be;
    Child fault_11_addresses_that_cannot_be;
    Child fault_13_rows_that_cannot_be_told;
    Child fault_17_rows_that_are_mapped_away;
    Child fault_49_more_than_the_budget;
    Child tables_that_are_missing_or_shared;
    Here fault_09_stale_translation_on_another_cpu;
    Here fault_39_what_was_supplied_is_taken_by_force;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// A free place in the address space of a child, whose table is there once a page was mapped.
const PLACE: u64 = writer::PLACE;
const PAGE_BYTES: u64 = 0x1000;
const ZEROS: PageNumber = PageNumber::NONE;
const WRITABLE: u64 = Access::WRITE.0;
const READABLE: u64 = Access::READ.0;

fn row(address: u64, source: PageNumber, bits: u64) -> MapRow {
    MapRow { address: address | KEY.0, entry: source.address() | bits }
}

fn page_in(row: &MapRow) -> PageNumber {
    PageNumber((row.entry & PAGE) >> 12)
}

/// The call itself, with keys, list and root.
fn supply_by(keys: [KeyIndex; 2], list: PageNumber, root: PageNumber, rows: &mut [MapRow]) -> Result<u64, Failure> {
    let at = UserAddress(rows.as_mut_ptr() as u64);
    // SAFETY: the rows are as many as we say, and no object of the program lies where they map.
    unsafe { syscall::page_allocate(keys[0], list, keys[1], root, at, rows.len() as u64) }
}

fn supply(rows: &mut [MapRow]) -> Result<u64, Failure> {
    supply_by([KEY, KEY], area::access_list(), area::root(), rows)
}

fn one(address: u64, source: PageNumber, bits: u64) -> Result<u64, Failure> {
    supply(&mut [row(address, source, bits)])
}

fn map(address: u64, entry: u64) -> Result<(), Failure> {
    address_space::own().apply(&[MapRow { address: address | KEY.0, entry }])
}

/// Unmaps a page and gives it up: it is the caller's, and no other environment maps it.
fn drop_page(address: u64, page: PageNumber) -> Outcome {
    granted!(map(address, 0));
    let info = exposed::page(page).ok_or("no record")?;
    check!(info.references() == 0, "{page:?} has {} references left", info.references());
    granted!(Allocator::own().free(page));
    check!(info.kind() == PageKind::Free, "{page:?} is not free");
    Ok(())
}

fn fill(place: u64, value: u64) {
    (0..512).for_each(|index| runtime::memory::store(place + index * 8, value ^ index << 32));
}

fn is_filled(place: u64, value: u64) -> bool {
    (0..512).all(|index| runtime::memory::load(place + index * 8) == value ^ index << 32)
}

fn is_zero(place: u64) -> bool {
    (0..512).all(|index| runtime::memory::load(place + index * 8) == 0)
}

/// Makes sure of the tables for the place.
fn make_tables() -> Outcome {
    granted!(address_space::own().link_tables(PLACE, false));
    Ok(())
}

fn used() -> u64 {
    exposed::environment(area::number()).map_or(0, |own| own.budget[Resource::Page as usize].used.load(SeqCst))
}

/// What is exposed of a page that was just supplied.
fn is_ours_mapped(page: PageNumber, references: u64) -> Outcome {
    let info = exposed::page(page).ok_or("no record")?;
    check!(info.kind() == PageKind::Ordinary && info.owner() == area::number(), "{page:?} is not ours");
    check!(info.access() == area::access_list(), "{page:?} is under another list");
    check!(info.references() == references, "{page:?} has {} references", info.references());
    check!(info.flags() & abi::page::ZEROED == 0 || references == 0, "{page:?} is said to stay full of zeros");
    Ok(())
}

fn zeros_and_copies_come_where_rows_say() -> Outcome {
    const VALUE: u64 = 0x0123_4567;
    make_tables()?;
    let source = granted!(Allocator::own().allocate());
    granted!(map(PLACE, source.address() | WRITABLE));
    fill(PLACE, VALUE);
    // Most free pages have contents: twice, so that those of the first round come back.
    for round in 0..2 {
        let bits = [WRITABLE, WRITABLE | CACHE_DISABLE, READABLE, WRITABLE | 1 << 9, READABLE | 1 << 58];
        let mut rows: Vec<MapRow> = (1..)
            .zip(bits)
            .map(|(index, bits)| row(PLACE + index * PAGE_BYTES, if index % 2 == 0 { source } else { ZEROS }, bits))
            .collect();
        let wanted = rows.clone();
        let table = exposed::page(granted!(level_one_of(PLACE))).ok_or("no table")?;
        let edits = table.block.load(Relaxed);
        let before = used();
        check!(granted!(supply(&mut rows)) == 5, "not all rows were done");
        check!(table.block.load(Relaxed) > edits, "nobody sees that the table was edited");
        check!(used() == before + 5, "five pages cost {}", used() - before);
        for (row, wanted) in rows.iter().zip(&wanted) {
            let place = row.address & !0xfff;
            check!((row.address, row.entry & !PAGE) == (wanted.address, wanted.entry & !PAGE), "a row is another");
            is_ours_mapped(page_in(row), 1)?;
            let is_it = if page_in(wanted) == source { is_filled(place, VALUE) } else { is_zero(place) };
            check!(is_it, "round {round}: something else lies at {place:#x}");
        }
        fill(PLACE + PAGE_BYTES, 77);
        fill(PLACE + 2 * PAGE_BYTES, 78);
        check!(is_filled(PLACE, VALUE), "who writes a copy writes the page");
        watch();
        let raised = attempt!(["mov [rdi], rax"], "rdi" = PLACE + 3 * PAGE_BYTES);
        check!(raised.is_some_and(|frame| frame.error == 7), "a page that may only be read was written: {raised:?}");
        for row in &rows {
            drop_page(row.address & !0xfff, page_in(row))?;
        }
    }
    drop_page(PLACE, source)
}

/// Without a root, the address of a row names the page that is wanted.
fn a_row_names_the_page_that_it_wants() -> Outcome {
    let own = Allocator::own();
    let alone = |rows: &mut [MapRow]| supply_by([KEY, KeyIndex(43)], own.list, PageNumber::NONE, rows);
    let [first, second] = [granted!(own.allocate()), granted!(own.allocate())];
    check!(own.free_many(&[first, second]) == 2, "the pages were not freed");
    let mut rows = [row(second.address(), ZEROS, 0), row(first.address(), ZEROS, 0)];
    check!(granted!(alone(&mut rows)) == 2, "not all rows were done");
    check!([page_in(&rows[0]), page_in(&rows[1])] == [second, first], "other pages came: {rows:?}");
    let used = used();
    for (address, error) in [(first.address(), Error::NotFree), (!0xfff, Error::NoSuchPage)] {
        let told = alone(&mut [row(address, ZEROS, 0)]);
        check!(told == Err(error.about(0)), "a row that wants the page at {address:#x} gave {told:?}");
    }
    check!(self::used() == used, "a refused row took a page");
    check!(own.free_many(&[first, second]) == 2, "the pages were not freed");
    Ok(())
}

fn what_was_mapped_there_gives_way() -> Outcome {
    make_tables()?;
    let own = Allocator::own();
    let (kept, orphan) = (granted!(own.allocate()), granted!(own.allocate()));
    granted!(map(PLACE, kept.address() | WRITABLE));
    granted!(map(PLACE + PAGE_BYTES, orphan.address() | WRITABLE));
    fill(PLACE, 1);
    fill(PLACE + PAGE_BYTES, 2);
    granted!(own.free(orphan));
    let before = used();
    let mut rows = [row(PLACE, ZEROS, WRITABLE), row(PLACE + PAGE_BYTES, ZEROS, READABLE)];
    granted!(supply(&mut rows));
    check!(is_zero(PLACE) && is_zero(PLACE + PAGE_BYTES), "what was there is there still");
    let record = |page| exposed::page(page).map(|info| (info.kind(), info.references()));
    check!(record(kept) == Some((PageKind::Ordinary, 0)), "the page that was mapped is {:?}", record(kept));
    check!(
        exposed::page(kept).is_some_and(|info| info.flags() & abi::page::DIRTY != 0),
        "it is not said to have been written"
    );
    let is_gone = record(orphan) == Some((PageKind::Free, 0)) || rows.iter().any(|row| page_in(row) == orphan);
    check!(is_gone && used() == before + 1, "the orphan that was mapped is {:?}", record(orphan));
    granted!(own.free(kept));
    rows.iter().try_for_each(|row| drop_page(row.address & !0xfff, page_in(row)))
}

/// What a library does that copies pages when they are written.
fn a_copy_of_what_it_replaces() -> Outcome {
    make_tables()?;
    let shared = granted!(Allocator::own().allocate());
    granted!(map(PLACE, shared.address() | WRITABLE));
    fill(PLACE, 5);
    for place in [PLACE, PLACE + PAGE_BYTES] {
        granted!(map(place, shared.address() | READABLE));
    }
    check!(is_filled(PLACE, 5), "it is not there");
    let mut copy = [row(PLACE, shared, WRITABLE)];
    granted!(supply(&mut copy));
    check!(is_filled(PLACE, 5), "the copy is another");
    fill(PLACE, 6);
    check!(is_filled(PLACE + PAGE_BYTES, 5), "who writes the copy writes the page");
    is_ours_mapped(shared, 1)?;
    drop_page(PLACE, page_in(&copy[0]))?;
    drop_page(PLACE + PAGE_BYTES, shared)
}

fn nothing_is_mapped_without_a_root() -> Outcome {
    make_tables()?;
    let own = Allocator::own();
    let source = granted!(own.allocate());
    granted!(map(PLACE, source.address() | WRITABLE));
    fill(PLACE, 3);
    let alone = |rows: &mut [MapRow]| supply_by([KEY, KeyIndex(43)], own.list, PageNumber::NONE, rows);
    let mut rows = [row(0, source, 0), row(0, ZEROS, 0)];
    check!(granted!(alone(&mut rows)) == 2, "not all rows were done");
    for (row, value) in rows.iter().zip([3, 0]) {
        is_ours_mapped(page_in(row), 0)?;
        granted!(map(PLACE + PAGE_BYTES, row.entry & PAGE | READABLE));
        let is_it = if value == 0 { is_zero(PLACE + PAGE_BYTES) } else { is_filled(PLACE + PAGE_BYTES, value) };
        check!(is_it, "something else lies in it");
        drop_page(PLACE + PAGE_BYTES, page_in(row))?;
    }
    for bad in [row(0, ZEROS, PRESENT), row(0, ZEROS, NO_EXECUTE), row(0, source, WRITABLE)] {
        refused!(alone(&mut [bad]), BadArgument);
    }
    drop_page(PLACE, source)
}

fn another_address_space_of_ones_own() -> Outcome {
    let own = Allocator::own();
    let other = granted!(AddressSpace::create(own));
    granted!(other.link_tables(PLACE, false));
    let mut rows = [row(PLACE, ZEROS, WRITABLE)];
    granted!(supply_by([KEY, KEY], own.list, other.root, &mut rows));
    is_ours_mapped(page_in(&rows[0]), 1)?;
    watch();
    let raised = attempt!(["mov rax, [rdi]"], "rdi" = PLACE);
    check!(raised.is_some_and(|frame| frame.kind == kind::PAGE_FAULT), "it lies in this one");
    granted!(own.free(page_in(&rows[0])));
    granted!(own.free(other.root));
    let left = exposed::page(page_in(&rows[0])).map(|info| info.references());
    check!(left == Some(0), "the page has {left:?} references left");
    Ok(())
}

fn rows_before_a_refused_one_are_done() -> Outcome {
    make_tables()?;
    let (before, untouched) = (used(), row(PLACE + 3 * PAGE_BYTES, ZEROS, WRITABLE));
    let mut rows =
        [row(PLACE, ZEROS, WRITABLE), row(PLACE + PAGE_BYTES, ZEROS, WRITABLE), row(PLACE, ZEROS, LARGE), untouched];
    let refusal = supply(&mut rows).err().ok_or("a row without a meaning was done")?;
    check!(refusal.detail == 2, "the row that is told is {}", refusal.detail);
    check!(used() == before + 2 && rows[2] == row(PLACE, ZEROS, LARGE), "the row that was refused is half done");
    check!(rows[3] == untouched, "a row behind it was done");
    watch();
    let raised = attempt!(["mov rax, [rdi]"], "rdi" = PLACE + 3 * PAGE_BYTES);
    check!(raised.is_some(), "a row behind it was mapped");
    rows[..2].iter().try_for_each(|row| drop_page(row.address & !0xfff, page_in(row)))
}

/// The kernel stops where it has done enough, says how far it came, and resumes there.
fn more_rows_than_one_entry_does() -> Outcome {
    make_tables()?;
    let mut rows: Vec<MapRow> =
        (0..MAP_ROWS as u64).map(|page| row(PLACE + page * PAGE_BYTES, ZEROS, WRITABLE)).collect();
    let (mut done, mut calls) = (0, 0);
    while done < rows.len() {
        match supply(&mut rows[done..]) {
            Ok(more) => done += more as usize,
            Err(Failure { error: runtime::Error::Again, detail }) if detail > 0 => done += detail as usize,
            other => check!(false, "after {done} rows: {other:?}"),
        }
        calls += 1;
    }
    check!((4..=64).contains(&calls), "{} rows took {calls} calls", rows.len());
    for (at, row) in rows.iter().enumerate() {
        is_ours_mapped(page_in(row), 1)?;
        check!(is_zero(row.address & !0xfff), "row {at} does not hold zeros");
    }
    let mut many = rows.clone();
    many.push(row(PLACE, ZEROS, WRITABLE));
    refused!(supply(&mut many), TooMany);
    check!(many[..MAP_ROWS] == rows, "a call that was refused changed its rows");
    rows.iter().try_for_each(|row| drop_page(row.address & !0xfff, page_in(row)))
}

/// Fails unless every call is refused, with nothing changed, as `expected` says.
macro_rules! all_refused {
    ($what:expr, $error:ident, [$($call:expr),* $(,)?]) => {{
        let before = Snapshot::settled()?;
        $(refused!($call, $error);)*
        before.is_unchanged($what)?;
    }};
}

fn fault_04_keys_that_do_not_open() -> Outcome {
    const READER: KeyIndex = KeyIndex(40);
    const OWNER: KeyIndex = KeyIndex(41);
    const NO_KEY: KeyIndex = KeyIndex(43);
    make_tables()?;
    let (list, root, stranger) = (area::access_list(), area::root(), KeyIndex::WELL_KNOWN);
    for (slot, rights) in [(READER, Rights::READ), (OWNER, Rights::OWN)] {
        granted!(syscall::key_copy(KEY, u64::from(rights.0), area::number(), slot, KEY));
    }
    let source = granted!(Allocator::own().allocate());
    let by = |keys: [KeyIndex; 3], source: PageNumber, bits: u64| {
        let mut rows = [MapRow { address: PLACE | keys[2].0, entry: source.address() | bits }];
        supply_by([keys[0], keys[1]], list, root, &mut rows)
    };
    all_refused!(
        "with keys that give too little",
        NotPermitted,
        [
            by([READER, KEY, KEY], ZEROS, READABLE),
            by([stranger, KEY, KEY], ZEROS, READABLE),
            by([KEY, READER, KEY], ZEROS, READABLE),
            by([KEY, stranger, KEY], ZEROS, READABLE),
            by([KEY, KEY, OWNER], ZEROS, READABLE),
            by([KEY, KEY, stranger], ZEROS, READABLE),
            by([KEY, KEY, READER], ZEROS, WRITABLE),
            by([KEY, KEY, READER], source, WRITABLE),
            by([KEY, KEY, stranger], source, READABLE),
        ]
    );
    all_refused!(
        "with keys that are none",
        NoSuchKey,
        [
            by([NO_KEY, KEY, KEY], ZEROS, READABLE),
            by([KEY, NO_KEY, KEY], ZEROS, READABLE),
            by([KEY, KEY, NO_KEY], ZEROS, READABLE),
            by([KeyIndex(u64::MAX), KEY, KEY], ZEROS, READABLE),
            by([KEY, KeyIndex(u64::MAX), KEY], ZEROS, READABLE),
            by([KEY, KEY, KeyIndex(0xfff)], ZEROS, READABLE),
        ]
    );
    // A writable row, and then one by a key that gives less: what the first was granted is not the second's.
    let mut rows = [
        row(PLACE, ZEROS, WRITABLE),
        MapRow { address: PLACE + PAGE_BYTES | READER.0, entry: ZEROS.address() | WRITABLE },
    ];
    refused!(supply(&mut rows), NotPermitted);
    drop_page(PLACE, page_in(&rows[0]))?;
    // Enough is enough.
    for (keys, bits) in [([OWNER, KEY, READER], READABLE), ([KEY, KEY, KEY], WRITABLE)] {
        granted!(by(keys, source, bits));
        let newest = exposed::environment(area::number()).and_then(|own| own.pages().next()).ok_or("no page")?;
        drop_page(PLACE, newest)?;
    }
    granted!(Allocator::own().free(source));
    granted!(key::discard(READER));
    granted!(key::discard(OWNER));
    Ok(())
}

fn fault_05_sources_that_are_not_ordinary() -> Outcome {
    make_tables()?;
    let own = Allocator::own();
    let (page, region) = (granted!(own.allocate()), granted!(own.allocate()));
    granted!(page::become_regions(KEY, region));
    let table = granted!(level_one_of(PLACE));
    all_refused!(
        "with sources of another kind",
        WrongKind,
        [
            one(PLACE, own.list, READABLE),
            one(PLACE, area::root(), READABLE),
            one(PLACE, table, READABLE),
            one(PLACE, region, READABLE),
            supply_by([KEY, KEY], page, area::root(), &mut [row(PLACE, ZEROS, READABLE)]),
            supply_by([KEY, KEY], own.list, page, &mut [row(PLACE, ZEROS, READABLE)]),
            supply_by([KEY, KEY], own.list, table, &mut [row(PLACE, ZEROS, READABLE)]),
        ]
    );
    let pages = exposed::kernel().pages.load(Relaxed);
    all_refused!(
        "with sources that are nowhere",
        NoSuchPage,
        [
            one(PLACE, PageNumber(pages), READABLE),
            one(PLACE, PageNumber(PAGE >> 12), READABLE),
            one(PLACE, PageNumber(ZEROS.0 - 1), READABLE),
            one(PLACE, PageNumber(ZEROS.0 + 1), READABLE),
            supply_by([KEY, KEY], PageNumber(pages), area::root(), &mut [row(PLACE, ZEROS, READABLE)]),
            supply_by([KEY, KEY], own.list, PageNumber(pages), &mut [row(PLACE, ZEROS, READABLE)]),
        ]
    );
    let environment = exposed::environment(area::number()).ok_or("no record")?;
    let secrets = [&environment.control, &environment.key_ring].map(|page| PageNumber(page.load(Relaxed)));
    let creator = exposed::environment(abi::EnvironmentId(environment.creator.load(Relaxed))).ok_or("no creator")?;
    let is_theirs = |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.access() != own.list);
    let foreign = creator.pages().take(400).filter(is_theirs).chain(secrets).collect::<Vec<_>>();
    let before = Snapshot::settled()?;
    let free = PageNumber(exposed::kernel().first_free_page.load(Relaxed));
    for page in foreign.into_iter().chain([free]) {
        check!(one(PLACE, page, READABLE).is_err(), "{page:?}, which is not ours to read, was copied");
    }
    before.is_unchanged("with pages of others")?;
    granted!(own.free(page));
    granted!(own.free(region));
    Ok(())
}

fn fault_06_entries_that_cannot_be() -> Outcome {
    make_tables()?;
    all_refused!(
        "with entries that cannot be",
        BadArgument,
        [
            one(PLACE, ZEROS, 0),
            one(PLACE, ZEROS, WRITE),
            one(PLACE, ZEROS, NO_EXECUTE),
            one(PLACE, ZEROS, WRITABLE & !PRESENT),
            one(PLACE, ZEROS, WRITABLE | LARGE),
            one(PLACE, ZEROS, WRITABLE | 1 << 8),
            supply(&mut [MapRow { address: PLACE | KEY.0, entry: 0 }]),
        ]
    );
    Ok(())
}

fn fault_11_addresses_that_cannot_be() -> Outcome {
    all_refused!(
        "with addresses that cannot be",
        BadAddress,
        [
            one(1 << 47, ZEROS, WRITABLE),
            one(0xffff_8000_0000_0000, ZEROS, WRITABLE),
            one(abi::memory_map::KERNEL_IMAGE, ZEROS, WRITABLE),
            one(!0xfff, ZEROS, WRITABLE),
            one(abi::memory_map::USER_END, ZEROS, WRITABLE),
        ]
    );
    Ok(())
}

/// Rows that lie where nothing is, where nothing may be written, or half so: nothing is done.
fn fault_13_rows_that_cannot_be_told() -> Outcome {
    make_tables()?;
    watch();
    let own = Allocator::own();
    let page = granted!(own.allocate());
    granted!(map(PLACE, page.address() | WRITABLE));
    let last = PLACE + PAGE_BYTES - 16;
    for at in [PLACE, last] {
        runtime::memory::store(at, PLACE + 8 * PAGE_BYTES | KEY.0);
        runtime::memory::store(at + 8, ZEROS.address() | WRITABLE);
    }
    let before = Snapshot::settled()?;
    let tried = |at: u64, count: u64| {
        attempt!(
            ["mov rax, r15", "syscall", "cmp rax, 0", "jne 77f", "ud2"],
            "rdi" = KEY.0,
            "rsi" = own.list.0,
            "rdx" = KEY.0,
            "r10" = area::root().0,
            "r8" = at,
            "r9" = count,
            "r15" = number::page_allocate
        )
        .map(|frame| frame.kind)
    };
    check!(tried(last, 2) == Some(kind::PAGE_FAULT), "rows beyond the end of a mapping raised nothing");
    check!(tried(PLACE + PAGE_BYTES, 1) == Some(kind::PAGE_FAULT), "rows where nothing lies raised nothing");
    check!(tried(1 << 47, 1).is_none() && tried(u64::MAX - 7, 1).is_none(), "rows outside of the user half");
    before.is_unchanged("with rows that are not there")?;
    granted!(map(PLACE, page.address() | READABLE));
    let before = Snapshot::settled()?;
    check!(tried(PLACE, 1) == Some(kind::PAGE_FAULT), "rows that cannot be written raised nothing");
    before.is_unchanged("with rows that cannot be written")?;
    drop_page(PLACE, page)
}

/// A row puts another page where the rows lie, so that the numbers cannot be returned, or go to that page. Each row is
/// done once, and the new pages are charged to the caller.
fn fault_17_rows_that_are_mapped_away() -> Outcome {
    make_tables()?;
    watch();
    let (own, info) = (Allocator::own(), exposed::environment(area::number()).ok_or("no record")?);
    for (bits, expected) in [(READABLE, kind::PAGE_FAULT), (WRITABLE, kind::INVALID_OPCODE)] {
        let page = granted!(own.allocate());
        granted!(map(PLACE, page.address() | WRITABLE));
        for (at, address) in [(PLACE, PLACE + PAGE_BYTES), (PLACE + 16, PLACE)] {
            runtime::memory::store(at, address | KEY.0);
            runtime::memory::store(at + 8, ZEROS.address() | bits);
        }
        let before = used();
        let raised = attempt!(
            ["mov rax, r15", "syscall", "ud2"],
            "rdi" = KEY.0,
            "rsi" = own.list.0,
            "rdx" = KEY.0,
            "r10" = area::root().0,
            "r8" = PLACE,
            "r9" = 2,
            "r15" = number::page_allocate
        );
        check!(raised.map(|frame| frame.kind) == Some(expected), "it raised {raised:?}");
        check!(used() == before + 2 && info.pages().count() as u64 == used(), "{before} pages became {}", used());
        check!(exposed::page(page).is_some_and(|info| info.references() == 0), "the page of the rows is still mapped");
        let newest: Vec<PageNumber> = info.pages().take(2).collect();
        newest.iter().try_for_each(|page| is_ours_mapped(*page, 1))?;
        granted!(map(PLACE, 0));
        granted!(map(PLACE + PAGE_BYTES, 0));
        check!(own.free_many(&newest) == 2 && own.free(page).is_ok(), "not all pages were freed");
    }
    Ok(())
}

fn fault_49_more_than_the_budget() -> Outcome {
    make_tables()?;
    let own = exposed::environment(area::number()).ok_or("no record")?;
    let budget = &own.budget[Resource::Page as usize];
    let left = || budget.limit.load(SeqCst) - budget.used.load(SeqCst);
    let mut taken = Vec::with_capacity(left() as usize);
    while left() > 2 {
        taken.push(granted!(Allocator::own().allocate()));
    }
    let mut rows: [MapRow; 4] = core::array::from_fn(|at| row(PLACE + at as u64 * PAGE_BYTES, ZEROS, WRITABLE));
    let refusal = supply(&mut rows).err().ok_or("there was more than the budget")?;
    check!(refusal.error == runtime::Error::OverBudget && refusal.detail == 2, "it was refused by {refusal:?}");
    check!(left() == 0 && page_in(&rows[1]) != ZEROS && page_in(&rows[2]) == ZEROS, "another row was done");
    all_refused!(
        "with nothing left",
        OverBudget,
        [one(PLACE, ZEROS, WRITABLE), one(PLACE, page_in(&rows[0]), WRITABLE)]
    );
    rows[..2].iter().try_for_each(|row| drop_page(row.address & !0xfff, page_in(row)))?;
    check!(Allocator::own().free_many(&taken) == taken.len(), "not all pages were freed");
    Ok(())
}

/// A table without a link, and one that two links lead to: the call says so, and may be repeated when that is
/// corrected.
fn tables_that_are_missing_or_shared() -> Outcome {
    const FAR: u64 = PLACE + (1 << 30);
    let own = address_space::own();
    refused!(one(FAR, ZEROS, WRITABLE), NotMapped);
    make_tables()?;
    let mut rows = [row(PLACE, ZEROS, WRITABLE), row(FAR, ZEROS, WRITABLE)];
    let refusal = supply(&mut rows).err().ok_or("a page was mapped without a table")?;
    check!(refusal.error == runtime::Error::NotMapped && refusal.detail == 1, "it was refused by {refusal:?}");
    granted!(own.link_tables(FAR, false));
    granted!(supply(&mut rows[1..]));
    let table = granted!(level_one_of(PLACE));
    granted!(own.link_tables(FAR + (2 << 20), true));
    // SAFETY: nothing of the program lies there.
    granted!(unsafe { syscall::page_table_link(KEY, own.root, UserAddress(FAR + (2 << 20)), 1, table, KEY) });
    all_refused!(
        "in a shared table",
        Shared,
        [
            one(PLACE, ZEROS, WRITABLE),
            one(PLACE + PAGE_BYTES, ZEROS, WRITABLE),
            one(FAR + (2 << 20), page_in(&rows[0]), READABLE),
        ]
    );
    // Where two tables lie under one address after another, each row finds its own.
    granted!(one(FAR + PAGE_BYTES, ZEROS, WRITABLE));
    let second = exposed::environment(area::number()).and_then(|own| own.pages().next()).ok_or("no page")?;
    // SAFETY: as above.
    granted!(unsafe { syscall::page_table_unlink(KEY, own.root, UserAddress(FAR + (2 << 20)), 1) });
    granted!(syscall::page_table_copy(KEY, own.root, UserAddress(PLACE), 1, PageNumber::NONE, KEY));
    let mut again = [row(PLACE + PAGE_BYTES, page_in(&rows[0]), WRITABLE)];
    granted!(supply(&mut again));
    drop_page(FAR + PAGE_BYTES, second)?;
    [rows[0], rows[1], again[0]].iter().try_for_each(|row| drop_page(row.address & !0xfff, page_in(row)))?;
    // What was remembered of the table is not true of what lies in its page next.
    // SAFETY: as above.
    let gone = granted!(unsafe { syscall::page_table_unlink(KEY, own.root, UserAddress(PLACE), 1) });
    refused!(one(PLACE, ZEROS, WRITABLE), NotMapped);
    granted!(Allocator::own().free(gone));
    refused!(one(PLACE, ZEROS, WRITABLE), NotMapped);
    Ok(())
}

const ROUNDS: usize = 100;
const WATCHED: u64 = 10_000;

/// A thread on another CPU keeps writing through a mapping: as soon as a fresh page lies there, no write comes through
/// to the old one any more.
fn fault_09_stale_translation_on_another_cpu(_: &World) -> Outcome {
    if exposed::kernel().cpus.load(SeqCst) == 1 {
        return Ok(());
    }
    let writer = Writer::start()?;
    let own = Allocator::own();
    let page = granted!(own.allocate());
    granted!(map(PLACE + PAGE_BYTES, page.address() | WRITABLE));
    for round in 0..ROUNDS {
        granted!(map(PLACE, page.address() | WRITABLE));
        writer.writes_once_more()?;
        let mut rows = [row(PLACE, if round % 2 == 0 { page } else { ZEROS }, WRITABLE)];
        granted!(supply(&mut rows));
        runtime::memory::store(PLACE + PAGE_BYTES, 0);
        let clean = (0..WATCHED).all(|_| runtime::memory::load(PLACE + PAGE_BYTES) == 0);
        check!(clean, "round {round}: a write came through to the page that lay there");
        drop_page(PLACE, page_in(&rows[0]))?;
    }
    writer.end()?;
    drop_page(PLACE + PAGE_BYTES, page)
}

/// Status words of [`live_by_faults`]: pages that came by a fault, pages that were not what they should be,
/// repossessions.
const CAME: usize = 1;
const WRONG: usize = 2;
const TAKEN: usize = 3;
/// Pages that it walks over, and how many of them it names to be taken first.
const WALK: u64 = 64;
const NAMED: usize = 16;

/// Supplies the page that was touched, and names it to be taken before anything that this environment needs to live.
extern "C" fn supply_what_was_touched(context: &mut Context) {
    let address = context.frame.detail & !0xfff;
    if !(PLACE..PLACE + WALK * PAGE_BYTES).contains(&address) {
        runtime::entry::exit(runtime::entry::FAULT_STATUS);
    }
    let mut rows = [row(address, ZEROS, WRITABLE)];
    // What refuses it now may be over when it is touched again: pages come back, and tables are linked anew.
    if supply(&mut rows).is_err() {
        let _ = address_space::own().link_tables(address, false);
        return;
    }
    let came = Area::current().status(CAME).fetch_add(1, SeqCst);
    let private = Area::current().private();
    private.take_first[came as usize % NAMED].store(page_in(&rows[0]).0, SeqCst);
    private.take_first_count.store((came + 1).min(NAMED as u64), SeqCst);
}

extern "C" fn note_taken(_: &mut Context) {
    let area = Area::current();
    area.status(TAKEN).fetch_max(area.private().repossessed.load(SeqCst), SeqCst);
}

/// Walks over memory whose pages come by faults and are taken away again. Each word is what was written there, or zero.
extern "C" fn live_by_faults(_: u64) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, note_taken);
    }
    set_handler(kind::PAGE_FAULT, supply_what_was_touched);
    let area = Area::current();
    for round in 1.. {
        for address in (PLACE..PLACE + WALK * PAGE_BYTES).step_by(PAGE_BYTES as usize) {
            let word = runtime::memory::load(address + 8 * (address >> 12 & 511));
            if word != 0 && word != address ^ (round - 1) {
                area.status(WRONG).fetch_add(1, SeqCst);
            }
            runtime::memory::store(address + 8 * (address >> 12 & 511), address ^ round);
        }
        time_slice::yield_now();
    }
}

/// Pages that were supplied are taken by force between two calls of their owner: their entries are gone, they are told
/// of, and others come in their place.
fn fault_39_what_was_supplied_is_taken_by_force(world: &World) -> Outcome {
    const ASKED: u64 = 4;
    const TIMES: u64 = 40;
    let child = launch(prepare(world, live_by_faults, 0)?)?;
    check!(eventually(|| status(&child, CAME) >= WALK), "its pages do not come: {}", death(&child));
    for time in 1..=TIMES {
        let come = status(&child, CAME);
        granted!(syscall::revocation_request(KEY, child.number, Resource::Page as u64, ASKED, clock::now()));
        let enforce = || syscall::revocation_enforce(KEY, child.number);
        let is_over = eventually(|| match enforce() {
            Err(Failure { error: runtime::Error::Again, .. }) => {
                time_slice::yield_now();
                false
            }
            _ => true,
        });
        check!(is_over && child.alive(), "time {time}: {}", death(&child));
        check!(eventually(|| status(&child, CAME) > come || !child.alive()), "time {time}: nothing comes any more");
        check!(child.alive(), "time {time}: {}", death(&child));
        world.pages_add_up()?;
    }
    check!(status(&child, WRONG) == 0, "{} words were something else", status(&child, WRONG));
    check!(status(&child, TAKEN) > 0, "nothing was taken");
    granted!(child.destroy());
    Ok(())
}
