//! Revocation: the kernel asks, insists, takes, and says what it took (exokernel-sosp95 §3.3, §3.4).
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::capability::Rights;
use abi::limits::REPOSSESSION_ENTRIES;
use abi::machine::Setting;
use abi::upcall::kind;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{Access, AddressSpace};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::page::{self, Allocator, PageKind};
use runtime::upcall::{Context, set_handler};
use runtime::window::Window;
use runtime::{Error, KeyIndex, PageNumber, area, clock, exposed, syscall, time_slice};
use test_programs::child::{eventually, launch, prepare, status};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, granted, guest, is_counting, refused};

guest! {
    Here an_environment_gives_back_what_is_asked;
    Here fault_39_request_ignored_for_pages;
    Here fault_39_request_ignored_for_slices;
    Here fault_39_nothing_is_taken_before_its_time;
    Here fault_39_named_pages_go_first;
    Here named_pages_are_saved_before_they_go;
    Here an_emergency_comes_before_anything_vital_is_taken;
    Here the_root_key_sets_the_emergency_grace;
    Here fault_39_pages_hidden_behind_what_cannot_be_taken;
    Here fault_40_answered_with_pages_of_others;
    Here requests_that_make_no_sense;
    Here fault_152_requests_that_stand_in_the_way;
    Here fault_152_pages_made_into_objects;
    Here fault_152_pages_mapped_elsewhere;
    Here fault_152_more_than_there_is_to_take;
    Here churn_under_random_revocation;
}

/// Status words of the children: pages held, pages given back, repossessions seen, upcalls of each kind.
const HELD: usize = 1;
const GIVEN: usize = 2;
const REPOSSESSIONS: usize = 3;
const REQUESTS: usize = 4;
/// And of [`ignore_emergency`]: emergencies seen, and pages taken before the last one.
const EMERGENCIES: usize = 5;
const TAKEN_BEFORE: usize = 6;
/// Pages that a holder allocates.
const HOARD: u64 = 100;
/// First word of the public library words in which a holder lists its pages.
const LISTED: usize = 0;
/// First of those in which it lists its repossession vector: the resource in the highest bits, and which one.
const TAKEN: usize = 128;
const _: () = assert!(TAKEN + REPOSSESSION_ENTRIES <= 256 && HOARD as usize <= TAKEN);

extern "C" fn answer_with_pages(context: &mut Context) {
    let area = Area::current();
    area.status(REQUESTS).fetch_add(1, SeqCst);
    if context.frame.kind == kind::REPOSSESSION {
        let seen = area.private().repossessed.load(SeqCst);
        area.status(REPOSSESSIONS).fetch_max(seen, SeqCst);
    }
    if context.frame.kind != kind::REVOCATION || context.frame.error != Resource::Page as u64 {
        return;
    }
    for index in (0..HOARD as usize).rev() {
        if area.status(GIVEN).load(SeqCst) >= context.frame.detail {
            return;
        }
        let page = PageNumber(area.public_library(LISTED + index).load(SeqCst));
        if page.0 != 0 && Allocator::own().free(page).is_ok() {
            area.public_library(LISTED + index).store(0, SeqCst);
            area.status(GIVEN).fetch_add(1, SeqCst);
        }
    }
}

extern "C" fn note_only(context: &mut Context) {
    let area = Area::current();
    area.status(REQUESTS).fetch_add(1, SeqCst);
    if context.frame.kind == kind::REPOSSESSION {
        let seen = area.private().repossessed.load(SeqCst);
        for (index, entry) in area.private().repossession.iter().enumerate().take(seen as usize) {
            area.public_library(TAKEN + index)
                .store(entry.resource.load(SeqCst) << 60 | entry.name.load(SeqCst), SeqCst);
        }
        area.status(REPOSSESSIONS).fetch_max(seen, SeqCst);
    }
}

/// Allocates pages and lists them in the public page; so many of them are to be taken first.
fn hold(first: u64) {
    let (area, private) = (Area::current(), Area::current().private());
    for index in 0..HOARD {
        let Ok(page) = Allocator::own().allocate() else { break };
        area.public_library(LISTED + index as usize).store(page.0, SeqCst);
        if index < first {
            private.take_first[index as usize].store(page.0, SeqCst);
            private.take_first_count.store(index + 1, SeqCst);
        }
        area.status(HELD).store(index + 1, SeqCst);
    }
    loop {
        time_slice::yield_now();
    }
}

/// Gives back what is asked.
extern "C" fn cooperate(_: u64) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, answer_with_pages);
    }
    hold(0);
}

/// Ignores every request, and names so many of its pages to be taken first.
extern "C" fn ignore(first: u64) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, note_only);
    }
    hold(first);
}

extern "C" fn note_emergency(context: &mut Context) {
    let area = Area::current();
    if context.frame.kind == kind::EMERGENCY {
        area.status(TAKEN_BEFORE).store(area.private().repossessed.load(SeqCst), SeqCst);
        area.status(EMERGENCIES).fetch_add(1, SeqCst);
    }
    note_only(context);
}

/// As [`ignore`]; notes what was taken when the emergency came.
extern "C" fn ignore_emergency(first: u64) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, note_emergency);
    }
    hold(first);
}

/// Answers with pages that are not its own, or twice with the same.
extern "C" fn lie(context: &mut Context) {
    Area::current().status(REQUESTS).fetch_add(1, SeqCst);
    let page = PageNumber(Area::current().public_library(LISTED).load(SeqCst));
    let _ = Allocator::own().free(page);
    let _ = Allocator::own().free(page);
    let creator = exposed::environment(area::number()).map_or(1, |info| info.creator.load(SeqCst));
    let own = Allocator::own();
    let stranger = |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.access() != own.list);
    let others = exposed::environment(abi::EnvironmentId(creator)).into_iter().flat_map(|info| info.pages());
    let freed = others.take(200).filter(stranger).filter(|page| own.free(*page).is_ok()).count();
    Area::current().status(GIVEN).fetch_add(freed as u64, SeqCst);
    if context.frame.kind == kind::REPOSSESSION {
        Area::current().status(REPOSSESSIONS).store(Area::current().private().repossessed.load(SeqCst), SeqCst);
    }
}

extern "C" fn deceive(_: u64) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, lie);
    }
    hold(HOARD);
}

fn holder(world: &World, function: extern "C" fn(u64), argument: u64) -> Result<Child, String> {
    let child = launch(prepare(world, function, argument)?)?;
    check!(eventually(|| status(&child, HELD) == HOARD), "the child holds {} pages", status(&child, HELD));
    Ok(child)
}

fn used(child: &Child, resource: Resource) -> u64 {
    child.info().map_or(0, |info| info.budget[resource as usize].used.load(SeqCst))
}

fn request(child: &Child, resource: Resource, count: u64, wait: u64) -> Outcome {
    granted!(syscall::revocation_request(KeyIndex::FIRST, child.number, resource as u64, count, clock::now() + wait));
    Ok(())
}

/// Drives the taking until it is over.
fn enforce(child: &Child) -> Outcome {
    let end = clock::now() + 100_000_000_000;
    while let Err(failure) = syscall::revocation_enforce(KeyIndex::FIRST, child.number) {
        check!(matches!(failure.error, Error::Again | Error::BadArgument), "enforcing gave {failure:?}");
        if failure.error == Error::BadArgument {
            break;
        }
        check!(clock::now() < end, "enforcing does not end");
        time_slice::yield_now();
    }
    Ok(())
}

fn an_environment_gives_back_what_is_asked(world: &World) -> Outcome {
    let child = holder(world, cooperate, 0)?;
    let before = used(&child, Resource::Page);
    request(&child, Resource::Page, 30, 60_000_000_000)?;
    check!(
        eventually(|| used(&child, Resource::Page) <= before - 30),
        "{before} pages became {}",
        used(&child, Resource::Page)
    );
    enforce(&child)?;
    check!(status(&child, REPOSSESSIONS) == 0, "{} pages were taken by force", status(&child, REPOSSESSIONS));
    check!(child.alive(), "the child died");
    granted!(child.destroy());
    Ok(())
}

fn fault_39_request_ignored_for_pages(world: &World) -> Outcome {
    let child = holder(world, ignore, 0)?;
    let before = used(&child, Resource::Page);
    let had = pages_of(&child);
    request(&child, Resource::Page, 40, 10_000_000)?;
    check!(eventually(|| status(&child, REQUESTS) > 0), "the child was not asked");
    for _ in 0..20 {
        time_slice::yield_now();
    }
    enforce(&child)?;
    check!(used(&child, Resource::Page) <= before - 40, "{before} pages became {}", used(&child, Resource::Page));
    check!(
        eventually(|| status(&child, REPOSSESSIONS) == 40),
        "the vector tells of {} pages",
        status(&child, REPOSSESSIONS)
    );
    let left = pages_of(&child);
    let gone = had.into_iter().filter(|page| !left.contains(page)).map(|page| (Resource::Page as u64) << 60 | page);
    check!(sorted(gone.collect()) == taken(&child, 40), "the vector names others than what was taken");
    check!(child.alive(), "the child died: {}", test_programs::child::death(&child));
    granted!(child.destroy());
    Ok(())
}

fn fault_39_request_ignored_for_slices(world: &World) -> Outcome {
    let mut builder = prepare(world, ignore, 0)?;
    builder.budget(Resource::Slice, 6);
    let child = granted!(builder.create());
    for _ in 0..6 {
        granted!(child.run(0, time_slice::ANY_POSITION));
    }
    check!(eventually(|| status(&child, HELD) == HOARD), "the child does not run");
    let had = positions_of(&child);
    request(&child, Resource::Slice, 4, 10_000_000)?;
    for _ in 0..20 {
        time_slice::yield_now();
    }
    enforce(&child)?;
    check!(used(&child, Resource::Slice) == 2, "{} slices are left", used(&child, Resource::Slice));
    check!(
        eventually(|| status(&child, REPOSSESSIONS) == 4),
        "the vector tells of {} slices",
        status(&child, REPOSSESSIONS)
    );
    let left = positions_of(&child);
    let gone = had.into_iter().filter(|at| !left.contains(at)).map(|at| (Resource::Slice as u64) << 60 | at);
    check!(sorted(gone.collect()) == taken(&child, 4), "the vector names others than what was taken");
    granted!(child.destroy());
    Ok(())
}

/// The pages that are charged to it, by number.
fn pages_of(child: &Child) -> Vec<u64> {
    child.info().map(|info| info.pages().map(|page| page.0).collect()).unwrap_or_default()
}

/// Its positions of CPU 0.
fn positions_of(child: &Child) -> Vec<u64> {
    let its = |at: &u64| exposed::slices(0)[*at as usize].owner.load(SeqCst) == child.number.0;
    (0..abi::limits::SLICES_PER_CPU as u64).filter(its).collect()
}

/// What its vector tells, as it lists it.
fn taken(child: &Child, count: usize) -> Vec<u64> {
    sorted((0..count).map(|index| listed(child, TAKEN + index)).collect())
}

fn sorted(mut words: Vec<u64>) -> Vec<u64> {
    words.sort_unstable();
    words
}

/// A holder has its time: until it is over nothing is taken, however often the kernel is asked again, and then no more
/// than was asked for.
fn fault_39_nothing_is_taken_before_its_time(world: &World) -> Outcome {
    for resource in [Resource::Page, Resource::Slice] {
        let child = holder(world, ignore, 0)?;
        let before = used(&child, resource);
        request(&child, resource, 1, 100_000_000_000)?;
        for _ in 0..50 {
            refused!(syscall::revocation_enforce(KeyIndex::FIRST, child.number), Again);
        }
        check!(used(&child, resource) == before, "{before} of {resource:?} became {}", used(&child, resource));
        // Nothing more is asked for: the request is withdrawn, and a new one can be made.
        request(&child, resource, 0, 0)?;
        request(&child, resource, 1, 0)?;
        enforce(&child)?;
        check!(used(&child, resource) == before - 1, "{before} of {resource:?} became {}", used(&child, resource));
        granted!(child.destroy());
    }
    Ok(())
}

fn fault_39_named_pages_go_first(world: &World) -> Outcome {
    let child = holder(world, ignore, 20)?;
    let pages: Vec<u64> = (0..HOARD as usize).map(|index| listed(&child, index)).collect();
    request(&child, Resource::Page, 20, 1_000_000)?;
    for _ in 0..10 {
        time_slice::yield_now();
    }
    enforce(&child)?;
    let has = |page: &u64| exposed::page(PageNumber(*page)).is_some_and(|info| info.owner() == child.number);
    let (first, others) = pages.split_at(20);
    check!(
        !first.iter().any(has),
        "{} pages are left that were named first",
        first.iter().filter(|page| has(page)).count()
    );
    check!(others.iter().all(has), "pages were taken that were not named first");
    granted!(child.destroy());
    Ok(())
}

/// Pages that a saver names, and what it fills them with.
const SAVED: usize = 6;
const CONTENTS: u64 = 0x5a7e_0000;

/// Ignores requests, and names for each of some pages another page to save it into. The first is mapped and the second
/// is not. Its key only reads the third. The fourth is its creator's, the fifth a page table, the sixth none.
extern "C" fn save(creators: u64) {
    let (area, own) = (Area::current(), Allocator::own());
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, note_only);
    }
    let mut pages = [PageNumber::NONE; 2 * SAVED];
    let list = own.allocate().unwrap_or(PageNumber::NONE);
    let read_only = Allocator { key: KeyIndex::FIRST, list };
    if own.allocate_many(&mut pages).is_err() || page::become_list(KeyIndex::FIRST, list, KeyIndex::FIRST).is_err() {
        runtime::entry::exit(1);
    }
    let _ = own.free(pages[SAVED + 2]);
    pages[SAVED + 2] = read_only.allocate().unwrap_or(PageNumber::NONE);
    let _ = syscall::access_list_set(KeyIndex::FIRST, list, 0, KeyIndex::FIRST, u64::from(Rights::READ.0));
    (pages[SAVED + 3], pages[SAVED + 4]) = (PageNumber(creators), area::root());
    let Ok(window) = Window::open(&pages[..SAVED], KeyIndex::FIRST, Access::WRITE) else { runtime::entry::exit(2) };
    window.words().iter().zip(0..).for_each(|(word, index)| word.store(CONTENTS + index, SeqCst));
    let Ok(mapped) = Window::open(&pages[SAVED..=SAVED], KeyIndex::FIRST, Access::WRITE) else {
        runtime::entry::exit(3)
    };
    let private = area.private();
    private.save_key.store(KeyIndex::FIRST.0, SeqCst);
    for index in 0..SAVED {
        let into = if index == SAVED - 1 { 0 } else { pages[SAVED + index].0 };
        private.take_first[index].store(pages[index].0 | into << 32, SeqCst);
    }
    private.take_first_count.store(SAVED as u64, SeqCst);
    pages.iter().enumerate().for_each(|(index, page)| area.public_library(LISTED + index).store(page.0, SeqCst));
    area.status(HELD).store(1, SeqCst);
    loop {
        mapped.words()[511].load(SeqCst);
        time_slice::yield_now();
    }
}

/// A page that is named with another one is copied there as it is taken. The vector says so. Nothing is written into a
/// page that the environment does not pay for, may not write, or that is an object.
fn named_pages_are_saved_before_they_go(world: &World) -> Outcome {
    let own = granted!(Allocator::own().allocate());
    let child = launch(prepare(world, save, own.0)?)?;
    check!(eventually(|| status(&child, HELD) == 1), "the child names nothing: {:?}", child.status());
    let pages: Vec<u64> = (0..2 * SAVED).map(|index| listed(&child, index)).collect();
    request(&child, Resource::Page, SAVED as u64, 1_000_000)?;
    time_slice::yield_now();
    enforce(&child)?;
    let is_told = || status(&child, REPOSSESSIONS) >= SAVED as u64;
    check!(eventually(is_told), "the child was told of {} pages", status(&child, REPOSSESSIONS));
    for index in 0..SAVED {
        let (page, into) = (pages[index], pages[SAVED + index]);
        let info = exposed::page(PageNumber(page));
        check!(info.is_none_or(|info| info.owner() != child.number), "page {index} was not taken");
        let saved = if index < 2 { into } else { 0 };
        let said = listed(&child, TAKEN + index);
        check!(said == page | saved << 32, "the vector says {said:#x} of page {index}, {page:#x} in {into:#x}");
        if index >= 4 {
            continue;
        }
        let window = granted!(Window::open(&[PageNumber(into)], KeyIndex::FIRST, Access::READ));
        let first = CONTENTS + 512 * index as u64;
        let expected = |word: u64| if index < 2 { first + word } else { 0 };
        let differs = (0..512).find(|word| window.words()[*word as usize].load(SeqCst) != expected(*word));
        check!(differs.is_none(), "word {differs:?} of what was saved of page {index}");
    }
    granted!(child.destroy());
    granted!(Allocator::own().free(own));
    Ok(())
}

/// Pages that were named go without one. Before any other goes there is an emergency upcall, and a grace to save what
/// is in them: the exposed record says when it ends.
fn an_emergency_comes_before_anything_vital_is_taken(world: &World) -> Outcome {
    let child = holder(world, ignore_emergency, 20)?;
    let pages: Vec<u64> = (20..HOARD as usize).map(|index| listed(&child, index)).collect();
    let is_gone = |page: &&u64| exposed::page(PageNumber(**page)).is_none_or(|info| info.owner() != child.number);
    let vital = || pages.iter().filter(is_gone).count();
    let emergency = || child.info().map_or(0, |info| info.revocation_emergency.load(SeqCst));
    request(&child, Resource::Page, 20, 1_000_000)?;
    enforce(&child)?;
    check!((emergency(), vital()) == (0, 0), "{} pages that were not named are gone", vital());
    request(&child, Resource::Page, 10, 1_000_000)?;
    let (mut warned, mut too_early) = (0, 0);
    let over = eventually(|| {
        let done = syscall::revocation_enforce(KeyIndex::FIRST, child.number).is_ok();
        let is_grace = emergency() == 0 || clock::now() < emergency();
        warned += u64::from(emergency() != 0 && vital() == 0);
        too_early += u64::from(!done && is_grace && vital() > 0);
        done
    });
    check!(over && vital() == 10, "{} vital pages were taken, not 10", vital());
    check!(warned > 0 && too_early == 0, "warned in {warned} steps, taken without warning in {too_early}");
    check!(eventually(|| status(&child, REPOSSESSIONS) == 30), "the vector tells of {}", status(&child, REPOSSESSIONS));
    check!(status(&child, EMERGENCIES) == 1, "there were {} emergency upcalls", status(&child, EMERGENCIES));
    let before = status(&child, TAKEN_BEFORE);
    check!(before == 20 || !is_counting(), "{before} pages were taken when the emergency came, not 20");
    granted!(child.destroy());
    Ok(())
}

fn set_grace(grace: u64) -> Result<(), runtime::Failure> {
    syscall::machine_set(KeyIndex::FIRST, Setting::EmergencyGrace as u64, grace)
}

fn the_root_key_sets_the_emergency_grace(world: &World) -> Outcome {
    const GRACE: u64 = 300_000_000;
    let child = holder(world, ignore_emergency, 20)?;
    let emergency = || child.info().map_or(0, |info| info.revocation_emergency.load(SeqCst));
    granted!(set_grace(GRACE));
    request(&child, Resource::Page, 30, 1_000_000)?;
    let begin = clock::now();
    let is_warned = eventually(|| {
        let _ = syscall::revocation_enforce(KeyIndex::FIRST, child.number);
        emergency() != 0
    });
    let (until, end) = (emergency(), clock::now());
    granted!(set_grace(abi::limits::EMERGENCY_GRACE));
    granted!(child.destroy());
    check!(is_warned, "it is not warned");
    check!(
        (begin + GRACE..=end + GRACE).contains(&until),
        "the grace ends at {until}, not {GRACE} from {begin} to {end}"
    );
    Ok(())
}

/// Holds pages, then makes more than a step looks at into what cannot be taken: the last that were allocated come
/// first.
extern "C" fn hide(_: u64) {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, note_only);
    }
    let own = Allocator::own();
    let hidden = (0..HIDDEN).filter(|_| own.allocate().is_ok()).count();
    for _ in 0..SCREEN {
        let Ok(page) = own.allocate() else { break };
        let _ = page::become_list(own.key, page, KeyIndex::FIRST);
    }
    Area::current().status(HELD).store(hidden as u64, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// Pages that are hidden, and behind how many others.
const HIDDEN: u64 = 20;
const SCREEN: u64 = 200;

fn fault_39_pages_hidden_behind_what_cannot_be_taken(world: &World) -> Outcome {
    let child = launch(prepare(world, hide, 0)?)?;
    check!(eventually(|| status(&child, HELD) == HIDDEN), "the child holds {} pages", status(&child, HELD));
    let before = used(&child, Resource::Page);
    request(&child, Resource::Page, 10, 1_000_000)?;
    for _ in 0..10 {
        time_slice::yield_now();
    }
    enforce(&child)?;
    let after = used(&child, Resource::Page);
    check!(after <= before - 10, "{before} pages became {after}");
    granted!(child.destroy());
    Ok(())
}

fn listed(child: &Child, index: usize) -> u64 {
    let word = abi::area::PUBLIC_LIBRARY as usize / 8 + LISTED + index;
    child.public().map_or(0, |public| public.words()[word].load(SeqCst))
}

fn fault_40_answered_with_pages_of_others(world: &World) -> Outcome {
    let child = holder(world, deceive, 0)?;
    let before = used(&child, Resource::Page);
    request(&child, Resource::Page, 10, 10_000_000)?;
    check!(eventually(|| status(&child, REQUESTS) > 0), "the child was not asked");
    for _ in 0..20 {
        time_slice::yield_now();
    }
    enforce(&child)?;
    check!(status(&child, GIVEN) == 0, "{} pages of others were given away", status(&child, GIVEN));
    check!(used(&child, Resource::Page) <= before - 10, "{before} pages became {}", used(&child, Resource::Page));
    granted!(child.destroy());
    Ok(())
}

fn requests_that_make_no_sense(world: &World) -> Outcome {
    let child = holder(world, ignore, 0)?;
    let ask = |key, number, resource, count| syscall::revocation_request(key, number, resource, count, 0);
    refused!(ask(KeyIndex::WELL_KNOWN, child.number, 0, 1), NotPermitted);
    refused!(ask(KeyIndex(43), child.number, 0, 1), NoSuchKey);
    refused!(ask(KeyIndex::FIRST, abi::EnvironmentId(1 << 40), 0, 1), NoSuchEnvironment);
    refused!(ask(KeyIndex::FIRST, child.number, 99, 1), BadArgument);
    refused!(ask(KeyIndex::FIRST, child.number, u64::MAX, 1), BadArgument);
    refused!(syscall::revocation_enforce(KeyIndex::WELL_KNOWN, child.number), NotPermitted);
    refused!(ask(KeyIndex::FIRST, area::number(), 0, 1), NotPermitted);
    granted!(child.destroy());
    Ok(())
}

/// What is being asked of a child: the resource plus one, how many, by when.
fn asked(child: &Child) -> [u64; 3] {
    child.info().map_or([0; 3], |info| {
        [&info.revocation_resource, &info.revocation_count, &info.revocation_deadline].map(|word| word.load(SeqCst))
    })
}

/// Opens a request against itself, for ever.
extern "C" fn ask_oneself(_: u64) {
    let outcome = [Resource::Slice, Resource::Page]
        .map(|resource| syscall::revocation_request(KeyIndex::FIRST, area::number(), resource as u64, 1, u64::MAX));
    let refused = outcome.iter().filter(|one| one.is_err_and(|failure| failure.error == Error::NotPermitted)).count();
    Area::current().status(GIVEN).store(refused as u64, SeqCst);
    hold(0)
}

/// Neither an environment nor a key with its own name keeps others from asking it. An open request becomes only
/// larger and earlier, until a key with a shorter name replaces it.
fn fault_152_requests_that_stand_in_the_way(world: &World) -> Outcome {
    let child = holder(world, ask_oneself, 0)?;
    check!(status(&child, GIVEN) == 2, "{} of 2 requests against itself were refused", status(&child, GIVEN));
    check!(asked(&child)[0] == 0, "a request is open: {:?}", asked(&child));
    let weak = child.key.ok_or("the child has no key")?;
    let (page, slice) = (Resource::Page as u64, Resource::Slice as u64);
    let ask =
        |key, resource, count, deadline| syscall::revocation_request(key, child.number, resource, count, deadline);
    granted!(ask(weak, slice, 1, u64::MAX));
    refused!(ask(weak, page, 1, 0), InUse);
    refused!(ask(weak, slice, 0, 0), InUse);
    granted!(ask(KeyIndex::FIRST, page, 10, 1 << 62));
    check!(asked(&child) == [page + 1, 10, 1 << 62], "{:?} is asked", asked(&child));
    for (count, deadline, expected) in [
        (1, u64::MAX, [page + 1, 10, 1 << 62]),
        (12, u64::MAX, [page + 1, 12, 1 << 62]),
        (5, 1 << 61, [page + 1, 12, 1 << 61]),
    ] {
        granted!(ask(weak, page, count, deadline));
        check!(asked(&child) == expected, "{:?} is asked, not {expected:?}", asked(&child));
    }
    refused!(ask(weak, slice, 1, u64::MAX), InUse);
    refused!(ask(weak, page, 0, 0), InUse);
    granted!(ask(KeyIndex::FIRST, page, 0, 0));
    check!(asked(&child)[0] == 0, "a request that was withdrawn is open: {:?}", asked(&child));
    granted!(child.destroy());
    Ok(())
}

/// Makes a third each of its pages regions, access lists and roots.
extern "C" fn make_objects(_: u64) {
    let own = Allocator::own();
    for index in 0..HOARD {
        let Ok(page) = own.allocate() else { break };
        let made = match index % 3 {
            0 => page::become_regions(own.key, page),
            1 => page::become_list(own.key, page, KeyIndex::FIRST),
            _ => page::become_root(own.key, page),
        };
        Area::current().status(GIVEN).fetch_add(u64::from(made.is_ok()), SeqCst);
        Area::current().status(HELD).store(index + 1, SeqCst);
    }
    loop {
        time_slice::yield_now();
    }
}

fn fault_152_pages_made_into_objects(world: &World) -> Outcome {
    let child = holder(world, make_objects, 0)?;
    check!(status(&child, GIVEN) == HOARD, "{} objects were made", status(&child, GIVEN));
    take_hoard(child)
}

/// Takes as many pages from a child as it hoards, and not one is missing.
fn take_hoard(child: Child) -> Outcome {
    let (before, free) = (used(&child, Resource::Page), exposed::kernel().free_pages.load(SeqCst));
    request(&child, Resource::Page, HOARD, 0)?;
    enforce(&child)?;
    let (after, came) = (used(&child, Resource::Page), exposed::kernel().free_pages.load(SeqCst));
    check!(after + HOARD <= before, "{before} pages became {after}");
    check!(came >= free + HOARD, "{free} free pages became {came}");
    granted!(child.destroy());
    Ok(())
}

/// Maps each of its pages in a second address space, where nothing runs, and gives a part of them up.
extern "C" fn map_elsewhere(_: u64) {
    let own = Allocator::own();
    let Ok(space) = AddressSpace::create(own) else { return };
    for index in 0..HOARD {
        let Ok(page) = own.allocate() else { break };
        // SAFETY: it is not the own address space.
        let mapped = unsafe { space.map(ELSEWHERE + index * abi::limits::PAGE_SIZE, &[page], Access::WRITE) };
        let given = if index % 4 == 0 { own.free(page) } else { Ok(()) };
        Area::current().status(GIVEN).fetch_add(u64::from(mapped.and(given).is_ok()), SeqCst);
        Area::current().status(HELD).store(index + 1, SeqCst);
    }
    loop {
        time_slice::yield_now();
    }
}

/// An address that is used in no program.
const ELSEWHERE: u64 = 0x200_0000_0000;

fn fault_152_pages_mapped_elsewhere(world: &World) -> Outcome {
    let child = holder(world, map_elsewhere, 0)?;
    check!(status(&child, GIVEN) == HOARD, "{} pages were mapped elsewhere", status(&child, GIVEN));
    // One of them is mapped here, too: this environment learns that it is gone.
    let page = child.info().and_then(|info| info.pages().find(is_plain)).ok_or("the child has no page")?;
    let window = granted!(Window::open(&[page], KeyIndex::FIRST, Access::READ));
    let told = Area::current().private().repossessed.load(SeqCst);
    take_hoard(child)?;
    check!(Area::current().private().repossessed.load(SeqCst) > told, "nothing tells of the page that was mapped here");
    drop(window);
    Ok(())
}

fn is_plain(page: &PageNumber) -> bool {
    exposed::page(*page).is_some_and(|info| info.kind() == PageKind::Ordinary && info.references() == 1)
}

/// Where there is less to take than was asked for, the asker learns how much is missing.
fn fault_152_more_than_there_is_to_take(world: &World) -> Outcome {
    let child = holder(world, ignore, 0)?;
    let before = used(&child, Resource::Page);
    let count = before + 1000;
    request(&child, Resource::Page, count, 0)?;
    let mut last = Ok(());
    let over = eventually(|| {
        last = syscall::revocation_enforce(KeyIndex::FIRST, child.number);
        !last.is_err_and(|failure| failure.error == Error::Again)
    });
    let after = used(&child, Resource::Page);
    check!(over && after <= before - HOARD, "{before} pages became {after}: {last:?}");
    let missing = last.err().map(|failure| (failure.error, failure.detail));
    check!(missing == Some((Error::Exhausted, count - (before - after))), "{before} pages became {after}: {last:?}");
    granted!(child.destroy());
    Ok(())
}

/// Children come and go, hold pages, answer or ignore random requests; each forced page is in one vector, and all is
/// accounted for. The full test makes more of them.
fn churn_under_random_revocation(world: &World) -> Outcome {
    let seed = 0xc4_0000;
    let mut random = Random(seed);
    let mut children: Vec<(Child, u64)> = Vec::new();
    for round in 0..120 {
        if children.len() < 8 {
            let function = if random.below(3) == 0 { ignore } else { cooperate };
            children.push((holder(world, function, 0)?, 0));
        }
        let index = random.below(children.len() as u64) as usize;
        let (child, taken) = &mut children[index];
        let count = random.below(10) + 1;
        if request(child, Resource::Page, count, 2_000_000).is_ok() {
            let before = exposed_repossessions(child);
            enforce(child)?;
            *taken += exposed_repossessions(child) - before;
        }
        check!(
            *taken < REPOSSESSION_ENTRIES as u64,
            "seed {seed:#x}, round {round}: {taken} pages taken from one child"
        );
        if random.below(3) == 0 || *taken + 10 > 60 {
            let (child, _) = children.swap_remove(index);
            granted!(child.destroy());
        }
        world.pages_add_up().map_err(|why| alloc::format!("seed {seed:#x}, round {round}: {why}"))?;
    }
    for (child, _) in children {
        granted!(child.destroy());
    }
    Ok(())
}

/// What the child's handler has seen of its vector.
fn exposed_repossessions(child: &Child) -> u64 {
    eventually_stable(|| status(child, REPOSSESSIONS))
}

/// A value that did not change over some turns.
fn eventually_stable(read: impl Fn() -> u64) -> u64 {
    let mut last = read();
    let mut turns = 0;
    while turns < 3 {
        time_slice::yield_now();
        let now = read();
        turns = if now == last { turns + 1 } else { 0 };
        last = now;
    }
    last
}
