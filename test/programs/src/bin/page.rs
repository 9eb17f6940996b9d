//! Physical pages: who may map, free, name and keep them; what is never mapped at all; what a fresh page holds.
#![no_std]
#![no_main]

extern crate alloc;

use abi::capability::Rights;
use abi::page_table::{ALLOWED, CACHE_DISABLE, LARGE, MapRow, NO_EXECUTE, PAGE, SOFTWARE, WRITE};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::address_space::{self, Access};
use runtime::area::Area;
use runtime::environment::PRIVATE_COUNT;
use runtime::page::{self, Allocator, PageKind};
use runtime::window::Window;
use runtime::{Error, Failure, KeyIndex, PageNumber, area, channel, exposed, key, syscall, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{death, eventually, launch, prepare, status};
use test_programs::writer::{self, Writer};
use test_programs::{Outcome, World, attempt, check, granted, guest, level_one_of, refused};

guest! {
    Here the_boot_is_short;
    Here the_kernel_keeps_little_for_itself;
    Child a_page_by_name_and_any_page;
    Child one_page_at_several_addresses;
    Child the_order_of_last_use_is_exposed;
    Child a_claimed_page_changes_hands;
    Child a_copy_begins_with_what_lies_in_another_page;
    Child fault_04_page_of_another_environment;
    Here fault_05_pages_that_are_not_memory;
    Child fault_06_bits_of_an_entry;
    Child fault_07_large_page_not_wholly_owned;
    Child fault_08_freed_twice_and_freed_while_mapped;
    Child fault_09_stale_translation;
    Here fault_09_stale_translation_on_another_cpu;
    Here fault_09_page_of_another_while_its_old_address_is_written;
    Child fault_10_typed_page_mapped_writable;
    Child fault_11_addresses_outside_the_user_half;
    Child fault_12_page_zero;
    Child fault_33_fresh_pages_are_zero;
}

/// What the boot may take at [`BOOT_PAGES`], in instructions and time that the counting clock passes over in a halt.
const BOOT_INSTRUCTIONS: u64 = 5_000_000;
/// The pages of 256 MiB.
const BOOT_PAGES: u64 = 256 << 20 >> 12;

/// What the kernel may keep of any machine, in addition to a part that grows with its memory.
const KERNEL_BYTES: u64 = 8 << 20;

/// How often a mapping is taken from under a thread on another CPU, and how often the page is looked at then.
const ROUNDS: usize = 100;
const WATCHED: u64 = 10_000;

/// A free place in the address space of a child.
const PLACE: u64 = writer::PLACE;

fn the_boot_is_short(world: &World) -> Outcome {
    let took = exposed::kernel().boot_ticks.load(Relaxed);
    if world.counting && exposed::kernel().pages.load(Relaxed) <= BOOT_PAGES {
        channel::measurement("boot to the first user instruction", took, "instructions");
        check!((1..=BOOT_INSTRUCTIONS).contains(&took), "the boot took {took} instructions");
    }
    Ok(())
}

/// Eight MiB and 2% of memory: its image, its records of pages, slots of environments and positions.
fn the_kernel_keeps_little_for_itself(world: &World) -> Outcome {
    let (kept, all) = (exposed::kernel().kernel_pages.load(Relaxed), world.all_pages);
    channel::measurement("kept by the kernel", kept, "pages");
    check!(kept * 4096 <= KERNEL_BYTES + all * 4096 / 50, "the kernel keeps {kept} of {all} pages");
    Ok(())
}

fn map(address: u64, entry: u64) -> Result<(), Failure> {
    address_space::own().apply(&[MapRow { address: address | KeyIndex::FIRST.0, entry }])
}

fn word(address: u64) -> u64 {
    // SAFETY: the tests read only where they have mapped a page.
    unsafe { (address as *const u64).read_volatile() }
}

fn set_word(address: u64, value: u64) {
    // SAFETY: the tests write only where they have mapped a page.
    unsafe { (address as *mut u64).write_volatile(value) };
}

fn fresh() -> Result<PageNumber, alloc::string::String> {
    Ok(granted!(Allocator::own().allocate()))
}

fn a_page_by_name_and_any_page() -> Outcome {
    let pages = Allocator::own();
    let page = fresh()?;
    let info = exposed::page(page).ok_or("no record")?;
    check!(info.kind() == PageKind::Ordinary && info.owner() == area::number(), "{page:?} is not ours");
    check!(info.access() == pages.list, "it is under another list");
    refused!(pages.allocate_this(page), NotFree);
    granted!(pages.free(page));
    check!(info.kind() == PageKind::Free, "it is not free after page_free");
    check!(granted!(pages.allocate_this(page)) == page, "another page came than was named");
    refused!(pages.allocate_this(PageNumber(exposed::kernel().pages.load(Relaxed))), NoSuchPage);
    refused!(pages.allocate_this(PageNumber(u64::MAX >> 1)), NoSuchPage);
    refused!(page::allocate_one(KeyIndex::WELL_KNOWN, pages.list, PageNumber::NONE), NotPermitted);
    refused!(page::allocate_one(KeyIndex::FIRST, page, PageNumber::NONE), WrongKind);
    granted!(pages.free(page));
    Ok(())
}

fn one_page_at_several_addresses() -> Outcome {
    let page = fresh()?;
    let places = [PLACE, PLACE + 0x5000, PLACE + (1 << 30), PLACE + (1 << 40)];
    for place in places {
        granted!(map(place, page.address() | Access::WRITE.0));
    }
    set_word(places[0] + 8, 0x1234_5678);
    check!(places.iter().all(|place| word(place + 8) == 0x1234_5678), "the places show different pages");
    let info = exposed::page(page).ok_or("no record")?;
    check!(info.references() == places.len() as u64, "{} references are exposed", info.references());
    for place in places {
        granted!(map(place, 0));
    }
    check!(info.references() == 0, "{} references are left", info.references());
    granted!(Allocator::own().free(page));
    Ok(())
}

fn the_order_of_last_use_is_exposed() -> Outcome {
    let pages = [fresh()?, fresh()?, fresh()?];
    let last_use = |page: PageNumber| exposed::page(page).map_or(0, |info| info.last_use.load(Relaxed));
    for page in [pages[1], pages[2], pages[0]] {
        granted!(map(PLACE, page.address() | Access::READ.0));
        granted!(map(PLACE, 0));
    }
    let uses = pages.map(last_use);
    check!(uses[1] < uses[2] && uses[2] < uses[0], "last uses {uses:?} do not tell the order");
    check!(Allocator::own().free_many(&pages) == 3, "not all pages were freed");
    Ok(())
}

fn a_claimed_page_changes_hands() -> Outcome {
    let own = granted!(key::derive(KeyIndex::FIRST, Rights::ALL, 0));
    let list = fresh()?;
    granted!(page::become_list(KeyIndex::FIRST, list, own));
    let page = fresh()?;
    granted!(syscall::page_claim(KeyIndex::FIRST, page, own, list));
    check!(exposed::page(page).map(|info| info.access()) == Some(list), "the page is not under the new list");
    refused!(syscall::page_claim(KeyIndex::WELL_KNOWN, page, own, list), NotPermitted);
    granted!(syscall::page_free(own, page));
    granted!(syscall::page_free(own, list));
    granted!(key::discard(own));
    Ok(())
}

/// Fills the page that is mapped at a place, each word with another value.
fn fill(place: u64, value: u64) {
    (0..512).for_each(|index| set_word(place + index * 8, value ^ index << 32));
}

fn is_filled(place: u64, value: u64) -> bool {
    (0..512).all(|index| word(place + index * 8) == value ^ index << 32)
}

fn a_copy_begins_with_what_lies_in_another_page() -> Outcome {
    const OTHER: u64 = PLACE + 0x1000;
    const VALUE: u64 = 0x0123_4567;
    let own = Allocator::own();
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    fill(PLACE, VALUE);
    // The contents of the page before it became the copy are gone: most free pages belonged to an environment before.
    let mut copies = [page; 8];
    granted!(own.copy_many(KeyIndex::FIRST, &mut copies));
    for copy in copies {
        let info = exposed::page(copy).ok_or("no record")?;
        check!(info.kind() == PageKind::Ordinary && info.owner() == area::number(), "{copy:?} is not ours");
        check!(info.access() == own.list && info.references() == 0, "it is under another list, or mapped");
        check!(info.flags() & abi::page::ZEROED == 0, "it is said to hold zeros");
        granted!(map(OTHER, copy.address() | Access::WRITE.0));
        check!(is_filled(OTHER, VALUE), "the copy holds something else");
        fill(OTHER, !VALUE);
        check!(is_filled(PLACE, VALUE), "who writes the copy writes the page");
        granted!(map(OTHER, 0));
    }
    fill(PLACE, 0);
    granted!(map(OTHER, copies[0].address() | Access::READ.0));
    check!(is_filled(OTHER, !VALUE), "who writes the page writes the copy");
    granted!(map(OTHER, 0));
    granted!(map(PLACE, 0));
    check!(own.free_many(&copies) == 8 && own.free(page).is_ok(), "not all pages were freed");
    Ok(())
}

fn words_of(window: &Window) -> Vec<u64> {
    window.words().iter().map(|word| word.load(Relaxed)).collect()
}

/// What is exposed of a page.
fn record_of(page: PageNumber) -> Option<[u64; 6]> {
    let words = |info: exposed::Page| {
        [&info.state, &info.owner, &info.access, &info.holds, &info.last_use, &info.parent]
            .map(|word| word.load(Relaxed))
    };
    exposed::page(page).map(words)
}

/// Tries to map a page of another environment where nothing is mapped, and where a page of ours can be read or written:
/// alone, and between rows that are granted. `table` shows the entries, none of which may change by it.
fn try_to_map(page: PageNumber, own: PageNumber, table: &Window) -> Outcome {
    let kind = exposed::page(page).map(|info| info.kind());
    // The public page of an environment can be read by all.
    let accesses = &[Access::READ, Access::WRITE][usize::from(kind == Some(PageKind::EnvironmentPublic))..];
    let befores = [0, own.address() | Access::READ.0, own.address() | Access::WRITE.0];
    for (before, key) in
        befores.into_iter().flat_map(|before| [KeyIndex::WELL_KNOWN, KeyIndex::FIRST].map(|key| (before, key)))
    {
        granted!(map(PLACE, before));
        let (entries, record) = (words_of(table), record_of(page));
        for access in accesses {
            let theirs = MapRow { address: PLACE | key.0, entry: page.address() | access.0 };
            let ours = MapRow { address: (PLACE + 0x1000) | KeyIndex::FIRST.0, entry: before };
            for (rows, done) in [(&[theirs][..], 0), (&[ours, theirs, ours], 1)] {
                let told = address_space::own().apply(rows);
                let is_refused = |failure: Failure| failure == Error::NotPermitted.about(done);
                check!(told.is_err_and(is_refused), "{page:?}, a {kind:?}, with {key:?} over {before:#x}: {told:?}");
            }
        }
        granted!(map(PLACE + 0x1000, 0));
        check!(words_of(table) == entries, "entries changed where {page:?}, a {kind:?}, was refused over {before:#x}");
        check!(record_of(page) == record, "the record of {page:?}, a {kind:?}, is another after a refusal");
        check!(syscall::page_free(key, page).is_err(), "{page:?} of the creator could be freed");
    }
    Ok(())
}

fn fault_04_page_of_another_environment() -> Outcome {
    let parent = exposed::environment(area::number()).ok_or("no record")?.creator.load(Relaxed);
    let parent = exposed::environment(abi::EnvironmentId(parent)).ok_or("no creator")?;
    let own = fresh()?;
    granted!(map(PLACE, own.address() | Access::WRITE.0));
    let table = granted!(Window::open(&[granted!(level_one_of(PLACE))], KeyIndex::FIRST, Access::READ));
    let at = (PLACE >> 12 & 511) as usize;
    check!(words_of(&table)[at] & PAGE == own.address(), "the entry is {:#x}", words_of(&table)[at]);
    let (mut tried, mut private) = ([0; PageKind::COUNT as usize], 0);
    for page in parent.pages().take(400).collect::<Vec<_>>() {
        let info = exposed::page(page).ok_or("no record")?;
        // The child may map its own private pages, and only it; they are charged to the creator.
        if info.kind() == PageKind::EnvironmentPrivate && map(PLACE, page.address() | Access::READ.0).is_ok() {
            private += 1;
        } else if info.access() != Allocator::own().list {
            try_to_map(page, own, &table)?;
            tried[info.kind() as usize] += 1;
        }
    }
    check!(private == PRIVATE_COUNT, "{private} private pages could be mapped");
    for kind in [PageKind::Ordinary, PageKind::PageTable, PageKind::EnvironmentPublic, PageKind::EnvironmentPrivate] {
        check!(tried[kind as usize] > 0, "the creator has no {kind:?}: {tried:?}");
    }
    drop(table);
    granted!(map(PLACE, 0));
    watch();
    check!(attempt!(["mov rax, [0x20000000]"]).is_some(), "something is mapped after all refusals");
    granted!(Allocator::own().free(own));
    Ok(())
}

/// With the root key: no page that is not memory can be mapped writable, and the kernel's not at all. Public pages can
/// be written by who holds the key, private ones by whose they are.
fn fault_05_pages_that_are_not_memory(_: &World) -> Outcome {
    let mut tried = [0u64; PageKind::COUNT as usize];
    let mut private = 0;
    for number in 0..exposed::kernel().pages.load(Relaxed) {
        let Some(info) = exposed::page(PageNumber(number)) else { continue };
        let kind = info.kind();
        if matches!(kind, PageKind::Ordinary | PageKind::EnvironmentPublic) || tried[kind as usize] > 200 {
            continue;
        }
        tried[kind as usize] += 1;
        for access in [Access::WRITE.0, Access::WRITE.0 & !NO_EXECUTE] {
            let mapped = map(PLACE, number << 12 | access);
            if kind == PageKind::EnvironmentPrivate && mapped.is_ok() {
                private += 1;
                granted!(map(PLACE, 0));
                continue;
            }
            check!(mapped.is_err(), "page {number} of kind {kind:?} could be mapped writable");
        }
        if matches!(
            kind,
            PageKind::Kernel | PageKind::Absent | PageKind::Free | PageKind::KeyRing | PageKind::EnvironmentControl
        ) {
            check!(
                map(PLACE, number << 12 | Access::READ.0).is_err(),
                "page {number} of kind {kind:?} could be mapped"
            );
        }
    }
    check!(private <= 2 * abi::boot::PRIVATE_PAGES, "{private} private pages could be mapped");
    for kind in [PageKind::Kernel, PageKind::Free, PageKind::PageTable, PageKind::AccessList, PageKind::KeyRing] {
        check!(tried[kind as usize] > 0, "no page of kind {kind:?} was found");
    }
    Ok(())
}

fn fault_06_bits_of_an_entry() -> Outcome {
    let page = fresh()?;
    for bit in (0..64).filter(|bit| ALLOWED & 1 << bit == 0) {
        refused!(map(PLACE, page.address() | Access::READ.0 | 1 << bit), BadArgument);
    }
    for entry in [WRITE, NO_EXECUTE, page.address(), page.address() | WRITE] {
        refused!(map(PLACE, entry), BadArgument);
    }
    let beyond = exposed::kernel().pages.load(Relaxed);
    for number in [beyond, 1 << 39, (1 << 40) - 1] {
        refused!(map(PLACE, number << 12 | Access::READ.0), NoSuchPage);
    }
    let extra = SOFTWARE | CACHE_DISABLE;
    granted!(map(PLACE, page.address() | Access::WRITE.0 | extra));
    set_word(PLACE, 7);
    granted!(map(PLACE, SOFTWARE));
    watch();
    check!(attempt!(["mov rax, [0x20000000]"]).is_some(), "an entry with software bits alone maps something");
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    Ok(())
}

fn fault_07_large_page_not_wholly_owned() -> Outcome {
    let page = fresh()?;
    let aligned = page.0 & !511;
    check!(map(PLACE, aligned << 12 | Access::WRITE.0 | LARGE).is_err(), "2 MiB around one page could be mapped");
    check!(map(PLACE, page.address() | Access::READ.0 | LARGE).is_err(), "2 MiB from {page:?} could be mapped");
    refused!(map(PLACE + 0x1000, aligned << 12 | Access::READ.0 | LARGE), BadAddress);
    granted!(Allocator::own().free(page));
    Ok(())
}

fn fault_08_freed_twice_and_freed_while_mapped() -> Outcome {
    let page = fresh()?;
    granted!(Allocator::own().free(page));
    check!(Allocator::own().free(page).is_err(), "a page was freed twice");
    let page = fresh()?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    set_word(PLACE, 0xfeed);
    granted!(Allocator::own().free(page));
    let info = exposed::page(page).ok_or("no record")?;
    check!(info.kind() != PageKind::Free, "a page that is mapped is free");
    check!(Allocator::own().free(page).is_err(), "an orphan was freed");
    refused!(Allocator::own().allocate_this(page), NotFree);
    check!(word(PLACE) == 0xfeed, "the orphan lost its contents");
    check!(
        map(PLACE + 0x1000, page.address() | Access::READ.0).is_err() || info.references() == 2,
        "references are wrong"
    );
    granted!(map(PLACE + 0x1000, 0));
    granted!(map(PLACE, 0));
    check!(info.kind() == PageKind::Free, "the orphan is not free after the last unmap");
    Ok(())
}

fn fault_09_stale_translation() -> Outcome {
    watch();
    for round in 0..100 {
        let page = fresh()?;
        granted!(map(PLACE, page.address() | Access::WRITE.0));
        set_word(PLACE, round);
        granted!(map(PLACE, 0));
        granted!(Allocator::own().free(page));
        let next = granted!(Allocator::own().allocate_this(page));
        granted!(map(PLACE + 0x1000, next.address() | Access::WRITE.0));
        let raised = attempt!(["mov rax, 0x20000000", "mov qword ptr [rax], 0x666"]);
        check!(raised.is_some_and(|frame| frame.detail == PLACE), "round {round}: the old address still works");
        check!(word(PLACE + 0x1000) == 0, "round {round}: the new owner's page was written");
        granted!(map(PLACE + 0x1000, next.address() | Access::READ.0));
        let raised = attempt!(["mov rax, 0x20001000", "mov qword ptr [rax], 0x666"]);
        check!(raised.is_some_and(|frame| frame.error == 7), "round {round}: a read-only page could be written");
        granted!(map(PLACE + 0x1000, 0));
        granted!(Allocator::own().free(next));
    }
    Ok(())
}

/// A thread on another CPU keeps writing through a mapping. As soon as the call that narrows or removes the mapping has
/// returned, no write comes through any more, and the page can go to any environment.
fn fault_09_stale_translation_on_another_cpu(_: &World) -> Outcome {
    if exposed::kernel().cpus.load(SeqCst) == 1 {
        return Ok(());
    }
    let writer = Writer::start()?;
    let page = fresh()?;
    granted!(map(PLACE + 0x1000, page.address() | Access::WRITE.0));
    for (round, less) in [0, page.address() | Access::READ.0].into_iter().cycle().take(ROUNDS).enumerate() {
        granted!(map(PLACE, page.address() | Access::WRITE.0));
        writer.writes_once_more()?;
        granted!(map(PLACE, less));
        set_word(PLACE + 0x1000, 0);
        let clean = (0..WATCHED).all(|_| word(PLACE + 0x1000) == 0);
        check!(clean, "round {round}: a write came through after the entry had become {less:#x}");
    }
    writer.end()?;
    granted!(map(PLACE, 0));
    granted!(map(PLACE + 0x1000, 0));
    granted!(Allocator::own().free(page));
    Ok(())
}

/// Where the new owner of a page is shown its number, and finds the page itself. Status words of it: pages that it had,
/// and words that a stranger wrote.
const NUMBER: u64 = 0x2200_0000;
const NEW_PLACE: u64 = 0x2300_0000;
const HAD: usize = 1;
const DAMAGED: usize = 2;

/// Allocates each page that it is told of, fills it, and looks whether its words stay.
extern "C" fn own_it_next(_: u64) {
    // SAFETY: the creator shows its page here, which holds atomics only.
    let [round, number] = unsafe { &*(NUMBER as *const [AtomicU64; 2]) };
    let (own, area) = (Allocator::own(), Area::current());
    for next in 1.. {
        while round.load(SeqCst) < next {
            time_slice::yield_now();
        }
        let page = PageNumber(number.load(SeqCst));
        if own.allocate_this(page).is_err() || map(NEW_PLACE, page.address() | Access::WRITE.0).is_err() {
            break;
        }
        fill(NEW_PLACE, next);
        let damaged = (0..WATCHED / 100).filter(|_| !is_filled(NEW_PLACE, next)).count();
        area.status(DAMAGED).fetch_add(damaged as u64, SeqCst);
        let _ = map(NEW_PLACE, 0);
        let _ = own.free(page);
        area.status(HAD).store(next, SeqCst);
    }
}

/// A thread on another CPU, where there is one, keeps writing through a mapping. Meanwhile the page is given up, loses
/// its mapping, and becomes another environment's: the thread faults, and writes nothing there.
fn fault_09_page_of_another_while_its_old_address_is_written(world: &World) -> Outcome {
    let writer = Writer::start()?;
    let shown = fresh()?;
    let window = granted!(Window::open(&[shown], KeyIndex::FIRST, Access::WRITE));
    let mut builder = prepare(world, own_it_next, 0)?;
    granted!(builder.show(NUMBER, &[shown], Access::READ));
    let next = launch(builder)?;
    for round in 1..=ROUNDS as u64 / 2 {
        let page = fresh()?;
        granted!(map(PLACE, page.address() | Access::WRITE.0));
        let before = writer.writes();
        check!(eventually(|| writer.writes() > before), "round {round}: the thread does not write");
        // It has the translation now, or had it just now.
        granted!(Allocator::own().free(page));
        refused!(Allocator::own().allocate_this(page), NotFree);
        granted!(map(PLACE, 0));
        let written = writer.writes();
        window.words()[1].store(page.0, SeqCst);
        window.words()[0].store(round, SeqCst);
        // At once: the end of a slice on the other CPU drops translations, too.
        let _ = time_slice::yield_to(next.number);
        check!(
            eventually(|| status(&next, HAD) == round),
            "round {round}: the page has no new owner: {}",
            death(&next)
        );
        // One may have been done and not yet counted.
        let more = writer.writes() - written;
        check!(more <= 1, "round {round}: {more} writes came through afterwards");
        check!(
            status(&next, DAMAGED) == 0,
            "round {round}: the new owner's page was written {} times",
            status(&next, DAMAGED)
        );
    }
    writer.end()?;
    granted!(next.destroy());
    drop(window);
    granted!(Allocator::own().free(shown));
    Ok(())
}

fn fault_10_typed_page_mapped_writable() -> Outcome {
    let (first, second) = (PLACE, PLACE + 0x1000);
    let create_list = |key, page| page::become_list(key, page, key);
    for create in [create_list, page::become_regions, page::become_root] {
        let page = fresh()?;
        granted!(map(first, page.address() | Access::WRITE.0));
        refused!(create(KeyIndex::FIRST, page), InUse);
        granted!(map(first, page.address() | Access::READ.0));
        refused!(create(KeyIndex::FIRST, page), InUse);
        granted!(map(first, 0));
        granted!(create(KeyIndex::FIRST, page));
        check!(map(first, page.address() | Access::WRITE.0).is_err(), "a typed page could be mapped writable");
        check!(map(second, page.address() | (Access::WRITE.0 & !NO_EXECUTE)).is_err(), "and at a second address");
        let _ = map(first, 0);
        granted!(syscall::page_free(KeyIndex::FIRST, page));
    }
    Ok(())
}

fn fault_11_addresses_outside_the_user_half() -> Outcome {
    let page = fresh()?;
    let entry = page.address() | Access::READ.0;
    for address in [
        abi::memory_map::USER_END,
        0x0000_8000_0000_0000,
        0x0000_ffff_ffff_f000,
        0xffff_8000_0000_0000,
        abi::memory_map::EXPOSED,
        abi::memory_map::KERNEL_IMAGE,
        0xffff_ffff_ffff_f000,
    ] {
        refused!(map(address, entry), BadAddress);
        refused!(map(address, 0), BadAddress);
        // SAFETY: nothing is linked where the kernel refuses.
        let linked = unsafe {
            syscall::page_table_link(
                KeyIndex::FIRST,
                area::root(),
                runtime::UserAddress(address),
                1,
                page,
                KeyIndex::FIRST,
            )
        };
        refused!(linked, BadAddress);
    }
    refused!(map(abi::memory_map::USER_END - (2 << 20) + 0x1000, entry | LARGE), BadAddress);
    let last = abi::memory_map::USER_END - 0x1000;
    granted!(map(last, page.address() | Access::EXECUTE.0 | WRITE));
    set_word(last + 0xff8, 0x050f_9090_9090_9090);
    watch();
    // A call from the last two bytes: it would return to the end of the user half.
    let raised = attempt!(["mov eax, 0", "mov r8, 0x7fffffffeff8", "jmp r8"]);
    check!(raised.is_some_and(|frame| frame.detail == abi::memory_map::USER_END), "it raised {raised:?}");
    granted!(map(last, 0));
    granted!(Allocator::own().free(page));
    Ok(())
}

fn fault_12_page_zero() -> Outcome {
    watch();
    check!(attempt!(["xor eax, eax", "mov rax, [rax]"]).is_some(), "page 0 is mapped in a new environment");
    let page = fresh()?;
    granted!(map(0, page.address() | Access::WRITE.0));
    // SAFETY: page 0 was just mapped; the compiler is not told that the address is null.
    unsafe { core::arch::asm!("mov qword ptr [{}], 99", in(reg) 0u64) };
    let read: u64;
    // SAFETY: as above.
    unsafe { core::arch::asm!("mov {}, [{}]", out(reg) read, in(reg) 0u64) };
    check!(read == 99, "page 0 holds {read}");
    granted!(map(0, 0));
    granted!(Allocator::own().free(page));
    Ok(())
}

fn fault_33_fresh_pages_are_zero() -> Outcome {
    let own = Allocator::own();
    // Ten thousand pages and more, of the same few.
    for round in 0..160u64 {
        let mut pages = vec![PageNumber::NONE; 64];
        granted!(own.allocate_many(&mut pages));
        let window = granted!(Window::open(&pages, KeyIndex::FIRST, Access::WRITE));
        let dirty = window.words().iter().position(|word| word.load(Relaxed) != 0);
        check!(dirty.is_none(), "round {round}: word {dirty:?} of fresh pages is not zero");
        window.words().iter().for_each(|word| word.store(0xdead_beef_0000_0000 | round, Relaxed));
        drop(window);
        check!(own.free_many(&pages) == pages.len(), "round {round}: not all pages were freed");
    }
    Ok(())
}
