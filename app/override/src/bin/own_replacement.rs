//! An image of ExOS in which every process has little room for pages of its own, and decides itself which of them go.
//!
//! Only pages without a file behind them count, private ones. When there are [`ROOM`] of them, the next fault packs
//! one up and gives it back to the kernel. It is one of the newest. If the oldest went first, a program that walks
//! over more pages than there is room for, again and again, would find none of them. The usual imitations of LRU fail
//! so (exokernel-sosp95 §1 on page replacement). A packed page lies in the library's heap, without the zeros at its
//! end.
//!
//! A program with `PAGES_BACK=3` in its environment says at its end, to descriptor 3, how many pages came back.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::page_table::{MapRow, WRITE};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use exos::override_tables::OverrideTables;
use exos::process::Process;
use exos::process::current::process;
use exos::process::pager::OwnPages;
use exos::syscalls::Call;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE};
use linux_abi::errno::Result;
use vm::address_space::{Access, AddressSpace, FaultError, PageOps};
use vm::page_record::{COPY_ON_WRITE, SHARED, entry, page_of};
use vm::vma::{Backing, Protection, Vma};

exos::image!(
    OverrideTables::EXOS
        .with_fault(fault)
        .with_call(linux::EXIT_GROUP, exit_group)
        .with_call(linux::MMAP, whole)
        .with_call(linux::MUNMAP, whole)
        .with_call(linux::MREMAP, whole)
        .with_call(linux::MPROTECT, whole)
        .with_call(linux::MADVISE, whole)
        .with_call(linux::MINCORE, whole)
        .with_call(linux::BRK, whole)
        .with_call(linux::EXECVE, whole)
);

/// Linux's numbers of calls.
mod linux {
    pub(super) const MMAP: u32 = 9;
    pub(super) const MPROTECT: u32 = 10;
    pub(super) const MUNMAP: u32 = 11;
    pub(super) const BRK: u32 = 12;
    pub(super) const MREMAP: u32 = 25;
    pub(super) const MINCORE: u32 = 27;
    pub(super) const MADVISE: u32 = 28;
    pub(super) const EXECVE: u32 = 59;
    pub(super) const EXIT_GROUP: u32 = 231;
}

/// Pages of its own that a process has at most. Of the 1,280 that `dd` touches in 20 passes over 64 pages, 513 came
/// back; with the oldest going first it would be 1,259.
const ROOM: usize = 64;
const VARIABLE: &[u8] = b"PAGES_BACK=";
/// The newest stay: ExOS has a few pages brought at once where it copies.
const KEPT: usize = 16;

/// What a process knows of its pages.
#[derive(Default)]
struct Residence {
    /// Addresses of pages that are there, in the order in which they came.
    here: Vec<u64>,
    /// Contents of pages that went, by address.
    away: BTreeMap<u64, Vec<u8>>,
    /// How many came back.
    back: u64,
}

/// Makes room, and brings the page, from where it lies packed or as ExOS does.
fn fault(
    space: &mut AddressSpace,
    pages: &mut OwnPages<'_>,
    address: u64,
    access: Access,
) -> core::result::Result<(), FaultError> {
    let address = address & PAGE_MASK;
    space.one_at_a_time = true;
    process().with_extension(|residence: &mut Residence| {
        residence.make_room(space, pages).map_err(|_| FaultError::OutOfMemory)?;
        if residence.away.contains_key(&address) {
            residence.back += 1;
            return residence.bring(space, pages, address).map_err(|_| FaultError::OutOfMemory);
        }
        OverrideTables::fill(space, pages, address, access)?;
        residence.note(space, address);
        Ok(())
    })
}

impl Residence {
    /// Takes pages away until there is room for one.
    fn make_room(&mut self, space: &mut AddressSpace, pages: &mut OwnPages<'_>) -> Result<()> {
        while self.here.len() >= ROOM {
            let address = self.here.remove(self.here.len() - 1 - KEPT);
            if is_own(space, address) {
                self.pack(space, pages, address)?;
            }
        }
        Ok(())
    }

    /// Takes a page away. No thread can write it any more when its contents are read.
    fn pack(&mut self, space: &mut AddressSpace, pages: &mut OwnPages<'_>, address: u64) -> Result<()> {
        let page = page_of(space.frames.get(address));
        pages.map(&[MapRow { address, entry: 0 }])?;
        space.frames.set(address, 0);
        let mut contents = pages.read(page)?;
        contents.truncate(contents.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        contents.shrink_to_fit();
        self.away.insert(address, contents);
        pages.release(&[page]);
        Ok(())
    }

    /// Brings a page back. It has its contents before any thread can see it.
    fn bring(&mut self, space: &mut AddressSpace, pages: &mut OwnPages<'_>, address: u64) -> Result<()> {
        let Some(area) = space.areas.find(address).copied() else { return Ok(()) };
        let page = pages.allocate()?;
        pages.fill(page, &self.away.remove(&address).unwrap_or_default())?;
        let allows = |what| area.protection.allows(what);
        let entry = entry(page, allows(Protection::WRITE), allows(Protection::EXECUTE), 0);
        pages.map(&[MapRow { address, entry }])?;
        space.frames.set(address, entry);
        self.note(space, address);
        Ok(())
    }

    /// A page has come; whether it counts is seen when room is wanted.
    fn note(&mut self, space: &AddressSpace, address: u64) {
        self.here.retain(|other| *other != address);
        if is_own(space, address) {
            self.here.push(address);
        }
    }
}

/// Whether the process's own page lies there: one with no file behind it, which no other process can reach.
fn is_own(space: &AddressSpace, address: u64) -> bool {
    let entry = space.frames.get(address);
    let is_plain = |area: &Vma| area.backing == Backing::Anonymous && !area.shared;
    entry & WRITE != 0 && entry & (COPY_ON_WRITE | SHARED) == 0 && space.areas.find(address).is_some_and(is_plain)
}

/// Calls that look at pages, or give their addresses another meaning, find them all.
fn whole(call: &mut Call<'_>) -> Result<u64> {
    call.process.with_memory(|space, pages| {
        process().with_extension(|residence: &mut Residence| {
            let addresses: Vec<u64> = residence.away.keys().copied().collect();
            addresses.into_iter().try_for_each(|address| residence.bring(space, pages, address))
        })
    })?;
    call.ordinary()
}

fn exit_group(call: &mut Call<'_>) -> Result<u64> {
    if let Some(descriptor) = asked(call.process) {
        let back = call.process.with_extension(|residence: &mut Residence| residence.back);
        call.process.descriptors.description(descriptor)?.write_bytes(format!("{back}\n").as_bytes())?;
    }
    call.ordinary()
}

/// The descriptor that the environment names.
fn asked(process: &Process) -> Option<u64> {
    let program = process.program.lock();
    let value = program.environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(VARIABLE))?;
    core::str::from_utf8(value).ok()?.parse().ok()
}

const _: () = assert!(KEPT < ROOM && PAGE_SIZE == abi::limits::PAGE_SIZE);
