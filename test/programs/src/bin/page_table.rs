//! Page tables: shared ones are immutable, copies are checked, tables are readable and never writable.
#![no_std]
#![no_main]

extern crate alloc;

use abi::area::PRIVATE;
use abi::capability::Rights;
use abi::environment::Specification;
use abi::page_table::{
    CACHE_DISABLE, LARGE, MapRow, NO_EXECUTE, PAGE, PRESENT, PROTECTION_KEY, SOFTWARE, USER, WRITE, WRITE_THROUGH,
};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::page::{self, Allocator, PageKind};
use runtime::window::Window;
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, area, context, exposed, key, syscall};
use test_programs::attempt::watch;
use test_programs::{Outcome, World, attempt, check, granted, guest, refused};
use test_programs::{free_large_page, level_one_of};

guest! {
    Child a_table_is_linked_and_unlinked;
    Child a_table_can_be_read;
    Child every_bit_of_an_entry_is_kept;
    Child a_protection_key_of_an_entry_holds;
    Child a_shared_table_is_immutable_until_copied;
    Child a_copy_is_checked_entry_by_entry;
    Child a_full_table_is_copied_whole;
    Child a_copy_that_was_begun_for_nothing_is_given_up;
    Child a_table_given_up_is_freed_with_its_last_link;
    Child a_claimed_table_is_linked_by_the_keys_of_its_new_list;
    Child a_large_page_maps_its_whole;
    Child another_address_space_of_ones_own;
    Child a_page_is_unbound_by_force;
    Child fault_05_table_mapped_writable;
    Child fault_06_link_at_a_wrong_level;
    Child fault_08_root_given_up_while_mapped;
    Child fault_154_no_table_with_private_pages_is_shared;
    Child fault_154_a_reader_takes_no_table_from_its_owner;
    Here fault_154_no_area_begins_in_a_shared_table;
    Here pages_of_two_megabytes;
}

/// Places that share no table with anything else.
const PLACE: u64 = 0x200_0000_0000;
const OTHER: u64 = 0x280_0000_0000;
/// What a level-1 table covers.
const SPAN: u64 = 2 << 20;
const KEY: KeyIndex = KeyIndex::FIRST;

fn map(address: u64, entry: u64) -> Result<(), Failure> {
    address_space::own().apply(&[MapRow { address: address | KEY.0, entry }])
}

fn link(address: u64, level: u64, table: PageNumber) -> Result<(), Failure> {
    // SAFETY: the places that the tests use hold nothing of the program.
    unsafe { syscall::page_table_link(KEY, area::root(), UserAddress(address), level, table, KEY) }
}

fn unlink(address: u64, level: u64) -> Result<PageNumber, Failure> {
    // SAFETY: as for `link`.
    unsafe { syscall::page_table_unlink(KEY, area::root(), UserAddress(address), level) }
}

fn copy(address: u64, level: u64, fresh: PageNumber, key: KeyIndex) -> Result<u64, Failure> {
    syscall::page_table_copy(KEY, area::root(), UserAddress(address), level, fresh, key)
}

fn fresh() -> Result<PageNumber, alloc::string::String> {
    Ok(granted!(Allocator::own().allocate()))
}

fn a_claimed_table_is_linked_by_the_keys_of_its_new_list() -> Outcome {
    let [old, new] = [granted!(key::derive(KEY, Rights::ALL, 0)), granted!(key::derive(KEY, Rights::ALL, 0))];
    let lists = [fresh()?, fresh()?];
    for (list, key) in lists.into_iter().zip([old, new]) {
        granted!(page::become_list(KEY, list, key));
    }
    let table = granted!(Allocator { key: KEY, list: lists[0] }.allocate());
    granted!(link(PLACE, 3, table));
    let link_by = |key: KeyIndex| {
        // SAFETY: as for `link`.
        unsafe { syscall::page_table_link(KEY, area::root(), UserAddress(OTHER), 3, table, key) }
    };
    refused!(link_by(new), NotPermitted);
    refused!(syscall::page_claim(new, table, new, lists[1]), NotPermitted);
    refused!(syscall::page_claim(old, table, old, lists[1]), NotPermitted);
    refused!(syscall::page_claim(KEY, lists[0], new, lists[1]), WrongKind);
    // Given up while it is linked: it stays what it is until its last link goes, under the list that it was put under.
    granted!(syscall::page_free(old, table));
    granted!(syscall::page_claim(old, table, new, lists[1]));
    check!(exposed::page(table).map(|info| info.access()) == Some(lists[1]), "the table is not under the new list");
    check!(exposed::page(table).is_some_and(|info| info.is_orphan()), "the claim made something else of an orphan");
    refused!(link_by(old), NotPermitted);
    granted!(link_by(new));
    granted!(unlink(OTHER, 3));
    granted!(unlink(PLACE, 3));
    check!(exposed::page(table).is_some_and(|info| info.kind() == PageKind::Free), "the table is not free");
    check!(Allocator::own().free_many(&lists) == 2, "pages are under the lists");
    granted!(key::discard(old));
    granted!(key::discard(new));
    Ok(())
}

/// Frees what was built at an address: tables of levels 1 to 3.
fn clear(address: u64) -> Outcome {
    for level in 1..=3 {
        let table = granted!(unlink(address, level));
        granted!(Allocator::own().free(table));
    }
    Ok(())
}

fn word(address: u64) -> u64 {
    // SAFETY: the tests read only where they have mapped a page.
    unsafe { (address as *const u64).read_volatile() }
}

fn set_word(address: u64, value: u64) {
    // SAFETY: the tests write only where they have mapped a page.
    unsafe { (address as *mut u64).write_volatile(value) };
}

fn a_table_is_linked_and_unlinked() -> Outcome {
    let tables = [fresh()?, fresh()?, fresh()?];
    refused!(link(PLACE, 1, tables[0]), NotMapped);
    refused!(link(PLACE, 2, tables[0]), NotMapped);
    for (level, table) in [(3, tables[2]), (2, tables[1]), (1, tables[0])] {
        granted!(link(PLACE, level, table));
        let info = exposed::page(table).ok_or("no record")?;
        check!((info.kind(), info.level(), info.links()) == (PageKind::PageTable, level, 1), "{table:?} is no table");
    }
    let parent = exposed::page(tables[0]).and_then(exposed::Page::parent);
    check!(parent.map(|(page, _)| page) == Some(tables[1]), "the exposed parent is {parent:?}");
    refused!(link(PLACE, 1, fresh()?), NotFree);
    refused!(unlink(PLACE, 3), InUse);
    clear(PLACE)
}

fn a_table_can_be_read() -> Outcome {
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    let mut table = area::root();
    for level in (1..=4).rev() {
        let window = granted!(Window::open(&[table], KEY, Access::READ));
        let index = (PLACE >> (12 + 9 * (level - 1)) & 511) as usize;
        let entry = window.words()[index].load(Relaxed);
        check!(entry & PRESENT != 0, "the table of level {level} shows no entry: {entry:#x}");
        table = PageNumber((entry & PAGE) >> 12);
    }
    check!(table == page, "the walk ended at {table:?}, not {page:?}");
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    clear(PLACE)
}

/// Software bits, cache bits, the protection key: what was asked for stands in the table, and nothing else.
fn every_bit_of_an_entry_is_kept() -> Outcome {
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::READ.0));
    let window = granted!(Window::open(&[granted!(level_one_of(PLACE))], KEY, Access::READ));
    let entry = &window.words()[(PLACE >> 12 & 511) as usize];
    let no_execute = if exposed::has(abi::feature::NX) { NO_EXECUTE } else { 0 };
    let all = WRITE | WRITE_THROUGH | CACHE_DISABLE | SOFTWARE | PROTECTION_KEY | no_execute;
    let bits = (0..64).map(|bit| 1 << bit).filter(|bit| all & bit != 0).chain([all, 0]);
    for asked in bits {
        granted!(map(PLACE, page.address() | PRESENT | asked));
        let found = entry.load(Relaxed);
        let wanted = page.address() | PRESENT | USER | asked;
        check!(found == wanted, "asked for {asked:#x}, the entry is {found:#x}");
    }
    for asked in (0..64).map(|bit| 1 << bit).filter(|bit| SOFTWARE & bit != 0) {
        granted!(map(PLACE, asked));
        check!(entry.load(Relaxed) == asked, "asked for {asked:#x} alone, the entry is {:#x}", entry.load(Relaxed));
    }
    granted!(map(PLACE, 0));
    drop(window);
    granted!(Allocator::own().free(page));
    clear(PLACE)
}

/// The protection key of an entry takes from its user what the PKRU of the moment forbids, and no more.
fn a_protection_key_of_an_entry_holds() -> Outcome {
    const OURS: u64 = 5;
    const NO_ACCESS: u32 = 1 << (2 * OURS);
    const NO_WRITE: u32 = 2 << (2 * OURS);
    if !exposed::has(abi::feature::PKU) {
        refused!(context::set_protection_keys(true), BadArgument);
        return Ok(());
    }
    watch();
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0 | OURS << 59));
    set_word(PLACE, 77);
    granted!(context::set_protection_keys(true));
    for (forbidden, read, write) in [(0, None, None), (NO_WRITE, None, Some(0x27)), (NO_ACCESS, Some(0x25), Some(0x27))]
    {
        let reading =
            attempt!(["xor ecx, ecx", "xor edx, edx", "wrpkru", "mov rax, [rdi]"], "eax" = forbidden, "rdi" = PLACE);
        let writing =
            attempt!(["xor ecx, ecx", "xor edx, edx", "wrpkru", "mov [rdi], rdi"], "eax" = forbidden, "rdi" = PLACE);
        // SAFETY: everything is open again.
        unsafe { core::arch::asm!("wrpkru", in("eax") 0, in("ecx") 0, in("edx") 0, options(nostack)) };
        let errors = [reading, writing].map(|raised| raised.map(|frame| frame.error));
        check!(errors == [read, write], "with {forbidden:#x} in PKRU: {errors:x?}");
    }
    granted!(context::set_protection_keys(false));
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    clear(PLACE)
}

fn a_shared_table_is_immutable_until_copied() -> Outcome {
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    set_word(PLACE, 42);
    let table = granted!(level_one_of(PLACE));
    granted!(address_space::own().link_tables(OTHER, true));
    granted!(link(OTHER, 1, table));
    check!(exposed::page(table).map(|info| info.links()) == Some(2), "the table does not show two links");
    check!(word(OTHER) == 42, "the shared table shows {} at the other place", word(OTHER));
    refused!(map(PLACE, 0), Shared);
    refused!(map(OTHER + 0x1000, page.address() | Access::READ.0), Shared);
    watch();
    for place in [PLACE, OTHER] {
        let raised = attempt!(["mov [rdi], rax"], "rdi" = place);
        check!(raised.is_some_and(|frame| frame.error == 7), "writing through a shared table raised {raised:?}");
    }
    let own = fresh()?;
    check!(granted!(copy(PLACE, 1, own, KEY)) == 1, "the fresh page was not used");
    set_word(PLACE, 43);
    check!(word(OTHER) == 43, "both still lead to the same page");
    check!(granted!(copy(OTHER, 1, PageNumber::NONE, KEY)) == 0, "the last link needed a page");
    set_word(OTHER, 44);
    check!(word(PLACE) == 44, "both still lead to the same page");
    granted!(map(PLACE, 0));
    granted!(map(OTHER, 0));
    clear(PLACE)?;
    clear(OTHER)?;
    granted!(Allocator::own().free(page));
    Ok(())
}

/// A full table is copied in several steps; between two of them its other link may go, so that no copy is needed.
fn a_copy_that_was_begun_for_nothing_is_given_up() -> Outcome {
    // What is no ordinary page is copied one entry at a time.
    let page = area::root();
    let rows: alloc::vec::Vec<MapRow> = (0..512)
        .map(|index| MapRow { address: PLACE + index * 4096 | KEY.0, entry: page.address() | Access::READ.0 })
        .collect();
    granted!(address_space::own().apply(&rows));
    let table = granted!(level_one_of(PLACE));
    granted!(address_space::own().link_tables(OTHER, true));
    granted!(link(OTHER, 1, table));
    let copied = fresh()?;
    // Nearly to the end: every step takes as little as the first.
    for _ in 0..20 {
        refused!(copy(PLACE, 1, copied, KEY), Again);
    }
    let kind = exposed::page(copied).map(|info| info.kind());
    check!(kind == Some(PageKind::PageTable), "the copy that was begun is {kind:?}");
    check!(granted!(unlink(OTHER, 1)) == table, "another table was unlinked");
    check!(granted!(copy(PLACE, 1, copied, KEY)) == 0, "the last link needed a page");
    granted!(Allocator::own().free(copied));
    let kind = exposed::page(copied).map(|info| info.kind());
    check!(kind == Some(PageKind::Free), "the copy given up is {kind:?}");
    let empty: alloc::vec::Vec<MapRow> = rows.iter().map(|row| MapRow { entry: 0, ..*row }).collect();
    granted!(address_space::own().apply(&empty));
    clear(PLACE)?;
    for level in 2..=3 {
        let table = granted!(unlink(OTHER, level));
        granted!(Allocator::own().free(table));
    }
    Ok(())
}

/// Relatives that share tables need not agree on who gives them up last.
fn a_table_given_up_is_freed_with_its_last_link() -> Outcome {
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    set_word(PLACE, 42);
    let table = granted!(level_one_of(PLACE));
    granted!(address_space::own().link_tables(OTHER, true));
    granted!(link(OTHER, 1, table));
    granted!(Allocator::own().free(table));
    let info = exposed::page(table).ok_or("no record")?;
    check!(info.is_orphan() && info.kind() == PageKind::PageTable, "the table is {:?}", info.kind());
    refused!(Allocator::own().free(table), WrongKind);
    check!(word(OTHER) == 42, "the table that was given up shows {}", word(OTHER));
    granted!(unlink(PLACE, 1));
    check!(info.links() == 1 && info.is_orphan(), "the table went with the first of two links");
    check!(word(OTHER) == 42, "with one link the table shows {}", word(OTHER));
    granted!(unlink(OTHER, 1));
    check!(info.kind() == PageKind::Free, "without a link the table is {:?}", info.kind());
    for address in [PLACE, OTHER] {
        for level in 2..=3 {
            let table = granted!(unlink(address, level));
            granted!(Allocator::own().free(table));
        }
    }
    granted!(Allocator::own().free(page));
    Ok(())
}

/// The level-1 table on the way to an address, by the exposed records.
fn a_copy_is_checked_entry_by_entry() -> Outcome {
    let reader = granted!(key::derive(KEY, Rights::ALL, 0));
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    let table = granted!(level_one_of(PLACE));
    granted!(address_space::own().link_tables(OTHER, true));
    granted!(link(OTHER, 1, table));
    let own = fresh()?;
    check!(copy(OTHER, 1, own, reader).is_err(), "a key without rights on the pages copied the table");
    check!(copy(OTHER, 1, own, KeyIndex::WELL_KNOWN).is_err(), "the well-known name copied the table");
    granted!(copy(OTHER, 1, own, KEY));
    granted!(copy(PLACE, 1, PageNumber::NONE, KEY));
    clear(PLACE)?;
    clear(OTHER)?;
    granted!(Allocator::own().free(page));
    granted!(key::discard(reader));
    Ok(())
}

/// Whatever its entries are: of pages to read and to write in turn, with some places empty, in as many steps as it
/// takes.
fn a_full_table_is_copied_whole() -> Outcome {
    let pages = [fresh()?, fresh()?, fresh()?];
    let entry = |index: usize| match index % 7 {
        6 => None,
        kind => Some(pages[kind % 3].address() | if kind % 2 == 0 { Access::READ.0 } else { Access::WRITE.0 }),
    };
    let rows = |with: fn(u64) -> u64| {
        let row = move |index: usize| {
            let address = PLACE + index as u64 * 4096 | KEY.0;
            entry(index).map(|entry| MapRow { address, entry: with(entry) })
        };
        (0..512).filter_map(row).collect::<alloc::vec::Vec<_>>()
    };
    granted!(address_space::own().apply(&rows(|entry| entry)));
    for (index, page) in (1..).zip(pages) {
        granted!(map(OTHER, page.address() | Access::WRITE.0));
        set_word(OTHER, index);
    }
    granted!(map(OTHER, 0));
    clear(OTHER)?;
    let table = granted!(level_one_of(PLACE));
    granted!(address_space::own().link_tables(OTHER, true));
    granted!(link(OTHER, 1, table));
    let own = fresh()?;
    let mut steps = 1;
    while copy(OTHER, 1, own, KEY).is_err_and(|failure| failure.error == Error::Again) {
        steps += 1;
    }
    check!(steps > 1, "a full table was copied in one step");
    let wanted = granted!(words_of(table));
    check!(granted!(words_of(own)) == wanted, "the copy is another table");
    check!(exposed::page(table).map(|info| info.links()) == Some(1), "the table is still shared");
    let references = |page: &PageNumber| exposed::page(*page).map_or(0, |info| info.references());
    check!(
        pages.iter().map(references).sum::<u64>() == 2 * (0..512).filter_map(entry).count() as u64,
        "entries are not counted"
    );
    granted!(copy(PLACE, 1, PageNumber::NONE, KEY));
    let empty = rows(|_| 0);
    granted!(address_space::own().apply(&empty));
    let there: alloc::vec::Vec<MapRow> =
        empty.iter().map(|row| MapRow { address: row.address - PLACE + OTHER, ..*row }).collect();
    granted!(address_space::own().apply(&there));
    clear(PLACE)?;
    clear(OTHER)?;
    for page in pages {
        check!(references(&page) == 0, "a page is still mapped");
        granted!(Allocator::own().free(page));
    }
    Ok(())
}

/// The entries of a table, without what the CPU notes in them.
fn words_of(table: PageNumber) -> Result<alloc::vec::Vec<u64>, Failure> {
    const NOTED: u64 = abi::page_table::ACCESSED | abi::page_table::DIRTY;
    let window = Window::open(&[table], KEY, Access::READ)?;
    Ok(window.words().iter().map(|word| word.load(Relaxed) & !NOTED).collect())
}

fn a_large_page_maps_its_whole() -> Outcome {
    let beyond = exposed::kernel().pages.load(Relaxed) & !511;
    for entry in [beyond << 12, (beyond + 512) << 12, 0] {
        check!(map(PLACE, entry | Access::READ.0 | LARGE).is_err(), "2 MiB from {entry:#x} could be mapped");
    }
    refused!(map(PLACE + 0x1000, Access::READ.0 | LARGE), BadAddress);
    Ok(())
}

/// The first environment has enough to own two aligned megabytes.
fn pages_of_two_megabytes(_: &World) -> Outcome {
    let own = Allocator::own();
    let start = free_large_page().ok_or("no 2 MiB are free")?.0;
    for page in start..start + 512 {
        granted!(own.allocate_this(PageNumber(page)));
    }
    granted!(map(PLACE, start << 12 | Access::WRITE.0 | LARGE));
    for offset in (0..2 << 20).step_by(0x1_1000) {
        set_word(PLACE + offset, offset ^ 0x5555);
    }
    check!((0..2 << 20).step_by(0x1_1000).all(|offset| word(PLACE + offset) == offset ^ 0x5555), "2 MiB do not hold");
    check!(exposed::page(PageNumber(start + 77)).map(|info| info.references()) == Some(1), "a part shows no reference");
    refused!(map(PLACE + 0x3000, (start << 12) | Access::READ.0), NotMapped);
    granted!(own.free(PageNumber(start + 77)));
    check!(
        exposed::page(PageNumber(start + 77)).map(|info| info.kind()) != Some(PageKind::Free),
        "a mapped part is free"
    );
    granted!(map(PLACE, LARGE));
    check!(
        exposed::page(PageNumber(start + 77)).map(|info| info.kind()) == Some(PageKind::Free),
        "the part is not free"
    );
    for page in (start..start + 512).filter(|page| *page != start + 77) {
        granted!(own.free(PageNumber(page)));
    }
    for level in 2..=3 {
        granted!(own.free(granted!(unlink(PLACE, level))));
    }
    Ok(())
}

fn another_address_space_of_ones_own() -> Outcome {
    let own = address_space::own();
    let other = granted!(AddressSpace::create(Allocator::own()));
    refused!(
        // SAFETY: refused.
        unsafe { syscall::address_space_switch(KeyIndex::WELL_KNOWN, other.root) },
        NotPermitted
    );
    // SAFETY: refused: a page that is no root.
    refused!(unsafe { syscall::address_space_switch(KEY, own.tables.list) }, WrongKind);
    // SAFETY: the program stays where it is: it is its own root.
    granted!(unsafe { syscall::address_space_switch(KEY, own.root) });
    let page = fresh()?;
    granted!(other.apply(&[MapRow { address: PLACE | KEY.0, entry: page.address() | PRESENT | WRITE }]));
    watch();
    check!(attempt!(["mov rax, [rdi]"], "rdi" = PLACE).is_some(), "a mapping of another address space shows here");
    granted!(other.apply(&[MapRow { address: PLACE, entry: 0 }]));
    for level in 1..=3 {
        // SAFETY: nobody runs in this address space.
        let table = granted!(unsafe { syscall::page_table_unlink(KEY, other.root, UserAddress(PLACE), level) });
        granted!(Allocator::own().free(table));
    }
    granted!(Allocator::own().free(page));
    granted!(Allocator::own().free(other.root));
    Ok(())
}

/// The right to edit a root ends with the root.
fn fault_08_root_given_up_while_mapped() -> Outcome {
    let root = fresh()?;
    granted!(page::become_root(KEY, root));
    let window = granted!(Window::open(&[root], KEY, Access::READ));
    let row = MapRow { address: PLACE, entry: 0 };
    // SAFETY: nobody runs in this address space, and the row is refused.
    let edit = || unsafe { syscall::page_map(KEY, root, UserAddress(&raw const row as u64), 1) };
    refused!(edit(), NotMapped);
    granted!(Allocator::own().free(root));
    check!(exposed::page(root).map(|info| info.kind()) == Some(PageKind::Ordinary), "it is a root still");
    refused!(edit(), WrongKind);
    drop(window);
    Ok(())
}

fn a_page_is_unbound_by_force() -> Outcome {
    let page = fresh()?;
    let places = [PLACE, PLACE + 0x7000, PLACE + (3 << 30), OTHER];
    for place in places {
        granted!(map(place, page.address() | Access::WRITE.0));
    }
    let mut cursor = 0;
    // SAFETY: the page holds nothing of the program.
    while let Err(failure) = unsafe { syscall::page_unbind(KEY, page, area::root(), UserAddress(cursor)) } {
        check!(failure.error == abi::Error::Again && failure.detail > cursor, "after {cursor:#x}: {failure:?}");
        cursor = failure.detail;
    }
    check!(exposed::page(page).map(|info| info.references()) == Some(0), "references are left");
    watch();
    for place in places {
        check!(attempt!(["mov rax, [rdi]"], "rdi" = place).is_some(), "{place:#x} is still mapped");
    }
    granted!(Allocator::own().free(page));
    Ok(())
}

fn fault_05_table_mapped_writable() -> Outcome {
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    for table in [granted!(level_one_of(PLACE)), area::root(), Allocator::own().list] {
        check!(map(PLACE + 0x1000, table.address() | Access::WRITE.0).is_err(), "{table:?} could be mapped writable");
        check!(map(PLACE + 0x1000, table.address() | Access::WRITE.0 | LARGE).is_err(), "and as a large page");
    }
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    clear(PLACE)
}

fn fault_06_link_at_a_wrong_level() -> Outcome {
    let table = fresh()?;
    granted!(address_space::own().link_tables(PLACE, false));
    for level in [0, 4, 5, 255, u64::MAX] {
        refused!(link(PLACE, level, table), BadArgument);
        refused!(unlink(PLACE, level), BadArgument);
    }
    let found = granted!(level_one_of(PLACE));
    refused!(link(PLACE + (1 << 30), 2, found), WrongKind);
    refused!(link(OTHER, 3, area::root()), WrongKind);
    refused!(link(OTHER, 3, found), WrongKind);
    refused!(link(OTHER, 3, Allocator::own().list), WrongKind);
    granted!(Allocator::own().free(table));
    clear(PLACE)
}

/// A key with the name of the own one that only reads.
fn reader() -> Result<KeyIndex, alloc::string::String> {
    let slot = granted!(key::reserve_slot());
    granted!(syscall::key_copy(KEY, u64::from(Rights::READ.0), area::number(), slot, KEY));
    Ok(slot)
}

fn link_with(address: u64, level: u64, table: PageNumber, key: KeyIndex) -> Result<(), Failure> {
    // SAFETY: as for `link`.
    unsafe { syscall::page_table_link(KEY, area::root(), UserAddress(address), level, table, key) }
}

/// A second link would show an environment's private pages to others, and make its own upcall stack read-only. No key
/// makes one, at no level, for pages mapped before the environment began or after.
fn fault_154_no_table_with_private_pages_is_shared() -> Outcome {
    let reader = reader()?;
    let area = Area::current().address();
    let tables = granted!(tables_at(area::root(), area));
    for (level, table) in [3, 2, 1].into_iter().zip(tables) {
        for by in [reader, KEY] {
            refused!(link_with(OTHER, level, table, by), NotPermitted);
        }
        granted!(link(OTHER, level, fresh()?));
    }
    // One of the own private pages, mapped where no area is.
    let private = page_of_entry(granted!(Window::open(&tables[2..], KEY, Access::READ)).words(), area + PRIVATE);
    granted!(address_space::own().link_tables(PLACE, true));
    let table = fresh()?;
    granted!(link(PLACE, 1, table));
    granted!(link(PLACE + SPAN, 1, table));
    granted!(unlink(PLACE + SPAN, 1));
    granted!(copy(PLACE, 1, PageNumber::NONE, KEY));
    granted!(map(PLACE, private.address() | Access::READ.0));
    refused!(link_with(PLACE + SPAN, 1, table, KEY), NotPermitted);
    granted!(map(PLACE, 0));
    clear(PLACE)?;
    clear(OTHER)
}

/// The page that a level-1 table maps at an address.
fn page_of_entry(entries: &[AtomicU64], address: u64) -> PageNumber {
    PageNumber((entries[(address >> 12) as usize & 511].load(Relaxed) & PAGE) >> 12)
}

/// An area whose pages are mapped through a table that others link would be theirs to see.
fn fault_154_no_area_begins_in_a_shared_table(_: &World) -> Outcome {
    let own = Allocator::own();
    let mut pages = [PageNumber::NONE; 7];
    granted!(own.allocate_many(&mut pages));
    let [control, key_ring, area @ ..] = pages;
    let space = granted!(AddressSpace::create(own));
    // SAFETY: it is not the own address space.
    granted!(unsafe { space.map(PLACE, &area, Access::WRITE) });
    granted!(space.link_tables(PLACE + SPAN, true));
    let [_, _, table] = granted!(tables_at(space.root, PLACE));
    let link_again = || {
        // SAFETY: it is not the own address space.
        unsafe { syscall::page_table_link(KEY, space.root, UserAddress(PLACE + SPAN), 1, table, KEY) }
    };
    granted!(link_again());
    let [public, private @ ..] = area.map(|page| page.0);
    let mut all = [0; abi::limits::PRIVATE_PAGES];
    all[..4].copy_from_slice(&private);
    let specification = Specification {
        name_key: KEY.0,
        control: control.0,
        key_ring: key_ring.0,
        public,
        root: space.root.0,
        area: PLACE,
        private_count: 4,
        private: all,
        ..Specification::default()
    };
    // SAFETY: the kernel reads the specification; nothing of this program lies in its pages.
    let create = || unsafe { syscall::environment_create(KEY, UserAddress(&raw const specification as u64)) };
    refused!(create(), InUse);
    // SAFETY: it is not the own address space.
    granted!(unsafe { syscall::page_table_unlink(KEY, space.root, UserAddress(PLACE + SPAN), 1) });
    let made = granted!(create());
    // From now on its table is its own.
    refused!(link_again(), NotPermitted);
    while syscall::environment_destroy(KEY, made).is_err_and(|failure| failure.error == Error::Again) {}
    granted!(own.free(space.root));
    granted!(own.free(control));
    granted!(own.free(key_ring));
    check!(own.free_many(&area) == area.len(), "the area was not given back");
    Ok(())
}

/// The tables of levels 3 to 1 for an address under a root.
fn tables_at(root: PageNumber, address: u64) -> Result<[PageNumber; 3], Failure> {
    let (mut tables, mut above) = ([PageNumber::NONE; 3], root);
    for (level, table) in (2..=4).rev().zip(&mut tables) {
        let index = (address >> (12 + 9 * (level - 1))) as usize & 511;
        let entry = Window::open(&[above], KEY, Access::READ)?.words()[index].load(Relaxed);
        *table = PageNumber((entry & PAGE) >> 12);
        above = *table;
    }
    Ok(tables)
}

/// A key that only reads links a table that its owner shares already, and no other.
fn fault_154_a_reader_takes_no_table_from_its_owner() -> Outcome {
    let reader = reader()?;
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    set_word(PLACE, 42);
    let table = granted!(level_one_of(PLACE));
    granted!(address_space::own().link_tables(OTHER, true));
    refused!(link_with(OTHER, 1, table, reader), NotPermitted);
    // Neither read-only nor immutable.
    set_word(PLACE, 43);
    granted!(map(PLACE + 4096, page.address() | Access::READ.0));
    granted!(map(PLACE + 4096, 0));
    // The environment is charged for the table: it may free it with any key (decision 0052), and claim nothing.
    refused!(syscall::page_claim(reader, table, KEY, Allocator::own().list), NotPermitted);
    granted!(link_with(OTHER, 1, table, KEY));
    let third = OTHER + SPAN;
    granted!(link_with(third, 1, table, reader));
    check!(word(third) == 43, "the shared table shows {} at the third place", word(third));
    granted!(unlink(third, 1));
    granted!(unlink(OTHER, 1));
    check!(granted!(copy(PLACE, 1, PageNumber::NONE, KEY)) == 0, "the last link needed a page");
    refused!(link_with(third, 1, table, reader), NotPermitted);
    set_word(PLACE, 44);
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    clear(PLACE)
}
