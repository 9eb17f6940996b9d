//! What becomes of the mapped pages of a file that got shorter, or a hole (mmap(2), ftruncate(2)). They go from the
//! program's memory too, so that what lies past the end gives SIGBUS, and what comes again is read again. Pure.

use crate::address_space::{AddressSpace, PageOps};
use crate::vma::{Backing, Vma};
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use vfs::handle::node_of;

impl AddressSpace {
    /// Takes the pages of a file's bytes from `first` to `end` away, wherever they are mapped; private copies that
    /// the program made of them only with `copies`.
    pub fn cut_file(
        &mut self,
        pages: &mut impl PageOps,
        node: u64,
        (first, end): (u64, u64),
        copies: bool,
    ) -> Result<()> {
        let places: Vec<(u64, u64, bool)> =
            self.areas.iter().filter_map(|area| place_of(area, node, first, end)).collect();
        for (start, end, shared) in places {
            if shared || copies {
                self.drop_pages(pages, start, end)?;
                continue;
            }
            let of_file: Vec<u64> = self.frames.of_files_within(start, end).map(|(at, _)| at).collect();
            for address in of_file {
                self.drop_pages(pages, address, address + PAGE_SIZE)?;
            }
        }
        Ok(())
    }
}

/// Where whole pages of the bytes between two of a file lie in an area, and whether that is shared.
fn place_of(area: &Vma, node: u64, first: u64, end: u64) -> Option<(u64, u64, bool)> {
    let Backing::File { node: of, offset, .. } = area.backing else { return None };
    if node_of(of) != node_of(node) {
        return None;
    }
    let bytes = area.end - area.start;
    let from = first.next_multiple_of(PAGE_SIZE).max(offset);
    let to = end.min(offset.saturating_add(bytes));
    (from < to).then(|| (area.start + (from - offset), area.start + (to - offset), area.shared))
}
