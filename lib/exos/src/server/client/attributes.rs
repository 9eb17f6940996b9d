//! What is told of nodes, and what may be set of it.

use super::{Client, Found};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::server::protocol::{self, AttributeRequest, Request};
use vfs::handle::place_of;
use vfs::inode::Status;

impl Client {
    /// What `stat` tells.
    pub fn status(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<Status>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Request::Status as u64, at, flags, length, 0, 0])?;
        let mut bytes = [0; Status::WORDS * 8];
        if matches!(found, Found::Here(_)) {
            self.window()?.read(0, &mut bytes)?;
        }
        let mut words = [0; Status::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(core::array::from_fn(|index| bytes[index]));
        }
        Ok(found.map(|_| Status::from_words(words)))
    }

    /// What `stat` tells of a node that is held.
    pub fn status_of(&mut self, node: u64) -> Result<Status> {
        let shown = self.catalogue().and_then(|catalogue| catalogue.at(place_of(node)));
        shown.map_or_else(|| self.status(node, b"", protocol::EMPTY_PATH)?.here(Errno::EIO), Ok)
    }

    /// Whether something may be done.
    pub fn access(&mut self, at: u64, path: &[u8], wanted: u64, flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        Ok(self.on_path([Request::Access as u64, at, wanted, flags, length, 0])?.map(|_| ()))
    }

    /// One of the operations that set attributes: `SetMode`, `SetOwner` with one word, `SetTimes` with two.
    pub fn set(&mut self, operation: Request, at: u64, path: &[u8], words: &[u64], flags: u64) -> Result<Found<()>> {
        let length = self.put_path(path)?;
        let message = match words {
            [first, second] => [operation as u64, at, *first, *second, flags, length],
            _ => [operation as u64, at, words[0], flags, length, 0],
        };
        Ok(self.on_path(message)?.map(|_| ()))
    }

    /// Asks for an extended attribute, or changes it: the value, or all names.
    pub fn attribute(
        &mut self,
        (at, path): (u64, &[u8]),
        flags: u64,
        (request, set_flags): (AttributeRequest, u32),
        (name, value): (&[u8], &[u8]),
    ) -> Result<Found<Vec<u8>>> {
        let lengths = self.put_two(path, name)?;
        self.window()?.write((path.len() + name.len()) as u64, value)?;
        let request = protocol::pair(request as usize, set_flags as usize);
        let found = self.on_path([Request::Attribute as u64, at, flags, lengths, request, value.len() as u64])?;
        match found {
            Found::Here([_, length, ..]) => self.take(length).map(Found::Here),
            Found::LeavesFs(node, rest) => Ok(Found::LeavesFs(node, rest)),
        }
    }

    /// What `statfs` tells: pages in all, pages free, nodes, and the kind of file system with the flags of the mount.
    pub fn space(&mut self, at: u64, path: &[u8], flags: u64) -> Result<Found<[u64; 4]>> {
        let length = self.put_path(path)?;
        let found = self.on_path([Request::Space as u64, at, flags, length, 0, 0])?;
        Ok(found.map(|[_, all, free, nodes, kind, _]| [all, free, nodes, kind]))
    }
}
