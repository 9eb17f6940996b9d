//! The bytes and pages of files that a process holds, and the entries of directories.

use super::{Client, cuts};
use crate::hw::domain::domain;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use runtime::PageNumber;
use unix_core::server::protocol::{self, Request, WINDOW_BYTES};

impl Client {
    /// Reads into the program's memory. Fewer bytes than asked for mean the end, unless they are what the window holds.
    pub fn read_to_program(&mut self, node: u64, offset: u64, to: u64, count: u64) -> Result<u64> {
        if let Some(outcome) = self.read_shown(node, offset, to, count) {
            return outcome;
        }
        self.attached()?;
        if count > WINDOW_BYTES
            && let Ok(Some(got)) = self.read_mapped(node, offset, to, count)
        {
            return Ok(got);
        }
        let count = count.min(WINDOW_BYTES);
        let [_, got, ..] = self.exchange([Request::Read as u64, node, offset, count, 0, 0])?;
        let got = got.min(count);
        self.attached()?.copy_to_user(0, to, got).map(|()| got)
    }

    /// Reads more than the window holds, where the server tells the pages: they are mapped for the copy. Nothing where
    /// it does not, or where pages may have left files meanwhile.
    fn read_mapped(&mut self, node: u64, offset: u64, to: u64, count: u64) -> Result<Option<u64>> {
        let before = cuts();
        let [_, got, is_told, ..] = self.exchange([Request::Read as u64, node, offset, count, 0, 0])?;
        let window = self.attached()?;
        if is_told == 0 {
            return window.copy_to_user(0, to, got.min(WINDOW_BYTES)).map(|()| Some(got));
        }
        let (got, within) = (got.min(count), offset % PAGE_SIZE);
        let words = window.words().iter().take((within + got).div_ceil(PAGE_SIZE) as usize);
        let pages = words.map(|word| PageNumber(word.load(Relaxed))).collect();
        let domain = domain();
        let shared = domain.mappings.lock().open_own(pages, domain.session_key, false)?;
        let is_cut = cuts() != before;
        let outcome = if is_cut { Ok(None) } else { shared.copy_to_user(within, to, got).map(|()| Some(got)) };
        domain.mappings.lock().close(&shared);
        outcome
    }

    /// Reads bytes for ExOS itself.
    pub fn read(&mut self, node: u64, offset: u64, count: usize) -> Result<Vec<u8>> {
        self.window()?;
        let mut bytes = vec![0; count];
        let mut done = 0;
        while done < count {
            let wanted = ((count - done) as u64).min(WINDOW_BYTES);
            let [_, got, ..] = self.exchange([Request::Read as u64, node, offset + done as u64, wanted, 0, 0])?;
            let got = got.min(wanted) as usize;
            self.window()?.read(0, &mut bytes[done..done + got])?;
            done += got;
            if got == 0 {
                break;
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Writes from the program's memory, at most what the window holds; the result is how many bytes, and where the
    /// last one ended.
    pub fn write_from_program(&mut self, node: u64, offset: u64, from: u64, count: u64) -> Result<(u64, u64)> {
        self.attached()?.copy_from_user(0, from, count)?;
        let [_, got, end, ..] = self.exchange([Request::Write as u64, node, offset, count, 0, 0])?;
        Ok((got.min(count), end))
    }

    /// Writes bytes of ExOS itself.
    pub fn write(&mut self, node: u64, offset: u64, bytes: &[u8]) -> Result<(u64, u64)> {
        let (mut done, mut end) = (0, offset);
        for some in bytes.chunks(WINDOW_BYTES as usize) {
            self.window()?.write(0, some)?;
            let at = if offset == protocol::APPEND { offset } else { end };
            let [_, got, reached, ..] = self.exchange([Request::Write as u64, node, at, some.len() as u64, 0, 0])?;
            (done, end) = (done + got, reached);
        }
        Ok((done, end))
    }

    /// Sets the size of a file.
    ///
    /// The result: others may still map bytes that went, and are to be told.
    pub fn truncate(&mut self, node: u64, size: u64) -> Result<bool> {
        self.exchange([Request::Truncate as u64, node, size, 0, 0, 0]).map(|answer| answer[1] != 0)
    }

    /// Puts records of `getdents64` for what comes behind an entry into the program's memory: how many bytes, and the
    /// number of the last one.
    pub fn list(&mut self, node: u64, after: u64, to: u64, bytes: u64) -> Result<(u64, u64)> {
        self.window()?;
        let [_, length, last, ..] = self.exchange([Request::List as u64, node, after, bytes, 0, 0])?;
        self.window()?.copy_to_user(0, to, length.min(bytes))?;
        Ok((length.min(bytes), last))
    }

    /// The pages of a file for mapping from index `first` on, as far as they are in memory, else 0; the one at index
    /// `wanted` is brought, to be written by this process or not. False where that lies past the end.
    pub fn pages(&mut self, node: u64, wanted: u64, shared: bool, first: u64, numbers: &mut [u64]) -> Result<bool> {
        let message = [Request::Pages as u64, node, first, numbers.len() as u64, wanted - first, u64::from(shared)];
        let [_, page, near @ ..] = self.exchange(message)?;
        protocol::near_pages(page, near, numbers);
        if page != 0 {
            numbers[(wanted - first) as usize] = page;
        }
        Ok(page != 0)
    }

    /// Of the pages of a file between two indices those that programs touch and that are in memory, in ascending order:
    /// index and number.
    pub fn working_set(&mut self, node: u64, first: u64, end: u64) -> Result<Vec<(u64, u64)>> {
        let window = self.window()?;
        let [_, count, ..] = self.exchange([Request::WorkingSet as u64, node, first, end, 0, 0])?;
        Ok(numbered(window.words(), count))
    }

    /// Seals of a file, after some are added.
    pub fn seal(&self, node: u64, seals: Option<u64>) -> Result<u64> {
        Ok(self.exchange([Request::Seal as u64, node, seals.unwrap_or(u64::MAX), 0, 0, 0])?[1])
    }

    /// Where the next hole, or the next data, begins.
    pub fn seek(&self, node: u64, offset: u64, hole: bool) -> Result<u64> {
        Ok(self.exchange([Request::Seek as u64, node, offset, u64::from(hole), 0, 0])?[1])
    }

    /// `fallocate`; the result is as that of [`Self::truncate`].
    pub fn allocate(&self, node: u64, mode: u32, offset: u64, length: u64) -> Result<bool> {
        let answer = self.exchange([Request::Allocate as u64, node, u64::from(mode), offset, length, 0])?;
        Ok(answer[1] != 0)
    }
}

/// Pages of a file by index and number, as the server tells them.
pub(super) fn numbered(words: &[AtomicU64], count: u64) -> Vec<(u64, u64)> {
    let words = words.iter().take(count as usize).map(|word| word.load(Relaxed));
    words.map(|word| (word & 0xffff_ffff, word >> 32)).collect()
}
