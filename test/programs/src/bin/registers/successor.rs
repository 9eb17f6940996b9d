//! Fault 31: an environment that begins in the pages, or in the slot, of one that filled everything finds nothing of
//! it.

use crate::bases::protection_keys;
use crate::observer::{CONTROL, LEGACY_WORDS, Legacy, MXCSR, MXCSR_WORD, legacy, note_and_start, upper_halves};
use crate::painter::{leaving, paint_everything};
use abi::area::PUBLIC_LIBRARY;
use abi::budget::Resource;
use abi::feature;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use runtime::area::Area;
use runtime::environment::Child;
use runtime::{KeyIndex, context, exposed, syscall, time_slice};
use test_programs::attempt::watch;
use test_programs::child::{death, eventually, first_page, renew, spawn, status};
use test_programs::{Outcome, World, attempt, check, granted, refused};

/// Words of the library's half of the public page in which one that begins tells what it found, behind its general
/// registers.
mod told {
    pub(super) const FS_BASE: usize = 16;
    pub(super) const GS_WORD: usize = 17;
    pub(super) const VECTOR_UNIT: usize = 18;
    pub(super) const KEYS: usize = 19;
    pub(super) const PKRU: usize = 20;
    pub(super) const LEGACY: usize = 24;
    pub(super) const UPPER: usize = LEGACY + super::LEGACY_WORDS;
    pub(super) const END: usize = UPPER + 32;
}

/// Tells what else it finds in the CPU.
extern "C" fn tell_the_rest(argument: u64) {
    watch();
    let area = Area::current();
    let tell = |place: usize, word: u64| area.public_library(place).store(word, SeqCst);
    // Page 0 is not mapped: the address that faults is the base.
    tell(told::FS_BASE, attempt!(["mov rax, fs:[0]"]).map_or(u64::MAX, |frame| frame.detail));
    let word: u64;
    // SAFETY: the first word that the runtime itself finds by GS.
    unsafe { core::arch::asm!("mov {}, gs:[0]", out(reg) word) };
    tell(told::GS_WORD, word ^ area.private().exception_entry.load(SeqCst));
    // The vector unit is on in the beginning.
    let off = attempt!(["movq rax, xmm0"]).is_some();
    tell(told::VECTOR_UNIT, off.into());
    if off {
        return;
    }
    let Legacy(mut found) = legacy();
    found[0] ^= CONTROL;
    found[MXCSR_WORD] = found[MXCSR_WORD] & 0xffff_ffff ^ MXCSR;
    found[..LEGACY_WORDS].iter().enumerate().for_each(|(index, word)| tell(told::LEGACY + index, *word));
    if exposed::has(feature::AVX) {
        upper_halves().iter().enumerate().for_each(|(index, word)| tell(told::UPPER + index, *word));
    }
    tell(told::KEYS, attempt!(["xor ecx, ecx", "rdpkru"]).is_none().into());
    if exposed::has(feature::PKU) && context::set_protection_keys(true).is_ok() {
        tell(told::PKRU, protection_keys().into());
    }
    area.status(1).store(argument, SeqCst);
    eventually(|| false);
}

/// Runs a child that was renewed and begins at [`note_and_start`]: it must find nothing of the environment before it.
fn finds_nothing(world: &World, child: &Child, round: u64) -> Outcome {
    granted!(world.image.map_into(&child.space, child.pages));
    for (resource, amount) in [(Resource::Page, 512), (Resource::Slice, 4), (Resource::Predicate, 16)] {
        granted!(child.give(resource, amount));
    }
    granted!(child.run(0, time_slice::ANY_POSITION));
    check!(eventually(|| status(child, 1) == round), "round {round}: it does not begin: {}", death(child));
    let public = granted!(child.public());
    let words = &public.words()[PUBLIC_LIBRARY as usize / 8..][..told::END];
    let found: Vec<u64> = words.iter().map(|word| word.load(SeqCst)).collect();
    let (registers, rest) = found.split_at(told::FS_BASE);
    let own = |word: u64| [0, note_and_start as *const () as u64, 0x202].contains(&word);
    check!(registers[..15].iter().all(|word| own(*word)), "round {round}: it began with {registers:x?}");
    let foreign = rest.iter().position(|word| *word != 0);
    check!(foreign.is_none(), "round {round}: word {foreign:?} of {rest:x?} is not as in the beginning");
    Ok(())
}

/// A child that has filled everything and left the CPU.
fn painted(world: &World, round: u64) -> Result<Child, alloc::string::String> {
    let way = round % leaving::WAYS;
    let child = spawn(world, paint_everything, way)?;
    let forced_out = |info: exposed::Environment| way != leaving::WHOLE || info.excess.load(SeqCst) != 0;
    let is_painted = || status(&child, 1) == 1 && child.info().is_some_and(forced_out) && !exposed::runs(child.number);
    check!(eventually(is_painted), "round {round}: it does not paint: {}", death(&child));
    Ok(child)
}

/// The same pages serve the next environment: its context, its area, its upcall stack.
pub(crate) fn fault_31_registers_of_one_that_begins_in_anothers_pages(world: &World) -> Outcome {
    for round in 2..12 {
        let mut child = painted(world, round)?;
        let first = first_page(note_and_start as *const () as u64, tell_the_rest, round)?;
        refused!(syscall::environment_destroy(KeyIndex::FIRST, child.number), Again);
        child.number = granted!(renew(child.number, first, round % 2 == 0));
        granted!(runtime::page::Allocator::own().free(first));
        finds_nothing(world, &child, round)?;
        granted!(child.destroy());
    }
    Ok(())
}

extern "C" fn end_at_once(_: u64) {
    runtime::entry::exit(0);
}

/// The same slot of the table, but other pages; on small machines, where going round all slots takes no minutes.
pub(crate) fn fault_31_registers_of_one_that_begins_in_anothers_slot(world: &World) -> Outcome {
    let slots = exposed::kernel().environments.load(SeqCst);
    let rounds = if slots > 2048 { 0 } else { leaving::WAYS };
    for round in 2..2 + rounds {
        let mut next = spawn(world, end_at_once, 0)?;
        let child = painted(world, round)?;
        let slot = child.number.0 % slots;
        granted!(child.destroy());
        check!(next.wait(u64::MAX), "the next one does not end");
        for _ in 0..slots {
            let first = first_page(note_and_start as *const () as u64, tell_the_rest, round)?;
            next.number = granted!(renew(next.number, first, true));
            granted!(runtime::page::Allocator::own().free(first));
            if next.number.0 % slots == slot {
                break;
            }
            refused!(syscall::environment_destroy(KeyIndex::FIRST, next.number), Again);
        }
        check!(next.number.0 % slots == slot, "round {round}: slot {slot} does not come again");
        finds_nothing(world, &next, round)?;
        granted!(next.destroy());
    }
    Ok(())
}
