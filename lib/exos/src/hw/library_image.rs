//! What the ExOS image knows of itself, and what it gives to the processes that it makes.

use super::usercopy;
use core::sync::atomic::AtomicU64;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use runtime::address_space::Access;
use runtime::window::Window;
use runtime::{KeyIndex, PageNumber};
use vfs::dcache;

const WORDS_OF_PAGE: usize = PAGE_SIZE as usize / 8;

/// Copies pages that can be read where they lie, the program's or ExOS's own, into others: those that are mapped from
/// `place` on, if it says so.
pub fn copy_pages(from: impl Iterator<Item = u64>, to: &[PageNumber], place: Option<u64>, key: KeyIndex) -> Result<()> {
    let window = if place.is_none() { Some(Window::open(to, key, Access::WRITE)?) } else { None };
    let first = place.or(window.as_ref().map(Window::address)).unwrap_or_default();
    for (address, place) in from.zip((first..).step_by(PAGE_SIZE as usize)).take(to.len()) {
        usercopy::copy_addresses(place, address, PAGE_SIZE);
    }
    Ok(())
}

/// The pages that the server exposes to all processes (`address_map::SHOWN`): its notices, and the words of its
/// dentry cache. Only a process on the ExOS image has them.
#[inline]
pub fn shown() -> (&'static [AtomicU64; WORDS_OF_PAGE], &'static [AtomicU64; dcache::WORDS]) {
    let notices = linux_abi::address_map::SHOWN as *const [AtomicU64; WORDS_OF_PAGE];
    // SAFETY: the session mapped these pages here, in the tables that every process on this image links, before the
    // first one began, and they are never unmapped; only the server writes to them, whole words at a time.
    unsafe { (&*notices, &*notices.add(1).cast()) }
}

/// What the session wrote for the first process: words, then the command.
pub fn birth_record() -> (&'static [u64], &'static [u8]) {
    use unix_core::session::first_process::{COMMAND_OFFSET, COMMAND_WORD, WORDS};
    let at = linux_abi::address_map::BIRTH;
    // SAFETY: the session mapped the record here, read-only, before the process began; it never changes.
    let words = unsafe { core::slice::from_raw_parts(at as *const u64, WORDS) };
    let length = words[COMMAND_WORD] as usize;
    // SAFETY: as above; the session wrote the length of what it placed behind the words.
    (words, unsafe { core::slice::from_raw_parts((at + COMMAND_OFFSET as u64) as *const u8, length) })
}
