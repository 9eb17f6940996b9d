//! The mount table: calls that change it, and its text.

use super::{Client, Found};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::server::protocol::{Request, WINDOW_BYTES};

impl Client {
    /// `mount`: target, source, kind and options; the first two begin at nodes.
    pub fn mount(&mut self, at: [u64; 2], texts: [&[u8]; 4], flags: u64) -> Result<Found<()>> {
        let all = texts.concat();
        if all.len() as u64 > WINDOW_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.window()?.write(0, &all)?;
        let lengths = texts.iter().rev().fold(0, |word, text| word << 16 | text.len() as u64);
        Ok(self.on_path([Request::Mount as u64, at[0], at[1], lengths, flags, 0])?.map(|_| ()))
    }

    /// `umount2`.
    pub fn unmount(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Request::Unmount as u64, at, flags, length, 0, 0])?.map(|_| ()))
    }

    /// `pivot_root`.
    pub fn pivot_root(&mut self, new: (u64, &[u8]), put_old: (u64, &[u8])) -> Result<()> {
        let lengths = self.put_two(new.1, put_old.1)?;
        self.exchange([Request::PivotRoot as u64, new.0, put_old.0, lengths, 0, 0]).map(|_| ())
    }

    /// The text of `/proc/self/mountinfo`.
    pub fn mounts(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut lines = 0;
        self.window()?;
        loop {
            let [_, length, more, ..] = self.exchange([Request::Mounts as u64, lines, 0, 0, 0, 0])?;
            text.extend(self.take(length)?);
            lines += more;
            if more == 0 {
                return Ok(text);
            }
        }
    }
}
