//! Rows that keep their pages or map them where nothing was, a few a call: the kernel remembers what allowed the last
//! ones, and nothing that holds no more.
//!
//! Each test makes the same call three times first: from the second on it takes the shortest way, where there is one
//! CPU.
#![no_std]
#![no_main]

extern crate alloc;

use abi::capability::Rights;
use abi::page_table::MapRow;
use abi::syscall::number;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::page::{self, Allocator};
use runtime::{Failure, KeyIndex, PageNumber, UserAddress, area, exposed, key, syscall, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{eventually, launch, prepare, status};
use test_programs::level_one_of;
use test_programs::{Outcome, World, attempt, check, granted, guest, refused};

guest! {
    Child rows_of_many_tables_change_what_they_name;
    Child pages_are_mapped_where_nothing_was;
    Child what_was_written_is_noted;
    Child rows_that_cannot_be_read;
    Child a_call_ends_at_the_row_that_is_refused;
    Child a_key_that_was_dropped_opens_nothing;
    Child a_right_that_was_taken_away_opens_nothing;
    Child a_page_of_another_list_does_not_become_writable;
    Child tables_that_are_shared_or_gone;
    Here what_one_environment_may_do_another_may_not;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// Places that share no table with anything else.
const PLACE: u64 = 0x200_0000_0000;
const OTHER: u64 = 0x280_0000_0000;
/// What a level-1 table covers.
const SPAN: u64 = 2 << 20;
/// Times that a call is made before it is tried.
const OFTEN: usize = 3;

fn fresh() -> Result<PageNumber, alloc::string::String> {
    Ok(granted!(Allocator::own().allocate()))
}

fn row(address: u64, page: PageNumber, access: Access) -> MapRow {
    MapRow { address: address | KEY.0, entry: page.address() | access.0 }
}

/// One call for these rows.
fn edit(key: KeyIndex, root: PageNumber, rows: &[MapRow]) -> Result<u64, Failure> {
    // SAFETY: no object of the program lies at the places of the tests.
    unsafe { syscall::page_map(key, root, UserAddress(rows.as_ptr() as u64), rows.len() as u64) }
}

/// The rows with both accesses in turn, as often as it takes; then with the first.
fn practise(key: KeyIndex, root: PageNumber, rows: &[MapRow]) -> Outcome {
    for access in [Access::READ, Access::WRITE].repeat(OFTEN).into_iter().chain([Access::READ]) {
        let rows: Vec<MapRow> =
            rows.iter().map(|row| MapRow { entry: row.entry & abi::page_table::PAGE | access.0, ..*row }).collect();
        check!(granted!(edit(key, root, &rows)) == rows.len() as u64, "not all rows were done");
    }
    Ok(())
}

fn is_writable(address: u64) -> bool {
    attempt!(["mov qword ptr [rdi], 7"], "rdi" = address).is_none()
}

fn rows_of_many_tables_change_what_they_name() -> Outcome {
    watch();
    let pages: Vec<PageNumber> = (0..20)
        .map(|_| Allocator::own().allocate())
        .collect::<Result<_, _>>()
        .map_err(|failure| alloc::format!("{failure:?}"))?;
    // In twenty tables, of which several have one place in what is remembered.
    let rows: Vec<MapRow> =
        pages.iter().zip(0..).map(|(page, index)| row(PLACE + index * (SPAN + 4096), *page, Access::WRITE)).collect();
    granted!(address_space::own().apply(&rows));
    for round in 0..4 {
        for some in rows.chunks(3) {
            practise(KEY, area::root(), some)?;
        }
        for (index, row) in rows.iter().enumerate().filter(|(index, _)| index % 4 != round) {
            check!(granted!(edit(KEY, area::root(), &[*row])) == 1, "round {round}: row {index} was not done");
        }
        for (index, row) in rows.iter().enumerate() {
            let (address, expected) = (row.address & !0xfff, index % 4 != round);
            check!(is_writable(address) == expected, "round {round}: row {index} is writable: {}", !expected);
        }
    }
    Ok(())
}

fn pages_are_mapped_where_nothing_was() -> Outcome {
    let first = fresh()?;
    granted!(address_space::own().apply(&[row(PLACE, first, Access::WRITE)]));
    practise(KEY, area::root(), &[row(PLACE, first, Access::READ)])?;
    // One in each eighth of the table but the first, two times three in a call.
    let mut pages = [first; 7];
    granted!(Allocator::own().allocate_many(&mut pages));
    let rows: Vec<MapRow> = pages
        .iter()
        .zip(1..)
        .map(|(page, eighth)| row(PLACE + eighth * 0x4_0000 + 4096, *page, Access::WRITE))
        .collect();
    for some in rows.chunks(3) {
        check!(granted!(edit(KEY, area::root(), some)) == some.len() as u64, "not all were mapped");
    }
    let record = |page: &PageNumber| exposed::page(*page);
    let is_bound = |page: &PageNumber| {
        record(page).is_some_and(|info| info.references() == 1 && info.flags() & abi::page::ZEROED == 0)
    };
    check!(pages.iter().all(is_bound), "what is exposed of a page that was mapped is wrong");
    let uses: Vec<u64> = pages.iter().filter_map(record).map(|info| info.last_use.load(SeqCst)).collect();
    check!(uses.is_sorted_by(|left, right| left < right), "last uses {uses:?} do not tell the order");
    watch();
    check!(rows.iter().all(|row| is_writable(row.address & !0xfff)), "a page that was mapped cannot be written");
    refuse_bad_entries(first)?;
    // Emptying the table finds them all.
    // SAFETY: nothing of the program lies there.
    granted!(unsafe { syscall::page_table_unlink(KEY, area::root(), UserAddress(PLACE), 1) });
    let left: u64 = pages.iter().filter_map(record).map(|info| info.references()).sum();
    check!(left == 0, "{left} references are left after the table is gone");
    Ok(())
}

/// Entries that no caller may make, for a place where nothing is mapped, together with those that were just made.
fn refuse_bad_entries(page: PageNumber) -> Outcome {
    let place = PLACE + 0x9000;
    let try_entry = |key: KeyIndex, entry: u64| edit(KEY, area::root(), &[MapRow { address: place | key.0, entry }]);
    let own = exposed::environment(area::number()).ok_or("no record")?;
    for number in [own.control.load(SeqCst), own.key_ring.load(SeqCst), area::root().0, Allocator::own().list.0] {
        check!(try_entry(KEY, number << 12 | Access::WRITE.0).is_err(), "page {number} of the kernel's was mapped");
    }
    let beyond = exposed::kernel().pages.load(SeqCst);
    refused!(try_entry(KEY, beyond << 12 | Access::READ.0), NoSuchPage);
    refused!(try_entry(KEY, (1 << 40) - 1 << 12 | Access::READ.0), NoSuchPage);
    refused!(try_entry(KeyIndex::WELL_KNOWN, page.address() | Access::READ.0), NotPermitted);
    refused!(try_entry(KeyIndex(43), page.address() | Access::READ.0), NoSuchKey);
    for bit in (0..64).filter(|bit| abi::page_table::ALLOWED & 1 << bit == 0) {
        check!(try_entry(KEY, page.address() | Access::READ.0 | 1 << bit).is_err(), "bit {bit} was set");
    }
    let creators = exposed::environment(abi::EnvironmentId(own.creator.load(SeqCst))).ok_or("no creator")?;
    let is_strange = |page: &PageNumber| {
        exposed::page(*page).is_some_and(|info| {
            info.kind() == runtime::page::PageKind::Ordinary && info.access() != Allocator::own().list
        })
    };
    let strange = creators.pages().find(is_strange).ok_or("the creator has no pages of its own")?;
    refused!(try_entry(KEY, strange.address() | Access::READ.0), NotPermitted);
    let free = (0..beyond)
        .rev()
        .map(PageNumber)
        .find(|page| exposed::page(*page).is_some_and(|info| info.kind() == runtime::page::PageKind::Free));
    check!(
        try_entry(KEY, free.ok_or("no page is free")?.address() | Access::READ.0).is_err(),
        "a free page was mapped"
    );
    check!(attempt!(["mov rax, [rdi]"], "rdi" = place).is_some(), "something is mapped after all");
    Ok(())
}

fn what_was_written_is_noted() -> Outcome {
    let page = fresh()?;
    granted!(address_space::own().apply(&[row(PLACE, page, Access::WRITE)]));
    practise(KEY, area::root(), &[row(PLACE, page, Access::READ)])?;
    let is_dirty = || exposed::page(page).is_some_and(|info| info.flags() & abi::page::DIRTY != 0);
    check!(!is_dirty(), "nothing was written");
    granted!(edit(KEY, area::root(), &[row(PLACE, page, Access::WRITE)]));
    watch();
    check!(is_writable(PLACE), "it was not made writable");
    granted!(edit(KEY, area::root(), &[row(PLACE, page, Access::READ)]));
    check!(is_dirty(), "what was written through an entry that is gone was not noted");
    check!(!is_writable(PLACE), "it is writable still");
    Ok(())
}

fn rows_that_cannot_be_read() -> Outcome {
    let page = fresh()?;
    granted!(address_space::own().apply(&[row(PLACE, page, Access::WRITE)]));
    practise(KEY, area::root(), &[row(PLACE, page, Access::READ)])?;
    watch();
    // Two rows of which the second lies beyond what is mapped.
    for (address, fault) in [
        (0x1000, 0x1000),
        (PLACE + 4096 - 16, PLACE + 4096),
        (abi::memory_map::USER_END - 16, abi::memory_map::USER_END - 16),
    ] {
        if address == PLACE + 4096 - 16 {
            granted!(edit(KEY, area::root(), &[row(PLACE, page, Access::WRITE)]));
            let text = row(PLACE, page, Access::WRITE);
            let address_word = text.address;
            check!(
                attempt!(
                    ["mov [rdi], rsi", "mov [rdi + 8], rdx"],
                    "rdi" = address,
                    "rsi" = address_word,
                    "rdx" = text.entry
                )
                .is_none(),
                "the row cannot be written"
            );
        }
        let count = if address == PLACE + 4096 - 16 { 2u64 } else { 1 };
        let raised = attempt!(
            ["mov r10, rcx", "syscall"],
            "rax" = number::page_map,
            "rdi" = KEY.0,
            "rsi" = area::root().0,
            "rdx" = address,
            "rcx" = count
        );
        check!(raised.is_some_and(|frame| frame.detail == fault), "rows at {address:#x} raised {raised:?}");
    }
    for address in [abi::memory_map::USER_END, u64::MAX - 15, 1 << 47, abi::memory_map::KERNEL_IMAGE] {
        // SAFETY: refused.
        refused!(unsafe { syscall::page_map(KEY, area::root(), UserAddress(address), 1) }, BadAddress);
    }
    Ok(())
}

fn a_call_ends_at_the_row_that_is_refused() -> Outcome {
    let page = fresh()?;
    let good = row(PLACE, page, Access::WRITE);
    granted!(address_space::own().apply(&[good, row(PLACE + 4096, page, Access::READ)]));
    practise(KEY, area::root(), &[row(PLACE, page, Access::READ)])?;
    let kernels = PageNumber(exposed::environment(area::number()).map_or(0, |info| info.control.load(SeqCst)));
    for bad in [row(PLACE + 4096, kernels, Access::READ), row(abi::memory_map::EXPOSED, page, Access::READ)] {
        let failure = edit(KEY, area::root(), &[good, good, bad, good]).err().ok_or("a bad row was done")?;
        check!(failure.detail == 2, "it ended at row {}", failure.detail);
    }
    let stranger = MapRow { address: PLACE + 4096 | KeyIndex::WELL_KNOWN.0, ..good };
    refused!(edit(KEY, area::root(), &[stranger]), NotPermitted);
    watch();
    check!(!is_writable(PLACE + 4096), "the key of another row was used");
    refused!(edit(KEY, area::root(), &[good; 129]), TooMany);
    check!(granted!(edit(KEY, area::root(), &[])) == 0, "no rows were some");
    Ok(())
}

fn a_key_that_was_dropped_opens_nothing() -> Outcome {
    let page = fresh()?;
    granted!(address_space::own().apply(&[row(PLACE, page, Access::WRITE)]));
    let slot = granted!(key::reserve_slot());
    let rights = u64::from(Rights::ALL.0);
    granted!(syscall::key_copy(KEY, rights, area::number(), slot, KEY));
    let rows = [MapRow { address: PLACE | slot.0, entry: 0 }].map(|row| MapRow { entry: page.address(), ..row });
    practise(slot, area::root(), &rows)?;
    granted!(syscall::key_drop(area::number(), slot, KEY));
    refused!(edit(slot, area::root(), &[row(PLACE, page, Access::READ)]), NoSuchKey);
    practise(KEY, area::root(), &[row(PLACE, page, Access::READ)])?;
    let widened = MapRow { address: PLACE | slot.0, entry: page.address() | Access::WRITE.0 };
    refused!(edit(KEY, area::root(), &[widened]), NoSuchKey);
    Ok(())
}

fn a_right_that_was_taken_away_opens_nothing() -> Outcome {
    let own = Allocator::own();
    let list = fresh()?;
    granted!(page::become_list(KEY, list, KEY));
    let space = granted!(AddressSpace::create(Allocator { key: KEY, list }));
    let page = fresh()?;
    granted!(space.apply(&[row(PLACE, page, Access::WRITE)]));
    practise(KEY, space.root, &[row(PLACE, page, Access::READ)])?;
    // Everything but the right to write.
    let rest = u64::from(Rights::READ.either(Rights::OWN).0);
    granted!(syscall::access_list_set(KEY, list, 1, KEY, rest));
    granted!(syscall::access_list_set(KEY, list, 0, KEY, 0));
    refused!(edit(KEY, space.root, &[row(PLACE, page, Access::READ)]), NotPermitted);
    granted!(own.free(space.root));
    check!(edit(KEY, space.root, &[row(PLACE, page, Access::READ)]).is_err(), "a root that is gone was edited");
    Ok(())
}

fn a_page_of_another_list_does_not_become_writable() -> Outcome {
    let lists = [fresh()?, fresh()?];
    for list in lists {
        granted!(page::become_list(KEY, list, KEY));
    }
    let page = granted!(Allocator { key: KEY, list: lists[0] }.allocate());
    granted!(address_space::own().apply(&[row(PLACE, page, Access::WRITE)]));
    practise(KEY, area::root(), &[row(PLACE, page, Access::READ)])?;
    let but_write = u64::from(Rights::READ.either(Rights::OWN).0);
    granted!(syscall::page_claim(KEY, page, KEY, lists[1]));
    granted!(syscall::access_list_set(KEY, lists[1], 1, KEY, but_write));
    granted!(syscall::access_list_set(KEY, lists[1], 0, KEY, 0));
    // What is granted is remembered again, for a page of the first list, in the same table.
    let neighbour = granted!(Allocator { key: KEY, list: lists[0] }.allocate());
    granted!(address_space::own().apply(&[row(PLACE + 4096, neighbour, Access::WRITE)]));
    practise(KEY, area::root(), &[row(PLACE + 4096, neighbour, Access::READ)])?;
    refused!(edit(KEY, area::root(), &[row(PLACE, page, Access::WRITE)]), NotPermitted);
    watch();
    check!(!is_writable(PLACE), "a page became writable by a right on others");
    Ok(())
}

fn tables_that_are_shared_or_gone() -> Outcome {
    let page = fresh()?;
    let rows = [row(PLACE, page, Access::READ)];
    granted!(address_space::own().apply(&rows));
    granted!(address_space::own().link_tables(OTHER, true));
    practise(KEY, area::root(), &rows)?;
    let table = granted!(level_one_of(PLACE));
    // SAFETY: nothing of the program lies at these places.
    let link =
        |address, table| unsafe { syscall::page_table_link(KEY, area::root(), UserAddress(address), 1, table, KEY) };
    // SAFETY: as above.
    let unlink = |address| unsafe { syscall::page_table_unlink(KEY, area::root(), UserAddress(address), 1) };
    granted!(link(OTHER, table));
    refused!(edit(KEY, area::root(), &rows), Shared);
    granted!(unlink(OTHER));
    let copied = syscall::page_table_copy(KEY, area::root(), UserAddress(PLACE), 1, fresh()?, KEY);
    check!(granted!(copied) == 0, "the last link needed a page");
    practise(KEY, area::root(), &rows)?;
    granted!(unlink(PLACE));
    refused!(edit(KEY, area::root(), &rows), NotMapped);
    // The page of the table holds ordinary data now.
    granted!(address_space::own().apply(&[row(OTHER + SPAN, table, Access::WRITE)]));
    refused!(edit(KEY, area::root(), &rows), NotMapped);
    Ok(())
}

/// Tries to do with its creator's address space what its creator does.
extern "C" fn imitate(row: u64) {
    let area = Area::current();
    let creator = exposed::environment(area::number()).map_or(0, |info| info.creator.load(SeqCst));
    let root = exposed::environment(abi::EnvironmentId(creator)).map_or(0, |info| info.root.load(SeqCst));
    // SAFETY: the creator passed the address of a row in the image that both have.
    let wanted = unsafe { &*(row as *const MapRow) };
    let mut answers = [0; 2];
    area.status(1).store(1, SeqCst);
    for (round, answer) in (2..).zip(&mut answers) {
        time_slice::yield_now();
        let outcome = edit(KEY, PageNumber(root), &[*wanted]);
        *answer = outcome.map_or_else(|failure| failure.error as u64, |_| u64::MAX);
        area.status(1).store(round, SeqCst);
    }
    area.status(2).store(answers[0], SeqCst);
    area.status(3).store(answers[1], SeqCst);
    area.status(1).store(9, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

fn what_one_environment_may_do_another_may_not(world: &World) -> Outcome {
    let page = fresh()?;
    let wanted = alloc::boxed::Box::leak(alloc::boxed::Box::new(row(PLACE, page, Access::READ)));
    granted!(address_space::own().apply(&[*wanted]));
    let shown = fresh()?;
    let window = granted!(runtime::window::Window::open(&[shown], KEY, Access::WRITE));
    window.words()[0].store(wanted.address, SeqCst);
    window.words()[1].store(wanted.entry, SeqCst);
    let mut builder = prepare(world, imitate, OTHER)?;
    granted!(builder.show(OTHER, &[shown], Access::READ));
    let child = launch(builder)?;
    check!(eventually(|| status(&child, 1) >= 1), "the child does not run");
    while status(&child, 1) != 9 {
        practise(KEY, area::root(), &[*wanted])?;
        let _ = time_slice::yield_to(child.number);
    }
    let refusal = abi::Error::NotPermitted as u64;
    check!(
        [status(&child, 2), status(&child, 3)] == [refusal; 2],
        "the child's calls gave {} and {}",
        status(&child, 2),
        status(&child, 3)
    );
    granted!(child.destroy());
    Ok(())
}
