//! How much memory the program has: `/proc/self/smaps`, and what `/proc/self/status` and `statm` tell of it.
//! Proportions are of those who map a page as far as the kernel counts them.

use super::maps;
use crate::process::current::process;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::address_map::{PAGE_SIZE, STACK_TOP};
use runtime::{PageNumber, exposed};
use vm::address_space::AddressSpace;
use vm::page_record::{FROM_FILE, SHARED, page_of};
use vm::vma::{Backing, Protection, Vma};

/// Bytes of pages that are there, by who else has them.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    all: u64,
    there: u64,
    share: u64,
    shared: u64,
    private: u64,
    anonymous: u64,
    locked: u64,
}

impl Sizes {
    fn of(space: &AddressSpace, area: &Vma) -> Self {
        let mut sizes = Self { all: area.bytes(), ..Self::default() };
        for (_, entry) in space.frames.within(area.start, area.end) {
            // The server maps pages of files, too, and does not count as a sharer.
            let is_file = entry & FROM_FILE != 0 || entry & SHARED != 0 && area.backing != Backing::Anonymous;
            let references = exposed::page(PageNumber(page_of(entry))).map_or(1, |info| info.references());
            let sharers = references.saturating_sub(u64::from(is_file)).max(1);
            sizes.there += PAGE_SIZE;
            sizes.share += PAGE_SIZE / sharers;
            *(if sharers > 1 { &mut sizes.shared } else { &mut sizes.private }) += PAGE_SIZE;
            sizes.anonymous += if is_file { 0 } else { PAGE_SIZE };
        }
        sizes.locked = if area.locked { sizes.there } else { 0 };
        sizes
    }

    fn with(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            there: self.there + other.there,
            share: self.share + other.share,
            shared: self.shared + other.shared,
            private: self.private + other.private,
            anonymous: self.anonymous + other.anonymous,
            locked: self.locked + other.locked,
        }
    }

    /// The lines that both files have, from the resident size on. A page that a file has is as the file is: clean.
    fn lines(&self) -> String {
        let clean = self.private.min(self.there - self.anonymous);
        let rows = [
            ("Rss", self.there),
            ("Pss", self.share),
            ("Pss_Dirty", self.anonymous.min(self.share)),
            ("Shared_Clean", self.shared),
            ("Shared_Dirty", 0),
            ("Private_Clean", clean),
            ("Private_Dirty", self.private - clean),
            ("Referenced", self.there),
            ("Anonymous", self.anonymous),
            ("LazyFree", 0),
            ("AnonHugePages", 0),
            ("ShmemPmdMapped", 0),
            ("FilePmdMapped", 0),
            ("Shared_Hugetlb", 0),
            ("Private_Hugetlb", 0),
            ("Swap", 0),
            ("SwapPss", 0),
            ("Locked", self.locked),
        ];
        rows.iter().map(|(name, bytes)| line(name, *bytes)).collect()
    }
}

fn line(name: &str, bytes: u64) -> String {
    format!("{:<16}{:>8} kB\n", format!("{name}:"), bytes / 1024)
}

/// `VmFlags`: what may be done, and how the area is kept.
fn flags(area: &Vma) -> String {
    let has = |protection: Protection| area.protection.allows(protection);
    let all = [
        (has(Protection::READ), "rd "),
        (has(Protection::WRITE), "wr "),
        (has(Protection::EXECUTE), "ex "),
        (area.shared, "sh "),
        (true, "mr mw me "),
        (area.shared, "ms "),
        (area.grows, "gd "),
        (area.locked, "lo "),
        (area.at_fork.absent, "dc "),
        (area.at_fork.wiped, "wf "),
    ];
    all.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect()
}

/// `/proc/self/smaps`.
pub(super) fn smaps() -> String {
    let heads = maps::text();
    let memory = process().memory.lock();
    let mut text = String::new();
    for (area, head) in memory.space.areas.iter().zip(heads.lines()) {
        let sizes = Sizes::of(&memory.space, area);
        let page = format!("{}{}", line("KernelPageSize", PAGE_SIZE), line("MMUPageSize", PAGE_SIZE));
        text += &format!(
            "{head}\n{}{page}{}THPeligible:    0\nVmFlags: {}\n",
            line("Size", sizes.all),
            sizes.lines(),
            flags(area)
        );
    }
    text
}

/// `/proc/self/numa_maps`: the areas, with their pages on the one node of memory.
pub(super) fn numa_maps() -> String {
    let heads = maps::text();
    let memory = process().memory.lock();
    let line = |(area, head): (&Vma, &str)| {
        let sizes = Sizes::of(&memory.space, area);
        let (there, own) = (sizes.there / PAGE_SIZE, sizes.anonymous / PAGE_SIZE);
        let place = match head.split_ascii_whitespace().nth(5) {
            Some("[heap]") => String::from(" heap"),
            Some("[stack]") => String::from(" stack"),
            Some(name) if name.starts_with('/') => format!(" file={name}"),
            _ => String::new(),
        };
        let mapped = if there > own { format!(" mapped={there}") } else { String::new() };
        let dirty = if own > 0 { format!(" anon={own} dirty={own}") } else { String::new() };
        let node = if there > 0 { format!(" N0={there} kernelpagesize_kB=4") } else { String::new() };
        format!("{:08x} default{place}{dirty}{mapped}{node}\n", area.start)
    };
    memory.space.areas.iter().zip(heads.lines()).map(line).collect()
}

/// `/proc/self/smaps_rollup`.
pub(super) fn rollup() -> String {
    let memory = process().memory.lock();
    let all: Vec<Vma> = memory.space.areas.iter().copied().collect();
    let sum = all.iter().map(|area| Sizes::of(&memory.space, area)).fold(Sizes::default(), Sizes::with);
    let (start, end) = (all.first().map_or(0, |area| area.start), all.last().map_or(0, |area| area.end));
    let left = format!("{start:08x}-{end:08x} ---p 00000000 00:00 0 ");
    format!("{left:<73}[rollup]\n{}", sum.lines())
}

/// The lines of `/proc/self/status` about memory.
pub(super) fn status() -> String {
    let memory = process().memory.lock();
    let space = &memory.space;
    let sum =
        |wanted: &dyn Fn(&Vma) -> bool| space.areas.iter().filter(|area| wanted(area)).map(Vma::bytes).sum::<u64>();
    let there = space.frames.len() as u64 * PAGE_SIZE;
    let files = space.frames.of_files() as u64 * PAGE_SIZE;
    let is_text =
        |area: &Vma| area.protection.allows(Protection::EXECUTE) && !area.protection.allows(Protection::WRITE);
    let rows = [
        ("VmPeak", space.areas.bytes()),
        ("VmSize", space.areas.bytes()),
        ("VmLck", space.locked_bytes()),
        ("VmPin", 0),
        ("VmHWM", space.frames.peak() as u64 * PAGE_SIZE),
        ("VmRSS", there),
        ("RssAnon", there - files),
        ("RssFile", files),
        ("RssShmem", 0),
        ("VmData", sum(&|area| area.is_data() && area.end != STACK_TOP)),
        ("VmStk", sum(&|area| area.end == STACK_TOP)),
        ("VmExe", sum(&is_text)),
        ("VmLib", 0),
        ("VmPTE", 16 << 10),
        ("VmSwap", 0),
    ];
    rows.iter().map(|(name, bytes)| format!("{name}:\t{:>8} kB\n", bytes / 1024)).collect()
}

/// `/proc/self/statm`.
pub(super) fn statm() -> String {
    let memory = process().memory.lock();
    let space = &memory.space;
    let data = space.areas.iter().filter(|area| area.is_data()).map(Vma::bytes).sum::<u64>() / PAGE_SIZE;
    let (there, files) = (space.frames.len(), space.frames.of_files());
    format!("{} {there} {files} 0 0 {data} 0\n", space.areas.bytes() / PAGE_SIZE)
}
