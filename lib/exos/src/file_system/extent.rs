//! Holes and data of a file, and room made in advance: `lseek` with SEEK_HOLE and SEEK_DATA, `fallocate`.

use super::contents::{LARGEST, Store};
use super::node::{Body, NodeId};
use super::tree::Tree;
use crate::errno::{Errno, Result};
use crate::layout::PAGE_SIZE;
use linux_raw_sys::general as linux;

impl<S: Store> Tree<S> {
    /// The first byte from `offset` on that lies in a hole, or in data; the end of the file is a hole.
    pub fn seek(&self, id: NodeId, offset: u64, hole: bool) -> Result<u64> {
        let node = self.node(id)?;
        if offset >= node.size {
            return Err(Errno::ENXIO);
        }
        let has_page = |index: u64| match &node.body {
            Body::Pages(pages) => pages.get(index as usize).is_some_and(Option::is_some),
            _ => true,
        };
        let last = (node.size - 1) / PAGE_SIZE;
        let found = (offset / PAGE_SIZE..=last).find(|index| has_page(*index) != hole);
        match found {
            Some(index) => Ok(offset.max(index * PAGE_SIZE)),
            None if hole => Ok(node.size),
            None => Err(Errno::ENXIO),
        }
    }

    /// `fallocate`: makes room for `length` bytes, or takes it away.
    pub fn allocate(&mut self, id: NodeId, mode: u32, offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).filter(|end| *end <= LARGEST).ok_or(Errno::EFBIG)?;
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
        let indices = || (start / PAGE_SIZE) as usize..end.div_ceil(PAGE_SIZE) as usize;
        let Body::Pages(pages) = &self.node(id)?.body else { return Err(Errno::EINVAL) };
        let missing = indices().filter(|index| !matches!(pages.get(*index), Some(Some(_)))).count();
        let mut fresh = alloc::vec::Vec::with_capacity(missing);
        for _ in 0..missing {
            let Ok(page) = self.take_page(id) else {
                let volume = self.node(id)?.volume;
                self.give_pages(volume, fresh);
                return Err(Errno::ENOSPC);
            };
            fresh.push(page);
        }
        let Body::Pages(pages) = &mut self.node_mut(id)?.body else { return Err(Errno::EINVAL) };
        if pages.len() < indices().end {
            pages.resize(indices().end, None);
        }
        for place in pages[indices()].iter_mut().filter(|place| place.is_none()) {
            *place = fresh.pop();
        }
        Ok(())
    }

    /// Makes bytes zero: whole pages become holes.
    fn clear(&mut self, id: NodeId, start: u64, end: u64) -> Result<()> {
        self.bring_into_pages(id)?;
        let end = end.min(self.node(id)?.size.next_multiple_of(PAGE_SIZE));
        let mut at = start;
        while at < end {
            let (index, from) = ((at / PAGE_SIZE) as usize, at % PAGE_SIZE);
            let to = PAGE_SIZE.min(from + (end - at));
            let node = self.node_mut(id)?;
            let volume = node.volume;
            let Body::Pages(pages) = &mut node.body else { return Err(Errno::EINVAL) };
            if from == 0 && to == PAGE_SIZE {
                let page = pages.get_mut(index).and_then(Option::take);
                self.give_pages(volume, page);
            } else if let Some(Some(page)) = pages.get(index).copied() {
                self.store.bytes_mut(page)[from as usize..to as usize].fill(0);
            }
            at += to - from;
        }
        let now = self.now;
        let node = self.node_mut(id)?;
        (node.modified, node.changed) = (now, now);
        Ok(())
    }
}
