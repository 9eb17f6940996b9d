//! Each kernel call at its worst, 64 to a batch, and mixtures of them: no entry takes more instructions than it may
//! (FAULTS 153). The harness holds the longest entry to the bound after each test; what each batch took is reported.
#![no_std]
#![no_main]

extern crate alloc;

use abi::host_channel::{HEADER, Header, Kind, PAYLOAD};
use abi::limits::{BATCH_ROWS, ENTROPY_BYTES, EXCESS_LIMIT, REGION_BYTES};
use abi::machine::Setting;
use abi::page::PageKind;
use abi::syscall::{BatchRow, TABLE, number};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use runtime::address_space::{self, AddressSpace};
use runtime::page::{self, Allocator};
use runtime::{KeyIndex, PageNumber, UserAddress, area, channel, clock, syscall};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Here fault_153_copies_64_to_a_batch;
    Here fault_153_objects_64_to_a_batch;
    Here fault_153_tables_64_to_a_batch;
    Here fault_153_small_calls_64_to_a_batch;
    Here fault_153_refused_environments_64_to_a_batch;
    Here fault_153_other_calls_64_to_a_batch;
    Here fault_153_mixtures;
    Here fault_153_every_call_was_measured;
}

const KEY: u64 = KeyIndex::FIRST.0;
/// Where tables are linked: each row 2 MiB further, so that each needs a table of level 1.
const TABLES: u64 = 0x300_0000_0000;
/// Room for the largest copy.
static BUFFER: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
/// The largest frame: a line of log.
static FRAME: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

fn buffer() -> u64 {
    BUFFER.as_ptr() as u64
}

fn row(number: u64, arguments: &[u64]) -> BatchRow {
    let mut row = BatchRow { number, ..BatchRow::default() };
    row.arguments[..arguments.len()].copy_from_slice(arguments);
    row
}

/// One row to run alone, and those of a full batch.
const ROWS: usize = 1 + BATCH_ROWS;
/// What each call took at most, by number: alone, and in the dearest batch.
static WORST: [[AtomicU64; 2]; TABLE.len()] = [const { [const { AtomicU64::new(0) }; 2] }; TABLE.len()];

/// Runs the first row alone and the others in as many batches as the kernel wants, and keeps what the dearest took.
/// Another environment can run in between, and then its time is in the figure: the harness asks the kernel for its
/// longest entry.
fn run(name: &str, rows: &[BatchRow]) -> Outcome {
    let (alone, dearest) = (run_all(name, &rows[..1])?.0, run_all(name, &rows[1..])?.0);
    let worst = &WORST[rows[0].number as usize];
    worst[0].fetch_max(alone, SeqCst);
    worst[1].fetch_max(dearest, SeqCst);
    Ok(())
}

/// Calls that no batch takes.
const NEVER_BATCHED: [u64; 3] = [number::batch, number::time_slice_yield, number::predicate_wait];

/// After all the others: no call of the table was forgotten; what each took is reported.
fn fault_153_every_call_was_measured(_: &World) -> Outcome {
    for (call, worst) in (0..).zip(&WORST).filter(|(call, _)| !NEVER_BATCHED.contains(call)) {
        let name = TABLE[call as usize].name;
        let [alone, batched] = [0, 1].map(|index| worst[index].load(SeqCst));
        check!(alone > 0 && batched > 0, "{name} was not measured");
        channel::measurement(&format!("{name}, alone"), alone, "instructions");
        channel::measurement(&format!("{name}, the dearest batch"), batched, "instructions");
    }
    Ok(())
}

/// The same; the result is what the dearest batch took, and how many there were.
fn run_all(name: &str, rows: &[BatchRow]) -> Result<(u64, u64), alloc::string::String> {
    let (mut done, mut dearest, mut batches) = (0, 0, 0);
    while done < rows.len() {
        let mut some: Vec<BatchRow> = rows[done..(done + BATCH_ROWS).min(rows.len())].to_vec();
        let before = clock::ticks();
        // SAFETY: the rows copy into the buffer, or make objects of pages that nothing uses.
        let outcome = unsafe { syscall::batch(UserAddress(some.as_mut_ptr() as u64), some.len() as u64) };
        dearest = dearest.max(clock::ticks() - before);
        let step = match outcome {
            Ok(count) => count as usize,
            Err(failure) if failure.error == abi::Error::Again => failure.detail as usize,
            // A refused row is done, too: it took its time.
            Err(failure) if (failure.detail as usize) < some.len() => failure.detail as usize + 1,
            Err(failure) => return Err(format!("{name}: {failure:?}")),
        };
        check!(step > 0, "{name}: a batch of one row did nothing");
        (done, batches) = (done + step, batches + 1);
    }
    Ok((dearest, batches))
}

fn same(name: &str, number: u64, arguments: &[u64]) -> Outcome {
    run(name, &vec![row(number, arguments); ROWS])
}

/// The rows that copy, each with as many bytes as it takes.
fn copies(region: PageNumber) -> [(&'static str, BatchRow); 20] {
    let header = Header { kind: Kind::Log as u8, length: PAYLOAD as u32 }.to_bytes();
    FRAME[0].store(u64::from_le_bytes(header), SeqCst);
    [
        ("entropy_read", row(number::entropy_read, &[buffer(), ENTROPY_BYTES as u64])),
        ("channel_send", row(number::channel_send, &[KEY, FRAME.as_ptr() as u64, (HEADER + PAYLOAD) as u64])),
        ("channel_receive", row(number::channel_receive, &[KEY, buffer(), (HEADER + PAYLOAD) as u64])),
        ("device_bind", row(number::device_bind, &[KEY, u64::MAX, 0, 0, 0])),
        ("device_submit", row(number::device_submit, &[KEY, u64::MAX, 0, buffer(), 1])),
        // The machine has no network. The guest `packets-counted` holds what these take in a machine with one.
        ("page_become", row(number::page_become, &[KEY, 0, PageKind::PacketRing as u64, buffer()])),
        ("network_open", row(number::network_open, &[KEY, 0, 1])),
        ("filter_insert", row(number::filter_insert, &[KEY, buffer()])),
        ("filter_remove", row(number::filter_remove, &[KEY, 1])),
        ("filter_direct", row(number::filter_direct, &[KEY, 1, KEY, u64::MAX])),
        ("packet_send", row(number::packet_send, &[KEY, 0, 0, 1])),
        ("region_copy, out", row(number::region_copy, &[KEY, region.0, 0, buffer(), REGION_BYTES as u64, 0])),
        ("region_copy, in", row(number::region_copy, &[KEY, region.0, 0, buffer(), REGION_BYTES as u64, 1])),
        // The machine has no disk. The guest `storage` holds what these take in a machine with one.
        ("volume_step", row(number::volume_step, &[KEY, 0, 0, 0, 0])),
        ("block_bind", row(number::block_bind, &[KEY, 0, 0, 0, 0])),
        ("block_read", row(number::block_read, &[KEY, 0, 0, buffer(), 1])),
        ("block_write", row(number::block_write, &[KEY, 0, 0, buffer(), 1])),
        ("block_modify", row(number::block_modify, &[KEY, buffer()])),
        ("block_submit", row(number::block_submit, &[KEY, 0])),
        ("block_release", row(number::block_release, &[KEY, 0])),
    ]
}

fn a_region() -> Result<PageNumber, alloc::string::String> {
    let page = granted!(Allocator::own().allocate());
    granted!(page::become_regions(KeyIndex::FIRST, page));
    granted!(syscall::region_name(KeyIndex::FIRST, page, 0, KeyIndex::FIRST, 7));
    Ok(page)
}

fn fault_153_copies_64_to_a_batch(_: &World) -> Outcome {
    let region = a_region()?;
    for (name, row) in copies(region) {
        run(name, &vec![row; ROWS])?;
    }
    granted!(Allocator::own().free(region));
    Ok(())
}

fn fault_153_objects_64_to_a_batch(_: &World) -> Outcome {
    let own = Allocator::own();
    for (kind, argument) in [(PageKind::AccessList, KEY), (PageKind::PageTable, 4), (PageKind::Region, 0)] {
        let mut pages = vec![PageNumber::NONE; ROWS];
        granted!(own.allocate_many(&mut pages));
        let become_one = |page: &PageNumber| row(number::page_become, &[KEY, page.0, kind as u64, argument]);
        run("page_become", &pages.iter().map(become_one).collect::<Vec<_>>())?;
        run("page_free", &pages.iter().map(|page| row(number::page_free, &[KEY, page.0])).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn fault_153_tables_64_to_a_batch(_: &World) -> Outcome {
    let own = Allocator::own();
    let space = granted!(AddressSpace::create(own));
    granted!(space.link_tables(TABLES, true));
    let mut pages = vec![PageNumber::NONE; ROWS];
    granted!(own.allocate_many(&mut pages));
    let place = |index: usize| TABLES + ((index as u64) << 21);
    let link = |(index, page): (usize, &PageNumber)| {
        row(number::page_table_link, &[KEY, space.root.0, place(index), 1, page.0, KEY])
    };
    run("page_table_link", &pages.iter().enumerate().map(link).collect::<Vec<_>>())?;
    let unlink = |index: usize| row(number::page_table_unlink, &[KEY, space.root.0, place(index), 1]);
    run("page_table_unlink", &(0..ROWS).map(unlink).collect::<Vec<_>>())?;
    check!(own.free_many(&pages) == pages.len(), "pages of tables stay in use");
    granted!(own.free(space.root));
    Ok(())
}

/// Calls that do little, each so that it can be repeated.
fn small_calls() -> [(&'static str, u64, Vec<u64>); 14] {
    let (own, me) = (Allocator::own(), area::number().0);
    [
        ("null", number::null, vec![]),
        ("key_derive, refused", number::key_derive, vec![KEY, KEY, 7, 0]),
        ("key_copy, refused", number::key_copy, vec![KEY, 7, me, KEY, KEY]),
        ("access_list_set", number::access_list_set, vec![KEY, own.list.0, 5, KEY, 7]),
        ("page_claim", number::page_claim, vec![KEY, own.list.0, KEY, own.list.0]),
        ("budget_move", number::budget_move, vec![KEY, me, me, 0, 0, 1]),
        ("event_raise", number::event_raise, vec![KEY, me, 1]),
        ("time_slice_allocate", number::time_slice_allocate, vec![KEY, me, 0, u64::MAX]),
        ("time_slice_free", number::time_slice_free, vec![KEY, 0, 1023]),
        ("cpu_kick", number::cpu_kick, vec![0]),
        ("machine_set", number::machine_set, vec![KEY, Setting::ExcessLimit as u64, EXCESS_LIMIT]),
        ("revocation_request", number::revocation_request, vec![KEY, me, 0, 1, 0]),
        ("revocation_enforce", number::revocation_enforce, vec![KEY, me]),
        ("environment_destroy", number::environment_destroy, vec![KEY, u64::MAX]),
    ]
}

fn fault_153_small_calls_64_to_a_batch(_: &World) -> Outcome {
    for (name, call, arguments) in small_calls() {
        same(name, call, &arguments)?;
    }
    Ok(())
}

/// A specification whose last private page is wrong: all the others are looked at before.
fn fault_153_refused_environments_64_to_a_batch(_: &World) -> Outcome {
    let own = Allocator::own();
    let space = granted!(AddressSpace::create(own));
    let mut pages = vec![PageNumber::NONE; 19];
    granted!(own.allocate_many(&mut pages));
    let mut private = [0; abi::limits::PRIVATE_PAGES];
    private.iter_mut().zip(&pages[3..]).for_each(|(place, page)| *place = page.0);
    private[abi::limits::PRIVATE_PAGES - 1] = private[0];
    let wanted = abi::environment::Specification {
        name_key: KEY,
        control: pages[0].0,
        key_ring: pages[1].0,
        public: pages[2].0,
        root: space.root.0,
        area: 0x1000_0000,
        private_count: private.len() as u64,
        private,
        ..abi::environment::Specification::default()
    };
    same("environment_create, refused", number::environment_create, &[KEY, core::ptr::from_ref(&wanted) as u64])?;
    check!(own.free_many(&pages) == pages.len(), "a refused creation kept pages");
    granted!(own.free(space.root));
    let parts = abi::environment::Specification { parts_of: area::number().0, ..wanted };
    same("environment_create, parts refused", number::environment_create, &[KEY, core::ptr::from_ref(&parts) as u64])?;
    Ok(())
}

/// A place that tables lead to and nothing uses.
const PLACE: u64 = 0x320_0000_0000;
/// Rows of `page_map` and `page_allocate`.
const MAPPED: u64 = abi::limits::MAP_ROWS as u64;
static MAP: [AtomicU64; 2 * MAPPED as usize] = [const { AtomicU64::new(0) }; 2 * MAPPED as usize];

/// Fills the rows: small pages in one table, each as `entry` says.
fn fill_map(entry: u64) -> u64 {
    for index in 0..MAPPED as usize {
        MAP[2 * index].store((PLACE + index as u64 * abi::limits::PAGE_SIZE) | KEY, SeqCst);
        MAP[2 * index + 1].store(entry, SeqCst);
    }
    MAP.as_ptr() as u64
}

/// Calls that edit tables, and refusals of those that end or remake something.
fn fault_153_other_calls_64_to_a_batch(_: &World) -> Outcome {
    let (own, me) = (Allocator::own(), area::number().0);
    let space = granted!(AddressSpace::create(own));
    granted!(space.link_tables(PLACE, true));
    let page = granted!(own.allocate());
    let region = a_region()?;
    let map = fill_map(page.address() | abi::page_table::PRESENT);
    same("page_map", number::page_map, &[KEY, space.root.0, map, MAPPED])?;
    let unmap = fill_map(0);
    same("page_map", number::page_map, &[KEY, space.root.0, unmap, MAPPED])?;
    for (name, call, arguments) in [
        ("key_drop, refused", number::key_drop, &[me, 40, KEY][..]),
        ("page_unbind", number::page_unbind, &[KEY, page.0, space.root.0, 0]),
        ("address_space_switch", number::address_space_switch, &[KEY, area::root().0]),
        ("page_table_copy, refused", number::page_table_copy, &[KEY, space.root.0, PLACE, 1, page.0, KEY]),
        ("context_set, a base refused", number::context_set, &[0, u64::MAX]),
        ("context_set, the vector unit", number::context_set, &[2, 1]),
        ("context_set, protection keys", number::context_set, &[3, 0]),
        ("region_name", number::region_name, &[KEY, region.0, 1, KEY, 7]),
    ] {
        same(name, call, arguments)?;
    }
    let free = 40;
    let copy = row(number::key_copy, &[KEY, 7, me, free, KEY]);
    let drop = row(number::key_drop, &[me, free, KEY]);
    run("key_copy and key_drop", &[copy, drop].into_iter().cycle().skip(1).take(ROWS).collect::<Vec<_>>())?;
    supply(own)?;
    granted!(own.free(region));
    check!(own.free_many(&[page, space.root]) == 2, "pages stay in use");
    Ok(())
}

/// Four pages a row that are mapped nowhere. Each row finds the pages of the one before it, and copies them.
fn supply(own: Allocator) -> Outcome {
    for index in 0..4 {
        MAP[2 * index].store(KEY, SeqCst);
        MAP[2 * index + 1].store(PageNumber::NONE.address(), SeqCst);
    }
    same("page_allocate", number::page_allocate, &[KEY, own.list.0, KEY, PageNumber::NONE.0, MAP.as_ptr() as u64, 4])
}

/// What the rows of a mixture work on.
struct Things {
    region: PageNumber,
    space: AddressSpace,
    page: PageNumber,
    tables: Vec<PageNumber>,
    specification: abi::environment::Specification,
}

/// One row of every call that a batch takes, each with as much work as the row has.
fn every_row(things: &Things) -> Vec<BatchRow> {
    let (own, me) = (Allocator::own(), area::number().0);
    let (space, map) = (things.space.root.0, MAP.as_ptr() as u64);
    let mut rows: Vec<BatchRow> = copies(things.region).iter().map(|(_, row)| *row).collect();
    rows.extend(small_calls().iter().map(|(_, call, arguments)| row(*call, arguments)));
    rows.extend([
        row(number::page_map, &[KEY, space, map, MAPPED]),
        row(number::page_allocate, &[KEY, own.list.0, KEY, PageNumber::NONE.0, map, 1]),
        row(number::page_unbind, &[KEY, things.page.0, space, 0]),
        row(number::address_space_switch, &[KEY, area::root().0]),
        row(number::page_table_copy, &[KEY, space, PLACE, 1, things.page.0, KEY]),
        row(number::context_set, &[0, u64::MAX]),
        row(number::region_name, &[KEY, things.region.0, 1, KEY, 7]),
        row(number::key_drop, &[me, 40, KEY]),
        row(number::environment_create, &[KEY, core::ptr::from_ref(&things.specification) as u64]),
    ]);
    // Pages that become objects, are linked, unlinked and given up, whatever comes first.
    for (index, table) in things.tables.iter().enumerate() {
        let place = TABLES + ((index as u64) << 21);
        let kind = [PageKind::AccessList, PageKind::PageTable, PageKind::Region][index % 3];
        rows.extend([
            row(number::page_become, &[KEY, table.0, kind as u64, [KEY, 4, 0][index % 3]]),
            row(number::page_table_link, &[KEY, space, place, 1, table.0, KEY]),
            row(number::page_table_unlink, &[KEY, space, place, 1]),
            row(number::page_free, &[KEY, table.0]),
        ]);
    }
    rows
}

/// Pages that a mixture makes objects of.
const OBJECTS: usize = 12;

/// Rows of all calls in random order; none is left out.
fn fault_153_mixtures(_: &World) -> Outcome {
    let own = Allocator::own();
    let space = granted!(AddressSpace::create(own));
    granted!(space.link_tables(PLACE, true));
    granted!(space.link_tables(TABLES, true));
    let page = granted!(own.allocate());
    let mut random = Random(153);
    let mut drawn = [0u64; TABLE.len()];
    for round in 0..50 {
        BUFFER[1023].store(round, SeqCst);
        fill_map([page.address() | abi::page_table::PRESENT, 0][round as usize % 2]);
        let mut tables = vec![PageNumber::NONE; OBJECTS];
        granted!(own.allocate_many(&mut tables));
        let specification = abi::environment::Specification { name_key: KEY, ..Default::default() };
        let things = Things { region: a_region()?, space, page, tables, specification };
        let kinds = every_row(&things);
        let draw = |random: &mut Random| kinds[random.below(kinds.len() as u64) as usize];
        let rows: Vec<BatchRow> = (0..BATCH_ROWS).map(|_| draw(&mut random)).collect();
        rows.iter().for_each(|row| drawn[row.number as usize] += 1);
        run_all("a mixture", &rows)?;
        // What rows have given up already is refused.
        let objects = things.tables.iter().copied().chain([things.region]);
        objects.for_each(|object| _ = own.free(object));
    }
    check!(address_space::own().root == area::root(), "the address space changed");
    let missed = (0..).zip(drawn).find(|(call, count)| *count == 0 && !NEVER_BATCHED.contains(call));
    check!(missed.is_none(), "no mixture had a {:?}", missed.map(|(call, _)| TABLE[call as usize].name));
    check!(own.free_many(&[page, space.root]) == 2, "pages stay in use");
    Ok(())
}
