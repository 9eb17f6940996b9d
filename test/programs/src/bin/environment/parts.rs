//! Environments that are made of the parts of dead ones: what they find there, and which parts the kernel refuses
//! (doc/decision/0044).

use crate::{be_in_a_state, count_to, leave_a_child, used};
use abi::budget::Resource;
use abi::environment::Specification;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use runtime::address_space::{self, Access};
use runtime::area::Area;
use runtime::environment::{Builder, PRIVATE_COUNT};
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, KeyIndex, PageNumber, UserAddress, area, exposed, syscall, time_slice};
use test_programs::child::{create, death, eventually, first_page, parts, prepare, renew, spawn, status};
use test_programs::{Outcome, World, check, granted, refused};

/// Keeps pages and a predicate, and fills its ring with keys, before it counts and ends.
extern "C" fn hold_much(argument: u64) {
    let pages: Vec<_> = (0..40).filter_map(|_| Allocator::own().allocate().ok()).collect();
    let _ = address_space::own()
        .apply(&[abi::page_table::MapRow { address: 0x3000_0000 | 1, entry: pages[1].address() | Access::WRITE.0 }]);
    while runtime::key::derive(KeyIndex::FIRST, abi::capability::Rights::ALL, 0).is_ok() {}
    count_to(argument);
}

/// Reports how many keys it has in addition to the well-known one and its own, before it counts and ends.
extern "C" fn tell_keys(argument: u64) {
    let is_there = |slot: &u64| syscall::key_drop(area::number(), KeyIndex(*slot), KeyIndex::FIRST).is_ok();
    let keys = (KeyIndex::FIRST.0 + 1..abi::limits::KEYS as u64).filter(is_there).count();
    Area::current().status(2).store(keys as u64, SeqCst);
    count_to(argument);
}

pub(crate) fn a_dead_environment_begins_again(world: &World) -> Outcome {
    let mut child = spawn(world, hold_much, 3)?;
    let (free, budgets) = (|| exposed::kernel().free_pages.load(SeqCst), used());
    let mut seen = Vec::new();
    for round in 1..40 {
        check!(child.wait(u64::MAX), "round {round}: the child does not end");
        check!(child.status() == Some(7), "round {round}: its status is {:?}", child.status());
        let first =
            first_page(world.image.plan.entry, if round % 2 == 0 { hold_much } else { tell_keys }, 1000 + round)?;
        let old = child.number;
        child.number = granted!(renew(old, first, false));
        check!(!exposed::lives(old) && old != child.number, "round {round}: {old:?} became {:?}", child.number);
        refused!(renew(old, first, false), NoSuchEnvironment);
        granted!(Allocator::own().free(first));
        let info = child.info().ok_or("no record")?;
        let counts = [&info.time, &info.slices, &info.death_reason, &info.first_child, &info.predicate_terms];
        check!(counts.iter().all(|count| count.load(SeqCst) == 0), "round {round}: it begins with {counts:?}");
        check!(info.budget.iter().all(|budget| budget.used.load(SeqCst) == 0), "round {round}: it has used some");
        check!(info.creator.load(SeqCst) == area::number().0, "round {round}: another one is its creator");
        granted!(world.image.map_into(&child.space, child.pages));
        for (resource, amount) in [(Resource::Page, 512), (Resource::Slice, 4), (Resource::Pin, 4)] {
            granted!(child.give(resource, amount));
        }
        granted!(child.run(0, time_slice::ANY_POSITION));
        check!(eventually(|| status(&child, 1) == 1000 + round), "round {round}: it counted to {}", status(&child, 1));
        check!(status(&child, 2) == 0, "round {round}: it begins with {} keys too many", status(&child, 2));
        seen.push(free());
    }
    // The image is mapped anew each time: what it takes was the old one's, and went back to us.
    check!(child.wait(u64::MAX), "the child does not end");
    check!(budgets.len() == used().len(), "budgets were {budgets:?} and are {:?}", used());
    granted!(child.destroy());
    Ok(())
}

/// Maps a page at two places in the middle of the upcall stack, which nothing has reached yet: in one at least it is
/// wrong.
fn map_into_the_area(page: PageNumber) {
    let rows = [3, 4].map(|place| abi::page_table::MapRow {
        address: abi::boot::AREA + place * 0x1000 | 1,
        entry: page.address() | Access::WRITE.0,
    });
    // SAFETY: the stack is used from its end on, and no call goes three pages deep.
    let _ = unsafe { address_space::own().edit(&rows) };
}

extern "C" fn put_another_page_into_the_area(_: u64) {
    map_into_the_area(Allocator::own().allocate().unwrap_or(PageNumber::NONE));
}

extern "C" fn map_all_private_pages_to_the_same_places(_: u64) {
    let is_private =
        |page: &PageNumber| exposed::page(*page).is_some_and(|info| info.kind() == PageKind::EnvironmentPrivate);
    (0..exposed::kernel().pages.load(SeqCst)).map(PageNumber).filter(is_private).for_each(map_into_the_area);
}

/// How often entries of all tables under a list were set.
fn edits(list: PageNumber) -> Vec<(PageNumber, (u64, u64))> {
    let own = exposed::environment(area::number()).into_iter().flat_map(|info| info.pages());
    let tables = own.filter_map(|page| Some((page, exposed::page(page)?)));
    let tables = tables.filter(|(_, info)| info.kind() == PageKind::PageTable && info.access() == list);
    tables.map(|(page, info)| (page, info.edits())).collect()
}

/// Ends as [`count_to`] does, after it has mapped a page, and taken it out again.
extern "C" fn edit_and_count_to(argument: u64) {
    let row = |entry: u64| abi::page_table::MapRow { address: 0x3000_0000 | 1, entry };
    let page = Allocator::own().allocate().unwrap_or(PageNumber::NONE);
    let _ = address_space::own().apply(&[row(page.address() | Access::WRITE.0)]);
    let _ = address_space::own().apply(&[row(0)]);
    count_to(argument);
}

pub(crate) fn an_address_space_stays_with_who_begins_again(world: &World) -> Outcome {
    let mut child = granted!(prepare(world, count_to, 1)?.create());
    let mut before = edits(child.pages.list);
    check!(before.len() >= 4, "the child has tables {before:?}");
    granted!(child.run(0, time_slice::ANY_POSITION));
    for round in 2..6 {
        check!(child.wait(u64::MAX), "the child does not end");
        // A child that runs, writes and takes calls has set no entry; one that maps has, whatever became of the entry.
        let is_other = edits(child.pages.list) != before;
        check!(is_other == (round == 4), "round {round}: tables were {before:?} and are {:?}", edits(child.pages.list));
        before = edits(child.pages.list);
        let function = if round == 3 { edit_and_count_to } else { count_to };
        let first = first_page(world.image.plan.entry, function, round)?;
        child.number = granted!(renew(child.number, first, true));
        // A table that the old one was charged for is its heir's now.
        let after = edits(child.pages.list);
        check!(before.iter().all(|table| after.contains(table)), "round {round}: {before:?} became {after:?}");
        before = after;
        granted!(Allocator::own().free(first));
        for (resource, amount) in [(Resource::Page, 512), (Resource::Slice, 4)] {
            granted!(child.give(resource, amount));
        }
        granted!(child.run(0, time_slice::ANY_POSITION));
        check!(eventually(|| status(&child, 1) == round), "round {round}: it counted to {}", status(&child, 1));
    }
    granted!(child.destroy());
    Ok(())
}

pub(crate) fn refused_parts_stay_as_they_are(world: &World) -> Outcome {
    let first = first_page(world.image.plan.entry, count_to, 1)?;
    let child = spawn(world, be_in_a_state, 1)?;
    check!(eventually(|| status(&child, 1) == 1), "the child does not start");
    refused!(renew(child.number, first, false), NoSuchEnvironment);
    refused!(syscall::environment_destroy(KeyIndex::FIRST, child.number), Again);
    let sound = parts(child.number, first, false);
    refused!(create(KeyIndex::WELL_KNOWN, &sound), NotPermitted);
    refused!(create(KeyIndex(43), &sound), NoSuchKey);
    refused!(create(KeyIndex::FIRST, &Specification { name_key: 43, ..sound }), NoSuchKey);
    refused!(create(KeyIndex::FIRST, &Specification { first: u64::MAX, ..sound }), NoSuchPage);
    refused!(create(KeyIndex::FIRST, &Specification { first: Allocator::own().list.0, ..sound }), WrongKind);
    refused!(create(KeyIndex::FIRST, &Specification { space: 2, ..sound }), BadArgument);
    refused!(create(KeyIndex::FIRST, &Specification { space: u64::MAX, ..sound }), BadArgument);
    for parts_of in [area::number().0, u64::MAX, child.number.0 ^ 1 << 20, child.number.0 ^ 1 << 40] {
        refused!(create(KeyIndex::FIRST, &Specification { parts_of, ..sound }), NoSuchEnvironment);
    }
    // SAFETY: the kernel refuses to read there.
    let told = unsafe { syscall::environment_create(KeyIndex::FIRST, UserAddress(u64::MAX - 8)) };
    refused!(told, BadAddress);
    granted!(child.destroy());
    parts_of_anothers_child_are_refused(world, first)?;
    for (index, misdeed) in
        [put_another_page_into_the_area, map_all_private_pages_to_the_same_places].into_iter().enumerate()
    {
        let child = spawn(world, misdeed, 0)?;
        check!(child.wait(u64::MAX), "misdeed {index}: the child does not end");
        for keeps in [true, false] {
            let made = renew(child.number, first, keeps);
            check!(
                matches!(made, Err(failure) if matches!(failure.error, abi::Error::NotMapped | abi::Error::InUse)),
                "misdeed {index} gave {made:?}"
            );
        }
        granted!(child.destroy());
    }
    let mut builder = granted!(Builder::sharing());
    builder.function(count_to, 1).budget(Resource::Slice, 1);
    let thread = granted!(builder.create());
    granted!(thread.run(0, time_slice::ANY_POSITION));
    check!(thread.wait(u64::MAX), "the thread does not end");
    refused!(renew(thread.number, first, true), InUse);
    granted!(thread.destroy());
    granted!(Allocator::own().free(first));
    Ok(())
}

/// The parts of an environment are its creator's, even where another environment holds keys to all of them. The heir
/// of a creator that is gone is the creator.
fn parts_of_anothers_child_are_refused(world: &World, first: PageNumber) -> Outcome {
    let child = spawn(world, leave_a_child, 0)?;
    check!(child.wait(u64::MAX), "the child does not end");
    let grandchild = EnvironmentId(status(&child, 1));
    refused!(syscall::environment_destroy(KeyIndex::FIRST, grandchild), Again);
    for keeps in [true, false] {
        refused!(renew(grandchild, first, keeps), NotPermitted);
    }
    let creator = || exposed::environment(grandchild).map_or(0, |info| info.creator.load(SeqCst));
    while creator() == child.number.0 {
        refused!(syscall::environment_destroy(KeyIndex::FIRST, child.number), Again);
    }
    let next = granted!(renew(grandchild, first, true));
    while syscall::environment_destroy(KeyIndex::FIRST, next).is_err() {}
    granted!(child.destroy());
    Ok(())
}

/// What an environment leaves in all its private pages and in its key ring.
const CANARY: u64 = 0x2a5c_5a5a_c0de;
/// Where the stack of its upcalls lies, all but the page that is not mapped.
const STACK: u64 = abi::boot::AREA + abi::area::UPCALL_STACK + 0x1000;
const STACK_END: u64 = abi::boot::AREA + abi::area::UPCALL_STACK + (PRIVATE_COUNT as u64 - 1) * 0x1000;

/// Words of the own area from an address on.
fn area_words(from: u64, to: u64) -> impl Iterator<Item = &'static AtomicU64> {
    // SAFETY: the private pages of the own area are mapped there, and consist of words that the kernel writes, too.
    (from..to).step_by(8).map(|address| unsafe { &*(address as *const AtomicU64) })
}

/// Fills its private pages and its key ring, and ends. The words that the runtime needs stay, and so does the stack
/// that is in use.
extern "C" fn fill_with_canaries(_: u64) {
    let private = abi::boot::AREA + abi::area::PRIVATE;
    area_words(private + 512, private + 2048).for_each(|word| word.store(CANARY, SeqCst));
    area_words(STACK, STACK_END - 0x800).for_each(|word| word.store(CANARY, SeqCst));
    while runtime::key::derive(KeyIndex::FIRST, abi::capability::Rights::ALL, 0).is_ok() {}
    runtime::entry::exit(0);
}

/// Has the kernel write a page of the stack that this environment never writes, and ends there: the detail of a fault
/// is the canary. No instruction of it uses the stack.
extern "C" fn fault_with_a_canary(_: u64) {
    core::mem::forget(runtime::critical_section::enter());
    // SAFETY: the environment ends here, and nothing of it is used again.
    unsafe {
        core::arch::asm!(
            "lea rax, [rip + 2f]",
            "mov [rdx], rax",
            "mov rsp, rsi",
            "mov rax, [rdi]",
            "2: mov eax, {destroy}",
            "mov edi, 1",
            "mov rsi, r12",
            "xor edx, edx",
            "syscall",
            "mov eax, {give_way}",
            "xor edi, edi",
            "syscall",
            "jmp 2b",
            in("rdx") &raw const Area::current().private().exception_entry,
            in("rsi") STACK + 0x800,
            in("rdi") CANARY,
            destroy = const abi::syscall::number::environment_destroy,
            give_way = const abi::syscall::number::time_slice_yield,
            in("r12") area::number().0,
            options(noreturn)
        )
    }
}

/// Reports how many canaries it finds in its area, and how many keys it has in addition to those it begins with.
extern "C" fn look_for_canaries(argument: u64) {
    let all = area_words(abi::boot::AREA + abi::area::PRIVATE, abi::boot::AREA + abi::area::PRIVATE + 0x1000)
        .chain(area_words(STACK, STACK_END));
    // The canary itself is no word of this function, whose stack lies there.
    let turned = core::hint::black_box(CANARY.rotate_left(7));
    let found = all.filter(|word| word.load(SeqCst).rotate_left(7) == turned).count();
    Area::current().status(3).store(found as u64, SeqCst);
    tell_keys(argument);
}

/// An environment of the parts of another one bears a name that is no relative of the old one's. It finds nothing of
/// that one: what it wrote, what the kernel wrote for it, its keys.
pub(crate) fn fault_31_kept_parts_hold_nothing_of_the_old_one(world: &World) -> Outcome {
    for (round, fill) in (1..).zip([fill_with_canaries, fault_with_a_canary].repeat(2)) {
        let mut child = spawn(world, fill, 0)?;
        check!(eventually(|| !child.alive()), "round {round}: the child does not end: {}", death(&child));
        let other = granted!(runtime::key::derive(KeyIndex::FIRST, abi::capability::Rights::ALL, 0));
        let first = first_page(world.image.plan.entry, look_for_canaries, round)?;
        let wanted = Specification { name_key: other.0, ..parts(child.number, first, round > 2) };
        child.number = granted!(create(KeyIndex::FIRST, &wanted));
        granted!(Allocator::own().free(first));
        if wanted.space == 0 {
            granted!(world.image.map_into(&child.space, child.pages));
        }
        granted!(child.give(Resource::Slice, 4));
        granted!(child.run(0, time_slice::ANY_POSITION));
        check!(eventually(|| status(&child, 1) == round), "round {round}: it does not look: {}", death(&child));
        let found = [status(&child, 3), status(&child, 2)];
        check!(found == [0, 0], "round {round}: it finds {found:?} canaries and keys of the one before");
        granted!(child.destroy());
        granted!(runtime::key::discard(other));
    }
    Ok(())
}
