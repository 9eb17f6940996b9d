//! The bytes of files, in pages of a [`Store`]; holes take no page.

use crate::inode::{Body, Inode, NodeId};
use crate::namespace::FileTree;
use crate::page_index::Pages;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Largest file, as on Linux.
pub const LARGEST: u64 = i64::MAX as u64;

/// Where pages of files come from.
pub trait PageStorage {
    /// A page of zeros, by its index in the store.
    fn allocate(&mut self) -> Result<u32>;
    /// The same for what the boot archive holds: a program begins also where files have all that they may have.
    fn allocate_for_archive(&mut self) -> Result<u32> {
        self.allocate()
    }
    /// Pages that it could still give.
    fn room(&self) -> u64;
    /// The tables of the tree are about to grow by so many bytes. Where there is no room, growing fails.
    fn make_room_for(&mut self, bytes: usize) {
        let _ = bytes;
    }
    /// Gives a page back.
    fn free(&mut self, page: u32);
    /// Its bytes.
    fn bytes(&self, page: u32) -> &[u8];
    /// Its bytes, to change them.
    fn bytes_mut(&mut self, page: u32) -> &mut [u8];
    /// The number by which others can map it.
    fn number(&self, page: u32) -> u64;
    /// Whether others may write the page.
    fn is_shared(&self, page: u32) -> bool;
    /// Whether no process maps a page.
    fn is_idle(&self, page: u32) -> bool {
        let _ = page;
        true
    }
    /// Whether, since this was last asked, a page was given back that another process still maps.
    fn left_pages_mapped(&mut self) -> bool {
        false
    }
    /// Others may write the page, for good: it is mapped shared.
    fn share(&mut self, page: u32);
    /// Whether others may write any page.
    fn has_shared(&self) -> bool;
    /// Undoes [`Self::share`], where no process maps the page; whether it could.
    fn unshare(&mut self, page: u32) -> bool;
    /// The boot archive.
    fn archive(&self) -> &[u8];
    /// Copies bytes of the boot archive to the beginning of a page.
    fn copy_from_archive(&mut self, page: u32, start: usize, length: usize);
}

impl<S: PageStorage> FileTree<S> {
    /// Reads up to `count` bytes; `each` gets the pieces in order, with their place in the result.
    pub fn read(&mut self, id: NodeId, offset: u64, count: u64, each: impl FnMut(usize, &[u8])) -> Result<u64> {
        self.read_noted(id, [offset, count], true, each)
    }

    /// The same; `noted`: the time of the last read is kept.
    pub fn read_noted(
        &mut self,
        id: NodeId,
        [offset, count]: [u64; 2],
        noted: bool,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<u64> {
        let count = self.begin_read(id, [offset, count], noted)?;
        match &self.node(id)?.body {
            Body::Archived { start } => {
                let from = start + offset as usize;
                if count > 0 {
                    each(0, &self.store.archive()[from..from + count as usize]);
                }
            }
            Body::Pages(pages) => {
                for (place, index, within) in pieces(offset, count) {
                    match pages.get(index) {
                        Some(page) => each(place, &self.store.bytes(page)[within]),
                        None => each(place, &[0; PAGE_SIZE as usize][within]),
                    }
                }
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(count)
    }

    /// Reads as [`Self::read_noted`] does, but `each` gets the numbers of the pages that the bytes lie in. Nothing
    /// where some lie in no page, or all in fewer than `least`.
    pub fn read_by_pages(
        &mut self,
        id: NodeId,
        [offset, count]: [u64; 2],
        least: u64,
        noted: bool,
        each: impl FnMut(u64),
    ) -> Result<Option<u64>> {
        let node = self.node(id)?;
        let Body::Pages(_) = &node.body else { return Ok(None) };
        let count = count.min(node.size.saturating_sub(offset));
        let (first, end) = (offset / PAGE_SIZE, (offset + count).div_ceil(PAGE_SIZE));
        if end.saturating_sub(first) < least {
            return Ok(None);
        }
        self.check_loaded(id, first, end)?;
        let Body::Pages(pages) = &self.node(id)?.body else { return Ok(None) };
        if pages.hole_within(first, end).is_some() {
            return Ok(None);
        }
        (first..end).filter_map(|index| Some(self.store.number(pages.get(index)?))).for_each(each);
        self.begin_read(id, [offset, count], noted).map(Some)
    }

    /// Records that a part of a file is read, which must be in memory; how many bytes there are.
    fn begin_read(&mut self, id: NodeId, [offset, count]: [u64; 2], noted: bool) -> Result<u64> {
        let now = self.now;
        self.check_loaded(id, offset / PAGE_SIZE, offset.saturating_add(count).div_ceil(PAGE_SIZE))?;
        let node = self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?;
        if node.is_directory() {
            return Err(Errno::EISDIR);
        }
        if noted && node.note_read(now) {
            self.changes.note_read(id);
            self.mark(id);
        }
        let count = count.min(self.node(id)?.size.saturating_sub(offset));
        if count > 0 {
            self.note_event(id, linux::IN_ACCESS);
        }
        Ok(count)
    }

    /// Writes `count` bytes; `each` fills the pieces in order. The result is how many were written: fewer where pages
    /// run out, and the error where not one could be.
    pub fn write(
        &mut self,
        id: NodeId,
        offset: u64,
        count: u64,
        mut each: impl FnMut(usize, &mut [u8]),
    ) -> Result<u64> {
        let largest = self.largest(id);
        let end = offset.checked_add(count).filter(|end| *end <= largest).ok_or(Errno::EFBIG)?;
        if count == 0 {
            return Ok(0);
        }
        self.bring_into_pages(id)?;
        self.check_loaded_edges(id, offset, end)?;
        self.check_room(id, offset, end)?;
        let mut written = 0;
        for (place, index, within) in pieces(offset, count) {
            let length = within.len() as u64;
            match self.page_for_writing(id, index) {
                Ok(page) => {
                    each(place, &mut self.store.bytes_mut(page)[within]);
                    self.mark_page(id, index);
                }
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
            written += length;
        }
        let now = self.now;
        let node = self.contents_mut(id)?;
        node.size = node.size.max(end.min(offset + written));
        (node.modified, node.changed) = (now, now);
        if written > 0 {
            self.note_event(id, linux::IN_MODIFY);
        }
        Ok(written)
    }

    /// Writes `count` bytes at a place, or at the end, within one page that a file has already, where that changes
    /// contents, size and times and nothing else. Returns the node, and where the last byte ended. `fill` says
    /// whether it could. `None`: nothing was done, and [`Self::write`] has to.
    #[inline]
    pub fn write_within_page(
        &mut self,
        id: NodeId,
        place: Option<u64>,
        count: u64,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<(&Inode, u64)> {
        const PLAIN: u32 = linux::S_IFMT | linux::S_ISUID | linux::S_ISGID;
        let node = self.nodes.get_mut(&id)?;
        let offset = place.unwrap_or(node.size);
        let end = offset.checked_add(count).filter(|end| *end <= LARGEST)?;
        let is_usual = node.mode & PLAIN == linux::S_IFREG && node.seals & !linux::F_SEAL_SEAL == 0;
        if count == 0 || count > PAGE_SIZE || !is_usual || !self.watches.is_empty() {
            return None;
        }
        // What a disk keeps is marked on the long way.
        if self.backings.contains_key(&node.volume) {
            return None;
        }
        let Body::Pages(pages) = &node.body else { return None };
        let page = pages.get(offset / PAGE_SIZE)?;
        let within = (offset % PAGE_SIZE) as usize;
        if !fill(self.store.bytes_mut(page).get_mut(within..within + count as usize)?) {
            return None;
        }
        node.size = node.size.max(end);
        (node.modified, node.changed) = (self.now, self.now);
        Some((node, end))
    }

    /// Sets the size; what is cut off is gone, what is added is a hole.
    pub fn truncate(&mut self, id: NodeId, size: u64) -> Result<()> {
        if size > self.largest(id) {
            return Err(Errno::EFBIG);
        }
        self.bring_into_pages(id)?;
        self.check_loaded_edges(id, 0, size.min(self.node(id)?.size))?;
        self.mark_cut(id, size);
        let (now, node) = (self.now, self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?);
        let Body::Pages(pages) = &mut node.body else { return Err(Errno::EINVAL) };
        let cut = pages.take(size.div_ceil(PAGE_SIZE), u64::MAX);
        let last = if size.is_multiple_of(PAGE_SIZE) { None } else { pages.get(size / PAGE_SIZE) };
        node.size = size;
        (node.modified, node.changed) = (now, now);
        let volume = node.volume;
        self.changes.note_contents(id);
        self.give_pages(volume, cut);
        if let Some(page) = last {
            self.store.bytes_mut(page)[(size % PAGE_SIZE) as usize..].fill(0);
        }
        self.note_event(id, linux::IN_MODIFY);
        Ok(())
    }

    /// The page at an index, for mapping, with others able to write it or not; `None` past the end.
    pub fn page(&mut self, id: NodeId, index: u64, shared: bool) -> Result<Option<u64>> {
        if index >= self.node(id)?.size.div_ceil(PAGE_SIZE) {
            return Ok(None);
        }
        self.bring_into_pages(id)?;
        self.check_loaded(id, index, index + 1)?;
        self.check_room(id, index * PAGE_SIZE, (index + 1) * PAGE_SIZE)?;
        let page = self.page_for_writing(id, index)?;
        if shared {
            self.mark_page(id, index);
            self.store.share(page);
            let now = self.now;
            let node = self.contents_mut(id)?;
            (node.modified, node.changed) = (now, now);
        }
        Ok(Some(self.store.number(page)))
    }

    /// The numbers of the pages from an index on, as far as there are pages; the others stay as they are.
    pub fn pages_in_memory(&self, id: NodeId, first: u64, numbers: &mut [u64]) -> Result<()> {
        let node = self.node(id)?;
        let Body::Pages(pages) = &node.body else { return Ok(()) };
        let until = node.size.div_ceil(PAGE_SIZE);
        for (number, index) in numbers.iter_mut().zip(first..until) {
            *number = pages.get(index).map_or(0, |page| self.store.number(page));
        }
        Ok(())
    }

    /// The pages between two that programs touch, as far as there are pages, in ascending order: index, and number in
    /// the upper half.
    pub fn working_set(&mut self, id: NodeId, first: u64, end: u64) -> Result<&[u64]> {
        let node = self.nodes.get(&id).ok_or(Errno::ENOENT)?;
        let Body::Pages(pages) = &node.body else { return Ok(&[]) };
        let number = |index: u64| Some(self.store.number(pages.get(index)?));
        let range = (first, end.min(node.size.div_ceil(PAGE_SIZE)));
        Ok(self.working_sets.within(id, range, pages.changes(), number))
    }

    /// Whether others may write a page of it, whatever its permissions are.
    pub fn has_shared_pages(&self, id: NodeId) -> Result<bool> {
        self.node(id).map(|node| node.pages().any(|page| self.store.is_shared(page)))
    }

    /// The numbers of all its pages.
    pub fn pages_of(&self, id: NodeId) -> impl Iterator<Item = u64> {
        self.node(id).into_iter().flat_map(Inode::pages).map(|page| self.store.number(page))
    }

    /// Copies a file out of the archive into pages of its own; all or nothing.
    pub(crate) fn bring_into_pages(&mut self, id: NodeId) -> Result<()> {
        let node = self.nodes.get_mut(&id).ok_or(Errno::ENOENT)?;
        match node.body {
            Body::Pages(_) => return Ok(()),
            Body::Directory { .. } => return Err(Errno::EISDIR),
            Body::Archived { .. } => {}
            _ => return Err(Errno::EINVAL),
        }
        let Body::Archived { start } = node.body else { return Err(Errno::EINVAL) };
        let (size, volume) = (node.size as usize, node.volume);
        let count = size.div_ceil(PAGE_SIZE as usize);
        let mut pages = Pages::default();
        for index in 0..count {
            let Ok(page) = self.take_page_for_archive(id) else {
                self.give_pages(volume, pages.take(0, u64::MAX));
                return Err(Errno::ENOSPC);
            };
            let from = index * PAGE_SIZE as usize;
            let length = (size - from).min(PAGE_SIZE as usize);
            self.store.copy_from_archive(page, start + from, length);
            pages.put(index as u64, page);
        }
        self.node_mut(id)?.body = Body::Pages(pages);
        Ok(())
    }

    /// Fails where the first or the last page of a range is covered in part and lies on the disk only.
    pub(crate) fn check_loaded_edges(&mut self, id: NodeId, start: u64, end: u64) -> Result<()> {
        for edge in [start, end] {
            if !edge.is_multiple_of(PAGE_SIZE) {
                self.check_loaded(id, edge / PAGE_SIZE, edge / PAGE_SIZE + 1)?;
            }
        }
        Ok(())
    }

    fn page_for_writing(&mut self, id: NodeId, index: u64) -> Result<u32> {
        if let Body::Pages(pages) = &self.node(id)?.body
            && let Some(page) = pages.get(index)
        {
            return Ok(page);
        }
        // What is on the disk already has its block there.
        let has_block = self.node(id)?.on_disk.has(index);
        let page = if has_block { self.take_page_of_block(id)? } else { self.take_page(id)? };
        let node = self.contents_mut(id)?;
        let Body::Pages(pages) = &mut node.body else { return Err(Errno::EINVAL) };
        pages.put(index, page);
        node.on_disk.in_memory += u64::from(has_block);
        Ok(page)
    }
}

/// Cuts `count` bytes from `offset` on at page borders: place in the whole, index of the page, range in it.
fn pieces(offset: u64, count: u64) -> impl Iterator<Item = (usize, u64, core::ops::Range<usize>)> {
    let mut place = 0;
    core::iter::from_fn(move || {
        if place >= count {
            return None;
        }
        let at = offset + place;
        let within = at % PAGE_SIZE;
        let length = (PAGE_SIZE - within).min(count - place);
        let piece = (place as usize, at / PAGE_SIZE, within as usize..(within + length) as usize);
        place += length;
        Some(piece)
    })
}
