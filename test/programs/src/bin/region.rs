//! Software regions: protection finer than a page, reached by calls only.
#![no_std]
#![no_main]

extern crate alloc;

use abi::capability::Rights;
use abi::limits::{REGION_BYTES, REGIONS_PER_PAGE};
use runtime::address_space::{self, Access, MapRow};
use runtime::page::{self, Allocator, PageKind};
use runtime::{Failure, KeyIndex, PageNumber, UserAddress, exposed, key, syscall};
use test_programs::random::Random;
use test_programs::{Outcome, check, granted, guest, refused};

guest! {
    Child regions_hold_what_was_written;
    Child each_region_has_its_own_name;
    Child bytes_outside_a_region_are_refused;
    Child words_are_swapped_whole;
    Child a_region_page_is_never_mapped;
    Child regions_against_a_model;
}

const ALL: u64 = Rights::ALL.0 as u64;
const KEY: KeyIndex = KeyIndex::FIRST;

fn place(region: u64, offset: u64) -> u64 {
    region << 32 | offset
}

fn read(key: KeyIndex, page: PageNumber, at: u64, bytes: &mut [u8]) -> Result<(), Failure> {
    // SAFETY: the kernel writes as many bytes as the slice has.
    unsafe { syscall::region_read(key, page, at, UserAddress(bytes.as_mut_ptr() as u64), bytes.len() as u64) }
}

fn write(key: KeyIndex, page: PageNumber, at: u64, bytes: &[u8]) -> Result<(), Failure> {
    // SAFETY: the kernel reads as many bytes as the slice has.
    unsafe { syscall::region_write(key, page, at, UserAddress(bytes.as_ptr() as u64), bytes.len() as u64) }
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
        granted!(write(KEY, page, place(region, 0), &[region as u8 + 1; REGION_BYTES]));
    }
    for region in 0..REGIONS_PER_PAGE as u64 {
        let mut bytes = [0; REGION_BYTES];
        granted!(read(KEY, page, place(region, 0), &mut bytes));
        check!(bytes == [region as u8 + 1; REGION_BYTES], "region {region} holds {bytes:?}");
    }
    granted!(syscall::page_free(KEY, page));
    let again = granted!(Allocator::own().allocate_this(page));
    granted!(page::become_regions(KEY, again));
    granted!(syscall::region_name(KEY, again, 3, KEY, ALL));
    let mut bytes = [9; REGION_BYTES];
    granted!(read(KEY, again, place(3, 0), &mut bytes));
    check!(bytes == [0; REGION_BYTES], "a new region holds what an old one held");
    granted!(syscall::page_free(KEY, again));
    Ok(())
}

fn each_region_has_its_own_name() -> Outcome {
    let page = granted!(Allocator::own().allocate());
    granted!(page::become_regions(KEY, page));
    let mut bytes = [0; 8];
    check!(read(KEY, page, place(0, 0), &mut bytes).is_err(), "a region without a name was read");
    let (one, two) = (granted!(key::derive(KEY, Rights::ALL, 0)), granted!(key::derive(KEY, Rights::ALL, 0)));
    granted!(syscall::region_name(KEY, page, 1, one, ALL));
    granted!(syscall::region_name(KEY, page, 2, two, u64::from(Rights::READ.0)));
    granted!(write(one, page, place(1, 8), b"only one"));
    check!(write(two, page, place(1, 8), &bytes).is_err(), "a stranger wrote a region");
    check!(read(two, page, place(1, 8), &mut bytes).is_err(), "a stranger read a region");
    check!(read(KeyIndex::WELL_KNOWN, page, place(1, 8), &mut bytes).is_err(), "the well-known name read a region");
    granted!(read(two, page, place(2, 0), &mut bytes));
    check!(write(two, page, place(2, 0), &bytes).is_err(), "a region that may be read was written");
    refused!(syscall::region_swap(two, page, place(2, 0), 0, 1), NotPermitted);
    refused!(syscall::region_name(KeyIndex::WELL_KNOWN, page, 1, KeyIndex::WELL_KNOWN, ALL), NotPermitted);
    refused!(syscall::region_name(KEY, page, REGIONS_PER_PAGE as u64, one, ALL), BadArgument);
    refused!(syscall::region_name(KEY, page, u64::MAX, one, ALL), BadArgument);
    granted!(syscall::region_name(KEY, page, 1, two, ALL));
    check!(read(one, page, place(1, 8), &mut bytes).is_err(), "the old name still reads");
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
        refused!(read(KEY, page, place(0, offset), &mut bytes[..length]), BadArgument);
        refused!(write(KEY, page, place(0, offset), &bytes[..length]), BadArgument);
    }
    refused!(read(KEY, page, place(REGIONS_PER_PAGE as u64, 0), &mut bytes[..1]), BadArgument);
    refused!(read(KEY, page, u64::MAX, &mut bytes[..1]), BadArgument);
    refused!(read(KEY, Allocator::own().list, place(0, 0), &mut bytes[..1]), WrongKind);
    for offset in [1, 4, 7, end, end - 4, 0xffff_fff8] {
        refused!(syscall::region_swap(KEY, page, place(0, offset), 0, 1), BadArgument);
    }
    for (at, count) in [(0x1000u64, u64::MAX), (0xffff_8000_0000_0000, 8), (1 << 62, 8)] {
        // SAFETY: refused by the count or the address.
        let outcome = unsafe { syscall::region_read(KEY, page, place(0, 0), UserAddress(at), count) };
        check!(outcome.is_err(), "reading {count} bytes to {at:#x} gave {outcome:?}");
        // SAFETY: refused by the count or the address.
        let outcome = unsafe { syscall::region_write(KEY, page, place(0, 0), UserAddress(at), count) };
        check!(outcome.is_err(), "writing {count} bytes from {at:#x} gave {outcome:?}");
    }
    granted!(syscall::page_free(KEY, page));
    Ok(())
}

fn words_are_swapped_whole() -> Outcome {
    let page = region_page()?;
    for count in 0..100u64 {
        check!(
            granted!(syscall::region_swap(KEY, page, place(5, 16), count, count + 1)) == count,
            "a swap at {count} lost"
        );
        check!(
            granted!(syscall::region_swap(KEY, page, place(5, 16), count, 999)) == count + 1,
            "a wrong swap at {count} won"
        );
    }
    let mut bytes = [0; 8];
    granted!(read(KEY, page, place(5, 16), &mut bytes));
    check!(u64::from_le_bytes(bytes) == 100, "the word is {bytes:?}");
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
            granted!(write(KEY, page, place(region, offset), &bytes[..length as usize]));
            model[region as usize][part].copy_from_slice(&bytes[..length as usize]);
        } else {
            granted!(read(KEY, page, place(region, offset), &mut bytes[..length as usize]));
            check!(
                bytes[..length as usize] == model[region as usize][part],
                "seed {seed:#x}, step {step}: region {region}"
            );
        }
    }
    granted!(syscall::page_free(KEY, page));
    Ok(())
}
