//! Holes and data of a file, and room made in advance: `lseek` with SEEK_HOLE and SEEK_DATA, `fallocate`.

use crate::file_data::PageStorage;
use crate::inode::{Body, NodeId};
use crate::namespace::FileTree;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

impl<S: PageStorage> FileTree<S> {
    /// The first byte from `offset` on that lies in a hole, or in data; the end of the file is a hole.
    pub fn seek(&self, id: NodeId, offset: u64, hole: bool) -> Result<u64> {
        let node = self.node(id)?;
        if offset >= node.size {
            return Err(Errno::ENXIO);
        }
        let Body::Pages(_) = &node.body else { return Ok(if hole { node.size } else { offset }) };
        let at = offset / PAGE_SIZE;
        let found = if hole { Some(node.next_hole(at)) } else { node.next_data(at) };
        match found.map(|index| offset.max(index * PAGE_SIZE)).filter(|place| *place < node.size) {
            Some(place) => Ok(place),
            None if hole => Ok(node.size),
            None => Err(Errno::ENXIO),
        }
    }

    /// `fallocate`: makes room for `length` bytes, or takes it away.
    pub fn allocate(&mut self, id: NodeId, mode: u32, offset: u64, length: u64) -> Result<()> {
        let largest = self.largest(id);
        let end = offset.checked_add(length).filter(|end| *end <= largest).ok_or(Errno::EFBIG)?;
        if length == 0 {
            return Err(Errno::EINVAL);
        }
        let keeps_size = mode & linux::FALLOC_FL_KEEP_SIZE != 0;
        match mode & !linux::FALLOC_FL_KEEP_SIZE {
            0 => self.fill_holes(id, offset, end)?,
            linux::FALLOC_FL_PUNCH_HOLE if keeps_size => self.clear(id, offset, end)?,
            linux::FALLOC_FL_ZERO_RANGE => self.clear(id, offset, end)?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        let now = self.now;
        let node = self.node_mut(id)?;
        if !keeps_size && end > node.size {
            node.size = end;
            (node.modified, node.changed) = (now, now);
        }
        self.note_event(id, linux::IN_MODIFY);
        Ok(())
    }

    /// Gives every hole between two places a page; all or nothing.
    fn fill_holes(&mut self, id: NodeId, start: u64, end: u64) -> Result<()> {
        self.bring_into_pages(id)?;
        let (mut at, end) = (start / PAGE_SIZE, end.div_ceil(PAGE_SIZE));
        let node = self.node(id)?;
        let Body::Pages(_) = &node.body else { return Err(Errno::EINVAL) };
        let (mut holes, mut missing) = (Vec::new(), 0);
        loop {
            let first = node.next_hole(at).min(end);
            at = node.next_data(first).map_or(end, |data| data.min(end));
            if first == at {
                break;
            }
            missing += at - first;
            if missing > self.store.room() {
                return Err(Errno::ENOSPC);
            }
            holes.push(first..at);
        }
        let (mut fresh, volume) = (Vec::new(), self.node(id)?.volume);
        for _ in 0..missing {
            match self.take_page(id) {
                Ok(page) => fresh.push(page),
                Err(_) => {
                    self.give_pages(volume, fresh);
                    return Err(Errno::ENOSPC);
                }
            }
        }
        let Body::Pages(pages) = &mut self.node_mut(id)?.body else { return Err(Errno::EINVAL) };
        for (index, page) in holes.iter().cloned().flatten().zip(fresh) {
            pages.put(index, page);
        }
        holes.into_iter().flatten().for_each(|index| self.mark_page(id, index));
        Ok(())
    }

    /// Makes bytes zero: whole pages become holes.
    fn clear(&mut self, id: NodeId, start: u64, end: u64) -> Result<()> {
        self.bring_into_pages(id)?;
        // The last page of the file goes as a whole where all its bytes become zeros.
        let size = self.node(id)?.size;
        let end = if end < size { end } else { size.next_multiple_of(PAGE_SIZE) };
        self.check_loaded_edges(id, start.min(end), end)?;
        self.check_punched(id)?;
        let (first, last) = (start.div_ceil(PAGE_SIZE), end / PAGE_SIZE);
        if first < last {
            self.mark_punched(id, first, last);
        }
        let node = self.node_mut(id)?;
        let volume = node.volume;
        let Body::Pages(pages) = &mut node.body else { return Err(Errno::EINVAL) };
        let whole = if first < last { pages.take(first, last) } else { Vec::new() };
        // What is left is in the page of the first byte, and in that of the last one.
        let edges = [start / PAGE_SIZE, end / PAGE_SIZE].map(|index| (index, pages.get(index)));
        self.give_pages(volume, whole);
        for (index, page) in edges {
            let base = index * PAGE_SIZE;
            let (from, to) = (start.max(base) - base, end.min(base + PAGE_SIZE).saturating_sub(base));
            if let Some(page) = page.filter(|_| from < to) {
                self.store.bytes_mut(page)[from as usize..to as usize].fill(0);
                self.mark_page(id, index);
            }
        }
        let now = self.now;
        let node = self.node_mut(id)?;
        (node.modified, node.changed) = (now, now);
        Ok(())
    }
}
