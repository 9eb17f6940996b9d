//! Pages in every state offered to the calls that take a page: what was given up is made nothing of.
#![no_std]
#![no_main]

extern crate alloc;

use abi::environment::Specification;
use abi::limits::{PAGE_SIZE, PRIVATE_PAGES};
use abi::page_table::MapRow;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{Access, AddressSpace};
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, Failure, KeyIndex, PageNumber, UserAddress, exposed, syscall};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here fault_151_orphans_become_no_area;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// Where the area of an environment that never runs lies.
const AREA: u64 = 0x1000_0000;
/// Rounds of a whole area: more pages than the first environment has, so that a count that loses them goes below
/// zero.
const ROUNDS: usize = 64;
/// The public page and the private ones.
const AREA_PAGES: usize = 1 + PRIVATE_PAGES;

fn create(
    control: PageNumber,
    key_ring: PageNumber,
    area: &[PageNumber],
    space: AddressSpace,
) -> Result<EnvironmentId, Failure> {
    let mut private = [0; PRIVATE_PAGES];
    for (place, page) in private.iter_mut().zip(&area[1..]) {
        *place = page.0;
    }
    let specification = Specification {
        name_key: KEY.0,
        control: control.0,
        key_ring: key_ring.0,
        public: area[0].0,
        root: space.root.0,
        area: AREA,
        private_count: area.len() as u64 - 1,
        private,
    };
    // SAFETY: the kernel reads the specification; nothing of this program lies in its pages.
    unsafe { syscall::environment_create(KEY, UserAddress(&raw const specification as u64)) }
}

fn orphans() -> u64 {
    exposed::kernel().orphan_pages.load(SeqCst)
}

/// Pages mapped at their place and given up are no part of an environment, one by one or all together. Unmapped, they
/// are free.
fn fault_151_orphans_become_no_area(world: &World) -> Outcome {
    let own = Allocator::own();
    let (control, key_ring) = (granted!(own.allocate()), granted!(own.allocate()));
    let space = granted!(AddressSpace::create(own));
    let before = orphans();
    for round in 0..ROUNDS {
        let mut area = [PageNumber::NONE; AREA_PAGES];
        granted!(own.allocate_many(&mut area));
        // SAFETY: it is not the own address space.
        granted!(unsafe { space.map(AREA, &area, Access::WRITE) });
        // One page of the area, or all of them.
        let given_up: Vec<PageNumber> = match round {
            0 => area.to_vec(),
            _ => area[round % AREA_PAGES..=round % AREA_PAGES].to_vec(),
        };
        for page in &given_up {
            granted!(syscall::page_free(KEY, *page));
        }
        check!(orphans() == before + given_up.len() as u64, "{} orphans, {before} before", orphans());
        refused!(create(control, key_ring, &area, space), WrongKind);
        let rows: Vec<MapRow> =
            (0..AREA_PAGES as u64).map(|page| MapRow { address: AREA + page * PAGE_SIZE, entry: 0 }).collect();
        granted!(space.apply(&rows));
        check!(orphans() == before, "{} orphans when nothing is mapped, {before} before", orphans());
        for page in area {
            let kind = exposed::page(page).map(|info| info.kind());
            let expected = if given_up.contains(&page) { PageKind::Free } else { PageKind::Ordinary };
            check!(kind == Some(expected), "page {} of round {round} is {kind:?}", page.0);
            if expected == PageKind::Ordinary {
                granted!(syscall::page_free(KEY, page));
            }
        }
        world.pages_add_up()?;
    }
    granted!(own.free(control));
    granted!(own.free(key_ring));
    granted!(own.free(space.root));
    Ok(())
}
