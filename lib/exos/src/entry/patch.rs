//! Carries a rewriting out: a stub near the site, a private copy of the page of text with the jump in it.

use super::gate::STUB_ENTRY;
use crate::hw::usercopy;
use crate::process::current::process;
use alloc::vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE};
use linux_abi::errno::{Errno, Result};
use program::patch_site::{self, MOVE_BYTES, REACH, STUB_STRIDE, SYSCALL_BYTES, Site};
use vm::vma::Protection;

/// Counts the trap of the `syscall` that ends at `end` and was made with `number`; one that came often is made a call,
/// where that is allowed. A refusal or a failure leaves the gate, which always works.
#[inline]
pub fn note_trap(end: u64, number: u64) {
    let process = process();
    if !process.gate_only.load(Relaxed) && process.traps.has_come_often(end) {
        rewrite(end, number);
    }
}

#[cold]
fn rewrite(end: u64, number: u64) {
    let Some(start) = end.checked_sub(SYSCALL_BYTES as u64) else { return };
    let page = start & PAGE_MASK;
    if !may_rewrite(page) {
        return;
    }
    let mut text = vec![0; PAGE_SIZE as usize];
    if usercopy::read(page, &mut text).is_err() {
        return;
    }
    if let Some(site) = patch_site::decide(&text, (start - page) as usize, number) {
        // Where there is no room or no memory for a stub the site keeps the gate.
        let _ = apply(page, site, end, &mut text);
    }
}

/// Text that is private and cannot be written.
fn may_rewrite(page: u64) -> bool {
    let memory = process().memory.lock();
    memory.space.areas.find(page).is_some_and(|area| {
        !area.shared && area.protection.allows(Protection::EXECUTE) && !area.protection.allows(Protection::WRITE)
    })
}

/// `back`: the end of the `syscall`.
fn apply(page: u64, site: Site, back: u64, text: &mut [u8]) -> Result<()> {
    let at = page + site.offset as u64;
    process().with_memory(|space, pages| {
        let stub = space.take_stub(pages, at, REACH, STUB_STRIDE as u64)?;
        let bytes = patch_site::stub(stub, site.first, back, STUB_ENTRY as u32).ok_or(Errno::ENOMEM)?;
        let jump = patch_site::jump(at, stub).ok_or(Errno::ENOMEM)?;
        space.replace_bytes(pages, stub, &bytes)?;
        text[site.offset..site.offset + MOVE_BYTES].copy_from_slice(&jump);
        if let Some(hop) = site.hop {
            let bytes = patch_site::short_jump(hop, site.offset).ok_or(Errno::ENOMEM)?;
            text[hop..hop + bytes.len()].copy_from_slice(&bytes);
        }
        space.replace_page(pages, page, text)
    })
}
