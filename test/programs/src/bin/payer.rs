//! Payers: the environment that is charged for a thing ends its charge, whatever others that own it do (decision 0052).
#![no_std]
#![no_main]

extern crate alloc;

use abi::capability::Rights;
use abi::page_table::MapRow;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{self, Access};
use runtime::area::Area;
use runtime::environment::Builder;
use runtime::page::{self, Allocator, PageKind};
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, area, exposed, key, syscall, time_slice};
use test_programs::child::{eventually, launch, prepare, status};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here a_payer_frees_pages_that_no_key_opens;
    Here a_payer_unmaps_a_page_that_no_key_opens;
    Here a_charge_opens_nothing;
    Here a_creator_frees_what_its_child_hides;
    Here a_creator_frees_nothing_in_place_of_what_another_owner_freed;
    Here a_creator_ends_an_environment_with_any_key;
}

/// Where pages are mapped.
const PLACE: u64 = 0x200_0000_0000;
/// Status word: a child has done what it was made for (1), or was refused (2).
const DONE: usize = 1;
/// Ways in which a child hides from its creator what that pays for.
const WAYS: u64 = 5;

/// A list of its own, whose one entry is the name of the first key.
fn own_list() -> Result<Allocator, Failure> {
    let list = Allocator::own().allocate()?;
    page::become_list(KeyIndex::FIRST, list, KeyIndex::FIRST)?;
    Ok(Allocator { key: KeyIndex::FIRST, list })
}

/// Empties the entry that opens a list: no key opens what is under it from then on.
fn close(list: PageNumber) -> Result<(), Failure> {
    syscall::access_list_set(KeyIndex::FIRST, list, 0, KeyIndex::FIRST, 0)
}

fn is_free(page: PageNumber) -> bool {
    exposed::page(page).is_some_and(|info| info.kind() == PageKind::Free)
}

/// Figures of the own budget, and free pages.
fn figures() -> Vec<u64> {
    let info = exposed::environment(area::number());
    let budgets = info.iter().flat_map(|info| &info.budget);
    let figures = budgets.flat_map(|budget| [&budget.limit, &budget.reserved, &budget.used]);
    figures.chain([&exposed::kernel().free_pages]).map(|figure| figure.load(SeqCst)).collect()
}

fn a_payer_frees_pages_that_no_key_opens(_: &World) -> Outcome {
    let before = figures();
    let hidden = granted!(own_list());
    let mut pages = [PageNumber::NONE; 3];
    granted!(hidden.allocate_many(&mut pages));
    granted!(page::become_root(KeyIndex::FIRST, pages[1]));
    granted!(page::become_regions(KeyIndex::FIRST, pages[2]));
    granted!(close(hidden.list));
    for page in pages {
        granted!(hidden.free(page));
        check!(is_free(page), "{page:?} is not free");
    }
    refused!(syscall::page_free(KeyIndex(39), hidden.list), NoSuchKey);
    granted!(hidden.free(hidden.list));
    check!(figures() == before, "the figures {before:?} became {:?}", figures());
    Ok(())
}

fn a_payer_unmaps_a_page_that_no_key_opens(_: &World) -> Outcome {
    let before = figures();
    let hidden = granted!(own_list());
    let page = granted!(hidden.allocate());
    let space = address_space::own();
    // SAFETY: nothing lies at this place.
    granted!(unsafe { space.map(PLACE, &[page], Access::WRITE) });
    granted!(close(hidden.list));
    granted!(hidden.free(page));
    check!(exposed::page(page).is_some_and(|info| info.is_orphan()), "a page that is mapped is no orphan");
    let mut cursor = 0;
    // SAFETY: no object lies in the page.
    while let Err(failure) = unsafe { syscall::page_unbind(KeyIndex::FIRST, page, space.root, UserAddress(cursor)) } {
        check!(failure.error == Error::Again, "{failure:?} by force");
        cursor = failure.detail;
    }
    check!(is_free(page), "the page is not free");
    granted!(hidden.free(hidden.list));
    // SAFETY: nothing lies at this place.
    granted!(unsafe { space.unmap(PLACE, 1) });
    let tables = figures().iter().zip(&before).filter(|(now, before)| now != before).count();
    check!(tables <= 2, "more changed than the tables of the place: {before:?} became {:?}", figures());
    Ok(())
}

/// The payer of a page neither maps, reads, claims, changes nor sells it: its charge is all that it ends.
fn a_charge_opens_nothing(_: &World) -> Outcome {
    let hidden = granted!(own_list());
    let page = granted!(hidden.allocate());
    granted!(close(hidden.list));
    let (first, own) = (KeyIndex::FIRST, Allocator::own());
    let row = MapRow { address: PLACE | first.0, entry: page.address() | Access::READ.0 };
    let root = address_space::own().root;
    // SAFETY: nothing lies at this place.
    refused!(unsafe { syscall::page_map(first, root, UserAddress(&raw const row as u64), 1) }, NotPermitted);
    refused!(syscall::page_claim(first, page, first, own.list), NotPermitted);
    refused!(page::become_regions(first, page), NotPermitted);
    refused!(page::become_list(first, page, first), NotPermitted);
    refused!(own.copy_many(first, &mut [page]), NotPermitted);
    refused!(hidden.allocate(), NotPermitted);
    refused!(syscall::access_list_set(first, hidden.list, 0, first, u64::from(Rights::ALL.0)), NotPermitted);
    granted!(hidden.free(page));
    granted!(hidden.free(hidden.list));
    Ok(())
}

/// Takes the creator's name off what it pays for, in one of several ways.
fn hide(way: u64) -> Result<(), Failure> {
    let own = Allocator::own();
    match way {
        0 => close(own.list)?,
        1 => {
            let hidden = own_list()?;
            hidden.allocate_many(&mut [PageNumber::NONE; 8])?;
            close(hidden.list)?;
        }
        2 => own.free(own.list)?,
        3 => {
            // An environment that no key of the creator's opens: only its own name does.
            let mut builder = Builder::new()?;
            builder.silent();
            let _ = builder.create()?;
            close(own.list)?;
        }
        _ => {
            // The root of its own address space comes under a list that no key opens.
            let hidden = own_list()?;
            page::become_root(KeyIndex::FIRST, hidden.allocate()?)?;
            syscall::page_claim(KeyIndex::FIRST, area::root(), KeyIndex::FIRST, hidden.list)?;
            close(hidden.list)?;
        }
    }
    Ok(())
}

extern "C" fn hide_by(way: u64) {
    let done = if hide(way).is_ok() { 1 } else { 2 };
    Area::current().status(DONE).store(done, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

fn a_creator_frees_what_its_child_hides(world: &World) -> Outcome {
    for way in 0..WAYS {
        let before = figures();
        let child = launch(prepare(world, hide_by, way)?)?;
        check!(eventually(|| status(&child, DONE) != 0), "the child of way {way} does nothing");
        check!(status(&child, DONE) == 1, "the child of way {way} was refused");
        match child.destroy() {
            Ok(()) => {}
            Err(failure) => check!(false, "way {way}: destroying the child gave {failure:?}"),
        }
        check!(figures() == before, "way {way}: the figures {before:?} became {:?}", figures());
    }
    Ok(())
}

extern "C" fn wait(_: u64) {
    Area::current().status(DONE).store(1, SeqCst);
    loop {
        Area::current().status(DONE + 1).fetch_add(1, SeqCst);
        time_slice::yield_now();
    }
}

/// The root of a child that is gone is freed by another owner, and becomes a part of the next child. Destroying the
/// first one leaves that alone.
fn a_creator_frees_nothing_in_place_of_what_another_owner_freed(world: &World) -> Outcome {
    let before = figures();
    let first = launch(prepare(world, wait, 0)?)?;
    let root = first.space.root;
    while let Err(failure) = syscall::environment_destroy(KeyIndex::FIRST, first.number) {
        check!(failure.error == Error::Again, "destroying gave {failure:?}");
    }
    granted!(first.pages.free(root));
    let second = launch(prepare(world, wait, 0)?)?;
    check!(eventually(|| status(&second, DONE) == 1), "the next child does not begin");
    check!(!is_free(root), "the page of the root is not in use again");
    let again = exposed::page(root).map(|info| info.state.load(SeqCst));
    granted!(first.destroy());
    check!(exposed::page(root).map(|info| info.state.load(SeqCst)) == again, "a page of the next child went");
    let count = status(&second, DONE + 1);
    check!(eventually(|| status(&second, DONE + 1) > count + 2), "the next child stopped: {}", second.alive());
    granted!(second.destroy());
    check!(figures() == before, "the figures {before:?} became {:?}", figures());
    Ok(())
}

/// A creator needs no key to the name of what it created. Another environment does.
fn a_creator_ends_an_environment_with_any_key(world: &World) -> Outcome {
    let child = launch(prepare(world, hide_by, 0)?)?;
    let stranger = key::derive(KeyIndex::WELL_KNOWN, Rights::ALL, 0);
    let stranger = granted!(stranger);
    refused!(syscall::event_raise(stranger, child.number, 1), NotPermitted);
    refused!(syscall::environment_destroy(stranger, child.number), Again);
    check!(!child.alive(), "the child lives on");
    granted!(key::discard(stranger));
    granted!(child.destroy());
    Ok(())
}
