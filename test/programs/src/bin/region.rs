//! Software regions: protection finer than a page, reached by calls only.
#![no_std]
#![no_main]

extern crate alloc;

use abi::capability::Rights;
use abi::limits::{REGION_BYTES, REGIONS_PER_PAGE};
use runtime::address_space::{self, Access, MapRow};
use runtime::page::{self, Allocator, PageKind};
use runtime::region::{self, Place};
use runtime::{Failure, KeyIndex, PageNumber, UserAddress, exposed, key, syscall};
use test_programs::random::Random;
use test_programs::{Outcome, check, granted, guest, refused};

guest! {
    Child regions_hold_what_was_written;
    Child each_region_has_its_own_name;
    Child bytes_outside_a_region_are_refused;
    Child a_region_page_is_never_mapped;
    Child regions_against_a_model;
}

const ALL: u64 = Rights::ALL.0 as u64;
const KEY: KeyIndex = KeyIndex::FIRST;

fn read(key: KeyIndex, page: PageNumber, (region, offset): (u64, u64), bytes: &mut [u8]) -> Result<(), Failure> {
    region::read(key, Place { page, region, offset }, bytes)
}

fn write(key: KeyIndex, page: PageNumber, (region, offset): (u64, u64), bytes: &[u8]) -> Result<(), Failure> {
    region::write(key, Place { page, region, offset }, bytes)
}

/// A page whose regions are all named after the own key.
fn region_page() -> Result<PageNumber, alloc::string::String> {
    let page = granted!(Allocator::own().allocate());
    granted!(page::become_regions(KEY, page));
    check!(exposed::page(page).map(|info| info.kind()) == Some(PageKind::Region), "the page is no region page");
    for region in 0..REGIONS_PER_PAGE as u64 {
        granted!(syscall::region_name(KEY, page, region, KEY, ALL));
    }
    Ok(page)
}

fn regions_hold_what_was_written() -> Outcome {
    let page = region_page()?;
    for region in 0..REGIONS_PER_PAGE as u64 {
        granted!(write(KEY, page, (region, 0), &[region as u8 + 1; REGION_BYTES]));
    }
    for region in 0..REGIONS_PER_PAGE as u64 {
        let mut bytes = [0; REGION_BYTES];
        granted!(read(KEY, page, (region, 0), &mut bytes));
        check!(bytes == [region as u8 + 1; REGION_BYTES], "region {region} holds {bytes:?}");
    }
    granted!(syscall::page_free(KEY, page));
    let again = granted!(Allocator::own().allocate_this(page));
    granted!(page::become_regions(KEY, again));
    granted!(syscall::region_name(KEY, again, 3, KEY, ALL));
    let mut bytes = [9; REGION_BYTES];
    granted!(read(KEY, again, (3, 0), &mut bytes));
    check!(bytes == [0; REGION_BYTES], "a new region holds what an old one held");
    granted!(syscall::page_free(KEY, again));
    Ok(())
}

fn each_region_has_its_own_name() -> Outcome {
    let page = granted!(Allocator::own().allocate());
    granted!(page::become_regions(KEY, page));
    let mut bytes = [0; 8];
    check!(read(KEY, page, (0, 0), &mut bytes).is_err(), "a region without a name was read");
    let (one, two) = (granted!(key::derive(KEY, Rights::ALL, 0)), granted!(key::derive(KEY, Rights::ALL, 0)));
    granted!(syscall::region_name(KEY, page, 1, one, ALL));
    granted!(syscall::region_name(KEY, page, 2, two, u64::from(Rights::READ.0)));
    granted!(write(one, page, (1, 8), b"only one"));
    check!(write(two, page, (1, 8), &bytes).is_err(), "a stranger wrote a region");
    check!(read(two, page, (1, 8), &mut bytes).is_err(), "a stranger read a region");
    check!(read(KeyIndex::WELL_KNOWN, page, (1, 8), &mut bytes).is_err(), "the well-known name read a region");
    granted!(read(two, page, (2, 0), &mut bytes));
    check!(write(two, page, (2, 0), &bytes).is_err(), "a region that may be read was written");
    refused!(syscall::region_name(KeyIndex::WELL_KNOWN, page, 1, KeyIndex::WELL_KNOWN, ALL), NotPermitted);
    refused!(syscall::region_name(KEY, page, REGIONS_PER_PAGE as u64, one, ALL), BadArgument);
    refused!(syscall::region_name(KEY, page, u64::MAX, one, ALL), BadArgument);
    granted!(syscall::region_name(KEY, page, 1, two, ALL));
    check!(read(one, page, (1, 8), &mut bytes).is_err(), "the old name still reads");
    granted!(syscall::page_free(KEY, page));
    granted!(key::discard(one));
    granted!(key::discard(two));
    Ok(())
}

fn bytes_outside_a_region_are_refused() -> Outcome {
    let page = region_page()?;
    let end = REGION_BYTES as u64;
    let mut bytes = [0u8; REGION_BYTES + 8];
    for (offset, length) in
        [(0, REGION_BYTES + 1), (1, REGION_BYTES), (end, 1), (end + 1, 0), (0xffff_ffff, 1), (0xffff_ffff, 8)]
    {
        refused!(read(KEY, page, (0, offset), &mut bytes[..length]), BadArgument);
        refused!(write(KEY, page, (0, offset), &bytes[..length]), BadArgument);
    }
    refused!(read(KEY, page, (REGIONS_PER_PAGE as u64, 0), &mut bytes[..1]), BadArgument);
    refused!(read(KEY, page, (u64::MAX, 0), &mut bytes[..1]), BadArgument);
    refused!(read(KEY, Allocator::own().list, (0, 0), &mut bytes[..1]), WrongKind);
    for (at, count) in [(0x1000u64, u64::MAX), (0xffff_8000_0000_0000, 8), (1 << 62, 8)] {
        for write in [0, 1] {
            // SAFETY: refused by the count or the address.
            let told = unsafe { syscall::region_copy(KEY, page, 0, UserAddress(at), count, write) };
            check!(told.is_err(), "copying {count} bytes at {at:#x} ({write}) gave {told:?}");
        }
    }
    for write in [2, u64::MAX] {
        // SAFETY: refused by the direction.
        refused!(unsafe { syscall::region_copy(KEY, page, 0, UserAddress(0), 0, write) }, BadArgument);
    }
    granted!(syscall::page_free(KEY, page));
    Ok(())
}

fn a_region_page_is_never_mapped() -> Outcome {
    let page = region_page()?;
    for access in [Access::READ, Access::WRITE] {
        let row = [MapRow { address: 0x2000_0000 | KEY.0, entry: page.address() | access.0 }];
        check!(address_space::own().apply(&row).is_err(), "a region page could be mapped");
    }
    granted!(syscall::page_free(KEY, page));
    Ok(())
}

fn regions_against_a_model() -> Outcome {
    let page = region_page()?;
    let mut model = [[0u8; REGION_BYTES]; REGIONS_PER_PAGE];
    let seed = 0x4e61;
    let mut random = Random(seed);
    for step in 0..3000 {
        let region = random.below(REGIONS_PER_PAGE as u64);
        let offset = random.below(REGION_BYTES as u64);
        let length = random.below(REGION_BYTES as u64 - offset + 1);
        let part = offset as usize..(offset + length) as usize;
        let mut bytes = [0u8; REGION_BYTES];
        if random.below(2) == 0 {
            bytes.iter_mut().for_each(|byte| *byte = random.number() as u8);
            granted!(write(KEY, page, (region, offset), &bytes[..length as usize]));
            model[region as usize][part].copy_from_slice(&bytes[..length as usize]);
        } else {
            granted!(read(KEY, page, (region, offset), &mut bytes[..length as usize]));
            check!(
                bytes[..length as usize] == model[region as usize][part],
                "seed {seed:#x}, step {step}: region {region}"
            );
        }
    }
    granted!(syscall::page_free(KEY, page));
    Ok(())
}
