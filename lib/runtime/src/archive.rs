//! The boot archive: a newc cpio, which the first environment finds in its address space (`abi::boot`), and of which it
//! can show parts to others.

use crate::area::Area;
use abi::PageNumber;
use abi::page::PageKind;
use core::str;
use core::sync::atomic::Ordering::Relaxed;

/// One file of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its path, without a leading slash.
    pub name: &'a str,
    /// Type and permissions, as `stat` gives them.
    pub mode: u32,
    /// Its contents; the target of a symbolic link.
    pub data: &'a [u8],
}

/// The files of an archive, in its order. Ends at the trailer, or where the archive makes no sense.
#[derive(Clone, Copy, Debug)]
pub struct Archive<'a> {
    rest: &'a [u8],
}

const HEADER: usize = 110;
const MODE: usize = 14;
const FILE_SIZE: usize = 54;
const NAME_SIZE: usize = 94;

impl<'a> Archive<'a> {
    /// The archive in these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The file with this name.
    pub fn find(mut self, name: &str) -> Option<Entry<'a>> {
        Iterator::find(&mut self, |entry| entry.name == name)
    }

    fn parse(&mut self) -> Option<Entry<'a>> {
        let header = self.rest.get(..HEADER)?;
        if !header.starts_with(b"070701") && !header.starts_with(b"070702") {
            return None;
        }
        let name_end = HEADER.checked_add(field(header, NAME_SIZE)?)?;
        let name = self.rest.get(HEADER..name_end)?;
        let data_start = name_end.checked_next_multiple_of(4)?;
        let data_end = data_start.checked_add(field(header, FILE_SIZE)?)?;
        let data = self.rest.get(data_start..data_end)?;
        let name = str::from_utf8(name.strip_suffix(b"\0")?).ok()?;
        let mode = field(header, MODE)? as u32;
        self.rest = self.rest.get(data_end.checked_next_multiple_of(4)?..).unwrap_or_default();
        (name != "TRAILER!!!").then_some(Entry { name: name.trim_start_matches("./"), mode, data })
    }
}

impl<'a> Iterator for Archive<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let entry = self.parse();
        if entry.is_none() {
            self.rest = &[];
        }
        entry
    }
}

/// Eight hexadecimal digits.
fn field(header: &[u8], offset: usize) -> Option<usize> {
    let digits = str::from_utf8(header.get(offset..offset + 8)?).ok()?;
    usize::from_str_radix(digits, 16).ok()
}

/// The boot archive as bytes. In the first environment it is the one that the machine was started with. In any other it
/// is what the creator shows ([`crate::environment::Builder::archive`]), which is nothing by default.
pub fn boot_bytes() -> &'static [u8] {
    let (start, bytes) = if crate::area::number() == crate::entry::FIRST {
        (abi::boot::ARCHIVE, crate::exposed::kernel().archive_bytes.load(Relaxed))
    } else {
        let words = Area::current().library();
        (words.archive.load(Relaxed), words.archive_bytes.load(Relaxed))
    };
    if start == 0 {
        return &[];
    }
    // SAFETY: the kernel, or the creator, maps that many bytes read-only at this address before the program begins, and
    // no program can write them. `AddressSpace::apply` refuses to map over them.
    unsafe { core::slice::from_raw_parts(start as *const u8, bytes as usize) }
}

/// The files of [`boot_bytes`].
pub fn boot() -> Archive<'static> {
    Archive::new(boot_bytes())
}

/// The pages of the archive that the machine was started with, in their order.
pub fn pages() -> impl Iterator<Item = PageNumber> {
    let all = (0..crate::exposed::kernel().pages.load(Relaxed)).map(PageNumber);
    all.filter(|number| crate::exposed::page(*number).is_some_and(|page| page.kind() == PageKind::Archive))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(archive: &mut Vec<u8>, name: &str, mode: u32, data: &[u8]) {
        let (size, name_size) = (data.len(), name.len() + 1);
        let header = format!(
            "070701{0:08x}{mode:08x}{0:08x}{0:08x}{1:08x}{0:08x}{size:08x}{0:08x}{0:08x}{0:08x}{0:08x}{name_size:08x}{0:08x}",
            0, 1
        );
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(name.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend_from_slice(data);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }

    fn sample() -> Vec<u8> {
        let mut archive = Vec::new();
        append(&mut archive, "init", 0o100_755, b"hello");
        append(&mut archive, "./folder/a", 0o040_755, b"");
        append(&mut archive, "TRAILER!!!", 0, b"");
        archive
    }

    #[test]
    fn files_come_out_as_they_went_in() {
        let bytes = sample();
        let names: Vec<_> = Archive::new(&bytes).map(|entry| (entry.name, entry.mode, entry.data)).collect();
        assert_eq!(names, [("init", 0o100_755, &b"hello"[..]), ("folder/a", 0o040_755, b"")]);
        assert!(Archive::new(&bytes).find("nothing").is_none());
    }

    #[test]
    fn a_damaged_archive_ends_early_and_nothing_else() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert!(Archive::new(&bytes[..end]).count() <= 2);
        }
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[index] ^= 1 << bit;
                assert!(Archive::new(&damaged).count() <= 3, "byte {index}, bit {bit}");
            }
        }
    }
}
