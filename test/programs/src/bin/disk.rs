//! Raw disks: requests from and to pages of programs, their errors, and device pins under force and death.
//!
//! The machine has a good disk, a slow one, one with a bad sector and one that cannot be written, told apart by their
//! sizes.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::capability::{DEVICE, Rights};
use abi::device::operation::{FLUSH, KEY_SHIFT, MORE, READ, WRITE};
use abi::device::{DeviceInfo, TransferRow, kind, status};
use abi::limits::{DEVICE_PINS, PAGE_SIZE, TRANSFER_ROWS};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use runtime::address_space::Access;
use runtime::area::{self, Area};
use runtime::environment::Child;
use runtime::page::{self, Allocator};
use runtime::predicate::{self, Operator};
use runtime::window::Window;
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, clock, exposed, key, syscall};
use runtime::{entry, time_slice};
use test_programs::child::{self, eventually, eventually_by};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here what_is_written_is_read_back;
    Here pieces_of_pages_are_gathered;
    Here many_requests_are_in_flight;
    Here an_idle_cpu_wakes_by_a_status_word;
    Here the_end_of_a_request_raises_bits;
    Here fault_73_a_bad_sector_fails_its_request_alone;
    Here fault_73_a_bad_sector_fails_none_that_goes_with_it;
    Here neighbours_of_two_environments_go_together;
    Here fault_76_a_page_freed_in_flight_is_an_orphan_until_the_end;
    Here fault_76_the_owner_dies_in_flight;
    Here fault_76_force_ends_no_device_pin;
    Here fault_75_a_device_that_is_too_slow_for_a_revocation_is_reset;
    Here an_environment_under_enforcement_gets_no_device_pin;
    Here rows_that_make_no_sense;
    Here bindings_that_make_no_sense;
    Here what_a_disk_cannot;
    Child an_environment_without_a_key_gets_nothing;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// MiB of the disks.
const GOOD: u64 = 8;
const SLOW: u64 = 4;
const BAD: u64 = 2;
const CLOSED: u64 = 1;
/// The bad sector, as `guests.toml` has it.
const BAD_SECTOR: u64 = 100;
/// Words of a page.
const WORDS: usize = PAGE_SIZE as usize / 8;
/// Status word of a child that says how its submission came out: 1 for done, else 2.
const SUBMITTED: usize = 20;
/// Status word of a child: the number of the error that it was refused with.
const REFUSED: usize = 21;

/// Pages of this program's, mapped.
struct Buffer {
    pages: Vec<PageNumber>,
    window: Window,
}

impl Buffer {
    fn new(count: usize) -> Result<Self, String> {
        let mut pages = alloc::vec![PageNumber::NONE; count];
        granted!(Allocator::own().allocate_many(&mut pages));
        let window = granted!(Window::open(&pages, KEY, Access::WRITE));
        Ok(Self { pages, window })
    }

    fn fill(&self, seed: u64) {
        (0..).zip(self.window.words()).for_each(|(index, word)| word.store(pattern(seed, index), SeqCst));
    }

    fn free(self) -> Outcome {
        drop(self.window);
        for page in self.pages {
            granted!(syscall::page_free(KEY, page));
        }
        Ok(())
    }
}

fn pattern(seed: u64, index: u64) -> u64 {
    (seed << 32 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn disk(mebibytes: u64) -> Result<(u64, &'static DeviceInfo), String> {
    let found = (0..4).filter_map(|number| exposed::device(kind::DISK, number));
    let mut found = found.filter(|(_, info)| info.capacity.load(Acquire) == mebibytes << 20);
    found.next().ok_or_else(|| alloc::format!("the machine has no disk of {mebibytes} MiB"))
}

fn row(operation: u64, place: u64, page: PageNumber, status: (PageNumber, u64)) -> TransferRow {
    TransferRow {
        operation: operation | KEY.0 << KEY_SHIFT,
        place,
        memory: TransferRow::piece(page, 0, PAGE_SIZE),
        status: TransferRow::word(status.0, status.1),
    }
}

fn flush(status: (PageNumber, u64)) -> TransferRow {
    TransferRow { memory: 0, ..row(FLUSH, 0, PageNumber(0), status) }
}

fn submit(key: KeyIndex, device: u64, rows: &[TransferRow]) -> Result<u64, Failure> {
    // SAFETY: the kernel reads the rows; the pages that a device writes are windows' or nobody's, of atomic words.
    unsafe { syscall::device_submit(key, device, 0, UserAddress(rows.as_ptr() as u64), rows.len() as u64) }
}

/// Waits for the end of a request whose status word this is.
fn ended(statuses: &Buffer, index: usize) -> u64 {
    let word = &statuses.window.words()[index];
    eventually(|| word.load(Acquire) != 0);
    word.load(Acquire)
}

/// Carries out one request and waits for its end.
fn carry_out(device: u64, rows: &[TransferRow], statuses: &Buffer) -> Result<u64, String> {
    statuses.window.words()[0].store(0, SeqCst);
    let count = granted!(submit(KEY, device, rows));
    check!(count == 1, "{count} requests, not 1");
    Ok(ended(statuses, 0))
}

fn no_pins() -> Outcome {
    let own = exposed::environment(area::number()).ok_or("no record of the own environment")?;
    let left = (own.device_pins.load(Acquire), own.budget[Resource::Pin as usize].used.load(Acquire));
    check!(left == (0, 0), "device pins and pins that are charged: {left:?}");
    let pinned = (0..exposed::kernel().pages.load(Acquire)).filter_map(|page| exposed::page(PageNumber(page)));
    let pinned = pinned.filter(|page| page.device_pins() != 0).count();
    check!(pinned == 0, "{pinned} pages have device pins");
    Ok(())
}

fn what_is_written_is_read_back(_: &World) -> Outcome {
    let (device, info) = disk(GOOD)?;
    let (statuses, written, read) = (Buffer::new(1)?, Buffer::new(4)?, Buffer::new(4)?);
    let at = (statuses.pages[0], 0);
    let before = info.completed.load(Acquire);
    for round in 0..8 {
        written.fill(round);
        let place = round * 0x11_0000 / PAGE_SIZE * PAGE_SIZE;
        for (operation, buffer) in [(WRITE, &written), (READ, &read)] {
            let rows: Vec<TransferRow> = (0..4)
                .map(|index| {
                    let more = if index < 3 { MORE } else { 0 };
                    let first = if index == 0 { (place, at) } else { (0, (PageNumber(0), 0)) };
                    row(operation | more, first.0, buffer.pages[index], first.1)
                })
                .collect();
            let outcome = carry_out(device, &rows, &statuses)?;
            check!(outcome == status::DONE, "operation {operation} at {place:#x} ended with {outcome}");
            let flushed = carry_out(device, &[flush(at)], &statuses)?;
            check!(flushed == status::DONE, "a flush ended with {flushed}");
        }
        let differs =
            (0..4 * WORDS).find(|word| read.window.words()[*word].load(Acquire) != pattern(round, *word as u64));
        check!(differs.is_none(), "word {differs:?} of round {round} is not what was written");
    }
    let completed = info.completed.load(Acquire) - before;
    check!(completed == 8 * 4, "{completed} requests are counted");
    no_pins()?;
    statuses.free()?;
    written.free()?;
    read.free()
}

/// Sectors of a page in another order, over two pages.
fn pieces_of_pages_are_gathered(_: &World) -> Outcome {
    let (device, _) = disk(GOOD)?;
    let (statuses, buffer, whole) = (Buffer::new(1)?, Buffer::new(2)?, Buffer::new(1)?);
    buffer.fill(77);
    let mut rows = Vec::new();
    for index in 0..8u64 {
        let piece = TransferRow::piece(buffer.pages[index as usize % 2], (7 - index) * 512, 512);
        let more = if index < 7 { MORE } else { 0 };
        rows.push(TransferRow { memory: piece, ..row(WRITE | more, 0, PageNumber(0), (PageNumber(0), 0)) });
    }
    (rows[0].place, rows[0].status) = (512 * 9, TransferRow::word(statuses.pages[0], 0));
    check!(carry_out(device, &rows, &statuses)? == status::DONE, "the pieces were not written");
    let read = row(READ, 512 * 9, whole.pages[0], (statuses.pages[0], 0));
    check!(carry_out(device, &[read], &statuses)? == status::DONE, "they were not read");
    for index in 0..WORDS {
        let (sector, word) = (index / 64, index % 64);
        let source = (sector % 2) * WORDS + (7 - sector) * 64 + word;
        let (found, expected) = (whole.window.words()[index].load(Acquire), pattern(77, source as u64));
        check!(found == expected, "word {index} is {found:#x}, not {expected:#x}");
    }
    statuses.free()?;
    buffer.free()?;
    whole.free()
}

fn many_requests_are_in_flight(_: &World) -> Outcome {
    let (device, info) = disk(GOOD)?;
    const COUNT: usize = 40;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(COUNT)?);
    for (round, operation) in [WRITE, READ, WRITE, READ].into_iter().enumerate() {
        if operation == WRITE {
            buffer.fill(round as u64);
        } else {
            buffer.window.words().iter().for_each(|word| word.store(0, SeqCst));
        }
        statuses.window.words()[..COUNT].iter().for_each(|word| word.store(0, SeqCst));
        let request = |index: usize| {
            row(operation, (COUNT - index) as u64 * 0x8000, buffer.pages[index], (statuses.pages[0], index as u64))
        };
        let rows: Vec<TransferRow> = (0..COUNT).map(request).collect();
        for some in rows.chunks(TRANSFER_ROWS) {
            check!(granted!(submit(KEY, device, some)) == some.len() as u64, "not all were submitted");
        }
        let failed = (0..COUNT).find(|index| ended(&statuses, *index) != status::DONE);
        check!(failed.is_none(), "request {failed:?} of round {round} did not end well");
        if operation == READ {
            let seed = round as u64 - 1;
            let words = buffer.window.words();
            let differs = (0..words.len()).find(|word| words[*word].load(Acquire) != pattern(seed, *word as u64));
            check!(differs.is_none(), "word {differs:?} of round {round} differs");
        }
    }
    check!(info.errors.load(Acquire) == 0, "the good disk has errors");
    no_pins()?;
    statuses.free()?;
    buffer.free()
}

fn an_idle_cpu_wakes_by_a_status_word(_: &World) -> Outcome {
    let (device, _) = disk(GOOD)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(1)?);
    let word = &statuses.window.words()[0];
    for _ in 0..20 {
        word.store(0, SeqCst);
        granted!(submit(KEY, device, &[row(READ, 0, buffer.pages[0], (statuses.pages[0], 0))]));
        let done = predicate::word(word, Operator::NotEqual, 0);
        let deadline = clock::now() + child::LIMIT / 2;
        granted!(predicate::wait_any(&[&[done]], Some(deadline)));
        check!(word.load(Acquire) == status::DONE, "the sleeper found {}", word.load(Acquire));
    }
    statuses.free()?;
    buffer.free()
}

fn the_end_of_a_request_raises_bits(_: &World) -> Outcome {
    let (device, info) = disk(GOOD)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(1)?);
    static RAISED: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
    extern "C" fn raised(context: &mut runtime::upcall::Context) {
        RAISED.fetch_or(context.frame.detail, SeqCst);
    }
    runtime::upcall::set_handler(abi::upcall::kind::EVENT, raised);
    granted!(syscall::device_bind(KEY, device, 0, area::number(), 1 << 9));
    check!(info.bound.load(Acquire) == area::number().0, "the record does not show the binding");
    check!(carry_out(device, &[row(READ, 0, buffer.pages[0], (statuses.pages[0], 0))], &statuses)? == 1, "no read");
    check!(eventually(|| RAISED.load(SeqCst) == 1 << 9), "bits {:#x} were raised", RAISED.load(SeqCst));
    granted!(syscall::device_bind(KEY, device, 0, EnvironmentId::NONE, 0));
    RAISED.store(0, SeqCst);
    check!(carry_out(device, &[row(READ, 0, buffer.pages[0], (statuses.pages[0], 0))], &statuses)? == 1, "no read");
    time_slice::yield_now();
    check!(RAISED.load(SeqCst) == 0, "bits are raised without a binding");
    statuses.free()?;
    buffer.free()
}

fn fault_73_a_bad_sector_fails_its_request_alone(_: &World) -> Outcome {
    let (device, info) = disk(BAD)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(1)?);
    let bad = BAD_SECTOR * 512 / PAGE_SIZE * PAGE_SIZE;
    for operation in [READ, WRITE, READ] {
        for (place, expected) in [(bad, status::FAILED), (bad + PAGE_SIZE, status::DONE), (0, status::DONE)] {
            let request = row(operation, place, buffer.pages[0], (statuses.pages[0], 0));
            let outcome = carry_out(device, &[request], &statuses)?;
            check!(outcome == expected, "operation {operation} at {place:#x} ended with {outcome}, not {expected}");
        }
    }
    let errors = info.errors.load(Acquire);
    check!(errors == 3 && info.resets.load(Acquire) == 0, "{errors} errors are counted");
    no_pins()?;
    statuses.free()?;
    buffer.free()
}

/// Neighbours on the disk go to the device as one request. Where that fails, each goes alone.
fn fault_73_a_bad_sector_fails_none_that_goes_with_it(_: &World) -> Outcome {
    let (device, info) = disk(BAD)?;
    const COUNT: usize = TRANSFER_ROWS;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(COUNT)?);
    let (bad, before) = (BAD_SECTOR * 512 / PAGE_SIZE, info.errors.load(Acquire));
    let first = bad - 5;
    for (round, operation) in [WRITE, READ].into_iter().enumerate() {
        let words = buffer.window.words();
        if operation == WRITE {
            buffer.fill(9)
        } else {
            words.iter().for_each(|word| word.store(0, SeqCst))
        }
        statuses.window.words()[..COUNT].iter().for_each(|word| word.store(0, SeqCst));
        let request = |index: usize| {
            let place = (first + index as u64) * PAGE_SIZE;
            row(operation, place, buffer.pages[index], (statuses.pages[0], index as u64))
        };
        granted!(submit(KEY, device, &(0..COUNT).map(request).collect::<Vec<_>>()));
        for index in 0..COUNT {
            let expected = if first + index as u64 == bad { status::FAILED } else { status::DONE };
            let outcome = ended(&statuses, index);
            check!(outcome == expected, "request {index} of round {round} ended with {outcome}, not {expected}");
        }
        let is_good = |word: &usize| first + (word / WORDS) as u64 != bad;
        let differs =
            (0..words.len()).filter(is_good).find(|word| words[*word].load(Acquire) != pattern(9, *word as u64));
        check!(differs.is_none(), "word {differs:?} of round {round} is not what was written");
    }
    check!(info.errors.load(Acquire) == before + 2, "{} errors are counted", info.errors.load(Acquire) - before);
    no_pins()?;
    statuses.free()?;
    buffer.free()
}

/// Blocks of the slow disk that two environments write in turns, and how many each of them writes.
const SHARED: u64 = 100;
const EACH: usize = TRANSFER_ROWS;

/// Submits writes of every second block, from one on.
fn write_every_second(key: KeyIndex, device: u64, first: u64, from: (&Buffer, &Buffer)) -> Result<u64, Failure> {
    let request = |(index, page): (usize, &PageNumber)| {
        row(WRITE, (SHARED + first + 2 * index as u64) * PAGE_SIZE, *page, (from.1.pages[0], index as u64))
    };
    submit(key, device, &from.0.pages.iter().enumerate().map(request).collect::<Vec<_>>())
}

/// Writes the other blocks.
extern "C" fn write_others(device: u64) {
    let submitted = || -> Outcome {
        let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(EACH)?);
        buffer.fill(1);
        granted!(write_every_second(KeyIndex(5), device, 1, (&buffer, &statuses)));
        core::mem::forget((statuses, buffer));
        Ok(())
    };
    tell_and_hold(submitted())
}

fn neighbours_of_two_environments_go_together(world: &World) -> Outcome {
    let (device, info) = disk(SLOW)?;
    const BUSY: usize = 24;
    let (statuses, busy) = (Buffer::new(1)?, Buffer::new(BUSY)?);
    let (own_statuses, own) = (Buffer::new(1)?, Buffer::new(EACH)?);
    own.fill(0);
    own_statuses.window.words().iter().for_each(|word| word.store(0, SeqCst));
    let before = (info.completed.load(Acquire), info.interrupts.load(Acquire));
    for some in busy.pages.chunks(TRANSFER_ROWS) {
        let rows: Vec<TransferRow> = some.iter().map(|page| row(READ, 0, *page, (statuses.pages[0], 0))).collect();
        granted!(submit(KEY, device, &rows));
    }
    let writer = user(world, write_others)?;
    wait_for_submission(&writer)?;
    granted!(write_every_second(KEY, device, 0, (&own, &own_statuses)));
    let all = before.0 + (BUSY + 2 * EACH) as u64;
    check!(eventually_by(|| info.completed.load(Acquire), || info.completed.load(Acquire) == all), "not all end");
    let interrupts = info.interrupts.load(Acquire) - before.1;
    check!(interrupts <= BUSY as u64 + 8, "{} requests took {interrupts} interrupts", BUSY + 2 * EACH);
    granted!(writer.destroy());
    let read = Buffer::new(EACH)?;
    for first in [SHARED, SHARED + EACH as u64] {
        let piece = |(index, page): (usize, &PageNumber)| {
            let (more, place) =
                (if index + 1 < EACH { MORE } else { 0 }, if index == 0 { first * PAGE_SIZE } else { 0 });
            row(READ | more, place, *page, if index == 0 { (statuses.pages[0], 0) } else { (PageNumber(0), 0) })
        };
        let rows: Vec<TransferRow> = read.pages.iter().enumerate().map(piece).collect();
        check!(carry_out(device, &rows, &statuses)? == status::DONE, "the blocks from {first} on cannot be read");
        for (block, words) in (first - SHARED..).zip(read.window.words().chunks(WORDS)) {
            let expected = pattern(block % 2, block / 2 * WORDS as u64);
            check!(words[0].load(Acquire) == expected, "block {block} is another one's");
        }
    }
    for buffer in [statuses, busy, own_statuses, own, read] {
        buffer.free()?;
    }
    no_pins()
}

/// Requests that keep the slow disk busy for a second at least.
fn keep_busy(device: u64, buffer: &Buffer, statuses: &Buffer) -> Outcome {
    statuses.window.words().iter().for_each(|word| word.store(0, SeqCst));
    let request = |(index, page): (usize, &PageNumber)| row(READ, 0, *page, (statuses.pages[0], index as u64));
    let rows: Vec<TransferRow> = buffer.pages.iter().enumerate().map(request).collect();
    granted!(submit(KEY, device, &rows));
    Ok(())
}

fn fault_76_a_page_freed_in_flight_is_an_orphan_until_the_end(world: &World) -> Outcome {
    let (device, _) = disk(SLOW)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(6)?);
    keep_busy(device, &buffer, &statuses)?;
    let Buffer { pages, window } = buffer;
    drop(window);
    let last = pages[5];
    let info = exposed::page(last).ok_or("the page has no record")?;
    for page in &pages {
        granted!(syscall::page_free(KEY, *page));
    }
    check!(info.device_pins() == 1 && info.is_orphan(), "the last page has {} device pins", info.device_pins());
    refused!(page::allocate_one(KEY, area::access_list(), last), NotFree);
    refused!(page::become_regions(KEY, last), WrongKind);
    refused!(submit(KEY, device, &[row(READ, 0, last, (statuses.pages[0], 7))]), WrongKind);
    for index in 0..6 {
        check!(ended(&statuses, index) == status::DONE, "request {index} did not end well");
    }
    check!(eventually(|| info.device_pins() == 0), "the pin does not end");
    check!(!info.is_orphan(), "the page is an orphan after the end");
    no_pins()?;
    world.pages_add_up()?;
    statuses.free()
}

/// A child that has a key to the slow disk at slot 2.
fn user(world: &World, function: extern "C" fn(u64)) -> Result<Child, String> {
    let (device, info) = disk(SLOW)?;
    let mut builder = child::prepare(world, function, device)?;
    builder.budget(Resource::Pin, 64);
    let child = granted!(builder.create());
    let devices = granted!(key::derive(KEY, Rights::ALL, DEVICE));
    let disks = granted!(key::derive(devices, Rights::ALL, kind::DISK));
    // Component 0 would be a fresh one: the key opens every disk.
    granted!(child.grant(disks, Rights::ALL, KeyIndex(5)));
    granted!(key::discard(disks));
    granted!(key::discard(devices));
    let _ = info;
    granted!(child.run(0, time_slice::ANY_POSITION));
    Ok(child)
}

/// Says how a submission came out, and waits for ever.
fn tell_and_hold(submitted: Outcome) -> ! {
    Area::current().status(SUBMITTED).store(if submitted.is_ok() { 1 } else { 2 }, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// Has six requests in flight and waits for ever.
extern "C" fn submit_and_hold(device: u64) {
    let submitted = || -> Outcome {
        let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(6)?);
        let request = |(index, page): (usize, &PageNumber)| row(READ, 0, *page, (statuses.pages[0], index as u64));
        let rows: Vec<TransferRow> = buffer.pages.iter().enumerate().map(request).collect();
        granted!(submit(KeyIndex(5), device, &rows));
        core::mem::forget((statuses, buffer));
        Ok(())
    };
    tell_and_hold(submitted())
}

fn wait_for_submission(child: &Child) -> Outcome {
    check!(eventually(|| child::status(child, SUBMITTED) != 0), "the child does not submit");
    check!(child::status(child, SUBMITTED) == 1, "the child could not submit");
    Ok(())
}

fn fault_76_the_owner_dies_in_flight(world: &World) -> Outcome {
    let orphans = exposed::kernel().orphan_pages.load(Acquire);
    let child = user(world, submit_and_hold)?;
    wait_for_submission(&child)?;
    granted!(child.destroy());
    let now = exposed::kernel().orphan_pages.load(Acquire);
    check!(now > orphans, "no page waits for the disk");
    world.pages_add_up()?;
    check!(eventually(|| exposed::kernel().orphan_pages.load(Acquire) == orphans), "the orphans do not go");
    no_pins()
}

fn fault_76_force_ends_no_device_pin(_: &World) -> Outcome {
    let (device, _) = disk(SLOW)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(6)?);
    keep_busy(device, &buffer, &statuses)?;
    let last = buffer.pages[5];
    let info = exposed::page(last).ok_or("the page has no record")?;
    check!(info.device_pins() == 1, "{} pins of devices", info.device_pins());
    let root = runtime::address_space::own().root;
    // SAFETY: only watching ends; the entries that map the page are looked for from the last address on.
    let _ = unsafe { syscall::page_unbind(KEY, last, root, UserAddress(abi::memory_map::USER_END & !0x1f_ffff)) };
    check!(info.device_pins() == 1, "{} pins of devices after force", info.device_pins());
    refused!(page::become_regions(KEY, last), InUse);
    for index in 0..6 {
        check!(ended(&statuses, index) == status::DONE, "request {index} did not end well");
    }
    statuses.free()?;
    buffer.free()?;
    no_pins()
}

fn fault_75_a_device_that_is_too_slow_for_a_revocation_is_reset(world: &World) -> Outcome {
    let (device, info) = disk(SLOW)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(16)?);
    let resets = info.resets.load(Acquire);
    keep_busy(device, &buffer, &statuses)?;
    let child = user(world, submit_and_hold)?;
    wait_for_submission(&child)?;
    let used = child.info().map_or(0, |info| info.budget[Resource::Page as usize].used.load(Acquire));
    let all = used.saturating_sub(1);
    granted!(syscall::revocation_request(KEY, child.number, Resource::Page as u64, all, clock::now()));
    let start = clock::now();
    let over = || !matches!(syscall::revocation_enforce(KEY, child.number), Err(Failure { error: Error::Again, .. }));
    check!(eventually(over), "enforcing does not end");
    check!(eventually(|| info.room.load(Acquire) as u32 == 64), "the disk does not work again");
    let pins = child.info().map_or(1, |info| info.device_pins.load(Acquire));
    check!(pins == 0, "the child has {pins} device pins after {} ms", (clock::now() - start) / 1_000_000);
    let outcomes: Vec<u64> = (0..16).map(|index| ended(&statuses, index)).collect();
    let known = outcomes.iter().all(|outcome| [status::DONE, status::RESET].contains(outcome));
    check!(known && info.resets.load(Acquire) <= resets + 1, "the requests of others ended with {outcomes:?}");
    granted!(child.destroy());
    let outcome = carry_out(device, &[row(READ, 0, buffer.pages[0], (statuses.pages[0], 0))], &statuses)?;
    check!(outcome == status::DONE, "after the reset a read ended with {outcome}");
    no_pins()?;
    world.pages_add_up()?;
    statuses.free()?;
    buffer.free()
}

/// Reads from the disk until that is refused.
extern "C" fn submit_until_refused(device: u64) {
    let refused = || -> Result<Error, String> {
        let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(1)?);
        loop {
            Area::current().status(SUBMITTED).store(1, SeqCst);
            match submit(KeyIndex(5), device, &[row(READ, 0, buffer.pages[0], (statuses.pages[0], 0))]) {
                Err(Failure { error: Error::Exhausted | Error::TooMany, .. }) | Ok(_) => time_slice::yield_now(),
                Err(failure) => return Ok(failure.error),
            }
        }
    };
    let error = refused().map_or(u64::MAX, |error| error as u64);
    Area::current().status(REFUSED).store(error, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

fn an_environment_under_enforcement_gets_no_device_pin(world: &World) -> Outcome {
    let child = user(world, submit_until_refused)?;
    wait_for_submission(&child)?;
    check!(child::status(&child, REFUSED) == 0, "refused before anything was asked back");
    granted!(syscall::revocation_request(KEY, child.number, Resource::Page as u64, 1, clock::now()));
    check!(eventually(|| child::status(&child, REFUSED) != 0), "the child goes on submitting");
    let error = child::status(&child, REFUSED);
    check!(error == Error::OverBudget as u64, "it was refused with error {error}");
    granted!(child.destroy());
    let (_, slow) = disk(SLOW)?;
    check!(eventually(|| slow.room.load(Acquire) as u32 == 64), "the slow disk does not come to an end");
    no_pins()?;
    world.pages_add_up()
}

fn rows_that_make_no_sense(_: &World) -> Outcome {
    let (device, info) = disk(GOOD)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(1)?);
    let good = row(READ, 0, buffer.pages[0], (statuses.pages[0], 0));
    let (page, piece) = (buffer.pages[0], TransferRow::piece);
    let wrong = [
        TransferRow { operation: 3 | KEY.0 << KEY_SHIFT, ..good },
        TransferRow { operation: good.operation | 1 << 9, ..good },
        TransferRow { operation: good.operation | 1 << 40, ..good },
        TransferRow { operation: good.operation | MORE, ..good },
        TransferRow { place: 1, ..good },
        TransferRow { place: GOOD << 20, ..good },
        TransferRow { place: (GOOD << 20) - 512, ..good },
        TransferRow { place: u64::MAX - 511, ..good },
        TransferRow { memory: piece(page, 0, 0), ..good },
        TransferRow { memory: piece(page, 0, 511), ..good },
        TransferRow { memory: piece(page, 511, 512), ..good },
        TransferRow { memory: piece(page, 512, PAGE_SIZE), ..good },
        TransferRow { memory: piece(page, 0, 0xfe00), ..good },
        TransferRow { status: TransferRow::word(statuses.pages[0], 512), ..good },
        TransferRow { status: good.status | 1 << 48, ..good },
        TransferRow { memory: good.memory, ..flush((statuses.pages[0], 0)) },
        TransferRow { place: 512, ..flush((statuses.pages[0], 0)) },
    ];
    for (index, row) in wrong.iter().enumerate() {
        let outcome = submit(KEY, device, &[*row]);
        let is_refused = outcome.is_err_and(|failure| failure.error == Error::BadArgument);
        check!(is_refused, "row {index} gave {outcome:?}");
        // A good row in front changes nothing.
        check!(submit(KEY, device, &[good, *row]).is_err(), "row {index} passed behind a good one");
    }
    let list = area::access_list();
    let own_list = TransferRow { memory: piece(list, 0, PAGE_SIZE), ..good };
    refused!(submit(KEY, device, &[own_list]), WrongKind);
    let absent = TransferRow { memory: piece(PageNumber(0xffff_fff0), 0, PAGE_SIZE), ..good };
    refused!(submit(KEY, device, &[absent]), NoSuchPage);
    refused!(submit(KEY, device, &[TransferRow { status: TransferRow::word(list, 0), ..good }]), WrongKind);
    let by_anybody = TransferRow { operation: READ | KeyIndex::WELL_KNOWN.0 << KEY_SHIFT, ..good };
    refused!(submit(KEY, device, &[by_anybody]), NotPermitted);
    let by_none = TransferRow { operation: READ | 43 << KEY_SHIFT, ..good };
    refused!(submit(KEY, device, &[by_none]), NoSuchKey);
    refused!(submit(KeyIndex::WELL_KNOWN, device, &[good]), NotPermitted);
    refused!(submit(KeyIndex(43), device, &[good]), NoSuchKey);
    refused!(submit(KEY, 99, &[good]), Absent);
    refused!(submit(KEY, u64::MAX, &[good]), Absent);
    let channel = exposed::device(kind::CHANNEL, 0).ok_or("no host channel")?.0;
    refused!(submit(KEY, channel, &[good]), Absent);
    refused!(submit(KEY, device, &[good; TRANSFER_ROWS + 1]), TooMany);
    refused!(submit(KEY, device, &[]), BadArgument);
    let at = |address, count, queue| {
        // SAFETY: the kernel refuses the address, or reads nothing.
        unsafe { syscall::device_submit(KEY, device, queue, UserAddress(address), count) }
    };
    refused!(at(abi::memory_map::EXPOSED, 1, 0), BadAddress);
    refused!(at(u64::MAX - 8, 1, 0), BadAddress);
    refused!(at(&raw const good as u64, 1, 1), BadArgument);
    let long: Vec<TransferRow> = (0..33)
        .map(|index| if index < 32 { TransferRow { operation: good.operation | MORE, ..good } } else { good })
        .collect();
    check!(submit(KEY, device, &long).is_err(), "a request of 33 pieces passed");
    let writer = granted!(key::derive(KEY, Rights::READ, DEVICE));
    let write = row(WRITE, 0, buffer.pages[0], (statuses.pages[0], 0));
    refused!(submit(writer, device, &[write]), NotPermitted);
    refused!(submit(writer, device, &[flush((statuses.pages[0], 0))]), NotPermitted);
    granted!(key::discard(writer));
    check!(info.room.load(Acquire) as u32 == 64, "a refused row took room");
    no_pins()?;
    too_many_pins(device, &buffer, &statuses)?;
    statuses.free()?;
    buffer.free()
}

/// An environment has so many device pins and no more; a device takes so many requests and no more.
fn too_many_pins(_: u64, buffer: &Buffer, statuses: &Buffer) -> Outcome {
    let (slow, info) = disk(SLOW)?;
    let mut pins = 0;
    let refusal = loop {
        let request = row(READ, 0, buffer.pages[0], (statuses.pages[0], 100));
        match submit(KEY, slow, &[request; 16]) {
            Ok(_) => pins += 32,
            Err(failure) => break failure.error,
        }
        check!(pins <= DEVICE_PINS, "{pins} pins were given");
    };
    check!(matches!(refusal, Error::TooMany | Error::Exhausted), "too many gave {refusal:?}");
    check!(pins >= 64, "{pins} pins were given only");
    check!(eventually(|| info.room.load(Acquire) as u32 == 64), "the disk does not come to an end");
    no_pins()
}

fn bindings_that_make_no_sense(world: &World) -> Outcome {
    let (device, info) = disk(GOOD)?;
    let own = area::number();
    refused!(syscall::device_bind(KeyIndex::WELL_KNOWN, device, 0, own, 1), NotPermitted);
    refused!(syscall::device_bind(KeyIndex(43), device, 0, own, 1), NoSuchKey);
    refused!(syscall::device_bind(KEY, 99, 0, own, 1), Absent);
    refused!(syscall::device_bind(KEY, device, 1, own, 1), BadArgument);
    refused!(syscall::device_bind(KEY, device, 0, EnvironmentId(1 << 40), 1), NoSuchEnvironment);
    let child = user(world, submit_and_hold)?;
    wait_for_submission(&child)?;
    refused!(syscall::device_bind(KEY, device, 0, child.number, 1 << 63), NotPermitted);
    check!(info.bound.load(Acquire) == 0, "a refused binding binds");
    granted!(child.destroy());
    let (_, slow) = disk(SLOW)?;
    check!(eventually(|| slow.room.load(Acquire) as u32 == 64), "the slow disk does not come to an end");
    no_pins()
}

fn what_a_disk_cannot(_: &World) -> Outcome {
    let (device, info) = disk(CLOSED)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(1)?);
    check!(info.features.load(Acquire) & abi::device::feature::READ_ONLY != 0, "the disk can be written");
    refused!(submit(KEY, device, &[row(WRITE, 0, buffer.pages[0], (statuses.pages[0], 0))]), Absent);
    let read = carry_out(device, &[row(READ, 0, buffer.pages[0], (statuses.pages[0], 0))], &statuses)?;
    check!(read == status::DONE, "a read ended with {read}");
    statuses.free()?;
    buffer.free()
}

/// It sees the records and nothing else.
fn an_environment_without_a_key_gets_nothing() -> Outcome {
    let (device, _) = disk(GOOD)?;
    let (statuses, buffer) = (Buffer::new(1)?, Buffer::new(1)?);
    for key in (0..44).map(KeyIndex) {
        for operation in [READ, WRITE] {
            let outcome = submit(key, device, &[row(operation, 0, buffer.pages[0], (statuses.pages[0], 0))]);
            let error = outcome.map_err(|failure| failure.error);
            check!(matches!(error, Err(Error::NoSuchKey | Error::NotPermitted)), "key {} gave {error:?}", key.0);
        }
        let bound = syscall::device_bind(key, device, 0, area::number(), 1).map_err(|failure| failure.error);
        check!(matches!(bound, Err(Error::NoSuchKey | Error::NotPermitted)), "key {} gave {bound:?}", key.0);
    }
    let _ = entry::exit as fn(u32) -> !;
    statuses.free()?;
    buffer.free()
}
