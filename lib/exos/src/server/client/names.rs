//! Operations on paths: names, links and roots.

use super::{Client, Found};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::server::protocol::{self, Request};
use vfs::inode::Status;
use vfs::mount_table::FIRST;
use vfs::namespace::ROOT;

impl Client {
    /// The node of a directory to work in, held.
    pub fn enter(&mut self, at: u64, path: &[u8]) -> Result<Found<u64>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Request::Enter as u64, at, length, 0, 0, 0])?.map(|answer| answer[1]))
    }

    /// Takes a directory as the root.
    pub fn change_root(&mut self, at: u64, path: &[u8]) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Request::ChangeRoot as u64, at, length, 0, 0, 0])?;
        self.has_own_root |= matches!(found, Found::Here(_));
        Ok(found.map(|_| ()))
    }

    /// Learns whether this process began with another root than the first one, where what the server shows begins.
    pub fn learn_root(&mut self) {
        let root = self.status(ROOT, b"/", protocol::FOLLOW);
        let is_first = |status: &Status| status.node == ROOT && *status == status.through(FIRST);
        self.has_own_root = !matches!(root, Ok(Found::Here(status)) if is_first(&status));
    }

    /// Makes a node of any type but a symbolic link.
    pub fn make(&mut self, at: u64, path: &[u8], mode: u32, device: (u32, u32)) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        let device = u64::from(device.1) | u64::from(device.0) << 32;
        Ok(self.on_path([Request::Make as u64, at, u64::from(mode), device, length, 0])?.map(|_| ()))
    }

    /// Removes a name.
    pub fn remove(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Request::Remove as u64, at, flags, length, 0, 0])?.map(|_| ()))
    }

    /// Renames.
    pub fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> Result<()> {
        let lengths = self.put_two(from.1, to.1)?;
        let message = [Request::Rename as u64, from.0, to.0, lengths, u64::from(flags), 0];
        self.on_path(message)?.here(Errno::EXDEV).map(|_| ())
    }

    /// Makes one more name for a node.
    pub fn link(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), flags: u64) -> Result<Found<()>> {
        let lengths = self.put_two(from.1, to.1)?;
        Ok(self.on_path([Request::Link as u64, from.0, to.0, lengths, flags, 0])?.map(|_| ()))
    }

    /// Makes a symbolic link.
    pub fn symbolic_link(&mut self, target: &[u8], at: u64, path: &[u8]) -> Result<Found<()>> {
        let lengths = self.put_two(target, path)?;
        Ok(self.on_path([Request::SymbolicLink as u64, at, lengths, 0, 0, 0])?.map(|_| ()))
    }

    /// Where a symbolic link leads.
    pub fn read_link(&mut self, at: u64, path: &[u8]) -> Result<Found<Vec<u8>>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Request::ReadLink as u64, at, length, 0, 0, 0])?;
        let target = match found {
            Found::Here([_, length, ..]) => self.take(length)?,
            Found::LeavesFs(..) => Vec::new(),
        };
        Ok(found.map(|_| target))
    }

    /// The absolute path of a node.
    pub fn path_of(&mut self, node: u64) -> Result<Vec<u8>> {
        // What is shown is what everybody finds from there.
        let is_root = node == ROOT && self.catalogue().is_some_and(|catalogue| catalogue.kind(ROOT).is_some());
        if is_root { Ok(b"/".to_vec()) } else { self.ask_path(node, false) }
    }

    /// What a node is called that a process holds: where it has no path any more, the one that it had, and `
    /// (deleted)`.
    pub fn shown_path_of(&mut self, node: u64) -> Result<Vec<u8>> {
        match self.ask_path(node, true) {
            Err(Errno::ENOENT) => Ok(b"(deleted)".to_vec()),
            path => path,
        }
    }

    fn ask_path(&mut self, node: u64, former: bool) -> Result<Vec<u8>> {
        self.window()?;
        let [_, length, ..] = self.exchange([Request::PathOf as u64, node, u64::from(former), 0, 0, 0])?;
        self.take(length)
    }

    /// Watches what a path leads to for an instance; the number of the watch.
    pub fn watch(&mut self, instance: u64, at: u64, path: &[u8], mask: u32) -> Result<Found<u64>> {
        let length = self.put_path(path)?;
        let message = [Request::Watch as u64, at, u64::from(mask), instance, length, 0];
        Ok(self.on_path(message)?.map(|answer| answer[1]))
    }
}
